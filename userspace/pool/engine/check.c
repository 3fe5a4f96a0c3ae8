// SPDX-License-Identifier: GPL-2.0
/*
 * Recount what the catalog counts. None of the code that counts is used here:
 * only the format of maps is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/versions.h"
#include "check.h"
#include "journal.h"
#include "resolve.h"

struct check {
	struct rd_pool *pool;
	struct rd_sql *sql;
	struct rd_check_report *report;
	struct rd_hasher *hasher;
	bool with_area;		/* not the catalog alone */
	bool alone;		/* nobody is in the middle of something */
	/*
	 * What does not agree with the data area: sentences, each with its zero.
	 * The data area may be newer than the transaction that reads.
	 */
	struct rd_buffer doubtful;
};

__attribute__((format(printf, 2, 3)))
static void wrong(struct check *check, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check->report->nr_wrong++;
	if (check->report->wrong)
		check->report->wrong(check->report->ctx, text);
}

__attribute__((format(printf, 2, 3)))
static void doubt(struct check *check, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_buffer_put(&check->doubtful, text, strlen(text) + 1);
}

/* A query that has a row for each thing that is wrong: two numbers. */
static int ask_wrong(struct check *check, const char *what, const char *text)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(check->sql, &row, text, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		wrong(check, "%s: %lld, %lld", what, (long long)rd_row_i64(row, 0),
		      (long long)rd_row_i64(row, 1));
		r = 0;
	}
	return r;
}

/* --- the files */

/* Every page, those too that SQLite has no use for; then what is in them. */
static int check_database(struct check *check, bool *ret_is_good)
{
	RD_ROW struct rd_row *row = NULL;
	u64 page;
	int r;

	r = rd_sql_check_pages(check->sql, &page);
	if (r == -EUCLEAN) {
		if (page)
			wrong(check, "page %llu of the catalog is damaged",
			      (unsigned long long)page);
		else
			wrong(check, "the page map of the catalog is damaged");
		rd_hint("'revdedupctl repair --rebuild-catalog' makes it anew; nothing else was looked at");
		check->report->is_unreadable = true;
		*ret_is_good = false;
		return 0;
	}
	*ret_is_good = true;
	if (!r)
		r = rd_sql_ask(check->sql, &row, "PRAGMA integrity_check(20)", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		if (strcmp(rd_row_text(row, 0), "ok"))
			wrong(check, "catalog: %s", rd_row_text(row, 0));
		r = 0;
	}
	return r;
}

/* --- maps, counted into temporary tables */

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

static int put_tally(struct check *check, const struct tally *tally, i64 recipe,
		     const char *text)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < tally->nr && !r; i++)
		r = rd_sql_run(check->sql, text, "iii", tally->ids[i], recipe, tally->n[i]);
	return r;
}

static int count_entries(struct check *check, const struct rd_recipe *recipe)
{
	struct tally here = { .nr = 0 }, at = { .nr = 0 };
	unsigned int i;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe->map.at[i];

		if (rd_place_kind(place) == RD_OWN) {
			check->report->live_bytes += RD_BLOCK_SIZE;
			add_to_tally(&here, rd_place_id(place));
		} else if (rd_place_kind(place) == RD_REF) {
			add_to_tally(&at, rd_place_id(place));
		}
	}
	r = put_tally(check, &here, recipe->id, "INSERT INTO found_slot_owner VALUES(?, ?, ?)");
	return r ? r : put_tally(check, &at, recipe->id, "INSERT INTO found_recipe_ref VALUES(?, ?, ?)");
}

/* Is it in one frame in order, as is noted? */
static int check_whole(struct check *check, const struct rd_recipe *recipe)
{
	bool is_whole = true;
	unsigned int i;
	i64 noted;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe->map.at[i];

		is_whole &= rd_place_kind(place) == RD_ZERO ||
			place == rd_place_make(RD_OWN, recipe->frame, i);
	}
	r = rd_sql_number(check->sql, &noted, "SELECT whole FROM uses WHERE recipe = ?", "i",
			  recipe->id);
	if (!r && noted != is_whole)
		wrong(check, "recipe %lld is %s, and noted to be %s", (long long)recipe->id,
		      is_whole ? "whole" : "in pieces", noted ? "whole" : "in pieces");
	/* That it is missing is found by check_counts(). */
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

