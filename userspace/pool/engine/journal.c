// SPDX-License-Identifier: GPL-2.0
/* The copy of the catalog in the data area. */
#include <errno.h>
#include <linux/crc32c.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pool/catalog/changes.h"
#include "pool/catalog/frames.h"
#include "journal.h"

#define MAGIC		0x314a4452U	/* "RDJ1" */
#define PART_MAX	(256U << 10)	/* payload */
#define LAST_BLOCK	(RD_SEG_BLOCKS - 1)
/* Blocks of changes that are not worth a new journal. */
#ifdef RD_TEST
#define MIN_ROLL	64
#else
#define MIN_ROLL	2048
#endif

enum part_kind {
	PART_CHANGES = 1,
	PART_MORE,
	PART_DUMP,
	PART_LINK,
};

struct part {
	__le32 magic;
	__le32 crc;
	__le64 journal;
	__le64 seq;
	__le64 generation;
	__le32 len;
	__le32 kind;
	__le64 link;
	u8 zeros[16];
	u8 payload[];
};

_Static_assert(sizeof(struct part) == 64, "journal part");

static u32 part_crc(struct part *part, size_t len)
{
	__le32 crc = part->crc;
	u32 sum;

	part->crc = 0;
	sum = ~crc32c(~0U, part, sizeof(*part) + len);
	part->crc = crc;
	return sum;
}

static unsigned int part_blocks(size_t len)
{
	return (sizeof(struct part) + len + RD_BLOCK_SIZE - 1) / RD_BLOCK_SIZE;
}

/* --- reading */

/*
 * The part at @end, in @buf, which has room for any. 0 if there is one, -ENODATA
 * at the end of the journal.
 */
static int read_part(const struct rd_area *area, const struct rd_journal_end *end,
		     struct part *part)
{
	u64 offset = rd_slot_offset(end->frame, end->block);
	size_t len;
	int r;

	r = rd_area_read(area, part, RD_BLOCK_SIZE, offset);
	if (r)
		return r;
	len = le32_to_cpu(part->len);
	if (le32_to_cpu(part->magic) != MAGIC || len > PART_MAX ||
	    le64_to_cpu(part->journal) != area->super.journal_id ||
	    le64_to_cpu(part->seq) != end->seq ||
	    end->block + part_blocks(len) > RD_SEG_BLOCKS)
		return -ENODATA;
	if (part_blocks(len) > 1)
		r = rd_area_read(area, (u8 *)part + RD_BLOCK_SIZE,
				 (part_blocks(len) - 1) * RD_BLOCK_SIZE, offset + RD_BLOCK_SIZE);
	if (!r && part_crc(part, len) != le32_to_cpu(part->crc))
		r = -ENODATA;
	return r;
}

static int read_changes(const struct rd_journal_reader *reader, const u8 *data, size_t len)
{
	struct rd_change change;
	int r = 0;

	while (len && !r) {
		ssize_t used = rd_change_unpack(&change, rd_tables, RD_NR_TABLES, data, len);

		if (used < 0)
			return rd_err(used, "the journal is damaged");
		r = reader->change(reader->ctx, &change);
		data += used;
		len -= used;
	}
	return r;
}

/* @part is at @end: move that behind it. */
static void pass_part(struct rd_journal_end *end, const struct part *part)
{
	end->last_frame = end->frame;
	end->last_block = end->block;
	end->last_crc = le32_to_cpu(part->crc);
	end->seq++;
	end->block += part_blocks(le32_to_cpu(part->len));
}

/* Take @part in: @whole collects a transaction's changes until the last part. */
static int take_part(const struct rd_journal_reader *reader, const struct part *part,
		     struct rd_journal_end *end, struct rd_buffer *whole)
{
	size_t len = le32_to_cpu(part->len);
	int r = 0;

