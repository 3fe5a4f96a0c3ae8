// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: model [--seed N] [--steps N] [--cover N] [--fail | --power CUTS]
 *              [--break NAME] DIRECTORY
 *
 * Drive a pool in DIRECTORY at random and compare it with a model: volumes are
 * lists of versions, a version is an array with the number of each block's
 * content, of which there are about fifty, so that all collides. After each step
 * everything is recounted (rd_check), and some versions are restored whole.
 *
 * Devices (see devices.h) read some of the versions all the while, by themselves,
 * whatever is deleted, moved and given back; now and then one cannot be reached, or
 * is gone without a word. In the end it is as if they had never been.
 *
 * The run goes on, and fails in the end, until each of the cases that are hard
 * came up --cover times.
 *
 * With --fail each step is done by a process that is killed, or gets an error,
 * at a step of the engine chosen at random (see failpoint.h). What it was doing
 * must be done or not begun after that, and nothing else may have changed; the
 * next command just works. Or its reads and writes are short, which it must not
 * be kept from anything by. In the end it prints which steps were hit how often.
 *
 * With --power all that the steps write is noted, and then played back up to
 * CUTS random moments, with a random part of what was not flushed then left out
 * (see power.h). What had been done must be there, what was being done must be
 * there or not, and the pool must work.
 *
 * With --break the engine is broken in a way of broken.h, and this must see it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/broken.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/check.h"
#include "pool/engine/engine.h"
#include "pool/engine/rebuild.h"
#include "pool/engine/restore.h"
#include "pool/engine/snapshot.h"
#include "devices.h"
#include "lies.h"
#include "power.h"

#define NR_VOLUMES	3
#define MAX_VERSIONS	12
#define MAX_SEGS	5
#define MAX_BLOCKS	(MAX_SEGS * RD_SEG_BLOCKS)
#define NR_CONTENTS	50

struct model_version {
	i64 number;
	u64 size;		/* bytes */
	u64 epoch;		/* and the tracker is all bytes of this; 0: none */
	u8 blocks[MAX_BLOCKS];	/* 0: zeros */
};

struct model_volume {
	char name[16];
	unsigned int nr;
	struct model_version *versions[MAX_VERSIONS + 1];
};

enum coverage {
	HIT_HOLED,
	TWICE_IN_VERSION,
	SHARED_FIRST,
	SHARED_SECOND,
	AT_ACROSS,
	CHAIN,
	DELETE_NEWEST,
	DELETE_MIDDLE,
	DELETE_POINTED_AT,
	REUSED_FRAME,
	HELD_NEWEST,
	HELD_OTHER,
	LEFT,
	UNREACHABLE,
	GONE,
	STUCK,
	LIE_ROW,
	LIE_FREE,
	OLD_CATALOG,
	OLD_DATA,
	NR_COVERAGE,
};

static const char *const coverage_names[NR_COVERAGE] = {
	[HIT_HOLED] = "content that the pool has in pieces",
	[TWICE_IN_VERSION] = "the same content twice in a version",
	[SHARED_FIRST] = "shared content superseded in the first volume, then the second",
	[SHARED_SECOND] = "shared content superseded in the second volume, then the first",
	[AT_ACROSS] = "a reference to another offset",
	[CHAIN] = "a chain of 5 references",
	[DELETE_NEWEST] = "the newest version deleted",
	[DELETE_MIDDLE] = "a version in the middle deleted",
	[DELETE_POINTED_AT] = "a version deleted that others point at",
	[REUSED_FRAME] = "a freed frame used again",
	[HELD_NEWEST] = "the newest version deleted while a device reads it",
	[HELD_OTHER] = "an older version deleted while a device reads it",
	[LEFT] = "blocks that devices have left",
	[UNREACHABLE] = "times that a device could not be reached",
	[GONE] = "devices that were gone without a word",
	[STUCK] = "a queue that stays as it is, for a device out of reach",
	[LIE_ROW] = "a row that names another content, and who reads it refused",
	[LIE_FREE] = "a frame in use that is said to be free, and not given out",
	[OLD_CATALOG] = "an older catalog put back, and refused",
	[OLD_DATA] = "an older data area put back, and refused",
};

static u64 seed, rng_state;
static unsigned int step, nr_steps = 200;
static const char *directory;
static unsigned int nr_segs = MAX_SEGS;
static bool failing;
static unsigned int nr_cuts;
static bool keep_versions;	/* that were deleted */
static struct rd_pool *pool;
static struct model_volume volumes[NR_VOLUMES];
static u64 covered[NR_COVERAGE];
static u8 contents[NR_CONTENTS + 1][RD_BLOCK_SIZE];

__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *fmt, ...)
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
static u64 rnd(void)
{
	rng_state ^= rng_state >> 12;
	rng_state ^= rng_state << 25;
	rng_state ^= rng_state >> 27;
	return rng_state * 0x2545f4914f6cdd1dULL;
}

static u64 below(u64 limit)
{
	return (rnd() >> 11) % limit;
}

static const char *path_of(const char *name)
{
	static char path[4][512];
	static unsigned int next;
	char *to = path[next++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", directory, name);
	return to;
}

/* --- images */

static void write_image(const char *path, const struct model_version *version)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	unsigned int i;

	if (fd < 0 || ftruncate(fd, version->size))
		fail("cannot make '%s': %s", path, strerror(errno));
	for (i = 0; (u64)i * RD_BLOCK_SIZE < version->size; i++) {
		size_t len = rd_min(version->size - (u64)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);

		if (version->blocks[i] &&
		    pwrite(fd, contents[version->blocks[i]], len, (off_t)i * RD_BLOCK_SIZE) !=
		    (ssize_t)len)
			fail("cannot write '%s': %s", path, strerror(errno));
	}
	close(fd);
}

