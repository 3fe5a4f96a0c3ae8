// SPDX-License-Identifier: GPL-2.0
/* Write the copy of the catalog into the data area. */
#include <errno.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/journal_frames.h"
#include "pool/catalog/outbox.h"
#include "fence.h"
#include "journal.h"
#include "journal_part.h"
#include "journal_read.h"

/*
 * So many blocks of changes are not worth a new journal; so many bytes of a transaction go into a
 * part, which in tests make several of many a transaction.
 */
#ifdef RD_TEST
#define MIN_ROLL	64
#define CHANGES_MAX	1024
#else
#define MIN_ROLL	2048
#define CHANGES_MAX	RD_JOURNAL_PART_MAX
#endif

struct writer {
	struct rd_pool *pool;
	u64 journal;
	struct rd_journal_end end;
	struct rd_journal_part *part;	/* the buffer */
	/* Frames taken in advance, or none: a u64 each, of which @next is the next. */
	struct rd_buffer frames;
	size_t next;
	u64 nr_left;			/* so many more must be free */
};

/* A new journal that nobody has asked for leaves the old one what it needs if that has to go on. */
#define LEFT	2

/* Take a frame for the journal, before anything is written there. */
static int add_frame(struct writer *writer, u64 *ret)
{
	struct rd_pool *pool = writer->pool;
	int r;

	r = rd_catalog_do(pool->sql, rd_journal_frame_take(pool->sql, pool->session,
							   writer->journal, ret));
	if (r)
		return r;
	/* Stable before the link that leads there. */
	r = rd_area_clear_frame(&pool->area, *ret);
	return r ? rd_area_cannot_write(&pool->area, r, "the journal") : 0;
}

/* A part is about to be written at the end. */
static void note_written(struct writer *writer)
{
	struct rd_pool *pool = writer->pool;

	pool->is_ahead = true;
	/* Nobody reads a new one that the superblock does not name yet. */
	if (writer->journal != pool->area.super.journal_id)
		return;
	if (pool->journal != writer->journal)
		pool->journal_seq = 0;
	pool->journal = writer->journal;
	pool->journal_seq = rd_max(pool->journal_seq, writer->end.seq + 1);
}

/* Write writer->part, whose payload is there, at the end. */
static int write_part(struct writer *writer, enum rd_journal_part_kind kind, u64 generation,
		      size_t len, u64 link)
{
	struct rd_journal_end *end = &writer->end;
	struct rd_journal_part *part = writer->part;
	unsigned int blocks = rd_journal_part_blocks(len);
	int r;

	memset(part, 0, sizeof(*part));
	part->magic = cpu_to_le32(RD_JOURNAL_MAGIC);
	part->journal = cpu_to_le64(writer->journal);
	part->seq = cpu_to_le64(end->seq);
	part->generation = cpu_to_le64(generation);
	part->len = cpu_to_le32(len);
	part->kind = cpu_to_le32(kind);
	part->link = cpu_to_le64(link);
	part->session = cpu_to_le64(writer->pool->session);
	part->before = cpu_to_le32(end->last_crc);
	part->crc = cpu_to_le32(rd_journal_part_crc(part, len));
	memset(part->payload + len, 0, blocks * RD_BLOCK_SIZE - sizeof(*part) - len);
	r = rd_failpoint("journal-part");
	if (r)
		return r;
	note_written(writer);
	r = rd_area_log(&writer->pool->area, part, blocks * RD_BLOCK_SIZE,
			rd_slot_offset(end->frame, end->block));
	if (r)
		return rd_area_cannot_write(&writer->pool->area, r, "the journal");
	rd_journal_part_pass(end, part);
	return 0;
}

/* Choose the frame to go on in. A dump takes its frames before it begins to read. */
static int next_frame(struct writer *writer, u64 *ret)
{
	if (!writer->frames.data)
		return add_frame(writer, ret);
	if (writer->next == writer->frames.len)
		return rd_err(-ENOSPC, "the copy of the catalog is longer than expected");
	memcpy(ret, writer->frames.data + writer->next, sizeof(*ret));
	writer->next += sizeof(*ret);
	return 0;
}