	pass_part(end, part);
	switch (le32_to_cpu(part->kind)) {
	case PART_LINK:
		end->frame = le64_to_cpu(part->link);
		end->block = 0;
		if (end->frame >= 1ULL << 40)
			return -EBADMSG;
		return reader->frame ? reader->frame(reader->ctx, end->frame) : 0;
	case PART_DUMP:
		end->dump_blocks += part_blocks(len);
		end->generation = le64_to_cpu(part->generation);
		return reader->change ? read_changes(reader, part->payload, len) : 0;
	case PART_MORE:
		if (reader->change)
			rd_buffer_put(whole, part->payload, len);
		return whole->failed ? -ENOMEM : 0;
	case PART_CHANGES:
		end->generation = le64_to_cpu(part->generation);
		if (!reader->change)
			return 0;
		rd_buffer_put(whole, part->payload, len);
		r = whole->failed ? -ENOMEM : read_changes(reader, whole->data, whole->len);
		whole->len = 0;
		return r;
	default:
		return -EBADMSG;
	}
}

int rd_journal_read(const struct rd_area *area, struct rd_journal_end *end,
		    const struct rd_journal_reader *reader)
{
	RD_FREE struct part *part = malloc(part_blocks(PART_MAX) * RD_BLOCK_SIZE);
	struct rd_journal_end whole_end = *end;
	struct rd_buffer whole = { 0 };
	int r = part ? 0 : -ENOMEM;

	while (!r) {
		r = read_part(area, end, part);
		if (!r)
			r = take_part(reader, part, end, &whole);
		/* A transaction with parts missing is not there. */
		if (!r && le32_to_cpu(part->kind) != PART_MORE)
			whole_end = *end;
	}
	rd_buffer_free(&whole);
	*end = whole_end;
	return r == -ENODATA ? 0 : r;
}

/* --- what comes after the end */

/*
 * Is this block of the part that should be next? A bit that has flipped leaves two
 * of the three as they were, and so does a crash in the middle of writing it.
 */
static bool is_next(const struct rd_area *area, const struct part *part, u64 seq)
{
	return (le32_to_cpu(part->magic) == MAGIC) +
		(le64_to_cpu(part->journal) == area->super.journal_id) +
		(le64_to_cpu(part->seq) == seq) > 1;
}

static bool is_later(const struct rd_area *area, const struct part *part, u64 seq)
{
	return le32_to_cpu(part->magic) == MAGIC && le64_to_cpu(part->seq) > seq &&
		le64_to_cpu(part->journal) == area->super.journal_id;
}

/* In the rest of the frame. */
static int find_later(const struct rd_area *area, const struct rd_journal_end *end, bool *ret)
{
	u8 block[RD_BLOCK_SIZE];
	struct part *part = (struct part *)block;
	unsigned int i;

	for (i = end->block; i < RD_SEG_BLOCKS && !*ret; i++) {
		int r = rd_area_read(area, block, sizeof(block), rd_slot_offset(end->frame, i));

		/* What was there is not known. */
		*ret = r || is_later(area, part, end->seq) ||
			(i == end->block && is_next(area, part, end->seq));
	}
	return 0;
}

/* The way to the next frame may be what is lost; it was written near the end. */
static int find_next_frame(const struct rd_area *area, const struct rd_journal_end *end,
			   bool *ret)
{
	u8 block[RD_BLOCK_SIZE];
	struct part *part = (struct part *)block;
	u64 frame;

	if (end->block + part_blocks(PART_MAX) <= LAST_BLOCK)
		return 0;
	for (frame = 0; frame < area->super.nr_frames && !*ret; frame++) {
		if (rd_area_read(area, block, sizeof(block), rd_frame_offset(frame)))
			continue;
		*ret = is_later(area, part, end->seq);
	}
	return 0;
}

