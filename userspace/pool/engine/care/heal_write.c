// SPDX-License-Identifier: GPL-2.0
/*
 * Write what heals damaged blocks.
 *
 * That is done in batches, under the lock of those who move and free: the place must still be
 * the one of the recipe that proved what belongs there. The place has nothing that is worth
 * anything, so a crash in the middle of it loses nothing; content goes before its fingerprint.
 *
 * A pack is never written to, and no frame that is kept for another state of the pool (adopt.h):
 * what lives in a damaged one is written anew, elsewhere, with the blocks that were found. What
 * was not found stays, and keeps the old pack.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/sort.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/space/rewrite.h"
#include "pool/engine/version/version.h"
#include "heal_write.h"

#define BATCH		4096		/* blocks that were found: 16 MiB */
#define NO_BLOCK	U32_MAX
/* Frames that are written anew at a time. */
#define FRAMES		(RD_REWRITE_BLOCKS / RD_SEG_BLOCKS)

struct fix {
	struct rd_bad_block *block;
	unsigned int data;		/* which of the writer's; NO_BLOCK: it is there */
	bool is_busy;			/* another session writes to its frame */
	bool is_kept;			/* its frame is another state's, too */
	bool is_still;			/* the place is still that of the block */
	bool is_written;
};

struct rd_heal_writer {
	struct rd_pool *pool;
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	bool is_dry;
	bool has_moved;			/* something, of what is being written, */
	bool is_full;			/* and no room for more */
	/* What is to be written next. */
	unsigned int nr_fixes, nr_data;
	struct fix fixes[BATCH];
	u8 *data;
	/* While that is written, these are for it. */
	u8 block[RD_BLOCK_SIZE];
	struct rd_fp page[RD_SEG_BLOCKS];
};

/* --- frames that others fill, or need */

/* Is the frame kept that has the place, or of a pack, its fingerprint? */
static int is_kept(struct rd_sql *sql, u64 frame, bool *ret)
{
	return rd_frames_is_kept(sql, rd_frame_is_packed(frame) ? rd_packed_fps(frame) : frame,
				 ret);
}

/*
 * A snapshot that fills a frame writes all fingerprints of the frame, from what it has read before.
 * Leave out frames that one fills now, and let none begin: it would write what it read back.
 */
static int claim_frames(struct rd_heal_writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	u64 frame, last = U64_MAX;
	bool is_busy = false, kept = false, any = false;
	unsigned int i;
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	for (i = 0; i < writer->nr_fixes && !r; i++) {
		frame = rd_place_id(writer->fixes[i].block->place);
		if (frame != last && !rd_frame_is_packed(frame)) {
			r = rd_frames_is_reserved(sql, frame, &is_busy);
			if (!r && !is_busy)
				r = rd_filling_drop_tail(sql, frame);
		}
		if (frame != last && !r)
			r = is_kept(sql, frame, &kept);
		last = frame;
		writer->fixes[i].is_kept = kept;
		writer->fixes[i].is_busy = is_busy && !rd_frame_is_packed(frame);
		any |= writer->fixes[i].is_busy;
	}
	r = rd_catalog_end(sql, r);
	if (!r && any)
		rd_warn("damaged blocks are not healed where another command writes beside them: run this again when it has ended");
	return r;
}

/* --- writing */

static int compare_fixes(const void *a, const void *b)
{
	const struct fix *x = a, *y = b;

	return rd_order(x->block->place, y->block->place);
}

/* Has its recipe the place still? */
static int is_still(struct rd_heal_writer *writer, const struct rd_bad_block *block, bool *ret)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	int r;

	*ret = false;
	r = rd_resolve(writer->resolver, block->recipe, &map, &fp);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	*ret = map.at[block->block] == block->place &&
		rd_seg_fp_equal(&fp, &block->recipe_fp);
	return 0;
}