static void compare_image(const char *path, const struct model_volume *volume,
			  const struct model_version *version)
{
	static const u8 zeros[RD_BLOCK_SIZE];
	int fd = open(path, O_RDONLY);
	u8 block[RD_BLOCK_SIZE];
	struct stat st;
	unsigned int i;

	if (fd < 0 || fstat(fd, &st) || (u64)st.st_size != version->size)
		fail("%s@%lld: the restored file has %lld bytes, wanted %llu", volume->name,
		     version->number, (long long)st.st_size, version->size);
	for (i = 0; (u64)i * RD_BLOCK_SIZE < version->size; i++) {
		size_t len = rd_min(version->size - (u64)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		const u8 *want = version->blocks[i] ? contents[version->blocks[i]] : zeros;

		if (pread(fd, block, len, (off_t)i * RD_BLOCK_SIZE) != (ssize_t)len)
			fail("cannot read '%s'", path);
		if (memcmp(block, want, len))
			fail("%s@%lld: block %u (segment %u) is wrong: wanted content %u, found one that begins with %02x%02x",
			     volume->name, version->number, i, i / RD_SEG_BLOCKS,
			     version->blocks[i], block[0], block[1]);
	}
	close(fd);
}

/* --- the pool */

static void copy(const char *from, const char *to)
{
	char command[1200];

	snprintf(command, sizeof(command), "cp -r --sparse=always '%s' '%s'", from, to);
	if (system(command))
		fail("cannot copy");
}

static const char *pool_name = "pool";

static void open_pool(void)
{
	if (rd_pool_open(&pool, path_of(pool_name), RD_POOL_WRITE, "model", 0))
		fail("cannot open the pool");
	pool->lease_ops = &devices_lease_ops;
}

static void close_pool(void)
{
	if (rd_pool_close(pool, 0))
		fail("cannot close the pool");
}

static int try_rebuild(bool force)
{
	struct rd_rebuild_report report;

	if (rd_pool_open(&pool, path_of(pool_name), RD_POOL_REPAIR, "model", 0))
		fail("the pool cannot be opened for repair");
	return rd_pool_close(pool, rd_rebuild_catalog(pool, force, &report));
}

static void print_wrong(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "model: check: %s\n", text);
}

static void check_pool(void)
{
	struct rd_check_report report = { .wrong = print_wrong };

	if (rd_check(pool, &report))
		fail("check failed");
	if (report.nr_wrong)
		fail("check found %llu wrong", report.nr_wrong);
}

static void check_restore(struct model_volume *volume, const struct model_version *version)
{
	struct rd_restore_options options = { .mode = RD_RESTORE_NEW };
	struct rd_restore_report report = { 0 };
	const char *path = path_of("restored");
	bool delta = below(3) == 0;
	i64 id;

	if (!delta)
		unlink(path);
	else
		options.mode = below(2) ? RD_RESTORE_DELTA : RD_RESTORE_FULL;
	options.fd = open(path, O_RDWR | O_CREAT, 0600);
	if (options.fd < 0 || ftruncate(options.fd, version->size))
		fail("cannot make '%s'", path);
	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, version->number, &options.version))
		fail("%s@%lld is missing", volume->name, version->number);
	if (options.version.epoch != version->epoch || options.version.tracker[0] != version->epoch)
		fail("%s@%lld is not of its tracker and epoch", volume->name, version->number);
	if (rd_restore(pool, &options, &report))
		fail("restore of %s@%lld failed", volume->name, version->number);
	if (report.bad.len)
		fail("%s@%lld is damaged", volume->name, version->number);
	if (ftruncate(options.fd, version->size))
		fail("cannot cut '%s'", path);
	close(options.fd);
	rd_buffer_free(&report.bad);
	compare_image(path, volume, version);
}

/* --- coverage, seen in the catalog */

static i64 number(const char *text)
{
	i64 value = 0;

	if (rd_sql_number(pool->sql, &value, text, ""))
		fail("cannot count");
	return value;
}

static unsigned int chain_length(i64 id, unsigned int slot)
{
	static struct rd_recipe recipe;
	unsigned int n = 0;

	for (;;) {
		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		if (rd_place_kind(recipe.map.at[slot]) != RD_REF)
			return n;
		n++;
		id = rd_place_id(recipe.map.at[slot]);
		slot = rd_place_slot(recipe.map.at[slot]);
	}
}

