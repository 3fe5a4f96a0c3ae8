// SPDX-License-Identifier: GPL-2.0
/* What each version of a volume has alone: see sole.h. */
#include <errno.h>
#include <stdio.h>

#include "base/sort.h"
#include "sole.h"
#include "sql.h"

/* A version of the volume, in any state. What a device reads stays, though it be deleted. */
struct seer {
	i64 number;
	i64 is_read;
};

struct pass {
	struct rd_sql *sql;
	const char *dying;		/* versions that all go, as make_list(); NULL: each alone */
	struct rd_buffer seers;		/* in the order of numbers; with @dying: those that stay */
	struct rd_buffer found;
};

static int read_seers(struct pass *pass, i64 volume)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	pass->seers.len = 0;
	r = rd_sql_ask(pass->sql, &row, "SELECT * FROM (SELECT number, EXISTS (SELECT 1"
		       "  FROM lease AS l WHERE l.volume = v.volume AND l.number = v.number) AS is_read,"
		       "  id IN (SELECT value FROM json_each(?2)) AS goes"
		       "  FROM version AS v WHERE volume = ?1)"
		       " WHERE is_read OR NOT goes ORDER BY number", "it", volume,
		       pass->dying ? pass->dying : "[]");
	while (!r && (r = rd_row_next(row)) > 0) {
		struct seer seer = {
			.number = rd_row_i64(row, 0),
			.is_read = rd_row_i64(row, 1),
		};

		r = rd_buffer_put(&pass->seers, &seer, sizeof(seer));
	}
	return r;
}

/* Find the seers of a row that is born with @born, and that @next replaces. */
static size_t find_seers(const struct pass *pass, i64 born, i64 next,
			 const struct seer **ret_first)
{
	const struct seer *seers = (const struct seer *)pass->seers.data;
	size_t nr = pass->seers.len / sizeof(*seers);
	size_t first = rd_count_below(nr, i, seers[i].number < born);

	*ret_first = &seers[first];
	if (first == nr || seers[first].number >= next)
		return 0;
	return first + 1 < nr && seers[first + 1].number < next ? 2 : 1;
}

static int add_row(struct pass *pass, i64 recipe, i64 born, i64 next)
{
	const struct seer *seer = NULL;
	size_t nr = recipe ? find_seers(pass, born, next, &seer) : 2;
	struct rd_sole sole = { .recipe = recipe };

	if (pass->dying && nr)
		return 0;
	if (!pass->dying) {
		if (nr != 1 || seer->is_read)
			return 0;
		if (pass->found.len >= RD_SOLE_MAX * sizeof(sole))
			return -E2BIG;
		sole.number = seer->number;
	}
	return rd_buffer_put(&pass->found, &sole, sizeof(sole));
}

/* The key has this order, and the next row of a segment ends the time of the last one. */
static int read_rows(struct pass *pass, i64 volume)
{
	i64 segment = -1, born = 0, recipe = 0;
	RD_ROW struct rd_row *row = NULL;
	int r = read_seers(pass, volume);

	if (!r)
		r = rd_sql_ask(pass->sql, &row, "SELECT segment, born, recipe FROM segment"
			       " WHERE volume = ? ORDER BY segment, born", "i", volume);
	while (!r && (r = rd_row_next(row)) > 0) {
		bool is_next = rd_row_i64(row, 0) == segment;

		r = add_row(pass, recipe, born, is_next ? rd_row_i64(row, 1) : INT64_MAX);
		segment = rd_row_i64(row, 0);
		born = rd_row_i64(row, 1);
		recipe = rd_row_i64(row, 2);
	}
	return r ? r : add_row(pass, recipe, born, INT64_MAX);
}

/* --- */

static int compare_sole(const void *a, const void *b)
{
	const struct rd_sole *x = a, *y = b;

	return rd_order(x->recipe, y->recipe) ? : rd_order(x->number, y->number);
}

/* Does nothing but the @nr rows, which were found, name the recipe? */
static int is_named_by(struct rd_sql *sql, i64 recipe, size_t nr, bool *ret)
{
	i64 refs;
	int r = rd_sql_number(sql, &refs, "SELECT refs FROM uses WHERE recipe = ?", "i", recipe);

	*ret = !r && refs == (i64)nr;
	return r == -ENOENT ? 0 : r;
}

/* Append one for each recipe, and only those that no other row names. */
static int keep_sole(struct pass *pass, struct rd_buffer *ret)
{
	const struct rd_sole *sole = (const struct rd_sole *)pass->found.data;
	size_t i, end, nr = pass->found.len / sizeof(*sole);
	bool keep;
	int r = 0;

	rd_sort_buffer(&pass->found, sizeof(*sole), compare_sole);
	for (i = 0; i < nr && !r; i = end) {
		for (end = i + 1; end < nr && !compare_sole(&sole[i], &sole[end]); end++)
			;
		r = is_named_by(pass->sql, sole[i].recipe, end - i, &keep);
		if (keep)
			rd_buffer_put(ret, &sole[i], sizeof(*sole));
	}
	return r ? r : ret->failed ? -ENOMEM : 0;
}

static void free_pass(struct pass *pass)
{
	rd_buffer_free(&pass->seers);
	rd_buffer_free(&pass->found);
}

int rd_sole_recipes(struct rd_sql *sql, i64 volume, struct rd_buffer *ret)
{
	struct pass pass = { .sql = sql };
	int r = read_rows(&pass, volume);

	if (!r)
		r = keep_sole(&pass, ret);
	free_pass(&pass);
	return r;
}

/* --- versions that go together */

/* A list in JSON, which SQLite reads. */
static int make_list(const i64 *ids, size_t nr, struct rd_buffer *list)
{
	char text[24];
	size_t i;

	rd_buffer_put(list, "[", 1);
	for (i = 0; i < nr; i++) {
		snprintf(text, sizeof(text), "%s%lld", i ? "," : "", ids[i]);
		rd_buffer_put(list, text, strlen(text));
	}
	return rd_buffer_put(list, "]", 2);
}

static int read_volumes(struct pass *pass)
{
	RD_ROW struct rd_row *row = NULL;
	i64 volume;
	int r;

	r = rd_sql_ask(pass->sql, &row, "SELECT DISTINCT volume FROM version"
		       " WHERE id IN (SELECT value FROM json_each(?))", "t", pass->dying);
	while (!r && (r = rd_next_id(row, &volume)) > 0)
		r = read_rows(pass, volume);
	return r;
}

int rd_sole_together(struct rd_sql *sql, const i64 *ids, size_t nr, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer list = { 0 };
	struct pass pass = { .sql = sql };
	int r = make_list(ids, nr, &list);

	pass.dying = (const char *)list.data;
	if (!r)
		r = read_volumes(&pass);
	if (!r)
		r = keep_sole(&pass, ret);
	free_pass(&pass);
	return r;
}
