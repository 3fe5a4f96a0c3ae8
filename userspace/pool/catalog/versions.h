/* SPDX-License-Identifier: GPL-2.0 */
/* Volumes, their versions, and the tags of these: the tables volume, version, tag. */
#ifndef RD_VERSIONS_H
#define RD_VERSIONS_H

#include "pool/data/fp.h"
#include "db.h"

/* A UUID: that of the metadata device of a target that tracks changes. */
#define RD_TRACKER_SIZE	16

/* The states as numbers, of which version_sql.h makes texts of SQL. */
#define RD_STATE_WRITING	0
#define RD_STATE_NEW		1
#define RD_STATE_DONE		2
#define RD_STATE_DELETING	3
#define RD_STATE_HELD		4
#define RD_STATE_PARTIAL	5

enum rd_version_state {
	RD_VERSION_WRITING = RD_STATE_WRITING,	/* does not exist yet */
	RD_VERSION_NEW = RD_STATE_NEW,		/* exists; the one before is not reversed yet */
	RD_VERSION_DONE = RD_STATE_DONE,
	RD_VERSION_DELETING = RD_STATE_DELETING,	/* does not exist any more */
	RD_VERSION_HELD = RD_STATE_HELD,	/* deleted to users: a lease holds its blocks */
	/* Does not exist yet: what has arrived of it waits for the rest. */
	RD_VERSION_PARTIAL = RD_STATE_PARTIAL,
};

/* A version is no larger: whatever walks over its segments ends, if a stranger wrote its row. */
#define RD_VERSION_MAX	(512ULL << 40)

struct rd_version {
	i64 id;
	i64 volume;
	i64 number;
	i64 uid;
	enum rd_version_state state;
	u64 size;
	i64 time;
	rd_sum sum;
	u64 dirty;
	u64 bytes_read;
	u64 blocks_changed;
	u64 bytes_stored;
	bool is_protected;
	char comment[256];
	i64 cursor;		/* rows below it are reversed, or, PARTIAL, have arrived */
	/* The tracker whose list of changes was read, and its epoch; zeros for images. */
	u8 tracker[RD_TRACKER_SIZE];
	u64 epoch;
	/* False: its source may have been written while it was read. */
	bool is_consistent;
};

static inline bool rd_version_exists(const struct rd_version *version)
{
	return version->state == RD_VERSION_NEW || version->state == RD_VERSION_DONE;
}

static inline bool rd_version_is_tracked(const struct rd_version *version)
{
	return !rd_is_zero(version->tracker, sizeof(version->tracker));
}

/*
 * The epoch of a version of which only what a list named was read, and no target has made that:
 * without a tracker; and with one that stands for a bitmap, see pool/served/bitmap.h.
 */
#define RD_EPOCH_LIST	1
#define RD_EPOCH_BITMAP	INT64_MAX

/* Is it right only if a list of changes was, which no target has made? */
static inline bool rd_version_is_by_list(const struct rd_version *version)
{
	return version->epoch == RD_EPOCH_BITMAP ||
		(!rd_version_is_tracked(version) && version->epoch == RD_EPOCH_LIST);
}

/* --- volumes */

/* Find the volume @name. -ENOENT. */
int rd_volume_find(struct rd_sql *sql, const char *name, i64 *ret_id);
/* Find the volume, or make it; in a transaction. */
int rd_volume_get(struct rd_sql *sql, const char *name, i64 *ret_id);
/* Copy the name of a volume; the caller frees it. -ENOENT. */
int rd_volume_name(struct rd_sql *sql, i64 id, char **ret);

struct rd_volume {
	i64 id;
	const char *name;
};

/* Ask for the volume @name, or for all (NULL), by name: rd_next_volume(). */
int rd_volumes(struct rd_sql *sql, struct rd_row **ret, const char *name);
int rd_next_volume(struct rd_row *rows, struct rd_volume *ret);

/* Versions that exist; the second half is of the newest one. */
struct rd_volume_stats {
	const char *name;
	u64 versions;
	u64 logical;		/* their sizes together */
	u64 inconsistent;	/* how many may have been written while they were read */

	u64 latest;		/* its number */
	u64 latest_size;
	i64 time;
	u64 bytes_read;
	u64 blocks_changed;
	u64 bytes_stored;
	u64 is_consistent;	/* 0 or 1 */
};

/* Ask for volumes that have versions, by name: rd_next_volume_stats(). */
int rd_volume_stats(struct rd_sql *sql, struct rd_row **ret);
int rd_next_volume_stats(struct rd_row *rows, struct rd_volume_stats *ret);

/* --- versions */

