// SPDX-License-Identifier: GPL-2.0
/*
 * What is rotten, and whose it is.
 *
 *	1. the survey reads every block once, and lists places that are suspect
 *	2. every recipe that a version names is followed. One that comes upon a
 *	   suspect, or whose fingerprint is not that of its blocks' fingerprints, is
 *	   looked at again under the lock that keeps places where they are: that is
 *	   sure, and tells rotten blocks from rotten fingerprints
 *	3. the healer, if there is one, mends what is rotten
 *
 * That is a pass. Where too much is rotten for the memory, there are several.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/sort.h"
#include "pool/catalog/segments.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/read/resolve.h"
#include "damage.h"
#include "survey.h"

#define MAX_SUSPECTS	(128U << 10)
#define MAX_ROWS	(256U << 10)
#define BATCH		512		/* recipes in a transaction */
#define NO_BLOCK	U32_MAX

struct damage {
	struct rd_pool *pool;
	struct rd_damage_report *report;
	struct rd_survey survey;
	bool is_first;			/* pass */
	i64 youngest;			/* recipe that was looked at in this pass */
	struct rd_bad_list list;	/* of each suspect */
	struct rd_resolver *resolver;
	struct rd_hasher *hasher;
	struct rd_blocks *blocks;
	u8 *data;			/* a segment */
	struct rd_fp found[RD_SEG_BLOCKS];
	struct rd_fp stored[RD_SEG_BLOCKS];
	struct rd_blame blame;
	unsigned int nr_doubtful;
	i64 doubtful[BATCH];
};

/* --- suspects */

static struct rd_bad_block *find_bad(const struct damage *damage, rd_place place)
{
	const struct rd_bad_list *list = &damage->list;

	if (!list->nr || place < list->blocks[0].place ||
	    place > list->blocks[list->nr - 1].place)
		return NULL;
	return rd_find(list->blocks, list->nr, place, place);
}

static int make_list(struct damage *damage)
{
	const rd_place *places = (const rd_place *)damage->survey.suspects.data;
	struct rd_bad_list *list = &damage->list;
	size_t i;

	list->nr = damage->survey.suspects.len / sizeof(*places);
	list->blocks = calloc(list->nr + 1, sizeof(*list->blocks));
	for (i = 0; i < list->nr && list->blocks; i++)
		list->blocks[i].place = places[i];
	return list->blocks ? 0 : -ENOMEM;
}

/* --- whose it is */

static int note_row(struct damage *damage, const struct rd_segment_row *row, u32 block, u32 nr,
		    u32 bad)
{
	struct rd_damage_report *report = damage->report;
	struct rd_bad_row bad_row = {
		.volume = row->volume,
		.segment = row->segment,
		.born = row->born,
		.until = row->until,
		.block = block,
		.nr = nr,
		.bad = bad,
	};

	if (report->rows.len / sizeof(bad_row) >= MAX_ROWS) {
		report->rows_left_out++;
		return 0;
	}
	return rd_buffer_put(&report->rows, &bad_row, sizeof(bad_row));
}

/* All segments whose content is @recipe have @nr bad blocks from @block on. */
static int note_rows(struct damage *damage, i64 recipe, u32 block, u32 nr, u32 bad)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_segment_row row;
	int r;

	r = rd_segment_rows(damage->pool->sql, &rows, recipe);
	while (!r && (r = rd_next_segment_row(rows, &row)) > 0)
		r = note_row(damage, &row, block, nr, bad);
	return r;
}

/* --- recipes, while nothing moves */

/*
 * All blocks of @map, or those that are suspect; the others count as good. The blocks of a pack
 * are mostly in a row in a map, so each of its groups is decoded once.
 */
static int read_blocks(struct damage *damage, const struct rd_map *map, bool all)
{
	rd_place places[RD_SEG_BLOCKS];
	unsigned int i;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		places[i] = all || find_bad(damage, map->at[i]) ? map->at[i] : 0;
	rd_blocks_forget(damage->blocks);
	r = rd_blocks_read_all(damage->blocks, places, RD_SEG_BLOCKS, damage->data);
	if (r < 0)
		return r;
	memcpy(damage->found, damage->stored, sizeof(damage->found));
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (places[i])
			rd_fp_blocks(damage->hasher, damage->data + (size_t)i * RD_BLOCK_SIZE, 1,
				     &damage->found[i]);
	return 0;
}

/* Does a version have @recipe, still? 1: one does. */
static int is_named(const struct damage *damage, i64 recipe)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_segment_row row;
	int r;

	r = rd_segment_rows(damage->pool->sql, &rows, recipe);
	return r ? r : rd_next_segment_row(rows, &row);
}

