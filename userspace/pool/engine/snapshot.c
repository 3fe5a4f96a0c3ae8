// SPDX-License-Identifier: GPL-2.0
/*
 * Take a version of a volume from an image.
 *
 * Segments go through a pipeline of buffers: read, fingerprint (in threads),
 * decide, write. They are decided upon in the order of the image, so that what
 * is written lies in this order. What was decided is committed in batches:
 *
 *	1. all writes of the batch have ended; the data area is flushed
 *	2. one transaction adds the recipes and the rows of the batch
 *
 * The rows are born with a version that does not exist until the last
 * transaction makes it NEW. A crash before that leaves rows that nobody sees,
 * and frames that are reserved: recover.c gives them back.
 *
 * That the pool has a segment is looked up while the image is read, and looked
 * up again in the transaction: reverse deduplication for another volume may have
 * taken it apart in between. Then it is read once more, and written.
 *
 * What is audited has been said to be unchanged by what tracks the changes, which
 * sees all that a guest writes. An audit is for what came past it by accident: a
 * quick sum finds that, and spares most of the time that small snapshots take. Only
 * where it differs, or is not known, the content is fingerprinted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/broken.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/direct.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/recipes.h"
#include "pool/data/quick.h"
#include "pool/data/workers.h"
#include "engine.h"
#include "resolve.h"
#include "snapshot.h"
#include "source.h"

#define NR_BUFFERS	20
#define BATCH		2048
#define HASH_SIZE	(2 * BATCH)
#define RESERVE		64		/* frames at a time */
#define LOOK_AHEAD	1024		/* segments whose recipes are read at a time */
#define NO_FRAME	U64_MAX
#define AUDIT_SHARE	64
#define AUDIT_RANDOM	4

/* A segment that is decided upon, and not committed. */
struct item {
	u64 segment;
	i64 old;		/* the recipe that the version before has here */
	bool is_same;		/* content, whose quick sum is to be known */
	bool is_zero;
	u64 quick;
	u64 frame;		/* where it was written, or NO_FRAME: the pool has it */
	struct rd_seg_fp fp;
	struct rd_slots nonzero;
};

struct snapshot;

enum buffer_state {
	BUFFER_FREE,
	BUFFER_BUSY,		/* is read or fingerprinted */
	BUFFER_READY,		/* to be decided upon */
	BUFFER_WRITING,
};

struct buffer {
	struct snapshot *snapshot;
	enum buffer_state state;
	u64 segment;
	i64 old;
	bool is_audit;
	bool has_fp;		/* old_fp: of what was here before */
	bool has_sum;		/* the same of old_sum */
	bool is_same;		/* by the sum, and the fingerprints are not known */
	u64 old_sum, quick;
	u8 *data;		/* a segment */
	struct rd_fp *fps;	/* of its blocks */
	struct rd_seg_fp fp, old_fp;
	size_t skip, len;	/* what is not between these is a hole, and not read */
	struct rd_op read;
	struct iovec read_iov;
	struct rd_job job;
	unsigned int writes;
	struct rd_op ops[RD_SEG_BLOCKS / 2 + 1];
	struct iovec iovs[RD_SEG_BLOCKS / 2 + 1];
};

struct snapshot {
	struct rd_pool *pool;
	const struct rd_snapshot_options *options;
	struct rd_snapshot_report *report;
	struct rd_version *version;
	struct rd_version base;		/* the version before; id 0: none */
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	int r;				/* the first error */

	/* The image. */
	int fd;
	bool is_device;
	u64 size;
	u64 nr_segs;
	u64 data_end;			/* no data between here ... */
	u64 data_start;			/* ... and there */
	u64 run, run_end;		/* and no hole between these */

	/* Which segment is next, and what the version before has there. */
	u64 next;
	bool all;			/* compare everything */
	unsigned int range;		/* of options->changed */
	u64 audit_random[AUDIT_RANDOM];
	u8 *pieces;			/* a bit for each segment in pieces; NULL: there is none */
	u64 pieces_next;		/* next segment in pieces */
	u8 *seen;			/* a bit for each segment that was looked at */
	u64 window;			/* first segment of recipes[] */
	unsigned int window_len;
	i64 recipes[LOOK_AHEAD];

	struct rd_ring *ring;
	struct rd_workers *workers;
	u8 *data;			/* of all buffers */
	struct rd_fp *fps;
	/* The last one is not for the pipeline. */
	struct buffer *buffers[NR_BUFFERS + 1];
	/* Those that are not decided upon, in order. */
	struct buffer *order[NR_BUFFERS];
	unsigned int first, nr;

	/* Frames that may be written to. */
	u64 frame, frame_end;

	unsigned int nr_items;
	struct item items[BATCH];
	u32 by_fp[HASH_SIZE];		/* number of the item + 1 */
	bool written;			/* since the last flush */

	struct rd_source source;	/* as it was before it was read */
};

/* --- the image */

static int open_image(struct snapshot *s, const char *path)
{
	int r;

	s->fd = rd_open_direct(path, O_RDONLY, 0);
	if (s->fd < 0)
		return rd_err(s->fd, "cannot open '%s'", path);
	r = rd_size_of(s->fd, &s->size, &s->is_device);
	if (r == -ENOTBLK)
		return rd_err(0, "'%s' is neither a file nor a block device", path), r;
	s->nr_segs = rd_nr_segs(s->size);
	if (!r && !s->options->is_frozen)
		r = rd_source_look(s->fd, &s->source);
	return r ? rd_err(r, "cannot look at '%s'", path) : 0;
}

