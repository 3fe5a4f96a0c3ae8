/* SPDX-License-Identifier: GPL-2.0 */
/* Volumes and their versions: the tables volume, version, tag and segment. */
#ifndef RD_VERSIONS_H
#define RD_VERSIONS_H

#include "fp.h"
#include "pool.h"

enum rd_version_state {
	RD_VERSION_WRITING,	/* does not exist yet */
	RD_VERSION_NEW,		/* exists; the one before is not reversed yet */
	RD_VERSION_DONE,
	RD_VERSION_DELETING,	/* does not exist any more */
};

/* Those that exist, for SQL and for C. */
#define RD_VERSION_EXISTS	"state IN (1, 2)"

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
};

static inline bool rd_version_exists(const struct rd_version *version)
{
	return version->state == RD_VERSION_NEW || version->state == RD_VERSION_DONE;
}

/* -ENOENT */
int rd_volume_find(struct rd_sql *sql, const char *name, i64 *ret_id);
/* Makes it where there is none; in a transaction. */
int rd_volume_get(struct rd_sql *sql, const char *name, i64 *ret_id);

/*
 * Versions that exist. @number 0: the newest. -ENOENT.
 */
int rd_version_load(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
/* The newest below @number, the oldest above it. */
int rd_version_before(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);
int rd_version_after(struct rd_sql *sql, i64 volume, i64 number, struct rd_version *version);

int rd_version_by_id(struct rd_sql *sql, i64 id, struct rd_version *version);

/* In a transaction. */
int rd_version_insert(struct rd_sql *sql, struct rd_version *version, i64 session);
/* All that is known in the end; before it exists, so nobody else changes it. */
int rd_version_finish(struct rd_sql *sql, const struct rd_version *version);
int rd_version_protect(struct rd_sql *sql, const struct rd_version *version, bool protect);
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
