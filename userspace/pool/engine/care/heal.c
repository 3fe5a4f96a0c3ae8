// SPDX-License-Identifier: GPL-2.0
/*
 * Write what was lost back to where it was.
 *
 * The fingerprint of a bad block is known, so another block that has it is a copy
 * of it, wherever that is: the fingerprints of the copies on another disk, then of all
 * frames, are streamed past those that are wanted, and then the images that the user has
 * named. A copy is read and hashed before it counts.
 *
 * What was found is written in batches, under the lock of those who move and free:
 * the place must still be the one of the recipe that proved what belongs there.
 * The place has nothing that is worth anything, so a crash in the middle of it
 * loses nothing; content goes before its fingerprint.
 *
 * A pack is never written to: what lives in a damaged one is written anew, with the blocks
 * that were found. What was not found stays, and keeps the old pack.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/fresh.h"
#include "pool/catalog/owners.h"
#include "pool/data/copies.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/journal/journal_life.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/space/rewrite.h"
#include "pool/engine/version/version.h"
#include "heal.h"

#define NR_HEADS	(64U << 10)
#define NO_BLOCK	U32_MAX
#define BATCH		4096		/* blocks that were found: 16 MiB */
#define FRAMES		RD_GROUP_FRAMES	/* whose fingerprints are one read */
/* Packs that are written anew at a time. */
#define PACKS		(RD_REWRITE_BLOCKS / RD_SEG_BLOCKS)

struct fix {
	struct rd_bad_block *block;
	unsigned int data;		/* which of heal->data; NO_BLOCK: it is there */
	bool is_busy;			/* another session writes to its frame */
	bool is_still;			/* the place is still that of the block */
	bool is_written;
};

struct heal {
	struct rd_healer healer;
	struct rd_pool *pool;
	const struct rd_heal_options *options;
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	struct rd_blocks *blocks;
	bool has_new_packs;		/* of what is being written, */
	bool is_full;			/* and no room for more */
	/* Bad blocks whose copies are wanted, by fingerprint. */
	size_t nr_wanted;
	/* Those whose fingerprint is lost as well; only a whole segment helps. */
	size_t nr_unproven;
	struct rd_bad_list *list;
	u32 heads[NR_HEADS];
	/* What is to be written next. */
	unsigned int nr_fixes, nr_data;
	struct fix fixes[BATCH];
	u8 *data;
	u8 *buffer;			/* a segment, or the block that is tried */
	struct rd_fp fps[FRAMES][RD_SEG_BLOCKS];
	/* While that is written, these are for it. */
	u8 block[RD_BLOCK_SIZE];
	struct rd_fp page[RD_SEG_BLOCKS];
};

/* --- what is wanted */

static u32 *head_of(struct heal *heal, const struct rd_fp *fp)
{
	u32 key;

	memcpy(&key, fp->b, sizeof(key));
	return &heal->heads[key % NR_HEADS];
}

static void want_all(struct heal *heal)
{
	size_t i;

	memset(heal->heads, 0xff, sizeof(heal->heads));
	heal->nr_wanted = 0;
	heal->nr_unproven = 0;
	for (i = 0; i < heal->list->nr; i++) {
		struct rd_bad_block *block = &heal->list->blocks[i];
		u32 *head = head_of(heal, &block->fp);

		heal->nr_unproven += block->what && !block->is_proven;
		if (!block->is_proven || !(block->what & RD_BAD_CONTENT))
			continue;
		block->next = *head;
		*head = i;
		heal->nr_wanted++;
	}
}

/* Take out the next block that should have @fp. NULL: there is none. */
static struct rd_bad_block *take_wanted(struct heal *heal, const struct rd_fp *fp)
{
	u32 *next = head_of(heal, fp);

	while (*next != NO_BLOCK) {
		struct rd_bad_block *block = &heal->list->blocks[*next];

		if (rd_fp_equal(&block->fp, fp)) {
			*next = block->next;
			heal->nr_wanted--;
			return block;
		}
		next = &block->next;
	}
	return NULL;
}

static bool is_wanted(struct heal *heal, const struct rd_fp *fp)
{
	u32 at = *head_of(heal, fp);

	while (at != NO_BLOCK && !rd_fp_equal(&heal->list->blocks[at].fp, fp))
		at = heal->list->blocks[at].next;
	return at != NO_BLOCK;
}

