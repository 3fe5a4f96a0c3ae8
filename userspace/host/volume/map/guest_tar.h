/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pass on a tar without its first member: that is the directory in which the files are that were
 * asked for, "./". Who unpacks it would give the present directory the mode and the owner of that
 * one.
 *
 * In its place a comment is passed on, so what unpacks it and guesses the format, which would be
 * by the first bytes, finds a tar, whatever a guest sends: other formats call more code.
 */
#ifndef RD_GUEST_TAR_H
#define RD_GUEST_TAR_H

#include <stdbool.h>

#include "base/units.h"

#define RD_TAR_BLOCK	512

struct rd_guest_tar {
	int out;
	volatile int *stop;
	bool is_inside;		/* the first member is over */
	bool passes;		/* the next one is there */
	u64 skip;		/* bytes of what describes a member that are to come */
	u64 passed, zeros;	/* bytes; and those of them, at the end, that are zero */
	u32 len;
	u8 block[RD_TAR_BLOCK];
};

/* -EBADMSG, after a message: it does not begin so. -EPIPE, without one: nothing reads it. */
int rd_guest_tar_put(struct rd_guest_tar *tar, const u8 *data, size_t len);

/* That was all. -EBADMSG, after a message: it has no member, or no end. */
int rd_guest_tar_end(const struct rd_guest_tar *tar);

#endif
