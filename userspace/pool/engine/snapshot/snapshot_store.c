// SPDX-License-Identifier: GPL-2.0
/*
 * Store the segments of a snapshot: find what the pool has not, and commit in batches (see
 * snapshot.c for the order).
 *
 * An item is a segment that is decided upon. Items of a batch with the same content share
 * one frame, by a hash table of their fingerprints.
 */
#include <errno.h>

#include "base/inject.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/engine/journal/journal.h"
#include "snapshot_run.h"

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

	*item = (struct rd_snapshot_item){
		.segment = segment,
		.old = old,
		.to = { .nr = RD_NO_FRAME },
	};
	return item;
}

static void set_slots(struct rd_snapshot_item *item, const struct rd_snapshot_buffer *buffer)
{
	unsigned int i;

	memset(&item->to.slots, 0, sizeof(item->to.slots));
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&buffer->fps[i]))
			rd_slots_set(&item->to.slots, i);
}

int rd_snapshot_store(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      bool must_write)
{
	struct rd_snapshot_item *item = rd_snapshot_add_item(s, buffer->segment, buffer->old);
	unsigned int pieces = 0;
	u32 *slot;
	i64 recipe;
	int r = 0;

	item->fp = buffer->fp;
	item->quick = buffer->quick;
	slot = hash_slot(s, &item->fp);
	if (*slot)
		return 0;
	*slot = item - s->items + 1;
	set_slots(item, buffer);
	if (!must_write) {
		r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &pieces);
		if (r && r != -ENOENT)
			return r;
		if (pieces && pieces <= s->rule.pieces)
			return rd_failpoint("snapshot-hit");
		/* A recipe that is there, in too many pieces, gets all of it anew. */
		r = pieces ? 0 : rd_snapshot_store_part(s, buffer, item);
	}
	if (!r && !item->map)
		r = buffer->is_partial ? -EAGAIN : rd_snapshot_write(s, buffer, &item->to);
	if (item->map)
		s->nr_maps++;
	if (r) {
		rd_snapshot_drop_part(item);
		*slot = 0;
		s->nr_items--;
	}
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
	u64 latest = 1;
	bool changed;
	int r;

	if (recipe == item->old)
		return 0;
	r = rd_segment_insert(s->pool->sql, s->version->volume, &row);
	if (r || !recipe)
		return r;
	r = rd_recipe_latest_refs(s->pool->sql, recipe, &latest);
	if (!r)
		r = rd_recipe_ref(s->pool->sql, recipe, 1, 1);
	if (r || latest)
		return r;
	/* What a newest version has is not to depend on old ones. */
	r = rd_recipe_adopt_old(s->pool->sql, recipe, &changed);
	if (changed)
		rd_snapshot_forget_owners(s);
	return r;
}

static void map_of_item(const struct rd_snapshot_item *item, struct rd_map *map)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		map->at[i] = rd_slots_test(&item->to.slots, i) ?
			rd_place_make(RD_OWN, item->to.nr, i) : rd_place_make(RD_ZERO, 0, 0);
}

static int insert(struct rd_snapshot_run *s, const struct rd_snapshot_item *item, u64 frame,
		  const struct rd_map *map, i64 *recipe_id)
{
	int r = rd_recipe_insert(s->pool->sql, &item->fp, frame, map, item->quick, recipe_id);

	if (!r)
		rd_snapshot_add_owner(s, *recipe_id, map);
	return r;
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
	r = rd_frame_is_packed(item->to.nr) ? rd_pack_insert(sql, &item->to.pack) :
		rd_frames_use(sql, item->to.nr);
	if (r)
		return r;
	if (is_new)
		return insert(s, item, item->to.nr, &map, recipe_id);
	rd_snapshot_forget_owners(s);
	r = rd_recipe_load(sql, *recipe_id, &recipe);
	return r ? r : rd_recipe_change(sql, &recipe, item->to.nr, &map);
}

/* Insert the recipe of an item that was written in part. -EAGAIN: it must be written. */
static int use_part(struct rd_snapshot_run *s, const struct rd_snapshot_item *item, i64 *recipe)
{
	struct rd_map map;
	int r = rd_snapshot_map_part(s, item, &map);

	if (r)
		return r;
	s->report->segments_in_part++;
	return insert(s, item, rd_map_frame(&map, 0), &map, recipe);
}

