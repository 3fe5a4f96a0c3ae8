// SPDX-License-Identifier: GPL-2.0
/*
 * A snapshot that a feed fills, see feed.h.
 *
 * All that the feed has goes through the buffers, also what needs none, so that it is decided
 * upon in order: version->cursor is the segment behind the last of these. A batch that commits
 * writes it with the rows, and the sum so far, so what is there is always the beginning of the
 * version, and a crash costs the last batch.
 */
#include <errno.h>

#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "snapshot_run.h"

/* --- deciding */

int rd_snapshot_check_fed(const struct rd_snapshot_run *s,
			  const struct rd_snapshot_buffer *buffer)
{
	return !s->options->feed ? 0 :
		rd_feed_check(s->options->feed, &buffer->fed, &buffer->fp, buffer->data);
}

/* Segments that the version before has no content in either are passed by. */
static int take_zeros(struct rd_snapshot_run *s, u64 segment, u64 end)
{
	int r = 0;

	for (; !r && segment < end; segment++) {
		r = rd_segment_next(s->pool->sql, s->version->volume, segment, &segment);
		if (r || segment >= end)
			return r == -ENOENT ? 0 : r;
		s->version->cursor = segment + 1;
		r = rd_snapshot_take_zeros(s, segment, false);
	}
	return r;
}

/* Count the blocks in which recipe @id differs from @old. */
static u64 count_changed(struct rd_snapshot_run *s, i64 id, i64 old)
{
	struct rd_fp fps[RD_SEG_BLOCKS];

	rd_snapshot_read_before(s, id);
	memcpy(fps, s->before.fps, sizeof(fps));
	rd_snapshot_read_before(s, old);
	return rd_snapshot_count_changed(s, fps);
}

static int take_shared(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer)
{
	const struct rd_seg_fp *fp = &buffer->fed.fp;
	rd_sum *sum = &s->version->sum;
	struct rd_seg_fp old_fp;
	unsigned int pieces;
	i64 recipe;
	int r = 0;

	if (buffer->old)
		r = rd_recipe_fp(s->pool->sql, buffer->old, &old_fp, &pieces);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	if (buffer->old && rd_seg_fp_equal(&old_fp, fp))
		return 0;
	/* If it is gone by now, or goes before the batch commits, the feed is asked again. */
	r = rd_recipe_find(s->pool->sql, fp, &recipe, &pieces);
	if (r)
		return r == -ENOENT ? -EAGAIN : r;
	if (buffer->old)
		*sum -= rd_fp_sum(s->hasher, buffer->segment, &old_fp);
	*sum += rd_fp_sum(s->hasher, buffer->segment, fp);
	s->report->segments_changed++;
	s->version->blocks_changed += count_changed(s, recipe, buffer->old);
	rd_snapshot_add_item(s, buffer->segment, buffer->old)->fp = *fp;
	return 0;
}

int rd_snapshot_decide_fed(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer)
{
	return buffer->fed.kind == RD_FEED_ZEROS ?
		take_zeros(s, buffer->segment, buffer->fed.end) : take_shared(s, buffer);
}

/* --- filling */

/* Take the next segment into a buffer, if one is free. */
static int take_next(struct rd_snapshot_run *s, bool *ret_end)
{
	struct rd_snapshot_buffer *buffer = rd_snapshot_free_buffer(s);
	struct rd_feed *feed = s->options->feed;
	struct rd_feed_segment fed;
	int r;

	if (!buffer || s->nr == RD_SNAPSHOT_BUFFERS)
		return rd_ring_wait(s->ring);
	r = feed->next(feed, &(struct rd_feed_to){ buffer->data, buffer->pack, &buffer->head },
		       &fed);
	*ret_end = r || fed.kind == RD_FEED_END;
	if (*ret_end)
		return r;
	buffer->fed = fed;
	rd_snapshot_queue(s, buffer, fed.segment, false);
	buffer->skip = 0;
	buffer->len = RD_SEG_SIZE;
	if (fed.kind != RD_FEED_CONTENT) {
		buffer->state = RD_BUFFER_READY;
		return 0;
	}
	s->version->dirty++;
	s->version->bytes_read += RD_SEG_SIZE;
	rd_snapshot_fingerprint(buffer);
	return 0;
}

static bool is_due(const struct rd_snapshot_run *s)
{
	return s->options->feed->bytes - s->fed >= RD_FEED_COMMIT;
}

/* Decide upon what is there. @all: wait for the rest of what was taken. */
static int decide(struct rd_snapshot_run *s, bool all)
{
	int r = rd_snapshot_decide(s);

	while (all && !r && s->nr) {
		r = rd_ring_wait(s->ring);
		if (!r)
			r = s->r ? s->r : rd_snapshot_decide(s);
	}
	if (!r && (all || is_due(s))) {
		s->fed = s->options->feed->bytes;
		r = rd_snapshot_commit(s);
	}
	return r ? r : s->r;
}

static int tell(struct rd_snapshot_run *s)
{
	u64 end = s->source.nr_segs;

	return rd_pool_progress(s->pool, "receive", rd_min(s->version->cursor, end) << RD_SEG_SHIFT,
				end << RD_SEG_SHIFT);
}

int rd_snapshot_feed(struct rd_snapshot_run *s)
{
	bool end = false;
	int r = 0, fed = 0;

	s->fed = s->options->feed->bytes;
	while (!r && !fed && !end) {
		fed = take_next(s, &end);
		if (!fed)
			fed = tell(s);
		if (!fed)
			r = decide(s, false);
	}
	/* Where the feed is cut off, what has come stays. */
	if (!r)
		r = decide(s, true);
	return r ? r : fed;
}