/* Where are the fingerprints of the place, in the block that has the one of it? */
static u64 fps_offset(rd_place place)
{
	return rd_frame_fps_offset(rd_place_id(place)) +
		rd_place_slot(place) / RD_FPS_IN_BLOCK * RD_BLOCK_SIZE;
}

/*
 * Its recipe has the place no more. Has another one got it by a hand-over, as it is? Else nobody
 * has it, or it is that of other content, and nothing is lost.
 */
static int was_handed_over(struct rd_heal_writer *writer, const struct rd_bad_block *block,
			   bool *ret)
{
	unsigned int slot = rd_place_slot(block->place);
	struct rd_fp *fps = writer->page;
	struct rd_slots slots;
	int r = rd_frame_slots(writer->pool->sql, rd_place_id(block->place), &slots);

	/* -EUCLEAN: a recipe of the frame is damaged, and may have it. */
	*ret = r == -EUCLEAN || (!r && slots.bits[slot / 64] & 1ULL << slot % 64);
	if (!*ret || r || !block->had_fp)
		return r == -EUCLEAN ? 0 : r;
	*ret = rd_area_read(&writer->pool->area, fps, RD_BLOCK_SIZE, fps_offset(block->place)) ||
		rd_fp_equal(&fps[slot % RD_FPS_IN_BLOCK], &block->fp);
	return 0;
}

/* Content that a pack has cannot be written to its place, and nothing to one that is kept. */
static bool is_to_move(const struct fix *fix)
{
	return fix->is_kept ||
		(fix->data != NO_BLOCK && rd_frame_is_packed(rd_place_id(fix->block->place)));
}

static bool write_content(struct rd_heal_writer *writer, const struct fix *fix)
{
	int r;

	if (fix->data == NO_BLOCK)
		return true;
	r = rd_area_write(&writer->pool->area, writer->data + (size_t)fix->data * RD_BLOCK_SIZE,
			  RD_BLOCK_SIZE, rd_place_offset(fix->block->place));
	if (r)
		rd_warn("cannot write to frame %llu: %s",
			rd_place_id(fix->block->place), strerror(-r));
	return !r;
}

/*
 * The fingerprints of fixes @first to @first + @nr, which are in one block. If that cannot be
 * read, the others in it are lost, but not by an error that is new: it may end.
 */
static void write_fps(struct rd_heal_writer *writer, unsigned int first, unsigned int nr)
{
	const struct rd_area *area = &writer->pool->area;
	u64 offset = fps_offset(writer->fixes[first].block->place);
	struct rd_fp *fps = writer->page;
	bool any = false, is_lost;
	unsigned int i;
	int r;

	is_lost = rd_area_read(area, fps, RD_BLOCK_SIZE, offset);
	if (is_lost)
		memset(fps, 0, RD_BLOCK_SIZE);
	for (i = first; i < first + nr; i++) {
		const struct fix *fix = &writer->fixes[i];

		if (!fix->is_written)
			continue;
		if (is_lost && fix->block->had_fp)
			return;
		fps[rd_place_slot(fix->block->place) % RD_FPS_IN_BLOCK] = fix->block->fp;
		any = true;
	}
	if (!any)
		return;
	r = rd_area_write(area, fps, RD_BLOCK_SIZE, offset);
	if (r)
		rd_warn("cannot write the fingerprints of frame %llu: %s",
			rd_place_id(writer->fixes[first].block->place), strerror(-r));
}

