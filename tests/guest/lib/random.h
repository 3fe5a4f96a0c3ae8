/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers that follow from a seed, the same everywhere. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdbool.h>
#include <stdint.h>

uint64_t rnd(uint64_t *state);
/* 0 to @limit - 1 */
uint64_t below(uint64_t *state, uint64_t limit);
bool one_in(uint64_t *state, unsigned int n);

#endif
