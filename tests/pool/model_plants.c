// SPDX-License-Identifier: GPL-2.0
/*
 * Errors planted in the catalog, which the recount must find, and files of the pool put
 * back from before, which must be refused. See model.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/catalog/recipes.h"
#include "pool/catalog/sql.h"
#include "pool/data/store.h"
#include "pool/engine/care/check.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/version.h"
#include "model.h"

static const char *const plants[] = {
	"UPDATE uses SET refs = refs + 1 WHERE recipe ="
	" (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"UPDATE uses SET latest_refs = latest_refs + 1 WHERE recipe ="
	" (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"UPDATE uses SET pieces = pieces + 1 WHERE recipe ="
	" (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"DELETE FROM uses WHERE recipe = (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"UPDATE recipe_ref SET n = n + 1 WHERE (target, source) ="
	" (SELECT target, source FROM recipe_ref LIMIT 1 OFFSET ?)",
	"DELETE FROM recipe_ref WHERE (target, source) ="
	" (SELECT target, source FROM recipe_ref LIMIT 1 OFFSET ?)",
	"UPDATE slot_owner SET n = n + 1 WHERE (frame, recipe) ="
	" (SELECT frame, recipe FROM slot_owner LIMIT 1 OFFSET ?)",
	"DELETE FROM slot_owner WHERE (frame, recipe) ="
	" (SELECT frame, recipe FROM slot_owner LIMIT 1 OFFSET ?)",
	"DELETE FROM segment WHERE (volume, segment, born) ="
	" (SELECT volume, segment, born FROM segment WHERE recipe <> 0 LIMIT 1 OFFSET ?)",
	"UPDATE segment SET recipe = 0 WHERE (volume, segment, born) ="
	" (SELECT volume, segment, born FROM segment WHERE recipe <> 0 LIMIT 1 OFFSET ?)",
	"DELETE FROM recipe WHERE id = (SELECT id FROM recipe LIMIT 1 OFFSET ?)",
	"UPDATE recipe SET fp = zeroblob(32) WHERE id = (SELECT id FROM recipe LIMIT 1 OFFSET ?)",
	"UPDATE extent SET len = len + 1 WHERE start = (SELECT start FROM extent LIMIT 1 OFFSET ?)",
	"DELETE FROM extent WHERE start = (SELECT start FROM extent LIMIT 1 OFFSET ?)",
	"UPDATE lease SET number = number + 1000 WHERE id ="
	" (SELECT id FROM lease LIMIT 1 OFFSET ?)",
	/* All but each eighth slot. */
	"INSERT OR REPLACE INTO queue"
	" SELECT frame, CAST(replace(hex(zeroblob(64)), '00', char(127)) AS BLOB)"
	" FROM slot_owner WHERE frame < 1 << 36 GROUP BY frame HAVING sum(n) > 64 LIMIT 1 OFFSET ?",
	"UPDATE pack SET place = place + 1 WHERE frame ="
	" (SELECT frame FROM pack LIMIT 1 OFFSET ?)",
	"UPDATE pack SET blocks = blocks + 1 WHERE frame ="
	" (SELECT frame FROM pack LIMIT 1 OFFSET ?)",
	"UPDATE pack SET slots = 1 WHERE frame ="
	" (SELECT frame FROM pack WHERE slots > 1 AND slots = (SELECT sum(n) FROM slot_owner"
	" WHERE slot_owner.frame = pack.frame) LIMIT 1 OFFSET ?)",
	"DELETE FROM pack WHERE frame = (SELECT frame FROM pack LIMIT 1 OFFSET ?)",
	"UPDATE slot_owner SET n = n - 1 WHERE (frame, recipe) ="
	" (SELECT frame, recipe FROM slot_owner WHERE recipe < 0 AND n > 1 LIMIT 1 OFFSET ?)",
	"DELETE FROM slot_owner WHERE (frame, recipe) ="
	" (SELECT frame, recipe FROM slot_owner WHERE recipe < 0 LIMIT 1 OFFSET ?)",
	"UPDATE tail SET frame = (SELECT start FROM extent LIMIT 1)"
	" WHERE frame = (SELECT frame FROM tail LIMIT 1 OFFSET ?)",
	"UPDATE tail SET next = 0 WHERE frame = (SELECT frame FROM tail WHERE frame IN"
	" (SELECT frame FROM slot_owner) LIMIT 1 OFFSET ?)",
	"UPDATE version SET sum = zeroblob(16) WHERE id ="
	" (SELECT s.id FROM version AS s JOIN segment ON segment.volume = s.volume"
	" WHERE recipe <> 0 AND born = number LIMIT 1 OFFSET ?)",
};

#define NR_PLANTS (sizeof(plants) / sizeof(*plants))

static u64 planted[NR_PLANTS];

u64 nr_planted(void)
{
	unsigned int i;
	u64 nr = 0;

	for (i = 0; i < NR_PLANTS; i++)
		nr += planted[i];
	return nr;
}

/* A change that no command makes, which is undone after the recount. */
void plant_error(void)
{
	struct rd_check_report report = { .wrong = NULL };
	unsigned int nr = below(NR_PLANTS);
	i64 offset;

	if (rd_catalog_begin(pool->sql))
		fail("cannot begin");
	for (offset = below(4); offset >= 0; offset--) {
		if (rd_sql_run(pool->sql, plants[nr], "i", offset))
			fail("cannot plant an error");
		if (rd_sql_changed(pool->sql))
			break;
	}
	if (offset >= 0) {
		planted[nr]++;
		/* A device does not tell that there is nothing behind the last pack of a frame. */
		if (!rd_check(pool, &report) && !report.nr_wrong &&
		    !(rd_store_as_device && strstr(plants[nr], "place = place + 1")))
			fail("check does not find: %s", plants[nr]);
	}
	rd_sql_rollback(pool->sql);
}