/* Lead to another frame, and go on there. */
static int link_next_frame(struct writer *writer)
{
	u64 next;
	int r;

	r = next_frame(writer, &next);
	if (!r)
		r = write_part(writer, RD_PART_LINK, writer->end.generation, 0, next);
	if (r)
		return r;
	writer->end.frame = next;
	writer->end.block = 0;
	return 0;
}

/* Make room for a part of @blocks in the frame of the end. */
static int make_room(struct writer *writer, unsigned int blocks)
{
	return writer->end.block + blocks > RD_JOURNAL_LAST_BLOCK ? link_next_frame(writer) : 0;
}

static int append(struct writer *writer, const u8 *data, size_t len, bool dump, u64 generation)
{
	size_t max = dump ? RD_JOURNAL_PART_MAX : CHANGES_MAX;
	int r = 0;

	while (len && !r) {
		size_t now = rd_min(len, max);
		enum rd_journal_part_kind kind = dump ? RD_PART_DUMP :
			now < len ? RD_PART_MORE : RD_PART_CHANGES;

		r = make_room(writer, rd_journal_part_blocks(now));
		if (r)
			return r;
		memcpy(writer->part->payload, data, now);
		r = write_part(writer, kind, generation, now, 0);
		if (!r && dump)
			writer->end.dump_blocks += rd_journal_part_blocks(now);
		data += now;
		len -= now;
	}
	if (!r)
		writer->end.generation = generation;
	return r;
}

/* Append what is in the outbox and not in the journal yet. */
static int append_outbox(struct writer *writer)
{
	RD_BUFFER struct rd_buffer changes = { 0 };
	u64 generation;
	int r;

	/* A row at a time: a frame may have to be added in between. */
	while (!(r = rd_outbox_next(writer->pool->sql, writer->end.generation, &generation,
				    &changes))) {
		r = append(writer, changes.data, changes.len, false, generation);
		if (r)
			break;
	}
	return r == -ENOENT ? 0 : r;
}

static int append_mark(struct writer *writer)
{
	int r = make_room(writer, 1);

	return r ? r : write_part(writer, RD_PART_CHANGES, writer->end.generation, 0, 0);
}

/* The transaction that has begun, and has come to @r, ends, and with it what the outbox was for. */
static int end_outbox(struct writer *writer, int r)
{
	struct rd_sql *sql = writer->pool->sql;

	if (!r)
		r = rd_outbox_clear(sql, writer->end.generation);
	if (!r)
		r = rd_state_put_end(sql, &writer->pool->area.super, &writer->end);
	r = rd_catalog_end(sql, r);
	if (!r)
		writer->pool->is_ahead = false;
	return r;
}

static int clear_outbox(struct writer *writer)
{
	int r = rd_catalog_begin(writer->pool->sql);

	return r ? r : end_outbox(writer, 0);
}

/* --- a new journal */

static int dump_table(struct writer *writer, enum rd_table table, u64 generation,
		      struct rd_buffer *changes)
{
	RD_ROW struct rd_row *rows = NULL;
	int r;

	r = rd_catalog_rows(writer->pool->sql, &rows, table);
	while (!r && (r = rd_next_change(rows, table, changes)) > 0) {
		r = 0;
		if (changes->len > RD_JOURNAL_PART_MAX - (16U << 10)) {
			r = append(writer, changes->data, changes->len, true, generation);
			changes->len = 0;
		}
	}
	return r;
}

static int dump(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	RD_BUFFER struct rd_buffer changes = { 0 };
	struct rd_state state;
	unsigned int table;
	int r;

	r = rd_sql_begin_read(sql);
	if (r)
		return r;
	r = rd_state_read(sql, &state);
	for (table = 0; table < RD_NR_TABLES && !r; table++)
		r = dump_table(writer, table, state.generation, &changes);
	if (!r)
		r = append(writer, changes.data, changes.len, true, state.generation);
	rd_sql_end_read(sql);
	return r;
}

/*
 * Take frames for all of the database: a dump has neither indexes nor free pages. The journal that
 * there is must go on growing where they are not enough.
 */
