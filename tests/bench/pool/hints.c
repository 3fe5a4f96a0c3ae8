// SPDX-License-Identifier: GPL-2.0
/*
 * hints POOL BLOCKS SEED: make the index of POOL, which exists, as large as if the pool had so
 * many blocks more, by entries for fingerprints that no block has. No command may run meanwhile.
 */
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/index/index.h"

static u64 state;

/* splitmix64 */
static u64 draw(void)
{
	u64 z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void add(struct rd_index *index)
{
	u64 numbers[2] = { draw(), draw() };
	struct rd_fp fp;

	memcpy(fp.b, numbers, sizeof(fp.b));
	fp.b[15] &= ~(RD_INDEX_SAMPLE - 1);
	rd_index_add(index, &fp, rd_place_make(RD_OWN, 0, numbers[0] % RD_SEG_BLOCKS));
}

int main(int argc, char **argv)
{
	struct rd_index *index;
	char data[PATH_MAX];
	struct rd_area area;
	u64 i, nr;

	if (argc != 4)
		errx(2, "usage: hints POOL BLOCKS SEED");
	nr = strtoull(argv[2], NULL, 0) / RD_INDEX_SAMPLE;
	state = strtoull(argv[3], NULL, 0);
	snprintf(data, sizeof(data), "%s/data", argv[1]);
	if (!rd_index_exists(argv[1]))
		errx(1, "'%s' has no index", argv[1]);
	if (rd_area_open(&area, data, false) ||
	    rd_index_open(&index, argv[1], area.super.uuid))
		errx(1, "cannot open '%s'", argv[1]);
	for (i = 0; i < nr; i++)
		add(index);
	rd_index_flush(index);
	rd_index_close(index);
	rd_area_close(&area);
	return 0;
}
