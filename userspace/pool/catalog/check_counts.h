/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checks of the catalog that are questions to it: what its tables say of each other, and
 * what maps have, which engine/check.c counts into two temporary tables. Nothing here uses
 * the functions that count.
 */
#ifndef RD_CHECK_COUNTS_H
#define RD_CHECK_COUNTS_H

#include "db.h"

/* Is no other session than @session there, and no version in the middle of anything? */
int rd_check_is_alone(struct rd_sql *sql, i64 session, bool *ret);

/* What SQLite says is wrong with the file: @wrong for each. */
int rd_check_file(struct rd_sql *sql, void (*wrong)(void *ctx, const char *text), void *ctx);

/* --- what the maps have */

int rd_check_begin(struct rd_sql *sql);
int rd_check_end(struct rd_sql *sql);

/* The map of @recipe has @n slots of @frame; it refers @n times to @target. */
int rd_check_found_slots(struct rd_sql *sql, u64 frame, i64 recipe, i64 n);
int rd_check_found_refs(struct rd_sql *sql, i64 target, i64 recipe, i64 n);

/* Ask for the frames that were found: rd_next_frame(); for the recipes of one: rd_next_id(). */
int rd_check_frames(struct rd_sql *sql, struct rd_row **ret);
int rd_check_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame);

/* --- questions */

/* Two numbers of each thing that is wrong; @what says which. */
typedef void rd_check_pair(void *ctx, const char *what, i64 a, i64 b);

/* Counts and rows of segments; what newest versions name only if the caller is @alone. */
int rd_check_counts(struct rd_sql *sql, bool alone, rd_check_pair *wrong, void *ctx);

/* What a device reads is there, even if the user has deleted it. */
int rd_check_leases(struct rd_sql *sql, rd_check_pair *wrong, void *ctx);

/* Call @span for frames in a row, and whose they are. */
int rd_check_spans(struct rd_sql *sql,
		   int (*span)(void *ctx, const char *what, u64 start, u64 len), void *ctx);

#endif