/* All of it was read: was it one content that was read? */
static int check_source(struct snapshot *s)
{
	const char *path = s->options->from;
	struct rd_source now;
	int r;

	s->version->is_consistent = !s->options->is_in_use;
	if (s->options->is_frozen)
		return 0;
	r = rd_source_look(s->fd, &now);
	if (r)
		return rd_err(r, "cannot look at '%s'", path);
	if (rd_source_was_cut(&s->source, &now)) {
		rd_err(0, "'%s' was cut off while it was read", path);
		return -EIO;
	}
	if (!rd_source_has_changed(&s->source, &now))
		return 0;
	if (s->options->may_change) {
		s->version->is_consistent = false;
		rd_warn("'%s' was written while it was read: %s@%lld is not consistent", path,
			s->options->volume, (long long)s->version->number);
		return 0;
	}
	rd_err(0, "'%s' was written while it was read", path);
	rd_hint("stop what writes to it, or say --force: the version is marked as not consistent then");
	return -EBUSY;
}

/* Nothing but a hole in the segment. */
static bool is_hole(struct snapshot *s, u64 segment)
{
	u64 start = segment << RD_SEG_SHIFT;
	off_t data;

	if (s->is_device)
		return false;
	if (start < s->data_end || start >= s->data_start) {
		data = lseek(s->fd, start, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return false;
		s->data_end = start;
		s->data_start = data < 0 ? U64_MAX : (u64)data;
	}
	return s->data_start >= start + RD_SEG_SIZE;
}

/*
 * A segment that is_hole() said is none: what is left of it without the hole that
 * it begins with and the one that it ends with. A disk may have little in each.
 */
static void trim(struct snapshot *s, u64 start, u64 *ret_from, u64 *ret_to)
{
	u64 end = start + RD_SEG_SIZE;
	off_t hole, data;

	*ret_from = start;
	*ret_to = end;
	if (s->data_start < start || s->data_start >= end ||
	    (start >= s->run && end <= s->run_end))
		return;
	*ret_from = s->data_start / RD_BLOCK_SIZE * RD_BLOCK_SIZE;
	hole = lseek(s->fd, s->data_start, SEEK_HOLE);
	if (hole < 0)
		return;
	s->run = s->data_start;
	s->run_end = hole;
	if (s->run_end >= end)
		return;
	data = lseek(s->fd, hole, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		return;
	s->data_end = hole;
	s->data_start = data < 0 ? U64_MAX : (u64)data;
	if (s->data_start >= end)
		*ret_to = rd_round_up(hole, RD_BLOCK_SIZE);
}

/* --- which segments */

static int load_window(struct snapshot *s, u64 segment)
{
	int r = 0;

	s->window = segment;
	s->window_len = LOOK_AHEAD;
	if (s->base.id)
		r = rd_segments_read(s->pool->sql, s->base.volume, s->base.number, segment,
				     LOOK_AHEAD, s->recipes);
	else
		memset(s->recipes, 0, sizeof(s->recipes));
	return r;
}

static i64 old_recipe(struct snapshot *s, u64 segment)
{
	int r = 0;

	if (segment < s->window || segment >= s->window + s->window_len)
		r = load_window(s, segment);
	if (r) {
		s->r = s->r ? s->r : r;
		return 0;
	}
	return s->recipes[segment - s->window];
}

static u64 end_of_all(const struct snapshot *s)
{
	/* What the image has lost is zeros now. */
	return s->base.id ? rd_max(s->nr_segs, rd_nr_segs(s->base.size)) : s->nr_segs;
}

/* The first segment from @from on that is in a changed range. */
static u64 next_in_ranges(struct snapshot *s, u64 from)
{
	const struct rd_changed *changed = s->options->changed;

	for (; s->range < changed->nr; s->range++) {
		const struct rd_changed_range *range = &changed->ranges[s->range];
		u64 last = (range->offset + range->len - 1) >> RD_SEG_SHIFT;

		if (last >= from)
			return rd_max(range->offset >> RD_SEG_SHIFT, from);
	}
	return U64_MAX;
}

static u64 next_in_audit(const struct snapshot *s, u64 from)
{
	u64 next = rd_round_up(from, AUDIT_SHARE) + s->version->number % AUDIT_SHARE;
	unsigned int i;

	if (next >= from + AUDIT_SHARE)
		next -= AUDIT_SHARE;
	for (i = 0; i < AUDIT_RANDOM; i++)
		if (s->audit_random[i] >= from)
			next = rd_min(next, s->audit_random[i]);
	return next;
}

static bool test_bit(const u8 *bits, u64 segment)
{
	return bits[segment / 8] >> segment % 8 & 1;
}

static void set_bit(u8 *bits, u64 segment)
{
	bits[segment / 8] |= 1 << segment % 8;
}

/* The segments that have, or had, @recipe. */
static int note_pieces(struct snapshot *s, i64 recipe)
{
	RD_ROW struct rd_row *row = NULL;
	u64 end = end_of_all(s);
	int r;

	r = rd_sql_ask(s->pool->sql, &row, "SELECT segment FROM segment"
		       " WHERE recipe = ? AND volume = ? AND segment < ?", "iii", recipe,
		       s->base.volume, (i64)end);
	while (!r && (r = rd_row_next(row)) > 0) {
		if (!s->pieces)
			s->pieces = calloc(1, end / 8 + 1);
		if (s->pieces)
			set_bit(s->pieces, rd_row_i64(row, 0));
		r = s->pieces ? 0 : -ENOMEM;
	}
	return r;
}

static int list_in_pieces(struct snapshot *s, i64 after, i64 *ids, unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	unsigned int nr = 0;
	int r;

	r = rd_sql_ask(s->pool->sql, &row, "SELECT recipe FROM uses WHERE latest_refs > 0"
		       " AND whole = 0 AND recipe > ? ORDER BY recipe LIMIT ?", "ii", after,
		       (i64)LOOK_AHEAD);
	while (!r && (r = rd_row_next(row)) > 0) {
		ids[nr++] = rd_row_i64(row, 0);
		r = 0;
	}
	*ret_nr = nr;
	return r;
}

/*
 * Segments of the version before that are in pieces are read, and made whole. They are
 * listed once, from the recipes in pieces: mostly there are few, or none.
 */
static int find_pieces(struct snapshot *s)
{
	unsigned int i, nr = LOOK_AHEAD;
	i64 ids[LOOK_AHEAD], last = 0;
	int r = 0;

	while (!r && nr == LOOK_AHEAD) {
		r = rd_sql_begin_read(s->pool->sql);
		if (r)
			return r;
		r = list_in_pieces(s, last, ids, &nr);
		for (i = 0; i < nr && !r; i++)
			r = note_pieces(s, ids[i]);
		rd_sql_end_read(s->pool->sql);
		if (nr)
			last = ids[nr - 1];
	}
	return r;
}

static u64 next_in_pieces(struct snapshot *s, u64 from)
{
	u64 end = end_of_all(s), next = rd_max(from, s->pieces_next);

	if (!s->pieces)
		return U64_MAX;
	while (next < end && !test_bit(s->pieces, next))
		next += next % 8 || s->pieces[next / 8] ? 1 : 8;
	s->pieces_next = next;
	return next < end ? next : U64_MAX;
}

/*
 * The next segment to look at, U64_MAX if there is none. *@ret_audit: it should
 * not have changed.
 */
static u64 next_segment(struct snapshot *s, bool *ret_audit)
{
	u64 end = end_of_all(s), from = s->next, changed, next;

	*ret_audit = false;
	if (from >= end)
		return U64_MAX;
	if (s->all)
		return from;
	changed = next_in_ranges(s, from);
	next = rd_min(changed, rd_min(next_in_audit(s, from), next_in_pieces(s, from)));
	*ret_audit = next != changed;
	return next < end ? next : U64_MAX;
}

/* --- frames */

static int get_frames(struct snapshot *s)
{
	struct rd_sql *sql = s->pool->sql;
	u64 len, keep;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_frames_to_keep(sql, s->pool->area.super.nr_frames, &keep);
	if (!r)
		r = rd_frames_reserve(sql, s->pool->session, RESERVE, keep, &s->frame, &len);
	r = rd_catalog_end(sql, r);
	if (r == -ENOSPC) {
		rd_err(0, "the pool is full");
		rd_hint("'revdedupctl delete' and 'prune' make room, at once");
	}
	s->frame_end = s->frame + (r ? 0 : len);
	return r;
}

static int next_frame(struct snapshot *s, u64 *ret)
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
	struct buffer *buffer = op->ctx;
	struct snapshot *s = buffer->snapshot;

	if (r && !s->r)
		s->r = rd_err(r, "cannot write to the data area");
	if (!--buffer->writes)
		buffer->state = BUFFER_FREE;
}

static void submit_write(struct buffer *buffer, void *data, size_t len, u64 offset)
{
	unsigned int nr = buffer->writes++;

	buffer->iovs[nr] = (struct iovec){ .iov_base = data, .iov_len = len };
	buffer->ops[nr] = (struct rd_op){
		.kind = RD_OP_WRITE,
		.fd = buffer->snapshot->pool->area.fd,
		.offset = offset,
		.iov = &buffer->iovs[nr],
		.nr_iov = 1,
		.done = write_done,
		.ctx = buffer,
	};
	rd_ring_submit(buffer->snapshot->ring, &buffer->ops[nr]);
}

/*
 * Write what is not zeros. On a device all of it: a place there may have other
 * data from before, and what reads a frame whole must find zeros.
 */
static void write_buffer(struct buffer *buffer, u64 frame)
{
	struct snapshot *s = buffer->snapshot;
	bool is_device = s->pool->area.is_device;
	u64 offset = rd_frame_offset(frame);
	unsigned int i, start;

	buffer->state = BUFFER_WRITING;
	s->written = true;
	if (is_device) {
		memset(buffer->data, 0, buffer->skip);
		memset(buffer->data + buffer->len, 0, RD_SEG_SIZE - buffer->len);
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_fp_is_zero(&buffer->fps[i]) && !is_device)
			continue;
		start = i;
		while (i < RD_SEG_BLOCKS && (is_device || !rd_fp_is_zero(&buffer->fps[i])))
			i++;
		submit_write(buffer, buffer->data + (size_t)start * RD_BLOCK_SIZE,
			     (size_t)(i - start) * RD_BLOCK_SIZE,
			     offset + (u64)start * RD_BLOCK_SIZE);
		s->version->bytes_stored += (u64)(i - start) * RD_BLOCK_SIZE;
	}
	submit_write(buffer, buffer->fps, RD_FPS_SIZE, rd_frame_fps_offset(frame));
}

