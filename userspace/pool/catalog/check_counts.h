/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Check the catalog with SQL: compare its tables with each other, and with two temporary
 * tables into which check.c counts the entries of all maps. None of the code that
 * keeps the counts is used here.
 */
#ifndef RD_CHECK_COUNTS_H
#define RD_CHECK_COUNTS_H

#include "db.h"

/* Is @session the only session, and is every version finished? */
int rd_check_is_alone(struct rd_sql *sql, i64 session, bool *ret);

/* Call @wrong for each error that SQLite finds in the file. */
int rd_check_file(struct rd_sql *sql, void (*wrong)(void *ctx, const char *text), void *ctx);

/* --- counts of the maps' entries */

int rd_check_begin(struct rd_sql *sql);
int rd_check_end(struct rd_sql *sql);

/* Note that the map of @recipe has @n slots of @frame, or refers to @target @n times. */
int rd_check_found_slots(struct rd_sql *sql, u64 frame, i64 recipe, i64 n);
int rd_check_found_refs(struct rd_sql *sql, i64 target, i64 recipe, i64 n);

/* Ask for the frames that were noted: rd_next_frame(); for recipes of @frame: rd_next_id(). */
int rd_check_frames(struct rd_sql *sql, struct rd_row **ret);
int rd_check_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame);

/* --- questions */

/* Called for each error, with two numbers; @what says what they are. */
typedef void rd_check_pair(void *ctx, const char *what, i64 a, i64 b);

/* Check counts and rows of segments; counts of newest versions only if @alone. */
int rd_check_counts(struct rd_sql *sql, bool alone, rd_check_pair *wrong, void *ctx);

/* Check that each version that a device reads exists, even if the user deleted it. */
int rd_check_leases(struct rd_sql *sql, rd_check_pair *wrong, void *ctx);

/* Call @span for each run of frames, with what the frames are. */
int rd_check_spans(struct rd_sql *sql,
		   int (*span)(void *ctx, const char *what, u64 start, u64 len), void *ctx);

#endif
