// SPDX-License-Identifier: GPL-2.0
/*
 * The pipeline of a snapshot: read segments into buffers, fingerprint them in threads, and
 * decide upon them, in the order of the image.
 *
 * A segment that is audited is unchanged by the word of the tracker, which
 * sees all that a guest writes. An audit looks for writes that came past it by accident: a
 * quick sum finds these, and spares most of the time that small snapshots take. Only
 * where the sum differs, or is not known, the content is fingerprinted.
 *
 * Of a segment in a list of changes only what the list has is read, from its first block there to
 * its last, where the volume may be in pieces. The fingerprints of the others are those of the
 * version before. When its turn comes, it is read as a whole, and the others must be the same.
 * Where an audit finds a change, no list is believed any more: all that the version has goes
 * again, and everything is read.
 */
#include <errno.h>

#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/data/quick.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/version/undo.h"
#include "snapshot_run.h"

/* --- deciding */

u64 rd_snapshot_count_changed(const struct rd_snapshot_run *s, const struct rd_fp *fps)
{
	unsigned int i;
	u64 nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += !rd_fp_equal(&s->before.fps[i], &fps[i]);
	return nr;
}

/* Blocks differ that the list of changes has not, though it has others of this segment. */
static bool is_elsewhere(const struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer)
{
	unsigned int i;

	/* That it was zeros is certain, too. */
	if (buffer->old && !s->before.is_good)
		return false;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if ((i < buffer->first || i >= buffer->end) &&
		    !rd_fp_equal(&s->before.fps[i], &buffer->fps[i]))
			return true;
	return false;
}

static void found_change(struct rd_snapshot_run *s, u64 segment, bool is_audit)
{
	s->report->segments_changed++;
	if (!is_audit || s->plan.all || s->report->list_was_wrong)
		return;
	rd_warn("segment %llu of '%s' changed, but is not in the list of changes",
		segment, s->options->from);
	rd_hint("at least one write was not tracked; everything is now read and compared");
	s->report->list_was_wrong = true;
	s->report->mode = "full";
	s->report->reason = "a segment outside the list of changes had changed";
}

static void sum_up(struct rd_snapshot_buffer *buffer)
{
	unsigned int first = buffer->skip / RD_BLOCK_SIZE;

	buffer->quick = rd_quick_sum(buffer->data + buffer->skip, first,
				     buffer->len / RD_BLOCK_SIZE - first);
}

/* Store the sum, so that the next audit of this content need not fingerprint it. */
static void learn_sum(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer)
{
	struct rd_snapshot_item *item = rd_snapshot_add_item(s, buffer->segment, buffer->old);

	item->is_same = true;
	item->quick = buffer->quick;
}

/*
 * The blocks that were not read are those of the version before. That is believed only where its
 * fingerprints are certain: -EAGAIN.
 */
static int fill_in(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer)
{
	unsigned int i;

	if (!s->before.is_good)
		return -EAGAIN;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (i < buffer->first || i >= buffer->end)
			buffer->fps[i] = s->before.fps[i];
	rd_fp_of_fps(s->hasher, buffer->fps, &buffer->fp);
	return 0;
}

