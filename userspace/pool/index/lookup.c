// SPDX-License-Identifier: GPL-2.0
/* Find blocks by content; see lookup.h. */
#include <stdlib.h>

#include "fp_cache.h"
#include "lookup.h"

/* Places of one content that runs are grown from. */
#define MAX_CANDIDATES	16

struct rd_lookup {
	const struct rd_area *area;
	struct rd_index *index;
	struct rd_fp_cache *cache;
	bool without_cache;
	u64 frame;			/* whose fingerprints were used last; U64_MAX: none */
	const struct rd_fp *fps;
	struct rd_fp read[RD_LOOKUP_READ * RD_SEG_BLOCKS];
};

/* The segment that is looked up. */
struct segment {
	const struct rd_fp *fps;
	rd_place *places;
	struct rd_slots asked;		/* wanted, and not zeros */
	struct rd_slots seen;		/* the cache has its fingerprint */
	struct rd_slots counted;	/* the index was asked, or its memory had it */
	struct rd_lookup_counts *counts;
};

/* Blocks with places (frame * 512 + slot) that follow each other. */
struct run {
	unsigned int first, last;
	unsigned int nr;		/* without zeros */
	u64 at[RD_SEG_BLOCKS];
};

struct rd_lookup *rd_lookup_new(const struct rd_area *area, struct rd_index *index)
{
	struct rd_lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->area = area;
	lookup->index = index;
	lookup->frame = U64_MAX;
	lookup->cache = rd_fp_cache_new(RD_LOOKUP_PAGES);
	if (lookup->cache)
		return lookup;
	free(lookup);
	return NULL;
}

void rd_lookup_free(struct rd_lookup *lookup)
{
	if (!lookup)
		return;
	rd_fp_cache_free(lookup->cache);
	free(lookup);
}

void rd_lookup_without_cache(struct rd_lookup *lookup)
{
	lookup->without_cache = true;
}

void rd_lookup_forget(struct rd_lookup *lookup)
{
	rd_fp_cache_clear(lookup->cache);
	lookup->frame = U64_MAX;
}

/* --- fingerprints of frames */

/* Read those of @frame and its neighbours, which are in one group as it is. */
static void read_fps(struct rd_lookup *lookup, u64 frame, struct rd_lookup_counts *counts)
{
	u64 first = frame - frame % RD_LOOKUP_READ;
	unsigned int i;

	rd_area_get_fps(lookup->area, first, RD_LOOKUP_READ, lookup->read);
	counts->pages_read++;
	for (i = 0; i < RD_LOOKUP_READ; i++)
		if (rd_area_has_frame(lookup->area, first + i))
			rd_fp_cache_put(lookup->cache, first + i,
					lookup->read + (size_t)i * RD_SEG_BLOCKS);
	lookup->frame = U64_MAX;
}

/* The fingerprints of @frame; NULL: they are not in the cache and @counts is NULL. */
static const struct rd_fp *fps_of(struct rd_lookup *lookup, u64 frame,
				  struct rd_lookup_counts *counts)
{
	const struct rd_fp *fps;

	if (frame == lookup->frame)
		return lookup->fps;
	fps = rd_fp_cache_get(lookup->cache, frame);
	if (!fps && counts && rd_area_has_frame(lookup->area, frame)) {
		read_fps(lookup, frame, counts);
		fps = rd_fp_cache_get(lookup->cache, frame);
	}
	if (fps) {
		lookup->frame = frame;
		lookup->fps = fps;
	}
	return fps;
}

static bool is_at(struct rd_lookup *lookup, u64 at, const struct rd_fp *fp,
		  struct rd_lookup_counts *counts)
{
	const struct rd_fp *fps = fps_of(lookup, at / RD_SEG_BLOCKS, counts);

	return fps && rd_fp_equal(&fps[at % RD_SEG_BLOCKS], fp);
}

/* --- runs */

static bool lacks_place(const struct segment *segment, unsigned int block)
{
	return rd_slots_test(&segment->asked, block) && !segment->places[block];
}

/* The next block after @block in a direction that is not zeros; RD_SEG_BLOCKS: none. */
static unsigned int next_block(const struct segment *segment, unsigned int block, int direction)
{
	/* Below 0 is above RD_SEG_BLOCKS. */
	for (block += direction; block < RD_SEG_BLOCKS; block += direction)
		if (!rd_fp_is_zero(&segment->fps[block]))
			return block;
	return RD_SEG_BLOCKS;
}

/* Grow @run in one direction. @counts: fingerprints may be read for it. */
static void grow(struct rd_lookup *lookup, const struct segment *segment, struct run *run,
		 int direction, struct rd_lookup_counts *counts)
{
	unsigned int *end = direction > 0 ? &run->last : &run->first;
	unsigned int block;
	u64 at;

	while ((block = next_block(segment, *end, direction)) < RD_SEG_BLOCKS &&
	       lacks_place(segment, block)) {
		at = run->at[*end] + ((int)block - (int)*end);
		if (!is_at(lookup, at, &segment->fps[block], counts)) {
			at = run->at[*end] + direction;
			if (!is_at(lookup, at, &segment->fps[block], counts))
				break;
		}
		run->at[block] = at;
		run->nr++;
		*end = block;
	}
}

static void grow_both(struct rd_lookup *lookup, const struct segment *segment, struct run *run,
		      struct rd_lookup_counts *counts)
{
	grow(lookup, segment, run, 1, counts);
	grow(lookup, segment, run, -1, counts);
}

static void start_run(struct run *run, unsigned int block, u64 at)
{
	run->first = block;
	run->last = block;
	run->nr = 1;
	run->at[block] = at;
}

