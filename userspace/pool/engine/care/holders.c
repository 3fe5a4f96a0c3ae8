// SPDX-License-Identifier: GPL-2.0
/*
 * What sets of versions hold: see holders.h.
 *
 * Each block has the number of its set, which grows with each row that has the block. Versions
 * come with falling ends (see lives.h), so an interval either lengthens the last one of a set or
 * goes before it, and sets of the same versions get the same number.
 */
#include <errno.h>

#include "pool/catalog/packs.h"
#include "holders.h"
#include "lives.h"

/* 24 bytes each, and as many in the table that finds them. */
#define MAX_SETS	(1U << 20)
#define FIRST_TABLE	(1U << 10)

/* A frame that is looked at, ordinary or packed. */
struct looked {
	u64 key;		/* its number + 1; 0: the place is free */
	u32 block_bytes;	/* what each of its blocks takes */
	u32 sets[RD_SEG_BLOCKS];
};

struct holders {
	struct rd_pool *pool;
	struct rd_holders *ret;
	/* Tables of places, found by a hash. A free place of @found is 0. */
	struct looked *looked;
	u32 nr_looked;
	u32 *found;
	u32 found_size;
	/* What was asked last. */
	u32 last_set, last_ret;
	const struct rd_live_row *life;
};

/* --- sets */

static u64 hash(u64 a, u64 b)
{
	u64 h = (a * 0x9e3779b97f4a7c15ULL ^ b) * 0xff51afd7ed558ccdULL;

	return h ^ h >> 32;
}

static struct rd_held *set_at(const struct holders *holders, u32 set)
{
	return (struct rd_held *)holders->ret->sets.data + set;
}

static u32 nr_sets(const struct holders *holders)
{
	return holders->ret->sets.len / sizeof(struct rd_held);
}

/* Find where the number of @set is in the table, or would be. */
static u32 *find_place(const struct holders *holders, const struct rd_held *set)
{
	u64 at = hash((u64)set->rest << 32 | set->from, set->end);
	const struct rd_held *one;
	u32 *place;

	for (;; at++) {
		place = &holders->found[at & (holders->found_size - 1)];
		one = set_at(holders, *place);
		if (!*place || (one->rest == set->rest && one->from == set->from &&
				one->end == set->end))
			return place;
	}
}

static int grow_table(struct holders *holders)
{
	u32 i, nr = nr_sets(holders), size = rd_max(2 * holders->found_size, FIRST_TABLE);

	if (nr < holders->found_size / 2)
		return 0;
	free(holders->found);
	holders->found = calloc(size, sizeof(*holders->found));
	if (!holders->found)
		return -ENOMEM;
	holders->found_size = size;
	for (i = 1; i < nr; i++)
		*find_place(holders, set_at(holders, i)) = i;
	return 0;
}

/* The number of the set of @rest and an interval. */
static int intern(struct holders *holders, const struct rd_held *set, u32 *ret)
{
	u32 *place = find_place(holders, set);
	int r;

	*ret = *place;
	if (*place)
		return 0;
	if (nr_sets(holders) >= MAX_SETS)
		return -E2BIG;
	*ret = nr_sets(holders);
	*place = *ret;
	r = rd_buffer_put(&holders->ret->sets, set, sizeof(*set));
	return r ? r : grow_table(holders);
}

/* The number of @set with the versions of the row. */
static int add_versions(struct holders *holders, u32 set, u32 *ret)
{
	const struct rd_live_row *life = holders->life;
	const struct rd_held *old = set_at(holders, set);
	struct rd_held new = { .rest = set, .from = life->from, .end = life->end };
	int r;

	*ret = holders->last_ret;
	if (set == holders->last_set)
		return 0;
	*ret = set;
	/* They follow each other, or overlap. */
	if (set && old->from >= life->base && life->end >= old->from) {
		if (life->from >= old->from)
			return 0;
		new.rest = old->rest;
		new.end = old->end;
	}
	r = intern(holders, &new, ret);
	holders->last_set = set;
	holders->last_ret = *ret;
	return r;
}

/* --- frames */

static struct looked *find_looked(const struct holders *holders, u64 frame)
{
	u64 at = hash(frame, 0);
	struct looked *looked;

	for (;; at++) {
		looked = &holders->looked[at % (2 * RD_HOLDERS_FRAMES)];
		if (!looked->key || looked->key == frame + 1)
			return looked;
	}
}