/* -EAGAIN: the pool had the content, or what it was to refer to, and no longer has. */
static int commit_item(struct rd_snapshot_run *s, const struct rd_snapshot_item *item)
{
	unsigned int pieces = 0;
	bool is_new;
	i64 recipe = 0;
	int r;

	if (item->is_same)
		return rd_recipe_set_quick(s->pool->sql, item->old, item->quick);
	if (item->is_zero)
		return put_segment(s, item, 0);
	r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &pieces);
	if (r && r != -ENOENT)
		return r;
	is_new = r == -ENOENT;
	/* What is not in memory any more, and comes once, is used in however many pieces. */
	if (!is_new && (pieces <= s->rule.pieces ||
			(rd_snapshot_is_once(s) && item->to.nr == RD_NO_FRAME))) {
		s->report->segments_shared += item->to.nr == RD_NO_FRAME && !item->map;
		return put_segment(s, item, recipe);
	}
	if (item->to.nr != RD_NO_FRAME)
		r = use_frame(s, item, is_new, &recipe);
	else
		r = is_new && item->map ? use_part(s, item, &recipe) : -EAGAIN;
	return r ? r : put_segment(s, item, recipe);
}

/* What has arrived is to stay. */
static int save_progress(struct rd_snapshot_run *s)
{
	int r = rd_version_finish(s->pool->sql, s->version);

	return r ? r : rd_version_set_state(s->pool->sql, s->version);
}

/* Commit the items. Those that must be written after all are left. */
static int commit_items(struct rd_snapshot_run *s)
{
	unsigned int i, left = 0;
	int r;

	r = rd_catalog_begin(s->pool->sql);
	if (r)
		return r;
	/* Another process may have changed maps since the transaction before. */
	rd_snapshot_forget_owners(s);
	for (i = 0; i < s->nr_items && !r; i++) {
		r = commit_item(s, &s->items[i]);
		rd_snapshot_drop_part(&s->items[i]);
		if (r == -EAGAIN && !rd_snapshot_is_once(s)) {
			s->items[left++] = s->items[i];
			r = 0;
		}
	}
	for (; i < s->nr_items; i++)
		rd_snapshot_drop_part(&s->items[i]);
	if (!r)
		r = rd_snapshot_use_dense(s);
	if (!r)
		r = rd_pack_writer_commit(&s->writer);
	if (!r && s->options->feed)
		r = save_progress(s);
	r = rd_catalog_end(s->pool->sql, r);
	s->nr_items = r ? 0 : left;
	s->nr_maps = 0;
	memset(s->by_fp, 0, sizeof(s->by_fp));
	return r;
}

/* Read a segment once more, as it is now, and write it: the pool had it, and lost it. */
static int write_again(struct rd_snapshot_run *s, struct rd_snapshot_item *item)
{
	struct rd_snapshot_buffer *buffer = s->buffers[RD_SNAPSHOT_BUFFERS];
	rd_sum *sum = &s->version->sum;
	int r;

	r = rd_failpoint("snapshot-again");
	if (r)
		return r;
	r = rd_snapshot_read_again(s, buffer, item->segment);
	if (r)
		return r;
	*sum -= rd_fp_sum(s->hasher, item->segment, &item->fp);
	item->fp = buffer->fp;
	item->quick = buffer->quick;
	set_slots(item, buffer);
	item->is_zero = rd_is_zero(buffer->fps, RD_FPS_SIZE);
	if (item->is_zero)
		return 0;
	*sum += rd_fp_sum(s->hasher, item->segment, &item->fp);
	r = rd_snapshot_write(s, buffer, &item->to);
	return r ? r : rd_snapshot_drain(s);
}

int rd_snapshot_commit(struct rd_snapshot_run *s)
{
	unsigned int i;
	int r;

	r = rd_snapshot_flush_dense(s);
	if (!r)
		r = rd_snapshot_drain(s);
	while (!r && s->nr_items) {
		r = rd_failpoint("snapshot-batch");
		if (!r && s->written)
			r = rd_journal_mark(s->pool);
		s->written = false;
		if (!r)
			r = commit_items(s);
		for (i = 0; i < s->nr_items && !r; i++)
			r = write_again(s, &s->items[i]);
	}
	return r;
}
