// SPDX-License-Identifier: GPL-2.0
/* Whether the data area is that of the catalog, as both were left. */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/journal_frames.h"
#include "pool/catalog/outbox.h"
#include "pool/catalog/sessions.h"
#include "journal.h"
#include "journal_life.h"
#include "journal_part.h"
#include "journal_read.h"

static const char *const life_texts[] = {
	[RD_LIFE_OLD_CATALOG] = "the catalog is older than the data area",
	[RD_LIFE_OLD_DATA] = "the data area is older than the catalog, or has lost the end of the copy of the catalog",
	[RD_LIFE_APART] = "the catalog and the data area each have changes that the other lacks",
};

const char *rd_life_text(enum rd_life life)
{
	return life_texts[life];
}

static bool is_at_or_after(const struct rd_journal_end *a, const struct rd_journal_end *b)
{
	if (a->seq != b->seq)
		return a->seq > b->seq;
	return a->frame == b->frame && a->block == b->block;
}

int rd_journal_verify(struct rd_pool *pool, bool *ret_good)
{
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_journal_end end;
	struct rd_state state;
	u64 id;
	int r;

	*ret_good = true;
	do {
		id = pool->area.super.journal_id;
		r = rd_state_read(pool->sql, &state);
		/* Another command is beginning a new one. */
		if (r || state.journal != id)
			return r;
		end = (struct rd_journal_end){ .frame = pool->area.super.journal_frame };
		r = rd_journal_read(&pool->area, &end, &reader);
		*ret_good = !r && is_at_or_after(&end, &state.end);
		if (r != -ENOMEM)
			r = rd_area_reread_super(&pool->area);
	} while (!r && !*ret_good && pool->area.super.journal_id != id);
	return r;
}

/* --- of one life? */

/*
 * Judge the journal that the superblock names, whose frames the catalog knows: it must begin
 * behind the part that the catalog has noted last, and be whole.
 */
static int see_begun(struct rd_pool *pool, const struct rd_journal_end *known, enum rd_life *ret)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_journal_end end = { .frame = pool->area.super.journal_frame };
	bool cut = true;
	u32 before;
	int r;

	if (!part)
		return -ENOMEM;
	*ret = RD_LIFE_APART;
	r = rd_journal_part_read(&pool->area, &end, part);
	if (r)
		return r == -ENODATA ? 0 : r;
	before = le32_to_cpu(part->before);
	if (before && before != known->last_crc)
		return 0;
	r = rd_journal_read(&pool->area, &end, &reader);
	if (!r)
		r = rd_journal_is_cut(&pool->area, &end, &cut);
	if (!r && !cut)
		*ret = RD_LIFE_ONE;
	return r;
}

/*
 * Judge a superblock that names another journal than the catalog. Both may still be in
 * step: a command died between the two, and the catalog knows the frames of the new one.
 */
static int see_switch(struct rd_pool *pool, const struct rd_state *state, enum rd_life *ret)
{
	const struct rd_pool_super *super = &pool->area.super;
	u64 frames;
	int r;

	r = rd_journal_frames_count(pool->sql, super->journal_id, &frames);
	if (r)
		return r;
	if (frames)
		return see_begun(pool, &state->end, ret);
	*ret = super->seq < state->super_seq ? RD_LIFE_OLD_DATA :
		super->seq == state->super_seq ? RD_LIFE_APART : RD_LIFE_OLD_CATALOG;
	return 0;
}

/* Is @part, which is damaged, the one with the sum @crc? One bit of the sum may have turned. */
static bool was_part(const struct rd_journal_part *part, u32 crc)
{
	return __builtin_popcount(le32_to_cpu(part->crc) ^ crc) <= 1;
}

int rd_journal_see_last(const struct rd_area *area, const struct rd_journal_end *end,
			enum rd_life *ret)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
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
	r = rd_journal_part_read(area, &last, part);
	if (!r && le32_to_cpu(part->crc) != end->last_crc)
		*ret = RD_LIFE_APART;
	else if (r == -ENODATA && !rd_journal_part_is_next(area, part, last.seq))
		*ret = RD_LIFE_OLD_DATA;
	else if (r == -ENODATA && !was_part(part, end->last_crc))
		*ret = RD_LIFE_APART;
	/* Else it is the part, or a damaged one, which rd_journal_verify() reports. */
	return 0;
}

