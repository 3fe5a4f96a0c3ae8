// SPDX-License-Identifier: GPL-2.0
/* Where packs go: see pack_writer.h. */
#include <errno.h>
#include <string.h>

#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pack_writer.h"

/* Frames that are reserved at a time. */
#define RESERVE		16
#define PAGE_SLOTS	(RD_FPS_SIZE / RD_BLOCK_SIZE)
/* Places that are in a row, on the disk as well. */
#define GROUP_PLACES	((u64)RD_GROUP_FRAMES * RD_SEG_BLOCKS)

void rd_pack_writer_begin(struct rd_pack_writer *writer, struct rd_pool *pool,
			  bool may_fill_up)
{
	*writer = (struct rd_pack_writer){ .pool = pool, .may_fill_up = may_fill_up };
}

void rd_pack_writer_free(struct rd_pack_writer *writer)
{
	rd_buffer_free(&writer->left);
}

static int keep_left(struct rd_pack_writer *writer, u64 frame)
{
	return rd_buffer_put(&writer->left, &frame, sizeof(frame));
}

static int reserve(struct rd_pack_writer *writer, u64 want, u64 *ret_start, u64 *ret_len)
{
	struct rd_pool *pool = writer->pool;
	u64 nr_frames = rd_frames_limit(pool->area.super.nr_frames, writer->may_fill_up);

	return rd_frames_reserve(pool->sql, pool->session, want, nr_frames, ret_start, ret_len);
}

/* --- fingerprints */

/* Find two slots that are free, and take them. */
static bool take_page(struct rd_pack_writer *writer, unsigned int *ret)
{
	for (; writer->page < RD_GROUP_FRAMES; writer->page++) {
		unsigned int slot = writer->page * PAGE_SLOTS;

		if (!rd_slots_test(&writer->free, slot) || !rd_slots_test(&writer->free, slot + 1))
			continue;
		*ret = writer->page++;
		return true;
	}
	return false;
}

static int find_fps(struct rd_pack_writer *writer)
{
	struct rd_pool *pool = writer->pool;
	u64 len;
	int r;

	r = rd_filling_take_fps(pool->sql, pool->session, &writer->fps, &writer->free);
	if (r != -ENOENT)
		return r;
	memset(&writer->free, 0xff, sizeof(writer->free));
	return reserve(writer, 1, &writer->fps, &len);
}

static int open_fps(struct rd_pack_writer *writer)
{
	int r = rd_catalog_do(writer->pool->sql, find_fps(writer));

	writer->has_fps = !r;
	writer->page = 0;
	return r;
}

static int take_number(struct rd_pack_writer *writer, u64 *ret)
{
	unsigned int page = 0;
	int r = 0;

	while (!writer->has_fps || !take_page(writer, &page)) {
		if (writer->has_fps)
			r = keep_left(writer, writer->fps);
		writer->has_fps = false;
		if (!r)
			r = open_fps(writer);
		if (r)
			return r;
	}
	*ret = rd_packed_frame(writer->fps, page);
	return 0;
}

/* --- places */

/* Leave the frames from that of @from up to that of @end, in part or unwritten. */
static int leave_run(struct rd_pack_writer *writer)
{
	u64 frame = writer->at / RD_SEG_BLOCKS, end = writer->end / RD_SEG_BLOCKS;
	int r = 0;

	for (; frame < end && !r; frame++)
		r = keep_left(writer, frame);
	writer->at = 0;
	writer->end = 0;
	return r;
}

/* Does the pack fit, in places in a row? */
static bool fits(const struct rd_pack_writer *writer, unsigned int blocks)
{
	u64 end = rd_min(writer->end, (writer->at / GROUP_PLACES + 1) * GROUP_PLACES);

	return end - writer->at >= blocks;
}

static int find_tail(struct rd_pack_writer *writer, unsigned int blocks)
{
	struct rd_pool *pool = writer->pool;
	unsigned int next;
	u64 frame;
	int r;

	r = rd_filling_take_tail(pool->sql, pool->session, &frame, &next);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (RD_SEG_BLOCKS - next < blocks)
		return rd_filling_leave_tail(pool->sql, frame, next);
	writer->at = frame * RD_SEG_BLOCKS + next;
	writer->end = (frame + 1) * RD_SEG_BLOCKS;
	return 0;
}

static int open_tail(struct rd_pack_writer *writer, unsigned int blocks)
{
	return rd_catalog_do(writer->pool->sql, find_tail(writer, blocks));
}

static int open_run(struct rd_pack_writer *writer)
{
	u64 start, len;
	int r;

	r = rd_catalog_do(writer->pool->sql, reserve(writer, writer->may_fill_up ? 2 : RESERVE,
						     &start, &len));
	if (r)
		return r;
	/* Behind the last one, if it happens to be so. */
	if (writer->end != start * RD_SEG_BLOCKS) {
		r = leave_run(writer);
		writer->at = start * RD_SEG_BLOCKS;
	}
	writer->end = (start + len) * RD_SEG_BLOCKS;
	return r;
}

/* At the end of a group the rest of a frame is left out. */
static int skip_group(struct rd_pack_writer *writer, unsigned int blocks)
{
	u64 next = (writer->at / GROUP_PLACES + 1) * GROUP_PLACES;
	u64 frame = writer->at / RD_SEG_BLOCKS;
	int r = 0;

	if (writer->end < next || writer->at + blocks <= next)
		return 0;
	for (; frame < next / RD_SEG_BLOCKS && !r; frame++)
		r = keep_left(writer, frame);
	writer->at = next;
	return r;
}

int rd_pack_writer_place(struct rd_pack_writer *writer, unsigned int blocks, u64 *ret_place)
{
	u64 frame;
	int r = 0;

	if (!writer->end)
		r = open_tail(writer, blocks);
	while (!r && !fits(writer, blocks)) {
		r = skip_group(writer, blocks);
		if (!r && !fits(writer, blocks))
			r = open_run(writer);
	}
	if (r)
		return r;
	*ret_place = writer->at;
	frame = writer->at / RD_SEG_BLOCKS;
	writer->at += blocks;
	for (; frame < writer->at / RD_SEG_BLOCKS && !r; frame++)
		r = keep_left(writer, frame);
	return r;
}

int rd_pack_writer_take(struct rd_pack_writer *writer, struct rd_pack *pack)
{
	int r = take_number(writer, &pack->frame);

	return r ? r : rd_pack_writer_place(writer, pack->blocks, &pack->place);
}

/* --- leaving */

int rd_pack_writer_commit(struct rd_pack_writer *writer)
{
	const u64 *frames = (const u64 *)writer->left.data;
	size_t i, nr = writer->left.len / sizeof(*frames);
	int r = 0;

	for (i = 0; i < nr && !r; i++)
		r = rd_filling_leave(writer->pool->sql, frames[i]);
	writer->left.len = 0;
	return r;
}

int rd_pack_writer_end(struct rd_pack_writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	u64 frame = writer->at / RD_SEG_BLOCKS, end = writer->end / RD_SEG_BLOCKS;
	unsigned int next = writer->at % RD_SEG_BLOCKS;
	int r;

	r = rd_pack_writer_commit(writer);
	if (!r && writer->has_fps)
		r = rd_filling_leave(sql, writer->fps);
	if (!r && next)
		r = rd_filling_leave_tail(sql, frame++, next);
	/* To these nothing was written. */
	if (!r && frame < end)
		r = rd_frames_return(sql, frame, end - frame);
	writer->has_fps = false;
	writer->end = 0;
	writer->at = 0;
	return r;
}
