// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: model [--seed N] [--steps N] [--cover N] [--device] [--fail | --power CUTS] DIRECTORY
 *
 * Drive a pool in DIRECTORY at random and compare it with a model: volumes are lists of
 * versions, a version is an array with the number of each block's content, of which there
 * are about fifty, so that everything collides. After each step the model recounts
 * everything (rd_check()), and restores some versions whole.
 *
 * Devices (see devices.h) read some of the versions all the while, by themselves, whatever
 * is deleted, moved and given back; sometimes one cannot be reached, or vanishes without a
 * word. In the end the pool is as if they had never been.
 *
 * With --device the data area is used as a block device is, of which only whole frames are given
 * back, and nothing is while a table may name it.
 *
 * The index of fingerprints is removed, damaged and put back from before now and then, which
 * costs space, and nothing else.
 *
 * The run goes on until each of the hard cases came up --cover times, and fails if that takes
 * a hundred times the steps.
 *
 * With --fail a process does each step, and is killed, or gets an error, at a random step
 * of the engine (see inject.h). What it was doing must then be done or not begun, and
 * nothing else may have changed; the next command just works. Or its reads and writes are
 * short, which must not keep it from anything. In the end the run prints how often each
 * step was hit.
 *
 * With --power the model notes all writes of the steps, and plays them back up to CUTS
 * random moments, with a random part of what was not flushed then left out (see power.h).
 * What had been done must be there, what was being done must be there or not, and the pool
 * must work.
 */
#include <getopt.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "pool/data/store.h"
#include "model.h"

#define NR_ROTTEN	8	/* copies of the pool in which a block rots */

static u64 seed, rng_state;
unsigned int step, nr_steps = 200;
static const char *directory;
unsigned int nr_segs = MAX_SEGS;
static bool failing, as_device;
unsigned int nr_cuts;
bool keep_versions;
struct rd_pool *pool;
struct model_volume volumes[NR_VOLUMES];
u8 contents[NR_CONTENTS + NR_RARE + 1][RD_BLOCK_SIZE];

void fail(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "model: seed %llu, step %u: ", seed, step);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* xorshift64* */
u64 rnd(void)
{
	rng_state ^= rng_state >> 12;
	rng_state ^= rng_state << 25;
	rng_state ^= rng_state >> 27;
	return rng_state * 0x2545f4914f6cdd1dULL;
}

u64 below(u64 limit)
{
	return (rnd() >> 11) % limit;
}

const char *path_of(const char *name)
{
	static char path[4][512];
	static unsigned int next;
	char *to = path[next++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", directory, name);
	return to;
}

static void do_step(void)
{
	struct model_volume *volume = any_volume(), *other = any_volume();
	bool rebuild;

	shake_devices();
	if (!below(3))
		do_device(any_device(), volume);
	else if (!below(24))
		do_recompress();
	else if (wants_delete(volume))
		do_delete(volume, any_to_delete(volume));
	else if (!below(4))
		do_racing_snapshot(volume);
	else if (!below(6) && can_group(volume, other))
		do_group(volume, other);
	else if (!below(4) && other != volume && other->nr && other->nr < MAX_VERSIONS &&
		 volume->nr < MAX_VERSIONS - 1)
		do_share(volume, other);
	else if (!below(3) && volume->nr < MAX_VERSIONS - 2 && other->nr < MAX_VERSIONS)
		do_return(volume, other);
	else
		do_snapshot(volume);
	if (!below(6))
		do_pass();
	check_stuck();
	check_kept();
	see_maps();
	see_frames();
	see_packs();
	check_some();
	if (!below(4))
		plant_error();
	if (!below(4))
		tell_lies();
	if (!below(12))
		travel();
	if (!below(6))
		spoil_index();
	if (!below(8))
		plant_circle();
	if (!below(8))
		plant_double();
	if (!below(16)) {
		rebuild = below(2);
		/* Else all that is free may be read, until each device can be reached. */
		if (rebuild && as_device)
			drop_devices();
		close_pool();
		if (rebuild && try_rebuild(false))
			fail("the catalog cannot be made anew");
		open_pool();
		covered[PACKS_REBUILT] += rebuild && number("SELECT count(*) FROM pack");
		check_pool();
		check_devices();
	}
}

static void set_up(void)
{
	/* Of a device little is given back. */
	struct rd_pool_options options = { .size = (as_device ? 4ULL : 2ULL) << 30 };
	unsigned int i;

	if (below(2))
		options.compression = rd_compression_default;
	make_contents();
	for (i = 0; i < NR_VOLUMES; i++)
		snprintf(volumes[i].name, sizeof(volumes[i].name), "vm%u", i);
	if (rd_pool_create(path_of("pool"), &options))
		fail("cannot make the pool");
	rd_store_as_device = as_device;
	open_pool();
}

static bool is_enough(u64 wanted)
{
	return failing ? are_hit(wanted) : are_covered(wanted);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'n' },
		{ "cover", required_argument, NULL, 'c' },
		{ "fail", no_argument, NULL, 'f' },
		{ "power", required_argument, NULL, 'p' },
		{ "device", no_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	u64 wanted = 0;
	bool enough;
	int c;

	/* The engine's large buffers are mostly unused: from mmap, they need no clearing. */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	if (getrandom(&seed, 4, 0) != 4)
		return 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			nr_steps = strtoul(optarg, NULL, 0);
		else if (c == 'c')
			wanted = strtoull(optarg, NULL, 0);
		else if (c == 'f')
			failing = true;
		else if (c == 'd')
			as_device = true;
		else if (c == 'p')
			nr_cuts = strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind != argc - 1)
		return 2;
	directory = argv[optind];
	rng_state = seed * 2654435761ULL + 88172645463325252ULL;
	printf("model: seed %llu, %u steps\n", seed, nr_steps);
	/* So that a thousand pools are soon compared. */
	if (nr_cuts)
		nr_segs = 2;
	devices_begin();
	begin_coverage();
	set_up();
	if (nr_cuts) {
		do_power();
		return 0;
	}
	while (step < nr_steps || (step < 100 * nr_steps && !is_enough(wanted))) {
		step++;
		if (failing)
			do_failing_step();
		else
			do_step();
	}
	enough = is_enough(wanted);
	restore_all();
	drop_devices();
	compare_twins();
	restore_all();
	if (!failing)
		do_rot(NR_ROTTEN);
	delete_all();
	close_pool();
	if (failing)
		print_hits();
	else
		print_coverage();
	if (!enough) {
		fprintf(stderr, "model: a case came up less than %llu times\n", wanted);
		return 1;
	}
	return 0;
}