/* --- the batch */

static u32 *hash_slot(struct snapshot *s, const struct rd_seg_fp *fp)
{
	unsigned int i;
	u32 hash;

	memcpy(&hash, fp->b, sizeof(hash));
	for (i = hash % HASH_SIZE; s->by_fp[i]; i = (i + 1) % HASH_SIZE)
		if (rd_seg_fp_equal(&s->items[s->by_fp[i] - 1].fp, fp))
			break;
	return &s->by_fp[i];
}

static struct item *add_item(struct snapshot *s, u64 segment, i64 old)
{
	struct item *item = &s->items[s->nr_items++];

	*item = (struct item){ .segment = segment, .old = old, .frame = NO_FRAME };
	return item;
}

static int put_segment(struct snapshot *s, const struct item *item, i64 recipe)
{
	int r;

	if (recipe == item->old)
		return 0;
	r = rd_sql_run(s->pool->sql, "INSERT INTO segment VALUES(?, ?, ?, ?)", "iiii",
		       s->version->volume, (i64)item->segment, s->version->number, recipe);
	return r || !recipe ? r : rd_recipe_ref(s->pool->sql, recipe, 1, 1);
}

static void map_of_item(const struct item *item, struct rd_map *map)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		map->at[i] = rd_slots_test(&item->nonzero, i) ?
			rd_place_make(RD_OWN, item->frame, i) : rd_place_make(RD_ZERO, 0, 0);
}