/* What the journal has behind the end that the catalog has noted. */
struct behind {
	struct rd_sql *sql;
	u64 agreed;		/* the last generation that both have */
	bool is_foreign;	/* some of it is not from this catalog */
};

/* Is @entry as it is in the outbox? */
static int is_waiting(const struct behind *behind, const struct rd_journal_entry *entry, bool *ret)
{
	RD_BUFFER struct rd_buffer changes = { 0 };
	u64 generation;
	int r = rd_outbox_next(behind->sql, entry->generation - 1, &generation, &changes);

	*ret = !r && generation == entry->generation && changes.len == entry->len &&
		!memcmp(changes.data, entry->changes, entry->len);
	return r == -ENOENT ? 0 : r;
}

static int see_entry(void *ctx, const struct rd_journal_entry *entry)
{
	struct behind *behind = ctx;
	bool is_ours = true;
	int r = 0;

	if (behind->is_foreign)
		return 0;
	if (entry->session)
		r = rd_session_exists(behind->sql, entry->session, &is_ours);
	if (!r && is_ours && entry->len)
		r = is_waiting(behind, entry, &is_ours);
	if (!r && is_ours && entry->len)
		behind->agreed = entry->generation;
	behind->is_foreign = !is_ours;
	return r;
}

/*
 * Has the catalog been as far as the journal goes? A command may have appended changes, and
 * died before the catalog noted it: they are still in the outbox, and the command is a session.
 * Other commands go on meanwhile, but what the journal has now, the catalog has had before.
 */
static int see_behind(struct rd_pool *pool, const struct rd_journal_end *known, enum rd_life *ret)
{
	struct behind behind = { .sql = pool->sql, .agreed = known->generation };
	struct rd_journal_reader reader = { .entry = see_entry, .ctx = &behind };
	struct rd_journal_end end = *known;
	struct rd_buffer changes = { 0 };
	struct rd_state state;
	u64 generation;
	int r;

	r = rd_journal_read(&pool->area, &end, &reader);
	if (!r)
		r = rd_state_read(pool->sql, &state);
	if (r || (!behind.is_foreign && end.generation <= state.generation))
		return r;
	r = rd_outbox_next(pool->sql, behind.agreed, &generation, &changes);
	rd_buffer_free(&changes);
	*ret = r ? RD_LIFE_OLD_CATALOG : RD_LIFE_APART;
	return r == -ENOENT ? 0 : r;
}

/* Write both superblocks where a crash between them, or something worse, left one bad. */
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
		rd_warn("a superblock of the data area is damaged, and is being replaced");
	if (!r && rd_area_bad_supers(&pool->area, true))
		r = rd_area_write_super(&pool->area);
	rd_lock_drop(&lock);
	return r;
}

static int see_life(struct rd_pool *pool, enum rd_life *ret, bool *ret_switched,
		    bool *ret_changed)
{
	struct rd_journal_end known;
	struct rd_state state, now;
	int r;

	*ret_changed = false;
	r = rd_state_read(pool->sql, &state);
	if (!r)
		r = rd_area_reread_super(&pool->area);
	if (r)
		return r;
	*ret_switched = state.journal != pool->area.super.journal_id;
	known = state.end;
	if (*ret_switched)
		known = (struct rd_journal_end){ .frame = pool->area.super.journal_frame };
	r = *ret_switched ? see_switch(pool, &state, ret) :
		rd_journal_see_last(&pool->area, &state.end, ret);
	if (!r && *ret == RD_LIFE_ONE)
		r = see_behind(pool, &known, ret);
	if (r || *ret == RD_LIFE_ONE)
		return r;
	/* Or has another command appended to the journal, or begun a new one, meanwhile? */
	r = rd_state_read(pool->sql, &now);
	*ret_changed = !r && (now.journal != state.journal || now.end.seq != state.end.seq);
	return r;
}