/* -EAGAIN: nothing was decided, for all of it must be read. */
static int decide(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer)
{
	rd_sum *sum = &s->version->sum;
	unsigned int pieces = 1;
	struct rd_seg_fp old_fp;
	bool is_zero, fits;
	int r = 0;

	if (buffer->is_same)
		return 0;
	r = rd_snapshot_check_fed(s, buffer);
	if (!r && buffer->is_partial) {
		rd_snapshot_read_before(s, buffer->old);
		r = fill_in(s, buffer);
	}
	if (r)
		return r;
	is_zero = rd_is_zero(buffer->fps, RD_FPS_SIZE);
	if (buffer->old) {
		r = rd_recipe_fp(s->pool->sql, buffer->old, &old_fp, &pieces);
		if (r)
			return r == -ENOENT ? -EUCLEAN : r;
		fits = pieces <= s->rule.pieces;
		if (!is_zero && rd_seg_fp_equal(&old_fp, &buffer->fp)) {
			if (fits && buffer->is_audit)
				learn_sum(s, buffer);
			if (fits)
				return 0;
			sum_up(buffer);
			r = rd_snapshot_store(s, buffer, true);
			s->report->segments_pieces += !r;
			return r;
		}
	} else if (is_zero) {
		return 0;
	}
	if (!buffer->is_partial)
		rd_snapshot_read_before(s, buffer->old);
	if (is_zero)
		rd_snapshot_add_item(s, buffer->segment, buffer->old)->is_zero = true;
	else
		r = rd_snapshot_store(s, buffer, false);
	if (r)
		return r;
	found_change(s, buffer->segment, buffer->is_audit || is_elsewhere(s, buffer));
	s->version->blocks_changed += rd_snapshot_count_changed(s, buffer->fps);
	if (buffer->old)
		*sum -= rd_fp_sum(s->hasher, buffer->segment, &old_fp);
	if (!is_zero)
		*sum += rd_fp_sum(s->hasher, buffer->segment, &buffer->fp);
	return 0;
}

static int decide_or_read(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer)
{
	struct rd_lookup_counts lookups = s->report->lookups;
	int r = decide(s, buffer);

	if (r != -EAGAIN || !buffer->is_partial)
		return r;
	s->report->lookups = lookups;
	r = rd_snapshot_read_again(s, buffer, buffer->segment);
	return r ? r : decide(s, buffer);
}

int rd_snapshot_decide(struct rd_snapshot_run *s)
{
	int r = 0;

	while (s->nr && !r && s->order[s->first]->state == RD_BUFFER_READY) {
		struct rd_snapshot_buffer *buffer = s->order[s->first];

		s->first = (s->first + 1) % RD_SNAPSHOT_BUFFERS;
		s->nr--;
		r = buffer->fed.kind && buffer->fed.kind != RD_FEED_CONTENT ?
			rd_snapshot_decide_fed(s, buffer) : decide_or_read(s, buffer);
		if (!r && s->options->feed)
			s->version->cursor = rd_max(buffer->segment + 1, buffer->fed.end);
		if (buffer->state == RD_BUFFER_READY)
			buffer->state = RD_BUFFER_FREE;
		if (!r && rd_snapshot_is_full(s))
			r = rd_snapshot_commit(s);
	}
	return r;
}

/* --- reading */

static void fingerprint(struct rd_job *job, struct rd_thread *thread)
{
	struct rd_hasher *hasher = thread->hasher;
	struct rd_snapshot_buffer *buffer = job->ctx;
	unsigned int first = buffer->skip / RD_BLOCK_SIZE;
	unsigned int nr = buffer->len / RD_BLOCK_SIZE - first;

	buffer->pack_len = rd_feed_unpack(&buffer->fed, &(struct rd_feed_to){
		buffer->data, buffer->pack, &buffer->head,
	}, buffer->snapshot->pool->area.super.uuid, thread->packer);
	if (buffer->has_sum)
		sum_up(buffer);
	buffer->is_same = buffer->has_sum && buffer->quick == buffer->old_sum;
	if (buffer->is_same)
		return;
	memset(buffer->fps, 0, RD_FPS_SIZE);
	rd_fp_blocks(hasher, buffer->data + buffer->skip, nr, buffer->fps + first);
	if (buffer->is_partial)
		return;
	rd_fp_of_fps(hasher, buffer->fps, &buffer->fp);
	/* An unchanged segment needs no sum, unless an audit finds that it has none. */
	if (!buffer->has_sum && (buffer->is_audit || !buffer->has_fp ||
				 !rd_seg_fp_equal(&buffer->fp, &buffer->old_fp)))
		sum_up(buffer);
}

static void fingerprinted(struct rd_job *job)
{
	struct rd_snapshot_buffer *buffer = job->ctx;

	buffer->state = RD_BUFFER_READY;
}

void rd_snapshot_fingerprint(struct rd_snapshot_buffer *buffer)
{
	buffer->job = (struct rd_job){
		.run = fingerprint,
		.done = fingerprinted,
		.ctx = buffer,
	};
	rd_workers_give(buffer->snapshot->workers, &buffer->job);
}