/* What the map of @id says is not its content, or it says nothing. */
static int note_lost(struct damage *damage, i64 id, const struct rd_map *map)
{
	unsigned int i, first;
	int r;

	/* It is the same in each pass. */
	if (!damage->is_first)
		return 0;
	/* Its last version may have been deleted since it was looked at. */
	r = is_named(damage, id);
	if (r <= 0)
		return r;
	r = 0;
	damage->report->recipes_lost++;
	if (!map)
		return note_rows(damage, id, 0, RD_SEG_BLOCKS, NO_BLOCK);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (rd_place_kind(map->at[i]) != RD_OWN)
			continue;
		for (first = i; i < RD_SEG_BLOCKS && rd_place_kind(map->at[i]) == RD_OWN; i++)
			;
		damage->report->blocks_bad += i - first;
		r = note_rows(damage, id, first, i - first, NO_BLOCK);
	}
	return r;
}

/* Proof is better than none, and the same from whomever. */
static void settle(struct rd_bad_block *block, const struct damage *damage,
		   const struct rd_recipe *recipe, unsigned int i, bool proven)
{
	if (block->is_proven || (block->what && !proven))
		return;
	block->what = damage->blame.bad[i];
	block->is_proven = proven;
	block->had_fp = !rd_fp_is_zero(&damage->stored[i]);
	block->fp = damage->blame.truth[i];
	block->recipe = recipe->id;
	block->recipe_fp = recipe->fp;
	block->block = i;
}

static int note_bad(struct damage *damage, const struct rd_recipe *recipe, bool proven)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		struct rd_bad_block *block = find_bad(damage, recipe->map.at[i]);

		/* What is no suspect yet is one in another pass. */
		if (!block)
			continue;
		settle(block, damage, recipe, i, proven);
		if (damage->blame.bad[i] & RD_BAD_CONTENT)
			r = note_rows(damage, recipe->id, i, 1, block - damage->list.blocks);
	}
	return r;
}

/* Look at a recipe whose places stay as they are for now. */
static int examine(struct damage *damage, i64 id)
{
	struct rd_recipe recipe = { .id = id };
	bool good, proven;
	int r;

	r = rd_resolve(damage->resolver, id, &recipe.map, &recipe.fp);
	if (r)
		return r == -EUCLEAN || r == -ENOENT ? note_lost(damage, id, NULL) : r;
	rd_resolver_read_fps(damage->resolver, &damage->pool->area, &recipe.map,
			     damage->stored);
	good = rd_fps_are_of(damage->hasher, damage->stored, &recipe.fp);
	r = read_blocks(damage, &recipe.map, !good);
	if (r)
		return r;
	proven = rd_blame(damage->hasher, &recipe.map, &recipe.fp, damage->stored, damage->found,
			  &damage->blame);
	if (damage->blame.is_map_wrong)
		return note_lost(damage, id, &recipe.map);
	return note_bad(damage, &recipe, proven);
}

static int examine_doubtful(struct damage *damage)
{
	struct rd_pool *pool = damage->pool;
	struct rd_lock lock = RD_LOCK_NONE;
	unsigned int i;
	int r;

	r = rd_failpoint("damage-examine");
	if (!r)
		r = rd_pool_lock(pool, &lock, RD_LOCK_FREE, 0, false,
				 "the queue of slots to free");
	if (!r)
		r = rd_sql_begin_read(pool->sql);
	if (r) {
		rd_lock_drop(&lock);
		return r;
	}
	rd_resolver_forget(damage->resolver);
	rd_resolver_forget_fps(damage->resolver);
	for (i = 0; i < damage->nr_doubtful && !r; i++)
		r = examine(damage, damage->doubtful[i]);
	rd_sql_end_read(pool->sql);
	rd_lock_drop(&lock);
	return r;
}

/* --- recipes, in passing */

static int look_at(struct damage *damage, i64 id, bool *ret_doubtful)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	unsigned int i;
	int r;

	r = rd_resolve(damage->resolver, id, &map, &fp);
	*ret_doubtful = r == -EUCLEAN || r == -ENOENT;
	if (r)
		return *ret_doubtful ? 0 : r;
	for (i = 0; i < RD_SEG_BLOCKS && !*ret_doubtful; i++)
		*ret_doubtful = find_bad(damage, map.at[i]);
	if (*ret_doubtful || !damage->is_first)
		return 0;
	rd_resolver_read_fps(damage->resolver, &damage->pool->area, &map, damage->stored);
	*ret_doubtful = !rd_fps_are_of(damage->hasher, damage->stored, &fp);
	return 0;
}

/* Recipes below *@last, which becomes the last of them; 0: no more. */
static int look_at_some(struct damage *damage, i64 above, i64 *last)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 id = 0;
	bool doubtful;
	int r;

	damage->nr_doubtful = 0;
	r = rd_segments_recipes(damage->pool->sql, &rows, *last, above, BATCH);
	*last = 0;
	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		damage->youngest = rd_max(damage->youngest, id);
		*last = id;
		r = look_at(damage, id, &doubtful);
		if (!r && doubtful)
			damage->doubtful[damage->nr_doubtful++] = id;
	}
	return r;
}

