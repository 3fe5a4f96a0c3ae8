/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pass on a tar without its first member: that is the directory in which the files are that were
 * asked for, "./". Who unpacks it would give the present directory the mode and the owner of that
 * one.
 */
#ifndef RD_GUEST_TAR_H
#define RD_GUEST_TAR_H

#include <stdbool.h>

#include "base/units.h"

#define RD_TAR_BLOCK	512

struct rd_guest_tar {
	int out;
	volatile int *stop;
	bool passes;		/* the first member is over */
	u64 skip;		/* bytes of what describes it that are to come */
	u32 len;
	u8 block[RD_TAR_BLOCK];
};

/* -EBADMSG, after a message: it does not begin so. -EPIPE, without one: nothing reads it. */
int rd_guest_tar_put(struct rd_guest_tar *tar, const u8 *data, size_t len);

#endif