/* --- frames that others fill */

/*
 * A snapshot that fills a frame writes all fingerprints of the frame, from what it has read before.
 * Leave out frames that one fills now, and let none begin: it would write what it read back.
 */
static int claim_frames(struct heal *heal)
{
	struct rd_sql *sql = heal->pool->sql;
	u64 frame, last = U64_MAX;
	bool is_busy = false, any = false;
	unsigned int i;
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	for (i = 0; i < heal->nr_fixes && !r; i++) {
		frame = rd_place_id(heal->fixes[i].block->place);
		if (frame != last && !rd_frame_is_packed(frame)) {
			r = rd_frames_is_reserved(sql, frame, &is_busy);
			if (!r && !is_busy)
				r = rd_filling_drop_tail(sql, frame);
		}
		last = frame;
		heal->fixes[i].is_busy = is_busy && !rd_frame_is_packed(frame);
		any |= heal->fixes[i].is_busy;
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

	return x->block->place < y->block->place ? -1 : x->block->place > y->block->place;
}

/* Where its recipe is not what it was, so is its place, and nothing is lost. */
static int is_still(struct heal *heal, const struct rd_bad_block *block, bool *ret)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	int r;

	*ret = false;
	r = rd_resolve(heal->resolver, block->recipe, &map, &fp);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	*ret = map.at[block->block] == block->place &&
		rd_seg_fp_equal(&fp, &block->recipe_fp);
	return 0;
}

/* Content that a pack has cannot be written to its place. */
static bool is_for_pack(const struct fix *fix)
{
	return fix->data != NO_BLOCK && rd_frame_is_packed(rd_place_id(fix->block->place));
}

static bool write_content(struct heal *heal, const struct fix *fix)
{
	int r;

	if (fix->data == NO_BLOCK)
		return true;
	r = rd_area_write(&heal->pool->area, heal->data + (size_t)fix->data * RD_BLOCK_SIZE,
			  RD_BLOCK_SIZE, rd_place_offset(fix->block->place));
	if (r)
		rd_warn("cannot write to frame %llu: %s",
			(unsigned long long)rd_place_id(fix->block->place), strerror(-r));
	return !r;
}

/* The fingerprints of fixes @first to @first + @nr, which are in one frame. */
static void write_fps(struct heal *heal, unsigned int first, unsigned int nr)
{
	const struct rd_area *area = &heal->pool->area;
	u64 frame = rd_place_id(heal->fixes[first].block->place);
	struct rd_fp *page = heal->page;
	bool any = false;
	unsigned int i;
	int r;

	rd_area_get_fps(area, frame, 1, page);
	for (i = first; i < first + nr; i++) {
		if (!heal->fixes[i].is_written)
			continue;
		page[rd_place_slot(heal->fixes[i].block->place)] = heal->fixes[i].block->fp;
		any = true;
	}
	if (!any)
		return;
	r = rd_area_write(area, page, RD_FPS_SIZE, rd_frame_fps_offset(frame));
	if (r)
		rd_warn("cannot write the fingerprints of frame %llu: %s",
			(unsigned long long)frame, strerror(-r));
}

static int write_batch(struct heal *heal)
{
	unsigned int i, first;
	int r;

	rd_resolver_forget(heal->resolver);
	for (i = 0; i < heal->nr_fixes; i++) {
		struct fix *fix = &heal->fixes[i];

		fix->is_still = false;
		fix->is_written = false;
		/* Done before there was no room for others. */
		if (fix->block->is_healed || fix->is_busy)
			continue;
		r = is_still(heal, fix->block, &fix->is_still);
		if (r)
			return r;
		fix->block->is_gone = !fix->is_still;
		fix->is_written = fix->is_still && !is_for_pack(fix) && write_content(heal, fix);
	}
	r = rd_failpoint("heal-write");
	for (first = 0; first < heal->nr_fixes && !r; first = i) {
		u64 frame = rd_place_id(heal->fixes[first].block->place);

		for (i = first; i < heal->nr_fixes; i++)
			if (rd_place_id(heal->fixes[i].block->place) != frame)
				break;
		write_fps(heal, first, i - first);
	}
	return r ? r : rd_area_sync(&heal->pool->area);
}

/* --- packs, anew */

