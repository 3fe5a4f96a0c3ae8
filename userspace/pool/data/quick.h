/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Quick sums: 64 bits that reveal an accident, in a hundredth of the time of a
 * fingerprint. An equal sum counts as equal content only where no one gains by a forgery:
 * in an audit of segments that their tracker calls clean, too.
 */
#ifndef RD_QUICK_H
#define RD_QUICK_H

#include "base/units.h"

/*
 * Compute the part of @nr blocks, from slot @first on, in the sum of their segment. The
 * sum adds up all parts. Blocks of zeros add nothing, so holes need not be read.
 */
u64 rd_quick_sum(const void *data, unsigned int first, unsigned int nr);

#endif