int rd_journal_is_cut(const struct rd_area *area, const struct rd_journal_end *end, bool *ret)
{
	RD_FREE struct part *part = malloc(part_blocks(PART_MAX) * RD_BLOCK_SIZE);
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_journal_end at = *end;
	struct rd_buffer unused = { 0 };
	int r = part ? 0 : -ENOMEM;

	*ret = false;
	/* Parts of a transaction that was never whole are no damage. */
	while (!r) {
		r = read_part(area, &at, part);
		if (!r)
			r = take_part(&reader, part, &at, &unused);
	}
	if (r == -ENOMEM)
		return r;
	r = find_later(area, &at, ret);
	return r || *ret ? r : find_next_frame(area, &at, ret);
}

/* --- writing */

struct writer {
	struct rd_pool *pool;
	u64 journal;
	struct rd_journal_end end;
	struct part *part;	/* the buffer */
	/* Frames taken in advance, or none: u64 each, of which @next is next. */
	struct rd_buffer frames;
	size_t next;
};

static int get_state(struct rd_sql *sql, u64 *journal, u64 *generation,
		     struct rd_journal_end *end)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT journal_id, generation, journal_frame, journal_block,"
		       " journal_seq, journal_generation, dump_blocks, last_frame, last_block,"
		       " last_crc FROM state", "");
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -EUCLEAN;
	*journal = rd_row_i64(row, 0);
	*generation = rd_row_i64(row, 1);
	*end = (struct rd_journal_end){
		.frame = rd_row_i64(row, 2),
		.block = rd_row_i64(row, 3),
		.seq = rd_row_i64(row, 4),
		.generation = rd_row_i64(row, 5),
		.dump_blocks = rd_row_i64(row, 6),
		.last_frame = rd_row_i64(row, 7),
		.last_block = rd_row_i64(row, 8),
		.last_crc = rd_row_i64(row, 9),
	};
	return 0;
}

int rd_journal_put_end(struct rd_sql *sql, const struct rd_pool_super *super,
		       const struct rd_journal_end *end)
{
	return rd_sql_run(sql, "UPDATE state SET journal_id = ?, journal_frame = ?,"
			  " journal_block = ?, journal_seq = ?, journal_generation = ?,"
			  " dump_blocks = ?, last_frame = ?, last_block = ?, last_crc = ?,"
			  " super_seq = ?", "iiiiiiiiii", (i64)super->journal_id,
			  (i64)end->frame, (i64)end->block, (i64)end->seq, (i64)end->generation,
			  (i64)end->dump_blocks, (i64)end->last_frame, (i64)end->last_block,
			  (i64)end->last_crc, (i64)super->seq);
}

/* A frame for the journal, before anything is written there. */
static int add_frame(struct writer *writer, u64 *ret)
{
	struct rd_sql *sql = writer->pool->sql;
	u64 frame = 0, len;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_frames_reserve(sql, writer->pool->session, 1, 0, &frame, &len);
	if (r == -ENOSPC)
		rd_err(0, "the pool is full: there is no place for the copy of the catalog");
	if (!r)
		r = rd_frames_use(sql, frame);
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO journal_frame VALUES(?, ?)", "ii", (i64)frame,
			       (i64)writer->journal);
	*ret = frame;
	r = rd_catalog_end(sql, r);
	if (r)
		return r;
	/* Stable before the link that leads there. */
	r = rd_area_clear_frame(&writer->pool->area, frame);
	return r ? rd_err(r, "cannot write the journal") : 0;
}

/* Write writer->part, whose payload is there, at the end. */
static int write_part(struct writer *writer, enum part_kind kind, u64 generation, size_t len,
		      u64 link)
{
	struct rd_journal_end *end = &writer->end;
	struct part *part = writer->part;
	unsigned int blocks = part_blocks(len);
	int r;

	memset(part, 0, sizeof(*part));
	part->magic = cpu_to_le32(MAGIC);
	part->journal = cpu_to_le64(writer->journal);
	part->seq = cpu_to_le64(end->seq);
	part->generation = cpu_to_le64(generation);
	part->len = cpu_to_le32(len);
	part->kind = cpu_to_le32(kind);
	part->link = cpu_to_le64(link);
	part->crc = cpu_to_le32(part_crc(part, len));
	memset(part->payload + len, 0, blocks * RD_BLOCK_SIZE - sizeof(*part) - len);
	r = rd_area_write(&writer->pool->area, part, blocks * RD_BLOCK_SIZE,
			  rd_slot_offset(end->frame, end->block));
	if (r)
		return rd_err(r, "cannot write the journal");
	pass_part(end, part);
	return 0;
}

