/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two copies of the superblock. All of these sleep, under meta->lock, or before
 * another thread can find @meta.
 */
#ifndef DMR_SUPER_H
#define DMR_SUPER_H

#include "dmr.h"

/* Read the state: 0; -ENODATA for a device to be formatted; else -errno and *@why. */
int dmr_super_read(struct dmr_meta *meta, struct dmr_super *super,
		   const char **why);
/*
 * Make @next the state, on at least one copy: 0. Or neither copy could be written,
 * memory keeps the old state, and an outage has begun: -errno.
 */
int dmr_super_write(struct dmr_meta *meta, const struct dmr_super *next);
/* Write the state again if a copy lacks it, or may lack it. */
int dmr_super_refresh(struct dmr_meta *meta);
/* Refuse message @verb on a device that is read-only: 0 or -EROFS. message_lock will do, too. */
int dmr_super_check_writable(struct dmr_meta *meta, const char *verb);

#endif
