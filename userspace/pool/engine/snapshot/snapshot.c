// SPDX-License-Identifier: GPL-2.0
/*
 * Take a version of a volume from an image, from beginning to end.
 *
 * Segments go through a pipeline of buffers: read, fingerprint (in threads), decide,
 * write. They are decided upon in the order of the image, so that the data area has
 * them in this order. Decisions are committed in batches:
 *
 *	1. all writes of the batch have ended; the data area is flushed
 *	2. one transaction adds the recipes and the rows of the batch
 *
 * The rows are born with a version that does not exist until the last
 * transaction makes it NEW. A crash before that leaves rows that no version sees,
 * and frames that are reserved: recover.c gives them back.
 *
 * Whether the pool has a segment is looked up while the image is read, and looked
 * up again in the transaction: reverse deduplication for another volume may have
 * taken it apart in between. Then it is read once more, and written.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/sessions.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/space/choices.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/undo.h"
#include "pool/engine/version/version.h"
#include "snapshot_run.h"

static int make_buffers(struct rd_snapshot_run *s)
{
	size_t nr = RD_SNAPSHOT_BUFFERS + RD_SNAPSHOT_SPARE, i;
	bool has_packs = s->compression.codec || s->options->feed;
	void *fps;

	s->data = rd_alloc_direct(nr * RD_SEG_SIZE);
	if (has_packs)
		s->packs = rd_alloc_direct(nr * RD_PACK_MAX);
	if (!s->data || !s->packs != !has_packs ||
	    posix_memalign(&fps, RD_BLOCK_SIZE, nr * RD_FPS_SIZE))
		return -ENOMEM;
	s->fps = fps;
	for (i = 0; i < nr; i++) {
		struct rd_snapshot_buffer *buffer = calloc(1, sizeof(*buffer));

		s->buffers[i] = buffer;
		if (!buffer)
			return -ENOMEM;
		buffer->snapshot = s;
		buffer->data = s->data + i * RD_SEG_SIZE;
		if (s->packs)
			buffer->pack = s->packs + i * RD_PACK_MAX;
		buffer->fps = s->fps + i * RD_SEG_BLOCKS;
	}
	return 0;
}

static int choose_rule(struct rd_snapshot_run *s)
{
	int r = rd_rule_of(s->pool, s->version->volume, &s->rule, NULL);

	if (r)
		return r;
	rd_rule_apply(&s->rule, &s->options->rule);
	return rd_rule_announce(s->pool, s->rule);
}

static int set_up(struct rd_snapshot_run *s)
{
	int r;

	s->hasher = rd_hasher_new();
	s->resolver = rd_resolver_new(s->pool->sql);
	s->compression = s->options->compression ? *s->options->compression :
		s->pool->area.super.compression;
	rd_pack_writer_begin(&s->writer, s->pool, false);
	if (!s->hasher || !s->resolver)
		return -ENOMEM;
	r = s->compression.codec ? rd_packs_announce(s->pool) : 0;
	if (!r)
		r = choose_rule(s);
	if (!r)
		r = rd_snapshot_hits_begin(s);
	if (!r)
		r = make_buffers(s);
	if (!r)
		r = rd_ring_new(&s->ring, 64);
	if (!r)
		r = rd_workers_new(&s->workers, s->ring);
	return r;
}

static void tear_down(struct rd_snapshot_run *s)
{
	unsigned int i;

	rd_source_close(&s->source);
	rd_workers_free(s->workers);
	rd_ring_free(s->ring);
	for (i = 0; i < RD_SNAPSHOT_BUFFERS + RD_SNAPSHOT_SPARE; i++)
		free(s->buffers[i]);
	for (i = 0; i < s->nr_items; i++)
		rd_snapshot_drop_part(&s->items[i]);
	free(s->fps);
	free(s->packs);
	free(s->data);
	rd_pack_writer_free(&s->writer);
	rd_plan_free(&s->plan);
	rd_resolver_free(s->resolver);
	rd_hasher_free(s->hasher);
	free(s);
}

/* Decide whether the list of changes can be used: NULL, and a reason, if not. */
static const struct rd_changed *choose_mode(struct rd_snapshot_run *s)
{
	const struct rd_changed *changed = s->options->changed;
	struct rd_snapshot_report *report = s->report;

	report->mode = s->options->feed ? "received" : "full";
	if (s->options->feed)
		return NULL;
	if (!s->base.id)
		report->reason = "it is the first version";
	else if (!changed && (s->options->why_full || s->source.size == s->base.size))
		report->reason = s->options->why_full;
	else if (changed && changed->base != s->base.number)
		report->reason = "the list of changes is not based on the newest version";
	else if (s->source.size != s->base.size)
		report->reason = "the size has changed";
	else if (!s->source.nr_segs)
		report->reason = "there is nothing to read";
	else
		report->mode = "changed";
	return strcmp(report->mode, "changed") ? NULL : changed;
}

