/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which version of each volume is known to be elsewhere, for status and metrics: the file last-sent
 * beside the catalog, which 'send --to' writes. A line for each volume and pool that it was sent
 * to:
 *
 *	NUMBER TIME VOLUME TO
 *
 * TIME is that of the version, TO is the rest of the line. It is not flushed: the next send
 * writes it again.
 */
#ifndef CTL_ELSEWHERE_H
#define CTL_ELSEWHERE_H

#include "cli.h"

struct ctl_elsewhere {
	i64 number, time;
	char volume[CTL_NAME_MAX + 1];
	char to[512];
};

/* Append what is known in the pool @pool; nothing, if nothing is. */
void ctl_elsewhere_read(const char *pool, struct rd_buffer *ret);
/* Add @now, a struct ctl_elsewhere each. A failure is printed and does no other harm. */
void ctl_elsewhere_write(const char *pool, const struct rd_buffer *now);

#endif