static void see_maps(void)
{
	RD_ROW struct rd_row *row = NULL;
	static struct rd_recipe recipe;
	bool across = false, chain = false;
	unsigned int i;

	if (rd_sql_ask(pool->sql, &row, "SELECT DISTINCT source FROM recipe_ref ORDER BY source DESC LIMIT 8",
		       ""))
		fail("cannot look");
	while (rd_row_next(row) > 0) {
		i64 id = rd_row_i64(row, 0);

		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		for (i = 0; i < RD_SEG_BLOCKS; i++) {
			if (rd_place_kind(recipe.map.at[i]) != RD_REF)
				continue;
			across |= rd_place_slot(recipe.map.at[i]) != i;
		}
	}
	rd_row_done(row);
	row = NULL;
	if (rd_sql_ask(pool->sql, &row, "SELECT source FROM recipe_ref ORDER BY source LIMIT 4", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0 && !chain) {
		i64 id = rd_row_i64(row, 0);

		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		for (i = 0; i < RD_SEG_BLOCKS && !chain; i += 7)
			if (rd_place_kind(recipe.map.at[i]) == RD_REF)
				chain = chain_length(id, i) >= 5;
	}
	covered[AT_ACROSS] += across;
	covered[CHAIN] += chain;
}

/* --- steps */

static struct model_volume *any_volume(void)
{
	return &volumes[below(NR_VOLUMES)];
}

/* Most changes stay in a segment, so that the others may be shared for a while. */
static void change_blocks(struct model_version *version, unsigned int nr)
{
	bool is_wide = !below(4);
	unsigned int first = is_wide ? 0 : below(nr) / RD_SEG_BLOCKS * RD_SEG_BLOCKS;
	unsigned int span = is_wide ? nr : rd_min(nr - first, RD_SEG_BLOCKS);
	unsigned int i = first + below(span), n = 1 + below(below(3) ? 8 : 600);

	switch (below(6)) {
	case 0:		/* a run of one content */
		memset(&version->blocks[i], below(NR_CONTENTS + 1), rd_min(n, nr - i));
		break;
	case 1: {	/* blocks move */
		unsigned int to = below(nr);

		n = rd_min(n, rd_min(nr - i, nr - to));
		memmove(&version->blocks[to], &version->blocks[i], n);
		break;
	}
	default:
		while (n--)
			version->blocks[first + below(span)] = below(NR_CONTENTS + 1);
	}
}

/* More often a newest one. */
static const struct model_version *any_version(void)
{
	const struct model_volume *volume = any_volume();

	if (!volume->nr)
		return NULL;
	return volume->versions[below(2) ? volume->nr - 1 : below(volume->nr)];
}

static unsigned int any_seg(const struct model_version *version)
{
	return below(rd_nr_segs(version->size));
}

/* A segment from somewhere, or the same one twice. */
static void copy_seg(struct model_version *version)
{
	const struct model_version *other = below(3) ? any_version() : version;

	if (other && other->size)
		memcpy(&version->blocks[any_seg(version) * RD_SEG_BLOCKS],
		       &other->blocks[any_seg(other) * RD_SEG_BLOCKS], RD_SEG_BLOCKS);
}

/* New content for a whole segment: perhaps others had the old one, too. */
static void fill_seg(struct model_version *version, unsigned int seg)
{
	unsigned int i = seg * RD_SEG_BLOCKS;
	unsigned int end = rd_min(i + RD_SEG_BLOCKS, version->size / RD_BLOCK_SIZE);

	for (; i < end; i++)
		version->blocks[i] = below(NR_CONTENTS + 1);
}

static void change_image(struct model_version *version)
{
	unsigned int nr, times = 1 + below(4);
	const struct model_version *other;

	if (!version->size || !below(8))
		version->size = (1 + rd_max(below(nr_segs * RD_SEG_BLOCKS),
					    below(nr_segs * RD_SEG_BLOCKS))) *
			RD_BLOCK_SIZE + (below(3) ? 0 : 512 * below(8));
	version->size = rd_min(version->size, (u64)nr_segs * RD_SEG_SIZE);
	nr = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	while (times--) {
		other = any_version();
		switch (below(8)) {
		case 0:
		case 1:
		case 2:
			copy_seg(version);
			break;
		case 3:
		case 4:
			fill_seg(version, any_seg(version));
			break;
		case 5:		/* all of another image */
			if (other && !below(4))
				*version = *other;
			nr = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
			break;
		default:
			change_blocks(version, nr);
		}
	}
	/* What is beyond the end is not there; a part of a block has no second part. */
	memset(&version->blocks[nr], 0, MAX_BLOCKS - nr);
	if (version->size % RD_BLOCK_SIZE)
		version->blocks[nr - 1] = 0;
}

static bool has_twice(const struct model_version *version)
{
	unsigned int a, b;

	for (a = 0; a < MAX_SEGS; a++)
		for (b = a + 1; b < MAX_SEGS; b++)
			if (!rd_is_zero(&version->blocks[a * RD_SEG_BLOCKS], RD_SEG_BLOCKS) &&
			    !memcmp(&version->blocks[a * RD_SEG_BLOCKS],
				    &version->blocks[b * RD_SEG_BLOCKS], RD_SEG_BLOCKS))
				return true;
	return false;
}

/* The ranges that changed, and some that did not. */
static void list_changes(const struct model_version *old, const struct model_version *new,
			 struct rd_changed *changed)
{
	static struct rd_changed_range ranges[MAX_BLOCKS];
	unsigned int i;

	changed->base = old->number;
	changed->ranges = ranges;
	changed->nr = 0;
	for (i = 0; i < MAX_BLOCKS; i++)
		if (old->blocks[i] != new->blocks[i] || !below(2000))
			ranges[changed->nr++] = (struct rd_changed_range){
				.offset = (u64)i * RD_BLOCK_SIZE,
				.len = RD_BLOCK_SIZE,
			};
}

static struct model_version *newest(const struct model_volume *volume)
{
	return volume->nr ? volume->versions[volume->nr - 1] : NULL;
}

static struct model_version *copy_newest(const struct model_volume *volume)
{
	struct model_version *version = calloc(1, sizeof(*version));

	if (!version)
		fail("no memory");
	if (volume->nr)
		*version = *newest(volume);
	return version;
}

static struct model_version *prepare_snapshot(struct model_volume *volume)
{
	struct model_version *version = copy_newest(volume);

	change_image(version);
	version->epoch = below(3);
	return version;
}

/* Users may have deleted what the next version is based on. */
static bool is_base(const struct model_volume *volume, const struct model_version *version)
{
	struct rd_version base;
	i64 id;

	return !rd_volume_find(pool->sql, volume->name, &id) &&
		!rd_version_before(pool->sql, id, INT64_MAX, &base) &&
		base.number == version->number;
}

static int take_snapshot(struct model_volume *volume, struct model_version *version)
{
	struct model_version *last = newest(volume);
	struct rd_snapshot_options options = {
		.volume = volume->name,
		.from = path_of(volume->name),
	};
	struct rd_snapshot_report report;
	struct rd_changed changed;
	u8 tracker[RD_TRACKER_SIZE];
	bool based = last && is_base(volume, last);
	int r;

	write_image(path_of(volume->name), version);
	memset(tracker, version->epoch, sizeof(tracker));
	options.tracker = version->epoch ? tracker : NULL;
	options.epoch = version->epoch;
	if (last && last->size == version->size && below(2)) {
		list_changes(last, version, &changed);
		options.changed = &changed;
	}
	r = rd_snapshot(pool, &options, &report);
	if (r)
		return r;
	version->number = report.version.number;
	if (options.changed && based && strcmp(report.mode, "changed"))
		fail("a list of changes was not believed: %s", report.reason);
	return 0;
}

static void add_version(struct model_volume *volume, struct model_version *version)
{
	volume->versions[volume->nr++] = version;
}

/* --- more coverage */

static const u8 *seg_blocks(const struct model_version *version, unsigned int seg)
{
	return &version->blocks[seg * RD_SEG_BLOCKS];
}

static bool is_zero_seg(const u8 *blocks)
{
	return rd_is_zero(blocks, RD_SEG_BLOCKS);
}

static bool has_seg(const struct model_version *version, const u8 *blocks)
{
	unsigned int seg;

	for (seg = 0; seg < MAX_SEGS; seg++)
		if (!memcmp(seg_blocks(version, seg), blocks, RD_SEG_BLOCKS))
			return true;
	return false;
}

static bool another_has(const struct model_volume *volume, const u8 *blocks)
{
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++)
		if (&volumes[v] != volume && volumes[v].nr &&
		    has_seg(newest(&volumes[v]), blocks))
			return true;
	return false;
}

/* Which volume was the first to let go of content that several newest versions had. */
static u8 let_go[1 << 16];

static u8 *who_let_go(const u8 *blocks)
{
	u64 hash = 0;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		hash = (hash ^ blocks[i]) * 0x100000001b3ULL;
	return &let_go[hash >> 48];
}