static int take_frames(struct writer *writer)
{
	u64 pages, nr, nr_free, frame;
	int r;

	r = rd_catalog_pages(writer->pool->sql, &pages);
	if (!r)
		r = rd_frames_nr_free(writer->pool->sql, &nr_free);
	if (r)
		return r;
	nr = pages / RD_JOURNAL_LAST_BLOCK + 2;
	if (nr_free < nr + writer->nr_left)
		return -ENOSPC;
	for (; nr && !r; nr--) {
		r = add_frame(writer, &frame);
		if (!r)
			rd_buffer_put(&writer->frames, &frame, sizeof(frame));
	}
	return r ? r : writer->frames.failed ? -ENOMEM : 0;
}

/* The new journal holds: give back the frames of the old one, and those not needed. */
static int settle(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	u64 frame;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_frames_free_new(sql, writer->pool->area.super.nr_frames);
	if (!r)
		r = rd_journal_frames_queue(sql, writer->journal, true);
	while (!r && writer->next < writer->frames.len) {
		memcpy(&frame, writer->frames.data + writer->next, sizeof(frame));
		writer->next += sizeof(frame);
		r = rd_journal_frame_return(sql, frame);
	}
	return end_outbox(writer, r);
}

static int write_new(struct writer *writer, u64 *ret_first)
{
	int r;

	r = take_frames(writer);
	if (!r)
		r = next_frame(writer, ret_first);
	if (r)
		return r;
	writer->end.frame = *ret_first;
	r = dump(writer);
	if (!r)
		r = rd_area_sync(&writer->pool->area);
	return r;
}

/* Give back what a new journal had taken that there was no room for. */
static int give_up_new(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;

	rd_info("there is no room for a new copy of the catalog: the old one stays in use");
	return rd_catalog_do(sql, rd_journal_frames_queue(sql, writer->journal, false));
}

static int begin_new(struct rd_pool *pool, struct rd_journal_part *part, u64 nr_frames, u64 nr_left)
{
	struct writer writer = { .pool = pool, .part = part, .nr_left = nr_left };
	struct rd_pool_super *super = &pool->area.super;
	struct rd_pool_super old = *super;
	struct rd_state state;
	u64 first;
	int r;

	if (getrandom(&writer.journal, sizeof(writer.journal), 0) != sizeof(writer.journal))
		return rd_err(-errno, "no random number");
	writer.journal >>= 1;	/* SQLite's numbers have a sign */
	r = rd_state_read(pool->sql, &state);
	if (r)
		return r;
	writer.end.last_crc = state.end.last_crc;
	r = write_new(&writer, &first);
	if (r == -ENOSPC) {
		rd_buffer_free(&writer.frames);
		return give_up_new(&writer);
	}
	if (!r)
		r = rd_failpoint("journal-switch");
	if (!r) {
		super->journal_id = writer.journal;
		super->journal_frame = first;
		super->nr_frames = nr_frames;
		r = rd_area_write_super(&pool->area);
		if (r)
			*super = old;
		if (!r)
			r = rd_failpoint("journal-switched");
		if (!r)
			r = settle(&writer);
	}
	/* If it failed, its frames go when the next one has come. */
	rd_buffer_free(&writer.frames);
	return r;
}

/* --- in step with the catalog */

/*
 * Follow the new journal where a crash came between the superblock and the catalog, which
 * knows the frames of that journal. -ESTALE: the catalog does not know them.
 */
static int adopt_new(struct rd_pool *pool)
{
	struct writer writer = { .pool = pool, .journal = pool->area.super.journal_id };
	struct rd_journal_reader reader = { .change = NULL };
	u64 known;
	int r;

	r = rd_journal_frames_count(pool->sql, writer.journal, &known);
	if (r)
		return r;
	if (!known)
		return -ESTALE;
	writer.end.frame = pool->area.super.journal_frame;
	r = rd_journal_read(&pool->area, &writer.end, &reader);
	/* Both copies, stable: the command may have died between the first and the second. */
	if (!r)
		r = rd_area_write_super(&pool->area);
	return r ? r : settle(&writer);
}

/*
 * Read the superblock as it is now, put the catalog in step with it, and let @writer go
 * on from there. -ESTALE: the superblock is of another pool or another life.
 */