/* Called by rd_rewrite(): give it the block that belongs to @place. */
static bool mend(void *ctx, rd_place place, void *block)
{
	struct heal *heal = ctx;
	struct rd_bad_block wanted = { .place = place };
	const struct fix key = { .block = &wanted };
	const struct fix *fix = bsearch(&key, heal->fixes, heal->nr_fixes, sizeof(key),
					compare_fixes);

	if (!fix || !fix->is_still || fix->data == NO_BLOCK)
		return false;
	memcpy(block, heal->data + (size_t)fix->data * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
	return true;
}

static int rewrite(struct heal *heal, const u64 *frames, unsigned int nr)
{
	struct rd_rewrite_options options = {
		.compression = heal->pool->area.super.compression,
		.may_fill_up = true,
		.mend = mend,
		.ctx = heal,
	};
	int r;

	/* They were packed, whatever is new in the pool. */
	if (!options.compression.codec)
		options.compression = rd_compression_default;
	r = rd_rewrite(heal->pool, frames, nr, &options);
	heal->has_new_packs |= !r;
	heal->is_full = r > 0;
	if (r == -EIO)
		rd_warn("cannot write damaged packs anew: %s", strerror(-r));
	return r > 0 || r == -EIO ? 0 : r;
}

/* The fixes are in the order of their places. */
static int rewrite_packs(struct heal *heal)
{
	u64 frames[PACKS];
	unsigned int i, nr = 0;
	int r = 0;

	for (i = 0; i < heal->nr_fixes && !r && !heal->is_full; i++) {
		u64 frame = rd_place_id(heal->fixes[i].block->place);

		if (!is_for_pack(&heal->fixes[i]) || !heal->fixes[i].is_still ||
		    (nr && frames[nr - 1] == frame))
			continue;
		if (nr == PACKS) {
			r = rewrite(heal, frames, nr);
			nr = 0;
		}
		frames[nr++] = frame;
	}
	return r || !nr || heal->is_full ? r : rewrite(heal, frames, nr);
}

/* --- reading back */

/* Find where the recipe has the block now. -ENOENT: nowhere, or it was not written. */
static int find_written(struct heal *heal, const struct fix *fix, rd_place *ret)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	int r;

	*ret = fix->block->place;
	if (!is_for_pack(fix))
		return fix->is_written ? 0 : -ENOENT;
	r = rd_resolve(heal->resolver, fix->block->recipe, &map, &fp);
	if (r)
		return r;
	*ret = map.at[fix->block->block];
	return rd_place_kind(*ret) == RD_OWN && *ret != fix->block->place ? 0 : -ENOENT;
}

/* What was written is there only if it can be read. */
static int read_back(struct heal *heal, struct fix *fix)
{
	const struct rd_area *area = &heal->pool->area;
	struct rd_fp fp;
	rd_place place;
	int r;

	if (!fix->is_still)
		return 0;
	r = find_written(heal, fix, &place);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	if (rd_blocks_read(heal->blocks, place, heal->block) ||
	    rd_area_read_fps(area, rd_place_id(place), 1, heal->page))
		return 0;
	rd_fp_blocks(heal->hasher, heal->block, 1, &fp);
	fix->block->is_healed = rd_fp_equal(&fp, &fix->block->fp) &&
		rd_fp_equal(&heal->page[rd_place_slot(place)], &fp);
	return 0;
}

static int read_all_back(struct heal *heal)
{
	unsigned int i;
	int r = 0;

	rd_resolver_forget(heal->resolver);
	rd_blocks_forget(heal->blocks);
	for (i = 0; i < heal->nr_fixes && !r; i++)
		r = read_back(heal, &heal->fixes[i]);
	return r;
}

static int write_locked(struct heal *heal)
{
	struct rd_pool *pool = heal->pool;
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_FREE, 0, true, "the queue of slots to free");
	if (r)
		return r;
	r = claim_frames(heal);
	if (!r)
		r = rd_sql_look(pool->sql, write_batch(heal));
	if (!r)
		r = rewrite_packs(heal);
	if (!r)
		r = rd_sql_look(pool->sql, read_all_back(heal));
	rd_lock_drop(&lock);
	return r;
}

