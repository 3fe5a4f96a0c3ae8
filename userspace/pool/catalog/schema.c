// SPDX-License-Identifier: GPL-2.0
/* The schema of a catalog that a stranger may have made; see schema.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "schema.h"
#include "sql.h"

#define COLUMNS	4	/* sql is the last */

static bool is_mark(char c)
{
	return c && strchr("(),", c);
}

/* Append @text, with blanks only where they part words: programs have not had the same. */
static void put_words(struct rd_buffer *to, const char *text)
{
	char before = '(';

	for (; *text; text++) {
		if (!isspace((unsigned char)*text)) {
			before = *text;
			rd_buffer_put_u8(to, before);
			continue;
		}
		while (isspace((unsigned char)text[1]))
			text++;
		if (!is_mark(before) && text[1] && !is_mark(text[1]))
			rd_buffer_put_u8(to, ' ');
	}
}

/* Append a row as one text, with its end. */
static int put_row(struct rd_buffer *to, struct rd_row *row)
{
	unsigned int i;

	for (i = 0; i < COLUMNS; i++) {
		const char *text = rd_row_text(row, i);

		put_words(to, text ? text : "");
		rd_buffer_put_u8(to, i < COLUMNS - 1 ? '\n' : '\0');
	}
	return to->failed ? -ENOMEM : 0;
}

static int ask(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT type, name, tbl_name, sql FROM main.sqlite_master", "");
}

static int read_all(struct rd_sql *sql, struct rd_buffer *to)
{
	RD_ROW struct rd_row *row = NULL;
	int r = ask(sql, &row);

	while (!r && (r = rd_row_next(row)) > 0)
		r = put_row(to, row);
	return r;
}

static bool has(const struct rd_buffer *all, const char *text)
{
	const char *at = (const char *)all->data, *end = at + all->len;

	for (; at < end; at += strlen(at) + 1)
		if (!strcmp(at, text))
			return true;
	return false;
}

static int refuse(const char *path, struct rd_row *row)
{
	const char *type = rd_row_text(row, 0), *name = rd_row_text(row, 1);

	rd_err(0, "the catalog '%s' has the %.20s '%.80s' that no revdedup makes", path,
	       type ? type : "row", name ? name : "");
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

int rd_schema_compare(struct rd_sql *sql, struct rd_sql *made, const char *path)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_buffer all = { 0 }, text = { 0 };
	int r;

	r = read_all(made, &all);
	if (!r)
		r = ask(sql, &row);
	while (!r && (r = rd_row_next(row)) > 0) {
		text.len = 0;
		r = put_row(&text, row);
		if (!r && !has(&all, (const char *)text.data))
			r = refuse(path, row);
	}
	rd_buffer_free(&all);
	rd_buffer_free(&text);
	return r;
}
