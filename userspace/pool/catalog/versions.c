// SPDX-License-Identifier: GPL-2.0
/* Volumes, their versions, and tags. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "version_sql.h"
#include "versions.h"

#define COLUMNS "id, volume, number, uid, state, size, time, sum, dirty, bytes_read," \
	" blocks_changed, bytes_stored, protected, comment, cursor, tracker, epoch,"	\
	" consistent"
#define NR_COLUMNS	18

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

int rd_volume_name(struct rd_sql *sql, i64 id, char **ret)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT name FROM volume WHERE id = ?", "i", id);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -ENOENT;
	*ret = strdup(rd_row_text(row, 0));
	return *ret ? 0 : -ENOMEM;
}

int rd_volumes(struct rd_sql *sql, struct rd_row **ret, const char *name)
{
	return rd_sql_ask(sql, ret, "SELECT id, name FROM volume"
			  " WHERE name = ?1 OR ?1 IS NULL ORDER BY name", "t", name);
}

int rd_next_volume(struct rd_row *rows, struct rd_volume *ret)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	ret->id = rd_row_i64(rows, 0);
	ret->name = rd_row_text(rows, 1);
	return 1;
}

int rd_volume_stats(struct rd_sql *sql, struct rd_row **ret)
{
	/* With max(), the other columns are those of the row where it is. */
	return rd_sql_ask(sql, ret, "SELECT name, count(*), sum(size), max(number), size,"
			  " time, bytes_read, blocks_changed, bytes_stored, consistent,"
			  " sum(NOT consistent)"
			  " FROM version JOIN volume ON volume.id = volume"
			  " WHERE " RD_VERSION_EXISTS " GROUP BY volume ORDER BY name", "");
}

int rd_next_volume_stats(struct rd_row *rows, struct rd_volume_stats *ret)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	*ret = (struct rd_volume_stats){
		.name = rd_row_text(rows, 0),
		.versions = rd_row_i64(rows, 1),
		.logical = rd_row_i64(rows, 2),
		.latest = rd_row_i64(rows, 3),
		.latest_size = rd_row_i64(rows, 4),
		.time = rd_row_i64(rows, 5),
		.bytes_read = rd_row_i64(rows, 6),
		.blocks_changed = rd_row_i64(rows, 7),
		.bytes_stored = rd_row_i64(rows, 8),
		.is_consistent = rd_row_i64(rows, 9),
		.inconsistent = rd_row_i64(rows, 10),
	};
	return 1;
}

/* --- versions */

static void read_version(struct rd_row *row, struct rd_version *version)
{
	const char *comment = rd_row_text(row, 13);

	memset(version, 0, sizeof(*version));
	version->id = rd_row_i64(row, 0);
	version->volume = rd_row_i64(row, 1);
	version->number = rd_row_i64(row, 2);
	version->uid = rd_row_i64(row, 3);
	version->state = rd_row_i64(row, 4);
	version->size = rd_row_i64(row, 5);
	version->time = rd_row_i64(row, 6);
	rd_row_copy(row, 7, &version->sum, sizeof(version->sum));
	version->dirty = rd_row_i64(row, 8);
	version->bytes_read = rd_row_i64(row, 9);
	version->blocks_changed = rd_row_i64(row, 10);
	version->bytes_stored = rd_row_i64(row, 11);
	version->is_protected = rd_row_i64(row, 12);
	snprintf(version->comment, sizeof(version->comment), "%s", comment ? comment : "");
	version->cursor = rd_row_i64(row, 14);
	rd_row_copy(row, 15, version->tracker, sizeof(version->tracker));
	version->epoch = rd_row_i64(row, 16);
	version->is_consistent = rd_row_i64(row, 17);
}

/* Numbers are counted up by 1, and no walk over rows or segments begins below 0. */
static bool is_possible(const struct rd_version *version)
{
	return version->id > 0 && version->volume > 0 && version->number > 0 &&
		version->number < 1LL << 60 && version->size <= RD_VERSION_MAX &&
		(u64)version->cursor <= 1ULL << 60 &&
		(unsigned int)version->state <= RD_VERSION_PARTIAL;
}

int rd_next_version(struct rd_row *rows, struct rd_version *ret)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	read_version(rows, ret);
	if (is_possible(ret))
		return r;
	rd_err(0, "the catalog has a row of a version that cannot be: number %lld, size %llu",
	       ret->number, ret->size);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, NULL);
	return -EUCLEAN;
}

static int one_version(struct rd_row *row, struct rd_version *version)
{
	int r = rd_next_version(row, version);

	return r < 0 ? r : r ? 0 : -ENOENT;
}

/* Read the version that is asked for. */
#define ask_version(sql, version, ...)						\
({										\
	RD_ROW struct rd_row *row_ = NULL;					\
	int r_ = rd_sql_ask(sql, &row_, __VA_ARGS__);				\
										\
	r_ ? r_ : one_version(row_, version);					\
})

int rd_version_load(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version"
			   " WHERE volume = ?1 AND (number = ?2 OR ?2 = 0) AND " RD_VERSION_EXISTS
			   " ORDER BY number DESC LIMIT 1", "ii", volume, number);
}

