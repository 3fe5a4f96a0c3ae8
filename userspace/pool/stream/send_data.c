// SPDX-License-Identifier: GPL-2.0
/*
 * What the segments of a version are, for a sender: which of them differ from the base, which
 * blocks of these, and their content, read and compressed by threads.
 *
 * A pack that has what is needed, and no more, is sent as it lies: the receiver proves what is in
 * it. A file is read later, when the pool may be gone, and so the pack is proven here.
 */
#include <errno.h>
#include <zstd.h>

#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "possess.h"
#include "sender.h"

/* Blocks between two that are wanted, and are read with them. */
#define GAP	8

/* --- segments */

static int add_named(struct rd_sender *sender, struct rd_pool *pool, u64 segment, i64 recipe)
{
	struct rd_sending *sending = rd_sending_at(sender, sender->at.tail);
	bool known = true;
	int r = 0;

	memset(sending, 0, sizeof(*sending));
	sending->named.segment = segment;
	if (recipe)
		r = rd_recipe_known_fp(pool->sql, recipe, &sending->named.fp, &known);
	if (!r && !known) {
		rd_err(0, "%s is damaged: the catalog has lost a segment of it",
		       sender->disk.name);
		return -EIO;
	}
	if (!r)
		sender->at.tail++;
	return r;
}

struct window {
	struct rd_sender *sender;
	u64 tail, next;		/* before, as this may be asked twice */
};

/* Look at the next RD_SEND_WINDOW segments that any version of the volume has a row of. */
static int list_window(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	const struct window *window = ctx;
	struct rd_sender *sender = window->sender;
	const struct rd_version *version = &sender->disk.version, *base = &sender->base.version;
	i64 now[RD_SEND_WINDOW], before[RD_SEND_WINDOW] = { 0 };
	unsigned int i, nr;
	struct rd_version there;
	u64 first;
	int r;

	(void)resolver;
	r = rd_version_by_id(pool->sql, version->id, &there);
	if (r == -ENOENT || (!r && !rd_version_exists(&there) && there.state != RD_VERSION_HELD))
		return rd_err(0, "%s was deleted", sender->disk.name), -EIO;
	if (r)
		return r;
	sender->at.tail = window->tail;
	sender->next = sender->end;
	r = rd_segment_next(pool->sql, version->volume, window->next, &first);
	if (r || first >= sender->end)
		return r == -ENOENT ? 0 : r;
	nr = rd_min(RD_SEND_WINDOW, sender->end - first);
	r = rd_segments_read(pool->sql, version->volume, version->number, first, nr, now);
	if (!r && base->id)
		r = rd_segments_read(pool->sql, base->volume, base->number, first, nr, before);
	for (i = 0; i < nr && !r; i++)
		if (now[i] != before[i])
			r = add_named(sender, pool, first + i, now[i]);
	sender->next = first + nr;
	return r;
}

int rd_send_list(struct rd_sender *sender)
{
	struct window window = {
		.sender = sender,
		.tail = sender->at.tail,
		.next = sender->next,
	};

	return rd_random_ask(sender->random, list_window, &window);
}

/* --- blocks */

static int fps_of(struct rd_sender *sender, const struct rd_disk *disk, u64 segment,
		  struct rd_fp fps[RD_SEG_BLOCKS])
{
	if (disk->version.id && segment < rd_nr_segs(disk->version.size))
		return rd_random_fps(sender->random, disk, segment, fps);
	memset(fps, 0, RD_FPS_SIZE);
	return 0;
}

int rd_send_find_blocks(struct rd_sender *sender, struct rd_sending *sending,
			struct rd_fp fps[RD_SEG_BLOCKS])
{
	u64 segment = sending->named.segment;
	struct rd_slots *slots = &sending->need.need;
	struct rd_fp before[RD_SEG_BLOCKS];
	unsigned int i;
	int r;

	r = fps_of(sender, &sender->disk, segment, fps);
	if (!r)
		r = fps_of(sender, &sender->base, segment, before);
	memset(slots, 0, sizeof(*slots));
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (!rd_fp_equal(&fps[i], &before[i]))
			rd_slots_set(slots, i);
	sending->need.segment = segment;
	sending->blocks = rd_slots_count(slots);
	return r;
}

/* --- content, in a thread */

static int read_range(struct rd_send_job *job, unsigned int first, unsigned int end)
{
	const struct rd_disk *disk = &job->sender->disk;
	u64 start = job->sending->named.segment << RD_SEG_SHIFT;
	u64 offset = start + (u64)first * RD_BLOCK_SIZE;
	u64 len = (u64)(end - first) * RD_BLOCK_SIZE;
	u8 *to = job->data + (size_t)first * RD_BLOCK_SIZE;

	memset(to, 0, len);
	if (offset >= disk->version.size)
		return 0;
	return rd_random_read(job->sender->random, disk, to,
			      rd_min(len, disk->version.size - offset), offset);
}

/* Read the blocks of @slots to where they are in the segment, and what is between near ones. */
static int read_blocks(struct rd_send_job *job, const struct rd_slots *slots)
{
	unsigned int i, first = 0, end = 0;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (!rd_slots_test(slots, i))
			continue;
		if (end && i - end > GAP) {
			r = read_range(job, first, end);
			end = 0;
		}
		if (!end)
			first = i;
		end = i + 1;
	}
	return !r && end ? read_range(job, first, end) : r;
}

static int prove(struct rd_send_job *job, const struct rd_slots *slots)
{
	u64 segment = job->sending->named.segment;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int r = ctx ? rd_possess_hash(ctx, job->sender->want.nonce, segment, slots, job->data,
				      job->proof + 8) : -ENOMEM;

	rd_put_u64(job->proof, segment);
	EVP_MD_CTX_free(ctx);
	return r;
}