static int check_entries(struct check *check, struct rd_resolver *resolver,
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
			wrong(check, "recipe %lld leads nowhere", (long long)recipe->id);
			break;
		}
	}
	return 0;
}

static int check_recipe(struct check *check, struct rd_resolver *resolver, i64 id)
{
	struct rd_recipe recipe;
	int r;

	check->report->nr_recipes++;
	r = rd_recipe_load(check->sql, id, &recipe);
	if (r == -EUCLEAN) {
		wrong(check, "recipe %lld cannot be read", (long long)id);
		return 0;
	}
	if (!r)
		r = count_entries(check, &recipe);
	if (!r)
		r = check_whole(check, &recipe);
	return r ? r : check_entries(check, resolver, &recipe);
}

static int check_recipes(struct check *check)
{
	struct rd_resolver *resolver = rd_resolver_new(check->sql);
	RD_ROW struct rd_row *row = NULL;
	int r;

	if (!resolver)
		return -ENOMEM;
	r = rd_sql_ask(check->sql, &row, "SELECT id FROM recipe ORDER BY id DESC", "");
	while (!r && (r = rd_row_next(row)) > 0)
		r = check_recipe(check, resolver, rd_row_i64(row, 0));
	rd_resolver_free(resolver);
	return r;
}

static int check_counts(struct check *check)
{
	int r;

	r = ask_wrong(check, "at (target, source) is not what the maps say",
		      "SELECT target, source FROM"
		      " (SELECT * FROM recipe_ref EXCEPT SELECT * FROM found_recipe_ref)"
		      " UNION SELECT target, source FROM"
		      " (SELECT * FROM found_recipe_ref EXCEPT SELECT * FROM recipe_ref)");
	if (!r)
		r = ask_wrong(check, "here (frame, recipe) is not what the maps say",
			      "SELECT frame, recipe FROM"
			      " (SELECT * FROM slot_owner EXCEPT SELECT * FROM found_slot_owner)"
			      " UNION SELECT frame, recipe FROM"
			      " (SELECT * FROM found_slot_owner EXCEPT SELECT * FROM slot_owner)");
	if (!r)
		r = ask_wrong(check, "names of a recipe (recipe, counted)",
			      "SELECT uses.recipe, coalesce(n, 0) FROM uses LEFT JOIN"
			      " (SELECT recipe, count(*) AS n FROM segment GROUP BY recipe) AS s"
			      " ON s.recipe = uses.recipe WHERE refs <> coalesce(n, 0) OR refs = 0");
	if (!r)
		r = ask_wrong(check, "a segment names a recipe that is missing (segment, recipe)",
			      "SELECT segment, recipe FROM segment WHERE recipe <> 0 AND"
			      " (recipe NOT IN (SELECT id FROM recipe)"
			      " OR recipe NOT IN (SELECT recipe FROM uses))");
	if (!r)
		r = ask_wrong(check, "a recipe without counts, or counts without a recipe",
			      "SELECT id, 0 FROM recipe WHERE id NOT IN (SELECT recipe FROM uses)"
			      " UNION SELECT recipe, 1 FROM uses"
			      " WHERE recipe NOT IN (SELECT id FROM recipe)");
	if (r || !check->alone)
		return r;
	return ask_wrong(check, "newest versions that name a recipe (recipe, counted)",
			 "SELECT uses.recipe, coalesce(n, 0) FROM uses LEFT JOIN"
			 " (SELECT recipe, count(*) AS n FROM segment AS s WHERE NOT EXISTS"
			 " (SELECT 1 FROM segment AS t WHERE t.volume = s.volume"
			 " AND t.segment = s.segment AND t.born > s.born) GROUP BY recipe) AS s"
			 " ON s.recipe = uses.recipe WHERE latest_refs <> coalesce(n, 0)");
}

static int check_rows(struct check *check)
{
	/* The next version that exists, from the one on in which the row was born. */
	return ask_wrong(check, "no version sees a row (segment, born)",
		"SELECT segment, born FROM segment AS s WHERE NOT EXISTS"
		" (SELECT 1 FROM version AS v WHERE v.volume = s.volume AND v.number >= s.born"
		" AND NOT EXISTS (SELECT 1 FROM segment AS t WHERE t.volume = s.volume"
		" AND t.segment = s.segment AND t.born > s.born AND t.born <= v.number))");
}