/* Packs that were replaced are room for others. */
static int write_all(struct heal *heal)
{
	int r;

	do {
		heal->is_full = false;
		heal->has_new_packs = false;
		r = write_locked(heal);
		if (!r && heal->has_new_packs)
			r = rd_free_queue(heal->pool);
	} while (!r && heal->is_full && heal->has_new_packs);
	if (r || !heal->is_full)
		return r;
	rd_warn("damaged packs cannot be written anew: the pool is full");
	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
	return 0;
}

static int flush(struct heal *heal)
{
	unsigned int i;
	int r = 0;

	qsort(heal->fixes, heal->nr_fixes, sizeof(*heal->fixes), compare_fixes);
	if (heal->options->dry_run)
		for (i = 0; i < heal->nr_fixes; i++)
			heal->fixes[i].block->is_healed = true;
	else if (heal->nr_fixes)
		r = write_all(heal);
	heal->nr_fixes = 0;
	heal->nr_data = 0;
	return r;
}

static int add_fix(struct heal *heal, struct rd_bad_block *block, unsigned int data)
{
	heal->fixes[heal->nr_fixes++] = (struct fix){ .block = block, .data = data };
	return heal->nr_fixes == BATCH ? flush(heal) : 0;
}

static int add_data(struct heal *heal, struct rd_bad_block *block, const void *data)
{
	unsigned int nr = heal->nr_data++;

	memcpy(heal->data + (size_t)nr * RD_BLOCK_SIZE, data, RD_BLOCK_SIZE);
	return add_fix(heal, block, nr);
}

/* --- looking for copies */

/* @data is a block that has @fp: everybody who wants it gets it. */
static int found(struct heal *heal, const struct rd_fp *fp, const void *data)
{
	struct rd_bad_block *block;
	int r = 0;

	while (!r && (block = take_wanted(heal, fp)))
		r = add_data(heal, block, data);
	return r;
}

static int try_place(struct heal *heal, rd_place place, const struct rd_fp *fp)
{
	struct rd_fp real;

	if (rd_blocks_read(heal->blocks, place, heal->buffer))
		return 0;
	rd_fp_blocks(heal->hasher, heal->buffer, 1, &real);
	return rd_fp_equal(&real, fp) ? found(heal, fp, heal->buffer) : 0;
}

/* Frames from *@next to @last, of one group, that recipes have something in. */
static int next_frames(struct heal *heal, u64 *next, u64 last, u64 *frames,
		       unsigned int *ret_nr)
{
	RD_ROW struct rd_row *rows = NULL;
	unsigned int nr = 0;
	u64 frame;
	int r;

	r = rd_frames_owned(heal->pool->sql, &rows, *next, last, FRAMES);
	while (!r && (r = rd_next_frame(rows, &frame)) > 0) {
		r = 0;
		if (nr && frame / RD_GROUP_FRAMES != frames[0] / RD_GROUP_FRAMES)
			break;
		frames[nr++] = frame;
	}
	*ret_nr = nr;
	if (nr)
		*next = frames[nr - 1] + 1;
	return r;
}

static int search_frame(struct heal *heal, u64 frame, const struct rd_fp *fps)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r && heal->nr_wanted; i++)
		if (is_wanted(heal, &fps[i]))
			r = try_place(heal, rd_place_make(RD_OWN, frame, i), &fps[i]);
	return r;
}

/* Frames @first to @last, ordinary or packed ones. */
static int search_frames(struct heal *heal, const char *what, u64 first, u64 last)
{
	u64 frames[FRAMES], next = first;
	unsigned int i, nr = 1;
	int r = 0;

	while (!r && heal->nr_wanted && nr) {
		r = next_frames(heal, &next, last, frames, &nr);
		if (r || !nr)
			break;
		rd_area_get_fps(&heal->pool->area, frames[0], frames[nr - 1] - frames[0] + 1,
				heal->fps[0]);
		for (i = 0; i < nr && !r; i++)
			r = search_frame(heal, frames[i], heal->fps[frames[i] - frames[0]]);
		if (!r)
			r = rd_pool_progress(heal->pool, what, (next - first) * RD_FPS_SIZE,
					     (last - first + 1) * RD_FPS_SIZE);
	}
	return r;
}

static int search_pool(struct heal *heal)
{
	u64 nr_frames = heal->pool->area.super.nr_frames;
	int r;

	rd_blocks_forget(heal->blocks);
	r = search_frames(heal, "search", 0, nr_frames - 1);
	return r ? r : search_frames(heal, "search packs", RD_PACKED_FRAMES,
				     rd_packed_frame(nr_frames - 1, RD_GROUP_FRAMES - 1));
}