/* Does the pack in @job->data have the blocks of the segment? */
static int prove_pack(struct rd_send_job *job, const struct dmr_pack_head *head,
		      struct rd_thread *thread)
{
	struct rd_fp fps[RD_SEG_BLOCKS], found[RD_SEG_BLOCKS];
	struct rd_sender *sender = job->sender;
	int r;

	memset(job->out, 0, RD_SEG_SIZE);
	r = rd_pack_unpack(thread->packer, head, job->data, job->out);
	if (!r)
		r = rd_random_fps(sender->random, &sender->disk, job->sending->named.segment, fps);
	if (r)
		return r;
	rd_fp_blocks(thread->hasher, job->out, RD_SEG_BLOCKS, found);
	return memcmp(fps, found, sizeof(fps)) ? -EBADMSG : 0;
}

/* Send the pack as it lies, if there is one. */
static bool take_pack(struct rd_send_job *job, struct rd_thread *thread)
{
	const struct rd_need *need = &job->sending->need;
	struct rd_sender *sender = job->sender;
	struct dmr_pack_head head;
	size_t len;

	if (sender->options->anew || sender->is_asked_again ||
	    !rd_slots_are_none(&need->prove) ||
	    rd_random_read_pack(sender->random, &sender->disk, need->segment, &need->need, &head,
				job->data) ||
	    (sender->is_file && prove_pack(job, &head, thread)))
		return false;
	len = dmr_pack_offset(&head, RD_PACK_GROUPS) - RD_PACK_HEAD;
	rd_data_head_put(job->out, need->segment, &need->need, RD_DATA_PACK);
	rd_data_groups_put(job->out + RD_DATA_HEAD, &head);
	memcpy(job->out + RD_DATA_HEAD + RD_DATA_GROUPS, job->data + RD_PACK_HEAD, len);
	job->len = RD_DATA_HEAD + RD_DATA_GROUPS + len;
	return true;
}

/* Compress the blocks of @slots into the record. */
static void pack(struct rd_send_job *job, const struct rd_slots *slots)
{
	const struct rd_compression *compression = &job->sender->options->compression;
	size_t len = 0, packed = 0;
	u8 codec = compression->codec == DMR_CODEC_RAW ? RD_DATA_RAW : RD_DATA_ZSTD;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!rd_slots_test(slots, i))
			continue;
		memmove(job->data + len, job->data + (size_t)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		len += RD_BLOCK_SIZE;
	}
	if (codec == RD_DATA_ZSTD)
		packed = ZSTD_compressCCtx(job->compressor, job->out + RD_DATA_HEAD, RD_SEG_SIZE,
					   job->data, len, compression->level);
	if (codec == RD_DATA_RAW || ZSTD_isError(packed) || packed > len - len / 16) {
		memcpy(job->out + RD_DATA_HEAD, job->data, len);
		codec = RD_DATA_RAW;
		packed = len;
	}
	rd_data_head_put(job->out, job->sending->named.segment, slots, codec);
	job->len = RD_DATA_HEAD + packed;
}

static void run(struct rd_job *base, struct rd_thread *thread)
{
	struct rd_send_job *job = base->ctx;
	const struct rd_need *need = &job->sending->need;
	struct rd_slots both;
	unsigned int i;

	job->len = 0;
	job->r = 0;
	if (take_pack(job, thread))
		return;
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		both.bits[i] = need->need.bits[i] | need->prove.bits[i];
	job->r = read_blocks(job, &both);
	if (!job->r && !rd_slots_are_none(&need->prove))
		job->r = prove(job, &need->prove);
	if (!job->r && !rd_slots_are_none(&need->need))
		pack(job, &need->need);
}

static void done(struct rd_job *base)
{
	struct rd_send_job *job = base->ctx;

	job->sending->state = RD_SENDING_READY;
}

bool rd_send_start(struct rd_sender *sender, struct rd_sending *sending)
{
	unsigned int i;

	for (i = 0; i < RD_SEND_JOBS && sender->jobs[i].sender; i++)
		;
	if (i == RD_SEND_JOBS)
		return false;
	sending->job = &sender->jobs[i];
	sending->state = RD_SENDING_READ;
	sending->job->sender = sender;
	sending->job->sending = sending;
	sending->job->job = (struct rd_job){ .run = run, .done = done, .ctx = sending->job };
	rd_workers_give(sender->workers, &sending->job->job);
	return true;
}

/* --- */

int rd_send_data_new(struct rd_sender *sender)
{
	unsigned int i;
	int r;

	for (i = 0; i < RD_SEND_JOBS; i++) {
		struct rd_send_job *job = &sender->jobs[i];

		job->data = rd_alloc_direct(RD_SEG_SIZE);
		job->out = malloc(RD_DATA_HEAD + RD_SEG_SIZE);
		job->compressor = ZSTD_createCCtx();
		if (!job->data || !job->out || !job->compressor)
			return -ENOMEM;
	}
	r = rd_random_new(&sender->random, sender->pool);
	return r ? r : rd_workers_new(&sender->workers, NULL);
}

void rd_send_data_free(struct rd_sender *sender)
{
	unsigned int i;

	rd_workers_free(sender->workers);
	rd_random_free(sender->random);
	for (i = 0; i < RD_SEND_JOBS; i++) {
		free(sender->jobs[i].data);
		free(sender->jobs[i].out);
		ZSTD_freeCCtx(sender->jobs[i].compressor);
	}
}