static int write_batch(struct rd_heal_writer *writer)
{
	bool is_left = false;
	unsigned int i, first;
	int r;

	rd_resolver_forget(writer->resolver);
	for (i = 0; i < writer->nr_fixes; i++) {
		struct fix *fix = &writer->fixes[i];

		fix->is_still = false;
		fix->is_written = false;
		/* Done before there was no room for others. */
		if (fix->block->is_healed || fix->is_busy)
			continue;
		r = is_still(writer, fix->block, &fix->is_still);
		if (!r && !fix->is_still)
			r = was_handed_over(writer, fix->block, &is_left);
		if (r)
			return r;
		/* What another recipe has is left, for the next repair. */
		fix->block->is_gone = !fix->is_still && !is_left;
		fix->is_written = fix->is_still && !is_to_move(fix) && write_content(writer, fix);
	}
	r = rd_failpoint("heal-write");
	for (first = 0; first < writer->nr_fixes && !r; first = i) {
		u64 offset = fps_offset(writer->fixes[first].block->place);

		for (i = first; i < writer->nr_fixes; i++)
			if (fps_offset(writer->fixes[i].block->place) != offset)
				break;
		write_fps(writer, first, i - first);
	}
	return r ? r : rd_area_sync(&writer->pool->area);
}

/* --- frames, anew */

/* Called by rd_rewrite(): give it the block that belongs to @place. */
static bool mend(void *ctx, rd_place place, void *block)
{
	struct rd_heal_writer *writer = ctx;
	struct rd_bad_block wanted = { .place = place };
	const struct fix key = { .block = &wanted };
	const struct fix *fix = bsearch(&key, writer->fixes, writer->nr_fixes, sizeof(key),
					compare_fixes);
	struct rd_fp fp;

	if (!fix || !fix->is_still)
		return false;
	if (fix->data != NO_BLOCK) {
		memcpy(block, writer->data + (size_t)fix->data * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		return true;
	}
	rd_fp_blocks(writer->hasher, block, 1, &fp);
	return rd_fp_equal(&fp, &fix->block->fp);
}

static int rewrite(struct rd_heal_writer *writer, const u64 *frames, unsigned int nr)
{
	struct rd_rewrite_options options = {
		.compression = writer->pool->area.super.compression,
		.may_fill_up = true,
		.mend = mend,
		.ctx = writer,
	};
	int r;

	/* Packs stay packs, whatever is new in the pool. They are the last. */
	if (!options.compression.codec && rd_frame_is_packed(frames[nr - 1]))
		options.compression = rd_compression_default;
	r = rd_rewrite(writer->pool, frames, nr, &options);
	writer->is_full = r > 0;
	if (r == -EIO)
		rd_warn("cannot write damaged blocks anew: %s", strerror(-r));
	return r > 0 || r == -EIO ? 0 : r;
}

/* The fixes are in the order of their places. */
static int rewrite_frames(struct rd_heal_writer *writer)
{
	u64 frames[FRAMES];
	unsigned int i, nr = 0;
	int r = 0;

	for (i = 0; i < writer->nr_fixes && !r && !writer->is_full; i++) {
		u64 frame = rd_place_id(writer->fixes[i].block->place);

		if (!is_to_move(&writer->fixes[i]) || !writer->fixes[i].is_still ||
		    (nr && frames[nr - 1] == frame))
			continue;
		if (nr == FRAMES) {
			r = rewrite(writer, frames, nr);
			nr = 0;
		}
		frames[nr++] = frame;
	}
	return r || !nr || writer->is_full ? r : rewrite(writer, frames, nr);
}

/* --- reading back */

/* Find where the recipe has the block now. -ENOENT: nowhere, or it was not written. */
static int find_written(struct rd_heal_writer *writer, const struct fix *fix, rd_place *ret)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	int r;

	*ret = fix->block->place;
	if (!is_to_move(fix))
		return fix->is_written ? 0 : -ENOENT;
	r = rd_resolve(writer->resolver, fix->block->recipe, &map, &fp);
	if (r)
		return r;
	*ret = map.at[fix->block->block];
	return rd_place_kind(*ret) == RD_OWN && *ret != fix->block->place ? 0 : -ENOENT;
}