int rd_version_before(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version"
			   " WHERE volume = ? AND number < ? AND " RD_VERSION_KEPT
			   " ORDER BY number DESC LIMIT 1", "ii", volume, number);
}

int rd_version_after(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version"
			   " WHERE volume = ? AND number > ? AND " RD_VERSION_KEPT
			   " ORDER BY number LIMIT 1", "ii", volume, number);
}

int rd_version_newest(struct rd_sql *sql, const char *name, struct rd_version *version)
{
	i64 volume;
	int r;

	memset(version, 0, sizeof(*version));
	r = rd_volume_find(sql, name, &volume);
	if (!r)
		r = rd_version_before(sql, volume, INT64_MAX, version);
	if (r != -ENOENT)
		return r;
	version->id = 0;
	return 0;
}

int rd_version_by_id(struct rd_sql *sql, i64 id, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version WHERE id = ?", "i", id);
}

int rd_version_insert(struct rd_sql *sql, struct rd_version *version)
{
	int r;

	r = rd_sql_number(sql, &version->number, "UPDATE volume SET"
			  " next_number = max(next_number, ?) + 1"
			  " WHERE id = ? RETURNING next_number - 1", "ii", version->number,
			  version->volume);
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO version(volume, number, uid, state, size, time,"
			       " sum, dirty, bytes_read, blocks_changed, bytes_stored, protected,"
			       " comment, cursor, epoch, consistent)"
			       " VALUES(?, ?, ?, ?, ?, ?, NULL, 0, 0, 0, 0, 0, ?, 0, 0, 1)", "iiiiiit",
			       version->volume, version->number, version->uid,
			       (i64)version->state, (i64)version->size, version->time,
			       version->comment);
	if (!r)
		version->id = rd_sql_last_id(sql);
	return r;
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

int rd_versions_doubt(struct rd_sql *sql, const struct rd_version *last)
{
	return rd_sql_run(sql, "UPDATE version SET consistent = 0 WHERE volume = ?1"
			  " AND number <= ?2 AND number > (SELECT coalesce(max(number), 0)"
			  " FROM version WHERE volume = ?1 AND number <= ?2"
			  " AND epoch != ?4 AND (tracker IS NOT NULL OR epoch != ?3))", "iiii",
			  last->volume, last->number, (i64)RD_EPOCH_LIST, (i64)RD_EPOCH_BITMAP);
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

/* --- which version is meant */

int rd_version_by_time(struct rd_sql *sql, i64 volume, i64 time, i64 *ret_number)
{
	/* A clock that was wrong once: numbers are not in the order of times. */
	return rd_sql_number(sql, ret_number, "SELECT number FROM version WHERE volume = ?"
			     " AND " RD_VERSION_EXISTS " AND time <= ?"
			     " ORDER BY time DESC, number DESC LIMIT 1", "ii", volume, time);
}

int rd_version_by_age(struct rd_sql *sql, i64 volume, i64 nr, i64 *ret_number)
{
	return rd_sql_number(sql, ret_number, "SELECT number FROM version WHERE volume = ?"
			     " AND " RD_VERSION_EXISTS " ORDER BY number DESC LIMIT 1 OFFSET ?",
			     "ii", volume, nr);
}

int rd_version_by_tag(struct rd_sql *sql, i64 volume, const char *tag, i64 *ret_number)
{
	return rd_sql_number(sql, ret_number, "SELECT number FROM tag WHERE volume = ?"
			     " AND tag = ?", "it", volume, tag);
}

int rd_version_time_before(struct rd_sql *sql, i64 volume, i64 number, i64 *ret_time)
{
	return rd_sql_number(sql, ret_time, "SELECT time FROM version WHERE volume = ?"
			     " AND number < ? AND " RD_VERSION_EXISTS
			     " ORDER BY number DESC LIMIT 1", "ii", volume, number);
}

/* --- several versions */

int rd_versions(struct rd_sql *sql, struct rd_row **ret, i64 volume)
{
	return rd_sql_ask(sql, ret, "SELECT " COLUMNS " FROM version WHERE volume = ?"
			  " AND " RD_VERSION_EXISTS " ORDER BY number", "i", volume);
}

int rd_version_is_there(struct rd_sql *sql, i64 volume, i64 uid, rd_sum sum)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_version version;
	int r = rd_versions(sql, &rows, volume);

	while (!r && (r = rd_next_version(rows, &version)) > 0)
		r = version.uid == uid && version.sum == sum;
	return r;
}

int rd_versions_kept(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT " COLUMNS ","
			  " (SELECT name FROM volume WHERE volume.id = version.volume)"
			  " FROM version WHERE " RD_VERSION_KEPT
			  " AND volume IN (SELECT id FROM volume) ORDER BY volume, number", "");
}

int rd_next_kept(struct rd_row *rows, struct rd_version *ret, const char **ret_name)
{
	int r = rd_next_version(rows, ret);

	if (r > 0)
		*ret_name = rd_row_text(rows, NR_COLUMNS);
	return r;
}