/* A dump cannot take frames while it reads: it has taken them before. */
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

static int go_on_in_next_frame(struct writer *writer)
{
	u64 next;
	int r;

	r = next_frame(writer, &next);
	if (!r)
		r = write_part(writer, PART_LINK, writer->end.generation, 0, next);
	if (r)
		return r;
	writer->end.frame = next;
	writer->end.block = 0;
	return 0;
}

static int append(struct writer *writer, const u8 *data, size_t len, bool dump, u64 generation)
{
	int r = 0;

	while (len && !r) {
		size_t now = rd_min(len, PART_MAX);
		enum part_kind kind = dump ? PART_DUMP : now < len ? PART_MORE : PART_CHANGES;

		if (writer->end.block + part_blocks(now) > LAST_BLOCK) {
			r = go_on_in_next_frame(writer);
			if (r)
				return r;
		}
		memcpy(writer->part->payload, data, now);
		r = write_part(writer, kind, generation, now, 0);
		if (!r && dump)
			writer->end.dump_blocks += part_blocks(now);
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
	struct rd_sql *sql = writer->pool->sql;
	struct rd_buffer changes = { 0 };
	struct rd_row *row;
	const void *blob;
	i64 generation;
	size_t len;
	int r;

	for (;;) {
		/* A row at a time: a frame may have to be added in between. */
		r = rd_sql_ask(sql, &row, "SELECT generation, changes FROM outbox"
			       " WHERE generation > ? ORDER BY generation LIMIT 1", "i",
			       (i64)writer->end.generation);
		if (r)
			break;
		r = rd_row_next(row);
		if (r > 0) {
			generation = rd_row_i64(row, 0);
			blob = rd_row_blob(row, 1, &len);
			changes.len = 0;
			rd_buffer_put(&changes, blob, len);
		}
		rd_row_done(row);
		if (r <= 0)
			break;
		r = changes.failed ? -ENOMEM :
			append(writer, changes.data, changes.len, false, generation);
		if (r)
			break;
	}
	rd_buffer_free(&changes);
	return r;
}

static int clear_outbox(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_sql_run(sql, "DELETE FROM outbox WHERE generation <= ?", "i",
		       (i64)writer->end.generation);
	if (!r)
		r = rd_journal_put_end(sql, &writer->pool->area.super, &writer->end);
	return rd_catalog_end(sql, r);
}

/* --- a new journal */

static int dump_table(struct writer *writer, unsigned int table, const char *text,
		      u64 generation, struct rd_buffer *rows)
{
	struct rd_sql *sql = writer->pool->sql;
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, text, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		rd_row_note(row, table, rows);
		r = rows->failed ? -ENOMEM : 0;
		if (!r && rows->len > PART_MAX - (16U << 10)) {
			r = append(writer, rows->data, rows->len, true, generation);
			rows->len = 0;
		}
	}
	return r;
}

static const char *const dump_texts[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = "SELECT * FROM volume",
	[RD_TABLE_VERSION] = "SELECT * FROM version",
	[RD_TABLE_TAG] = "SELECT * FROM tag",
	[RD_TABLE_SEGMENT] = "SELECT * FROM segment",
	[RD_TABLE_RECIPE] = "SELECT * FROM recipe",
	[RD_TABLE_SUPERSEDED] = "SELECT * FROM superseded",
	[RD_TABLE_LEASE] = "SELECT * FROM lease",
};