/* Old recipes refer to younger ones: these come first, since the resolver remembers them. */
static int walk_down(struct damage *damage, i64 above)
{
	struct rd_survey *survey = &damage->survey;
	u64 paid = survey->bytes_read;
	i64 last = INT64_MAX;
	int r;

	do {
		r = rd_sql_begin_read(damage->pool->sql);
		if (r)
			return r;
		rd_resolver_forget(damage->resolver);
		r = look_at_some(damage, above, &last);
		rd_sql_end_read(damage->pool->sql);
		if (!r && damage->nr_doubtful)
			r = examine_doubtful(damage);
		rd_pace(&damage->pool->pace, survey->bytes_read - paid);
		paid = survey->bytes_read;
		if (!r)
			r = rd_pool_progress(damage->pool, "scrub", survey->bytes_read,
					     survey->bytes_total);
	} while (!r && last);
	return r;
}

/* Once more for those that were made meanwhile. */
static int walk(struct damage *damage)
{
	i64 above;
	int r;

	rd_resolver_forget_fps(damage->resolver);
	damage->youngest = 0;
	do {
		above = damage->youngest;
		r = walk_down(damage, above);
	} while (!r && damage->youngest != above);
	return r;
}

/* --- passes */

static bool is_left(const struct damage *damage, const struct rd_bad_row *row)
{
	const struct rd_bad_block *block;

	if (row->bad == NO_BLOCK)
		return true;
	block = &damage->list.blocks[row->bad];
	/* Another recipe may have proven that it is good. */
	return block->what & RD_BAD_CONTENT && !block->is_healed && !block->is_gone;
}

/* What the next pass must not take for its own. */
static void keep_rows(struct damage *damage)
{
	struct rd_bad_row *rows = (struct rd_bad_row *)damage->report->rows.data;
	size_t i, kept = 0, nr = damage->report->rows.len / sizeof(*rows);

	for (i = 0; i < nr; i++) {
		if (!is_left(damage, &rows[i]))
			continue;
		rows[kept] = rows[i];
		rows[kept++].bad = NO_BLOCK;
	}
	damage->report->rows.len = kept * sizeof(*rows);
}

static void count(struct damage *damage)
{
	struct rd_damage_report *report = damage->report;
	size_t i;

	for (i = 0; i < damage->list.nr; i++) {
		const struct rd_bad_block *block = &damage->list.blocks[i];

		if (!block->what || block->is_gone)
			continue;
		if (block->what & RD_BAD_CONTENT) {
			report->blocks_bad++;
			report->blocks_healed += block->is_healed;
		} else {
			report->fps_bad++;
			report->fps_healed += block->is_healed;
		}
	}
}

static int pass(struct damage *damage, struct rd_healer *healer)
{
	int r;

	r = rd_survey(damage->pool, &damage->survey, MAX_SUSPECTS);
	if (!r)
		r = make_list(damage);
	if (!r && (damage->is_first || damage->list.nr))
		r = walk(damage);
	if (!r && damage->list.nr && healer)
		r = healer->heal(healer, damage->pool, &damage->list);
	if (!r) {
		keep_rows(damage);
		count(damage);
	}
	free(damage->list.blocks);
	damage->list.blocks = NULL;
	damage->is_first = false;
	return r;
}

static int compare_rows(const void *a, const void *b)
{
	const struct rd_bad_row *x = a, *y = b;

	return rd_order(x->volume, y->volume) ? : rd_order(x->segment, y->segment) ? :
		rd_order(x->block, y->block) ? : rd_order(x->born, y->born);
}

static int find_all(struct damage *damage, struct rd_healer *healer)
{
	int r = 0;

	damage->resolver = rd_resolver_new(damage->pool->sql);
	damage->hasher = rd_hasher_new();
	damage->blocks = rd_blocks_new(damage->pool);
	damage->data = rd_alloc_direct(RD_SEG_SIZE);
	if (!damage->resolver || !damage->hasher || !damage->blocks || !damage->data)
		return -ENOMEM;
	/* All recipes are followed once in a round, with its first part. */
	damage->is_first = !damage->survey.next_frame;
	while (!r && !rd_survey_is_over(&damage->survey))
		r = pass(damage, healer);
	damage->report->bytes_read = damage->survey.bytes_read;
	rd_sort_buffer(&damage->report->rows, sizeof(struct rd_bad_row), compare_rows);
	return r;
}

int rd_damage_find(struct rd_pool *pool, struct rd_damage_part *part, struct rd_healer *healer,
		   struct rd_damage_report *report)
{
	RD_FREE struct damage *damage = calloc(1, sizeof(*damage));
	int r;

	memset(report, 0, sizeof(*report));
	if (!damage)
		return -ENOMEM;
	damage->pool = pool;
	damage->report = report;
	if (part) {
		damage->survey.next_frame = part->next;
		damage->survey.max_bytes = part->max_bytes;
		damage->survey.until_us = part->until_us;
	}
	r = find_all(damage, healer);
	if (part)
		part->next = damage->survey.next_frame;
	rd_buffer_free(&damage->survey.suspects);
	rd_resolver_free(damage->resolver);
	rd_hasher_free(damage->hasher);
	rd_blocks_free(damage->blocks);
	free(damage->data);
	return r;
}
