/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Text of ranges in the form of the target's messages, a range a line, made from one block's
 * place after the other.
 */
#ifndef RDT_PLACES_H
#define RDT_PLACES_H

#include <stdint.h>

#define BLOCK		4096U
#define SEG_BLOCKS	512U

struct place {
	char kind;		/* b, z or p */
	uint64_t block;		/* of the pool; of kind p */
};

/* The next block of the volume, from 0 on, is at @place. */
void places_add(struct place place);

/* The last range. */
void places_end(void);

/* A number that has nothing to do with @x, and is always the same. */
uint64_t places_mix(uint64_t x);

#endif
