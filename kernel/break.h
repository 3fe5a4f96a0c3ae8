/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to break the order of writes on purpose. The crash tests must find each of
 * them, or they would not find a real one either. A build for tests (BREAKS=1) has
 * them all, and the module's parameter "break" chooses one. A normal build has none:
 * dmr_broken() is false.
 *
 *   flush   issue a first write when its bit is written but not flushed
 *   early   show map a bit before it is stable
 *   epoch   have commit and abort clear the frozen set of any epoch
 *   base    do not flush the base before a checkpoint
 *   union   have abort drop the frozen set before the union is stable
 *   home    write entries that say BASE before the base is flushed
 *   word    write words before the pages that they name
 *   compare have remap ignore the old place
 *   settle  do not settle before a punch
 *   drain   do not have watch wait for writes that saw no mark
 *   copyup  do not lock blocks that are written or copied home
 *   setbits have set leave the dirty bits alone
 *   noflush take no flushes if the base has no cache
 *   forget  take for stable what a failed write-back had taken
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
