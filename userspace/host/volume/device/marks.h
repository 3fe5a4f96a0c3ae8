/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages by which blocks of a live volume change their place while it is written: mark
 * blocks, read them, give those that were not written meanwhile another place, give the
 * base's space back. See Documentation/dm-revdedup.rst. A list of ranges, struct dmr_range, that
 * is too long for one message goes in several, in order.
 */
#ifndef RD_MARKS_H
#define RD_MARKS_H

#include "kernel/ranges.h"
#include "base/buffer.h"
#include "target.h"

/* Make a token, by which the target knows whose marks they are. */
int rd_marks_token(u64 *ret);

/* Mark these blocks where they are home. Marks of other tokens are gone then. */
int rd_marks_set(const char *device, u64 token, const struct rd_buffer *ranges);
/* Remove all marks, so that no write has to look for them. */
int rd_marks_clear(const char *device);

/*
 * Give each of these blocks that still has its mark the place of its range. -ESTALE, without
 * a word: the marks of @token are gone.
 */
int rd_marks_alias(const char *device, u64 token, const struct rd_buffer *ranges);

/*
 * Give the base's space back where no block of one of its units is home. @zeroed: the base
 * reads as zeros there afterwards, so that blocks that are zeros are home again. -EINTR and
 * -EBUSY, without a word: only a part was given back, and the same message does the rest.
 */
int rd_marks_shed(const char *device, const struct rd_buffer *ranges, bool zeroed);

/*
 * Append the place of each of @nr blocks from @first on, as struct dmr_range in order. What is
 * not named in the answer is not named by the table that a crash would leave, either.
 */
int rd_marks_places(const char *device, u64 first, u64 nr, struct rd_buffer *ret);

#endif