/* Load a version that exists; @number 0: the newest. -ENOENT. */
int rd_version_load(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
/*
 * Load the newest version below @number, or the oldest above it, of those that the engine
 * keeps. The next snapshot is based on the newest of all.
 */
int rd_version_before(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
int rd_version_after(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);

/* Load the newest one of the volume @name that the engine keeps; id 0: there is none. */
int rd_version_newest(struct rd_sql *sql, const char *name, struct rd_version *version);

int rd_version_by_id(struct rd_sql *sql, i64 id, struct rd_version *version);

/*
 * Insert a version that does not exist yet; in a transaction. It gets the number that @version
 * has, or the next one, if that is greater.
 */
int rd_version_insert(struct rd_sql *sql, struct rd_version *version);
/* Write all columns of a version that does not exist yet: no other command changes it. */
int rd_version_finish(struct rd_sql *sql, const struct rd_version *version);
/*
 * Mark @last, and the versions before it down to one of which all was read, as not consistent: a
 * list of changes was wrong.
 */
int rd_versions_doubt(struct rd_sql *sql, const struct rd_version *last);
int rd_version_protect(struct rd_sql *sql, const struct rd_version *version, bool protect);
/* Remove the tags of a version that the user has deleted, and write its state. */
int rd_version_end(struct rd_sql *sql, const struct rd_version *version);
/* Write its state and cursor. */
int rd_version_set_state(struct rd_sql *sql, const struct rd_version *version);
int rd_version_remove(struct rd_sql *sql, const struct rd_version *version);

/*
 * Find the number of a version that exists: the last one from @time or before, the one that
 * is @nr versions before the newest, or, in any state, the one with @tag. -ENOENT.
 */
int rd_version_by_time(struct rd_sql *sql, i64 volume, i64 time, i64 *ret_number);
int rd_version_by_age(struct rd_sql *sql, i64 volume, i64 nr, i64 *ret_number);
int rd_version_by_tag(struct rd_sql *sql, i64 volume, const char *tag, i64 *ret_number);

/* Find the time of the last version before @number that exists. -ENOENT. */
int rd_version_time_before(struct rd_sql *sql, i64 volume, i64 number, i64 *ret_time);

/* Has @volume a version that exists with this uid and content? */
int rd_version_is_there(struct rd_sql *sql, i64 volume, i64 uid, rd_sum sum);

/* Ask for the versions of @volume that exist, oldest first: rd_next_version(). */
int rd_versions(struct rd_sql *sql, struct rd_row **ret, i64 volume);
int rd_next_version(struct rd_row *rows, struct rd_version *ret);

/*
 * Ask for all versions that the engine keeps, by volume and number: rd_next_kept(). *@ret_name:
 * of the volume, until the next row.
 */
int rd_versions_kept(struct rd_sql *sql, struct rd_row **ret);
int rd_next_kept(struct rd_row *rows, struct rd_version *ret, const char **ret_name);

/* Count the versions that exist, in all volumes or in @volume. */
int rd_versions_count(struct rd_sql *sql, u64 *ret);
int rd_versions_count_of(struct rd_sql *sql, i64 volume, u64 *ret);

/* Count the volumes that have such a version. */
int rd_volumes_count(struct rd_sql *sql, u64 *ret);

/* Count the versions that are HELD, and add up their sizes. */
int rd_versions_held(struct rd_sql *sql, u64 *ret_nr, u64 *ret_bytes);

/* --- tags */

/* Ask for the tags of @version, by name: rd_next_tag(). */
int rd_version_tags(struct rd_sql *sql, struct rd_row **ret, const struct rd_version *version);
int rd_next_tag(struct rd_row *rows, const char **ret);

/* Move @tag to @version from the version of the volume that has it, if any. */
int rd_version_tag(struct rd_sql *sql, const struct rd_version *version, const char *tag);
/* Give @tag to @version, unless another version of the volume has it. */
int rd_version_tag_new(struct rd_sql *sql, const struct rd_version *version, const char *tag);
/* Ask for the versions with @tag, of all volumes, by the name of the volume: rd_next_kept(). */
int rd_versions_tagged(struct rd_sql *sql, struct rd_row **ret, const char *tag);
/* Ask for the tags that versions of more than one volume have, by name: rd_next_tag(). */
int rd_tags_shared(struct rd_sql *sql, struct rd_row **ret);
/* Remove @tag from @version. -ENOENT: it has no such tag. */
int rd_version_untag(struct rd_sql *sql, const struct rd_version *version, const char *tag);

/* Load a version that the engine keeps, HELD or not. -ENOENT. */
int rd_version_kept(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);

/* Find the PARTIAL version of @volume, which has one at most. -ENOENT. */
int rd_version_partial(struct rd_sql *sql, i64 volume, struct rd_version *version);

/* --- versions that a crash or a lease left unfinished */

/* Find a version that does not exist yet. -ENOENT: the volume has none. */
int rd_version_next_unborn(struct rd_sql *sql, i64 volume, i64 *ret_id);
/*
 * Find the version of @volume to finish next: NEW, DELETING, or HELD without a lease. A NEW
 * version comes first: the version before it must be reversed before it is deleted. -ENOENT.
 */
int rd_version_next_unfinished(struct rd_sql *sql, i64 volume, struct rd_version *version);
/*
 * Find the next volume after *@id with such a version, one that was being undone, or with
 * superseded recipes, and set *@id. -ENOENT: no more.
 */
int rd_volume_next_unfinished(struct rd_sql *sql, i64 *id);

#endif