static int dump(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	struct rd_buffer rows = { 0 };
	struct rd_journal_end end;
	u64 journal, generation;
	unsigned int table;
	int r;

	r = rd_sql_begin_read(sql);
	if (r)
		return r;
	r = get_state(sql, &journal, &generation, &end);
	for (table = 0; table < RD_NR_TABLES && !r; table++)
		r = dump_table(writer, table, dump_texts[table], generation, &rows);
	if (!r)
		r = append(writer, rows.data, rows.len, true, generation);
	rd_sql_end_read(sql);
	rd_buffer_free(&rows);
	return r;
}

/* Frames for all of the database: a dump has neither indexes nor free pages. */
static int take_frames(struct writer *writer)
{
	i64 pages, nr;
	u64 frame;
	int r;

	r = rd_sql_number(writer->pool->sql, &pages, "PRAGMA page_count", "");
	for (nr = pages / LAST_BLOCK + 2; nr && !r; nr--) {
		r = add_frame(writer, &frame);
		if (!r)
			rd_buffer_put(&writer->frames, &frame, sizeof(frame));
	}
	return r ? r : writer->frames.failed ? -ENOMEM : 0;
}

/* Those of @journal, or of all but it, are nobody's any more. */
static int forget_frames(struct rd_sql *sql, u64 journal, bool others)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT frame FROM journal_frame WHERE (journal <> ?) = ?",
		       "ii", (i64)journal, (i64)others);
	while (!r && (r = rd_row_next(row)) > 0)
		r = rd_frames_queue_whole(sql, rd_row_i64(row, 0));
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM journal_frame WHERE (journal <> ?) = ?", "ii",
			       (i64)journal, (i64)others);
	return r;
}

/* The new journal holds. What the old one had, and frames not needed, go. */
static int settle(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	u64 frame;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = forget_frames(sql, writer->journal, true);
	while (!r && writer->next < writer->frames.len) {
		memcpy(&frame, writer->frames.data + writer->next, sizeof(frame));
		writer->next += sizeof(frame);
		r = rd_sql_run(sql, "DELETE FROM journal_frame WHERE frame = ?", "i", (i64)frame);
		if (!r)
			r = rd_frames_free(sql, frame, 1);
	}
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM outbox WHERE generation <= ?", "i",
			       (i64)writer->end.generation);
	if (!r)
		r = rd_journal_put_end(sql, &writer->pool->area.super, &writer->end);
	return rd_catalog_end(sql, r);
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

/* There was no room for it. What it had taken must not be missing as well. */
static int give_up_new(struct writer *writer)
{
	struct rd_sql *sql = writer->pool->sql;
	int r;

	rd_info("there is no room for a new copy of the catalog: the old one goes on");
	r = rd_catalog_begin(sql);
	if (r)
		return r;
	return rd_catalog_end(sql, forget_frames(sql, writer->journal, false));
}