/* All of it was read: was it one content that was read? */
static int check_source(struct rd_snapshot_run *s)
{
	const char *path = s->options->from;
	bool has_changed;
	int r;

	if (s->options->check) {
		r = s->options->check(s->options->ctx);
		if (r)
			return r;
	}
	s->version->is_consistent = !s->options->is_in_use;
	r = rd_source_has_changed(&s->source, &has_changed);
	if (r || !has_changed)
		return r;
	if (s->options->may_change) {
		s->version->is_consistent = false;
		rd_warn("'%s' was written while it was read: %s@%lld is not consistent", path,
			s->options->volume, s->version->number);
		return 0;
	}
	rd_err(0, "'%s' was written while it was read", path);
	rd_remedy(RD_REMEDY_ALLOW_CHANGES, NULL,
		  "stop the program that writes to it first");
	return -EBUSY;
}

/* The sum is that of the rows, whatever was noted while they came. */
static int compare_rows(struct rd_snapshot_run *s, bool *ret)
{
	struct rd_proof proof = { .version = s->version, .hasher = s->hasher };
	rd_sum sum = s->options->feed->sum;
	int r = rd_sql_begin_read(s->pool->sql);

	if (r)
		return r;
	while ((r = rd_proof_add(s->pool->sql, &proof)) > 0)
		;
	rd_sql_end_read(s->pool->sql);
	*ret = !proof.is_unknown && proof.sum == sum && s->version->sum == sum;
	return r;
}

/* All of it has arrived: is it the version that was announced? If not, none of it stays. */
static int check_fed(struct rd_snapshot_run *s)
{
	bool is_it = false;
	int r;

	r = compare_rows(s, &is_it);
	if (r || is_it)
		return r;
	r = rd_undo_version(s->pool->sql, s->version->id);
	return r ? r : -EBADMSG;
}

/* Warn where a date will refer to another version than expected: now it is easy to see why. */
static void check_clock(const struct rd_snapshot_run *s)
{
	char before[RD_TIME_TEXT], now[RD_TIME_TEXT];

	if (!s->base.id || s->version->time >= s->base.time)
		return;
	rd_warn("the clock went back: %s@%lld is of %s, and %s@%lld of %s", s->options->volume,
		s->base.number, rd_print_time(before, s->base.time), s->options->volume,
		s->version->number, rd_print_time(now, s->version->time));
}

/* Before the first byte: nothing is written upon a catalog that is not what it was. */
static int prove_base(struct rd_snapshot_run *s)
{
	struct rd_pool *pool = s->pool;
	struct rd_version base;
	int r = 0;

	if (pool->area.super.incompat & RD_INCOMPAT_PACKS)
		r = rd_packs_are_there(pool->sql);
	if (!r)
		r = rd_version_before(pool->sql, s->version->volume, INT64_MAX, &base);
	if (r)
		return r == -ENOENT ? 0 : r;
	return rd_version_prove_base(pool, &base);
}

static int find_base(struct rd_snapshot_run *s)
{
	int r = rd_version_before(s->pool->sql, s->version->volume, INT64_MAX, &s->base);

	if (r != -ENOENT)
		return r;
	s->base.id = 0;
	return 0;
}

/* What has arrived of another version is of no use, and would lie below the new one. */
static int drop_partial(struct rd_pool *pool, i64 volume)
{
	struct rd_version partial;
	int r = rd_version_partial(pool->sql, volume, &partial);

	return r ? r == -ENOENT ? 0 : r : rd_undo_version(pool->sql, partial.id);
}

/* Go on with a version of which some has arrived: 1, or 0: there is none. */
static int resume_version(struct rd_snapshot_run *s)
{
	const struct rd_feed *feed = s->options->feed;
	struct rd_version partial;
	int r = rd_version_partial(s->pool->sql, s->version->volume, &partial);

	if (r)
		return r == -ENOENT ? 0 : r;
	if (partial.uid != feed->uid || partial.size != feed->size)
		return 0;
	*s->version = partial;
	/* Nothing was committed yet, not even a sum. */
	if (!partial.cursor)
		s->version->sum = s->base.id ? s->base.sum : 0;
	return 1;
}

/*
 * The moment that the other side says, as far as it can be: after the version before, and not
 * later than now. So its clock moves nothing between versions that are here already.
 */
