// SPDX-License-Identifier: GPL-2.0
/* What a lost frame hurts: see isolation.h. */
#include <errno.h>

#include "base/sort.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/versions.h"
#include "copy.h"
#include "isolation.h"

/* More than enough for the number of a frame of copies. */
#define INDEX_BITS	20

_Static_assert(RD_COPIES_MAX <= 1 << INDEX_BITS, "bits");

struct isolation {
	struct rd_pool *pool;
	struct rd_isolation *ret;
	struct rd_copies copies;
	u64 *copied;		/* frame << INDEX_BITS | where its copy is; in order */
	size_t nr;
};

/* --- copies */

static int list_copied(struct isolation *isolation)
{
	unsigned int blocks;
	u64 frame;
	u32 i;

	isolation->copied = malloc(RD_COPIES_MAX * sizeof(*isolation->copied));
	if (!isolation->copied)
		return -ENOMEM;
	for (i = 0; i < isolation->copies.nr_frames; i++) {
		frame = rd_copies_frame(&isolation->copies, i, &blocks);
		if (frame != U64_MAX)
			isolation->copied[isolation->nr++] = frame << INDEX_BITS | i;
	}
	qsort(isolation->copied, isolation->nr, sizeof(*isolation->copied), rd_compare_u64);
	return 0;
}

static bool is_copied_at(struct isolation *isolation, size_t at, u64 frame)
{
	return at < isolation->nr && isolation->copied[at] >> INDEX_BITS == frame;
}

/* Find the first copy of @frame; there may be two. */
static size_t find_copied(const struct isolation *isolation, u64 frame)
{
	return rd_count_below(isolation->nr, i, isolation->copied[i] >> INDEX_BITS < frame);
}

/* Has that copy all that lives? It may have what has died since. */
static bool has_all(struct isolation *isolation, size_t at, const struct rd_fp *live)
{
	u32 i = isolation->copied[at] & ((1 << INDEX_BITS) - 1);
	const struct rd_fp *fps = rd_copies_fps(&isolation->copies, i);
	unsigned int slot;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (!rd_fp_is_zero(&live[slot]) && !rd_fp_equal(&live[slot], &fps[slot]))
			return false;
	return true;
}

/* Is there a copy of all that recipes have of @frame, an ordinary or a packed one? */
static int has_copy(struct isolation *isolation, u64 frame, bool *ret)
{
	size_t at = find_copied(isolation, frame);
	struct rd_fp live[RD_SEG_BLOCKS];
	unsigned int lost;
	u64 nr = 0;
	int r;

	if (!is_copied_at(isolation, at, frame)) {
		r = rd_frame_live(isolation->pool->sql, frame, &nr);
		*ret = !r && !nr;
		return r;
	}
	r = rd_copy_live_fps(isolation->pool, frame, live, &lost);
	*ret = false;
	for (; !r && !lost && !*ret && is_copied_at(isolation, at, frame); at++)
		*ret = has_all(isolation, at, live);
	return r;
}

static bool lies_in(const struct rd_pack *pack, u64 frame)
{
	return pack->place / RD_SEG_BLOCKS <= frame &&
		frame <= (pack->place + pack->blocks - 1) / RD_SEG_BLOCKS;
}

/* Are there copies of all that is in @frame, packs as well? */
static int is_copied(struct isolation *isolation, u64 frame, bool *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	i64 owner;
	int r;

	r = has_copy(isolation, frame, ret);
	if (!r)
		r = rd_frame_recipes(isolation->pool->sql, &rows, frame);
	while (!r && *ret && (r = rd_next_id(rows, &owner)) > 0) {
		r = 0;
		if (!rd_owner_is_pack(owner))
			continue;
		r = rd_pack_find(isolation->pool->sql, rd_owner_packed(owner), &pack);
		if (!r && lies_in(&pack, frame))
			r = has_copy(isolation, pack.frame, ret);
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}

/* --- all frames */

static void add_to(struct rd_hurt *hurt, const struct rd_dependents *nr)
{
	hurt->volumes += nr->volumes;
	hurt->versions += nr->versions;
	hurt->worst.volumes = rd_max(hurt->worst.volumes, nr->volumes);
	hurt->worst.versions = rd_max(hurt->worst.versions, nr->versions);
}

static int add(void *ctx, u64 frame, const struct rd_dependents *nr)
{
	struct isolation *isolation = ctx;
	bool copied = false;
	int r = 0;

	isolation->ret->frames++;
	add_to(&isolation->ret->hurt, nr);
	if (isolation->nr)
		r = is_copied(isolation, frame, &copied);
	if (!copied)
		add_to(&isolation->ret->with_copies, nr);
	return r;
}

static int count(struct isolation *isolation)
{
	struct rd_sql *sql = isolation->pool->sql;
	struct rd_isolation *ret = isolation->ret;
	int r;

	r = rd_versions_count(sql, &ret->versions);
	if (!r)
		r = rd_volumes_count(sql, &ret->volumes);
	if (!r && ret->has_copies)
		r = list_copied(isolation);
	return r ? r : rd_dependents_count(isolation->pool, add, isolation);
}

int rd_isolation(struct rd_pool *pool, struct rd_isolation *ret)
{
	struct isolation isolation = { .pool = pool, .ret = ret };
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->has_copies = !rd_copies_open(&isolation.copies, pool->path, pool->area.super.uuid,
					  false);
	r = count(&isolation);
	rd_copies_close(&isolation.copies);
	free(isolation.copied);
	return r;
}
