// SPDX-License-Identifier: GPL-2.0
/*
 * Reverse deduplication.
 *
 * First the version before is left: each recipe that it had where the new one
 * has another is referred to by one newest version less. A recipe that no newest version
 * refers to is superseded. (In batches; version.cursor says how far that is.)
 *
 * Then newest recipes take the blocks that they refer to in superseded ones: swap.c.
 *
 * Then superseded recipes give up each block that the newest version of the
 * volume has as well, wherever: it becomes REF there, or to where the newest version refers
 * itself. In passes:
 *
 *	1. take recipes until NR_WANTED blocks are OWN in them; a block that the
 *	   segment that took the place has at the same offset is found at once
 *	2. all others are in a hash table by their fingerprints, past which the
 *	   newest version's fingerprints stream, in the order they lie in (of NR_SORTED
 *	   segments at a time); not if that would take longer than the snapshot:
 *	   then all others wait for the pass over the pool (pass.h)
 *	3. transactions change the maps of recipes that are still superseded, and
 *	   only where a block and its target are where they were
 *
 * The memory of a pass, and how often the newest version streams, follow the blocks
 * and not the recipes: a disk with little in each segment has many of these.
 *
 *	works	[recipe 17]       [recipe 18]  [recipe 23]
 *	           |                 |            |
 *	wanted	[slot 0][slot 1]  [slot 9]     [slot 3][slot 4][slot 511]
 *
 * Fingerprints are read without a lock, and meanwhile a frame may be freed and used
 * again. So a match is only a hint: step 3 looks again at maps and at
 * fingerprints, within its transaction, while no command can free what they refer to.
 * Recipes that have changed since are left for the next pass. A transaction of step 3
 * that ended is done for good, and a crash leaves the rest superseded, as it was.
 */
#include <errno.h>

#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "engine.h"
#include "resolve.h"
#include "swap.h"

#define BATCH		2048		/* segments a transaction */
#define CHANGES		1024		/* recipes a transaction: they have longer maps */
/*
 * Blocks, and recipes, a pass. Of 1 TiB with a block in each segment, all; with 48
 * bytes for each it takes 58 MiB of the 128 that a command may have.
 */
#define NR_WANTED	((1U << 19) + RD_SEG_BLOCKS)
#define NR_WORKS	(1U << 19)
#define MAX_HEADS	(1U << 20)
#define MIN_HEADS	(1U << 10)
#define WINDOW		1024		/* recipes that are looked up at a time */
#define NR_SORTED	(1U << 16)	/* and of the newest version, sorted by their places */
#define CHUNK		64		/* frames whose fingerprints are read at a time */
#define NR_CHUNKS	8		/* and are kept */
#define MAX_ROUNDS	3
/*
 * The fingerprints of so many segments are always streamed, 64 MiB; and of one more for so many
 * bytes that the snapshot read, which takes about as long where the segments lie anywhere.
 */
#ifdef RD_TEST
#define STREAM_ALWAYS	1
#define STREAM_COST	(1U << 20)	/* the disks of tests have few segments */
#else
#define STREAM_ALWAYS	8192
#define STREAM_COST	(64U << 10)
#endif
#define NONE		U32_MAX

/* A block of a superseded recipe. */
struct wanted {
	struct rd_fp fp;
	rd_place was;		/* where it is */
	rd_place at;		/* what it becomes; 0: nothing was found */
	rd_place here;		/* where the target was then */
	u32 next;		/* with the same fingerprint, or NONE */
	u16 slot;
};

/* A superseded recipe, and which of its blocks: @nr of them in the order of slots. */
struct work {
	i64 id;
	struct rd_seg_fp fp;	/* a number may be another recipe's some day */
	u32 first, nr;
};

/* A recipe of the newest version, and the frame that it is in, or most of it. */
struct sorted {
	u64 frame;
	i64 id;
};

struct reverse {
	struct rd_pool *pool;
	i64 volume;
	struct rd_version newest;
	unsigned int nr_works;
	struct work *works;
	unsigned int nr_wanted;
	unsigned int nr_fps;	/* different ones among them that are not found */
	u64 waiting;		/* blocks that were not looked for */
	struct wanted *wanted;
	unsigned int nr_heads;	/* a power of two */
	u32 *heads;
	unsigned int nr_sorted;
	struct sorted *sorted;
	/* Fingerprints read last: those of old recipes and of new ones take turns. */
	struct rd_resolver *resolver;	/* of what newest recipes refer to */
	i64 asked;			/* whether a newest version names it; 0: nothing was */
	bool asked_is_latest;
	unsigned int next_chunk;
	u64 chunks[NR_CHUNKS];
	struct rd_fp (*chunk_fps)[CHUNK][RD_SEG_BLOCKS];
};

