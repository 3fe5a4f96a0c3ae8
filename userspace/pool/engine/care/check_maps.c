// SPDX-License-Identifier: GPL-2.0
/* Check recipes, and the segments that versions have. */
#include <errno.h>
#include <string.h>

#include "pool/catalog/check_counts.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/versions.h"
#include "pool/engine/read/resolve.h"
#include "checker.h"

/* --- maps, counted */

/* How many entries a map has of each frame or recipe. */
struct tally {
	unsigned int nr;
	i64 ids[RD_SEG_BLOCKS];
	i64 n[RD_SEG_BLOCKS];
};

static void add_to_tally(struct tally *tally, i64 id)
{
	unsigned int i = tally->nr;

	while (i && tally->ids[i - 1] != id)
		i--;
	if (!i) {
		i = ++tally->nr;
		tally->ids[i - 1] = id;
		tally->n[i - 1] = 0;
	}
	tally->n[i - 1]++;
}

static int put_tallies(struct checker *check, i64 recipe, const struct tally *slots,
		       const struct tally *refs)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < slots->nr && !r; i++)
		r = rd_check_found_slots(check->sql, slots->ids[i], recipe, slots->n[i]);
	for (i = 0; i < refs->nr && !r; i++)
		r = rd_check_found_refs(check->sql, refs->ids[i], recipe, refs->n[i]);
	return r;
}

static int count_entries(struct checker *check, const struct rd_recipe *recipe)
{
	struct tally slots = { .nr = 0 }, refs = { .nr = 0 };
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe->map.at[i];

		if (rd_place_kind(place) == RD_OWN) {
			check->report->live_bytes += RD_BLOCK_SIZE;
			add_to_tally(&slots, rd_place_id(place));
		} else if (rd_place_kind(place) == RD_REF) {
			add_to_tally(&refs, rd_place_id(place));
		}
	}
	return put_tallies(check, recipe->id, &slots, &refs);
}

/* Is it in as many pieces as is noted? A program of before only noted that they are many. */
static int check_pieces(struct checker *check, const struct rd_recipe *recipe)
{
	const rd_place *at = recipe->map.at;
	unsigned int i, last = 0, nr = 0, noted;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(at[i]) == RD_ZERO)
			continue;
		/* Slots of a frame or recipe follow each other in numbers of places as well. */
		if (!nr || rd_place_id(at[i]) != rd_place_id(at[last]) ||
		    rd_place_kind(at[i]) != rd_place_kind(at[last]) ||
		    (at[i] - at[last] != 1 && at[i] - at[last] != i - last))
			nr++;
		last = i;
	}
	r = rd_recipe_noted_pieces(check->sql, recipe->id, &noted);
	if (!r && noted != nr && (noted || nr == 1))
		rd_check_wrong(check, "recipe %lld is in %u pieces, and %u are noted",
			       recipe->id, nr, noted);
	/* That the row is missing is found by rd_check_counts(). */
	return r == -ENOENT ? 0 : r;
}

/*
 * Does an entry of recipe @id, which is not zeros, lead to a block? Recipes are looked at
 * from the youngest to the oldest, so what a younger one has leads to a block, or has been
 * told: each step of a long chain is taken once. What does not end is seen when it comes
 * back to the place where it was after 2^n steps.
 */
static int follow(struct rd_resolver *resolver, i64 id, rd_place place, bool *ret_good)
{
	const struct rd_recipe *recipe;
	unsigned int steps = 0, next = 1;
	rd_place mark = place;
	int r;

	*ret_good = false;
	while (rd_place_kind(place) == RD_REF) {
		r = rd_resolver_load(resolver, rd_place_id(place), &recipe);
		if (r)
			return r == -ENOENT || r == -EUCLEAN ? 0 : r;
		place = recipe->map.at[rd_place_slot(place)];
		if (recipe->id > id)
			break;
		if (place == mark)
			return 0;
		if (++steps == next) {
			mark = place;
			next *= 2;
		}
	}
	*ret_good = rd_place_kind(place) != RD_ZERO;
	return 0;
}

