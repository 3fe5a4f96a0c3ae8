// SPDX-License-Identifier: GPL-2.0
/*
 * Reverse deduplication.
 *
 * First the version before is left: leave.c. Then newest recipes take the blocks that they
 * refer to in superseded ones: swap.c.
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
 *	3. the blocks of the newest version that were found are proven (keepers.h): those that
 *	   this command has not written are read. For one that is damaged nothing is given up
 *	4. transactions change the maps of recipes that are still superseded, and
 *	   only where a block and its target are where they were
 *
 * The memory of a pass, and how often the newest version streams, follow the blocks
 * and not the recipes: a disk with little in each segment has many of these.
 *
 *	works	[recipe 17]       [recipe 18]  [recipe 23]
 *	           |                 |            |
 *	wanted	[slot 0][slot 1]  [slot 9]     [slot 3][slot 4][slot 511]
 *
 * The fingerprints of a superseded recipe are believed if they are those of its segment; else it
 * gives up nothing.
 *
 * Fingerprints are read without a lock, and meanwhile a frame may be freed and used
 * again. So a match is only a hint: step 4 looks again at maps and at
 * fingerprints, within its transaction, while no command can free what they refer to.
 * Recipes that have changed since are left for the next pass. A transaction of step 4
 * that ended is done for good, and a crash leaves the rest superseded, as it was. A command that
 * goes on with that has written nothing, and so it reads all that is to stay.
 *
 * The pass over the pool could find what is at another offset, if it looked at one volume only.
 * That was tried with four versions of a disk of 1 GiB beside 8 GiB of others, on a busy disk:
 * steps 1 to 4 took 1.5 s to 1.8 s in all; those without 2, and a command with such a pass after
 * each version, which yields to other readers, 5.3 s. In memory, without the start of that
 * command, they took 0.6 s to 0.7 s and 0.9 s to 1.9 s, with the same time of a processor. The pool
 * was 0.5 % smaller. A pass reads again what the snapshot has just written, needs room for
 * temporary files, and has a lock of which a pool has one, while snapshots of many volumes run side
 * by side. It does not change newest recipes: swap.c would stay.
 */
#include <errno.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/sort.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "version.h"
#include "reverse_parts.h"

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

/* A recipe of the newest version, and the frame that it is in, or most of it. */
struct rd_reverse_sorted {
	u64 frame;
	i64 id;
};

/* --- finding */

void rd_reverse_forget_fps(struct rd_reverse *rev)
{
	memset(rev->chunks, 0xff, sizeof(rev->chunks));
}

/* For a new transaction. */
static void forget_recipes(struct rd_reverse *rev)
{
	rd_resolver_forget(rev->resolver);
	rev->asked = 0;
}

/* Fingerprints that cannot be read are zeros, as of lost blocks: nothing matches them. */
static unsigned int read_chunk(struct rd_reverse *rev, u64 chunk)
{
	unsigned int i;

	for (i = 0; i < RD_REVERSE_CHUNKS; i++)
		if (rev->chunks[i] == chunk)
			return i;
	i = rev->next_chunk;
	rev->next_chunk = (i + 1) % RD_REVERSE_CHUNKS;
	/* A group of frames is made of whole chunks. */
	rd_area_get_fps(&rev->pool->area, chunk * RD_REVERSE_CHUNK, RD_REVERSE_CHUNK,
			rev->chunk_fps[i][0]);
	rev->chunks[i] = chunk;
	return i;
}

/* The fingerprints of a frame, until another is read. */
static const struct rd_fp *frame_fps(struct rd_reverse *rev, u64 frame)
{
	return rev->chunk_fps[read_chunk(rev, frame / RD_REVERSE_CHUNK)][frame % RD_REVERSE_CHUNK];
}

struct rd_fp rd_reverse_fp_at(struct rd_reverse *rev, rd_place here)
{
	return frame_fps(rev, rd_place_id(here))[rd_place_slot(here)];
}

/* Load the recipe that the newest version has where recipe @id is, or was once. */
static int find_heir(struct rd_reverse *rev, i64 id, struct rd_recipe *heir)
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