/* --- leaving the version before */

static int leave_segment(struct rd_sql *sql, const struct rd_version *version, i64 segment)
{
	i64 recipe;
	int r = rd_segment_before(sql, version, segment, &recipe);

	if (r)
		return r == -ENOENT ? 0 : r;
	return recipe ? rd_recipe_unref(sql, recipe, 0, 1, version->volume) : 0;
}

static int leave_batch(struct rd_sql *sql, struct rd_version *version,
		       struct rd_segment_content *rows, bool *ret_more)
{
	unsigned int i, nr;
	int r;

	r = rd_segments_born(sql, version, version->cursor, rows, BATCH, &nr);
	for (i = 0; i < nr && !r; i++) {
		r = leave_segment(sql, version, rows[i].segment);
		version->cursor = rows[i].segment + 1;
	}
	*ret_more = nr == BATCH;
	if (!r && !*ret_more)
		version->state = RD_VERSION_DONE;
	return r ? r : rd_version_set_state(sql, version);
}

static int leave_before(struct rd_pool *pool, struct rd_version *version)
{
	struct rd_segment_content *rows = malloc(BATCH * sizeof(*rows));
	bool more = true;
	int r = rows ? 0 : -ENOMEM;

	while (!r && more) {
		r = rd_failpoint("reverse-vacate");
		if (!r)
			r = rd_catalog_begin(pool->sql);
		if (!r)
			r = rd_catalog_end(pool->sql,
					   leave_batch(pool->sql, version, rows, &more));
		if (!r && more)
			rd_sql_pause();
	}
	free(rows);
	return r;
}

/* --- finding */

static void forget_chunks(struct reverse *rev)
{
	memset(rev->chunks, 0xff, sizeof(rev->chunks));
}

/* For a new transaction. */
static void forget_recipes(struct reverse *rev)
{
	rd_resolver_forget(rev->resolver);
	rev->asked = 0;
}

/* Fingerprints that cannot be read are zeros, as of lost blocks: nothing matches them. */
static unsigned int read_chunk(struct reverse *rev, u64 chunk)
{
	unsigned int i;

	for (i = 0; i < NR_CHUNKS; i++)
		if (rev->chunks[i] == chunk)
			return i;
	i = rev->next_chunk;
	rev->next_chunk = (i + 1) % NR_CHUNKS;
	/* A group of frames is made of whole chunks. */
	rd_area_get_fps(&rev->pool->area, chunk * CHUNK, CHUNK, rev->chunk_fps[i][0]);
	rev->chunks[i] = chunk;
	return i;
}

/* The fingerprints of a frame, until another is read. */
static const struct rd_fp *frame_fps(struct reverse *rev, u64 frame)
{
	return rev->chunk_fps[read_chunk(rev, frame / CHUNK)][frame % CHUNK];
}

static struct rd_fp fp_at(struct reverse *rev, rd_place here)
{
	return frame_fps(rev, rd_place_id(here))[rd_place_slot(here)];
}

/* Load the recipe that the newest version has where recipe @id is, or was once. */
static int find_heir(struct reverse *rev, i64 id, struct rd_recipe *heir)
{
	struct rd_sql *sql = rev->pool->sql;
	i64 segment, recipe;
	int r;

	r = rd_segment_with(sql, rev->volume, id, &segment);
	if (!r)
		r = rd_segments_read(sql, rev->volume, rev->newest.number, segment, 1, &recipe);
	if (!r)
		r = recipe ? rd_recipe_load(sql, recipe, heir) : -ENOENT;
	return r;
}

static u32 *head_of(struct reverse *rev, const struct rd_fp *fp)
{
	u32 hash;

	memcpy(&hash, fp->b, sizeof(hash));
	for (hash %= rev->nr_heads; rev->heads[hash] != NONE; hash = (hash + 1) % rev->nr_heads)
		if (rd_fp_equal(&rev->wanted[rev->heads[hash]].fp, fp))
			break;
	return &rev->heads[hash];
}

/* A lost fingerprint is zeros: two lost blocks need not be the same. */
static bool is_good(const struct rd_fp *fp)
{
	return !rd_fp_is_zero(fp);
}

