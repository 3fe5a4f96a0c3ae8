// SPDX-License-Identifier: GPL-2.0
/* Where packs are. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "pool/data/area.h"
#include "frames.h"
#include "owners.h"
#include "packs.h"
#include "sql.h"

_Static_assert(RD_SQL_PACKED_FRAMES == RD_PACKED_FRAMES, "the same in C and in SQL");

/* --- rows */

static bool is_possible(const struct rd_pack *pack)
{
	return rd_frame_is_packed(pack->frame) && rd_packed_fps(pack->frame) < RD_MAX_FRAMES &&
		pack->place / RD_SEG_BLOCKS < RD_MAX_FRAMES && pack->blocks &&
		pack->blocks <= RD_PACK_MAX / RD_BLOCK_SIZE && pack->slots &&
		pack->slots <= RD_SEG_BLOCKS;
}

int rd_next_pack(struct rd_row *rows, struct rd_pack *ret)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	ret->frame = rd_row_i64(rows, 0);
	ret->place = rd_row_i64(rows, 1);
	ret->blocks = rd_row_i64(rows, 2);
	ret->slots = rd_row_i64(rows, 3);
	return is_possible(ret) ? 1 :
		rd_err(-EUCLEAN, "the place of packed frame %llu is damaged", ret->frame);
}

int rd_packs(struct rd_sql *sql, struct rd_row **ret, u64 first)
{
	return rd_sql_ask(sql, ret, "SELECT frame, place, blocks, slots FROM pack"
			  " WHERE frame >= ? ORDER BY frame", "i", (i64)first);
}

int rd_pack_find(struct rd_sql *sql, u64 frame, struct rd_pack *ret)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT frame, place, blocks, slots FROM pack WHERE frame = ?",
		       "i", (i64)frame);
	if (!r)
		r = rd_next_pack(row, ret);
	return r > 0 ? 0 : r ? r : -ENOENT;
}

/* --- the slots that it has */

static void set_range(struct rd_slots *slots, unsigned int first, unsigned int nr)
{
	for (; nr--; first++)
		rd_slots_set(slots, first);
}

/* Those of its bytes, in the frame that @place is in; return how many. */
static unsigned int bytes_in_frame(u64 place, unsigned int blocks, struct rd_slots *slots)
{
	unsigned int first = place % RD_SEG_BLOCKS;
	unsigned int nr = rd_min(blocks, RD_SEG_BLOCKS - first);

	set_range(slots, first, nr);
	return nr;
}

static void fps_slots(u64 frame, struct rd_slots *slots)
{
	set_range(slots, frame % RD_GROUP_FRAMES * (RD_FPS_SIZE / RD_BLOCK_SIZE),
		  RD_FPS_SIZE / RD_BLOCK_SIZE);
}

int rd_pack_slots_in(struct rd_sql *sql, u64 frame, u64 in, struct rd_slots *slots)
{
	struct rd_pack pack;
	unsigned int nr;
	int r = rd_pack_find(sql, frame, &pack);

	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	if (rd_packed_fps(frame) == in)
		fps_slots(frame, slots);
	for (; pack.blocks; pack.place += nr, pack.blocks -= nr) {
		struct rd_slots elsewhere = { 0 };

		nr = bytes_in_frame(pack.place, pack.blocks,
				    pack.place / RD_SEG_BLOCKS == in ? slots : &elsewhere);
	}
	return 0;
}

/* Its bytes get an owner, or lose it and are queued. */
static int own_bytes(struct rd_sql *sql, const struct rd_pack *pack, bool owns)
{
	unsigned int left = pack->blocks, nr;
	u64 place = pack->place;
	int r = 0;

	for (; left && !r; place += nr, left -= nr) {
		u64 frame = place / RD_SEG_BLOCKS;
		struct rd_slots slots = { 0 };

		nr = bytes_in_frame(place, left, &slots);
		r = rd_owners_pack(sql, frame, pack->frame, owns ? (i64)nr : -(i64)nr);
		if (!r && !owns)
			r = rd_frames_queue(sql, frame, &slots);
	}
	return r;
}