static u32 *head_of(struct rd_reverse *rev, const struct rd_fp *fp)
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
static bool is_latest(struct rd_reverse *rev, i64 id)
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
static bool find_here(struct rd_reverse *rev, const struct rd_recipe *recipe, unsigned int slot,
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
static void match_heir(struct rd_reverse *rev, const struct rd_recipe *heir,
		       struct rd_reverse_wanted *wanted)
{
	struct rd_fp fp;
	rd_place at, here;

	if (!heir || !find_here(rev, heir, wanted->slot, &at, &here))
		return;
	fp = rd_reverse_fp_at(rev, here);
	if (is_good(&wanted->fp) && rd_fp_equal(&fp, &wanted->fp)) {
		wanted->at = at;
		wanted->here = here;
	}
}

static void want(struct rd_reverse *rev, rd_place was, const struct rd_fp *fp, unsigned int slot,
		 const struct rd_recipe *heir)
{
	struct rd_reverse_wanted *wanted = &rev->wanted[rev->nr_wanted++];

	*wanted = (struct rd_reverse_wanted){
		.was = was,
		.slot = slot,
		.next = NONE,
		.fp = *fp,
	};
	match_heir(rev, heir, wanted);
}

/*
 * Read the fingerprints of a superseded recipe. If they are not those of its segment, they are
 * zeros, as of lost blocks.
 */
static int read_fps(struct rd_reverse *rev, const struct rd_recipe *recipe,
		    struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct rd_seg_fp fp;
	struct rd_map map;
	unsigned int i;
	int r = rd_resolve(rev->resolver, recipe->id, &map, &fp);

	if (r == -ENOENT || r == -EUCLEAN)
		memset(fps, 0, RD_FPS_SIZE);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	/* Its own ones are beside those of others, which are kept. */
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(recipe->map.at[i]) == RD_OWN)
			map.at[i] = rd_place_make(RD_ZERO, 0, 0);
	rd_resolver_read_fps(rev->resolver, &rev->pool->area, &map, fps);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(recipe->map.at[i]) == RD_OWN)
			fps[i] = rd_reverse_fp_at(rev, recipe->map.at[i]);
	if (!rd_fps_are_of(rev->hasher, fps, &recipe->fp))
		memset(fps, 0, RD_FPS_SIZE);
	return 0;
}

static int take_recipe(struct rd_reverse *rev, i64 id)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct rd_reverse_work *work = &rev->works[rev->nr_works];
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
	r = read_fps(rev, &recipe, fps);
	if (r)
		return r;
	rev->nr_works++;
	*work = (struct rd_reverse_work){ .id = id, .fp = recipe.fp, .first = rev->nr_wanted };
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(recipe.map.at[i]) == RD_OWN)
			want(rev, recipe.map.at[i], &fps[i], i, has_heir ? &heir : NULL);
	work->nr = rev->nr_wanted - work->first;
	return 0;
}

static bool is_full(const struct rd_reverse *rev)
{
	return rev->nr_works == NR_WORKS || rev->nr_wanted > NR_WANTED - RD_SEG_BLOCKS;
}

/* Take these recipes as of one moment, so that the catalog is locked once. */
static int take_window(struct rd_reverse *rev, const i64 *ids, unsigned int nr)
{
	unsigned int i;
	int r = rd_sql_begin_read(rev->pool->sql);

	if (r)
		return r;
	rd_reverse_forget_fps(rev);
	rd_resolver_forget_fps(rev->resolver);
	forget_recipes(rev);
	for (i = 0; i < nr && !is_full(rev) && !r; i++)
		r = take_recipe(rev, ids[i]);
	rd_sql_end_read(rev->pool->sql);
	return r;
}

static int take_recipes(struct rd_reverse *rev)
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

static bool is_open(const struct rd_reverse_wanted *wanted)
{
	return !wanted->at && is_good(&wanted->fp);
}

/*
 * Make the hash table as small as it can be: mostly little is open, and all of the newest
 * version passes.
 */
static void make_table(struct rd_reverse *rev)
{
	struct rd_reverse_wanted *wanted, *end = rev->wanted + rev->nr_wanted;
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
static void offer(struct rd_reverse *rev, const struct rd_fp *fp, rd_place at, rd_place here)
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

static int offer_recipe(struct rd_reverse *rev, i64 id)
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

static int sort_window(struct rd_reverse *rev, u64 first)
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
			rev->sorted[rev->nr_sorted++] = (struct rd_reverse_sorted){
				.frame = frame,
				.id = recipes[i],
			};
		r = r == -ENOENT ? 0 : r;
	}
	rd_sql_end_read(sql);
	return r;
}

