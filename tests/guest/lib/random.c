// SPDX-License-Identifier: GPL-2.0
/* Numbers that follow from a seed. */
#include "random.h"

uint64_t rnd(uint64_t *state)
{
	/* splitmix64 */
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t below(uint64_t *state, uint64_t limit)
{
	return rnd(state) % limit;
}

bool one_in(uint64_t *state, unsigned int n)
{
	return !below(state, n);
}
