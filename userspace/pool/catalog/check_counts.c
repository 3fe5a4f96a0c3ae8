// SPDX-License-Identifier: GPL-2.0
/* Checks that are questions to the catalog. */
#include <string.h>

#include "check_counts.h"
#include "frames.h"
#include "sql.h"
#include "version_sql.h"

#define ORDINARY	RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES)

int rd_check_is_alone(struct rd_sql *sql, i64 session, bool *ret)
{
	i64 busy;
	int r;

	r = rd_sql_number(sql, &busy, "SELECT (SELECT count(*) FROM session WHERE id <> ?)"
			  " + (SELECT count(*) FROM version WHERE state IN ("
			  RD_STATE(WRITING) ", " RD_STATE(NEW) ", " RD_STATE(DELETING) "))", "i",
			  session);
	*ret = !r && !busy;
	return r;
}

int rd_check_file(struct rd_sql *sql, void (*wrong)(void *ctx, const char *text), void *ctx)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "PRAGMA integrity_check(20)", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		if (strcmp(rd_row_text(row, 0), "ok"))
			wrong(ctx, rd_row_text(row, 0));
		r = 0;
	}
	return r;
}

/* --- what the maps have */

int rd_check_begin(struct rd_sql *sql)
{
	return rd_sql_script(sql,
		"CREATE TEMP TABLE found_recipe_ref(target, source, n,"
		" PRIMARY KEY(target, source)) WITHOUT ROWID;"
		"CREATE TEMP TABLE found_slot_owner(frame, recipe, n,"
		" PRIMARY KEY(frame, recipe)) WITHOUT ROWID;");
}

int rd_check_end(struct rd_sql *sql)
{
	return rd_sql_script(sql, "DROP TABLE found_recipe_ref; DROP TABLE found_slot_owner;");
}

int rd_check_found_slots(struct rd_sql *sql, u64 frame, i64 recipe, i64 n)
{
	return rd_sql_run(sql, "INSERT INTO found_slot_owner VALUES(?, ?, ?)", "iii", (i64)frame,
			  recipe, n);
}

int rd_check_found_refs(struct rd_sql *sql, i64 target, i64 recipe, i64 n)
{
	return rd_sql_run(sql, "INSERT INTO found_recipe_ref VALUES(?, ?, ?)", "iii", target,
			  recipe, n);
}

int rd_check_frames(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT DISTINCT frame FROM found_slot_owner ORDER BY frame",
			  "");
}

int rd_check_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame)
{
	return rd_sql_ask(sql, ret, "SELECT recipe FROM found_slot_owner WHERE frame = ?", "i",
			  (i64)frame);
}

/* --- questions */

/* Has a row of two numbers for each thing that is wrong. */
struct question {
	const char *what;
	const char *text;
};

static const struct question counts[] = {
	{ "recipe_ref disagrees with the maps (target, source)",
	  "SELECT target, source FROM"
	  " (SELECT * FROM recipe_ref EXCEPT SELECT * FROM found_recipe_ref)"
	  " UNION SELECT target, source FROM"
	  " (SELECT * FROM found_recipe_ref EXCEPT SELECT * FROM recipe_ref)" },
	{ "slot_owner disagrees with the maps (frame, recipe)",
	  "SELECT frame, recipe FROM"
	  " (SELECT * FROM slot_owner EXCEPT SELECT * FROM found_slot_owner)"
	  " UNION SELECT frame, recipe FROM"
	  " (SELECT * FROM found_slot_owner EXCEPT SELECT * FROM slot_owner)" },
	{ "count of segments that name a recipe (recipe, counted)",
	  "SELECT uses.recipe, coalesce(n, 0) FROM uses LEFT JOIN"
	  " (SELECT recipe, count(*) AS n FROM segment GROUP BY recipe) AS s"
	  " ON s.recipe = uses.recipe WHERE refs <> coalesce(n, 0) OR refs = 0" },
	{ "a segment names a recipe that is missing (segment, recipe)",
	  "SELECT segment, recipe FROM segment WHERE recipe <> 0 AND"
	  " (recipe NOT IN (SELECT id FROM recipe)"
	  " OR recipe NOT IN (SELECT recipe FROM uses))" },
	{ "a recipe without counts, or counts without a recipe",
	  "SELECT id, 0 FROM recipe WHERE id NOT IN (SELECT recipe FROM uses)"
	  " UNION SELECT recipe, 1 FROM uses"
	  " WHERE recipe NOT IN (SELECT id FROM recipe)" },
	{ "a pack that has no block of a version, and is not queued (frame, place)",
	  "SELECT frame, place FROM pack WHERE frame NOT IN (SELECT frame FROM slot_owner)"
	  " AND frame NOT IN (SELECT frame FROM queue)" },
	{ "a tail of a frame that is not in use (frame, slot)",
	  "SELECT frame, next FROM tail WHERE frame NOT IN (SELECT frame FROM slot_owner)"
	  " AND frame NOT IN (SELECT frame FROM queue)" },
};