/* The item was written, and there is no recipe of it, or one that is not whole. */
static int use_frame(struct snapshot *s, const struct item *item, bool is_new, i64 *recipe_id)
{
	struct rd_sql *sql = s->pool->sql;
	struct rd_recipe recipe;
	struct rd_map map;
	int r;

	map_of_item(item, &map);
	r = rd_frames_use(sql, item->frame);
	if (r)
		return r;
	if (is_new)
		return rd_recipe_insert(sql, &item->fp, item->frame, &map, item->quick,
					recipe_id);
	r = rd_recipe_load(sql, *recipe_id, &recipe);
	return r ? r : rd_recipe_change(sql, &recipe, item->frame, &map);
}

/* -EAGAIN: the pool had it whole, and has it not any more. */
static int commit_item(struct snapshot *s, const struct item *item)
{
	bool is_whole = false;
	i64 recipe = 0;
	int r;

	if (item->is_same)
		return rd_recipe_set_quick(s->pool->sql, item->old, item->quick);
	if (item->is_zero)
		return put_segment(s, item, 0);
	r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &is_whole);
	if (r && r != -ENOENT)
		return r;
	if (r == -ENOENT || !is_whole) {
		if (item->frame == NO_FRAME && rd_is_broken(RD_BREAK_HIT))
			return put_segment(s, item, recipe);
		if (item->frame == NO_FRAME)
			return -EAGAIN;
		r = use_frame(s, item, r == -ENOENT, &recipe);
		if (r)
			return r;
	} else if (item->frame == NO_FRAME) {
		s->report->segments_shared++;
	}
	return put_segment(s, item, recipe);
}

/* Of the items, those that must be written after all are left. */
static int commit_items(struct snapshot *s)
{
	unsigned int i, left = 0;
	int r;

	r = rd_catalog_begin(s->pool->sql);
	if (r)
		return r;
	for (i = 0; i < s->nr_items && !r; i++) {
		r = commit_item(s, &s->items[i]);
		if (r == -EAGAIN) {
			s->items[left++] = s->items[i];
			r = 0;
		}
	}
	r = rd_catalog_end(s->pool->sql, r);
	s->nr_items = r ? 0 : left;
	memset(s->by_fp, 0, sizeof(s->by_fp));
	return r;
}

static int drain(struct snapshot *s)
{
	unsigned int i;
	int r;

	for (i = 0; i <= NR_BUFFERS && !s->r; i++) {
		while (!s->r && s->buffers[i]->state == BUFFER_WRITING) {
			r = rd_ring_wait(s->ring);
			s->r = s->r ? s->r : r;
		}
	}
	return s->r;
}