static int begin_new(struct rd_pool *pool, struct part *part)
{
	struct writer writer = { .pool = pool, .part = part };
	struct rd_pool_super *super = &pool->area.super;
	struct rd_pool_super old = *super;
	u64 first;
	int r;

	if (getrandom(&writer.journal, sizeof(writer.journal), 0) != sizeof(writer.journal))
		return rd_err(-errno, "no random number");
	writer.journal >>= 1;	/* SQLite's numbers have a sign */
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
 * A crash came between the superblock and the catalog: the new journal, whose
 * frames the catalog knows, holds.
 */
static int adopt_new(struct rd_pool *pool)
{
	struct writer writer = { .pool = pool, .journal = pool->area.super.journal_id };
	struct rd_journal_reader reader = { .change = NULL };
	i64 known;
	int r;

	r = rd_sql_number(pool->sql, &known, "SELECT count(*) FROM journal_frame"
			  " WHERE journal = ?", "i", (i64)writer.journal);
	if (r)
		return r;
	if (!known)
		return -ESTALE;
	writer.end.frame = pool->area.super.journal_frame;
	r = rd_journal_read(&pool->area, &writer.end, &reader);
	/* Both copies, stable: who wrote the first may not have come to the second. */
	if (!r)
		r = rd_area_write_super(&pool->area);
	return r ? r : settle(&writer);
}

/*
 * The superblock as it is now, and a catalog in step with it, from which @writer goes on.
 * -ESTALE: it is of another.
 */
static int follow_super(struct writer *writer)
{
	struct rd_pool *pool = writer->pool;
	u64 generation;
	int r;

	r = rd_area_reread_super(&pool->area);
	if (!r)
		r = get_state(pool->sql, &writer->journal, &generation, &writer->end);
	if (r || writer->journal == pool->area.super.journal_id)
		return r;
	r = adopt_new(pool);
	return r ? r : get_state(pool->sql, &writer->journal, &generation, &writer->end);
}

static int append_and_sync(struct writer *writer)
{
	struct rd_journal_end before = writer->end;
	int r;

	r = append_outbox(writer);
	if (!r)
		r = rd_failpoint("journal-appended");
	/* The caller relies on this one even if there was nothing to append. */
	if (!r)
		r = rd_area_sync(&writer->pool->area);
	if (r || writer->end.seq == before.seq)
		return r;
	return clear_outbox(writer);
}

static int flush(struct rd_pool *pool)
{
	struct writer writer = { .pool = pool };
	RD_FREE void *part = malloc(part_blocks(PART_MAX) * RD_BLOCK_SIZE);
	u64 blocks;
	int r;

	if (!part)
		return -ENOMEM;
	writer.part = part;
	/* Somebody else may have begun a new one, and died before the catalog knew. */
	r = follow_super(&writer);
	if (r == -ESTALE)
		r = rd_err(-EUCLEAN, "the data area is not that of the catalog");
	if (!r)
		r = append_and_sync(&writer);
	if (r)
		return r;
	/* At least a block a part. */
	blocks = writer.end.seq;
	if (blocks > MIN_ROLL + 2 * writer.end.dump_blocks)
		r = begin_new(pool, part);
	return r;
}

int rd_journal_flush(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = flush(pool);
	rd_lock_drop(&lock);
	return r;
}

/* --- making it whole again */

static bool is_at_or_after(const struct rd_journal_end *a, const struct rd_journal_end *b)
{
	if (a->seq != b->seq)
		return a->seq > b->seq;
	return a->frame == b->frame && a->block == b->block;
}

int rd_journal_verify(struct rd_pool *pool, bool *ret_good)
{
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_journal_end end, known;
	u64 journal, generation, id;
	int r;

	*ret_good = true;
	do {
		id = pool->area.super.journal_id;
		r = get_state(pool->sql, &journal, &generation, &known);
		/* Somebody is beginning a new one. */
		if (r || journal != id)
			return r;
		end = (struct rd_journal_end){ .frame = pool->area.super.journal_frame };
		r = rd_journal_read(&pool->area, &end, &reader);
		*ret_good = !r && is_at_or_after(&end, &known);
		if (r != -ENOMEM)
			r = rd_area_reread_super(&pool->area);
	} while (!r && !*ret_good && pool->area.super.journal_id != id);
	return r;
}

int rd_journal_renew(struct rd_pool *pool)
{
	RD_FREE void *part = malloc(part_blocks(PART_MAX) * RD_BLOCK_SIZE);
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	if (!part)
		return -ENOMEM;
	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = rd_area_reread_super(&pool->area);
	if (!r)
		r = begin_new(pool, part);
	rd_lock_drop(&lock);
	return r;
}

/* --- of one life? */

/*
 * The superblock and the catalog name different journals. They may still be in step:
 * somebody died between the two, and the catalog knows the frames of the new one.
 */
static int see_switch(struct rd_pool *pool, enum rd_life *ret)
{
	const struct rd_pool_super *super = &pool->area.super;
	i64 frames, seq;
	int r;

	r = rd_sql_number(pool->sql, &frames, "SELECT count(*) FROM journal_frame"
			  " WHERE journal = ?", "i", (i64)super->journal_id);
	if (!r)
		r = rd_sql_number(pool->sql, &seq, "SELECT super_seq FROM state", "");
	if (r)
		return r;
	*ret = frames ? RD_LIFE_ONE : super->seq < (u64)seq ? RD_LIFE_OLD_DATA :
		super->seq == (u64)seq ? RD_LIFE_APART : RD_LIFE_OLD_CATALOG;
	return 0;
}

/* Go over to the journal that the superblock names. */
static int follow_switch(struct rd_pool *pool)
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

/* The catalog has seen the part before @end stable. Is it still there? */
static int see_last_part(const struct rd_area *area, const struct rd_journal_end *end,
			 enum rd_life *ret)
{
	RD_FREE struct part *part = malloc(part_blocks(PART_MAX) * RD_BLOCK_SIZE);
	struct rd_journal_end last = {
		.frame = end->last_frame,
		.block = end->last_block,
		.seq = end->seq - 1,
	};
	int r;

	if (!part)
		return -ENOMEM;
	*ret = RD_LIFE_ONE;
	if (!end->seq)
		return 0;
	r = read_part(area, &last, part);
	if (!r && le32_to_cpu(part->crc) != end->last_crc)
		*ret = RD_LIFE_APART;
	else if (r == -ENODATA && !is_next(area, part, last.seq))
		*ret = RD_LIFE_OLD_DATA;
	/* Else it is the part, or what is left of it, which who verifies it tells. */
	return 0;
}

/* As far as the journal goes, the catalog has been. */
static int see_generation(struct rd_pool *pool, const struct rd_journal_end *known,
			  enum rd_life *ret)
{
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_journal_end end = *known;
	i64 generation;
	int r;

	r = rd_journal_read(&pool->area, &end, &reader);
	/* Others go on: what the journal has now, the catalog has had before. */
	if (!r)
		r = rd_sql_number(pool->sql, &generation, "SELECT generation FROM state", "");
	if (!r && end.generation > (u64)generation)
		*ret = RD_LIFE_OLD_CATALOG;
	return r;
}

/* A crash between its two copies, or something worse, left one of them bad. */
static int mend_super(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	if (!pool->area.writable || !rd_area_bad_supers(&pool->area, true))
		return 0;
	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = rd_area_reread_super(&pool->area);
	if (!r && rd_area_bad_supers(&pool->area, false))
		rd_warn("a superblock of the data area was damaged, and is written anew");
	if (!r && rd_area_bad_supers(&pool->area, true))
		r = rd_area_write_super(&pool->area);
	rd_lock_drop(&lock);
	return r;
}

static int see_life(struct rd_pool *pool, enum rd_life *ret, bool *ret_switched,
		    bool *ret_changed)
{
	struct rd_journal_end end, now;
	u64 journal, journal_now, generation;
	int r;

	*ret_changed = false;
	r = get_state(pool->sql, &journal, &generation, &end);
	if (!r)
		r = rd_area_reread_super(&pool->area);
	if (r)
		return r;
	*ret_switched = journal != pool->area.super.journal_id;
	r = *ret_switched ? see_switch(pool, ret) : see_last_part(&pool->area, &end, ret);
	if (!r && *ret == RD_LIFE_ONE)
		return *ret_switched ? 0 : see_generation(pool, &end, ret);
	/* Or has somebody begun a new journal meanwhile? */
	if (!r)
		r = get_state(pool->sql, &journal_now, &generation, &now);
	*ret_changed = !r && (journal_now != journal || now.seq != end.seq);
	return r;
}

int rd_journal_life(struct rd_pool *pool, enum rd_life *ret)
{
	bool switched = false, changed = false;
	int r;

	r = mend_super(pool);
	do {
		if (!r)
			r = see_life(pool, ret, &switched, &changed);
	} while (!r && changed);
	if (!r && *ret == RD_LIFE_ONE && switched && pool->area.writable)
		r = follow_switch(pool);
	return r;
}

/* --- without a superblock */

/* @frame, which the catalog says is the journal's: is it the first one? */
static int try_first(struct rd_pool *pool, u64 frame, const struct rd_journal_end *known,
		     struct rd_journal_end *end, bool *ret)
{
	struct rd_journal_reader reader = { .change = NULL };
	int r;

	*ret = false;
	if (frame >= pool->area.super.nr_frames)
		return 0;
	*end = (struct rd_journal_end){ .frame = frame };
	r = rd_journal_read(&pool->area, end, &reader);
	*ret = !r && is_at_or_after(end, known);
	return r == -ENOMEM ? r : 0;
}

static int find_first(struct rd_pool *pool, const struct rd_journal_end *known,
		      struct rd_journal_end *end)
{
	struct rd_pool_super *super = &pool->area.super;
	RD_ROW struct rd_row *row = NULL;
	bool is_first;
	int r;

	r = rd_sql_ask(pool->sql, &row, "SELECT frame FROM journal_frame WHERE journal = ?",
		       "i", (i64)super->journal_id);
	while (!r && (r = rd_row_next(row)) > 0) {
		super->journal_frame = rd_row_i64(row, 0);
		r = try_first(pool, super->journal_frame, known, end, &is_first);
		if (!r && is_first)
			return 0;
	}
	return r ? r : rd_err(-EUCLEAN, "the copy of the catalog is not where the catalog says");
}

/* Is what looks like a part of a journal the content of a recipe? */
static int is_content(struct rd_pool *pool, u64 frame, const void *block, bool *ret)
{
	struct rd_hasher *hasher = rd_hasher_new();
	struct rd_fp fps[RD_SEG_BLOCKS], fp;
	i64 nr;
	int r;

	if (!hasher)
		return -ENOMEM;
	r = rd_sql_number(pool->sql, &nr, "SELECT count(*) FROM slot_owner WHERE frame = ?", "i",
			  (i64)frame);
	rd_area_get_fps(&pool->area, frame, 1, fps);
	rd_fp_blocks(hasher, block, 1, &fp);
	rd_hasher_free(hasher);
	*ret = nr && rd_fp_equal(&fp, &fps[0]);
	return r;
}

/* A journal that is newer than the catalog began in the first block of some frame. */
static int find_newer(struct rd_pool *pool, u64 generation)
{
	const struct rd_area *area = &pool->area;
	u8 block[RD_BLOCK_SIZE];
	struct part *part = (struct part *)block;
	bool content;
	u64 frame;
	off_t data = 0;
	int r;

	for (frame = 0; frame < area->super.nr_frames; frame++) {
		u64 offset = rd_frame_offset(frame);

		if (!area->is_device && (u64)data <= offset)
			data = lseek(area->fd, offset, SEEK_DATA);
		if (data < 0)
			break;
		if ((!area->is_device && (u64)data > offset) ||
		    rd_area_read(area, block, sizeof(block), offset))
			continue;
		if (le32_to_cpu(part->magic) != MAGIC ||
		    le64_to_cpu(part->generation) <= generation)
			continue;
		r = is_content(pool, frame, block, &content);
		if (r || !content)
			return r ? r : rd_err(-EUCLEAN, "the catalog is older than the data area");
	}
	return 0;
}

int rd_journal_find(struct rd_pool *pool)
{
	struct rd_journal_end known, end;
	u64 journal, generation;
	int r;

	r = get_state(pool->sql, &journal, &generation, &known);
	if (r)
		return r;
	pool->area.super.journal_id = journal;
	r = find_first(pool, &known, &end);
	if (!r && end.generation > generation)
		r = rd_err(-EUCLEAN, "the catalog is older than the data area");
	return r ? r : find_newer(pool, generation);
}
