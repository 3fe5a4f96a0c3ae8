// SPDX-License-Identifier: GPL-2.0
/*
 * Packs that have lost blocks: see free.h.
 *
 * Those that are made anew stay in the queue until that is done, so a crash forgets none. What
 * is made of their last blocks may be small; it takes in small packs that were made in the same
 * way before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/packs.h"
#include "free.h"
#include "rewrite.h"

#define BATCH		1024
/* Small packs that are taken in, and how many blocks they have at most. */
#define MAX_SMALL	4
#define SMALL		(RD_SEG_BLOCKS / 2)

struct freeing {
	struct rd_pool *pool;
	struct rd_queued queued[BATCH];
	unsigned int nr;
	/* To be made anew, together. */
	unsigned int nr_frames, live;
	u64 frames[BATCH + MAX_SMALL];
	bool any, is_full;
};

/* --- the queue */

/* It is not to be given back: all of it is gone, or too much lives. */
static int unqueue(struct rd_sql *sql, u64 frame)
{
	struct rd_slots all;

	memset(&all, 0xff, sizeof(all));
	return rd_frames_unqueue(sql, frame, &all);
}

/* At a quarter the bytes of the dead blocks are worth the work. */
static int has_lost_much(struct rd_sql *sql, const struct rd_queued *entry, bool *ret)
{
	struct rd_pack pack;
	int r = rd_pack_find(sql, entry->frame, &pack);

	*ret = !r && entry->live <= pack.slots * 3 / 4;
	return r;
}

static int take_off(struct freeing *f, const struct rd_queued *entry)
{
	struct rd_sql *sql = f->pool->sql;
	bool much = false;
	int r;

	r = entry->live ? has_lost_much(sql, entry, &much) : rd_pack_remove(sql, entry->frame);
	/* A pack that is missing is for a check to find. */
	if (r == -ENOENT)
		r = 0;
	if (r || !much)
		return r ? r : unqueue(sql, entry->frame);
	if (f->live + entry->live <= RD_REWRITE_BLOCKS - MAX_SMALL * SMALL) {
		f->frames[f->nr_frames++] = entry->frame;
		f->live += entry->live;
	}
	return 0;
}

/* Read a batch from @first on, and take off what needs no more than that. */
static int take_batch_off(struct freeing *f, u64 first)
{
	unsigned int i;
	int r;

	f->nr_frames = 0;
	f->live = 0;
	r = rd_frames_read_queue(f->pool->sql, first, f->queued, BATCH, &f->nr);
	for (i = 0; i < f->nr && !r; i++)
		r = take_off(f, &f->queued[i]);
	return r;
}

/* --- packs that are made anew */

static bool is_listed(const struct freeing *f, u64 frame)
{
	unsigned int i;

	for (i = 0; i < f->nr_frames; i++)
		if (f->frames[i] == frame)
			return true;
	return false;
}

static int add_small(struct freeing *f)
{
	unsigned int i, nr = 0;
	u64 small[MAX_SMALL];
	int r;

	r = rd_packs_small(f->pool->sql, SMALL, small, MAX_SMALL, &nr);
	for (i = 0; i < nr && !r; i++)
		if (!is_listed(f, small[i]))
			f->frames[f->nr_frames++] = small[i];
	return r;
}

/* What is still there is damaged, and would be tried again and again. */
static int take_done_off(struct freeing *f)
{
	struct rd_sql *sql = f->pool->sql;
	unsigned int i, live;
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	for (i = 0; i < f->nr_frames && !r; i++) {
		r = rd_frames_count_live(sql, f->frames[i], &live);
		if (!r && live)
			r = unqueue(sql, f->frames[i]);
	}
	return rd_catalog_end(sql, r);
}

static int make_anew(struct freeing *f)
{
	struct rd_rewrite_options options = {
		.compression = f->pool->area.super.compression,
		.dense = true,
		.may_fill_up = true,
	};
	int r;

	/* They were packed, whatever is new in the pool. */
	if (!options.compression.codec)
		options.compression = rd_compression_default;
	r = add_small(f);
	if (!r)
		r = rd_rewrite(f->pool, f->frames, f->nr_frames, &options);
	f->is_full = r > 0;
	return r ? r : take_done_off(f);
}

static int take_all_off(struct freeing *f)
{
	u64 first = RD_PACKED_FRAMES;
	int r = 0;

	f->nr = BATCH;
	while (!r && f->nr) {
		r = rd_catalog_do(f->pool->sql, take_batch_off(f, first));
		f->any |= f->nr;
		if (!r && f->nr_frames && !f->is_full)
			r = make_anew(f);
		/* Where there is no room, go on behind those that wait. */
		if (r >= 0 && f->is_full && f->nr)
			first = f->queued[f->nr - 1].frame + 1;
		r = r > 0 ? 0 : r;
	}
	return r;
}

int rd_free_packs(struct rd_pool *pool, bool *ret_any)
{
	RD_FREE struct freeing *f = calloc(1, sizeof(*f));
	int r;

	*ret_any = false;
	if (!f)
		return -ENOMEM;
	f->pool = pool;
	r = take_all_off(f);
	*ret_any = f->any;
	return r;
}