/* What the pool had is gone: read it once more, as it is now, and write it. */
static int write_again(struct snapshot *s, struct item *item)
{
	struct buffer *buffer = s->buffers[NR_BUFFERS];
	rd_sum *sum = &s->version->sum;
	unsigned int i;
	int r;

	r = rd_read_direct(s->fd, buffer->data, RD_SEG_SIZE, item->segment << RD_SEG_SHIFT);
	if (r)
		return rd_err(r, "cannot read '%s'", s->options->from);
	*sum -= rd_fp_sum(s->hasher, item->segment, &item->fp);
	memset(&item->nonzero, 0, sizeof(item->nonzero));
	buffer->skip = 0;
	buffer->len = RD_SEG_SIZE;
	rd_fp_segment(s->hasher, buffer->data, RD_SEG_SIZE, buffer->fps, &item->fp);
	item->quick = rd_quick_sum(buffer->data, 0, RD_SEG_BLOCKS);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&buffer->fps[i]))
			rd_slots_set(&item->nonzero, i);
	item->is_zero = rd_is_zero(buffer->fps, RD_FPS_SIZE);
	if (item->is_zero)
		return 0;
	*sum += rd_fp_sum(s->hasher, item->segment, &item->fp);
	r = next_frame(s, &item->frame);
	if (!r) {
		write_buffer(buffer, item->frame);
		r = drain(s);
	}
	return r;
}

static int commit_batch(struct snapshot *s)
{
	unsigned int i;
	int r;

	r = drain(s);
	while (!r && s->nr_items) {
		r = rd_failpoint("snapshot-batch");
		if (!r && s->written && !rd_is_broken(RD_BREAK_SYNC))
			r = rd_area_sync(&s->pool->area);
		s->written = false;
		if (!r)
			r = commit_items(s);
		for (i = 0; i < s->nr_items && !r; i++)
			r = write_again(s, &s->items[i]);
	}
	return r;
}

/* --- deciding */

/*
 * Blocks that are not what the version before had there. Only to be told, so a
 * version before that cannot be read costs nothing but the number.
 */
static u64 count_changed(struct snapshot *s, i64 old, const struct rd_fp *fps)
{
	struct rd_fp before[RD_SEG_BLOCKS] = { 0 };
	struct rd_seg_fp fp;
	struct rd_map map;
	unsigned int i;
	u64 nr = 0;

	if (old) {
		if (rd_sql_begin_read(s->pool->sql))
			return 0;
		rd_resolver_forget(s->resolver);
		if (!rd_resolve(s->resolver, old, &map, &fp))
			rd_read_map_fps(&s->pool->area, &map, before);
		rd_sql_end_read(s->pool->sql);
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += !rd_fp_equal(&before[i], &fps[i]);
	return nr;
}

static void found_change(struct snapshot *s, u64 segment, bool is_audit)
{
	s->report->segments_changed++;
	if (!is_audit || s->all)
		return;
	rd_warn("segment %llu of '%s' changed, and is not among the changed ranges",
		(unsigned long long)segment, s->options->from);
	rd_hint("somebody wrote past what tracks the changes: everything is read and compared now");
	s->all = true;
	s->next = 0;
	s->report->mode = "full";
	s->report->reason = "a segment that was said to be unchanged had changed";
}

/* Where the content is to come from: an earlier item, the pool, or a new frame. */
static int place_buffer(struct snapshot *s, struct buffer *buffer, bool must_write)
{
	struct item *item = add_item(s, buffer->segment, buffer->old);
	bool is_whole = false;
	unsigned int i;
	u32 *slot;
	i64 recipe;
	int r;

	item->fp = buffer->fp;
	item->quick = buffer->quick;
	slot = hash_slot(s, &item->fp);
	if (*slot)
		return 0;
	*slot = item - s->items + 1;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&buffer->fps[i]))
			rd_slots_set(&item->nonzero, i);
	if (!must_write) {
		r = rd_recipe_find(s->pool->sql, &item->fp, &recipe, &is_whole);
		if (r && r != -ENOENT)
			return r;
	}
	if (is_whole)
		return rd_failpoint("snapshot-hit");
	r = next_frame(s, &item->frame);
	if (r)
		s->nr_items--;
	else
		write_buffer(buffer, item->frame);
	return r;
}

static void sum_up(struct buffer *buffer)
{
	unsigned int first = buffer->skip / RD_BLOCK_SIZE;

	buffer->quick = rd_quick_sum(buffer->data + buffer->skip, first,
				     buffer->len / RD_BLOCK_SIZE - first);
}

/* The next audit of this content need not fingerprint it. */
static void learn_sum(struct snapshot *s, const struct buffer *buffer)
{
	struct item *item = add_item(s, buffer->segment, buffer->old);

	item->is_same = true;
	item->quick = buffer->quick;
}

static int decide(struct snapshot *s, struct buffer *buffer)
{
	rd_sum *sum = &s->version->sum;
	bool is_zero, is_whole = true;
	struct rd_seg_fp old_fp;
	int r = 0;

	if (buffer->is_same)
		return 0;
	is_zero = rd_is_zero(buffer->fps, RD_FPS_SIZE);
	if (buffer->old) {
		r = rd_recipe_fp(s->pool->sql, buffer->old, &old_fp, &is_whole);
		if (r)
			return r == -ENOENT ? -EUCLEAN : r;
		if (!is_zero && rd_seg_fp_equal(&old_fp, &buffer->fp)) {
			if (is_whole && buffer->is_audit)
				learn_sum(s, buffer);
			if (is_whole)
				return 0;
			s->report->segments_pieces++;
			sum_up(buffer);
			return place_buffer(s, buffer, true);
		}
		*sum -= rd_fp_sum(s->hasher, buffer->segment, &old_fp);
	} else if (is_zero) {
		return 0;
	}
	found_change(s, buffer->segment, buffer->is_audit);
	s->version->blocks_changed += count_changed(s, buffer->old, buffer->fps);
	if (is_zero) {
		add_item(s, buffer->segment, buffer->old)->is_zero = true;
		return 0;
	}
	*sum += rd_fp_sum(s->hasher, buffer->segment, &buffer->fp);
	return place_buffer(s, buffer, false);
}