static int check_entries(struct checker *check, struct rd_resolver *resolver,
			 const struct rd_recipe *recipe)
{
	unsigned int i;
	bool good;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(recipe->map.at[i]) == RD_ZERO)
			continue;
		r = follow(resolver, recipe->id, recipe->map.at[i], &good);
		if (r)
			return r;
		if (!good) {
			rd_check_wrong(check, "recipe %lld refers to a block that does not exist",
				       recipe->id);
			break;
		}
	}
	return 0;
}

static int check_recipe(struct checker *check, struct rd_resolver *resolver, i64 id)
{
	struct rd_recipe recipe;
	int r;

	check->report->nr_recipes++;
	r = rd_recipe_load(check->sql, id, &recipe);
	if (r == -EUCLEAN) {
		rd_check_wrong(check, "recipe %lld cannot be read", id);
		return 0;
	}
	if (!r)
		r = count_entries(check, &recipe);
	if (!r)
		r = check_pieces(check, &recipe);
	return r ? r : check_entries(check, resolver, &recipe);
}

int rd_check_recipes(struct checker *check)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_resolver *resolver = rd_resolver_new(check->sql);
	i64 id;
	int r;

	if (!resolver)
		return -ENOMEM;
	r = rd_recipes_youngest_first(check->sql, &rows);
	while (!r && (r = rd_next_id(rows, &id)) > 0)
		r = check_recipe(check, resolver, id);
	rd_resolver_free(resolver);
	return r;
}

/* --- versions */

/* What a version's sum has of a row; nothing of zeros, nor of a recipe that is missing. */
static rd_sum sum_of(struct checker *check, u64 segment, const void *blob, size_t len)
{
	struct rd_seg_fp fp;

	if (!blob || len != sizeof(fp.b))
		return 0;
	memcpy(fp.b, blob, len);
	return rd_fp_sum(check->hasher, segment, &fp);
}

/*
 * The rows of a volume in the order of birth, and the sum of all that hold after those
 * that were read: each row is read once, however many versions see it.
 */
struct walk {
	struct rd_row *rows;
	struct rd_segment_birth birth;
	int r;			/* 1: @birth is a row that was not added yet */
	rd_sum sum;
};

static void begin_walk(struct checker *check, struct walk *walk, i64 volume)
{
	rd_row_done(walk->rows);
	*walk = (struct walk){ .rows = NULL };
	walk->r = rd_segment_births(check->sql, &walk->rows, volume);
	if (!walk->r)
		walk->r = rd_next_birth(walk->rows, &walk->birth);
}

static int walk_to(struct checker *check, struct walk *walk, i64 number)
{
	const struct rd_segment_birth *birth = &walk->birth;

	while (walk->r > 0 && birth->born <= number) {
		walk->sum += sum_of(check, birth->segment, birth->fp, birth->fp_len);
		walk->sum -= sum_of(check, birth->segment, birth->before, birth->before_len);
		walk->r = rd_next_birth(walk->rows, &walk->birth);
	}
	return walk->r < 0 ? walk->r : 0;
}

static int check_version(struct checker *check, struct walk *walk,
			 const struct rd_version *version, const char *volume)
{
	int r = walk_to(check, walk, version->number);

	if (r)
		return r;
	check->report->nr_versions += rd_version_exists(version);
	if (walk->sum != version->sum)
		rd_check_wrong(check, "%s@%lld does not have the segments that it was made with",
			       volume, version->number);
	return 0;
}

int rd_check_versions(struct checker *check)
{
	RD_ROW struct rd_row *rows = NULL;
	struct walk walk = { .rows = NULL };
	struct rd_version version;
	const char *name;
	i64 volume = 0;
	int r;

	r = rd_versions_kept(check->sql, &rows);
	while (!r && (r = rd_next_kept(rows, &version, &name)) > 0) {
		if (version.volume != volume) {
			volume = version.volume;
			begin_walk(check, &walk, volume);
		}
		r = check_version(check, &walk, &version, name);
	}
	rd_row_done(walk.rows);
	return r;
}
