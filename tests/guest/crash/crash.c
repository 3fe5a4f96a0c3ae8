// SPDX-License-Identifier: GPL-2.0
/*
 * Crash a volume again and again, and check that no write was forgotten.
 *
 *   crash [--cycles N] [--seed S] [--outages] BASE META
 *
 * BASE and META are ramdisks: 64 MiB are enough, 7300 MiB allow more tests, and they take
 * memory only for what is written. On each lies the judge of crashes (tests/judge), on both
 * of them a revdedup device; crashlib.h has the devices and the moment of the crash, epochs.h
 * the epochs. Threads write while a controller takes checkpoints, commits and aborts them,
 * and sends messages that must be refused. At some moment the judge crashes both devices.
 * Then the program builds the stack anew, and every 512-byte sector of each segment that the
 * target calls clean must be what it was at the last committed checkpoint. Besides, flushed
 * writes must be there, and the epochs must be what the messages said.
 *
 * Writers crowd on one segment for a while and move on together to the next, so that mostly
 * a first write is under way, with others to the same segment.
 *
 * With --outages the metadata device also fails writes for a while, up to the crash and
 * beyond. In half of the cycles a listener notes that tracking is lost and tells the target;
 * then this note is the answer.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/dm.h"
#include "crashlib.h"
#include "epochs.h"

#define NR_WRITERS	4
#define WINDOW		(64ULL << 11)	/* sectors that are written to */
#define GAP		((512 - 64) * 8ULL * SEG_SECTORS)
#define MAX_META	(24ULL << 11)
#define CYCLES_A_LIFE	20		/* then the metadata is formatted anew */

static const enum event events[] = {
	AT_TIME, AT_MOVE, AT_OVERTAKE, AT_RESUME, AT_CHECKPOINT, AT_OVER_CHECKPOINT,
	AT_COMMIT, AT_ABORT, AT_MARK, AT_RELOAD,
};

#define NR_CRASH_EVENTS	(sizeof(events) / sizeof(events[0]))

static struct {
	uint64_t device_sectors;	/* of the base's ramdisk */
	uint64_t meta_sectors;		/* of the metadata's ramdisk */
	atomic_uint hot_seg;
	atomic_bool *written;		/* a segment: since the last checkpoint, about */
	atomic_uint first_seg[NR_WRITERS]; /* first write to it is under way; + 1 */
} crowd;

static struct {
	uint64_t reloads, outages, writes, flushes;
} count;

/*
 * ---- writers ----
 */

/* Where to write: mostly where everybody is, and across the borders, too. */
static void choose_range(struct worker *w, struct op *op)
{
	static const unsigned int limits[] = { 1, 8, 8, 16, 128, 128, 1024, 8192 };
	/* On a debug kernel large ones would take all the time. */
	bool small = c.tick_us > SLOW_US && !one_in(&w->random, 8);
	unsigned int limit = limits[below(&w->random, small ? 6 : 8)];
	uint64_t seg = one_in(&w->random, 8) ? below(&w->random, c.oracle.segs) :
					       atomic_load(&crowd.hot_seg);
	int64_t first = seg * SEG_SECTORS + below(&w->random, SEG_SECTORS);
	uint64_t end;

	op->sectors = limit > 16 ? 1 + below(&w->random, limit) : limit;
	if (one_in(&w->random, 4))
		first -= op->sectors / 2;
	if (limit == 8)
		first -= first % 8;
	if (first < 0)
		first = 0;
	if ((uint64_t)first >= c.oracle.sectors)
		first = c.oracle.sectors - 1;
	op->first = first;
	end = op->first < c.oracle.half ? c.oracle.half : c.oracle.sectors;
	if (op->sectors > end - op->first)
		op->sectors = end - op->first;
}

static bool write_data(struct worker *w, const struct op *op, bool sync)
{
	struct iovec iov = { w->buf, op->sectors * SECTOR };

	op_fill(op, w->buf);
	return pwritev2(w->fd, &iov, 1, oracle_place(&c.oracle, op->first) * SECTOR,
			sync ? RWF_DSYNC : 0) == (ssize_t)iov.iov_len;
}

static bool write_zeros(struct worker *w, const struct op *op)
{
	uint64_t range[2] = {
		oracle_place(&c.oracle, op->first) * SECTOR, op->sectors * SECTOR,
	};

	return !ioctl(w->fd, one_in(&w->random, 2) ? BLKDISCARD : BLKZEROOUT, range);
}