/* @new supersedes the version before it. */
static void see_superseded(const struct model_volume *volume, const struct model_version *new)
{
	const struct model_version *old = newest(volume);
	unsigned int seg, me = volume - volumes + 1;

	for (seg = 0; old && seg < MAX_SEGS; seg++) {
		const u8 *blocks = seg_blocks(old, seg);
		u8 *who = who_let_go(blocks);

		if (is_zero_seg(blocks) || has_seg(new, blocks))
			continue;
		if (another_has(volume, blocks)) {
			*who = me;
		} else if (*who && *who != me) {
			covered[*who < me ? SHARED_FIRST : SHARED_SECOND]++;
			*who = 0;
		}
	}
}

/* Frames that had been in use, then were not, and now are. */
static void see_frames(void)
{
	static enum { NEW, IN_USE, FREED } frames[2048];
	static bool is_used[2048];
	RD_ROW struct rd_row *row = NULL;
	unsigned int i;

	memset(is_used, 0, sizeof(is_used));
	if (rd_sql_ask(pool->sql, &row, "SELECT DISTINCT frame FROM slot_owner", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0)
		is_used[rd_row_i64(row, 0)] = true;
	for (i = 0; i < 2048; i++) {
		covered[REUSED_FRAME] += is_used[i] && frames[i] == FREED;
		frames[i] = is_used[i] ? IN_USE : frames[i] == NEW ? NEW : FREED;
	}
}

static void make_version(struct model_volume *volume, struct model_version *version)
{
	i64 pieces = number("SELECT count(*) FROM uses WHERE whole = 0"), now;

	if (take_snapshot(volume, version))
		fail("snapshot of %s failed", volume->name);
	see_superseded(volume, version);
	add_version(volume, version);
	covered[TWICE_IN_VERSION] += has_twice(version);
	now = number("SELECT count(*) FROM uses WHERE whole = 0");
	covered[HIT_HOLED] += now < pieces ? pieces - now : 0;
}

static void do_snapshot(struct model_volume *volume)
{
	make_version(volume, prepare_snapshot(volume));
}

/* Two volumes come to share a segment, and let go of it one after the other. */
static void do_share(struct model_volume *a, struct model_volume *b)
{
	struct model_version *version = copy_newest(a);
	const struct model_version *other = newest(b);
	unsigned int seg = any_seg(other);

	memcpy(&version->blocks[seg * RD_SEG_BLOCKS], &other->blocks[seg * RD_SEG_BLOCKS],
	       RD_SEG_BLOCKS);
	version->size = rd_max(version->size, other->size);
	make_version(a, version);
	version = copy_newest(a);
	fill_seg(version, seg);
	make_version(a, version);
	version = copy_newest(b);
	fill_seg(version, seg);
	make_version(b, version);
}

static void load_version(const struct model_volume *volume, unsigned int nr,
			 struct rd_version *version)
{
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, volume->versions[nr]->number, version))
		fail("%s@%lld is missing", volume->name, volume->versions[nr]->number);
}

static int delete_version(struct model_volume *volume, unsigned int nr)
{
	struct rd_lock lock = RD_LOCK_NONE;
	struct rd_version version;
	int r;

	load_version(volume, nr, &version);
	r = rd_pool_lock(pool, &lock, RD_LOCK_VOLUME, version.volume, true, "the volume");
	if (!r)
		r = rd_delete(pool, &version);
	rd_lock_drop(&lock);
	return r ? r : rd_free_queue(pool);
}

static void forget_version(struct model_volume *volume, unsigned int nr)
{
	/* A cut goes back to when it was there. */
	if (!nr_cuts && !keep_versions)
		free(volume->versions[nr]);
	volume->nr--;
	memmove(&volume->versions[nr], &volume->versions[nr + 1],
		(volume->nr - nr) * sizeof(*volume->versions));
}

static i64 nr_held(void)
{
	return number("SELECT count(*) FROM version WHERE state = 4");
}

static i64 data_blocks(void)
{
	return number("SELECT coalesce(sum(n), 0) FROM slot_owner");
}

/* What would be free if these went: of @volume's versions @first and those after. */
static i64 estimate(const struct model_volume *volume, unsigned int first, unsigned int nr)
{
	char ids[32 * MAX_VERSIONS] = "[";
	struct rd_version version;
	u64 bytes;

	for (; nr; first++, nr--) {
		load_version(volume, first, &version);
		sprintf(ids + strlen(ids), "%lld,", version.id);
	}
	ids[strlen(ids) - 1] = ']';
	if (rd_delete_estimate(pool, ids, &bytes))
		fail("no estimate of what %s has", volume->name);
	return bytes / RD_BLOCK_SIZE;
}

static void check_estimate(i64 said, i64 before, bool exact)
{
	i64 freed = before - data_blocks();

	if (said > freed || (exact && said != freed))
		fail("%lld blocks are free, and %lld would be", freed, said);
}

static void do_delete(struct model_volume *volume, unsigned int nr)
{
	i64 said = estimate(volume, nr, 1), before = data_blocks(), held = nr_held();
	bool is_newest = nr == volume->nr - 1, orphans = devices_orphans(pool);

	covered[DELETE_NEWEST] += nr == volume->nr - 1 && volume->nr > 1;
	covered[DELETE_MIDDLE] += nr && nr < volume->nr - 1;
	covered[DELETE_POINTED_AT] += number("SELECT count(*) FROM recipe_ref") && nr;
	if (delete_version(volume, nr))
		fail("delete of %s@%lld failed", volume->name, volume->versions[nr]->number);
	/* What only a device had held that is gone may go as well. */
	check_estimate(said, before, !is_newest && !orphans);
	if (nr_held() > held)
		covered[is_newest ? HELD_NEWEST : HELD_OTHER]++;
	forget_version(volume, nr);
}

static bool wants_delete(const struct model_volume *volume)
{
	return volume->nr == MAX_VERSIONS || (volume->nr && !below(3));
}

/* One that a device reads, or any. */
static unsigned int any_read(const struct model_volume *volume)
{
	unsigned int nr = below(volume->nr), i, d;
	const struct device *device;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id))
		return nr;
	/* Newer ones first: they are soon not the newest any more. */
	for (i = volume->nr; i--; )
		for (d = 0; d < NR_DEVICES; d++) {
			device = &devices->device[d];
			if (device->exists && device->volume == id &&
			    device->number == volume->versions[i]->number)
				return i;
		}
	return nr;
}

static unsigned int any_to_delete(const struct model_volume *volume)
{
	switch (below(6)) {
	case 0:
		return 0;
	case 1:
		return volume->nr - 1;
	case 2:
	case 3:
		return any_read(volume);
	default:
		return below(volume->nr);
	}
}