/* In the journal such changes would be newer than all that the catalog has from now on. */
static int check_outbox(struct rd_pool *pool)
{
	bool is_ahead;
	int r = rd_outbox_is_ahead(pool->sql, &is_ahead);

	if (r || !is_ahead)
		return r;
	rd_err(0, "the catalog is damaged: it has changes of a generation that is still to come");
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

int rd_journal_life(struct rd_pool *pool, enum rd_life *ret)
{
	bool switched = false, changed;
	int r = check_outbox(pool);

	if (r)
		return r;
	do {
		r = see_life(pool, ret, &switched, &changed);
	} while (!r && changed);
	if (r || *ret != RD_LIFE_ONE)
		return r;
	r = mend_super(pool);
	return !r && switched && pool->area.writable ? rd_journal_follow(pool) : r;
}

/* --- without a superblock */

/* @frame is one of the journal's, by the catalog: is it the first one? */
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

static int try_each(struct rd_pool *pool, const struct rd_buffer *frames,
		    const struct rd_journal_end *known, struct rd_journal_end *end)
{
	bool is_first;
	size_t at;
	int r = 0;

	for (at = 0; at < frames->len && !r; at += sizeof(u64)) {
		memcpy(&pool->area.super.journal_frame, frames->data + at, sizeof(u64));
		r = try_first(pool, pool->area.super.journal_frame, known, end, &is_first);
		if (!r && is_first)
			return 0;
	}
	return r ? r : rd_err(-EUCLEAN, "the copy of the catalog is not where the catalog says");
}

static int find_first(struct rd_pool *pool, const struct rd_journal_end *known,
		      struct rd_journal_end *end)
{
	RD_BUFFER struct rd_buffer frames = { 0 };
	int r;

	r = rd_journal_frames_list(pool->sql, pool->area.super.journal_id, &frames);
	return r ? r : try_each(pool, &frames, known, end);
}

/* Is a block that looks like a part of a journal the content of a recipe? */
static int is_content(struct rd_pool *pool, u64 frame, const void *block, bool *ret)
{
	struct rd_hasher *hasher = rd_hasher_new();
	struct rd_fp fps[RD_SEG_BLOCKS], fp;
	int r;

	if (!hasher)
		return -ENOMEM;
	r = rd_frames_is_owned(pool->sql, frame, ret);
	rd_area_get_fps(&pool->area, frame, 1, fps);
	rd_fp_blocks(hasher, block, 1, &fp);
	rd_hasher_free(hasher);
	*ret &= rd_fp_equal(&fp, &fps[0]);
	return r;
}

/* Refuse a journal that is newer than the catalog, in the first block of any frame. */
static int find_newer(struct rd_pool *pool, u64 generation)
{
	const struct rd_area *area = &pool->area;
	bool content, tells_holes = rd_area_can(area, RD_STORE_HOLES);
	u8 block[RD_BLOCK_SIZE];
	struct rd_journal_part *part = (struct rd_journal_part *)block;
	u64 frame;
	off_t data = 0;
	int r;

	for (frame = 0; frame < area->super.nr_frames; frame++) {
		u64 offset = rd_frame_offset(frame);

		if (tells_holes && (u64)data <= offset)
			data = rd_store_seek(area->store, offset, SEEK_DATA);
		if (data < 0)
			break;
		if ((tells_holes && (u64)data > offset) ||
		    rd_area_read(area, block, sizeof(block), offset))
			continue;
		if (le32_to_cpu(part->magic) != RD_JOURNAL_MAGIC ||
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
	enum rd_life life = RD_LIFE_ONE;
	struct rd_journal_end end;
	struct rd_state state;
	int r;

	r = rd_state_read(pool->sql, &state);
	if (r)
		return r;
	pool->area.super.journal_id = state.journal;
	r = find_first(pool, &state.end, &end);
	if (!r)
		r = rd_journal_see_last(&pool->area, &state.end, &life);
	if (!r && life == RD_LIFE_ONE)
		r = see_behind(pool, &state.end, &life);
	if (!r && life != RD_LIFE_ONE)
		r = rd_err(-EUCLEAN, "%s", rd_life_text(life));
	return r ? r : find_newer(pool, state.generation);
}