static void note_begin(struct worker *w, const struct op *op)
{
	uint64_t seg, last = (op->first + op->sectors - 1) / SEG_SECTORS;

	for (seg = op->first / SEG_SECTORS; seg <= last; seg++)
		if (!atomic_exchange(&crowd.written[seg], true))
			atomic_store(&crowd.first_seg[w->nr], seg + 1);
}

/*
 * A write that is acknowledged while an earlier one, the first to the segment,
 * still waits, may be one that saw a bit too early.
 */
static void note_end(struct worker *w, const struct op *op)
{
	uint64_t seg = op->first / SEG_SECTORS;
	unsigned int i;

	atomic_store(&crowd.first_seg[w->nr], 0);
	if (c.event != AT_OVERTAKE)
		return;
	for (i = 0; i < NR_WRITERS; i++)
		if (atomic_load(&crowd.first_seg[i]) == seg + 1)
			arm(below(&w->random, c.flush_us / 2 + 1));
}

static bool write_some(struct worker *w)
{
	bool sync = one_in(&w->random, 8), zeros = one_in(&w->random, 6);
	struct op op;
	bool good;

	choose_range(w, &op);
	/* The judge always makes zeros of what is discarded. */
	op.kind = zeros ? OP_ZEROS : OP_WRITE;
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	note_begin(w, &op);
	good = zeros ? write_zeros(w, &op) : write_data(w, &op, sync);
	oracle_end(&c.oracle, w->nr, good, sync && !zeros);
	note_end(w, &op);
	__atomic_add_fetch(&count.writes, 1, __ATOMIC_RELAXED);
	return good;
}

static bool flush_all(struct worker *w)
{
	size_t mark = oracle_flush_begin(&c.oracle);

	if (fsync(w->fd))
		return false;
	oracle_flush_end(&c.oracle, mark);
	__atomic_add_fetch(&count.flushes, 1, __ATOMIC_RELAXED);
	return true;
}

static bool write_or_flush(struct worker *w)
{
	/*
	 * Not all at once to each new segment: some shall come while the bits
	 * for the others are on their way.
	 */
	if (one_in(&w->random, 3))
		usleep(below(&w->random, c.flush_us + 4 * c.tick_us));
	return one_in(&w->random, 20) ? flush_all(w) : write_some(w);
}

/*
 * ---- what the controller does ----
 */

/* The device is suspended. */
static bool read_base(uint64_t first, uint64_t sectors, uint32_t *words)
{
	return oracle_read(&c.oracle, c.base_fd, first, sectors, words);
}

static void take_checkpoint(void)
{
	uint64_t seg;

	if (!checkpoint(read_base))
		return;
	for (seg = 0; seg < c.oracle.segs; seg++)
		atomic_store(&crowd.written[seg], false);
}

static int resume(void)
{
	reached(AT_RESUME, &c.random);
	return dm_resume(VOL);
}

static void suspended(void (*do_it)(void))
{
	/* Without it we would wait for the end of the outage, which is our own. */
	unsigned int flags = c.has_outage || one_in(&c.random, 2) ? DM_NOFLUSH : 0;
	int r = dm_suspend(VOL, flags | (one_in(&c.random, 2) ? DM_NOLOCKFS : 0));

	if (r && !may_fail(r))
		miss("suspend failed: %s", strerror(-r));
	if (r)
		return;
	if (do_it)
		do_it();
	r = resume();
	if (r && !may_fail(r))
		miss("resume failed: %s", strerror(-r));
}

static void reload(void)
{
	int r;

	reached(AT_RELOAD, &c.random);
	r = load_volume();
	if (r && !may_fail(r))
		miss("reload failed: %s", strerror(-r));
	if (r)
		return;
	suspended(one_in(&c.random, 2) ? take_checkpoint : NULL);
	count.reloads++;
}

/*
 * ---- outages ----
 */

/* All of the metadata device, or parts: the bits, either superblock, both. */
static void fail_writes(void)
{
	uint64_t last = c.use_meta_sectors - 8;
	int r;

	switch (below(&c.random, 6)) {
	case 0:
		r = dm_message(META, "fail-writes on 8 16");
		break;
	case 1:
		r = dm_message(META, "fail-writes on 0 8");
		break;
	case 2:
		r = dm_message(META, "fail-writes on %" PRIu64 " 8", last);
		break;
	case 3:
		r = dm_message(META, "fail-writes on 0 %" PRIu64, last);
		break;
	case 4:
		r = dm_message(META, "fail-writes except 8 16");
		break;
	default:
		r = dm_message(META, "fail-writes on");
		break;
	}
	must(r, "begin an outage");
}