static int follow_super(struct writer *writer)
{
	struct rd_pool *pool = writer->pool;
	struct rd_state state;
	int r;

	r = rd_area_reread_super(&pool->area);
	if (!r)
		r = rd_state_read(pool->sql, &state);
	if (!r && state.journal != pool->area.super.journal_id) {
		r = adopt_new(pool);
		if (!r)
			r = rd_state_read(pool->sql, &state);
	}
	if (r)
		return r;
	writer->journal = state.journal;
	writer->end = state.end;
	return 0;
}

int rd_journal_follow(struct rd_pool *pool)
{
	struct writer writer = { .pool = pool };
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = follow_super(&writer);
	rd_lock_drop(&lock);
	return r;
}

/* --- what the outbox has */

/*
 * Where the catalog could not note what was appended, for want of room, that is written again as
 * it was, and parts that came behind it would still follow: when this session has ended, they
 * would be of a catalog that is newer than ours. Write over them.
 */
static int append_over_rest(struct writer *writer)
{
	const struct rd_pool *pool = writer->pool;
	int r = 0;

	while (!r && pool->journal == writer->journal && writer->end.seq < pool->journal_seq)
		r = append_mark(writer);
	return r;
}

static int append_and_sync(struct writer *writer, bool mark)
{
	struct rd_journal_end before = writer->end;
	int r;

	r = append_outbox(writer);
	if (!r && mark)
		r = append_mark(writer);
	if (!r)
		r = append_over_rest(writer);
	if (!r)
		r = rd_failpoint("journal-appended");
	/* The caller relies on this one even if there was nothing to append. */
	if (!r)
		r = rd_area_sync(&writer->pool->area);
	if (r || writer->end.seq == before.seq)
		return r;
	return clear_outbox(writer);
}

/*
 * A command that was killed in the midst of a transaction, or before the catalog had noted it, has
 * left parts behind the end. Written over from the first on, the others would pass for what comes
 * behind a part that is lost: begin a new journal where there is room.
 */
static int leave_rest(struct writer *writer)
{
	struct rd_pool *pool = writer->pool;
	struct rd_journal_end rest = writer->end;
	int r;

	r = rd_journal_skip(&pool->area, &rest);
	if (r || rest.seq <= writer->end.seq + 1)
		return r;
	/* This command's own ones: append_over_rest(). */
	if (pool->journal == writer->journal && rest.seq <= pool->journal_seq)
		return 0;
	r = begin_new(pool, writer->part, pool->area.super.nr_frames, LEFT);
	return r ? r : follow_super(writer);
}

static int flush(struct rd_pool *pool, bool mark)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
	struct writer writer = { .pool = pool };
	u64 blocks;
	int r;

	if (!part)
		return -ENOMEM;
	writer.part = part;
	r = rd_fence_look(pool);
	/* Another command may have begun a new one, and died before the catalog knew. */
	if (!r)
		r = follow_super(&writer);
	if (r == -ESTALE)
		r = rd_err(-EUCLEAN, "the data area belongs to another catalog");
	if (!r)
		r = leave_rest(&writer);
	if (!r)
		r = append_and_sync(&writer, mark);
	if (r)
		return r;
	/* At least a block a part. */
	blocks = writer.end.seq;
	if (blocks > MIN_ROLL + 2 * writer.end.dump_blocks)
		r = begin_new(pool, part, pool->area.super.nr_frames, LEFT);
	return r;
}

static int lock_and_flush(struct rd_pool *pool, bool mark)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = flush(pool, mark);
	rd_lock_drop(&lock);
	return r;
}

int rd_journal_flush(struct rd_pool *pool)
{
	return lock_and_flush(pool, false);
}

int rd_journal_mark(struct rd_pool *pool)
{
	return lock_and_flush(pool, true);
}

int rd_journal_renew(struct rd_pool *pool, u64 nr_frames)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
	struct rd_pool_super *super = &pool->area.super;
	struct rd_lock lock = RD_LOCK_NONE;
	u64 before;
	int r;

	if (!part)
		return -ENOMEM;
	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = rd_area_reread_super(&pool->area);
	before = super->journal_id;
	if (!r)
		r = begin_new(pool, part, nr_frames ? nr_frames : super->nr_frames, 0);
	rd_lock_drop(&lock);
	if (!r && super->journal_id == before) {
		rd_err(0, "the pool is full: no frames are free for a new copy of the catalog");
		return -ENOSPC;
	}
	return r;
}
