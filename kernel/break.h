/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to break the order of writes on purpose, chosen at build time
 * (make BREAK=flush ...). The crash tests must find each of them, or they would
 * not find a real one either. A normal build has none: rdd_broken() is 0.
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
#ifndef RDD_BREAK_H
#define RDD_BREAK_H

#include <linux/kconfig.h>

#define rdd_broken(how)	__is_defined(RDD_BREAK_##how)

#endif