static bool is_in_sample(const struct holders *holders, u64 frame)
{
	return !(hash(frame, 1) & (holders->ret->every - 1));
}

static int make_table(struct holders *holders)
{
	/* Places that are never used take no memory. */
	holders->looked = calloc(2 * RD_HOLDERS_FRAMES, sizeof(*holders->looked));
	holders->nr_looked = 0;
	return holders->looked ? 0 : -ENOMEM;
}

/* Look at half of the frames from now on. What was counted of these is all there. */
static int halve(struct holders *holders)
{
	struct looked *old = holders->looked;
	u32 i;
	int r = make_table(holders);

	if (r) {
		holders->looked = old;
		return r;
	}
	holders->ret->every *= 2;
	for (i = 0; i < 2 * RD_HOLDERS_FRAMES; i++) {
		if (!old[i].key || !is_in_sample(holders, old[i].key - 1))
			continue;
		*find_looked(holders, old[i].key - 1) = old[i];
		holders->nr_looked++;
	}
	free(old);
	return 0;
}

static int ask_bytes(struct holders *holders, u64 frame, u32 *ret)
{
	struct rd_pack pack;
	int r;

	*ret = RD_BLOCK_SIZE;
	if (!rd_frame_is_packed(frame))
		return 0;
	r = rd_pack_find(holders->pool->sql, frame, &pack);
	/* It is damaged, as check says. */
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	*ret = (u64)pack.blocks * RD_BLOCK_SIZE / rd_max(pack.slots, 1U);
	return 0;
}

/* Find or begin the frame. *@ret: NULL: it is not in the sample. */
static int look_at(struct holders *holders, u64 frame, struct looked **ret)
{
	int r = 0;

	*ret = NULL;
	if (!is_in_sample(holders, frame))
		return 0;
	*ret = find_looked(holders, frame);
	if ((*ret)->key)
		return 0;
	if (holders->nr_looked == RD_HOLDERS_FRAMES) {
		r = halve(holders);
		return r ? r : look_at(holders, frame, ret);
	}
	(*ret)->key = frame + 1;
	holders->nr_looked++;
	return ask_bytes(holders, frame, &(*ret)->block_bytes);
}

/* --- all */

static int see_life(void *ctx, const struct rd_live_row *life)
{
	struct holders *holders = ctx;
	struct looked *looked = NULL;
	u64 frame = U64_MAX;
	unsigned int i;
	u32 *set;
	int r = 0;

	holders->life = life;
	holders->last_set = U32_MAX;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		rd_place at = life->map.at[i];

		if (rd_place_kind(at) != RD_OWN)
			continue;
		if (rd_place_id(at) != frame)
			r = look_at(holders, rd_place_id(at), &looked);
		frame = rd_place_id(at);
		if (r || !looked)
			continue;
		set = &looked->sets[rd_place_slot(at)];
		r = add_versions(holders, *set, set);
	}
	return r;
}

static void add_up(struct holders *holders)
{
	struct rd_holders *ret = holders->ret;
	const struct looked *looked;
	unsigned int slot;
	u64 bytes;
	u32 i;

	for (i = 0; i < 2 * RD_HOLDERS_FRAMES; i++) {
		looked = &holders->looked[i];
		bytes = (u64)looked->block_bytes * ret->every;
		for (slot = 0; slot < RD_SEG_BLOCKS; slot++) {
			if (!looked->sets[slot])
				continue;
			set_at(holders, looked->sets[slot])->bytes += bytes;
			ret->bytes += bytes;
		}
	}
}

int rd_holders_count(struct rd_pool *pool, struct rd_holders *ret)
{
	struct holders holders = { .pool = pool, .ret = ret };
	const struct rd_held empty = { .bytes = 0 };
	int r;

	*ret = (struct rd_holders){ .every = 1 };
	rd_buffer_put(&ret->sets, &empty, sizeof(empty));
	r = ret->sets.failed ? -ENOMEM : grow_table(&holders);
	if (!r)
		r = make_table(&holders);
	if (!r)
		r = rd_lives(pool, see_life, &holders);
	if (!r)
		add_up(&holders);
	free(holders.looked);
	free(holders.found);
	return r;
}

void rd_holders_free(struct rd_holders *holders)
{
	rd_buffer_free(&holders->sets);
}