void tell_lies(void)
{
	int r = lies_row(pool, below);

	if (r < 0)
		fail("a version was read that is not what it was made with");
	covered[LIE_ROW] += r;
	r = lies_free(pool, below);
	if (r < 0)
		fail("what is in use is taken for free");
	covered[LIE_FREE] += r;
	r = lies_tail(pool);
	if (r < 0)
		fail("what is in use is taken for a tail");
	covered[LIE_TAIL] += r;
}

/* --- files of the pool that are put back */

/* The generation of what is in kept/. */
static i64 kept_generation;

__attribute__((format(printf, 1, 2)))
static void run_command(const char *format, ...)
{
	char command[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command))
		fail("cannot run '%s'", command);
}

/* The pool is closed. */
static void keep_files(i64 generation)
{
	const char *kept = path_of("kept");

	run_command("rm -rf '%s' && mkdir '%s'", kept, kept);
	run_command("cp --sparse=always '%s'/data '%s'", path_of("pool"), kept);
	run_command("cp '%s'/catalog.db* '%s'", path_of("pool"), kept);
	kept_generation = generation;
}

/* With @files of before, who writes is refused, and changes nothing. */
static void put_back(const char *files, enum coverage what)
{
	const char *now = path_of("now");
	int r;

	run_command("rm -rf '%s' && mkdir '%s'", now, now);
	run_command("mv '%s'/%s* '%s'", path_of("pool"), files, now);
	run_command("cp --sparse=always '%s'/%s* '%s'", path_of("kept"), files,
		    path_of("pool"));
	r = rd_session_open(&pool, path_of("pool"), RD_POOL_WRITE, "model", 0, NULL);
	if (r != -ESTALE)
		fail("%s: %d", coverage_names[what], r);
	run_command("rm '%s'/%s* && mv '%s'/* '%s'", path_of("pool"), files, path_of("now"),
		    path_of("pool"));
	covered[what]++;
}

/* The pool is open, and is again after it. */
void travel(void)
{
	i64 generation;

	if (rd_sql_number(pool->sql, &generation, "SELECT generation FROM state", ""))
		fail("cannot read the catalog");
	close_pool();
	if (kept_generation && kept_generation < generation) {
		put_back("catalog.db", OLD_CATALOG);
		put_back("data", OLD_DATA);
		if (!below(4))
			kept_generation = 0;
	}
	if (!kept_generation)
		keep_files(generation);
	open_pool();
}

/*
 * Entries that point at each other, with counts that agree: of a recipe at itself, or of
 * two. It leads nowhere, and the recount must see it, and end.
 */
void plant_circle(void)
{
	struct rd_check_report report = { .wrong = NULL };
	struct rd_recipe recipes[2];
	unsigned int i, nr = 1 + below(2);
	struct rd_map map;
	i64 id;

	for (i = 0; i < nr; i++) {
		if (rd_sql_number(pool->sql, &id, "SELECT id FROM recipe ORDER BY id LIMIT 1 OFFSET ?",
				  "i", (i64)(i + below(3))) ||
		    rd_recipe_load(pool->sql, id, &recipes[i]))
			return;
	}
	if (nr == 2 && recipes[0].id == recipes[1].id)
		return;
	if (rd_catalog_begin(pool->sql))
		fail("cannot begin");
	for (i = 0; i < nr; i++) {
		map = recipes[i].map;
		map.at[1] = rd_place_make(RD_REF, recipes[nr - 1 - i].id, 1);
		if (rd_recipe_change(pool->sql, &recipes[i], recipes[i].frame, &map))
			fail("cannot plant a circle");
	}
	if (!rd_check(pool, &report) && !report.nr_wrong)
		fail("check does not find recipes that point at each other");
	rd_sql_rollback(pool->sql);
}

/* Find an OWN entry of @recipe. */
static bool find_own(const struct rd_recipe *recipe, rd_place *ret)
{
	unsigned int i, first = below(RD_SEG_BLOCKS);

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		*ret = recipe->map.at[(first + i) % RD_SEG_BLOCKS];
		if (rd_place_kind(*ret) == RD_OWN)
			return true;
	}
	return false;
}

/* A place that goes over to another recipe, and stays with the first one: counts agree. */
void plant_double(void)
{
	struct rd_check_report report = { .wrong = NULL };
	struct rd_recipe giver, taker;
	struct rd_map map;
	rd_place place;
	i64 id;

	if (rd_sql_number(pool->sql, &id, "SELECT id FROM recipe ORDER BY id LIMIT 1 OFFSET ?", "i",
			  (i64)below(3)) ||
	    rd_recipe_load(pool->sql, id, &giver) || !find_own(&giver, &place) ||
	    rd_sql_number(pool->sql, &id, "SELECT id FROM recipe WHERE id > ? ORDER BY id LIMIT 1",
			  "i", giver.id) ||
	    rd_recipe_load(pool->sql, id, &taker))
		return;
	if (rd_catalog_begin(pool->sql))
		fail("cannot begin");
	map = taker.map;
	map.at[below(RD_SEG_BLOCKS)] = place;
	if (rd_recipe_change(pool->sql, &taker, taker.frame, &map))
		fail("cannot plant a place of two recipes");
	if (!rd_check(pool, &report) && !report.nr_wrong)
		fail("check does not find a place that two recipes own");
	rd_sql_rollback(pool->sql);
}
