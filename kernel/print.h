/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The message table: print places.
 */
#ifndef DMR_PRINT_H
#define DMR_PRINT_H

#include "dmr.h"

struct dmr_pool_range {
	u64 first;
	u64 len;			/* first + len is no more than U64_MAX */
};

/*
 * Print the places of @count blocks from @first on; of these only places in the pool that
 * are in @only, unless that is NULL. Returns 1: *@result is the answer; or -errno, which is
 * in the log. -ERESTARTSYS: a signal came. Under message_lock only.
 */
int dmr_print(struct dmr_table *t, u64 first, u64 count, const struct dmr_pool_range *only,
	      char *result, unsigned int maxlen);

#endif
