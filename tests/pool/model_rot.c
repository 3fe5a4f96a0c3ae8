// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that rot. Of a content that the pool has more than once all blocks but one lose it, in a
 * copy of the pool. Then snapshots and passes come, which may find them where they would give that
 * one up. Nothing is deleted, so a repair must heal all that it could have healed before. See
 * model.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/sql.h"
#include "pool/engine/care/heal.h"
#include "model.h"

#define NR_ROUNDS	4
#define NR_TRIES	200

struct own {
	rd_place place;
	struct rd_fp fp;
	bool is_newest;
};

/* Shared with the processes: contents, and snapshots that kept a sound block. */
static u64 *nr_rotten, *nr_kept;

/* --- a block */

static void collect_recipe(i64 id, struct rd_buffer *ret)
{
	struct rd_fp page[RD_SEG_BLOCKS];
	struct rd_recipe recipe;
	u64 frame = U64_MAX, latest;
	struct own own;
	unsigned int i;

	if (rd_recipe_load(pool->sql, id, &recipe) ||
	    rd_recipe_latest_refs(pool->sql, id, &latest))
		fail("cannot load recipe %lld", id);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		own.place = recipe.map.at[i];
		if (rd_place_kind(own.place) != RD_OWN)
			continue;
		if (rd_place_id(own.place) != frame)
			rd_area_get_fps(&pool->area, rd_place_id(own.place), 1, page);
		frame = rd_place_id(own.place);
		own.fp = page[rd_place_slot(own.place)];
		own.is_newest = latest;
		rd_buffer_put(ret, &own, sizeof(own));
	}
}

static void collect(struct rd_buffer *ret)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_buffer ids = { 0 };
	size_t i;
	i64 id;

	if (rd_sql_ask(pool->sql, &row, "SELECT id FROM recipe", ""))
		fail("cannot list recipes");
	while (rd_row_next(row) > 0) {
		id = rd_row_i64(row, 0);
		rd_buffer_put(&ids, &id, sizeof(id));
	}
	for (i = 0; i < ids.len / sizeof(id); i++)
		collect_recipe(((i64 *)ids.data)[i], ret);
	rd_buffer_free(&ids);
}

/* How many have the content of @one? All but it itself are raw, or there are none. */
static size_t others_of(const struct own *owns, size_t nr, const struct own *one)
{
	size_t i, others = 0;

	for (i = 0; i < nr; i++) {
		if (&owns[i] == one || !rd_fp_equal(&owns[i].fp, &one->fp))
			continue;
		if (rd_frame_is_packed(rd_place_id(owns[i].place)))
			return 0;
		others++;
	}
	return others;
}

static void rot_others(const struct own *owns, size_t nr, const struct own *one)
{
	u8 *block = rd_alloc_direct(RD_BLOCK_SIZE);
	size_t i;

	memset(block, 'R', RD_BLOCK_SIZE);
	for (i = 0; i < nr; i++)
		if (&owns[i] != one && rd_fp_equal(&owns[i].fp, &one->fp) &&
		    rd_area_write(&pool->area, block, RD_BLOCK_SIZE,
				  rd_place_offset(owns[i].place)))
			fail("cannot damage a block");
	free(block);
}

/* Of a content that the pool has more than once, let all rot but one. False: there is none. */
static bool rot(void)
{
	struct rd_buffer all = { 0 };
	const struct own *owns, *one = NULL;
	unsigned int tries;
	bool found = false;
	size_t nr;

	collect(&all);
	owns = (const struct own *)all.data;
	nr = all.len / sizeof(*owns);
	for (tries = 0; tries < NR_TRIES && nr && !found; tries++) {
		one = owns + below(nr);
		found = one->is_newest && others_of(owns, nr, one);
	}
	if (found)
		rot_others(owns, nr, one);
	rd_buffer_free(&all);
	return found;
}

/* --- what may make it worse */

/*
 * The newest version of another volume has all of it, or a segment, and the one before all else:
 * what is written anew is sound, and here little is.
 */
static void take_any(void)
{
	struct model_volume *volume = any_volume(), *other = any_volume();
	struct model_version *version;
	unsigned int seg;

	if (volume->nr == MAX_VERSIONS || !other->nr)
		return;
	version = copy_newest(below(2) ? other : volume);
	seg = any_seg(newest(other));
	memcpy(&version->blocks[seg * RD_SEG_BLOCKS], &newest(other)->blocks[seg * RD_SEG_BLOCKS],
	       RD_SEG_BLOCKS);
	version->size = rd_max(version->size, newest(other)->size);
	choose_rule();
	if (take_snapshot(volume, version))
		fail("snapshot of %s failed", volume->name);
	add_version(volume, version);
}

static void pass_any(void)
{
	struct rd_pass_options options = any_pass();
	struct rd_pass_report report;

	if (rd_pass_run(pool, &options, &report))
		fail("a pass over the pool failed");
}

static void heal_all(void)
{
	struct rd_heal_options options = { .nr_from = 0 };
	struct rd_damage_report report;

	if (rd_heal(pool, &options, &report))
		fail("repair failed");
	if (report.blocks_healed < report.blocks_bad || report.recipes_lost)
		fail("a block has rotted, and %llu of %llu cannot be healed any more",
		     report.blocks_bad - report.blocks_healed, report.blocks_bad);
	rd_buffer_free(&report.rows);
}

static void see_message(enum rd_log_kind kind, const char *text)
{
	if (strstr(text, "older versions keep theirs"))
		++*nr_kept;
	else if (kind == RD_LOG_ERROR)
		fprintf(stderr, "%s\n", text);
}

static const struct rd_log_printer printer = { .print = see_message };

static void run(void)
{
	unsigned int i;

	pool_name = "rotten";
	unlink(path_of("rotten/copies"));
	rd_log_to(&printer);
	open_pool();
	if (rot()) {
		++*nr_rotten;
		for (i = 0; i < NR_ROUNDS; i++) {
			take_any();
			if (!below(3))
				pass_any();
		}
		heal_all();
	}
	check_pool();
	restore_all();
	close_pool();
	fflush(stdout);
	_exit(0);
}

void do_rot(unsigned int nr)
{
	char command[600];
	int status;
	pid_t pid;

	nr_rotten = mmap(NULL, 2 * sizeof(u64), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (nr_rotten == MAP_FAILED)
		fail("no memory");
	nr_kept = nr_rotten + 1;
	close_pool();
	snprintf(command, sizeof(command), "rm -rf '%s'", path_of("rotten"));
	while (nr--) {
		rnd();
		copy(path_of("pool"), path_of("rotten"));
		fflush(stdout);
		pid = fork();
		if (pid < 0)
			fail("cannot fork");
		if (!pid)
			run();
		if (waitpid(pid, &status, 0) != pid || status)
			fail("see above: the process with what has rotted ended with %x", status);
		if (system(command))
			fail("cannot remove a pool");
	}
	open_pool();
	printf("%6llu  contents have rotted but for a block, and %llu snapshots kept blocks\n",
	       *nr_rotten, *nr_kept);
}
