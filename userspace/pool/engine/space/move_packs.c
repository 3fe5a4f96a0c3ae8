// SPDX-License-Identifier: GPL-2.0
/*
 * Packs elsewhere: read, compared with their sums, written, flushed; then a transaction says
 * where they are. No recipe changes. A crash before that leaves frames that are reserved.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/engine/journal/journal.h"
#include "free.h"
#include "pack_writer.h"

struct moved {
	u64 frame;		/* the packed one */
	u64 from, to;
};

struct moving {
	struct rd_pool *pool;
	struct rd_pack_writer writer;
	struct rd_buffer packs;		/* struct rd_pack each, that are to move */
	struct rd_buffer moved;		/* struct moved each */
	u8 *bytes;
};

/* --- which */

static bool is_listed(const struct moving *m, u64 frame)
{
	const struct rd_pack *packs = (const struct rd_pack *)m->packs.data;
	size_t i, nr = m->packs.len / sizeof(*packs);

	/* One that is in two frames was likely the last. */
	for (i = nr; i--;)
		if (packs[i].frame == frame)
			return true;
	return false;
}

static int add_pack(struct moving *m, u64 packed)
{
	struct rd_pack pack;
	int r;

	if (is_listed(m, packed))
		return 0;
	r = rd_pack_find(m->pool->sql, packed, &pack);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	return rd_buffer_put(&m->packs, &pack, sizeof(pack));
}

static int add_frame(struct moving *m, u64 frame)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 owner;
	int r;

	r = rd_frame_recipes(m->pool->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &owner)) > 0)
		r = rd_owner_is_pack(owner) ? add_pack(m, rd_owner_packed(owner)) : 0;
	return r;
}

/* No pack is to move to where it comes from. */
static int drop_tails(struct moving *m, const u64 *frames, unsigned int nr)
{
	unsigned int i;
	int r = rd_catalog_begin(m->pool->sql);

	if (r)
		return r;
	for (i = 0; i < nr && !r; i++)
		r = rd_filling_drop_tail(m->pool->sql, frames[i]);
	return rd_catalog_end(m->pool->sql, r);
}

/* --- moving */

static bool is_sound(const struct moving *m, const struct rd_pack *pack)
{
	size_t len = (size_t)pack->blocks * RD_BLOCK_SIZE;
	struct dmr_pack_head head;
	unsigned int i;

	if (rd_area_read(&m->pool->area, m->bytes, len, rd_pack_offset(pack)) ||
	    rd_pack_read_head(&head, m->bytes, len, m->pool->area.super.uuid, pack->frame))
		return false;
	for (i = 0; i < RD_PACK_GROUPS; i++)
		if (!rd_pack_is_sound(&head, i, m->bytes + dmr_pack_offset(&head, i)))
			return false;
	return true;
}

static int move(struct moving *m, const struct rd_pack *pack)
{
	struct moved moved = { .frame = pack->frame, .from = pack->place };
	struct rd_pack to = *pack;
	int r;

	if (!is_sound(m, pack)) {
		rd_warn("the pack of frame %llu is damaged and stays where it is", pack->frame);
		rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
		return 0;
	}
	r = rd_pack_writer_place(&m->writer, pack->blocks, &to.place);
	if (!r)
		r = rd_area_write(&m->pool->area, m->bytes, (size_t)pack->blocks * RD_BLOCK_SIZE,
				  rd_pack_offset(&to));
	moved.to = to.place;
	return r ? r : rd_buffer_put(&m->moved, &moved, sizeof(moved));
}

static int move_all(struct moving *m)
{
	const struct rd_pack *packs = (const struct rd_pack *)m->packs.data;
	size_t i, nr = m->packs.len / sizeof(*packs);
	int r = 0;

	for (i = 0; i < nr && !r; i++)
		r = move(m, &packs[i]);
	return r ? r : rd_journal_mark(m->pool);
}

/* One that is gone meanwhile has its new place for nothing. */
static int name_new(struct moving *m)
{
	const struct moved *moved = (const struct moved *)m->moved.data;
	size_t i, nr = m->moved.len / sizeof(*moved);
	struct rd_pack now;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = rd_pack_find(m->pool->sql, moved[i].frame, &now);
		if (!r && now.place == moved[i].from)
			r = rd_pack_move(m->pool->sql, moved[i].frame, moved[i].to);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

/* @is_full: what was written is in vain. */
static int commit(struct moving *m, bool is_full)
{
	int r = rd_catalog_begin(m->pool->sql);

	if (r)
		return r;
	if (!is_full)
		r = name_new(m);
	if (!r)
		r = rd_pack_writer_end(&m->writer);
	r = rd_catalog_end(m->pool->sql, r);
	return r ? r : is_full;
}

static int run(struct moving *m, const u64 *frames, unsigned int nr)
{
	unsigned int i;
	int r;

	r = drop_tails(m, frames, nr);
	for (i = 0; i < nr && !r; i++)
		r = add_frame(m, frames[i]);
	if (r || !m->packs.len)
		return r;
	r = move_all(m);
	if (r == -ENOSPC)
		return commit(m, true);
	if (!r)
		r = rd_failpoint("move-commit");
	return r ? r : commit(m, false);
}

int rd_move_packs(struct rd_pool *pool, const u64 *frames, unsigned int nr)
{
	struct moving m = { .pool = pool, .bytes = rd_alloc_direct(RD_PACK_MAX) };
	int r;

	if (!m.bytes)
		return -ENOMEM;
	rd_pack_writer_begin(&m.writer, pool, true);
	r = run(&m, frames, nr);
	rd_pack_writer_free(&m.writer);
	rd_buffer_free(&m.packs);
	rd_buffer_free(&m.moved);
	free(m.bytes);
	return r;
}
