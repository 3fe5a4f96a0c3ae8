/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to break the order of writes on purpose. The crash tests must find each of
 * them, or they would not find a real one either. A build for tests (BREAKS=1) has
 * them all, and the parameter "break" of the module chooses one; a normal build has
 * none: dmr_broken() is false.
 *
 *   flush   data goes out when the bit is written but not flushed
 *   early   map sees a bit before it is stable
 *   epoch   commit clears the frozen set of whatever epoch
 *   base    checkpoint does not flush the base
 *   union   abort drops the frozen set before the union is stable
 *   home    entries say BASE before the base is flushed
 *   word    words are written before the pages that they name
 *   compare remap does not look what the old place is
 *   settle  punch does not settle
 *   drain   watch does not wait for writes that saw no mark
 *   copyup  blocks that are written or copied home are not locked
 *   setbits set does not set dirty bits
 *   noflush the target sees no flushes where the base has no cache
 *   forget  what a failed commit had taken counts as stable
 */
#ifndef DMR_BREAK_H
#define DMR_BREAK_H

#include <linux/string.h>

#ifdef DMR_BREAKS
extern char *dmr_break;

static inline bool dmr_is_broken(const char *how)
{
	return !strcmp(dmr_break, how);
}
#else
static inline bool dmr_is_broken(const char *how)
{
	return false;
}
#endif

#define dmr_broken(how)	dmr_is_broken(#how)

#endif
