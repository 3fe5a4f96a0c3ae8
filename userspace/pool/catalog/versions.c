// SPDX-License-Identifier: GPL-2.0
/* Volumes and their versions. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "versions.h"

#define COLUMNS "id, volume, number, uid, state, size, time, sum, dirty, bytes_read," \
	" blocks_changed, bytes_stored, protected, comment, cursor, tracker, epoch,"	\
	" consistent"

int rd_volume_find(struct rd_sql *sql, const char *name, i64 *ret_id)
{
	return rd_sql_number(sql, ret_id, "SELECT id FROM volume WHERE name = ?", "t", name);
}

int rd_volume_get(struct rd_sql *sql, const char *name, i64 *ret_id)
{
	int r = rd_volume_find(sql, name, ret_id);

	if (r != -ENOENT)
		return r;
	r = rd_sql_run(sql, "INSERT INTO volume(name, next_number, created) VALUES(?, 1, ?)",
		       "ti", name, (i64)time(NULL));
	*ret_id = rd_sql_last_id(sql);
	return r;
}

static void read_version(struct rd_row *row, struct rd_version *version)
{
	const char *comment = rd_row_text(row, 13);
	const void *sum, *tracker;
	size_t len;

	memset(version, 0, sizeof(*version));
	version->id = rd_row_i64(row, 0);
	version->volume = rd_row_i64(row, 1);
	version->number = rd_row_i64(row, 2);
	version->uid = rd_row_i64(row, 3);
	version->state = rd_row_i64(row, 4);
	version->size = rd_row_i64(row, 5);
	version->time = rd_row_i64(row, 6);
	sum = rd_row_blob(row, 7, &len);
	if (sum && len == sizeof(version->sum))
		memcpy(&version->sum, sum, len);
	version->dirty = rd_row_i64(row, 8);
	version->bytes_read = rd_row_i64(row, 9);
	version->blocks_changed = rd_row_i64(row, 10);
	version->bytes_stored = rd_row_i64(row, 11);
	version->is_protected = rd_row_i64(row, 12);
	snprintf(version->comment, sizeof(version->comment), "%s", comment ? comment : "");
	version->cursor = rd_row_i64(row, 14);
	tracker = rd_row_blob(row, 15, &len);
	if (tracker && len == sizeof(version->tracker))
		memcpy(version->tracker, tracker, len);
	version->epoch = rd_row_i64(row, 16);
	version->is_consistent = rd_row_i64(row, 17);
}

static int one_version(struct rd_row *row, struct rd_version *version)
{
	int r = rd_row_next(row);

	if (r <= 0)
		return r ? r : -ENOENT;
	read_version(row, version);
	return 0;
}

int rd_version_load(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT " COLUMNS " FROM version"
		       " WHERE volume = ?1 AND (number = ?2 OR ?2 = 0) AND " RD_VERSION_EXISTS
		       " ORDER BY number DESC LIMIT 1", "ii", volume, number);
	return r ? r : one_version(row, version);
}

int rd_version_before(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT " COLUMNS " FROM version"
		       " WHERE volume = ? AND number < ? AND " RD_VERSION_KEPT
		       " ORDER BY number DESC LIMIT 1", "ii", volume, number);
	return r ? r : one_version(row, version);
}

int rd_version_after(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT " COLUMNS " FROM version"
		       " WHERE volume = ? AND number > ? AND " RD_VERSION_KEPT
		       " ORDER BY number LIMIT 1", "ii", volume, number);
	return r ? r : one_version(row, version);
}

int rd_version_by_id(struct rd_sql *sql, i64 id, struct rd_version *version)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT " COLUMNS " FROM version WHERE id = ?", "i", id);
	return r ? r : one_version(row, version);
}

int rd_version_insert(struct rd_sql *sql, struct rd_version *version, i64 session)
{
	int r;

	r = rd_sql_number(sql, &version->number, "UPDATE volume SET next_number = next_number + 1"
			  " WHERE id = ? RETURNING next_number - 1", "i", version->volume);
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO version(volume, number, uid, state, size, time,"
			       " sum, dirty, bytes_read, blocks_changed, bytes_stored, protected,"
			       " comment, cursor, epoch, consistent)"
			       " VALUES(?, ?, ?, ?, ?, ?, NULL, 0, 0, 0, 0, 0, ?, 0, 0, 1)", "iiiiiit",
			       version->volume, version->number, version->uid,
			       (i64)version->state, (i64)version->size, version->time,
			       version->comment);
	if (r)
		return r;
	version->id = rd_sql_last_id(sql);
	return rd_sql_run(sql, "UPDATE session SET version = ? WHERE id = ?", "ii", version->id,
			  session);
}

int rd_version_finish(struct rd_sql *sql, const struct rd_version *version)
{
	bool tracked = rd_version_is_tracked(version);

	return rd_sql_run(sql, "UPDATE version SET state = ?, sum = ?, dirty = ?, bytes_read = ?,"
			  " blocks_changed = ?, bytes_stored = ?, tracker = ?, epoch = ?,"
			  " consistent = ? WHERE id = ?", "ibiiiibiii",
			  (i64)version->state, &version->sum, sizeof(version->sum),
			  (i64)version->dirty, (i64)version->bytes_read,
			  (i64)version->blocks_changed, (i64)version->bytes_stored,
			  tracked ? version->tracker : NULL, sizeof(version->tracker),
			  (i64)version->epoch, (i64)version->is_consistent, version->id);
}

int rd_version_protect(struct rd_sql *sql, const struct rd_version *version, bool protect)
{
	return rd_sql_run(sql, "UPDATE version SET protected = ? WHERE id = ?", "ii",
			  (i64)protect, version->id);
}

int rd_version_set_state(struct rd_sql *sql, const struct rd_version *version)
{
	return rd_sql_run(sql, "UPDATE version SET state = ?, cursor = ? WHERE id = ?", "iii",
			  (i64)version->state, version->cursor, version->id);
}

int rd_version_end(struct rd_sql *sql, const struct rd_version *version)
{
	int r;

	r = rd_sql_run(sql, "DELETE FROM tag WHERE volume = ? AND number = ?", "ii",
		       version->volume, version->number);
	return r ? r : rd_version_set_state(sql, version);
}

int rd_version_remove(struct rd_sql *sql, const struct rd_version *version)
{
	return rd_sql_run(sql, "DELETE FROM version WHERE id = ?", "i", version->id);
}

int rd_segments_read(struct rd_sql *sql, i64 volume, i64 number, u64 first, unsigned int nr,
		     i64 *recipes)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	memset(recipes, 0, nr * sizeof(*recipes));
	/* Rows of a segment come in the order of birth: the last one holds. */
	r = rd_sql_ask(sql, &row, "SELECT segment, recipe FROM segment"
		       " WHERE volume = ? AND segment >= ? AND segment < ? AND born <= ?"
		       " ORDER BY segment, born", "iiii", volume, (i64)first,
		       (i64)(first + nr), number);
	while (!r && (r = rd_row_next(row)) > 0) {
		recipes[rd_row_i64(row, 0) - first] = rd_row_i64(row, 1);
		r = 0;
	}
	return r;
}