/* Does a newest version name recipe @id? Mostly it is the one that was asked for last. */
static bool is_latest(struct reverse *rev, i64 id)
{
	u64 refs;

	if (rev->asked != id) {
		rev->asked = id;
		rev->asked_is_latest = !rd_recipe_latest_refs(rev->pool->sql, id, &refs) && refs;
	}
	return rev->asked_is_latest;
}

/*
 * Find where block @slot of a newest recipe is: *@at refers to the recipe that has it, at place
 * *@here. One step: what a newest recipe refers to mostly is one as well, and has the block.
 * Else it is passed by: nothing is made to refer to old ones.
 */
static bool find_here(struct reverse *rev, const struct rd_recipe *recipe, unsigned int slot,
		      rd_place *at, rd_place *here)
{
	const struct rd_recipe *target;

	*at = rd_place_make(RD_REF, recipe->id, slot);
	*here = recipe->map.at[slot];
	if (rd_place_kind(*here) == RD_REF) {
		*at = *here;
		if (!is_latest(rev, rd_place_id(*at)) ||
		    rd_resolver_load(rev->resolver, rd_place_id(*at), &target))
			return false;
		*here = target->map.at[rd_place_slot(*at)];
	}
	return rd_place_kind(*here) == RD_OWN;
}

/* Does @heir have the block at the same offset? NULL: there is no heir. */
static void match_heir(struct reverse *rev, const struct rd_recipe *heir,
		       struct wanted *wanted)
{
	struct rd_fp fp;
	rd_place at, here;

	if (!heir || !find_here(rev, heir, wanted->slot, &at, &here))
		return;
	fp = fp_at(rev, here);
	if (is_good(&wanted->fp) && rd_fp_equal(&fp, &wanted->fp)) {
		wanted->at = at;
		wanted->here = here;
	}
}

static void want(struct reverse *rev, rd_place was, unsigned int slot,
		 const struct rd_recipe *heir)
{
	struct wanted *wanted = &rev->wanted[rev->nr_wanted++];

	*wanted = (struct wanted){
		.was = was,
		.slot = slot,
		.next = NONE,
		.fp = fp_at(rev, was),
	};
	match_heir(rev, heir, wanted);
}

static int take_recipe(struct reverse *rev, i64 id)
{
	struct work *work = &rev->works[rev->nr_works];
	struct rd_recipe recipe, heir;
	bool has_heir;
	unsigned int i;
	int r;

	r = rd_recipe_load(rev->pool->sql, id, &recipe);
	if (r)
		/* Since it was listed, a version may have gone, and the recipe with it. */
		return r == -ENOENT ? 0 : r;
	r = find_heir(rev, id, &heir);
	if (r && r != -ENOENT)
		return r;
	has_heir = !r;
	rev->nr_works++;
	*work = (struct work){ .id = id, .fp = recipe.fp, .first = rev->nr_wanted };
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(recipe.map.at[i]) == RD_OWN)
			want(rev, recipe.map.at[i], i, has_heir ? &heir : NULL);
	work->nr = rev->nr_wanted - work->first;
	return 0;
}

static bool is_full(const struct reverse *rev)
{
	return rev->nr_works == NR_WORKS || rev->nr_wanted > NR_WANTED - RD_SEG_BLOCKS;
}

/* Take these recipes as of one moment, so that the catalog is locked once. */
static int take_window(struct reverse *rev, const i64 *ids, unsigned int nr)
{
	unsigned int i;
	int r = rd_sql_begin_read(rev->pool->sql);

	if (r)
		return r;
	forget_chunks(rev);
	forget_recipes(rev);
	for (i = 0; i < nr && !is_full(rev) && !r; i++)
		r = take_recipe(rev, ids[i]);
	rd_sql_end_read(rev->pool->sql);
	return r;
}

static int take_recipes(struct reverse *rev)
{
	u64 size = rev->newest.size;
	i64 ids[WINDOW], last = 0;
	unsigned int nr = WINDOW;
	int r = 0;

	rev->nr_works = 0;
	rev->nr_wanted = 0;
	while (!r && nr == WINDOW && !is_full(rev)) {
		/* A statement that is open for long would keep the catalog's log from ending. */
		r = rd_superseded_list(rev->pool->sql, rev->volume, last, ids, WINDOW, &nr);
		if (!r)
			r = take_window(rev, ids, nr);
		if (!r && nr)
			last = ids[nr - 1];
		if (!r)
			r = rd_pool_progress(rev->pool, "reverse", 0, size);
	}
	return r;
}