/* --- versions */

/* What a version's sum has of a row; nothing of zeros, nor of a recipe that is missing. */
static rd_sum sum_of(struct check *check, struct rd_row *row, unsigned int column)
{
	struct rd_seg_fp fp;
	const void *blob;
	size_t len;

	blob = rd_row_blob(row, column, &len);
	if (!blob || len != sizeof(fp.b))
		return 0;
	memcpy(fp.b, blob, len);
	return rd_fp_sum(check->hasher, rd_row_i64(row, 0), &fp);
}

/*
 * The rows of a volume in the order of birth, and the sum of all that hold after those
 * that were read: each row is read once, however many versions see it.
 */
struct walk {
	struct rd_row *row;
	int r;			/* 1: @row is one that was not added yet */
	rd_sum sum;
};

/* Each row has the fingerprint of its content, and that of the row whose place it takes. */
static void begin_walk(struct check *check, struct walk *walk, i64 volume)
{
	rd_row_done(walk->row);
	*walk = (struct walk){ .row = NULL };
	walk->r = rd_sql_ask(check->sql, &walk->row, "SELECT segment, born,"
		" (SELECT fp FROM recipe WHERE id = s.recipe),"
		" (SELECT fp FROM recipe WHERE id = (SELECT recipe FROM segment AS t"
		" WHERE t.volume = s.volume AND t.segment = s.segment AND t.born < s.born"
		" ORDER BY t.born DESC LIMIT 1))"
		" FROM segment AS s WHERE volume = ? ORDER BY born", "i", volume);
	if (!walk->r)
		walk->r = rd_row_next(walk->row);
}

static int walk_to(struct check *check, struct walk *walk, i64 number)
{
	while (walk->r > 0 && rd_row_i64(walk->row, 1) <= number) {
		walk->sum += sum_of(check, walk->row, 2);
		walk->sum -= sum_of(check, walk->row, 3);
		walk->r = rd_row_next(walk->row);
	}
	return walk->r < 0 ? walk->r : 0;
}

static int check_version(struct check *check, struct walk *walk, i64 id, const char *volume)
{
	struct rd_version version;
	int r;

	r = rd_version_by_id(check->sql, id, &version);
	if (!r)
		r = walk_to(check, walk, version.number);
	if (r)
		return r;
	check->report->nr_versions += rd_version_exists(&version);
	if (walk->sum != version.sum)
		wrong(check, "%s@%lld has not the segments that it was made with", volume,
		      (long long)version.number);
	return 0;
}

static int check_versions(struct check *check)
{
	RD_ROW struct rd_row *row = NULL;
	struct walk walk = { .row = NULL };
	i64 volume = 0;
	int r;

	r = rd_sql_ask(check->sql, &row, "SELECT version.id, name, volume.id FROM version"
		       " JOIN volume ON volume.id = volume WHERE " RD_VERSION_KEPT
		       " ORDER BY volume.id, number", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		if (rd_row_i64(row, 2) != volume) {
			volume = rd_row_i64(row, 2);
			begin_walk(check, &walk, volume);
		}
		r = check_version(check, &walk, rd_row_i64(row, 0), rd_row_text(row, 1));
	}
	rd_row_done(walk.row);
	return r;
}

/* What a device reads is there, even if the user has deleted it. */
static int check_leases(struct check *check)
{
	return ask_wrong(check, "a lease of a version that is missing (lease, version)",
		"SELECT id, number FROM lease WHERE NOT EXISTS"
		" (SELECT 1 FROM version AS v WHERE v.volume = lease.volume"
		" AND v.number = lease.number AND v." RD_VERSION_KEPT ")");
}

/* --- frames */

struct span {
	u64 start, len;
	const char *what;
};