static i64 fed_time(const struct rd_snapshot_run *s)
{
	i64 now = time(NULL), first = s->base.id ? s->base.time : 0, fed = s->options->feed->time;

	return fed > now || first > now ? now : fed < first ? first : fed;
}

static int insert_fed(struct rd_snapshot_run *s)
{
	const struct rd_feed *feed = s->options->feed;
	struct rd_version *version = s->version;
	struct rd_sql *sql = s->pool->sql;
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	version->uid = feed->uid;
	version->number = feed->number;
	version->state = RD_VERSION_PARTIAL;
	version->size = feed->size;
	version->time = fed_time(s);
	snprintf(version->comment, sizeof(version->comment), "%s",
		 s->options->comment ? s->options->comment : "");
	version->sum = s->base.id ? s->base.sum : 0;
	return rd_catalog_end(sql, rd_version_insert(sql, version));
}

static int begin_fed(struct rd_snapshot_run *s)
{
	struct rd_feed *feed = s->options->feed;
	int r, resumes = 0;

	s->source.size = feed->size;
	s->source.nr_segs = rd_nr_segs(feed->size);
	r = find_base(s);
	/* Another command has received it since the caller looked. */
	if (!r)
		r = rd_version_is_there(s->pool->sql, s->version->volume, feed->uid, feed->sum);
	if (r > 0)
		r = -EEXIST;
	if (!r)
		resumes = resume_version(s);
	if (r || resumes < 0)
		return r ? r : resumes;
	r = feed->begin(feed, &s->base, s->version->cursor, s->rule.pieces);
	if (!r)
		r = rd_partial_announce(s->pool);
	if (!r && !resumes)
		r = drop_partial(s->pool, s->version->volume);
	if (!r && !resumes)
		r = insert_fed(s);
	s->version->is_consistent = feed->is_consistent;
	return r;
}

static int begin_version(struct rd_snapshot_run *s)
{
	struct rd_version *version = s->version;
	const char *comment = s->options->comment;
	struct rd_sql *sql = s->pool->sql;
	int r;

	if (getrandom(&version->uid, sizeof(version->uid), 0) != sizeof(version->uid))
		return rd_err(-errno, "no random number");
	version->uid &= INT64_MAX;
	version->size = s->source.size;
	version->time = s->options->time ? s->options->time : time(NULL);
	snprintf(version->comment, sizeof(version->comment), "%s", comment ? comment : "");
	r = drop_partial(s->pool, version->volume);
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = find_base(s);
	if (!r)
		r = rd_version_insert(sql, version);
	if (!r)
		r = rd_session_set_version(sql, s->pool->session, version->id);
	version->sum = s->base.id ? s->base.sum : 0;
	r = rd_catalog_end(sql, r);
	if (!r)
		check_clock(s);
	return r;
}

/* Make the version exist, unless it waits for others. */
static int finish_version(struct rd_snapshot_run *s)
{
	struct rd_version *version = s->version;
	const char *tag = s->options->waits ? NULL : s->options->tags;
	struct rd_sql *sql = s->pool->sql;
	int r;

	r = rd_failpoint("snapshot-finish");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	version->state = s->options->waits ? RD_VERSION_WRITING : RD_VERSION_NEW;
	version->cursor = 0;
	if (s->options->tracker)
		memcpy(version->tracker, s->options->tracker, sizeof(version->tracker));
	version->epoch = s->options->epoch;
	if (!version->epoch && !strcmp(s->report->mode, "changed"))
		version->epoch = s->options->tracker ? RD_EPOCH_BITMAP : RD_EPOCH_LIST;
	r = rd_version_finish(sql, version);
	if (!r && s->options->feed)
		r = rd_version_set_state(sql, version);
	/* Which of the lists lacked the change is not known. */
	if (!r && s->report->list_was_wrong)
		r = rd_versions_doubt(sql, &s->base);
	if (!r)
		r = rd_session_set_version(sql, s->pool->session, 0);
	if (!r && s->frame < s->frame_end)
		r = rd_frames_return(sql, s->frame, s->frame_end - s->frame);
	if (!r)
		r = rd_pack_writer_end(&s->writer);
	/* Frames that were written, and turned out not to be needed. */
	if (!r)
		r = rd_filling_leave_all(sql, s->pool->session);
	for (; !r && tag && *tag; tag += strlen(tag) + 1)
		r = s->options->keep_tags ? rd_version_tag_new(sql, version, tag) :
			rd_version_tag(sql, version, tag);
	return rd_catalog_end(sql, r);
}

static int get_volume(struct rd_pool *pool, const char *name, i64 *ret_id)
{
	return rd_catalog_do(pool->sql, rd_volume_get(pool->sql, name, ret_id));
}

