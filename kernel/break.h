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
 */
#ifndef RDD_BREAK_H
#define RDD_BREAK_H

#include <linux/kconfig.h>

#define rdd_broken(how)	__is_defined(RDD_BREAK_##how)

#endif