static bool is_open(const struct wanted *wanted)
{
	return !wanted->at && is_good(&wanted->fp);
}

/*
 * Make the hash table as small as it can be: mostly little is open, and all of the newest
 * version passes.
 */
static void make_table(struct reverse *rev)
{
	struct wanted *wanted, *end = rev->wanted + rev->nr_wanted;
	unsigned int nr = 0;
	u32 *head;

	for (wanted = rev->wanted; wanted < end; wanted++)
		nr += is_open(wanted);
	for (rev->nr_heads = MIN_HEADS; rev->nr_heads < MAX_HEADS; rev->nr_heads *= 2)
		if (rev->nr_heads / 8 >= nr)
			break;
	memset(rev->heads, 0xff, rev->nr_heads * sizeof(*rev->heads));
	rev->nr_fps = 0;
	for (wanted = rev->wanted; wanted < end; wanted++) {
		if (!is_open(wanted))
			continue;
		head = head_of(rev, &wanted->fp);
		rev->nr_fps += *head == NONE;
		wanted->next = *head;
		*head = wanted - rev->wanted;
	}
}

/* Offer a block of the newest version to all who want its content. */
static void offer(struct reverse *rev, const struct rd_fp *fp, rd_place at, rd_place here)
{
	u32 i = *head_of(rev, fp);

	if (i == NONE || rev->wanted[i].at)
		return;
	rev->nr_fps--;
	for (; i != NONE; i = rev->wanted[i].next) {
		rev->wanted[i].at = at;
		rev->wanted[i].here = here;
	}
}

static int offer_recipe(struct reverse *rev, i64 id)
{
	const struct rd_fp *fps = NULL;
	struct rd_recipe recipe;
	u64 frame = U64_MAX;
	unsigned int i;
	rd_place at, here;
	int r;

	r = rd_recipe_load(rev->pool->sql, id, &recipe);
	if (r)
		return r == -ENOENT ? 0 : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!find_here(rev, &recipe, i, &at, &here))
			continue;
		/* Mostly all of a recipe is in one. */
		if (rd_place_id(here) != frame) {
			frame = rd_place_id(here);
			fps = frame_fps(rev, frame);
		}
		offer(rev, &fps[rd_place_slot(here)], at, here);
	}
	return 0;
}

static int sort_window(struct reverse *rev, u64 first)
{
	struct rd_sql *sql = rev->pool->sql;
	i64 recipes[WINDOW];
	unsigned int i;
	u64 frame;
	int r = rd_sql_begin_read(sql);

	if (r)
		return r;
	r = rd_segments_read(sql, rev->volume, rev->newest.number, first, WINDOW, recipes);
	for (i = 0; i < WINDOW && !r; i++) {
		if (!recipes[i])
			continue;
		r = rd_recipe_frame(sql, recipes[i], &frame);
		if (!r)
			rev->sorted[rev->nr_sorted++] = (struct sorted){ frame, recipes[i] };
		r = r == -ENOENT ? 0 : r;
	}
	rd_sql_end_read(sql);
	return r;
}

static int compare_sorted(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->frame != y->frame)
		return x->frame < y->frame ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Sort by place, so that each chunk of fingerprints is read once: of a disk that was
 * changed here and there many times, neighbours lie anywhere.
 */
static int sort_newest(struct reverse *rev, u64 first, u64 end)
{
	int r = 0;

	rev->nr_sorted = 0;
	for (; first < end && !r; first += WINDOW)
		r = sort_window(rev, first);
	qsort(rev->sorted, rev->nr_sorted, sizeof(*rev->sorted), compare_sorted);
	return r;
}

static int offer_window(struct reverse *rev, unsigned int first)
{
	struct rd_sql *sql = rev->pool->sql;
	unsigned int i, end = rd_min(first + WINDOW, rev->nr_sorted);
	int r = rd_sql_begin_read(sql);

	if (r)
		return r;
	/* None may be older than the maps. */
	forget_chunks(rev);
	forget_recipes(rev);
	for (i = first; i < end && rev->nr_fps && !r; i++)
		/* A segment may be in many places. */
		if (!i || rev->sorted[i].id != rev->sorted[i - 1].id)
			r = offer_recipe(rev, rev->sorted[i].id);
	rd_sql_end_read(sql);
	return r;
}