static int take(struct rd_snapshot_run *s)
{
	struct rd_feed *feed = s->options->feed;
	int r;

	r = set_up(s);
	if (!r && !feed)
		r = s->options->store ?
			rd_source_serve(&s->source, s->options->store, s->ring) :
			rd_source_open(&s->source, s->options->from, s->options->is_frozen);
	if (!r)
		r = prove_base(s);
	if (!r)
		r = feed ? begin_fed(s) : begin_version(s);
	if (!r)
		r = rd_plan_begin(&s->plan, s->pool->sql, &s->base, s->version->number,
				  s->source.nr_segs, s->rule.pieces, choose_mode(s));
	if (!r)
		r = feed ? rd_snapshot_feed(s) : rd_snapshot_read(s);
	if (!r)
		r = feed ? check_fed(s) : check_source(s);
	if (!r)
		r = finish_version(s);
	return r;
}

/* Measure how long it is since *@mark, which becomes now. */
static u64 usec_since(u64 *mark)
{
	u64 before = *mark;

	*mark = rd_now_us();
	return *mark - before;
}

static int lock_volume(struct rd_pool *pool, const char *name, i64 *ret_id, struct rd_lock *ret)
{
	int r = get_volume(pool, name, ret_id);

	return r ? r : rd_pool_lock(pool, ret, RD_LOCK_VOLUME, *ret_id, true, "the volume");
}

int rd_snapshot_lock(struct rd_pool *pool, const char *volume,
		     const struct rd_rule_change *change)
{
	struct rd_lock lock;
	i64 id;
	int r;

	r = lock_volume(pool, volume, &id, &lock);
	if (!r)
		r = rd_finish_volume(pool, id);
	return r ? r : rd_snapshot_prepare(pool, volume, change);
}

int rd_snapshot_copy(struct rd_pool *pool, const struct rd_snapshot_options *options,
		     struct rd_snapshot_report *report, struct rd_snapshot_copy *ret)
{
	struct rd_snapshot_run *s;
	int r;

	*ret = (struct rd_snapshot_copy){ pool, options, report, .lock = RD_LOCK_NONE };
	memset(report, 0, sizeof(*report));
	r = lock_volume(pool, options->volume, &report->version.volume, &ret->lock);
	if (r)
		return r;
	ret->mark = rd_now_us();
	s = calloc(1, sizeof(*s));
	if (s) {
		s->pool = pool;
		s->options = options;
		s->report = report;
		s->version = &report->version;
		s->stable = &ret->written;
		r = rd_finish_volume(pool, report->version.volume);
		if (!r)
			r = take(s);
		ret->hits = s->hits;
		tear_down(s);
	} else {
		r = -ENOMEM;
	}
	report->usec_copy = usec_since(&ret->mark);
	return r;
}

void rd_snapshot_release(struct rd_snapshot_copy *copy)
{
	rd_snapshot_hits_free(copy->hits);
	copy->hits = NULL;
	rd_written_free(&copy->written);
	rd_lock_drop(&copy->lock);
}

int rd_snapshot_settle(struct rd_snapshot_copy *copy, int r)
{
	struct rd_snapshot_report *report = copy->report;

	rd_snapshot_hits_end(copy->hits);
	/* The version exists: if anything fails now, the next command finishes it. */
	if (!r)
		r = rd_reverse(copy->pool, &report->version, &copy->written,
			       &report->blocks_waiting);
	rd_snapshot_release(copy);
	report->usec_reverse = usec_since(&copy->mark);
	return r;
}

int rd_snapshot_free(struct rd_snapshot_copy *copy, int r)
{
	if (!r)
		r = rd_free_queue(copy->pool);
	copy->report->usec_free = usec_since(&copy->mark);
	return r;
}

int rd_snapshot(struct rd_pool *pool, const struct rd_snapshot_options *options,
		struct rd_snapshot_report *report)
{
	struct rd_snapshot_copy copy;
	int r = rd_snapshot_copy(pool, options, report, &copy);

	if (r) {
		rd_snapshot_release(&copy);
		/* The command may go on, and needs them; if this fails, its end does it. */
		if (options->feed)
			rd_session_leave(pool);
		return r;
	}
	/* Who is told relies on it, whoever takes the pool over next. */
	if (rd_area_can(&pool->area, RD_STORE_FENCED))
		r = rd_journal_flush(pool);
	if (!r && options->copied)
		r = options->copied(options->ctx, &report->version);
	r = rd_snapshot_settle(&copy, r);
	return rd_snapshot_free(&copy, r);
}