/* Give its places to the blocks of @run, if it is long enough. */
static void take(struct segment *segment, const struct run *run)
{
	unsigned int i;

	if (run->nr < RD_INLINE_RUN)
		return;
	for (i = run->first; i <= run->last; i++)
		if (!rd_fp_is_zero(&segment->fps[i]))
			segment->places[i] = rd_place_make(RD_OWN, run->at[i] / RD_SEG_BLOCKS,
							   run->at[i] % RD_SEG_BLOCKS);
	segment->counts->found += run->nr;
}

/* --- the cache */

static void ask_cache_for(struct rd_lookup *lookup, struct segment *segment, unsigned int block)
{
	u64 places[MAX_CANDIDATES];
	unsigned int i, best = 0, longest = 0, nr;
	struct run run;

	nr = rd_fp_cache_find(lookup->cache, &segment->fps[block], places, MAX_CANDIDATES);
	if (!nr)
		return;
	rd_slots_set(&segment->seen, block);
	for (i = 0; i < nr; i++) {
		start_run(&run, block, places[i]);
		grow_both(lookup, segment, &run, NULL);
		if (run.nr > longest) {
			longest = run.nr;
			best = i;
		}
	}
	/* Only the best one is worth a read, where it comes to the end of what was read. */
	start_run(&run, block, places[best]);
	grow_both(lookup, segment, &run, segment->counts);
	take(segment, &run);
}

static void ask_cache(struct rd_lookup *lookup, struct segment *segment)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS && !lookup->without_cache; i++)
		if (lacks_place(segment, i))
			ask_cache_for(lookup, segment, i);
}

/* --- the index */

/* Ask for the place of one block, and count. 0: it is not known. */
static rd_place ask_index(struct rd_lookup *lookup, struct segment *segment, unsigned int block)
{
	struct rd_lookup_counts *counts = segment->counts;
	struct rd_index_counts before, after;
	rd_place place;

	rd_index_counts(lookup->index, &before);
	rd_index_find(lookup->index, &segment->fps[block], 1, &place);
	rd_index_counts(lookup->index, &after);
	rd_slots_set(&segment->counted, block);
	if (after.vector_no > before.vector_no) {
		counts->vector_no++;
	} else if (after.asked > before.asked) {
		counts->index_asked++;
		counts->index_found += place != 0;
		counts->false_positive += !place;
	} else {
		counts->cache++;
		counts->cache_sampled++;
	}
	return place;
}

/* Is @block where the index says? What was read before it was written is read again. */
static bool is_true(struct rd_lookup *lookup, struct segment *segment, unsigned int block,
		    u64 at)
{
	u64 frame = at / RD_SEG_BLOCKS;
	u64 reads = segment->counts->pages_read;

	if (is_at(lookup, at, &segment->fps[block], segment->counts))
		return true;
	if (!rd_area_has_frame(lookup->area, frame) || segment->counts->pages_read > reads)
		return false;
	read_fps(lookup, frame, segment->counts);
	return is_at(lookup, at, &segment->fps[block], segment->counts);
}

static void follow(struct rd_lookup *lookup, struct segment *segment, unsigned int block,
		   rd_place place)
{
	u64 at = rd_place_id(place) * RD_SEG_BLOCKS + rd_place_slot(place);
	u64 reads = segment->counts->pages_read;
	struct run run;

	if (lookup->without_cache)
		rd_lookup_forget(lookup);
	if (!is_true(lookup, segment, block, at)) {
		segment->counts->stale++;
	} else if (lacks_place(segment, block)) {
		start_run(&run, block, at);
		grow_both(lookup, segment, &run, segment->counts);
		take(segment, &run);
	}
	if (segment->counts->pages_read > reads)
		ask_cache(lookup, segment);
}

/* Is it worth to ask the index? A block in the cache is in a run that is too short. */
static bool asks_index(const struct rd_lookup *lookup, const struct segment *segment,
		       unsigned int block)
{
	if (!rd_slots_test(&segment->asked, block) ||
	    !rd_index_is_sampled(&segment->fps[block]))
		return false;
	return lookup->without_cache ||
		(!segment->places[block] && !rd_slots_test(&segment->seen, block));
}

static void count_rest(const struct rd_lookup *lookup, const struct segment *segment)
{
	struct rd_lookup_counts *counts = segment->counts;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!rd_slots_test(&segment->asked, i))
			continue;
		counts->asked++;
		if (rd_slots_test(&segment->counted, i))
			continue;
		if (!lookup->without_cache &&
		    (segment->places[i] || rd_slots_test(&segment->seen, i))) {
			counts->cache++;
			counts->cache_sampled += rd_index_is_sampled(&segment->fps[i]);
		} else {
			counts->unsampled++;
		}
	}
}

void rd_lookup(struct rd_lookup *lookup, const struct rd_fp fps[RD_SEG_BLOCKS],
	       const struct rd_slots *wanted, rd_place places[RD_SEG_BLOCKS],
	       struct rd_lookup_counts *counts)
{
	struct segment segment = { .fps = fps, .places = places, .counts = counts };
	unsigned int i;
	rd_place place;

	memset(places, 0, RD_SEG_BLOCKS * sizeof(*places));
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(wanted, i) && !rd_fp_is_zero(&fps[i]))
			rd_slots_set(&segment.asked, i);
	ask_cache(lookup, &segment);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!asks_index(lookup, &segment, i))
			continue;
		place = ask_index(lookup, &segment, i);
		if (place)
			follow(lookup, &segment, i, place);
	}
	count_rest(lookup, &segment);
}