static int add_spans(struct check *check, struct rd_buffer *spans, const char *what,
		     const char *text)
{
	RD_ROW struct rd_row *row = NULL;
	struct span span = { .what = what };
	int r;

	r = rd_sql_ask(check->sql, &row, text, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		span.start = rd_row_i64(row, 0);
		span.len = rd_row_i64(row, 1);
		rd_buffer_put(spans, &span, sizeof(span));
		r = spans->failed ? -ENOMEM : 0;
	}
	return r;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Each frame is somebody's, and nobody else's. */
static int check_frames(struct check *check)
{
	struct rd_buffer spans = { 0 };
	struct span *list;
	size_t i, nr;
	u64 next = 0;
	int r;

	r = add_spans(check, &spans, "free", "SELECT start, len FROM extent");
	if (!r)
		r = add_spans(check, &spans, "reserved", "SELECT start, len FROM reserved");
	if (!r)
		r = add_spans(check, &spans, "the journal's", "SELECT frame, 1 FROM journal_frame");
	if (!r)
		r = add_spans(check, &spans, "kept", "SELECT frame, 1 FROM kept WHERE frame NOT IN (SELECT frame FROM slot_owner)");
	if (!r)
		r = add_spans(check, &spans, "used", "SELECT DISTINCT frame, 1 FROM slot_owner");
	/* A packed frame may have lost all that it had. */
	if (!r)
		r = add_spans(check, &spans, "queued",
			      "SELECT frame, 1 FROM queue WHERE frame NOT IN (SELECT frame FROM slot_owner)"
			      " AND NOT EXISTS (SELECT 1 FROM reserved WHERE queue.frame >= start"
			      " AND queue.frame < start + len)");
	list = (struct span *)spans.data;
	nr = spans.len / sizeof(*list);
	if (nr)
		qsort(list, nr, sizeof(*list), compare_spans);
	for (i = 0; i < nr && !r; i++) {
		if (list[i].start > next)
			wrong(check, "frames %llu to %llu are nobody's", (unsigned long long)next,
			      (unsigned long long)list[i].start - 1);
		else if (list[i].start < next)
			wrong(check, "frame %llu is %s and %s", (unsigned long long)list[i].start,
			      list[i - 1].what, list[i].what);
		next = rd_max(next, list[i].start + list[i].len);
	}
	if (!r && next != check->pool->area.super.nr_frames)
		wrong(check, "frames %llu to %llu are nobody's, or there are none",
		      (unsigned long long)next,
		      (unsigned long long)check->pool->area.super.nr_frames - 1);
	rd_buffer_free(&spans);
	return r;
}

/* The slots of @frame that recipes have; twice is wrong. */
static int live_slots(struct check *check, i64 frame, struct rd_slots *slots)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	memset(slots, 0, sizeof(*slots));
	r = rd_sql_ask(check->sql, &row, "SELECT recipe FROM found_slot_owner WHERE frame = ?", "i",
		       frame);
	while (!r && (r = rd_row_next(row)) > 0) {
		r = rd_recipe_load(check->sql, rd_row_i64(row, 0), &recipe);
		for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
			rd_place place = recipe.map.at[i];

			if (rd_place_kind(place) != RD_OWN || rd_place_id(place) != (u64)frame)
				continue;
			if (rd_slots_test(slots, rd_place_slot(place)))
				wrong(check, "slot %u of frame %lld is two entries'",
				      rd_place_slot(place), (long long)frame);
			rd_slots_set(slots, rd_place_slot(place));
		}
	}
	return r;
}

/*
 * Compare [@offset, @offset + @len) with @live, a bit for each block: data where
 * nothing lives is a leak, and a hole where something lives is a loss.
 */
static int check_allocated(struct check *check, u64 offset, u64 len,
			   const struct rd_slots *live, const struct rd_slots *allowed,
			   const char *what, i64 nr)
{
	int fd = check->pool->area.fd;
	u64 at = offset, end = offset + len, leaked = 0, lost = 0, data, hole, i;

	struct rd_slots has = { 0 };

	while (at < end) {
		off_t found = lseek(fd, at, SEEK_DATA);

		if (found < 0 && errno != ENXIO)
			return -errno;
		data = found < 0 ? end : rd_min(found, end);
		found = data < end ? lseek(fd, data, SEEK_HOLE) : (off_t)end;
		hole = found < 0 ? end : rd_min(found, end);
		for (i = data; i < hole; i += RD_BLOCK_SIZE)
			rd_slots_set(&has, (i - offset) / RD_BLOCK_SIZE);
		at = rd_max(hole, at + 1);
	}
	for (i = 0; i < len / RD_BLOCK_SIZE; i++) {
		check->report->allocated_bytes += rd_slots_test(&has, i) ? RD_BLOCK_SIZE : 0;
		lost += rd_slots_test(live, i) && !rd_slots_test(&has, i);
		leaked += rd_slots_test(&has, i) && !rd_slots_test(live, i) &&
			!(allowed && rd_slots_test(allowed, i));
	}
	if (lost)
		doubt(check, "%s %lld: %llu blocks that are in use are holes of the data area",
		      what, (long long)nr, (unsigned long long)lost);
	if (leaked)
		doubt(check, "%s %lld: %llu blocks that nobody uses take space", what,
		      (long long)nr, (unsigned long long)leaked);
	return 0;
}