static i64 newest_number(const struct model_volume *volume)
{
	struct rd_version version;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, 0, &version))
		return 0;
	return version.number;
}

/* Somebody takes a snapshot and stops in the middle, where nobody need wait for him. */
static pid_t begin_stopped_snapshot(struct model_volume *volume, struct model_version *version)
{
	static const char *const steps[] = { "snapshot-hit", "snapshot-batch", "write" };
	pid_t pid;
	char wish[64];

	snprintf(wish, sizeof(wish), "%s:%u=stop", steps[below(3)], (unsigned int)(1 + below(4)));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("cannot fork");
	if (pid)
		return pid;
	setenv("REVDEDUP_FAIL", wish, 1);
	open_pool();
	_exit(rd_pool_close(pool, take_snapshot(volume, version)) ? 1 : 0);
}

/* A version of @other is deleted, often that of which the snapshot has segments. */
static void do_racing_snapshot(struct model_volume *volume)
{
	struct model_volume *other = &volumes[(volume - volumes + 1 + below(NR_VOLUMES - 1)) %
					      NR_VOLUMES];
	struct model_version *version = prepare_snapshot(volume);
	unsigned int nr = other->nr ? any_to_delete(other) : 0;
	int status;
	pid_t pid;

	if (other->nr && below(2))
		*version = *other->versions[nr];
	close_pool();
	pid = begin_stopped_snapshot(volume, version);
	if (waitpid(pid, &status, WUNTRACED) != pid)
		fail("cannot wait");
	open_pool();
	if (WIFSTOPPED(status)) {
		if (other->nr)
			do_delete(other, nr);
		else
			do_snapshot(other);
		kill(pid, SIGCONT);
		if (waitpid(pid, &status, 0) != pid)
			fail("cannot wait");
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("a snapshot of %s failed beside other work", volume->name);
	version->number = newest_number(volume);
	see_superseded(volume, version);
	add_version(volume, version);
}

/* --- devices */

static void check_devices(void)
{
	if (!devices_are_right(path_of("pool/data"), contents))
		fail("a device reads what it must not");
	covered[LEFT] = devices->nr_left;
	covered[UNREACHABLE] = devices->nr_unreachable;
	covered[GONE] = devices->nr_gone;
}

static int make_device(struct device *device, struct model_volume *volume, unsigned int nr)
{
	struct rd_version version;

	load_version(volume, nr, &version);
	return device_make(device, pool, &version, volume->versions[nr]->blocks);
}

static struct device *any_device(void)
{
	return &devices->device[below(NR_DEVICES)];
}

/* Device-mapper knows no better whether its devices can be reached. */
static void shake_devices(void)
{
	unsigned int i;

	for (i = 0; i < NR_DEVICES; i++)
		devices->device[i].is_reachable = below(4);
	if (!below(24))
		device_vanish(any_device());
}

/* Nor is anything moved that could not be freed then. */
static void check_stuck(void)
{
	i64 queued = number("SELECT count(*) FROM queue"), before;
	bool stuck = false;
	unsigned int i;

	for (i = 0; i < NR_DEVICES; i++)
		stuck |= devices->device[i].exists && !devices->device[i].is_reachable;
	if (!stuck || !queued || devices_orphans(pool))
		return;
	before = number("SELECT generation FROM state");
	if (rd_free_queue(pool))
		fail("a device out of reach is an error");
	if (number("SELECT generation FROM state") != before ||
	    number("SELECT count(*) FROM queue") != queued)
		fail("a device cannot be reached, and something is freed or moved");
	covered[STUCK]++;
}

static void do_device(struct device *device, struct model_volume *volume)
{
	int r = 0;

	if (device->exists)
		r = device_drop(device, pool, below(2));
	else if (volume->nr)
		r = make_device(device, volume, below(2) ? volume->nr - 1 : below(volume->nr));
	if (r)
		fail("a device could not come or go");
}

/* All of them, and what has been held for any. */
static void drop_devices(void)
{
	struct rd_buffer leases = { 0 };
	const struct rd_lease *list;
	unsigned int i;
	size_t nr;

	for (i = 0; i < NR_DEVICES; i++)
		device_vanish(&devices->device[i]);
	if (rd_lease_list(pool->sql, NULL, &leases))
		fail("cannot list leases");
	list = (const struct rd_lease *)leases.data;
	for (nr = leases.len / sizeof(*list); nr--; list++)
		if (rd_lease_drop(pool, list->id))
			fail("cannot drop the lease of %s", list->device);
	rd_buffer_free(&leases);
	if (rd_free_queue(pool))
		fail("cannot free");
	check_pool();
	if (nr_held() || number("SELECT count(*) FROM queue"))
		fail("there are no devices, and something is kept for one");
}

static void check_some(void)
{
	struct model_volume *volume = any_volume();

	check_pool();
	check_devices();
	if (volume->nr)
		check_restore(volume, volume->versions[below(volume->nr)]);
}

/* --- what the recount must find */

static const char *const plants[] = {
	"UPDATE uses SET refs = refs + 1 WHERE recipe ="
	" (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"UPDATE uses SET latest_refs = latest_refs + 1 WHERE recipe ="
	" (SELECT recipe FROM uses LIMIT 1 OFFSET ?)",
	"UPDATE uses SET whole = 1 - whole WHERE recipe ="
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
	" FROM slot_owner GROUP BY frame HAVING sum(n) > 64 LIMIT 1 OFFSET ?",
	"UPDATE version SET sum = zeroblob(16) WHERE id ="
	" (SELECT s.id FROM version AS s JOIN segment ON segment.volume = s.volume"
	" WHERE recipe <> 0 AND born = number LIMIT 1 OFFSET ?)",
};

#define NR_PLANTS (sizeof(plants) / sizeof(*plants))

static u64 planted[NR_PLANTS];

/* A change that no command makes, which is undone after the recount. */
static void plant_error(void)
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
		if (!rd_check(pool, &report) && !report.nr_wrong)
			fail("check does not find: %s", plants[nr]);
	}
	rd_sql_rollback(pool->sql);
}

