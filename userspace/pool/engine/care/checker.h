/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of a check share: check.c (the whole of it) calls check_maps.c (recipes, and
 * the segments that versions have) and check_frames.c (frames and the data area), which report
 * to checker.c.
 */
#ifndef RD_CHECKER_H
#define RD_CHECKER_H

#include "base/buffer.h"
#include "pool/catalog/recipes.h"
#include "check.h"

struct checker {
	struct rd_pool *pool;
	struct rd_sql *sql;
	struct rd_check_report *report;
	struct rd_hasher *hasher;
	bool with_area;		/* not the catalog alone */
	bool alone;		/* no other command has begun something */
	bool copy_is_bad;	/* the copy of the catalog, if the doubt about it holds */
	/*
	 * Sentences, each with its zero, about differences from the data area, which may
	 * be newer than the transaction that reads the catalog.
	 */
	struct rd_buffer doubtful;
};

/* Report an error; or, below, one that counts only if no other command is at work. */
__attribute__((format(printf, 2, 3)))
void rd_check_wrong(struct checker *check, const char *fmt, ...);

__attribute__((format(printf, 2, 3)))
void rd_check_doubt(struct checker *check, const char *fmt, ...);

/* --- check_maps.c */

/* Follow each recipe, and count what its map has into the tables of check_counts.h. */
int rd_check_recipes(struct checker *check);

/* Compare the segments that each version has with the version's sum. */
int rd_check_versions(struct checker *check);

/* --- check_frames.c */

/* Count what packs have into the tables of check_counts.h. */
int rd_check_packs(struct checker *check);

/* Is each frame in one table, and in no other? */
int rd_check_frame_tables(struct checker *check);

/* Compare frames that are in use, and those that are free, with the data area. */
int rd_check_used(struct checker *check);
int rd_check_free(struct checker *check);

#endif
