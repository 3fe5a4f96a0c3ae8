// SPDX-License-Identifier: GPL-2.0
/*
 * Read what seems to be damaged: with the lock that keeps every command from freeing, all of
 * the segment, so that a block that cannot be read spoils no other, but for those of its group
 * of a pack. If the fingerprints beside the blocks are rotten rather than the blocks, that is
 * found out here, and the right ones are remembered. What is damaged is taken from the copies on
 * another disk, if these have it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/data/blame.h"
#include "blocks.h"
#include "random_parts.h"

/* A command that frees space holds the lock, for minutes on slow disks. */
#define WAIT_MS		(2 * 60 * 1000)

struct suspect {
	struct looked_up at;
	struct rd_fp stored[RD_SEG_BLOCKS], found[RD_SEG_BLOCKS];
	struct rd_blame blame;
	bool is_proven;
	u8 data[RD_SEG_SIZE] __attribute__((aligned(RD_BLOCK_SIZE)));
};

/* --- telling */

bool rd_random_is_new(struct rd_random *random, i64 version, u64 offset)
{
	unsigned int i, nr = rd_min(random->nr_told, NR_TOLD);
	bool is_new = true;

	pthread_mutex_lock(&random->lock);
	for (i = 0; i < nr && is_new; i++)
		is_new = random->told[i].version != version || random->told[i].offset != offset;
	if (is_new) {
		random->told[random->nr_told % NR_TOLD].version = version;
		random->told[random->nr_told++ % NR_TOLD].offset = offset;
	}
	pthread_mutex_unlock(&random->lock);
	return is_new;
}

int rd_random_tell_gone(struct rd_random *random, const struct rd_disk *disk)
{
	if (rd_random_is_new(random, disk->version.id, RANDOM_GONE)) {
		rd_err(0, "%s was deleted, and cannot be read any more", disk->name);
		rd_hint("nothing held it; a user who may write to the pool can hold what is read");
	}
	return -EIO;
}

static int tell_bad(struct rd_random *random, const struct rd_disk *disk, u64 offset, u64 len)
{
	len = rd_min(len, disk->version.size - offset);
	if (!rd_random_is_new(random, disk->version.id, offset))
		return -EIO;
	if (random->pool->is_of_another) {
		rd_err(0, "%s: damaged, or moved by the host that owns the pool: offset %llu, length %llu",
		       disk->name, offset, len);
		rd_hint("reading it is an error; who begins anew finds what was moved");
		return -EIO;
	}
	rd_err(0, "%s: damaged: offset %llu, length %llu", disk->name, offset, len);
	rd_remedy(RD_REMEDY_SCRUB, NULL, "reading it is an error");
	return -EIO;
}

/* --- reading */

/* Say where a pack was when the segment was looked up: that is where its blocks still are. */
static int say_place(void *ctx, u64 frame, struct rd_pack *ret)
{
	const struct looked_up *at = ctx;
	unsigned int i;

	for (i = 0; i < at->nr_packs; i++)
		if (at->packs[i].frame == frame) {
			*ret = at->packs[i];
			return 0;
		}
	return -ENOENT;
}

static int read_blocks(struct rd_random *random, struct suspect *suspect)
{
	struct rd_blocks *blocks = rd_blocks_new(random->pool);
	int r;

	if (!blocks)
		return -ENOMEM;
	rd_blocks_ask(blocks, say_place, &suspect->at);
	memset(suspect->data, 0, RD_SEG_SIZE);
	r = rd_blocks_read_all(blocks, suspect->at.map.at, RD_SEG_BLOCKS, suspect->data);
	rd_blocks_free(blocks);
	return r < 0 ? r : 0;
}

/* With random->searching. What is wrong with them is told once: from then on there are none. */
static bool has_copies(struct rd_random *random)
{
	if (random->has_copies && rd_copies_read_table(&random->copies)) {
		rd_copies_close(&random->copies);
		random->has_copies = false;
	}
	return random->has_copies;
}

/* Find blocks that are wanted. How many, or an error. */
static int search_copies(struct rd_random *random, struct suspect *suspect, bool *want)
{
	int r = 0;

	pthread_mutex_lock(&random->searching);
	if (has_copies(random))
		r = rd_copies_find(&random->copies, &suspect->at.map, suspect->blame.truth, want,
				   suspect->data);
	pthread_mutex_unlock(&random->searching);
	return r;
}

/*
 * Take from the copies on another disk what is bad of the piece; tell so once. That is no place
 * for a lock of the pool: the other disk may be slow.
 */