/* --- copies on another disk: they are few, and what damaged the pool has spared them */

static int search_copy(struct heal *heal, struct rd_copies *copies, u32 i)
{
	struct rd_fp *fps = heal->fps[0];
	unsigned int slot;
	int r = 0;

	memcpy(fps, rd_copies_fps(copies, i), RD_FPS_SIZE);
	for (slot = 0; slot < RD_SEG_BLOCKS && !r; slot++)
		if (is_wanted(heal, &fps[slot]) &&
		    !rd_copies_read(copies, i, slot, &fps[slot], heal->buffer))
			r = found(heal, &fps[slot], heal->buffer);
	return r;
}

static int search_copies(struct heal *heal)
{
	const struct rd_pool *pool = heal->pool;
	struct rd_copies copies;
	unsigned int blocks;
	int r = 0;
	u32 i;

	if (!heal->nr_wanted ||
	    rd_copies_open(&copies, pool->path, pool->area.super.uuid, false))
		return 0;
	for (i = 0; i < copies.nr_frames && heal->nr_wanted && !r; i++) {
		if (rd_copies_frame(&copies, i, &blocks) == U64_MAX)
			continue;
		r = search_copy(heal, &copies, i);
		if (!r)
			r = rd_pool_progress(heal->pool, "search copies", (u64)i * RD_FPS_SIZE,
					     (u64)copies.nr_frames * RD_FPS_SIZE);
	}
	rd_copies_close(&copies);
	return r;
}

/* --- images */

/* Read a segment of an image. A part that cannot be read is zeros, which no block wants. */
static void read_image(struct heal *heal, int fd, u64 offset)
{
	unsigned int i;

	if (!rd_read_direct(fd, heal->buffer, RD_SEG_SIZE, offset))
		return;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		u8 *to = heal->buffer + (size_t)i * RD_BLOCK_SIZE;

		if (rd_read_direct(fd, to, RD_BLOCK_SIZE, offset + (u64)i * RD_BLOCK_SIZE))
			memset(to, 0, RD_BLOCK_SIZE);
	}
}

/* This is the whole of segment @fp: it has what even the fingerprints of are lost. */
static int found_segment(struct heal *heal, const struct rd_seg_fp *fp,
			 const struct rd_fp fps[RD_SEG_BLOCKS])
{
	size_t i;
	int r = 0;

	for (i = 0; i < heal->list->nr && !r && heal->nr_unproven; i++) {
		struct rd_bad_block *block = &heal->list->blocks[i];

		if (!block->what || block->is_proven ||
		    !rd_seg_fp_equal(&block->recipe_fp, fp))
			continue;
		block->fp = fps[block->block];
		block->is_proven = true;
		heal->nr_unproven--;
		r = add_data(heal, block,
			     heal->buffer + (size_t)block->block * RD_BLOCK_SIZE);
	}
	return r;
}

static int search_segment(struct heal *heal, int fd, u64 offset)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct rd_seg_fp fp;
	unsigned int i;
	int r;

	read_image(heal, fd, offset);
	rd_fp_segment(heal->hasher, heal->buffer, RD_SEG_SIZE, fps, &fp);
	r = found_segment(heal, &fp, fps);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (is_wanted(heal, &fps[i]))
			r = found(heal, &fps[i], heal->buffer + (size_t)i * RD_BLOCK_SIZE);
	return r;
}

static int open_image(const char *path, u64 *ret_size)
{
	int fd = rd_open_direct(path, O_RDONLY, 0), r;
	bool is_device;

	if (fd < 0)
		return rd_err(fd, "cannot open '%s'", path);
	r = rd_size_of(fd, ret_size, &is_device);
	if (!r)
		return fd;
	close(fd);
	return rd_err(r, "cannot look at '%s'", path);
}

/* Before all the work. */
static int check_images(const struct rd_heal_options *options)
{
	unsigned int i;
	u64 size;
	int fd;

	for (i = 0; i < options->nr_from; i++) {
		fd = open_image(options->from[i], &size);
		if (fd < 0)
			return fd;
		close(fd);
	}
	return 0;
}

static bool is_wanting(const struct heal *heal)
{
	return heal->nr_wanted || heal->nr_unproven;
}