static void read_done(struct rd_op *op, int r)
{
	struct rd_snapshot_buffer *buffer = op->ctx;
	struct rd_snapshot_run *s = buffer->snapshot;

	if (r) {
		if (!s->r)
			s->r = r == -EINTR ? r :
				rd_err(r, "cannot read '%s' at %llu", s->options->from,
				       (buffer->segment << RD_SEG_SHIFT));
		return;
	}
	rd_snapshot_fingerprint(buffer);
}

/* The recipe that the version before has. An error is noted, and ends the pipeline. */
static i64 old_recipe(struct rd_snapshot_run *s, u64 segment)
{
	i64 recipe;
	int r = rd_plan_old_recipe(&s->plan, segment, &recipe);

	if (r && !s->r)
		s->r = r;
	return recipe;
}

void rd_snapshot_queue(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer, u64 segment,
		       bool is_audit)
{
	unsigned int pieces;

	buffer->state = RD_BUFFER_BUSY;
	buffer->segment = segment;
	buffer->is_audit = is_audit;
	buffer->quick = 0;
	buffer->old = old_recipe(s, segment);
	/* If that fails, it does so again where it is decided upon. */
	buffer->has_fp = buffer->old &&
		!rd_recipe_fp(s->pool->sql, buffer->old, &buffer->old_fp, &pieces);
	/* What is in too many pieces must be read as a whole. */
	buffer->has_sum = is_audit && buffer->has_fp && pieces <= s->rule.pieces &&
		!rd_recipe_quick(s->pool->sql, buffer->old, &buffer->old_sum);
	s->order[(s->first + s->nr++) % RD_SNAPSHOT_BUFFERS] = buffer;
}

static void start_read(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer, u64 segment,
		       bool is_audit)
{
	u64 start = segment << RD_SEG_SHIFT, from, to;

	rd_snapshot_queue(s, buffer, segment, is_audit);
	buffer->is_partial = rd_plan_is_partial(&s->plan, segment, s->source.size, &buffer->first,
						&buffer->end) &&
		buffer->has_fp && s->rule.pieces > 1;
	rd_source_trim(&s->source, segment, &from, &to);
	if (buffer->is_partial) {
		from = start + buffer->first * RD_BLOCK_SIZE;
		to = start + buffer->end * RD_BLOCK_SIZE;
	}
	to = rd_min(to, rd_round_up(s->source.size, RD_BLOCK_SIZE));
	buffer->skip = from - start;
	buffer->len = to - start;
	buffer->read = (struct rd_op){
		.kind = RD_OP_READ,
		.offset = from,
		.own = { buffer->data + buffer->skip, to - from },
		.done = read_done,
		.ctx = buffer,
	};
	s->report->segments_audited += is_audit;
	s->version->dirty++;
	s->version->bytes_read += rd_min(s->source.size, to) - from;
	rd_pace(&s->pool->pace, to - from);
	rd_source_read(&s->source, s->ring, &buffer->read);
}

int rd_snapshot_read_again(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
			   u64 segment)
{
	u64 start = segment << RD_SEG_SHIFT;
	int r = rd_source_read_now(&s->source, s->ring, buffer->data, RD_SEG_SIZE, start);

	if (r)
		return rd_err(r, "cannot read '%s'", s->options->from);
	s->version->bytes_read += rd_min(s->source.size - start, RD_SEG_SIZE);
	rd_pace(&s->pool->pace, RD_SEG_SIZE);
	buffer->is_partial = false;
	buffer->skip = 0;
	buffer->len = RD_SEG_SIZE;
	rd_fp_segment(s->hasher, buffer->data, RD_SEG_SIZE, buffer->fps, &buffer->fp);
	sum_up(buffer);
	return 0;
}

