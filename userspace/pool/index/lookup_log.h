/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What inline snapshots looked up, in files of the index, a line each:
 *
 *	SUM 1 TIME NUMBER COUNT... VOLUME
 *
 * SUM is the CRC-32C, in 8 hexadecimal digits, of all behind the blank that follows it, without
 * the end of the line; 1 is the number of this format. The version is VOLUME@NUMBER, made at TIME.
 * The counts are those of struct rd_lookup_counts, in its order.
 *
 * Lines are added to "lookups", while the lock "names" is held. A file that has become long
 * becomes "lookups.old", in place of the one before, which takes no room on a file system that
 * has none. So a reader, which has the lock too, but shared, finds at least the last 1,000
 * snapshots.
 *
 * Like the index, it fails nothing: what cannot be written is told, and what is damaged is left
 * out. It outlives an index that is made anew, and goes with the folder.
 */
#ifndef RD_LOOKUP_LOG_H
#define RD_LOOKUP_LOG_H

#include "base/buffer.h"
#include "index.h"
#include "lookup.h"

/* Longer names of volumes are not recorded; revdedupctl has none. */
#define RD_LOOKUP_VOLUME	256
/* Lines have less; 1,000 of them, with the longest names of revdedupctl, a third of a megabyte. */
#define RD_LOOKUP_LINE		768
#define RD_LOOKUP_LOG_MAX	(512U << 10)

/* One snapshot's. */
struct rd_lookup_entry {
	i64 time, number;
	char volume[RD_LOOKUP_VOLUME];
	struct rd_lookup_counts counts;
};

/* Add one. What goes wrong is told. */
void rd_lookup_log_add(struct rd_index *index, const struct rd_lookup_entry *entry);

/*
 * Append all that the index of a pool has, as struct rd_lookup_entry, the oldest first. A pool
 * without an index has none. -ENOMEM, or -errno of the files.
 */
int rd_lookup_log_read(const char *pool_path, struct rd_buffer *ret);

#endif