/* What was written is there only if it can be read. */
static int read_back(struct rd_heal_writer *writer, struct fix *fix)
{
	const struct rd_area *area = &writer->pool->area;
	struct rd_fp fp;
	rd_place place;
	int r;

	if (!fix->is_still)
		return 0;
	r = find_written(writer, fix, &place);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	/* What was found elsewhere before is healed, or is not looked at again. */
	writer->has_moved |= place != fix->block->place && !fix->block->is_healed;
	if (rd_blocks_read(writer->blocks, place, writer->block))
		return 0;
	rd_area_get_fps(area, rd_place_id(place), 1, writer->page);
	rd_fp_blocks(writer->hasher, writer->block, 1, &fp);
	fix->block->is_healed = rd_fp_equal(&fp, &fix->block->fp) &&
		rd_fp_equal(&writer->page[rd_place_slot(place)], &fp);
	return 0;
}

static int read_all_back(struct rd_heal_writer *writer)
{
	unsigned int i;
	int r = 0;

	rd_resolver_forget(writer->resolver);
	rd_blocks_forget(writer->blocks);
	for (i = 0; i < writer->nr_fixes && !r; i++)
		r = read_back(writer, &writer->fixes[i]);
	return r;
}

static int write_locked(struct rd_heal_writer *writer)
{
	struct rd_pool *pool = writer->pool;
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_FREE, 0, true, "the queue of slots to free");
	if (r)
		return r;
	r = claim_frames(writer);
	if (!r)
		r = rd_sql_look(pool->sql, write_batch(writer));
	if (!r)
		r = rewrite_frames(writer);
	if (!r)
		r = rd_sql_look(pool->sql, read_all_back(writer));
	rd_lock_drop(&lock);
	return r;
}

/* What was replaced is room for others. */
static int write_all(struct rd_heal_writer *writer)
{
	int r;

	do {
		writer->is_full = false;
		writer->has_moved = false;
		r = write_locked(writer);
		if (!r && writer->has_moved)
			r = rd_free_queue(writer->pool);
	} while (!r && writer->is_full && writer->has_moved);
	if (r || !writer->is_full)
		return r;
	rd_warn("damaged blocks cannot be written anew: the pool is full");
	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
	return 0;
}

int rd_heal_flush(struct rd_heal_writer *writer)
{
	unsigned int i;
	int r = 0;

	qsort(writer->fixes, writer->nr_fixes, sizeof(*writer->fixes), compare_fixes);
	if (writer->is_dry)
		for (i = 0; i < writer->nr_fixes; i++)
			writer->fixes[i].block->is_healed = true;
	else if (writer->nr_fixes)
		r = write_all(writer);
	writer->nr_fixes = 0;
	writer->nr_data = 0;
	return r;
}

int rd_heal_write(struct rd_heal_writer *writer, struct rd_bad_block *block, const void *data)
{
	unsigned int nr = NO_BLOCK;

	if (data) {
		nr = writer->nr_data++;
		memcpy(writer->data + (size_t)nr * RD_BLOCK_SIZE, data, RD_BLOCK_SIZE);
	}
	writer->fixes[writer->nr_fixes++] = (struct fix){ .block = block, .data = nr };
	return writer->nr_fixes == BATCH ? rd_heal_flush(writer) : 0;
}

struct rd_heal_writer *rd_heal_writer_new(struct rd_pool *pool, struct rd_blocks *blocks,
					  struct rd_hasher *hasher, bool is_dry)
{
	struct rd_heal_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->pool = pool;
	writer->blocks = blocks;
	writer->hasher = hasher;
	writer->is_dry = is_dry;
	writer->resolver = rd_resolver_new(pool->sql);
	writer->data = malloc((size_t)BATCH * RD_BLOCK_SIZE);
	if (writer->resolver && writer->data)
		return writer;
	rd_heal_writer_free(writer);
	return NULL;
}

void rd_heal_writer_free(struct rd_heal_writer *writer)
{
	if (!writer)
		return;
	rd_resolver_free(writer->resolver);
	free(writer->data);
	free(writer);
}
