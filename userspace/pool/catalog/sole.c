// SPDX-License-Identifier: GPL-2.0
/* What each version of a volume has alone: see sole.h. */
#include <errno.h>

#include "sole.h"
#include "sql.h"

/* A version of the volume, in any state. What a device reads stays, though it be deleted. */
struct seer {
	i64 number;
	i64 is_read;
};

struct pass {
	struct rd_buffer seers;		/* in the order of numbers */
	struct rd_buffer *found;
};

static int read_seers(struct rd_sql *sql, i64 volume, struct rd_buffer *seers)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT number, EXISTS (SELECT 1 FROM lease AS l"
		       " WHERE l.volume = v.volume AND l.number = v.number)"
		       " FROM version AS v WHERE volume = ? ORDER BY number", "i", volume);
	while (!r && (r = rd_row_next(row)) > 0) {
		struct seer seer = {
			.number = rd_row_i64(row, 0),
			.is_read = rd_row_i64(row, 1),
		};

		rd_buffer_put(seers, &seer, sizeof(seer));
		r = seers->failed ? -ENOMEM : 0;
	}
	return r;
}

/* Find the only version that sees a row: it is born with @born, and @next replaces it. */
static const struct seer *only_seer(const struct pass *pass, i64 born, i64 next)
{
	const struct seer *seers = (const struct seer *)pass->seers.data;
	size_t first = 0, end = pass->seers.len / sizeof(*seers), nr = end, middle;

	while (first < end) {
		middle = first + (end - first) / 2;
		if (seers[middle].number < born)
			first = middle + 1;
		else
			end = middle;
	}
	if (first == nr || seers[first].number >= next)
		return NULL;
	return first + 1 < nr && seers[first + 1].number < next ? NULL : &seers[first];
}

static int add_row(struct pass *pass, i64 recipe, i64 born, i64 next)
{
	const struct seer *seer = recipe ? only_seer(pass, born, next) : NULL;
	struct rd_sole sole;

	if (!seer || seer->is_read)
		return 0;
	if (pass->found->len >= RD_SOLE_MAX * sizeof(sole))
		return -E2BIG;
	sole = (struct rd_sole){ .recipe = recipe, .number = seer->number };
	rd_buffer_put(pass->found, &sole, sizeof(sole));
	return pass->found->failed ? -ENOMEM : 0;
}

/* The key has this order, and the next row of a segment ends the time of the last one. */
static int read_rows(struct rd_sql *sql, i64 volume, struct pass *pass)
{
	i64 segment = -1, born = 0, recipe = 0;
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT segment, born, recipe FROM segment"
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

	if (x->recipe != y->recipe)
		return x->recipe < y->recipe ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Does nothing but the @nr rows, which are of one version, name the recipe? */
static int is_named_by(struct rd_sql *sql, i64 recipe, size_t nr, bool *ret)
{
	i64 refs;
	int r = rd_sql_number(sql, &refs, "SELECT refs FROM uses WHERE recipe = ?", "i", recipe);

	*ret = !r && refs == (i64)nr;
	return r == -ENOENT ? 0 : r;
}

/* Keep one for each recipe, and only those that no other row names. */
static int keep_sole(struct rd_sql *sql, struct rd_buffer *found)
{
	struct rd_sole *sole = (struct rd_sole *)found->data;
	size_t i, end, left = 0, nr = found->len / sizeof(*sole);
	bool keep;
	int r = 0;

	for (i = 0; i < nr && !r; i = end) {
		for (end = i + 1; end < nr && !compare_sole(&sole[i], &sole[end]); end++)
			;
		r = is_named_by(sql, sole[i].recipe, end - i, &keep);
		if (keep)
			sole[left++] = sole[i];
	}
	found->len = left * sizeof(*sole);
	return r;
}

int rd_sole_recipes(struct rd_sql *sql, i64 volume, struct rd_buffer *ret)
{
	struct rd_buffer found = { 0 };
	struct pass pass = { .found = &found };
	int r;

	r = read_seers(sql, volume, &pass.seers);
	if (!r)
		r = read_rows(sql, volume, &pass);
	if (!r && found.len)
		qsort(found.data, found.len / sizeof(struct rd_sole), sizeof(struct rd_sole),
		      compare_sole);
	if (!r)
		r = keep_sole(sql, &found);
	if (!r && found.len)
		rd_buffer_put(ret, found.data, found.len);
	r = r ? r : ret->failed ? -ENOMEM : 0;
	rd_buffer_free(&pass.seers);
	rd_buffer_free(&found);
	return r;
}
