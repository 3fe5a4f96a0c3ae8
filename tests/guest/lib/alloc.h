/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocate memory that is zero, or end the program.
 */
#ifndef RDT_ALLOC_H
#define RDT_ALLOC_H

#include <stdio.h>
#include <stdlib.h>

static inline void *zalloc(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p) {
		perror("calloc");
		exit(1);
	}
	return p;
}

#endif