static const struct question latest = {
	"count of newest versions that name a recipe (recipe, counted)",
	"SELECT uses.recipe, coalesce(n, 0) FROM uses LEFT JOIN"
	" (SELECT recipe, count(*) AS n FROM segment AS s WHERE NOT EXISTS"
	" (SELECT 1 FROM segment AS t WHERE t.volume = s.volume"
	" AND t.segment = s.segment AND t.born > s.born AND NOT EXISTS"
	" (SELECT 1 FROM version AS v WHERE v.volume = t.volume AND v.number = t.born"
	" AND v.state = " RD_STATE(PARTIAL) ")) GROUP BY recipe) AS s"
	" ON s.recipe = uses.recipe WHERE latest_refs <> coalesce(n, 0)"
};

/* Looks for the next version that exists, from the one on in which the row was born. */
static const struct question rows = {
	"no version sees a row (segment, born)",
	"SELECT segment, born FROM segment AS s WHERE NOT EXISTS"
	" (SELECT 1 FROM version AS v WHERE v.volume = s.volume AND v.number >= s.born"
	" AND NOT EXISTS (SELECT 1 FROM segment AS t WHERE t.volume = s.volume"
	" AND t.segment = s.segment AND t.born > s.born AND t.born <= v.number))"
};

static const struct question leases = {
	"a lease of a version that is missing (lease, version)",
	"SELECT id, number FROM lease WHERE NOT EXISTS"
	" (SELECT 1 FROM version AS v WHERE v.volume = lease.volume"
	" AND v.number = lease.number AND v." RD_VERSION_KEPT ")"
};

static int ask(struct rd_sql *sql, const struct question *question, rd_check_pair *wrong,
	       void *ctx)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, question->text, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		wrong(ctx, question->what, rd_row_i64(row, 0), rd_row_i64(row, 1));
		r = 0;
	}
	return r;
}

int rd_check_counts(struct rd_sql *sql, bool alone, rd_check_pair *wrong, void *ctx)
{
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(counts) / sizeof(*counts) && !r; i++)
		r = ask(sql, &counts[i], wrong, ctx);
	if (!r && alone)
		r = ask(sql, &latest, wrong, ctx);
	return r ? r : ask(sql, &rows, wrong, ctx);
}

int rd_check_leases(struct rd_sql *sql, rd_check_pair *wrong, void *ctx)
{
	return ask(sql, &leases, wrong, ctx);
}

/* --- frames */

/* Has a row for each run of frames. A packed frame may have lost all that it had. */
static const struct question spans[] = {
	{ "free", "SELECT start, len FROM extent" },
	{ "reserved", "SELECT start, len FROM reserved" },
	{ "part of the journal", "SELECT frame, 1 FROM journal_frame" },
	{ "kept",
	  "SELECT frame, 1 FROM kept WHERE frame NOT IN (SELECT frame FROM slot_owner)"
	  " AND frame NOT IN (SELECT frame FROM journal_frame)"
	  " AND NOT EXISTS (SELECT 1 FROM reserved WHERE kept.frame >= start"
	  " AND kept.frame < start + len)" },
	/* A session may fill a frame that is in use. */
	{ "used",
	  "SELECT DISTINCT frame, 1 FROM slot_owner WHERE frame < " ORDINARY
	  " AND NOT EXISTS (SELECT 1 FROM reserved WHERE slot_owner.frame >= start"
	  " AND slot_owner.frame < start + len)" },
	{ "queued",
	  "SELECT frame, 1 FROM queue WHERE frame < " ORDINARY
	  " AND frame NOT IN (SELECT frame FROM slot_owner)"
	  " AND NOT EXISTS (SELECT 1 FROM reserved WHERE queue.frame >= start"
	  " AND queue.frame < start + len)" },
};

int rd_check_spans(struct rd_sql *sql,
		   int (*span)(void *ctx, const char *what, u64 start, u64 len), void *ctx)
{
	struct rd_extent extent;
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(spans) / sizeof(*spans) && !r; i++) {
		RD_ROW struct rd_row *row = NULL;

		r = rd_sql_ask(sql, &row, spans[i].text, "");
		while (!r && (r = rd_next_extent(row, &extent)) > 0)
			r = span(ctx, spans[i].what, extent.start, extent.len);
	}
	return r;
}
