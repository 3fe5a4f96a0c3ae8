// SPDX-License-Identifier: GPL-2.0
/* Quick sums by libxxhash: XXH64, which is quick without vector registers, too. */
#include <xxhash.h>

#include "fp.h"
#include "quick.h"

u64 rd_quick_sum(const void *data, unsigned int first, unsigned int nr)
{
	const u8 *block = data;
	unsigned int slot;
	u64 sum = 0;

	/* The slot is the seed: two blocks that swap places are a change. */
	for (slot = first; slot < first + nr; slot++, block += RD_BLOCK_SIZE)
		if (!rd_is_zero(block, RD_BLOCK_SIZE))
			sum += XXH64(block, RD_BLOCK_SIZE, slot);
	return sum;
}