static int own_fps(struct rd_sql *sql, const struct rd_pack *pack, bool owns)
{
	i64 nr = RD_FPS_SIZE / RD_BLOCK_SIZE;
	u64 frame = rd_packed_fps(pack->frame);
	struct rd_slots slots = { 0 };
	int r;

	fps_slots(pack->frame, &slots);
	r = rd_owners_pack(sql, frame, pack->frame, owns ? nr : -nr);
	return r || owns ? r : rd_frames_queue(sql, frame, &slots);
}

/* --- changing them */

int rd_pack_insert(struct rd_sql *sql, const struct rd_pack *pack)
{
	int r;

	r = rd_sql_run(sql, "INSERT INTO pack VALUES(?, ?, ?, ?)", "iiii", (i64)pack->frame,
		       (i64)pack->place, (i64)pack->blocks, (i64)pack->slots);
	if (!r)
		r = own_bytes(sql, pack, true);
	return r ? r : own_fps(sql, pack, true);
}

int rd_pack_remove(struct rd_sql *sql, u64 frame)
{
	struct rd_pack pack;
	int r;

	r = rd_pack_find(sql, frame, &pack);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM pack WHERE frame = ?", "i", (i64)frame);
	if (!r)
		r = own_bytes(sql, &pack, false);
	return r ? r : own_fps(sql, &pack, false);
}

int rd_pack_move(struct rd_sql *sql, u64 frame, u64 place)
{
	struct rd_pack pack;
	int r;

	r = rd_pack_find(sql, frame, &pack);
	if (!r)
		r = rd_sql_run(sql, "UPDATE pack SET place = ? WHERE frame = ?", "ii", (i64)place,
			       (i64)frame);
	if (!r)
		r = own_bytes(sql, &pack, false);
	if (r)
		return r;
	pack.place = place;
	return own_bytes(sql, &pack, true);
}

/* --- all of them */

int rd_packs_are_there(struct rd_sql *sql)
{
	i64 frame;
	int r = rd_sql_number(sql, &frame, "SELECT frame FROM slot_owner WHERE frame >= "
			      RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES)
			      " AND frame NOT IN (SELECT frame FROM pack)"
			      " UNION ALL SELECT frame FROM pack"
			      " WHERE min(blocks, 512 - place % 512) IS NOT"
			      " (SELECT n FROM slot_owner WHERE slot_owner.frame = place / 512"
			      "  AND slot_owner.recipe = -pack.frame) LIMIT 1", "");

	if (r)
		return r == -ENOENT ? 0 : r;
	rd_err(0, "the catalog does not say where the pack of frame %lld is", frame);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

int rd_packs_count_slots(struct rd_sql *sql)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	int r;

	r = rd_packs(sql, &rows, 0);
	while (!r && (r = rd_next_pack(rows, &pack)) > 0) {
		r = own_bytes(sql, &pack, true);
		if (!r)
			r = own_fps(sql, &pack, true);
	}
	return r;
}

int rd_packs_total(struct rd_sql *sql, struct rd_packs_total *ret)
{
	memset(ret, 0, sizeof(*ret));
	return rd_sql_numbers(sql, ret, "SELECT count(*), coalesce(sum(blocks), 0),"
			      " coalesce(sum(slots), 0), coalesce(sum(live), 0),"
			      " coalesce(sum(blocks * 4096 * max(slots - live, 0) / slots), 0)"
			      " FROM (SELECT blocks, slots, (SELECT coalesce(sum(n), 0)"
			      " FROM slot_owner WHERE slot_owner.frame = pack.frame) AS live"
			      " FROM pack)", "");
}

int rd_packs_small(struct rd_sql *sql, unsigned int slots, u64 *frames, unsigned int max,
		   unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	i64 frame;
	int r;

	*ret_nr = 0;
	r = rd_sql_ask(sql, &row, "SELECT frame FROM pack WHERE slots <= ?1 AND NOT EXISTS"
		       " (SELECT 1 FROM slot_owner AS o JOIN recipe AS r ON r.id = o.recipe"
		       " WHERE o.frame = pack.frame AND r.frame = pack.frame)"
		       " ORDER BY frame DESC LIMIT ?2", "ii", (i64)slots, (i64)max);
	while (!r && (r = rd_next_id(row, &frame)) > 0) {
		frames[(*ret_nr)++] = frame;
		r = 0;
	}
	return r;
}