/* Decide upon those that are ready, in order. */
static int decide_all(struct snapshot *s)
{
	int r = 0;

	while (s->nr && !r && s->order[s->first]->state == BUFFER_READY) {
		struct buffer *buffer = s->order[s->first];

		s->first = (s->first + 1) % NR_BUFFERS;
		s->nr--;
		r = decide(s, buffer);
		if (buffer->state == BUFFER_READY)
			buffer->state = BUFFER_FREE;
		if (!r && s->nr_items == BATCH)
			r = commit_batch(s);
	}
	return r;
}

/* --- reading */

static void fingerprint(struct rd_job *job, struct rd_hasher *hasher)
{
	struct buffer *buffer = job->ctx;
	unsigned int first = buffer->skip / RD_BLOCK_SIZE;
	unsigned int nr = buffer->len / RD_BLOCK_SIZE - first;

	if (buffer->has_sum)
		sum_up(buffer);
	buffer->is_same = buffer->has_sum && buffer->quick == buffer->old_sum;
	if (buffer->is_same)
		return;
	memset(buffer->fps, 0, RD_FPS_SIZE);
	rd_fp_blocks(hasher, buffer->data + buffer->skip, nr, buffer->fps + first);
	rd_fp_of_fps(hasher, buffer->fps, &buffer->fp);
	/* What did not change has its sum, but for what an audit finds to have none. */
	if (!buffer->has_sum && (buffer->is_audit || !buffer->has_fp ||
				 !rd_seg_fp_equal(&buffer->fp, &buffer->old_fp)))
		sum_up(buffer);
}

static void fingerprinted(struct rd_job *job)
{
	struct buffer *buffer = job->ctx;

	buffer->state = BUFFER_READY;
}

static void read_done(struct rd_op *op, int r)
{
	struct buffer *buffer = op->ctx;
	struct snapshot *s = buffer->snapshot;

	if (r) {
		if (!s->r)
			s->r = rd_err(r, "cannot read '%s' at %llu", s->options->from,
				      (unsigned long long)(buffer->segment << RD_SEG_SHIFT));
		return;
	}
	buffer->job = (struct rd_job){
		.run = fingerprint,
		.done = fingerprinted,
		.ctx = buffer,
	};
	rd_workers_give(s->workers, &buffer->job);
}

static void start_read(struct snapshot *s, struct buffer *buffer, u64 segment, bool is_audit)
{
	u64 start = segment << RD_SEG_SHIFT, from, to;
	bool is_whole;

	trim(s, start, &from, &to);
	to = rd_min(to, rd_round_up(s->size, RD_BLOCK_SIZE));
	buffer->state = BUFFER_BUSY;
	buffer->segment = segment;
	buffer->is_audit = is_audit;
	buffer->old = old_recipe(s, segment);
	/* If that fails, it does so again where it is decided upon. */
	buffer->has_fp = buffer->old &&
		!rd_recipe_fp(s->pool->sql, buffer->old, &buffer->old_fp, &is_whole);
	buffer->has_sum = is_audit && !rd_recipe_quick(s->pool->sql, buffer->old, &buffer->old_sum);
	buffer->skip = from - start;
	buffer->len = to - start;
	buffer->read_iov = (struct iovec){
		.iov_base = buffer->data + buffer->skip,
		.iov_len = to - from,
	};
	buffer->read = (struct rd_op){
		.kind = RD_OP_READ,
		.fd = s->fd,
		.offset = from,
		.iov = &buffer->read_iov,
		.nr_iov = 1,
		.done = read_done,
		.ctx = buffer,
	};
	s->order[(s->first + s->nr++) % NR_BUFFERS] = buffer;
	s->report->segments_audited += is_audit;
	s->version->dirty++;
	s->version->bytes_read += rd_min(s->size, to) - from;
	rd_ring_submit(s->ring, &buffer->read);
}

/* Zeros, and that needs no reading. Costs an item if it was something before. */
static int take_zeros(struct snapshot *s, u64 segment, bool is_audit)
{
	static const struct rd_fp zeros[RD_SEG_BLOCKS];
	i64 old = old_recipe(s, segment);
	struct rd_seg_fp fp;
	bool is_whole;
	int r;

	if (!old || s->r)
		return s->r;
	r = rd_recipe_fp(s->pool->sql, old, &fp, &is_whole);
	if (r)
		return r;
	found_change(s, segment, is_audit);
	s->version->blocks_changed += count_changed(s, old, zeros);
	s->version->sum -= rd_fp_sum(s->hasher, segment, &fp);
	add_item(s, segment, old)->is_zero = true;
	return s->nr_items == BATCH ? commit_batch(s) : 0;
}

static struct buffer *free_buffer(struct snapshot *s)
{
	unsigned int i;

