/* SPDX-License-Identifier: GPL-2.0 */
/* Write the superblock of a metadata device that no target uses. */
#ifndef RD_META_WRITE_H
#define RD_META_WRITE_H

#include "read.h"

/*
 * Both copies, each flushed, as dmr_super_write() does it; super->seq is greater than
 * what is there. The copy with the greater number is the state, so one will do:
 * 0, or -errno where neither was written.
 */
int rd_meta_super_write(int fd, const struct dmr_super *super);

/* Writes may have passed the target by: all segments will be dirty. 0 or -errno. */
int rd_meta_mark_lost(int fd, const struct rd_meta *meta);

#endif
