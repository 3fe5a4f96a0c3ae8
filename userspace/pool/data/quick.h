/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Quick sums: 64 bits that tell an accident, in a hundredth of the time that a
 * fingerprint takes. Content of which a sum says that it did not change is taken to
 * be what it was only where nobody has a reason to forge it: in what is audited, of
 * which its tracker says so too. See snapshot.c.
 */
#ifndef RD_QUICK_H
#define RD_QUICK_H

#include "base/units.h"

/*
 * The part that @nr blocks of a segment have in its sum, from slot @first on. The sum
 * is that of all parts, and blocks of zeros have none: so a hole needs no look.
 */
u64 rd_quick_sum(const void *data, unsigned int first, unsigned int nr);

#endif
