// SPDX-License-Identifier: GPL-2.0
/*
 * Write what was lost back to where it was.
 *
 * The fingerprint of a bad block is known, so another block that has it is a copy
 * of it, wherever that is: the fingerprints of the copies on another disk, then of all
 * frames, are streamed past those that are wanted, and then the images that the user has
 * named. A copy is read and hashed before it counts.
 *
 * heal_write.c writes what was found.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/fresh.h"
#include "pool/catalog/owners.h"
#include "pool/data/copies.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/journal/journal_life.h"
#include "pool/engine/read/blocks.h"
#include "heal.h"
#include "heal_write.h"

#define NR_HEADS	(64U << 10)
#define NO_BLOCK	U32_MAX
#define FRAMES		RD_GROUP_FRAMES	/* whose fingerprints are one read */

struct heal {
	struct rd_healer healer;
	struct rd_pool *pool;
	const struct rd_heal_options *options;
	struct rd_hasher *hasher;
	struct rd_blocks *blocks;
	struct rd_heal_writer *writer;
	/* Bad blocks whose copies are wanted, by fingerprint. */
	size_t nr_wanted;
	/* Those whose fingerprint is lost as well; only a whole segment helps. */
	size_t nr_unproven;
	struct rd_bad_list *list;
	u32 heads[NR_HEADS];
	u8 *buffer;			/* a segment, or the block that is tried */
	struct rd_fp fps[FRAMES][RD_SEG_BLOCKS];
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

/* --- looking for copies */

/* @data is a block that has @fp: everybody who wants it gets it. */
static int found(struct heal *heal, const struct rd_fp *fp, const void *data)
{
	struct rd_bad_block *block;
	int r = 0;

	while (!r && (block = take_wanted(heal, fp)))
		r = rd_heal_write(heal->writer, block, data);
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
		r = rd_heal_write(heal->writer, block,
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
			r = rd_heal_write(heal->writer, block, NULL);
	}
	return r ? r : rd_heal_flush(heal->writer);
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
	return r ? r : rd_heal_flush(heal->writer);
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
	return heal->options->dry_run ? 0 : rd_journal_renew(pool, 0);
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
	heal->blocks = rd_blocks_new(heal->pool);
	heal->buffer = rd_alloc_direct(RD_SEG_SIZE);
	if (!heal->hasher || !heal->blocks || !heal->buffer)
		return -ENOMEM;
	heal->writer = rd_heal_writer_new(heal->pool, heal->blocks, heal->hasher,
					  heal->options->dry_run);
	if (!heal->writer)
		return -ENOMEM;
	return heal->options->dry_run ? 0 : grow(heal->pool);
}

int rd_heal(struct rd_pool *pool, const struct rd_heal_options *options,
	    struct rd_damage_report *report)
{
	RD_FREE struct heal *heal = calloc(1, sizeof(*heal));
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
	rd_heal_writer_free(heal->writer);
	rd_blocks_free(heal->blocks);
	rd_hasher_free(heal->hasher);
	free(heal->buffer);
	return r;
}