static void tell_lies(void)
{
	int r = lies_row(pool, below);

	if (r < 0)
		fail("a version was read that is not what it was made with");
	covered[LIE_ROW] += r;
	r = lies_free(pool, below);
	if (r < 0)
		fail("what is in use is taken for free");
	covered[LIE_FREE] += r;
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
	r = rd_pool_open(&pool, path_of("pool"), RD_POOL_WRITE, "model", 0);
	if (r != -ESTALE)
		fail("%s: %d", coverage_names[what], r);
	run_command("rm '%s'/%s* && mv '%s'/* '%s'", path_of("pool"), files, path_of("now"),
		    path_of("pool"));
	covered[what]++;
}

/* The pool is open, and is again after it. */
static void travel(void)
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
static void plant_circle(void)
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

static void do_step(void)
{
	struct model_volume *volume = any_volume(), *other = any_volume();

	shake_devices();
	if (!below(3))
		do_device(any_device(), volume);
	else if (wants_delete(volume))
		do_delete(volume, any_to_delete(volume));
	else if (!below(4))
		do_racing_snapshot(volume);
	else if (!below(4) && other != volume && other->nr && other->nr < MAX_VERSIONS &&
		 volume->nr < MAX_VERSIONS - 1)
		do_share(volume, other);
	else
		do_snapshot(volume);
	check_stuck();
	see_maps();
	see_frames();
	check_some();
	if (!below(4))
		plant_error();
	if (!below(4))
		tell_lies();
	if (!below(12))
		travel();
	if (!below(8))
		plant_circle();
	if (!below(16)) {
		close_pool();
		if (below(2) && try_rebuild(false))
			fail("the catalog cannot be made anew");
		open_pool();
		check_pool();
		check_devices();
	}
}

/* --- steps that fail */

static struct {
	const char *name;
	u64 nr;
} hits[] = {
	{ "area-punch", 0 }, { "area-read", 0 }, { "area-sync", 0 }, { "area-write", 0 },
	{ "catalog-begin", 0 }, { "catalog-commit", 0 }, { "catalog-sync", 0 },
	{ "catalog-write", 0 },
	{ "compact-commit", 0 }, { "compact-write", 0 },
	{ "delete-rows", 0 }, { "free-commit", 0 }, { "free-punch", 0 },
	{ "free-vacate", 0 }, { "hand-over", 0 },
	{ "journal-appended", 0 }, { "journal-switch", 0 }, { "journal-switched", 0 },
	{ "lease-add", 0 }, { "lease-drop", 0 },
	{ "pages-begun", 0 }, { "pages-sync", 0 }, { "pages-write", 0 },
	{ "read", 0 }, { "recover-undo", 0 }, { "reverse-change", 0 }, { "reverse-vacate", 0 },
	{ "reverse-stream", 0 },
	{ "snapshot-batch", 0 }, { "snapshot-finish", 0 }, { "snapshot-hit", 0 },
	{ "write", 0 },
};

#define NR_STEPS (sizeof(hits) / sizeof(*hits))

/* The step that acted, from the log; none: the command ended before. */
static void note_hit(void)
{
	char line[64] = "", acted[64] = "";
	FILE *log = fopen(path_of("steps"), "r");
	unsigned int i;

	while (log && fgets(line, sizeof(line), log))
		if (line[0] == '!')
			snprintf(acted, sizeof(acted), "%s", line + 1);
	if (log)
		fclose(log);
	acted[strcspn(acted, "\n")] = 0;
	for (i = 0; i < NR_STEPS && strcmp(hits[i].name, acted); i++)
		;
	if (i == NR_STEPS)
		fail("the command failed, and no step did: '%s'", acted);
	hits[i].nr++;
}

static void print_hits(void)
{
	unsigned int i;

	for (i = 0; i < NR_STEPS; i++)
		printf("%6llu  failed at %s\n", hits[i].nr, hits[i].name);
}

static bool are_hit(u64 wanted)
{
	unsigned int i;

	for (i = 0; i < NR_STEPS; i++)
		if (hits[i].nr < wanted)
			return false;
	return true;
}

static const char *rarest_step(void)
{
	unsigned int i, rarest = 0;

	for (i = 1; i < NR_STEPS; i++)
		if (hits[i].nr < hits[rarest].nr)
			rarest = i;
	return hits[rarest].name;
}

/* Any step, more often an early one, or one that has a name. */
static void choose_failure(char *wish, size_t size)
{
	static const char *const actions[] = { "kill", "kill", "EIO", "ENOSPC", "short" };
	const char *name = below(2) ? "any" : below(2) ? rarest_step() :
		hits[below(NR_STEPS)].name;
	unsigned int nth = 1 + (strcmp(name, "any") ? !below(4) : below(below(2) ? 60 : 600));

	snprintf(wish, size, "%s:%u=%s", name, nth, actions[below(5)]);
}

/* What is to fail. */
struct job {
	struct model_volume *volume;
	struct model_version *version;	/* to be made; NULL: number @nr goes */
	unsigned int nr;
	struct device *device;		/* comes to read number @nr, or goes */
};

static int run_job(const struct job *job)
{
	if (job->device)
		return job->device->exists ? device_drop(job->device, pool, false) :
			make_device(job->device, job->volume, job->nr);
	return job->version ? take_snapshot(job->volume, job->version) :
		delete_version(job->volume, job->nr);
}

/*
 * Without a job it only opens the pool, which is work where something was left.
 * Returns 0: done; 1: failed, as it may; -1: killed.
 */