static void outage(void)
{
	c.had_outage = true;
	c.has_outage = true;
	fail_writes();
	reached(AT_OUTAGE, &c.random);
	count.outages++;
	pause_us(below(&c.random, one_in(&c.random, 4) ? 1500000 : 30000));
	if (atomic_load(&c.crashing))
		return;
	/* A message may fail now, and the state must stay known. */
	if (one_in(&c.random, 2))
		suspended(take_checkpoint);
	else if (epochs.now.frozen && epochs.may_commit)
		commit();
	/* It gets better or worse before it is over. */
	if (one_in(&c.random, 2)) {
		fail_writes();
		pause_us(below(&c.random, 1500000));
		if (atomic_load(&c.crashing))
			return;
	}
	must(dm_message(META, "fail-writes off"), "end the outage");
	c.has_outage = false;
	if (one_in(&c.random, 2))
		expect_ok();
}

/*
 * ---- a cycle ----
 */

/* Mostly a checkpoint and its commit in turn, as only commits make clean. */
static void suspend_for_checkpoint(void)
{
	suspended(take_checkpoint);
}

static void do_something(void)
{
	switch (below(&c.random, c.outages ? 12 : 10)) {
	case 0:
		mark();
		break;
	case 1:
		try_wrong_epochs();
		break;
	case 2:
		suspended(NULL);
		break;
	case 3:
		reload();
		break;
	case 10:
	case 11:
		outage();
		break;
	default:
		turn_epoch(suspend_for_checkpoint);
		break;
	}
}

/* Let the crowd move to a segment that is clean, if we find one. */
static void move(void)
{
	unsigned int tries;
	uint64_t seg;

	for (tries = 0; tries < 16; tries++) {
		seg = below(&c.random, c.oracle.segs);
		if (!atomic_load(&crowd.written[seg]))
			break;
	}
	/* What is frozen is dirty, too, so most can be seen after a commit. */
	if (tries < 16 && (!epochs.now.frozen || one_in(&c.random, 4)))
		reached(AT_MOVE, &c.random);
	atomic_store(&crowd.hot_seg, seg);
	pause_us(below(&c.random, 2 * c.flush_us + 8 * c.tick_us));
}

static void control_until_crash(void)
{
	while (!atomic_load(&c.crashing)) {
		unsigned int n = below(&c.random, 6);

		do_something();
		while (n-- && !atomic_load(&c.crashing))
			move();
	}
	wait_for_crash();
}

static void draw_event(void)
{
	static const unsigned int flush_us[] = { 0, 300, 1000, 3000, 10000 };

	/* Those that are worth more than others. */
	if (one_in(&c.random, 6))
		c.event = AT_MOVE;
	else if (one_in(&c.random, 5))
		c.event = AT_OVERTAKE;
	else if (c.outages && one_in(&c.random, 2))
		c.event = AT_OUTAGE;
	else
		c.event = events[below(&c.random, NR_CRASH_EVENTS)];
	atomic_store(&c.event_nr, 1 + below(&c.random, c.event == AT_MOVE ? 12 :
						       c.event == AT_RESUME ? 4 : 2));
	c.flush_us = flush_us[c.event == AT_OVERTAKE ? 4 : below(&c.random, 5)];
}

static void run_until_crash(void)
{
	epochs.listen = c.outages && one_in(&c.random, 2);
	start_cycle();
	/* Also where the event does not come. */
	arm(c.event == AT_TIME ? below(&c.random, 800 * c.tick_us) :
				 1000 * c.tick_us + (c.outages ? 3000000 : 0));
	control_until_crash();
}

/*
 * New metadata: of the least size, or with room for the remap table. With or
 * without a gap, behind which the bits are in another sector of their block, so
 * that a crash can tear it.
 */
static void begin_life(void)
{
	c.oracle.gap = 0;
	if (crowd.device_sectors > GAP + c.oracle.sectors && one_in(&c.random, 2))
		c.oracle.gap = GAP;
	c.sectors = c.oracle.sectors + c.oracle.gap;
	c.segs = place_seg(c.oracle.segs - 1) + 1;
	c.use_meta_sectors = one_in(&c.random, 2) ? 4 * 8 : crowd.meta_sectors;
	end_afterlife();
	wipe(c.meta.path, crowd.meta_sectors);
	prefill();
	epochs_begin_life();
}