	for (i = 0; i < NR_BUFFERS; i++)
		if (s->buffers[i]->state == BUFFER_FREE)
			return s->buffers[i];
	return NULL;
}

/* Long stretches of nothing: neither the image has something there, nor had. */
static u64 skip_nothing(struct snapshot *s, u64 segment)
{
	u64 end = s->data_start >> RD_SEG_SHIFT;
	i64 next;

	if (s->base.id) {
		if (rd_sql_number(s->pool->sql, &next, "SELECT segment FROM segment"
				  " WHERE volume = ? AND segment >= ?"
				  " ORDER BY segment LIMIT 1", "ii", s->base.volume, (i64)segment))
			return end;
		end = rd_min(end, (u64)next);
	}
	return rd_max(end, segment);
}

static int start_reads(struct snapshot *s, bool *ret_more)
{
	struct buffer *buffer;
	bool is_audit;
	u64 segment;
	int r = 0;

	for (;;) {
		segment = next_segment(s, &is_audit);
		*ret_more = segment != U64_MAX;
		if (s->r || !*ret_more)
			return s->r;
		/* Once an audit has failed it begins again, and passes by what it has. */
		if (test_bit(s->seen, segment)) {
			s->next = segment + 1;
			continue;
		}
		if (segment >= s->nr_segs || is_hole(s, segment)) {
			s->next = segment + 1;
			if (s->all && segment < s->nr_segs)
				s->next = skip_nothing(s, s->next);
			set_bit(s->seen, segment);
			r = take_zeros(s, segment, is_audit);
			if (r)
				return r;
			continue;
		}
		buffer = free_buffer(s);
		if (!buffer || s->nr == NR_BUFFERS)
			return 0;
		s->next = segment + 1;
		set_bit(s->seen, segment);
		start_read(s, buffer, segment, is_audit);
	}
}

static int run_pipeline(struct snapshot *s)
{
	bool more = true;
	int r = 0;

	while (!r && (more || s->nr)) {
		r = start_reads(s, &more);
		if (!r)
			r = decide_all(s);
		/* Deciding may have found a reason to begin again, in the very last one. */
		if (!r && !more && s->next < end_of_all(s) && s->all) {
			more = true;
			continue;
		}
		if (!r && s->nr && s->order[s->first]->state != BUFFER_READY)
			r = rd_ring_wait(s->ring);
		else if (!r && more && !s->nr && !free_buffer(s))
			r = rd_ring_wait(s->ring);
		if (!r)
			r = s->r;
		if (!r)
			r = rd_pool_progress(s->pool, "snapshot",
					     rd_min(s->next, s->nr_segs) << RD_SEG_SHIFT,
					     s->nr_segs << RD_SEG_SHIFT);
	}
	return r ? r : commit_batch(s);
}

/* --- from beginning to end */

static int make_buffers(struct snapshot *s)
{
	size_t nr = NR_BUFFERS + 1, i;
	void *fps;

	s->data = rd_alloc_direct(nr * RD_SEG_SIZE);
	if (!s->data || posix_memalign(&fps, RD_BLOCK_SIZE, nr * RD_FPS_SIZE))
		return -ENOMEM;
	s->fps = fps;
	for (i = 0; i < nr; i++) {
		struct buffer *buffer = calloc(1, sizeof(*buffer));

		s->buffers[i] = buffer;
		if (!buffer)
			return -ENOMEM;
		buffer->snapshot = s;
		buffer->data = s->data + i * RD_SEG_SIZE;
		buffer->fps = s->fps + i * RD_SEG_BLOCKS;
	}
	return 0;
}

static int set_up(struct snapshot *s)
{
	int r;

	s->hasher = rd_hasher_new();
	s->resolver = rd_resolver_new(s->pool->sql);
	if (!s->hasher || !s->resolver)
		return -ENOMEM;
	r = make_buffers(s);
	if (!r)
		r = rd_ring_new(&s->ring, 64);
	if (!r)
		r = rd_workers_new(&s->workers, s->ring);
	return r;
}