int rd_snapshot_take_zeros(struct rd_snapshot_run *s, u64 segment, bool is_audit)
{
	static const struct rd_fp zeros[RD_SEG_BLOCKS];
	i64 old = old_recipe(s, segment);
	struct rd_seg_fp fp;
	unsigned int pieces;
	int r;

	if (!old || s->r)
		return s->r;
	r = rd_recipe_fp(s->pool->sql, old, &fp, &pieces);
	if (r)
		return r;
	found_change(s, segment, is_audit);
	rd_snapshot_read_before(s, old);
	s->version->blocks_changed += rd_snapshot_count_changed(s, zeros);
	s->version->sum -= rd_fp_sum(s->hasher, segment, &fp);
	rd_snapshot_add_item(s, segment, old)->is_zero = true;
	return rd_snapshot_is_full(s) ? rd_snapshot_commit(s) : 0;
}

struct rd_snapshot_buffer *rd_snapshot_free_buffer(struct rd_snapshot_run *s)
{
	unsigned int i;

	for (i = 0; i < RD_SNAPSHOT_BUFFERS; i++)
		if (s->buffers[i]->state == RD_BUFFER_FREE)
			return s->buffers[i];
	return NULL;
}

/* The list is wrong: what it says of segments that were read in part is not believed either. */
static bool must_start_over(const struct rd_snapshot_run *s)
{
	return s->report->list_was_wrong && !s->plan.all;
}

static int start_over(struct rd_snapshot_run *s)
{
	struct rd_version *version = s->version;
	int r = rd_snapshot_commit(s);

	if (!r)
		r = rd_undo_rows(s->pool->sql, version);
	/*
	 * What was written goes with its rows, and its frames may get other content: but later, as
	 * nothing can be freed while this volume is locked. So all is stored anew beside it.
	 */
	rd_written_free(s->stable);
	rd_resolver_forget_fps(s->resolver);
	version->sum = s->base.sum;
	version->blocks_changed = 0;
	version->dirty = 0;
	s->report->segments_changed = 0;
	s->report->segments_shared = 0;
	s->report->segments_in_part = 0;
	rd_plan_read_all(&s->plan);
	return r;
}

static int start_reads(struct rd_snapshot_run *s, bool *ret_more)
{
	struct rd_snapshot_buffer *buffer;
	bool is_audit;
	u64 segment;
	int r = 0;

	for (;;) {
		segment = rd_plan_next(&s->plan, &is_audit);
		*ret_more = segment != U64_MAX && !must_start_over(s);
		if (s->r || !*ret_more)
			return s->r;
		if (segment >= s->source.nr_segs || rd_source_is_hole(&s->source, segment)) {
			rd_plan_take(&s->plan, segment);
			r = rd_plan_skip(&s->plan, s->source.data_start >> RD_SEG_SHIFT);
			if (!r)
				r = rd_snapshot_take_zeros(s, segment, is_audit);
			if (r)
				return r;
			continue;
		}
		buffer = rd_snapshot_free_buffer(s);
		if (!buffer || s->nr == RD_SNAPSHOT_BUFFERS)
			return 0;
		start_read(s, buffer, segment, is_audit);
		rd_plan_take(&s->plan, segment);
	}
}

static int read_plan(struct rd_snapshot_run *s)
{
	u64 nr_segs = s->source.nr_segs;
	bool more = true;
	int r = 0;

	while (!r && (more || s->nr)) {
		r = start_reads(s, &more);
		if (!r)
			r = rd_snapshot_decide(s);
		if (!r && s->nr && s->order[s->first]->state != RD_BUFFER_READY)
			r = rd_ring_wait(s->ring);
		else if (!r && more && !s->nr && !rd_snapshot_free_buffer(s))
			r = rd_ring_wait(s->ring);
		if (!r)
			r = s->r;
		if (!r)
			r = rd_pool_progress(s->pool, "snapshot",
					     rd_min(s->plan.next, nr_segs) << RD_SEG_SHIFT,
					     nr_segs << RD_SEG_SHIFT);
	}
	return r;
}

int rd_snapshot_read(struct rd_snapshot_run *s)
{
	int r = read_plan(s);

	if (!r && must_start_over(s)) {
		r = start_over(s);
		if (!r)
			r = read_plan(s);
	}
	if (!r)
		r = rd_snapshot_commit(s);
	if (r == -EAGAIN && rd_snapshot_is_once(s)) {
		rd_err(0, "another command took away what the pool had of '%s'", s->options->from);
		rd_hint("it cannot be read twice: send it once more");
	}
	return r;
}