static void take_copies(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			unsigned int first, unsigned int nr, struct suspect *suspect)
{
	u64 offset = (segment << RD_SEG_SHIFT) + (u64)first * RD_BLOCK_SIZE;
	bool want[RD_SEG_BLOCKS] = { false };
	unsigned int i;

	for (i = first; i < first + nr; i++)
		want[i] = suspect->blame.bad[i] & RD_BAD_CONTENT;
	if (!memchr(want, true, RD_SEG_BLOCKS))
		return;
	/* One that is left is an error, which is what has to be told. */
	if (search_copies(random, suspect, want) > 0 && !memchr(want, true, RD_SEG_BLOCKS) &&
	    rd_random_is_new(random, disk->version.id, offset))
		rd_warn("%s: damaged at offset %llu, and read from the copies", disk->name, offset);
	for (i = first; i < first + nr; i++)
		if (!want[i])
			suspect->blame.bad[i] &= ~RD_BAD_CONTENT;
}

static bool is_bad(const struct suspect *suspect, unsigned int block)
{
	return suspect->blame.bad[block] & RD_BAD_CONTENT;
}

/* Copy the piece. If one of its blocks is bad, tell all that are bad around it instead. */
static int take_good(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		     unsigned int first, unsigned int nr, const struct suspect *suspect,
		     struct buffer *buffer)
{
	unsigned int begin = first, end;

	while (begin < first + nr && !is_bad(suspect, begin))
		begin++;
	if (begin == first + nr) {
		memcpy(buffer->data, suspect->data + (size_t)first * RD_BLOCK_SIZE,
		       (size_t)nr * RD_BLOCK_SIZE);
		return 0;
	}
	for (end = begin + 1; end < RD_SEG_BLOCKS && is_bad(suspect, end); end++)
		;
	while (begin && is_bad(suspect, begin - 1))
		begin--;
	return tell_bad(random, disk, (segment << RD_SEG_SHIFT) + (u64)begin * RD_BLOCK_SIZE,
			(u64)(end - begin) * RD_BLOCK_SIZE);
}

static int read_suspect(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			struct suspect *suspect, struct buffer *buffer)
{
	struct looked_up *at = &suspect->at;
	int r;

	r = rd_random_look_up(random, disk, segment, at);
	if (r == -ENOENT)
		return rd_random_tell_gone(random, disk);
	if (r == -EUCLEAN)
		return tell_bad(random, disk, segment << RD_SEG_SHIFT, RD_SEG_SIZE);
	if (r || !at->recipe)
		return r;
	r = read_blocks(random, suspect);
	if (r)
		return r;
	rd_read_map_fps(&random->pool->area, &at->map, suspect->stored);
	rd_fp_blocks(buffer->hasher, suspect->data, RD_SEG_BLOCKS, suspect->found);
	suspect->is_proven = rd_blame(buffer->hasher, &at->map, &at->fp, suspect->stored,
				      suspect->found, &suspect->blame);
	if (suspect->is_proven)
		rd_random_put_known(random, disk->version.id, segment, &at->map,
				    suspect->blame.truth);
	else if (rd_area_can(&random->pool->area, RD_STORE_FENCED))
		rd_blame_all(&at->map, &suspect->blame);
	return 0;
}

static int take_all(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		    unsigned int first, unsigned int nr, struct suspect *suspect,
		    struct buffer *buffer)
{
	if (!suspect->at.recipe) {
		memset(buffer->data, 0, (size_t)nr * RD_BLOCK_SIZE);
		return 0;
	}
	if (suspect->is_proven)
		take_copies(random, disk, segment, first, nr, suspect);
	return take_good(random, disk, segment, first, nr, suspect, buffer);
}

int rd_random_read_damaged(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			   unsigned int first, unsigned int nr, struct buffer *buffer)
{
	RD_FREE struct suspect *suspect = rd_alloc_direct(sizeof(*suspect));
	struct rd_lock shut = RD_LOCK_NONE;
	int r;

	if (!suspect)
		return -ENOMEM;
	/* The lock belongs to the pool's handle: threads would drop it for each other. */
	pthread_mutex_lock(&random->shut);
	r = rd_lock_take(&shut, random->pool->lock_fd, RD_LOCK_FREE, 0, false, WAIT_MS);
	if (!r)
		r = read_suspect(random, disk, segment, suspect, buffer);
	else
		rd_err(r, "%s: cannot keep blocks from moving to read offset %llu again",
		       disk->name, (segment << RD_SEG_SHIFT) + (u64)first * RD_BLOCK_SIZE);
	rd_lock_drop(&shut);
	pthread_mutex_unlock(&random->shut);
	if (!r)
		r = take_all(random, disk, segment, first, nr, suspect, buffer);
	return r ? -EIO : 0;
}