static void tear_down(struct snapshot *s)
{
	unsigned int i;

	rd_workers_free(s->workers);
	rd_ring_free(s->ring);
	for (i = 0; i <= NR_BUFFERS; i++)
		free(s->buffers[i]);
	free(s->fps);
	free(s->data);
	free(s->pieces);
	free(s->seen);
	rd_resolver_free(s->resolver);
	rd_hasher_free(s->hasher);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* What a list of changes is good for only if everything fits. */
static void choose_mode(struct snapshot *s)
{
	const struct rd_changed *changed = s->options->changed;
	struct rd_snapshot_report *report = s->report;
	unsigned int i;
	u64 random;

	s->all = true;
	report->mode = "full";
	if (!s->base.id)
		report->reason = "it is the first version";
	else if (!changed)
		report->reason = s->options->why_full;
	else if (changed->base != s->base.number)
		report->reason = "the list of changes is not based on the newest version";
	else if (s->size != s->base.size)
		report->reason = "the size has changed";
	else if (!s->nr_segs)
		report->reason = "there is nothing to be read";
	else
		s->all = false;
	if (s->all)
		return;
	report->mode = "changed";
	for (i = 0; i < AUDIT_RANDOM; i++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			random = i;
		s->audit_random[i] = random % s->nr_segs;
	}
}

/* A date names another version than it would, and only now is it easy to see why. */
static void check_clock(const struct snapshot *s)
{
	char before[32], now[32];
	time_t when = s->base.time;
	struct tm tm;

	if (!s->base.id || s->version->time >= s->base.time)
		return;
	strftime(before, sizeof(before), "%Y-%m-%d %H:%M:%S", localtime_r(&when, &tm));
	when = s->version->time;
	strftime(now, sizeof(now), "%Y-%m-%d %H:%M:%S", localtime_r(&when, &tm));
	rd_warn("the clock went back: %s@%lld is of %s, and %s@%lld of %s", s->options->volume,
		(long long)s->base.number, before, s->options->volume,
		(long long)s->version->number, now);
}

static int begin_version(struct snapshot *s)
{
	struct rd_version *version = s->version;
	const char *comment = s->options->comment;
	struct rd_sql *sql = s->pool->sql;
	int r;

	if (getrandom(&version->uid, sizeof(version->uid), 0) != sizeof(version->uid))
		return rd_err(-errno, "no random number");
	version->uid &= INT64_MAX;
	version->size = s->size;
	version->time = time(NULL);
	snprintf(version->comment, sizeof(version->comment), "%s", comment ? comment : "");
	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_version_before(sql, version->volume, INT64_MAX, &s->base);
	if (r == -ENOENT) {
		s->base.id = 0;
		r = 0;
	}
	if (!r)
		r = rd_version_insert(sql, version, s->pool->session);
	version->sum = s->base.id ? s->base.sum : 0;
	r = rd_catalog_end(sql, r);
	if (!r)
		check_clock(s);
	return r;
}

/* From here on the version exists. */
static int finish_version(struct snapshot *s)
{
	struct rd_version *version = s->version;
	struct rd_sql *sql = s->pool->sql;
	int r;

	r = rd_failpoint("snapshot-finish");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	version->state = RD_VERSION_NEW;
	if (s->options->tracker)
		memcpy(version->tracker, s->options->tracker, sizeof(version->tracker));
	version->epoch = s->options->epoch;
	r = rd_version_finish(sql, version);
	if (!r)
		r = rd_sql_run(sql, "UPDATE session SET version = 0 WHERE id = ?", "i",
			       s->pool->session);
	if (!r && s->frame < s->frame_end)
		r = rd_frames_return(sql, s->frame, s->frame_end - s->frame);
	/* What was written, and turned out to be there. */
	if (!r)
		r = rd_frames_release(sql, s->pool->session);
	if (!r && s->options->tag)
		r = rd_sql_run(sql, "INSERT OR REPLACE INTO tag VALUES(?, ?, ?)", "iti",
			       version->volume, s->options->tag, version->number);
	return rd_catalog_end(sql, r);
}

static int get_volume(struct rd_pool *pool, const char *name, i64 *ret_id)
{
	int r = rd_catalog_begin(pool->sql);

	if (r)
		return r;
	r = rd_volume_get(pool->sql, name, ret_id);
	return rd_catalog_end(pool->sql, r);
}

static int take(struct snapshot *s)
{
	int r;

	r = set_up(s);
	if (!r)
		r = open_image(s, s->options->from);
	if (!r)
		r = begin_version(s);
	if (r)
		return r;
	s->seen = calloc(1, end_of_all(s) / 8 + 1);
	if (!s->seen)
		return -ENOMEM;
	choose_mode(s);
	/* Where all is compared, these are read anyway. */
	r = s->all ? 0 : find_pieces(s);
	if (!r)
		r = run_pipeline(s);
	if (!r)
		r = check_source(s);
	if (!r)
		r = finish_version(s);
	return r;
}

/* How long it is since *@mark, which becomes now. */
static u64 usec_since(u64 *mark)
{
	u64 before = *mark;

	*mark = rd_now_us();
	return *mark - before;
}

int rd_snapshot(struct rd_pool *pool, const struct rd_snapshot_options *options,
		struct rd_snapshot_report *report)
{
	struct rd_lock lock = RD_LOCK_NONE;
	struct snapshot *s;
	u64 mark;
	int r;

	memset(report, 0, sizeof(*report));
	r = get_volume(pool, options->volume, &report->version.volume);
	if (!r)
		r = rd_pool_lock(pool, &lock, RD_LOCK_VOLUME, report->version.volume, true,
				 "the volume");
	if (r)
		return r;
	mark = rd_now_us();
	s = calloc(1, sizeof(*s));
	if (s) {
		s->fd = -1;
		s->pool = pool;
		s->options = options;
		s->report = report;
		s->version = &report->version;
		r = rd_finish_volume(pool, report->version.volume);
		if (!r)
			r = take(s);
		tear_down(s);
	} else {
		r = -ENOMEM;
	}
	report->usec_copy = usec_since(&mark);
	if (!r && options->copied)
		r = options->copied(options->ctx, &report->version);
	/* It exists: whatever fails now, the next command goes on with. */
	if (!r)
		r = rd_reverse(pool, &report->version);
	rd_lock_drop(&lock);
	report->usec_reverse = usec_since(&mark);
	if (!r)
		r = rd_free_queue(pool);
	report->usec_free = usec_since(&mark);
	return r;
}
