// SPDX-License-Identifier: GPL-2.0
/* Which segments a snapshot reads. */
#include <errno.h>
#include <sys/random.h>

#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "snapshot_plan.h"

/* Of so many segments one is audited in turn. */
#define AUDIT_SHARE	64

static bool test_bit(const u8 *bits, u64 segment)
{
	return bits[segment / 8] >> segment % 8 & 1;
}

static void set_bit(u8 *bits, u64 segment)
{
	bits[segment / 8] |= 1 << segment % 8;
}

/* --- what the version before has */

static int load_window(struct rd_snapshot_plan *plan, u64 segment)
{
	int r = 0;

	plan->window = segment;
	plan->window_len = RD_PLAN_AHEAD;
	if (plan->base->id)
		r = rd_segments_read(plan->sql, plan->base->volume, plan->base->number, segment,
				     RD_PLAN_AHEAD, plan->recipes);
	else
		memset(plan->recipes, 0, sizeof(plan->recipes));
	return r;
}

int rd_plan_old_recipe(struct rd_snapshot_plan *plan, u64 segment, i64 *ret)
{
	int r = 0;

	if (segment < plan->window || segment >= plan->window + plan->window_len)
		r = load_window(plan, segment);
	*ret = r ? 0 : plan->recipes[segment - plan->window];
	return r;
}

/* --- segments in pieces */

/* Note the segments that have, or had, @recipe. */
static int note_pieces(struct rd_snapshot_plan *plan, i64 recipe)
{
	RD_ROW struct rd_row *rows = NULL;
	u64 segment;
	int r;

	r = rd_segments_with(plan->sql, &rows, plan->base->volume, recipe, plan->end);
	while (!r && (r = rd_next_segment(rows, &segment)) > 0) {
		if (!plan->pieces)
			plan->pieces = calloc(1, plan->end / 8 + 1);
		if (plan->pieces)
			set_bit(plan->pieces, segment);
		r = plan->pieces ? 0 : -ENOMEM;
	}
	return r;
}

static int note_all_in(struct rd_snapshot_plan *plan, unsigned int pieces)
{
	unsigned int i, nr = RD_PLAN_AHEAD;
	i64 ids[RD_PLAN_AHEAD], last = 0;
	int r = 0;

	while (!r && nr == RD_PLAN_AHEAD) {
		r = rd_sql_begin_read(plan->sql);
		if (r)
			return r;
		r = rd_recipes_in_pieces(plan->sql, pieces, last, ids, RD_PLAN_AHEAD, &nr);
		for (i = 0; i < nr && !r; i++)
			r = note_pieces(plan, ids[i]);
		rd_sql_end_read(plan->sql);
		if (nr)
			last = ids[nr - 1];
	}
	return r;
}

/*
 * List the segments of the version before that are in too many pieces, or in nobody knows how
 * many, once, from the recipes that are: mostly there are few, or none.
 */
static int find_pieces(struct rd_snapshot_plan *plan)
{
	unsigned int pieces = plan->max_pieces;
	int r = note_all_in(plan, 0);

	while (!r && !(r = rd_recipes_next_pieces(plan->sql, pieces, &pieces)))
		r = note_all_in(plan, pieces);
	return r == -ENOENT ? 0 : r;
}

static u64 next_in_pieces(struct rd_snapshot_plan *plan, u64 from)
{
	u64 end = plan->end, next = rd_max(from, plan->pieces_next);

	if (!plan->pieces)
		return U64_MAX;
	while (next < end && !test_bit(plan->pieces, next))
		next += next % 8 || plan->pieces[next / 8] ? 1 : 8;
	plan->pieces_next = next;
	return next < end ? next : U64_MAX;
}

/* --- the list of changes, and audits */

/* The first segment from @from on that is in a changed range. */
static u64 next_in_ranges(struct rd_snapshot_plan *plan, u64 from)
{
	const struct rd_changed *changed = plan->changed;

	for (; plan->range < changed->nr; plan->range++) {
		const struct rd_changed_range *range = &changed->ranges[plan->range];
		u64 last = (range->offset + range->len - 1) >> RD_SEG_SHIFT;

		if (last >= from)
			return rd_max(range->offset >> RD_SEG_SHIFT, from);
	}
	return U64_MAX;
}