static int search_image(struct heal *heal, const char *path)
{
	RD_CLOSE int fd = -1;
	u64 size, at;
	int r = 0;

	fd = open_image(path, &size);
	if (fd < 0)
		return fd;
	for (at = 0; !r && at < size && is_wanting(heal); at += RD_SEG_SIZE) {
		r = search_segment(heal, fd, at);
		if (!r)
			r = rd_pool_progress(heal->pool, "read", at, size);
	}
	return r;
}

/* --- */

/* Fingerprints that are wrong beside blocks that are right. */
static int heal_fps(struct heal *heal)
{
	size_t i;
	int r = 0;

	for (i = 0; i < heal->list->nr && !r; i++) {
		struct rd_bad_block *block = &heal->list->blocks[i];

		if (block->is_proven && block->what == RD_BAD_FP)
			r = add_fix(heal, block, NO_BLOCK);
	}
	return r ? r : flush(heal);
}

/* A pass over the pool may have read fingerprints that were wrong. */
static int forget_pass(struct rd_pool *pool)
{
	return rd_catalog_do(pool->sql, rd_fresh_forget(pool->sql));
}

static int heal_all(struct heal *heal)
{
	unsigned int i;
	int r;

	r = heal_fps(heal);
	if (r)
		return r;
	want_all(heal);
	r = search_copies(heal);
	if (!r)
		r = search_pool(heal);
	for (i = 0; i < heal->options->nr_from && !r && is_wanting(heal); i++)
		r = search_image(heal, heal->options->from[i]);
	return r ? r : flush(heal);
}

static int heal_list(struct rd_healer *healer, struct rd_pool *pool, struct rd_bad_list *list)
{
	struct heal *heal = (struct heal *)healer;
	int r, end;

	heal->list = list;
	if (heal->options->dry_run)
		return heal_all(heal);
	r = forget_pass(pool);
	if (r)
		return r;
	r = heal_all(heal);
	/* One that has begun since then, too. */
	end = forget_pass(pool);
	return r ? r : end;
}

/* The superblocks are whole since the pool was opened for writing. */
static int heal_journal(struct heal *heal, struct rd_damage_report *report)
{
	struct rd_pool *pool = heal->pool;
	bool good;
	int r = rd_journal_verify(pool, &good);

	if (r || good)
		return r;
	report->journal_bad = true;
	return heal->options->dry_run ? 0 : rd_journal_renew(pool);
}

/* A file that was cut off gets its length back: what it lost are holes. */
static int grow(struct rd_pool *pool)
{
	struct rd_area *area = &pool->area;
	u64 bytes = rd_frame_offset(area->super.nr_frames - 1) + RD_SEG_SIZE;
	int r;

	if (!rd_area_can(area, RD_STORE_GROWS) || area->store->bytes >= bytes)
		return 0;
	r = area->store->ops->resize(area->store, bytes);
	return r ? rd_err(r, "cannot set the size of the data area") : 0;
}

static int set_up(struct heal *heal)
{
	heal->hasher = rd_hasher_new();
	heal->resolver = rd_resolver_new(heal->pool->sql);
	heal->blocks = rd_blocks_new(heal->pool);
	heal->data = malloc((size_t)BATCH * RD_BLOCK_SIZE);
	heal->buffer = rd_alloc_direct(RD_SEG_SIZE);
	if (!heal->hasher || !heal->resolver || !heal->blocks || !heal->data || !heal->buffer)
		return -ENOMEM;
	return heal->options->dry_run ? 0 : grow(heal->pool);
}

int rd_heal(struct rd_pool *pool, const struct rd_heal_options *options,
	    struct rd_damage_report *report)
{
	struct heal *heal = calloc(1, sizeof(*heal));
	int r;

	memset(report, 0, sizeof(*report));
	if (!heal)
		return -ENOMEM;
	heal->healer.heal = heal_list;
	heal->pool = pool;
	heal->options = options;
	r = check_images(options);
	if (!r)
		r = set_up(heal);
	if (!r)
		r = rd_damage_find(pool, NULL, &heal->healer, report);
	if (!r)
		r = heal_journal(heal, report);
	rd_blocks_free(heal->blocks);
	rd_hasher_free(heal->hasher);
	rd_resolver_free(heal->resolver);
	free(heal->data);
	free(heal->buffer);
	free(heal);
	return r;
}