int rd_versions_count(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM version WHERE " RD_VERSION_EXISTS,
			  "");
}

int rd_volumes_count(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(DISTINCT volume) FROM version WHERE "
			  RD_VERSION_EXISTS, "");
}

int rd_versions_count_of(struct rd_sql *sql, i64 volume, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM version WHERE volume = ?"
			  " AND " RD_VERSION_EXISTS, "i", volume);
}

int rd_versions_held(struct rd_sql *sql, u64 *ret_nr, u64 *ret_bytes)
{
	i64 held[2];
	int r = rd_sql_numbers(sql, &held, "SELECT count(*), coalesce(sum(size), 0) FROM version"
			       " WHERE state = " RD_STATE(HELD), "");

	if (!r) {
		*ret_nr = held[0];
		*ret_bytes = held[1];
	}
	return r;
}

/* --- tags */

int rd_version_tags(struct rd_sql *sql, struct rd_row **ret, const struct rd_version *version)
{
	return rd_sql_ask(sql, ret, "SELECT tag FROM tag WHERE volume = ?"
			  " AND number = ? ORDER BY tag", "ii", version->volume, version->number);
}

int rd_next_tag(struct rd_row *rows, const char **ret)
{
	int r = rd_row_next(rows);

	if (r > 0)
		*ret = rd_row_text(rows, 0);
	return r;
}

int rd_version_tag(struct rd_sql *sql, const struct rd_version *version, const char *tag)
{
	return rd_sql_run(sql, "INSERT INTO tag VALUES(?, ?, ?)"
			  " ON CONFLICT DO UPDATE SET number = excluded.number", "iti",
			  version->volume, tag, version->number);
}

int rd_version_tag_new(struct rd_sql *sql, const struct rd_version *version, const char *tag)
{
	return rd_sql_run(sql, "INSERT INTO tag VALUES(?, ?, ?) ON CONFLICT DO NOTHING", "iti",
			  version->volume, tag, version->number);
}

int rd_version_untag(struct rd_sql *sql, const struct rd_version *version, const char *tag)
{
	int r;

	r = rd_sql_run(sql, "DELETE FROM tag WHERE volume = ? AND tag = ?"
		       " AND number = ?", "iti", version->volume, tag, version->number);
	return r ? r : rd_sql_changed(sql) ? 0 : -ENOENT;
}

int rd_versions_tagged(struct rd_sql *sql, struct rd_row **ret, const char *tag)
{
	return rd_sql_ask(sql, ret, "SELECT " COLUMNS ","
			  " (SELECT name FROM volume WHERE volume.id = version.volume) AS name"
			  " FROM version WHERE (volume, number) IN"
			  " (SELECT volume, number FROM tag WHERE tag = ?) AND " RD_VERSION_EXISTS
			  " AND volume IN (SELECT id FROM volume) ORDER BY name", "t", tag);
}

int rd_tags_shared(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT tag FROM tag GROUP BY tag HAVING count(*) > 1"
			  " ORDER BY tag", "");
}

int rd_version_kept(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version"
			   " WHERE volume = ? AND number = ? AND " RD_VERSION_KEPT, "ii", volume,
			   number);
}

int rd_version_partial(struct rd_sql *sql, i64 volume, struct rd_version *version)
{
	return ask_version(sql, version, "SELECT " COLUMNS " FROM version WHERE volume = ?"
			   " AND " RD_VERSION_UNFINISHED " AND state = " RD_STATE(PARTIAL), "i",
			   volume);
}

/* --- what a crash or a lease has left to be finished */

int rd_version_next_unborn(struct rd_sql *sql, i64 volume, i64 *ret_id)
{
	return rd_sql_number(sql, ret_id, "SELECT id FROM version WHERE volume = ?"
			     " AND " RD_VERSION_UNFINISHED " AND state = ? LIMIT 1", "ii",
			     volume, (i64)RD_VERSION_WRITING);
}

int rd_version_next_unfinished(struct rd_sql *sql, i64 volume, struct rd_version *version)
{
	i64 id;
	int r;

	r = rd_sql_number(sql, &id, "SELECT id FROM version WHERE volume = ?"
			  " AND " RD_VERSION_UNFINISHED
			  " AND (state IN (?, ?) OR " RD_VERSION_RELEASED ")"
			  " ORDER BY state, number LIMIT 1", "iii", volume,
			  (i64)RD_VERSION_NEW, (i64)RD_VERSION_DELETING);
	return r ? r : rd_version_by_id(sql, id, version);
}

int rd_volume_next_unfinished(struct rd_sql *sql, i64 *id)
{
	return rd_sql_number(sql, id, "SELECT min(volume) FROM"
			     " (SELECT volume FROM version WHERE " RD_VERSION_UNFINISHED
			     " AND (state IN (?, ?, ?) OR " RD_VERSION_RELEASED ")"
			     " UNION SELECT volume FROM superseded) WHERE volume > ?"
			     " HAVING min(volume) IS NOT NULL", "iiii", (i64)RD_VERSION_WRITING,
			     (i64)RD_VERSION_NEW, (i64)RD_VERSION_DELETING, *id);
}
