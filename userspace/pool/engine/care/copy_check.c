// SPDX-License-Identifier: GPL-2.0
/*
 * Read all copies, and mend what is damaged from the pool: see copy.h.
 *
 * No lock keeps a command from writing copies meanwhile; but it removes an entry before other
 * content comes to its place. So what still has the same fingerprint and the same entry after its
 * content was read, and differs from it, is damaged. What cannot be read is as well, but stays:
 * the next try may read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/engine/read/blocks.h"
#include "copy.h"

struct copy_check {
	struct rd_pool *pool;
	struct rd_copy_check *report;
	struct rd_copies copies;
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	bool heal;
	u64 done, all;
	struct rd_fp fps[RD_SEG_BLOCKS];
	u8 *block;
};

/* The place that it was copied from, if that still has it. */
static bool read_pool(struct copy_check *check, u64 frame, unsigned int slot)
{
	struct rd_fp found;

	if (rd_blocks_read(check->blocks, rd_place_make(RD_OWN, frame, slot), check->block))
		return false;
	rd_fp_blocks(check->hasher, check->block, 1, &found);
	return rd_fp_agrees(&check->fps[slot], &found);
}

static int drop_block(struct copy_check *check, u32 i, u64 frame, unsigned int slot)
{
	unsigned int blocks;
	int r;

	/* An entry that is damaged may say that there are none. */
	rd_copies_frame(&check->copies, i, &blocks);
	blocks = rd_max(blocks, 1U);
	memset(&check->fps[slot], 0, sizeof(*check->fps));
	check->report->dropped++;
	r = rd_copies_write_fps(&check->copies, i, check->fps);
	return r ? r : rd_copies_enter(&check->copies, i, frame, blocks - 1);
}

/* Write the block again, or drop it if it @differs. */
static int heal_block(struct copy_check *check, u32 i, u64 frame, unsigned int slot, bool differs)
{
	const struct rd_fp *fp = &check->fps[slot];
	int r;

	if (!read_pool(check, frame, slot))
		return differs ? drop_block(check, i, frame, slot) : 0;
	r = rd_copies_write(&check->copies, i, slot, 1, check->block);
	if (!r && !rd_copies_read(&check->copies, i, slot, fp, check->block))
		check->report->healed++;
	return r;
}

/* Has the place something else by now, or nothing? */
static bool has_changed(struct copy_check *check, u32 i, unsigned int slot)
{
	if (!rd_copies_read_fps(&check->copies, i) &&
	    !rd_fp_equal(&check->copies.fps[slot], &check->fps[slot]))
		return true;
	return rd_copies_has_changed(&check->copies, i);
}

static int check_block(struct copy_check *check, u32 i, u64 frame, unsigned int slot)
{
	const struct rd_fp *fp = &check->fps[slot];
	int r;

	check->report->blocks++;
	r = rd_copies_read(&check->copies, i, slot, fp, check->block);
	if (!r || has_changed(check, i, slot))
		return 0;
	check->report->damaged++;
	return check->heal ? heal_block(check, i, frame, slot, r == -EBADMSG) : 0;
}

static int drop_rest(struct copy_check *check, u32 i, unsigned int nr)
{
	check->report->dropped += nr;
	return rd_copies_drop(&check->copies, i);
}

static int check_frame(struct copy_check *check, u32 i)
{
	unsigned int slot, blocks, nr = 0;
	u64 frame = rd_copies_frame(&check->copies, i, &blocks);
	int r = 0, unread;

	if (frame == U64_MAX)
		return 0;
	unread = rd_copies_read_fps(&check->copies, i);
	memcpy(check->fps, check->copies.fps, sizeof(check->fps));
	for (slot = 0; slot < RD_SEG_BLOCKS && !r; slot++) {
		if (rd_fp_is_zero(&check->fps[slot]))
			continue;
		nr++;
		r = check_block(check, i, frame, slot);
	}
	/* Fingerprints that were lost. */
	if (!r && nr < blocks && !rd_copies_has_changed(&check->copies, i)) {
		check->report->damaged += blocks - nr;
		check->report->blocks += unread ? blocks : 0;
		if (check->heal && !unread)
			r = drop_rest(check, i, blocks - nr);
	}
	check->done += blocks;
	return r ? r : rd_pool_progress(check->pool, "copies", check->done * RD_BLOCK_SIZE,
					check->all * RD_BLOCK_SIZE);
}

static int check_all(struct copy_check *check)
{
	u64 frames;
	u32 i;
	int r = 0;

	check->report->any = true;
	rd_copies_count(&check->copies, &frames, &check->all);
	for (i = 0; i < check->copies.nr_frames && !r; i++)
		r = check_frame(check, i);
	return r || !check->heal ? r : rd_copies_sync(&check->copies);
}

static int set_up(struct copy_check *check)
{
	check->blocks = rd_blocks_new(check->pool);
	check->hasher = rd_hasher_new();
	check->block = rd_alloc_direct(RD_BLOCK_SIZE);
	return check->blocks && check->hasher && check->block ? 0 : -ENOMEM;
}

/* A pass may run for hours: what a repair has done to the pool does not wait for it. */
static int lock_copies(struct rd_pool *pool, struct rd_lock *lock)
{
	int r = rd_lock_take(lock, pool->lock_fd, RD_LOCK_PASS, 0, true, pool->wait_ms);

	if (r == -EAGAIN)
		rd_warn("the copies are not checked: another command may write them now");
	return r;
}

static int run(struct copy_check *check)
{
	struct rd_pool *pool = check->pool;
	struct rd_lock lock = RD_LOCK_NONE;
	bool heal = check->heal;
	int r = 0;

	if (!rd_copies_exist(pool->path))
		return 0;
	/* Nothing that is known of them is older: they may be removed, and their device used. */
	if (heal)
		r = lock_copies(pool, &lock);
	if (r)
		return r == -EAGAIN ? 0 : r;
	/* What is wrong with all of them was a warning. */
	if (!rd_copies_open(&check->copies, pool->path, pool->area.super.uuid, heal)) {
		r = set_up(check);
		if (!r)
			r = check_all(check);
		rd_copies_close(&check->copies);
	}
	rd_lock_drop(&lock);
	return r;
}

int rd_copy_check(struct rd_pool *pool, bool heal, struct rd_copy_check *report)
{
	RD_FREE struct copy_check *check = calloc(1, sizeof(*check));
	int r;

	memset(report, 0, sizeof(*report));
	if (!check)
		return -ENOMEM;
	check->pool = pool;
	check->report = report;
	check->heal = heal;
	r = run(check);
	rd_blocks_free(check->blocks);
	rd_hasher_free(check->hasher);
	free(check->block);
	return r;
}
