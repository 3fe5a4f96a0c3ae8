// SPDX-License-Identifier: GPL-2.0
/*
 * Write the content of a snapshot: raw, in a frame of its own, or compressed by a thread, as a
 * pack. What gains little by compression is written raw. A pack that a feed has stays one.
 */
#include <errno.h>

#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "snapshot_run.h"

#define RESERVE		64		/* frames at a time */

/* --- frames */

static int tell_full(int r)
{
	if (r == -ENOSPC) {
		rd_err(0, "the pool is full");
		rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
		rd_remedy(RD_REMEDY_GROW, NULL, NULL);
	}
	return r;
}

static int get_frames(struct rd_snapshot_run *s)
{
	struct rd_pool *pool = s->pool;
	u64 len;
	int r;

	r = rd_catalog_do(pool->sql, rd_frames_reserve(pool->sql, pool->session, RESERVE,
						       pool->area.super.nr_frames, &s->frame,
						       &len));
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

	buffer->ops[nr] = (struct rd_op){
		.kind = RD_OP_WRITE,
		.store = buffer->snapshot->pool->area.store,
		.offset = offset,
		.own = { data, len },
		.done = write_done,
		.ctx = buffer,
	};
	rd_ring_submit(buffer->snapshot->ring, &buffer->ops[nr]);
}

/*
 * Write blocks that are not zeros. Write all of them where a place may have other data from
 * before: a reader of the whole frame must find zeros.
 */
static void write_raw(struct rd_snapshot_buffer *buffer, u64 frame)
{
	struct rd_snapshot_run *s = buffer->snapshot;
	/* A dense frame may have blocks of before. */
	bool all = !rd_area_can(&s->pool->area, RD_STORE_ZEROS) && !buffer->to->is_dense;
	u64 offset = rd_frame_offset(frame);
	struct rd_slots slots = buffer->to->slots;
	unsigned int start, i = 0;

	s->written = true;
	if (all) {
		memset(buffer->data, 0, buffer->skip);
		memset(buffer->data + buffer->len, 0, RD_SEG_SIZE - buffer->len);
	}
	if (all)
		memset(&slots, 0xff, sizeof(slots));
	while (rd_slots_run(&slots, &start, &i)) {
		submit_write(buffer, buffer->data + (size_t)start * RD_BLOCK_SIZE,
			     (size_t)(i - start) * RD_BLOCK_SIZE,
			     offset + (u64)start * RD_BLOCK_SIZE);
		s->version->bytes_stored += (u64)(i - start) * RD_BLOCK_SIZE;
	}
	submit_write(buffer, buffer->fps, RD_FPS_SIZE, rd_frame_fps_offset(frame));
	rd_snapshot_index(s, &buffer->to->slots, buffer->fps, frame);
}

static int store_raw(struct rd_snapshot_buffer *buffer)
{
	struct rd_snapshot_run *s = buffer->snapshot;
	/* Else it goes on in a frame that has blocks of before. */
	bool is_new = buffer->to->nr == RD_NO_FRAME;
	int r = is_new ? next_frame(s, &buffer->to->nr) : 0;

	if (r)
		return tell_full(r);
	if (is_new)
		rd_written_add(s->stable, buffer->to->nr);
	write_raw(buffer, buffer->to->nr);
	return 0;
}

/* --- packs */

static int store_pack(struct rd_snapshot_buffer *buffer)
{
	struct rd_snapshot_run *s = buffer->snapshot;
	struct rd_snapshot_frame *to = buffer->to;
	struct rd_pack *pack = &to->pack;
	int r;

	pack->blocks = buffer->pack_len / RD_BLOCK_SIZE;
	pack->slots = rd_slots_count(&to->slots);
	r = rd_pack_writer_take(&s->writer, pack);
	if (r)
		return tell_full(r);
	to->nr = pack->frame;
	rd_written_add(s->stable, pack->frame);
	rd_pack_number(buffer->pack, pack->frame);
	s->written = true;
	s->version->bytes_stored += buffer->pack_len;
	submit_write(buffer, buffer->pack, buffer->pack_len, rd_pack_offset(pack));
	submit_write(buffer, buffer->fps, RD_FPS_SIZE, rd_frame_fps_offset(pack->frame));
	rd_snapshot_index(s, &to->slots, buffer->fps, pack->frame);
	return 0;
}

static void compress(struct rd_job *job, struct rd_thread *thread)
{
	struct rd_snapshot_buffer *buffer = job->ctx;

	buffer->pack_len = rd_pack_make(thread->packer, &buffer->head, buffer->data,
					buffer->snapshot->compression.level, buffer->pack);
}

static void compressed(struct rd_job *job)
{
	struct rd_snapshot_buffer *buffer = job->ctx;
	struct rd_snapshot_run *s = buffer->snapshot;
	int r;

	if (s->r)
		return;
	r = buffer->pack_len ? store_pack(buffer) : store_raw(buffer);
	if (r)
		s->r = r;
}

static void start_compressing(struct rd_snapshot_buffer *buffer)
{
	struct rd_snapshot_run *s = buffer->snapshot;

	memcpy(buffer->head.uuid, s->pool->area.super.uuid, sizeof(buffer->head.uuid));
	rd_pack_set_slots(&buffer->head, &buffer->to->slots);
	buffer->job = (struct rd_job){ .run = compress, .done = compressed, .ctx = buffer };
	rd_workers_give(s->workers, &buffer->job);
}

/* Has it come as the pack that is to be written? */
static bool is_pack(const struct rd_snapshot_buffer *buffer)
{
	return buffer->fed.is_packed && buffer->pack_len &&
		!memcmp(buffer->head.slots, &buffer->to->slots, sizeof(buffer->head.slots));
}

static int store_pack_as_it_is(struct rd_snapshot_buffer *buffer)
{
	int r = rd_failpoint("snapshot-pack");

	return r ? r : store_pack(buffer);
}

/* --- */

int rd_snapshot_write(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      struct rd_snapshot_frame *to)
{
	int r = 0;

	buffer->to = to;
	buffer->writes = 0;
	if (!s->compression.codec)
		r = store_raw(buffer);
	else if (is_pack(buffer))
		r = store_pack_as_it_is(buffer);
	else
		start_compressing(buffer);
	if (!r)
		buffer->state = RD_BUFFER_WRITING;
	return r;
}

int rd_snapshot_wait(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer)
{
	int r;

	while (!s->r && buffer->state == RD_BUFFER_WRITING) {
		r = rd_ring_wait(s->ring);
		s->r = s->r ? s->r : r;
	}
	return s->r;
}

int rd_snapshot_drain(struct rd_snapshot_run *s)
{
	unsigned int i;
	int r = s->r;

	for (i = 0; i < RD_SNAPSHOT_BUFFERS + RD_SNAPSHOT_SPARE && !r; i++)
		r = rd_snapshot_wait(s, s->buffers[i]);
	return r;
}
