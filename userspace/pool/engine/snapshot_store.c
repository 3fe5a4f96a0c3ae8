// SPDX-License-Identifier: GPL-2.0
/*
 * Store the segments of a snapshot: write what the pool has not, and commit in batches
 * (see snapshot.c for the order).
 *
 * An item is a segment that is decided upon. Items of a batch with the same content share
 * one frame, by a hash table of their fingerprints.
 */
#include <errno.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/data/quick.h"
#include "snapshot_run.h"

#define RESERVE		64		/* frames at a time */

/* --- frames */

static int get_frames(struct rd_snapshot_run *s)
{
	struct rd_sql *sql = s->pool->sql;
	u64 len, keep;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_frames_to_keep(sql, s->pool->area.super.nr_frames, &keep);
	if (!r)
		r = rd_frames_reserve(sql, s->pool->session, RESERVE, keep, &s->frame, &len);
	r = rd_catalog_end(sql, r);
	if (r == -ENOSPC) {
		rd_err(0, "the pool is full");
		rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
		rd_remedy(RD_REMEDY_GROW, NULL, NULL);
	}
	s->frame_end = s->frame + (r ? 0 : len);
	return r;
}

static int next_frame(struct rd_snapshot_run *s, u64 *ret)
{
	int r = 0;

	if (s->frame == s->frame_end)
		r = get_frames(s);
	if (!r)
		*ret = s->frame++;
	return r;
}

/* --- writing */

static void write_done(struct rd_op *op, int r)
{
	struct rd_snapshot_buffer *buffer = op->ctx;
	struct rd_snapshot_run *s = buffer->snapshot;

	if (r && !s->r)
		s->r = rd_err(r, "cannot write to the data area");
	if (!--buffer->writes)
		buffer->state = RD_BUFFER_FREE;
}

static void submit_write(struct rd_snapshot_buffer *buffer, void *data, size_t len,
			 u64 offset)
{
	unsigned int nr = buffer->writes++;

	buffer->iovs[nr] = (struct iovec){ .iov_base = data, .iov_len = len };
	buffer->ops[nr] = (struct rd_op){
		.kind = RD_OP_WRITE,
		.fd = buffer->snapshot->pool->area.fd,
		.offset = offset,
		.iov = &buffer->iovs[nr],
		.nr_iov = 1,
		.done = write_done,
		.ctx = buffer,
	};
	rd_ring_submit(buffer->snapshot->ring, &buffer->ops[nr]);
}

/*
 * Write blocks that are not zeros. On a device write all of them: a place there may have
 * other data from before, and a reader of the whole frame must find zeros.
 */
static void write_buffer(struct rd_snapshot_buffer *buffer, u64 frame)
{
	struct rd_snapshot_run *s = buffer->snapshot;
	bool is_device = s->pool->area.is_device;
	u64 offset = rd_frame_offset(frame);
	unsigned int i, start;

	buffer->state = RD_BUFFER_WRITING;
	s->written = true;
	if (is_device) {
		memset(buffer->data, 0, buffer->skip);
		memset(buffer->data + buffer->len, 0, RD_SEG_SIZE - buffer->len);
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_fp_is_zero(&buffer->fps[i]) && !is_device)
			continue;
		start = i;
		while (i < RD_SEG_BLOCKS && (is_device || !rd_fp_is_zero(&buffer->fps[i])))
			i++;
		submit_write(buffer, buffer->data + (size_t)start * RD_BLOCK_SIZE,
			     (size_t)(i - start) * RD_BLOCK_SIZE,
			     offset + (u64)start * RD_BLOCK_SIZE);
		s->version->bytes_stored += (u64)(i - start) * RD_BLOCK_SIZE;
	}
	submit_write(buffer, buffer->fps, RD_FPS_SIZE, rd_frame_fps_offset(frame));
}

/* --- items */

static u32 *hash_slot(struct rd_snapshot_run *s, const struct rd_seg_fp *fp)
{
	unsigned int i;
	u32 hash;

	memcpy(&hash, fp->b, sizeof(hash));
	for (i = hash % RD_SNAPSHOT_HASH; s->by_fp[i]; i = (i + 1) % RD_SNAPSHOT_HASH)
		if (rd_seg_fp_equal(&s->items[s->by_fp[i] - 1].fp, fp))
			break;
	return &s->by_fp[i];
}

struct rd_snapshot_item *rd_snapshot_add_item(struct rd_snapshot_run *s, u64 segment, i64 old)
{
	struct rd_snapshot_item *item = &s->items[s->nr_items++];

	*item = (struct rd_snapshot_item){ .segment = segment, .old = old, .frame = RD_NO_FRAME };
	return item;
}

int rd_snapshot_store(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      bool must_write)
{
	struct rd_snapshot_item *item = rd_snapshot_add_item(s, buffer->segment, buffer->old);
	bool is_whole = false;
	unsigned int i;
	u32 *slot;
	i64 recipe;
	int r;

	item->fp = buffer->fp;
	item->quick = buffer->quick;
	slot = hash_slot(s, &item->fp);
	if (*slot)
		return 0;
	*slot = item - s->items + 1;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&buffer->fps[i]))
			rd_slots_set(&item->nonzero, i);
	if (!must_write) {
		r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &is_whole);
		if (r && r != -ENOENT)
			return r;
	}
	if (is_whole)
		return rd_failpoint("snapshot-hit");
	r = next_frame(s, &item->frame);
	if (r)
		s->nr_items--;
	else
		write_buffer(buffer, item->frame);
	return r;
}

