// SPDX-License-Identifier: GPL-2.0
/* Which frames get copies: see copy.h. */
#include <errno.h>

#include "base/sort.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "copy.h"
#include "dependents.h"

#ifdef RD_TEST
#define CUT_AFTER	4
#else
#define CUT_AFTER	65536
#endif

struct choosing {
	struct rd_pool *pool;
	u64 max_frames, max;
	struct rd_buffer choices;
	size_t kept;		/* of them, when there were too many last */
};

static struct rd_copy_choice *choices(const struct choosing *choosing, size_t *ret_nr)
{
	*ret_nr = choosing->choices.len / sizeof(struct rd_copy_choice);
	return (struct rd_copy_choice *)choosing->choices.data;
}

static int compare_popular(const void *a, const void *b)
{
	const struct rd_copy_choice *x = a, *y = b;

	return rd_order(y->volumes, x->volumes) ? : rd_order(y->weight, x->weight) ? :
		rd_order(x->frame, y->frame);
}

/* Keep what there is room for: what is behind that is, with more choices, as well. */
static void cut(struct choosing *choosing)
{
	struct rd_copy_choice *all;
	size_t nr, i;
	u64 sum = 0;

	all = choices(choosing, &nr);
	rd_sort_buffer(&choosing->choices, sizeof(*all), compare_popular);
	for (i = 0; i < nr && i < choosing->max_frames; i++) {
		sum += all[i].live;
		if (sum > choosing->max)
			break;
	}
	choosing->choices.len = i * sizeof(*all);
	choosing->kept = i;
}

static int add_choice(struct choosing *choosing, u64 frame, const struct rd_dependents *nr)
{
	struct rd_copy_choice choice = {
		.frame = frame,
		.volumes = nr->volumes,
		.at = RD_COPY_NOWHERE,
	};
	int r = rd_frame_live(choosing->pool->sql, frame, &choice.live);

	if (r || !choice.live)
		return r;
	choice.weight = nr->versions * choice.live;
	return rd_buffer_put(&choosing->choices, &choice, sizeof(choice));
}

/* Packs that begin in @frame: each has one chance. */
static int add_packs(struct choosing *choosing, u64 frame, const struct rd_dependents *nr)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	i64 owner;
	int r;

	r = rd_frame_recipes(choosing->pool->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &owner)) > 0) {
		r = 0;
		if (!rd_owner_is_pack(owner))
			continue;
		r = rd_pack_find(choosing->pool->sql, rd_owner_packed(owner), &pack);
		if (!r && pack.place / RD_SEG_BLOCKS == frame)
			r = add_choice(choosing, pack.frame, nr);
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}

static int add(void *ctx, u64 frame, const struct rd_dependents *nr)
{
	struct choosing *choosing = ctx;
	size_t now;
	int r;

	r = add_choice(choosing, frame, nr);
	if (!r)
		r = add_packs(choosing, frame, nr);
	choices(choosing, &now);
	if (now > 2 * choosing->kept + CUT_AFTER)
		cut(choosing);
	return r;
}

int rd_copy_choose(struct rd_pool *pool, u64 max_frames, u64 max, struct rd_copy_choice **ret,
		   size_t *ret_nr)
{
	struct choosing choosing = { .pool = pool, .max_frames = max_frames, .max = max };
	int r = rd_dependents_count(pool, add, &choosing);

	if (r) {
		rd_buffer_free(&choosing.choices);
		return r;
	}
	cut(&choosing);
	*ret = choices(&choosing, ret_nr);
	rd_sort(*ret, *ret_nr, frame);
	return 0;
}