static int run_failing(const struct job *job)
{
	char wish[64];
	int status, r;
	pid_t pid;

	choose_failure(wish, sizeof(wish));
	unlink(path_of("steps"));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("cannot fork");
	if (!pid) {
		setenv("REVDEDUP_FAIL", wish, 1);
		setenv("REVDEDUP_FAIL_LOG", path_of("steps"), 1);
		/* It is meant to fail. */
		if (!freopen(path_of("stderr"), "w", stderr))
			_exit(9);
		if (rd_pool_open(&pool, path_of("pool"), RD_POOL_WRITE, "model", 0))
			_exit(1);
		pool->lease_ops = &devices_lease_ops;
		r = job ? run_job(job) : 0;
		_exit(rd_pool_close(pool, r) ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("cannot wait");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(wish, "short"))
		fail("short transfers made it fail (%s)", wish);
	if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
		return WEXITSTATUS(status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return -1;
	fail("the process that was to fail died of %s %d (%s)",
	     WIFSIGNALED(status) ? "signal" : "exit",
	     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), wish);
}

/* Fail in the work that a failure left, too. */
static int run_and_fail(const struct job *job)
{
	int r = run_failing(job);

	if (r)
		note_hit();
	while (r && below(2) && run_failing(NULL))
		note_hit();
	return r;
}

static bool exists(const struct model_volume *volume, i64 wanted)
{
	struct rd_version version;
	i64 id;

	return !rd_volume_find(pool->sql, volume->name, &id) &&
		!rd_version_load(pool->sql, id, wanted, &version);
}

static void do_failing_snapshot(struct model_volume *volume)
{
	struct model_version *version = prepare_snapshot(volume);
	i64 before = newest_number(volume);
	int r;

	close_pool();
	r = run_and_fail(&(struct job){ .volume = volume, .version = version });
	open_pool();
	version->number = newest_number(volume);
	if (version->number > before) {
		add_version(volume, version);
		check_pool();
		check_restore(volume, version);
		return;
	}
	if (!r)
		fail("snapshot of %s made nothing", volume->name);
	free(version);
}

static void do_failing_delete(struct model_volume *volume, unsigned int nr)
{
	int r;

	close_pool();
	r = run_and_fail(&(struct job){ .volume = volume, .nr = nr });
	open_pool();
	if (!exists(volume, volume->versions[nr]->number))
		forget_version(volume, nr);
	else if (!r)
		fail("delete of %s@%lld did nothing", volume->name, volume->versions[nr]->number);
}

/* Whatever comes of it: one that is there has its lease. */
static void do_failing_device(struct device *device, struct model_volume *volume)
{
	struct job job = { .volume = volume, .device = device };
	bool existed = device->exists;
	int r;

	if (!existed && !volume->nr)
		return;
	if (!existed)
		job.nr = below(2) ? volume->nr - 1 : below(volume->nr);
	close_pool();
	r = run_and_fail(&job);
	open_pool();
	if (!r && existed == device->exists)
		fail("a device did not come or go");
}

static void do_failing_step(void)
{
	struct model_volume *volume = any_volume();

	shake_devices();
	if (!below(3))
		do_failing_device(any_device(), volume);
	else if (wants_delete(volume))
		do_failing_delete(volume, any_to_delete(volume));
	else
		do_failing_snapshot(volume);
	check_some();
}

/* All but the newest, in whatever order. */
static void delete_old(struct model_volume *volume)
{
	i64 said = estimate(volume, 0, volume->nr - 1), before = data_blocks();

	while (volume->nr > 1)
		do_delete(volume, below(volume->nr - 1));
	check_estimate(said, before, true);
}

static void delete_all(void)
{
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++) {
		if (volumes[v].nr > 1 && below(2))
			delete_old(&volumes[v]);
		while (volumes[v].nr)
			do_delete(&volumes[v], below(volumes[v].nr));
	}
	check_pool();
	if (number("SELECT count(*) FROM recipe") || number("SELECT count(*) FROM slot_owner"))
		fail("something is left when all is deleted");
}

/* --- a pool with devices, and its twin without */

static const char *const counted[] = {
	"SELECT count(*) FROM version", "SELECT count(*) FROM segment",
	"SELECT count(*) FROM recipe", "SELECT sum(refs) FROM uses",
	"SELECT sum(latest_refs) FROM uses", "SELECT sum(n) FROM recipe_ref", "SELECT sum(n) FROM slot_owner",
	"SELECT count(*) FROM superseded", "SELECT count(*) FROM queue",
	"SELECT count(*) FROM lease",
};

#define NR_COUNTED (sizeof(counted) / sizeof(*counted))

struct goner {
	struct model_volume *volume;
	unsigned int nr;		/* when those before are gone */
};

static unsigned int choose_goners(struct goner goners[NR_DEVICES])
{
	unsigned int left[NR_VOLUMES], v, i, nr = 0;

	for (v = 0; v < NR_VOLUMES; v++)
		left[v] = volumes[v].nr;
	for (i = 0; i < NR_DEVICES; i++) {
		v = below(NR_VOLUMES);
		if (left[v])
			goners[nr++] = (struct goner){ &volumes[v], below(left[v]--) };
	}
	return nr;
}

static void delete_goner(const struct goner *goner)
{
	if (delete_version(goner->volume, goner->nr))
		fail("delete of one of %s failed", goner->volume->name);
	forget_version(goner->volume, goner->nr);
}

/*
 * What a journal that was full had is queued by the command that began a new one, and
 * given back by the next: which command that was has nothing to do with devices.
 */
static void count_all(i64 counts[NR_COUNTED])
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (rd_free_queue(pool))
			fail("what is queued cannot be given back");
	check_pool();
	for (i = 0; i < NR_COUNTED; i++)
		counts[i] = number(counted[i]);
}

static void delete_in_twin(const struct goner *goners, unsigned int nr, i64 counts[NR_COUNTED])
{
	unsigned int i;

	copy(path_of("pool"), path_of("twin"));
	pool_name = "twin";
	open_pool();
	for (i = 0; i < nr; i++)
		delete_goner(&goners[i]);
	count_all(counts);
	close_pool();
	pool_name = "pool";
}

static void delete_with_devices(const struct goner *goners, unsigned int nr,
				i64 counts[NR_COUNTED])
{
	unsigned int i;

	open_pool();
	for (i = 0; i < nr; i++) {
		if (make_device(&devices->device[i], goners[i].volume, goners[i].nr))
			fail("a device could not come");
		delete_goner(&goners[i]);
		check_devices();
	}
	for (i = 0; i < nr; i++) {
		if (device_drop(&devices->device[i], pool, i % 2))
			fail("a device could not go");
		check_devices();
	}
	count_all(counts);
}

/* What was there @before and is not now. */
static void free_goners(const struct model_volume before[NR_VOLUMES])
{
	unsigned int v, i, j;

	for (v = 0; v < NR_VOLUMES; v++)
		for (i = j = 0; i < before[v].nr; i++) {
			if (j < volumes[v].nr && volumes[v].versions[j] == before[v].versions[i])
				j++;
			else
				free(before[v].versions[i]);
		}
}

/* The same are deleted in one where devices come to read them all, and then go. */
static void compare_twins(void)
{
	i64 counts[NR_COUNTED], twin[NR_COUNTED];
	struct model_volume before[NR_VOLUMES];
	struct goner goners[NR_DEVICES];
	unsigned int i, nr = choose_goners(goners);

	close_pool();
	keep_versions = true;
	memcpy(before, volumes, sizeof(before));
	delete_in_twin(goners, nr, twin);
	memcpy(volumes, before, sizeof(before));
	delete_with_devices(goners, nr, counts);
	keep_versions = false;
	for (i = 0; i < NR_COUNTED; i++)
		if (counts[i] != twin[i])
			fail("%s: %lld, and %lld where no device ever was", counted[i], counts[i],
			     twin[i]);
	free_goners(before);
}