static int offer_sorted(struct reverse *rev, u64 done, u64 size)
{
	unsigned int first;
	int r = 0;

	for (first = 0; first < rev->nr_sorted && rev->nr_fps && !r; first += WINDOW) {
		r = offer_window(rev, first);
		if (!r)
			r = rd_pool_progress(rev->pool, "reverse",
					     rd_min(done + ((u64)first << RD_SEG_SHIFT), size),
					     size);
	}
	return r;
}

/*
 * May the newest version stream? What a snapshot costs follows what has changed, so mostly it may
 * not where little of a large volume has: the pass over the pool streams once for all of them.
 */
static int may_stream(struct reverse *rev, bool *ret)
{
	u64 nr = rd_max(STREAM_ALWAYS, rev->newest.bytes_read / STREAM_COST), has;
	int r = 0;

	*ret = rd_nr_segs(rev->newest.size) <= nr;
	if (!*ret) {
		r = rd_segments_count(rev->pool->sql, rev->volume, nr + 1, &has);
		*ret = !r && has <= nr;
	}
	return r;
}

static int stream_newest(struct reverse *rev)
{
	u64 nr = rd_nr_segs(rev->newest.size), first;
	int r = 0;

	for (first = 0; first < nr && rev->nr_fps && !r; first += NR_SORTED) {
		r = sort_newest(rev, first, rd_min(first + NR_SORTED, nr));
		if (!r)
			r = offer_sorted(rev, first << RD_SEG_SHIFT, nr << RD_SEG_SHIFT);
	}
	return r;
}

/* --- changing */

struct checked {
	i64 id;
	bool usable;
	struct rd_map map;
};

/* Is the target still what it was? @checked: the recipe that was loaded last. */
static int check_target(struct rd_sql *sql, const struct wanted *wanted,
			struct checked *checked, bool *ret_good)
{
	i64 id = rd_place_id(wanted->at);
	struct rd_recipe recipe;
	u64 refs;
	int r;

	if (checked->id != id) {
		checked->id = id;
		checked->usable = false;
		r = rd_recipe_latest_refs(sql, id, &refs);
		if (!r && refs) {
			r = rd_recipe_load(sql, id, &recipe);
			checked->map = recipe.map;
			checked->usable = !r;
		}
		if (r && r != -ENOENT)
			return r;
	}
	*ret_good = checked->usable &&
		checked->map.at[rd_place_slot(wanted->at)] == wanted->here;
	return 0;
}

/* Are both the same block, and is it the one that was wanted? */
static bool is_same_content(struct reverse *rev, const struct wanted *wanted)
{
	struct rd_fp was = fp_at(rev, wanted->was), here = fp_at(rev, wanted->here);

	return rd_fp_equal(&was, &wanted->fp) && rd_fp_equal(&here, &wanted->fp);
}

/*
 * Compute what @now, as it is now, becomes. *@ret_all: each block that it has was looked
 * for, and what was found for it is still there.
 */
static int change_map(struct reverse *rev, const struct work *work, struct checked *checked,
		      const struct rd_map *now, struct rd_map *map, bool *ret_all)
{
	const struct wanted *wanted = &rev->wanted[work->first], *end = wanted + work->nr;
	unsigned int i;
	bool good;
	int r = 0;

	*map = *now;
	*ret_all = true;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (rd_place_kind(now->at[i]) != RD_OWN)
			continue;
		while (wanted < end && wanted->slot < i)
			wanted++;
		good = wanted < end && wanted->slot == i && wanted->was == now->at[i];
		if (good && wanted->at) {
			r = check_target(rev->pool->sql, wanted, checked, &good);
			good = !r && good && is_same_content(rev, wanted);
			if (good)
				map->at[i] = wanted->at;
		}
		*ret_all &= good;
	}
	return r;
}

/* Change a recipe. *@ret_done: nothing of it is left to be done. */
static int change_recipe(struct reverse *rev, const struct work *work, struct checked *checked,
			 bool *ret_done)
{
	struct rd_sql *sql = rev->pool->sql;
	struct rd_recipe now;
	struct rd_map map;
	u64 refs;
	int r;

	*ret_done = true;
	r = rd_recipe_latest_refs(sql, work->id, &refs);
	if (r || refs)
		return r == -ENOENT ? 0 : r;
	r = rd_recipe_load(sql, work->id, &now);
	if (r)
		return r;
	if (!rd_seg_fp_equal(&now.fp, &work->fp)) {
		*ret_done = false;
		return 0;
	}
	r = change_map(rev, work, checked, &now.map, &map, ret_done);
	if (r || !memcmp(&map, &now.map, sizeof(map)))
		return r;
	return rd_recipe_change(sql, &now, now.frame, &map);
}