/* The stack anew, and a look at what the crash left. */
static void recover(bool all)
{
	int r;

	build_stack();
	r = dm_resume(VOL);
	if (r)
		miss("cannot resume the volume: %s", strerror(-r));
	free(check_recovery(c.base_fd, all));
}

static void run_cycle(bool all)
{
	if (c.cycle % CYCLES_A_LIFE == 0)
		begin_life();
	draw_event();
	recover(all);
	run_until_crash();
	tear_down_stack();
}

/*
 * ---- main ----
 */

static void start_threads(void)
{
	static struct worker writers[NR_WRITERS];
	unsigned int i;

	for (i = 0; i < NR_WRITERS; i++) {
		writers[i].nr = i;
		writers[i].step = write_or_flush;
		start_worker(&writers[i]);
	}
	if (c.outages)
		start_thread(listener);
}

static void set_up(void)
{
	crowd.meta_sectors = device_sectors(c.meta.path);
	if (crowd.meta_sectors > MAX_META)
		crowd.meta_sectors = MAX_META;
	crowd.device_sectors = device_sectors(c.base.path);
	/* Not a whole number of segments, nor of blocks. */
	oracle_init(&c.oracle, (crowd.device_sectors < WINDOW ? crowd.device_sectors :
				WINDOW) - 1003);
	crowd.written = calloc(c.oracle.segs, sizeof(*crowd.written));
	if (!crowd.written)
		die("no memory");
	c.sectors = c.oracle.sectors;
	c.use_meta_sectors = crowd.meta_sectors;
	snprintf(c.line, sizeof(c.line), "%s %s -", BASE_NODE, META_NODE);
	crash_set_up();
	start_threads();
}

static void summary(uint64_t us)
{
	printf("%u cycles, %.1f a second\n", c.cycle, c.cycle * 1e6 / us);
	printf("%" PRIu64 " checkpoints (%" PRIu64 " over another), %" PRIu64 " commits, %"
	       PRIu64 " aborts, %" PRIu64 " marks, %" PRIu64 " reloads, %" PRIu64
	       " messages that had to do nothing\n", epochs.checkpoints, epochs.over,
	       epochs.commits, epochs.aborts, epochs.marks, count.reloads, epochs.refused);
	printf("%" PRIu64 " writes, %" PRIu64 " flushes\n", count.writes, count.flushes);
	if (c.outages)
		printf("%" PRIu64 " outages, %" PRIu64 " times lost\n", count.outages,
		       epochs.lost);
	printf("%" PRIu64 " base and %" PRIu64 " metadata sectors dropped\n",
	       c.dropped_base, c.dropped_meta);
	printf("%" PRIu64 " times only the kernel died, with %" PRIu64
	       " metadata sectors in the cache\n", c.deaths, c.left_cached);
	printf("%" PRIu64 " segments checked clean\n", epochs.clean);
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cycles", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "outages", no_argument, NULL, 'o' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	c.cycles = 100;
	if (getentropy(&c.seed, 4))
		die("no random number");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n')
			c.cycles = strtoul(optarg, NULL, 10);
		else if (opt == 's')
			c.seed = strtoull(optarg, NULL, 10);
		else if (opt == 'o')
			c.outages = true;
		else
			exit(2);
	}
	if (argc - optind != 2) {
		fprintf(stderr, "usage: crash [--cycles N] [--seed S] [--outages] BASE META\n");
		exit(2);
	}
	c.base = (struct ground){ "judge", argv[optind], "rdt" };
	c.meta = (struct ground){ "judge", argv[optind + 1], "rdt" };
}

static bool has_checked(void)
{
	return epochs.clean && epochs.commits && c.dropped_base + c.dropped_meta &&
	       c.left_cached;
}

int main(int argc, char **argv)
{
	uint64_t start;

	parse_args(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();

	printf("seed %" PRIu64 ", tick %u us\n", c.seed, c.tick_us);
	start = now_us();
	while (crash_goes_on(has_checked()))
		run_cycle(one_in(&c.random, 8));
	recover(true);
	tear_down_stack();
	summary(now_us() - start);
	crash_clean_up();
	if (!has_checked()) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
