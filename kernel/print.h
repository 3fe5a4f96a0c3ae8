/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The message table: print places.
 */
#ifndef DMR_PRINT_H
#define DMR_PRINT_H

#include "dmr.h"

/*
 * Print the places of @count blocks from @first on. Returns 1: *@result is the answer;
 * or -errno, which is in the log. Under message_lock only.
 */
int dmr_print(struct dmr_table *t, u64 first, u64 count, char *result,
	      unsigned int maxlen);

#endif