static int queued_slots(struct check *check, i64 frame, struct rd_slots *slots)
{
	RD_ROW struct rd_row *row = NULL;
	const void *blob;
	size_t len;
	int r;

	memset(slots, 0, sizeof(*slots));
	r = rd_sql_ask(check->sql, &row, "SELECT slots FROM queue WHERE frame = ?", "i", frame);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r;
	blob = rd_row_blob(row, 0, &len);
	if (len == sizeof(*slots))
		memcpy(slots, blob, len);
	return 0;
}

/*
 * Where compaction will write next, it may have written already, and been
 * interrupted.
 */
static int packing_slots(struct check *check, i64 frame, struct rd_slots *slots)
{
	i64 next;
	int r;

	r = rd_sql_number(check->sql, &next, "SELECT next FROM packing WHERE frame = ?", "i",
			  frame);
	for (; !r && next >= 0 && next < RD_SEG_BLOCKS; next++)
		rd_slots_set(slots, next);
	return r == -ENOENT ? 0 : r;
}

/* Another state of the pool may have all that this one has not. */
static int kept_slots(struct check *check, i64 frame, struct rd_slots *slots)
{
	i64 kept;
	int r;

	r = rd_sql_number(check->sql, &kept, "SELECT count(*) FROM kept WHERE frame = ?", "i",
			  frame);
	if (!r && kept)
		memset(slots, 0xff, sizeof(*slots));
	return r;
}

/* What is to be given back is nobody's. */
static void check_queued(struct check *check, i64 frame, const struct rd_slots *live,
			 const struct rd_slots *queued)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += rd_slots_test(live, i) && rd_slots_test(queued, i);
	if (nr)
		wrong(check, "frame %lld: %u blocks that are in use are to be given back",
		      (long long)frame, nr);
}

static int check_used(struct check *check)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_slots live, queued;
	int r;

	r = rd_sql_ask(check->sql, &row, "SELECT DISTINCT frame FROM found_slot_owner ORDER BY frame", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		i64 frame = rd_row_i64(row, 0);

		if ((u64)frame >= check->pool->area.super.nr_frames) {
			wrong(check, "frame %lld is beyond the end of the data area",
			      (long long)frame);
			r = 0;
			continue;
		}
		r = live_slots(check, frame, &live);
		if (!r)
			r = queued_slots(check, frame, &queued);
		if (!r)
			check_queued(check, frame, &live, &queued);
		if (!r)
			r = packing_slots(check, frame, &queued);
		if (!r)
			r = kept_slots(check, frame, &queued);
		if (!r && !check->pool->area.is_device)
			r = check_allocated(check, rd_frame_offset(frame), RD_SEG_SIZE, &live,
					    &queued, "frame", frame);
	}
	return r;
}

/* Free frames and their fingerprints must not take space. */
static int check_free(struct check *check)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(check->sql, &row, "SELECT start, len FROM extent", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		u64 frame = rd_row_i64(row, 0), end = frame + rd_row_i64(row, 1), group_end;

		for (r = 0; frame < end && !r; frame = group_end) {
			u64 start = rd_frame_offset(frame), stop;
			off_t data;

			group_end = rd_min(end, (frame / RD_GROUP_FRAMES + 1) * RD_GROUP_FRAMES);
			stop = rd_frame_offset(group_end - 1) + RD_SEG_SIZE;
			data = lseek(check->pool->area.fd, start, SEEK_DATA);
			if (data < 0 || (u64)data >= stop)
				continue;
			doubt(check, "free frames %llu to %llu take space",
			      (unsigned long long)frame, (unsigned long long)group_end - 1);
		}
	}
	return r;
}

