/* SPDX-License-Identifier: GPL-2.0 */
/* Volumes and their versions: the tables volume, version, tag and segment. */
#ifndef RD_VERSIONS_H
#define RD_VERSIONS_H

#include "pool/data/fp.h"
#include "pool/pool.h"

/* A UUID: that of the metadata device of a target that tracks changes. */
#define RD_TRACKER_SIZE	16

enum rd_version_state {
	RD_VERSION_WRITING,	/* does not exist yet */
	RD_VERSION_NEW,		/* exists; the one before is not reversed yet */
	RD_VERSION_DONE,
	RD_VERSION_DELETING,	/* does not exist any more */
	RD_VERSION_HELD,	/* nor does this, to users: a lease holds its blocks */
};

/* Those that exist, for SQL and for C. */
#define RD_VERSION_EXISTS	"state IN (1, 2)"
/* Those that are versions of their volume to the engine. */
#define RD_VERSION_KEPT		"state IN (1, 2, 4)"
/* Not done: all that the index version_unfinished has, which is used where this stands. */
#define RD_VERSION_UNFINISHED	"state <> 2"
/* Held, by nothing any more: to be deleted by who has the lock of the volume. */
#define RD_VERSION_RELEASED	"(state = 4 AND NOT EXISTS (SELECT 1 FROM lease" \
	" WHERE lease.volume = version.volume AND lease.number = version.number))"

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
	i64 cursor;
	/* Made of what a tracker said had changed; zeros and 0 for images. */
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

/* -ENOENT */
int rd_volume_find(struct rd_sql *sql, const char *name, i64 *ret_id);
/* Makes it where there is none; in a transaction. */
int rd_volume_get(struct rd_sql *sql, const char *name, i64 *ret_id);

/*
 * Versions that exist. @number 0: the newest. -ENOENT.
 */
int rd_version_load(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
/*
 * The newest below @number, the oldest above it, of those that the engine keeps: the
 * newest of all is what the next one is based on.
 */
int rd_version_before(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
int rd_version_after(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);

int rd_version_by_id(struct rd_sql *sql, i64 id, struct rd_version *version);

/* In a transaction. */
int rd_version_insert(struct rd_sql *sql, struct rd_version *version, i64 session);
/* All that is known in the end; before it exists, so nobody else changes it. */
int rd_version_finish(struct rd_sql *sql, const struct rd_version *version);
int rd_version_protect(struct rd_sql *sql, const struct rd_version *version, bool protect);
/* It does not exist any more: its tags go, and its state is that of @version. */
int rd_version_end(struct rd_sql *sql, const struct rd_version *version);
/* Its state and cursor. */
int rd_version_set_state(struct rd_sql *sql, const struct rd_version *version);
int rd_version_remove(struct rd_sql *sql, const struct rd_version *version);

/*
 * The recipes of @nr segments from @first on, as version @number has them: 0 for
 * zeros.
 */
int rd_segments_read(struct rd_sql *sql, i64 volume, i64 number, u64 first, unsigned int nr,
		     i64 *recipes);

#endif
