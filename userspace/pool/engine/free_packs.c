// SPDX-License-Identifier: GPL-2.0
/* Packs that have lost blocks: see free_packs.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/catalog/frames.h"
#include "pool/catalog/packs.h"
#include "free_packs.h"

#define BATCH		1024

/* It is not to be given back: all of it is gone, or too much lives. */
static int unqueue(struct rd_sql *sql, u64 frame)
{
	struct rd_slots all;

	memset(&all, 0xff, sizeof(all));
	return rd_frames_unqueue(sql, frame, &all);
}

static int take_off(struct rd_sql *sql, const struct rd_queued *entry)
{
	int r = 0;

	if (!entry->live)
		r = rd_pack_remove(sql, entry->frame);
	return r ? r : unqueue(sql, entry->frame);
}

static int take_batch_off(struct rd_sql *sql, struct rd_queued *queued, unsigned int *ret_nr)
{
	unsigned int i;
	int r;

	r = rd_frames_read_queue(sql, RD_PACKED_FRAMES, queued, BATCH, ret_nr);
	for (i = 0; i < *ret_nr && !r; i++)
		r = take_off(sql, &queued[i]);
	return r;
}

int rd_free_packs(struct rd_pool *pool, bool *ret_any)
{
	struct rd_queued *queued = malloc(BATCH * sizeof(*queued));
	unsigned int nr = BATCH;
	int r = queued ? 0 : -ENOMEM;

	*ret_any = false;
	while (!r && nr == BATCH) {
		r = rd_catalog_begin(pool->sql);
		if (!r)
			r = rd_catalog_end(pool->sql, take_batch_off(pool->sql, queued, &nr));
		*ret_any |= nr;
	}
	free(queued);
	return r;
}