/* --- the batch */

static int put_segment(struct rd_snapshot_run *s, const struct rd_snapshot_item *item,
		       i64 recipe)
{
	struct rd_segment_content row = {
		.segment = item->segment,
		.born = s->version->number,
		.recipe = recipe,
	};
	int r;

	if (recipe == item->old)
		return 0;
	r = rd_segment_insert(s->pool->sql, s->version->volume, &row);
	return r || !recipe ? r : rd_recipe_ref(s->pool->sql, recipe, 1, 1);
}

static void map_of_item(const struct rd_snapshot_item *item, struct rd_map *map)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		map->at[i] = rd_slots_test(&item->nonzero, i) ?
			rd_place_make(RD_OWN, item->frame, i) : rd_place_make(RD_ZERO, 0, 0);
}

/* Use the frame of an item whose content has no recipe, or one that is not whole. */
static int use_frame(struct rd_snapshot_run *s, const struct rd_snapshot_item *item, bool is_new,
		     i64 *recipe_id)
{
	struct rd_sql *sql = s->pool->sql;
	struct rd_recipe recipe;
	struct rd_map map;
	int r;

	map_of_item(item, &map);
	r = rd_frames_use(sql, item->frame);
	if (r)
		return r;
	if (is_new)
		return rd_recipe_insert(sql, &item->fp, item->frame, &map, item->quick,
					recipe_id);
	r = rd_recipe_load(sql, *recipe_id, &recipe);
	return r ? r : rd_recipe_change(sql, &recipe, item->frame, &map);
}

/* -EAGAIN: the pool had the content whole, and no longer has. */
static int commit_item(struct rd_snapshot_run *s, const struct rd_snapshot_item *item)
{
	bool is_whole = false;
	i64 recipe = 0;
	int r;

	if (item->is_same)
		return rd_recipe_set_quick(s->pool->sql, item->old, item->quick);
	if (item->is_zero)
		return put_segment(s, item, 0);
	r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &is_whole);
	if (r && r != -ENOENT)
		return r;
	if (r == -ENOENT || !is_whole) {
		if (item->frame == RD_NO_FRAME)
			return -EAGAIN;
		r = use_frame(s, item, r == -ENOENT, &recipe);
		if (r)
			return r;
	} else if (item->frame == RD_NO_FRAME) {
		s->report->segments_shared++;
	}
	return put_segment(s, item, recipe);
}

/* Commit the items. Those that must be written after all are left. */
static int commit_items(struct rd_snapshot_run *s)
{
	unsigned int i, left = 0;
	int r;

	r = rd_catalog_begin(s->pool->sql);
	if (r)
		return r;
	for (i = 0; i < s->nr_items && !r; i++) {
		r = commit_item(s, &s->items[i]);
		if (r == -EAGAIN) {
			s->items[left++] = s->items[i];
			r = 0;
		}
	}
	r = rd_catalog_end(s->pool->sql, r);
	s->nr_items = r ? 0 : left;
	memset(s->by_fp, 0, sizeof(s->by_fp));
	return r;
}

/* Wait until all writes have ended. */
static int drain(struct rd_snapshot_run *s)
{
	unsigned int i;
	int r;

	for (i = 0; i <= RD_SNAPSHOT_BUFFERS && !s->r; i++) {
		while (!s->r && s->buffers[i]->state == RD_BUFFER_WRITING) {
			r = rd_ring_wait(s->ring);
			s->r = s->r ? s->r : r;
		}
	}
	return s->r;
}

/* Read a segment once more, as it is now, and write it: the pool had it, and lost it. */
static int write_again(struct rd_snapshot_run *s, struct rd_snapshot_item *item)
{
	struct rd_snapshot_buffer *buffer = s->buffers[RD_SNAPSHOT_BUFFERS];
	rd_sum *sum = &s->version->sum;
	unsigned int i;
	int r;

	r = rd_read_direct(s->source.fd, buffer->data, RD_SEG_SIZE, item->segment << RD_SEG_SHIFT);
	if (r)
		return rd_err(r, "cannot read '%s'", s->options->from);
	*sum -= rd_fp_sum(s->hasher, item->segment, &item->fp);
	memset(&item->nonzero, 0, sizeof(item->nonzero));
	buffer->skip = 0;
	buffer->len = RD_SEG_SIZE;
	rd_fp_segment(s->hasher, buffer->data, RD_SEG_SIZE, buffer->fps, &item->fp);
	item->quick = rd_quick_sum(buffer->data, 0, RD_SEG_BLOCKS);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&buffer->fps[i]))
			rd_slots_set(&item->nonzero, i);
	item->is_zero = rd_is_zero(buffer->fps, RD_FPS_SIZE);
	if (item->is_zero)
		return 0;
	*sum += rd_fp_sum(s->hasher, item->segment, &item->fp);
	r = next_frame(s, &item->frame);
	if (!r) {
		write_buffer(buffer, item->frame);
		r = drain(s);
	}
	return r;
}

int rd_snapshot_commit(struct rd_snapshot_run *s)
{
	unsigned int i;
	int r;

	r = drain(s);
	while (!r && s->nr_items) {
		r = rd_failpoint("snapshot-batch");
		if (!r && s->written)
			r = rd_area_sync(&s->pool->area);
		s->written = false;
		if (!r)
			r = commit_items(s);
		for (i = 0; i < s->nr_items && !r; i++)
			r = write_again(s, &s->items[i]);
	}
	return r;
}