/* --- what is there twice */

static int check_copies(struct check *check)
{
	bool good;
	int r;

	if (check->pool->life != RD_LIFE_ONE) {
		wrong(check, "%s", rd_life_text(check->pool->life));
		return 0;
	}
	if (rd_area_bad_supers(&check->pool->area, false))
		doubt(check, "a superblock of the data area is damaged; the next command that writes makes it anew");
	r = rd_journal_verify(check->pool, &good);
	if (!r && !good)
		doubt(check, "the copy of the catalog is damaged; 'repair' makes it anew");
	return r;
}

/* --- */

static int see_who_works(struct check *check)
{
	i64 busy;
	int r;

	r = rd_sql_number(check->sql, &busy, "SELECT (SELECT count(*) FROM session WHERE id <> ?)"
			  " + (SELECT count(*) FROM version WHERE state IN (0, 1, 3))", "i",
			  check->pool->session);
	check->alone = !r && !busy;
	return r;
}

/* Nothing has happened since @generation, and nobody is at work. */
static int settle_doubts(struct check *check, i64 generation)
{
	const char *text = (const char *)check->doubtful.data;
	size_t at;
	i64 now;
	int r;

	r = rd_sql_number(check->sql, &now, "SELECT generation FROM state", "");
	if (!r && check->alone)
		r = see_who_works(check);
	if (r || check->doubtful.failed)
		return r ? r : -ENOMEM;
	if (!check->alone || now != generation) {
		rd_info("others are at work: what the data area has was not compared");
		return 0;
	}
	for (at = 0; at < check->doubtful.len; at += strlen(text + at) + 1)
		wrong(check, "%s", text + at);
	return 0;
}

static int check_catalog(struct check *check)
{
	int r;

	r = see_who_works(check);
	if (!r)
		r = check_recipes(check);
	if (!r)
		r = check_counts(check);
	if (!r)
		r = check_rows(check);
	if (!r)
		r = check_versions(check);
	if (!r)
		r = check_leases(check);
	if (!r)
		r = check_frames(check);
	return r;
}

static int check_area(struct check *check)
{
	int r;

	r = check_used(check);
	if (!r && !check->pool->area.is_device)
		r = check_free(check);
	return r ? r : check_copies(check);
}

static const char found_tables[] =
"CREATE TEMP TABLE found_recipe_ref(target, source, n, PRIMARY KEY(target, source)) WITHOUT ROWID;"
"CREATE TEMP TABLE found_slot_owner(frame, recipe, n, PRIMARY KEY(frame, recipe)) WITHOUT ROWID;";

static int check_contents(struct check *check)
{
	struct rd_sql *sql = check->sql;
	i64 generation;
	int r;

	r = rd_sql_number(sql, &generation, "SELECT generation FROM state", "");
	if (!r)
		r = rd_sql_script(sql, found_tables);
	if (!r)
		r = rd_sql_begin_read(sql);
	if (!r) {
		r = check_catalog(check);
		if (!r && check->with_area)
			r = check_area(check);
		rd_sql_end_read(sql);
	}
	if (!r)
		r = settle_doubts(check, generation);
	return r ? r : rd_sql_script(sql, "DROP TABLE found_recipe_ref; DROP TABLE found_slot_owner;");
}

static int check_pool(struct rd_pool *pool, struct rd_check_report *report, bool with_area)
{
	struct check check = {
		.pool = pool,
		.sql = pool->sql,
		.report = report,
		.with_area = with_area,
	};
	bool is_good = false;
	int r;

	check.hasher = rd_hasher_new();
	if (!check.hasher)
		return -ENOMEM;
	r = check_database(&check, &is_good);
	if (!r && is_good)
		r = check_contents(&check);
	rd_buffer_free(&check.doubtful);
	rd_hasher_free(check.hasher);
	return r;
}

int rd_check_catalog(struct rd_pool *pool, struct rd_check_report *report)
{
	return check_pool(pool, report, false);
}

int rd_check(struct rd_pool *pool, struct rd_check_report *report)
{
	return check_pool(pool, report, true);
}