static int compare_sorted(const void *a, const void *b)
{
	const struct rd_reverse_sorted *x = a, *y = b;

	return rd_order(x->frame, y->frame) ? : rd_order(x->id, y->id);
}

/*
 * Sort by place, so that each chunk of fingerprints is read once: of a disk that was
 * changed here and there many times, neighbours lie anywhere.
 */
static int sort_newest(struct rd_reverse *rev, u64 first, u64 end)
{
	int r = 0;

	rev->nr_sorted = 0;
	for (; first < end && !r; first += WINDOW)
		r = sort_window(rev, first);
	qsort(rev->sorted, rev->nr_sorted, sizeof(*rev->sorted), compare_sorted);
	return r;
}

static int offer_window(struct rd_reverse *rev, unsigned int first)
{
	struct rd_sql *sql = rev->pool->sql;
	unsigned int i, end = rd_min(first + WINDOW, rev->nr_sorted);
	int r = rd_sql_begin_read(sql);

	if (r)
		return r;
	/* None may be older than the maps. */
	rd_reverse_forget_fps(rev);
	forget_recipes(rev);
	for (i = first; i < end && rev->nr_fps && !r; i++)
		/* A segment may be in many places. */
		if (!i || rev->sorted[i].id != rev->sorted[i - 1].id)
			r = offer_recipe(rev, rev->sorted[i].id);
	rd_sql_end_read(sql);
	return r;
}

static int offer_sorted(struct rd_reverse *rev, u64 done, u64 size)
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
static int may_stream(struct rd_reverse *rev, bool *ret)
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

static int stream_newest(struct rd_reverse *rev)
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

/* --- passes */

static int allocate(struct rd_reverse *rev)
{
	rev->works = malloc(NR_WORKS * sizeof(*rev->works));
	rev->wanted = malloc(NR_WANTED * sizeof(*rev->wanted));
	rev->heads = malloc(MAX_HEADS * sizeof(*rev->heads));
	rev->sorted = malloc(NR_SORTED * sizeof(*rev->sorted));
	rev->chunk_fps = malloc(RD_REVERSE_CHUNKS * sizeof(*rev->chunk_fps));
	rev->resolver = rd_resolver_new(rev->pool->sql);
	rev->hasher = rd_hasher_new();
	rev->keepers = rd_keepers_new(rev->pool);
	if (!rev->works || !rev->wanted || !rev->heads || !rev->sorted || !rev->chunk_fps ||
	    !rev->resolver || !rev->hasher || !rev->keepers)
		return -ENOMEM;
	return 0;
}

static void release(struct rd_reverse *rev)
{
	free(rev->works);
	free(rev->wanted);
	free(rev->heads);
	free(rev->sorted);
	free(rev->chunk_fps);
	rd_resolver_free(rev->resolver);
	rd_hasher_free(rev->hasher);
	rd_keepers_free(rev->keepers);
}

static int pass(struct rd_reverse *rev)
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
	return r ? r : rd_reverse_change(rev);
}

static int run_passes(struct rd_reverse *rev)
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

static void tell_damaged(const struct rd_reverse *rev)
{
	rd_warn("the newest version has %llu blocks that are damaged: older versions keep theirs",
		rev->damaged);
	rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
}

static int reverse_superseded(struct rd_pool *pool, i64 volume, struct rd_written *written,
			      u64 *ret_waiting)
{
	struct rd_reverse rev = { .pool = pool, .volume = volume, .written = written };
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
		return rd_catalog_do(pool->sql, rd_superseded_remove_all(pool->sql, volume));
	}
	if (!r)
		r = run_passes(&rev);
	*ret_waiting = rev.waiting;
	if (rev.damaged)
		tell_damaged(&rev);
	return r;
}

int rd_reverse_superseded(struct rd_pool *pool, i64 volume)
{
	u64 waiting;

	return reverse_superseded(pool, volume, NULL, &waiting);
}

int rd_reverse(struct rd_pool *pool, struct rd_version *version, struct rd_written *written,
	       u64 *ret_waiting)
{
	int r = rd_leave_before(pool, version);

	*ret_waiting = 0;
	return r ? r : reverse_superseded(pool, version->volume, written, ret_waiting);
}