/* --- steps that lose power */

/* What there was when so many writes had been noted. */
struct moment {
	size_t noted;
	struct model_volume volumes[NR_VOLUMES];
};

static void remember(struct moment *moment)
{
	moment->noted = power_now();
	memcpy(moment->volumes, volumes, sizeof(volumes));
}

static bool has_versions(const struct model_volume *volume)
{
	i64 id, nr = 0;
	unsigned int i;

	if (!rd_volume_find(pool->sql, volume->name, &id) &&
	    rd_sql_number(pool->sql, &nr, "SELECT count(*) FROM version WHERE volume = ?"
			  " AND " RD_VERSION_EXISTS, "i", id))
		fail("cannot count");
	for (i = 0; i < volume->nr; i++)
		if (!exists(volume, volume->versions[i]->number))
			return false;
	return nr == volume->nr;
}

/* What had been done is there; what was being done is there, or it is not. */
static void find_versions(const struct moment *before)
{
	const struct moment *after = before + 1;
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++) {
		volumes[v] = before->volumes[v];
		if (has_versions(&volumes[v]))
			continue;
		volumes[v] = after->volumes[v];
		if (!has_versions(&volumes[v]))
			fail("after the cut, %s has other versions than before", volumes[v].name);
	}
}

static void restore_all(void)
{
	unsigned int v, i;

	for (v = 0; v < NR_VOLUMES; v++)
		for (i = 0; i < volumes[v].nr; i++)
			check_restore(&volumes[v], volumes[v].versions[i]);
}

static void note_steps(struct moment *moments)
{
	close_pool();
	power_begin(path_of("pool"));
	open_pool();
	remember(&moments[0]);
	while (step++ < nr_steps) {
		struct model_volume *volume = any_volume();

		if (wants_delete(volume))
			do_delete(volume, any_to_delete(volume));
		else
			do_snapshot(volume);
		remember(&moments[step]);
		if (!below(8)) {
			close_pool();
			open_pool();
		}
	}
	close_pool();
	/* The end of the last moment. */
	moments[nr_steps + 1] = moments[nr_steps];
	moments[nr_steps + 1].noted = power_now() + 1;
	power_end();
}

/*
 * The catalog is lost as well, and its copy must do. If the last write to it was
 * torn, that may be damage for all the engine knows: it wants to be forced.
 */
static void rebuild(void)
{
	unlink(path_of("cut/catalog.db"));
	unlink(path_of("cut/catalog.db-wal"));
	if (try_rebuild(false) && try_rebuild(true))
		fail("the catalog cannot be made anew");
}

static void see_after_cut(const struct moment *before)
{
	unlink(path_of("cut/catalog.db-shm"));
	if (!below(3))
		rebuild();
	open_pool();
	find_versions(before);
	check_pool();
	restore_all();
	if (!below(4)) {
		do_snapshot(any_volume());
		check_pool();
	}
	close_pool();
}

static void do_power(void)
{
	struct moment *moments = calloc(nr_steps + 2, sizeof(*moments)), *moment = moments;
	size_t at, first;
	unsigned int i;

	if (!moments || mkdir(path_of("cut"), 0700))
		fail("cannot begin");
	note_steps(moments);
	/* From here on it is read, mostly, from memory: plain calls take half as long. */
	setenv("REVDEDUP_NO_URING", "1", 1);
	copy(path_of("pool/pool.json"), path_of("cut"));
	pool_name = "cut";
	first = moments->noted;
	for (i = 0; i < nr_cuts; i++) {
		u64 span = power_now() - first;

		at = first + span * i / nr_cuts + below(span / nr_cuts + 1);
		while (moment[1].noted <= at)
			moment++;
		step = moment - moments + 1;
		power_cut(at, path_of("cut"), below);
		see_after_cut(moment);
	}
	printf("%6u cuts in %zu writes, holes and flushes\n", nr_cuts, power_now());
}

static void set_up(void)
{
	struct rd_pool_options options = { .size = 2ULL << 30 };
	unsigned int i, j;

	for (i = 0; i <= NR_CONTENTS; i++)
		for (j = 0; j < RD_BLOCK_SIZE; j++)
			contents[i][j] = i ? (j < 2 ? i : rnd()) : 0;
	for (i = 0; i < NR_VOLUMES; i++)
		snprintf(volumes[i].name, sizeof(volumes[i].name), "vm%u", i);
	if (rd_pool_create(path_of("pool"), &options))
		fail("cannot make the pool");
	open_pool();
}

static void print_coverage(void)
{
	unsigned int i;
	u64 nr = 0;

	for (i = 0; i < NR_COVERAGE; i++)
		printf("%6llu  %s\n", covered[i], coverage_names[i]);
	for (i = 0; i < NR_PLANTS; i++)
		nr += planted[i];
	printf("%6llu  errors planted and found\n", nr);
}

static bool are_covered(u64 wanted)
{
	unsigned int i;

	for (i = 0; i < NR_COVERAGE; i++)
		if (covered[i] < wanted)
			return false;
	return true;
}

static enum rd_break break_of(const char *name)
{
	static const char *const names[] = {
		[RD_BREAK_NORMAL] = "normal",
		[RD_BREAK_SYNC] = "sync",
		[RD_BREAK_MOVE_SYNC] = "move-sync",
		[RD_BREAK_PUNCH] = "punch",
		[RD_BREAK_HIT] = "hit",
		[RD_BREAK_VACATE] = "vacate",
		[RD_BREAK_HOLD] = "hold",
		[RD_BREAK_PAGES] = "pages",
	};
	unsigned int i;

	for (i = RD_BREAK_NORMAL; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return i;
	fprintf(stderr, "model: no such way to break it: '%s'\n", name);
	exit(2);
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
		{ "break", required_argument, NULL, 'b' },
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
		else if (c == 'p')
			nr_cuts = strtoul(optarg, NULL, 0);
		else if (c == 'b')
			rd_break = break_of(optarg);
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
	set_up();
	if (nr_cuts) {
		do_power();
		return 0;
	}
	while (step < nr_steps || (step < 10 * nr_steps && !is_enough(wanted))) {
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
