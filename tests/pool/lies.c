// SPDX-License-Identifier: GPL-2.0
/* A catalog that says what is not so. See lies.h. */
#include <errno.h>
#include <stdio.h>

#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/sql.h"
#include "pool/catalog/version_sql.h"
#include "pool/engine/read/proof.h"
#include "lies.h"

struct row {
	i64 volume, segment, born, recipe;
};

/* --- a row */

static int any_row(struct rd_sql *sql, u64 (*below)(u64 limit), struct row *ret)
{
	RD_ROW struct rd_row *row = NULL;
	i64 nr;
	int r;

	r = rd_sql_number(sql, &nr, "SELECT count(*) FROM segment", "");
	if (r || !nr)
		return r ? r : -ENOENT;
	r = rd_sql_ask(sql, &row, "SELECT volume, segment, born, recipe FROM segment"
		       " LIMIT 1 OFFSET ?", "i", (i64)below(nr));
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -ENOENT;
	*ret = (struct row){
		rd_row_i64(row, 0), rd_row_i64(row, 1), rd_row_i64(row, 2), rd_row_i64(row, 3),
	};
	return 0;
}

/* Zeros are a content as well. */
static int any_other(struct rd_sql *sql, u64 (*below)(u64 limit), i64 recipe, i64 *ret)
{
	i64 nr;
	int r;

	*ret = 0;
	if (recipe && !below(4))
		return 0;
	r = rd_sql_number(sql, &nr, "SELECT count(*) FROM recipe WHERE id <> ?", "i", recipe);
	if (r || !nr)
		return r ? r : -ENOENT;
	return rd_sql_number(sql, ret, "SELECT id FROM recipe WHERE id <> ? LIMIT 1 OFFSET ?",
			     "ii", recipe, (i64)below(nr));
}

/* Does @version see @row? */
static int sees(struct rd_sql *sql, const struct rd_version *version, const struct row *row,
		bool *ret)
{
	i64 later;
	int r;

	*ret = version->volume == row->volume && version->number >= row->born &&
		(u64)row->segment < rd_nr_segs(version->size);
	r = rd_sql_number(sql, &later, "SELECT count(*) FROM segment WHERE volume = ?"
			  " AND segment = ? AND born > ? AND born <= ?", "iiii", row->volume,
			  row->segment, row->born, version->number);
	*ret = *ret && !later;
	return r;
}

static int prove_all(struct rd_pool *pool, const struct row *changed)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_version version;
	bool seen;
	int r, proven;

	r = rd_sql_ask(pool->sql, &row, "SELECT id FROM version WHERE " RD_VERSION_KEPT, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		r = rd_version_by_id(pool->sql, rd_row_i64(row, 0), &version);
		if (!r)
			r = sees(pool->sql, &version, changed, &seen);
		if (r)
			break;
		proven = rd_version_prove(pool, &version);
		if (proven == (seen ? -EUCLEAN : 0))
			continue;
		fprintf(stderr, "lies: version %lld of volume %lld %s the row, and its proof says %d\n",
			version.number, version.volume, seen ? "sees" : "does not see", proven);
		return -1;
	}
	return r;
}

int lies_row(struct rd_pool *pool, u64 (*below)(u64 limit))
{
	struct rd_sql *sql = pool->sql;
	struct row row;
	i64 other;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return -1;
	r = any_row(sql, below, &row);
	if (!r)
		r = any_other(sql, below, row.recipe, &other);
	if (!r)
		r = rd_sql_run(sql, "UPDATE segment SET recipe = ? WHERE volume = ?"
			       " AND segment = ? AND born = ?", "iiii", other, row.volume,
			       row.segment, row.born);
	if (!r)
		r = prove_all(pool, &row);
	rd_sql_rollback(sql);
	return r == -ENOENT ? 0 : r ? -1 : 1;
}

/* --- a tail */

/* 1: it was found out. */
static int lie_tail(struct rd_pool *pool)
{
	struct rd_sql *sql = pool->sql;
	unsigned int next;
	u64 taken;
	i64 frame;
	int r;

	r = rd_sql_number(sql, &frame, "SELECT frame FROM slot_owner WHERE frame < 1 << 36"
			  " ORDER BY random() LIMIT 1", "");
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM tail", "");
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO tail VALUES(?, 0)", "i", frame);
	if (r)
		return r == -ENOENT ? 0 : r;
	r = rd_filling_take_tail(sql, pool->session, &taken, &next);
	if (r == -ENOENT)
		r = rd_filling_take_raw_tail(sql, pool->session, &taken, &next);
	if (!r)
		fprintf(stderr, "lies: frame %lld is in use, and is a tail\n", frame);
	return r == -EUCLEAN ? 1 : -1;
}

int lies_tail(struct rd_pool *pool)
{
	int r = rd_catalog_begin(pool->sql);

	if (!r)
		r = lie_tail(pool);
	rd_sql_rollback(pool->sql);
	return r;
}

/* --- a frame */

int lies_free(struct rd_pool *pool, u64 (*below)(u64 limit))
{
	static const char *const whose[] = {
		"SELECT frame FROM slot_owner WHERE frame < 1 << 36 ORDER BY random() LIMIT 1",
		"SELECT frame FROM journal_frame ORDER BY random() LIMIT 1",
		"SELECT frame FROM queue WHERE frame < 1 << 36 ORDER BY random() LIMIT 1",
		"SELECT frame FROM packing LIMIT 1",
	};
	struct rd_sql *sql = pool->sql;
	u64 start, len, before = below(3);
	i64 frame;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return -1;
	r = rd_sql_number(sql, &frame, whose[below(4)], "");
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM extent", "");
	/* It may be the first of them, or the last. */
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO extent VALUES(max(?1 - ?2, 0), ?2 + 1)", "ii",
			       frame, (i64)before);
	if (!r) {
		r = rd_frames_reserve(sql, pool->session, before + 1, 0, &start, &len);
		if (!r)
			fprintf(stderr, "lies: frame %lld is in use, and was given out\n", frame);
		r = r == -EUCLEAN ? 0 : -1;
	}
	rd_sql_rollback(sql);
	return r == -ENOENT ? 0 : r ? -1 : 1;
}
