/* SPDX-License-Identifier: GPL-2.0 */
/* Write the superblock of a metadata device that no target uses. */
#ifndef RD_META_WRITE_H
#define RD_META_WRITE_H

#include "read.h"

/*
 * Write both copies, each flushed, as dmr_super_write() does. super->seq is greater than
 * that on the device. The copy with the greater number is the state, so one of the two
 * is enough: returns 0, or -errno if neither was written.
 */
int rd_meta_super_write(int fd, const struct dmr_super *super);

/* Record that tracking is lost, so that all segments will be dirty. 0 or -errno. */
int rd_meta_mark_lost(int fd, const struct rd_meta *meta);

#endif