static u64 next_in_audit(const struct rd_snapshot_plan *plan, u64 from)
{
	u64 next = rd_round_up(from, AUDIT_SHARE) + plan->number % AUDIT_SHARE;
	unsigned int i;

	if (next >= from + AUDIT_SHARE)
		next -= AUDIT_SHARE;
	for (i = 0; i < RD_PLAN_RANDOM; i++)
		if (plan->audit_random[i] >= from)
			next = rd_min(next, plan->audit_random[i]);
	return next;
}

static void choose_audits(struct rd_snapshot_plan *plan)
{
	unsigned int i;
	u64 random;

	for (i = 0; i < RD_PLAN_RANDOM; i++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			random = i;
		plan->audit_random[i] = random % plan->nr_segs;
	}
}

/* --- the plan */

int rd_plan_begin(struct rd_snapshot_plan *plan, struct rd_sql *sql,
		  const struct rd_version *base, i64 number, u64 nr_segs,
		  unsigned int max_pieces, const struct rd_changed *changed)
{
	plan->max_pieces = max_pieces;
	plan->sql = sql;
	plan->base = base;
	plan->number = number;
	plan->nr_segs = nr_segs;
	/* What the image has lost is zeros now. */
	plan->end = base->id ? rd_max(nr_segs, rd_nr_segs(base->size)) : nr_segs;
	plan->changed = changed;
	plan->all = !changed;
	/* Where everything is compared, the others are read anyway. */
	if (plan->all)
		return 0;
	choose_audits(plan);
	return find_pieces(plan);
}

void rd_plan_free(struct rd_snapshot_plan *plan)
{
	free(plan->pieces);
}

u64 rd_plan_next(struct rd_snapshot_plan *plan, bool *ret_audit)
{
	u64 changed, next, from = plan->next;

	*ret_audit = false;
	if (from >= plan->end)
		return U64_MAX;
	if (plan->all)
		return from;
	changed = next_in_ranges(plan, from);
	next = rd_min(changed, rd_min(next_in_audit(plan, from), next_in_pieces(plan, from)));
	*ret_audit = next != changed;
	return next < plan->end ? next : U64_MAX;
}

bool rd_plan_is_partial(struct rd_snapshot_plan *plan, u64 segment, u64 size,
			unsigned int *ret_first, unsigned int *ret_end)
{
	u64 start = segment << RD_SEG_SHIFT, end = rd_min(start + RD_SEG_SIZE, size);
	const struct rd_changed *changed = plan->changed;
	u64 from = end, to = start;
	unsigned int i;

	*ret_first = 0;
	*ret_end = RD_SEG_BLOCKS;
	if (plan->all)
		return false;
	for (i = plan->range; i < changed->nr && changed->ranges[i].offset < end; i++) {
		const struct rd_changed_range *range = &changed->ranges[i];

		from = rd_min(from, rd_max(range->offset, start));
		to = rd_max(to, rd_min(range->offset + range->len, end));
	}
	if (from >= to)
		return false;
	*ret_first = (from - start) / RD_BLOCK_SIZE;
	*ret_end = rd_round_up(to - start, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	return to - from <= (end - start) * 3 / 4 && next_in_audit(plan, segment) != segment &&
		next_in_pieces(plan, segment) != segment;
}

void rd_plan_take(struct rd_snapshot_plan *plan, u64 segment)
{
	plan->next = segment + 1;
}

int rd_plan_skip(struct rd_snapshot_plan *plan, u64 data)
{
	u64 first = data;
	int r = 0;

	if (!plan->all || plan->next > plan->nr_segs)
		return 0;
	if (plan->base->id)
		r = rd_segment_next(plan->sql, plan->base->volume, plan->next, &first);
	if (r && r != -ENOENT)
		return r;
	plan->next = rd_max(plan->next, r ? data : rd_min(data, first));
	return 0;
}

void rd_plan_read_all(struct rd_snapshot_plan *plan)
{
	plan->all = true;
	plan->next = 0;
}