/* Change the recipes from @first on that fit in a transaction. */
static int change_some(struct reverse *rev, unsigned int first)
{
	struct rd_sql *sql = rev->pool->sql;
	unsigned int i, end = rd_min(first + CHANGES, rev->nr_works);
	struct checked checked = { .id = 0 };
	bool done;
	int r;

	r = rd_failpoint("reverse-change");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	forget_chunks(rev);
	for (i = first; i < end && !r; i++) {
		r = change_recipe(rev, &rev->works[i], &checked, &done);
		if (!r && done)
			r = rd_superseded_remove(sql, rev->works[i].id);
	}
	return rd_catalog_end(sql, r);
}

static int change_all(struct reverse *rev)
{
	u64 size = rev->newest.size;
	unsigned int first;
	int r = 0;

	for (first = 0; first < rev->nr_works && !r; first += CHANGES) {
		r = change_some(rev, first);
		if (!r)
			r = rd_pool_progress(rev->pool, "reverse", size, size);
		if (!r && first + CHANGES < rev->nr_works)
			rd_sql_pause();
	}
	return r;
}

/* --- passes */

static int allocate(struct reverse *rev)
{
	rev->works = malloc(NR_WORKS * sizeof(*rev->works));
	rev->wanted = malloc(NR_WANTED * sizeof(*rev->wanted));
	rev->heads = malloc(MAX_HEADS * sizeof(*rev->heads));
	rev->sorted = malloc(NR_SORTED * sizeof(*rev->sorted));
	rev->chunk_fps = malloc(NR_CHUNKS * sizeof(*rev->chunk_fps));
	rev->resolver = rd_resolver_new(rev->pool->sql);
	if (!rev->works || !rev->wanted || !rev->heads || !rev->sorted || !rev->chunk_fps ||
	    !rev->resolver)
		return -ENOMEM;
	return 0;
}

static void release(struct reverse *rev)
{
	free(rev->works);
	free(rev->wanted);
	free(rev->heads);
	free(rev->sorted);
	free(rev->chunk_fps);
	rd_resolver_free(rev->resolver);
}

static int pass(struct reverse *rev)
{
	bool stream = false;
	int r;

	r = take_recipes(rev);
	if (r || !rev->nr_works)
		return r;
	make_table(rev);
	r = rd_failpoint("reverse-stream");
	if (!r && rev->nr_fps)
		r = may_stream(rev, &stream);
	if (!r && stream)
		r = stream_newest(rev);
	else
		rev->waiting += rev->nr_fps;
	return r ? r : change_all(rev);
}

static int run_passes(struct reverse *rev)
{
	unsigned int rounds = 0;
	u64 before = U64_MAX, left;
	int r = allocate(rev);

	while (!r) {
		r = rd_superseded_count(rev->pool->sql, rev->volume, &left);
		if (r || !left)
			break;
		/* Others change what this one wants to: let the next command try. */
		rounds = left < before ? 0 : rounds + 1;
		if (rounds > MAX_ROUNDS)
			break;
		before = left;
		r = pass(rev);
	}
	release(rev);
	return r;
}

static int reverse_superseded(struct rd_pool *pool, i64 volume, u64 *ret_waiting)
{
	struct reverse rev = { .pool = pool, .volume = volume };
	u64 left;
	int r;

	r = rd_superseded_count(pool->sql, volume, &left);
	if (!r && left)
		r = rd_swap_superseded(pool, volume);
	if (r || !left)
		return r;
	r = rd_version_before(pool->sql, volume, INT64_MAX, &rev.newest);
	if (r == -ENOENT) {
		/* Nothing has taken their place. */
		r = rd_catalog_begin(pool->sql);
		if (r)
			return r;
		return rd_catalog_end(pool->sql, rd_superseded_remove_all(pool->sql, volume));
	}
	if (!r)
		r = run_passes(&rev);
	*ret_waiting = rev.waiting;
	return r;
}

int rd_reverse_superseded(struct rd_pool *pool, i64 volume)
{
	u64 waiting;

	return reverse_superseded(pool, volume, &waiting);
}

int rd_reverse(struct rd_pool *pool, struct rd_version *version, u64 *ret_waiting)
{
	int r = leave_before(pool, version);

	*ret_waiting = 0;
	return r ? r : reverse_superseded(pool, version->volume, ret_waiting);
}
