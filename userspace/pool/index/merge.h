/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Merge runs of like size, so that there are few: of each size, which is four times the one
 * before, there are fewer than a number, the fan. Memory is bounded whatever their size. Of
 * entries with the same key the newest stays.
 */
#ifndef RD_MERGE_H
#define RD_MERGE_H

#include "pool/catalog/db.h"
#include "files.h"

#define RD_MERGE_FAN		4
/* While an index is made, so that most entries are merged once. */
#define RD_MERGE_WIDE		64

/*
 * Merge, unless another process does. Entries of frames that no recipe of @sql has go; NULL:
 * all stay. What fails has been told.
 */
void rd_merge(struct rd_files *files, struct rd_sql *sql, unsigned int fan);

/* Merge all runs into one, but for the last number of RD_MERGE_WIDE. */
void rd_merge_all(struct rd_files *files);

#endif
