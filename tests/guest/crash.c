// SPDX-License-Identifier: GPL-2.0
/*
 * Crash a volume again and again and see that no write was forgotten.
 *
 *   crash [--cycles N] [--seed S] [--outages] BASE META
 *
 * BASE and META are ramdisks: 64 MiB will do, from 7300 MiB on more is tried, and
 * they take memory only for what is written. On each lies the judge of crashes
 * (tests/judge), on both of them a revdedup device. Threads write to it while a
 * controller takes checkpoints, commits and aborts them, and tries what must be
 * refused. At some moment the judge crashes both devices. The stack is built
 * anew, and every 512-byte sector of each segment that the target calls clean
 * must be what it was at the last committed checkpoint. Besides, what was flushed
 * must be there, and the epochs must be what the messages said.
 *
 * The moment of the crash is the point: most faults show only in the middle of
 * something. So a cycle draws an event at which to crash (enum event), and the
 * crash comes some flush times after that event begins. Writers crowd on
 * one segment for a while and move on together to the next, so that most of the
 * time there is a first write on its way, with others to the same segment.
 *
 * With --outages the metadata device also fails writes for a while, up to and
 * over the crash. In half of the cycles somebody listens, who notes that
 * tracking is lost and says so to the target; then his note is the answer.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "dm.h"
#include "oracle.h"

#define BASE		"rdt-base"
#define META		"rdt-meta"
#define VOL		"rdt-vol"
#define BASE_NODE	"/dev/" BASE
#define META_NODE	"/dev/" META
#define VOL_NODE	"/dev/" VOL

#define NR_WRITERS	4
#define MAX_IO		(4U << 20)
#define BLOCK		4096U
#define WINDOW		(64ULL << 11)	/* sectors that are written to */
#define GAP		((512 - 64) * 8ULL * SEG_SECTORS)
#define MAX_META	(24ULL << 11)
#define CYCLES_A_LIFE	20		/* then the metadata is formatted anew */
#define SLOW_US		1000		/* a tick on a slow kernel */
#define OK_WITHIN_MS	3000		/* after an outage: retries are a second apart */

/* What the target says of itself, or should. */
struct state {
	uint64_t epoch;
	bool frozen;
	uint64_t version;
	uint64_t committed;		/* not in the status line, but we know */
};

struct copy {
	uint64_t epoch;
	uint32_t *content;
};

/* When to crash. */
enum event {
	AT_TIME,
	AT_MOVE,			/* of the crowd, to a clean segment */
	AT_OVERTAKE,			/* a later write was quicker than a first one */
	AT_RESUME,
	AT_CHECKPOINT,
	AT_OVER_CHECKPOINT,		/* one that finds another uncommitted */
	AT_COMMIT,
	AT_ABORT,
	AT_MARK,
	AT_RELOAD,
	AT_OUTAGE,
	NR_EVENTS,
};

static const char * const event_names[NR_EVENTS] = {
	"a random time", "first writes", "a write that overtook", "a resume", "a checkpoint", "a checkpoint over another",
	"a commit", "an abort", "a mark", "a reload", "an outage",
};

static struct {
	/* The command line. */
	unsigned int cycles;
	uint64_t seed;
	bool outages;
	const char *base_path;
	const char *meta_path;

	/* The stack. */
	uint64_t device_sectors;	/* of the base's ramdisk */
	uint64_t sectors;		/* of the volume, in this life */
	uint64_t segs;
	uint64_t meta_sectors;		/* of the metadata's ramdisk */
	uint64_t use_meta_sectors;	/* of them, in this life */
	int base_raw;			/* the ramdisk */
	int base_fd;			/* the judge on it */
	unsigned int flush_us;		/* of the metadata; the base's is less */
	unsigned int tick_us;		/* what a small write takes on this kernel */

	/* The model. */
	struct oracle oracle;
	struct state now;		/* by the last answer */
	struct state maybe[8];		/* where messages failed: also possible */
	unsigned int nr_maybe;
	struct copy copies[3];		/* committed, and what may become it */
	bool may_commit;		/* the frozen checkpoint was acknowledged */
	uint64_t next_version;
	bool noted;			/* the listener's note: tracking is lost */
	uint64_t distrust;		/* by that note: commits before this epoch */
	uint64_t lost_until;		/* ok again when this epoch is committed */
	bool had_outage;		/* in this cycle: messages may fail */
	bool has_outage;		/* now */

	/* A cycle. */
	unsigned int cycle;
	enum event event;
	unsigned int event_nr;		/* crash at the how-manieth of them */
	bool listen;
	atomic_bool running;		/* until all writers have stopped */
	atomic_bool crashing;		/* from now on anything may fail */
	atomic_bool crashed;
	atomic_bool drained;		/* the crasher has nothing to do any more */
	unsigned int nr_writing;	/* under gate_lock */
	atomic_uint hot_seg;
	atomic_bool *written;		/* a segment: since the last checkpoint, about */
	atomic_uint first_seg[NR_WRITERS]; /* first write to it is under way; + 1 */
	uint64_t random;		/* of the controller */
} c = {
	.cycles = 100,
};

static struct {
	uint64_t checkpoints, over, commits, aborts, marks, refused, reloads, outages;
	uint64_t lost, writes, flushes, dropped_base, dropped_meta, clean;
} count;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate;		/* anything under gate_lock changed */

/*
 * ---- small things ----
 */

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nseed %" PRIu64 ", cycle %u, crash at %s\n", c.seed, c.cycle,
	       event_names[c.event]);
	fflush(stdout);
	_exit(1);
}

/* What we look for, as against trouble of our own. */
#define miss(format, ...) die("MISS: " format, ##__VA_ARGS__)

static uint64_t rnd(uint64_t *state)
{
	/* splitmix64 */
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t below(uint64_t *state, uint64_t limit)
{
	return rnd(state) % limit;
}

static bool one_in(uint64_t *state, unsigned int n)
{
	return !below(state, n);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ULL + ts.tv_nsec / 1000;
}

static void *xalloc(size_t size)
{
	void *p;

	if (posix_memalign(&p, BLOCK, size))
		die("no memory");
	return p;
}

static void must(int r, const char *what)
{
	if (r)
		die("cannot %s: %s", what, strerror(-r));
}

static int open_device(const char *name, const char *node)
{
	int fd;

	must(dm_node(name, node), "make a device node");
	fd = open(node, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("cannot open %s: %s", node, strerror(errno));
	return fd;
}

/*
 * ---- the crash ----
 */

static uint64_t crash_at;		/* us, under gate_lock; 0: not armed */

static void set_up_gate(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&gate, &attr);
}

/* Until something changes or, if that is not 0, the time is @us. */
static void gate_wait(uint64_t us)
{
	struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

	if (us)
		pthread_cond_timedwait(&gate, &gate_lock, &ts);
	else
		pthread_cond_wait(&gate, &gate_lock);
}

static void set_flag(atomic_bool *flag, bool value)
{
	pthread_mutex_lock(&gate_lock);
	atomic_store(flag, value);
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

static void wait_for_flag(atomic_bool *flag)
{
	pthread_mutex_lock(&gate_lock);
	while (!atomic_load(flag))
		gate_wait(0);
	pthread_mutex_unlock(&gate_lock);
}

static void arm(uint64_t delay_us)
{
	uint64_t at = now_us() + delay_us;

	pthread_mutex_lock(&gate_lock);
	/* The earliest moment counts, and only for this cycle. */
	if (!atomic_load(&c.crashing) && (!crash_at || at < crash_at))
		crash_at = at;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

/* The controller is about to do @event. */
static void reached(enum event event)
{
	unsigned int n = event == AT_MOVE ? 2 : 8;

	if (event == c.event && !--c.event_nr)
		arm(below(&c.random, n * (c.flush_us + 2 * c.tick_us)));
}

/*
 * After the crash first writes wait for metadata that never comes. A note lets
 * them go, and fail.
 */
static void drain(void)
{
	pthread_mutex_lock(&gate_lock);
	while (atomic_load(&c.running)) {
		pthread_mutex_unlock(&gate_lock);
		dm_message(VOL, "lost-noted");
		pthread_mutex_lock(&gate_lock);
		if (atomic_load(&c.running))
			gate_wait(now_us() + 1000);
	}
	pthread_mutex_unlock(&gate_lock);
}

static void wait_for_moment(void)
{
	pthread_mutex_lock(&gate_lock);
	while (!crash_at || now_us() < crash_at)
		gate_wait(crash_at);
	crash_at = 0;
	atomic_store(&c.crashing, true);
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

static void *crasher(void *arg)
{
	uint64_t random = c.seed ^ 0xc4a54;

	(void)arg;
	for (;;) {
		wait_for_moment();
		must(dm_message(BASE, "crash %" PRIu64, rnd(&random)), "crash");
		set_flag(&c.crashed, true);
		drain();
		set_flag(&c.drained, true);
	}
	return NULL;
}

/*
 * ---- writers ----
 */

struct writer {
	unsigned int nr;
	uint64_t random;
	void *buf;
	int fd;
};

/* Where to write: mostly where everybody is, and across the borders, too. */
static void choose_range(struct writer *w, struct op *op)
{
	static const unsigned int limits[] = { 1, 8, 8, 16, 128, 128, 1024, 8192 };
	/* On a debug kernel large ones would take all the time. */
	bool small = c.tick_us > SLOW_US && !one_in(&w->random, 8);
	unsigned int limit = limits[below(&w->random, small ? 6 : 8)];
	uint64_t seg = one_in(&w->random, 8) ? below(&w->random, c.oracle.segs) :
					       atomic_load(&c.hot_seg);
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

static bool write_data(struct writer *w, const struct op *op, bool sync)
{
	struct iovec iov = { w->buf, op->sectors * SECTOR };

	op_fill(op, w->buf);
	return pwritev2(w->fd, &iov, 1, oracle_place(&c.oracle, op->first) * SECTOR,
			sync ? RWF_DSYNC : 0) == (ssize_t)iov.iov_len;
}

static bool write_zeros(struct writer *w, const struct op *op)
{
	uint64_t range[2] = {
		oracle_place(&c.oracle, op->first) * SECTOR, op->sectors * SECTOR,
	};

	return !ioctl(w->fd, one_in(&w->random, 2) ? BLKDISCARD : BLKZEROOUT, range);
}

static void note_begin(struct writer *w, const struct op *op)
{
	uint64_t seg, last = (op->first + op->sectors - 1) / SEG_SECTORS;

	for (seg = op->first / SEG_SECTORS; seg <= last; seg++)
		if (!atomic_exchange(&c.written[seg], true))
			atomic_store(&c.first_seg[w->nr], seg + 1);
}

/*
 * A write that is acknowledged while an earlier one, the first to the segment,
 * still waits, may be one that saw a bit too early.
 */
static void note_end(struct writer *w, const struct op *op)
{
	uint64_t seg = op->first / SEG_SECTORS;
	unsigned int i;

	atomic_store(&c.first_seg[w->nr], 0);
	if (c.event != AT_OVERTAKE)
		return;
	for (i = 0; i < NR_WRITERS; i++)
		if (atomic_load(&c.first_seg[i]) == seg + 1)
			arm(below(&w->random, c.flush_us / 2 + 1));
}

static bool write_some(struct writer *w)
{
	bool sync = one_in(&w->random, 8);
	struct op op;
	bool good;

	choose_range(w, &op);
	op.zeros = one_in(&w->random, 6);
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	note_begin(w, &op);
	good = op.zeros ? write_zeros(w, &op) : write_data(w, &op, sync);
	oracle_end(&c.oracle, w->nr, good, sync && !op.zeros);
	note_end(w, &op);
	__atomic_add_fetch(&count.writes, 1, __ATOMIC_RELAXED);
	return good;
}

static bool flush_all(struct writer *w)
{
	size_t mark = oracle_flush_begin(&c.oracle);

	if (fsync(w->fd))
		return false;
	oracle_flush_end(&c.oracle, mark);
	__atomic_add_fetch(&count.flushes, 1, __ATOMIC_RELAXED);
	return true;
}

static void write_until_crash(struct writer *w)
{
	for (;;) {
		/*
		 * Not all at once to each new segment: some shall come while
		 * the bits for the others are on their way.
		 */
		if (one_in(&w->random, 3))
			usleep(below(&w->random, c.flush_us + 4 * c.tick_us));
		if (one_in(&w->random, 20) ? flush_all(w) : write_some(w))
			continue;
		if (!atomic_load(&c.crashing))
			die("writer %u: an I/O failed before the crash: %s", w->nr,
			    strerror(errno));
		return;
	}
}

static void *writer(void *arg)
{
	struct writer *w = arg;
	unsigned int cycle = 0;

	for (;;) {
		pthread_mutex_lock(&gate_lock);
		while (!atomic_load(&c.running) || c.cycle == cycle)
			gate_wait(0);
		cycle = c.cycle;
		pthread_mutex_unlock(&gate_lock);

		w->random = c.seed + 1000 * cycle + w->nr;
		w->fd = open(VOL_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (w->fd < 0)
			die("cannot open %s: %s", VOL_NODE, strerror(errno));
		write_until_crash(w);
		close(w->fd);
		pthread_mutex_lock(&gate_lock);
		if (!--c.nr_writing)
			atomic_store(&c.running, false);
		pthread_cond_broadcast(&gate);
		pthread_mutex_unlock(&gate_lock);
	}
	return NULL;
}

/*
 * ---- status ----
 */

static int get_status(struct state *state, bool *lost, uint64_t *dirty)
{
	char line[256], frozen[32], tracking[16];
	uint64_t total;
	int r = dm_status(VOL, line, sizeof(line));

	if (r)
		return r;
	if (sscanf(line, "1 %" SCNu64 " %31s %" SCNu64 " %" SCNu64 "/%" SCNu64
		   " %*u %*u %*u %*u %15s", &state->epoch, frozen, &state->version, dirty,
		   &total, tracking) != 6)
		die("cannot understand the status line '%s'", line);
	state->frozen = strcmp(frozen, "-");
	*lost = !strcmp(tracking, "lost");
	if (state->frozen && strtoull(frozen, NULL, 10) != state->epoch)
		miss("frozen checkpoint %s in epoch %" PRIu64, frozen, state->epoch);
	if (total != c.segs)
		miss("%" PRIu64 " segments, not %" PRIu64, total, c.segs);
	if (!*lost && strcmp(tracking, "ok"))
		miss("tracking is '%s'", tracking);
	return 0;
}

static bool same_state(const struct state *a, const struct state *b)
{
	return a->epoch == b->epoch && a->frozen == b->frozen && a->version == b->version;
}

/* Take for true what the target says, if it can be. */
static void adopt_state(const struct state *said)
{
	unsigned int i;

	if (same_state(said, &c.now))
		return;
	for (i = 0; i < c.nr_maybe; i++) {
		if (same_state(said, &c.maybe[i])) {
			struct state old = c.now;

			c.now = c.maybe[i];
			c.maybe[i] = old;
			return;
		}
	}
	miss("state is epoch %" PRIu64 "%s, version %" PRIu64 "; should be epoch %" PRIu64
	     "%s, version %" PRIu64 ", or one of %u others", said->epoch,
	     said->frozen ? " frozen" : "", said->version, c.now.epoch,
	     c.now.frozen ? " frozen" : "", c.now.version, c.nr_maybe);
}

/*
 * ---- messages ----
 */

static struct copy *find_copy(uint64_t epoch)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (c.copies[i].content && c.copies[i].epoch == epoch)
			return &c.copies[i];
	return NULL;
}

/* Three are enough: of the committed epoch, the frozen one, and this one. */
static void add_copy(uint64_t epoch, uint32_t *content)
{
	struct copy *copy = find_copy(epoch);
	unsigned int i;

	for (i = 0; !copy && i < 3; i++) {
		uint64_t e = c.copies[i].epoch;

		if (!c.copies[i].content || (e != c.now.committed && e != c.now.epoch))
			copy = &c.copies[i];
	}
	if (!copy)
		die("no place for another copy");
	free(copy->content);
	copy->epoch = epoch;
	copy->content = content;
}

static bool may_fail(int r)
{
	return atomic_load(&c.crashing) || (c.had_outage && r == -EIO);
}

static void add_maybe(const struct state *state)
{
	unsigned int i;

	for (i = 0; i < c.nr_maybe; i++)
		if (same_state(state, &c.maybe[i]))
			return;
	if (i == sizeof(c.maybe) / sizeof(c.maybe[0]))
		die("too many messages failed in a row");
	c.maybe[c.nr_maybe++] = *state;
}

/*
 * Send what takes the target from c.now to @next, in one step or through
 * @between. After an error it may have been done or not.
 */
static bool change_state(const struct state *next, const struct state *between,
			 const char *message)
{
	int r;

	if (between)
		add_maybe(between);
	add_maybe(next);
	r = dm_message(VOL, "%s", message);
	if (!r) {
		c.now = *next;
		c.nr_maybe = 0;
		return true;
	}
	if (!may_fail(r))
		miss("'%s' failed: %s", message, strerror(-r));
	return false;
}

/* Send what must be refused or, with @r = 0, do nothing. */
static void try_message(int want, const char *format, ...)
{
	char message[128];
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	r = dm_message(VOL, "%s", message);
	if (r == want)
		count.refused++;
	else if (!may_fail(r))
		miss("'%s' in epoch %" PRIu64 "%s gave %d (%s), not %d", message,
		     c.now.epoch, c.now.frozen ? " frozen" : "", r, strerror(-r), want);
	else if (!r)
		miss("'%s' was taken", message);
}

/* Epochs that are not the frozen one. */
static void try_wrong_epochs(void)
{
	uint64_t version = c.next_version + 1000000;

	try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, c.now.epoch + 1, version);
	if (c.now.epoch)
		try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, c.now.epoch - 1, version);
	try_message(-EINVAL, "abort %" PRIu64, c.now.epoch + 1);
}

static void commit(void)
{
	struct state next = c.now;
	char message[64];

	if (one_in(&c.random, 4))
		try_wrong_epochs();
	next.frozen = false;
	next.committed = next.epoch;
	next.version = ++c.next_version;
	snprintf(message, sizeof(message), "commit %" PRIu64 " %" PRIu64, next.epoch,
		 next.version);
	reached(AT_COMMIT);
	if (!change_state(&next, NULL, message))
		return;
	count.commits++;
	if (one_in(&c.random, 4)) {
		try_message(0, "%s", message);
		try_message(-EINVAL, "%s1", message);
		try_message(-EINVAL, "abort %" PRIu64, c.now.epoch);
	}
}

static void abort_checkpoint(void)
{
	struct state next = c.now;
	char message[64];

	next.frozen = false;
	snprintf(message, sizeof(message), "abort %" PRIu64, next.epoch);
	reached(AT_ABORT);
	if (!change_state(&next, NULL, message))
		return;
	count.aborts++;
	if (one_in(&c.random, 4)) {
		try_message(0, "%s", message);
		try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, c.now.epoch,
			    c.next_version + 1000000);
	}
}

/* The device is suspended. */
static void checkpoint(void)
{
	struct state between = c.now, next = c.now;
	uint32_t *content = oracle_copy(&c.oracle, c.base_fd);
	bool over = c.now.frozen;
	char message[64];
	uint64_t seg;

	if (!content) {
		if (!may_fail(0))
			die("cannot read the base");
		return;
	}

	if (one_in(&c.random, 4)) {
		try_message(-EINVAL, "checkpoint %" PRIu64, c.now.epoch);
		try_message(-EINVAL, "checkpoint %" PRIu64, c.now.epoch + 2);
	}
	between.frozen = false;
	next.epoch++;
	next.frozen = true;
	c.may_commit = false;
	add_copy(next.epoch, content);
	snprintf(message, sizeof(message), "checkpoint %" PRIu64, next.epoch);
	reached(over ? AT_OVER_CHECKPOINT : AT_CHECKPOINT);
	if (!change_state(&next, over ? &between : NULL, message))
		return;
	c.may_commit = true;
	for (seg = 0; seg < c.oracle.segs; seg++)
		atomic_store(&c.written[seg], false);
	count.checkpoints++;
	count.over += over;
	if (one_in(&c.random, 4))
		try_message(0, "%s", message);
}

static int resume(void)
{
	reached(AT_RESUME);
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

static int load_volume(void)
{
	return dm_load(VOL, c.sectors, "revdedup", "%s %s -", BASE_NODE, META_NODE);
}

static void reload(void)
{
	int r;

	reached(AT_RELOAD);
	r = load_volume();
	if (r && !may_fail(r))
		miss("reload failed: %s", strerror(-r));
	if (r)
		return;
	suspended(one_in(&c.random, 2) ? checkpoint : NULL);
	count.reloads++;
}

static uint64_t place_seg(uint64_t seg)
{
	return oracle_place(&c.oracle, seg * SEG_SECTORS) / SEG_SECTORS;
}

/*
 * From here on the segments count as changed: their content differs from what
 * it was at every checkpoint that there was.
 */
static void mark(void)
{
	uint64_t seg = below(&c.random, c.oracle.segs), i;
	uint64_t half = c.oracle.half / SEG_SECTORS;
	uint64_t left = (seg < half ? half : c.oracle.segs) - seg;
	uint64_t n = 1 + below(&c.random, left < 4 ? left : 4);
	int r;

	reached(AT_MARK);
	r = dm_message(VOL, "mark %" PRIx64 ",%" PRIx64, place_seg(seg), n);
	if (r && !may_fail(r))
		miss("mark failed: %s", strerror(-r));
	if (r)
		return;
	count.marks++;
	for (i = 0; i < 3 * n; i++)
		if (c.copies[i / n].content)
			c.copies[i / n].content[(seg + i % n) * SEG_SECTORS] = WORD_NOTHING;
	try_message(-EINVAL, "mark %" PRIx64 ",1", c.segs);
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

/* A pause that ends with the crash. */
static void pause_us(uint64_t us)
{
	uint64_t end = now_us() + us;

	pthread_mutex_lock(&gate_lock);
	while (!atomic_load(&c.crashing) && now_us() < end)
		gate_wait(end);
	pthread_mutex_unlock(&gate_lock);
}

/* The metadata can be written again: the target must find out by itself. */
static void expect_ok(void)
{
	uint64_t end = now_us() + OK_WITHIN_MS * 1000;
	struct state said;
	uint64_t dirty;
	bool lost;

	/* Where it was lost before the last crash, the target stays so. */
	if (c.now.committed < c.lost_until)
		return;
	do {
		pause_us(10000);
		if (atomic_load(&c.crashing))
			return;
		must(get_status(&said, &lost, &dirty), "get the status");
		if (!lost) {
			adopt_state(&said);
			c.nr_maybe = 0;
			return;
		}
	} while (now_us() < end);
	miss("tracking is still lost %d ms after the outage", OK_WITHIN_MS);
}

static void outage(void)
{
	c.had_outage = true;
	c.has_outage = true;
	fail_writes();
	reached(AT_OUTAGE);
	count.outages++;
	pause_us(below(&c.random, one_in(&c.random, 4) ? 1500000 : 30000));
	if (atomic_load(&c.crashing))
		return;
	/* A message may fail now, and the state must stay known. */
	if (one_in(&c.random, 2))
		suspended(checkpoint);
	else if (c.now.frozen && c.may_commit)
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
 * Notes the loss first and tells the target then, as the controller would. Once
 * tracking is ok again all bits are stable, and the note is void.
 */
static void *listener(void *arg)
{
	struct state said;
	uint64_t dirty;
	bool lost;

	(void)arg;
	for (;;) {
		usleep(1000);
		if (!atomic_load(&c.running) || atomic_load(&c.crashing) || !c.listen)
			continue;
		if (get_status(&said, &lost, &dirty) || atomic_load(&c.crashing))
			continue;
		__atomic_store_n(&c.noted, lost, __ATOMIC_SEQ_CST);
		if (lost)
			dm_message(VOL, "lost-noted");
	}
	return NULL;
}

/*
 * ---- a cycle ----
 */

static void make_table(const char *name, uint64_t sectors, const char *path)
{
	must(dm_load(name, sectors, "judge", "%s rdt", path), "load a judge");
	must(dm_resume(name), "resume a judge");
}

static void build_stack(void)
{
	int r;

	make_table(BASE, c.sectors, c.base_path);
	make_table(META, c.use_meta_sectors, c.meta_path);
	r = load_volume();
	if (r)
		miss("cannot load the volume: %s", strerror(-r));
	r = dm_resume(VOL);
	if (r)
		miss("cannot resume the volume: %s", strerror(-r));
}

/*
 * The devices stay, as to make and remove one takes longer than all else, but
 * each gets a new table. Without a table of its own in the volume the target
 * forgets its state, as it does when the device is removed.
 */
static void tear_down_stack(void)
{
	must(dm_load(VOL, c.sectors, "error", "%s", ""), "load the error target");
	must(dm_suspend(VOL, DM_NOFLUSH | DM_NOLOCKFS), "suspend the volume");
	must(dm_resume(VOL), "resume the error target");
	must(dm_suspend(BASE, DM_NOFLUSH | DM_NOLOCKFS), "suspend a judge");
	must(dm_suspend(META, DM_NOFLUSH | DM_NOLOCKFS), "suspend a judge");
	must(dm_suspend(VOL, DM_NOFLUSH | DM_NOLOCKFS), "suspend the error target");
}

static void count_dropped(void)
{
	uint64_t base = 0, meta = 0;
	char line[256];

	must(dm_status(BASE, line, sizeof(line)), "get the judge's status");
	sscanf(line, "%*u %*u %*u %*u %*u %" SCNu64, &base);
	must(dm_status(META, line, sizeof(line)), "get the judge's status");
	sscanf(line, "%*u %*u %*u %*u %*u %" SCNu64, &meta);
	count.dropped_base += base;
	count.dropped_meta += meta;
}

/* Mostly a checkpoint and its commit in turn, as only commits make clean. */
static void turn_epoch(void)
{
	unsigned int dice = below(&c.random, 10);

	if (!c.now.frozen || dice < 2)
		suspended(checkpoint);
	else if (dice < 4)
		abort_checkpoint();
	else if (c.may_commit)
		commit();
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
		turn_epoch();
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
		if (!atomic_load(&c.written[seg]))
			break;
	}
	/* What is frozen is dirty, too, so most can be seen after a commit. */
	if (tries < 16 && (!c.now.frozen || one_in(&c.random, 4)))
		reached(AT_MOVE);
	atomic_store(&c.hot_seg, seg);
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
	/* Let nobody wait for a resume, and all I/O fail. */
	wait_for_flag(&c.crashed);
	dm_resume(VOL);
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
		c.event = below(&c.random, c.outages ? NR_EVENTS : AT_OUTAGE);
	c.event_nr = 1 + below(&c.random, c.event == AT_MOVE ? 12 :
					  c.event == AT_RESUME ? 4 : 2);
	c.flush_us = flush_us[c.event == AT_OVERTAKE ? 4 : below(&c.random, 5)];
}

static void run_until_crash(void)
{
	c.listen = c.outages && one_in(&c.random, 2);
	c.had_outage = false;
	c.has_outage = false;
	atomic_store(&c.crashing, false);
	atomic_store(&c.crashed, false);
	atomic_store(&c.drained, false);
	c.nr_writing = NR_WRITERS;
	/* Not before, as there is nothing to see in a slow recovery. */
	must(dm_message(BASE, "flush-delay %u", c.flush_us / 4), "slow down a judge");
	must(dm_message(META, "flush-delay %u", c.flush_us), "slow down a judge");

	pthread_mutex_lock(&gate_lock);
	c.cycle++;
	atomic_store(&c.running, true);
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);

	/* Also where the event does not come. */
	arm(c.event == AT_TIME ? below(&c.random, 800 * c.tick_us) :
				 1000 * c.tick_us + (c.outages ? 3000000 : 0));
	control_until_crash();
	wait_for_flag(&c.drained);
}

/*
 * ---- after the crash ----
 */

/* Ask for the dirty segments of @set, page by page. */
static uint64_t get_dirty(const char *set, bool *dirty)
{
	uint64_t first = 0, next, start, len, total = 0;
	char reply[8192], *p, *q;

	while (first < c.segs) {
		int r = dm_ask(VOL, reply, sizeof(reply), "dirty %s %" PRIu64 " 100000", set,
			       first);

		if (r)
			miss("'dirty %s' failed: %s", set, strerror(-r));
		p = strchr(reply, ' ');
		if (!p || sscanf(p, " %" SCNu64, &next) != 1 || next <= first)
			miss("'dirty %s' gave '%s'", set, reply);
		*p = '\0';
		for (p = strtok_r(reply, ";", &q); p && *p != '-'; p = strtok_r(NULL, ";", &q)) {
			if (sscanf(p, "%" SCNx64 ",%" SCNx64, &start, &len) != 2)
				miss("'dirty %s' gave '%s'", set, p);
			for (; len--; total++)
				dirty[start++] = true;
		}
		first = next;
	}
	return total;
}

static void check_clean(const bool *dirty)
{
	struct copy *copy = find_copy(c.now.committed);
	uint64_t seg, sector;

	for (seg = 0; seg < c.oracle.segs; seg++) {
		if (dirty[place_seg(seg)])
			continue;
		if (!c.now.committed || !copy)
			miss("segment %" PRIu64 " is clean, and nothing is committed", seg);
		if (!oracle_equals(&c.oracle, copy->content, seg, &sector))
			miss("segment %" PRIu64 " is clean, but sector %" PRIu64
			     " holds write %#x, and at checkpoint %" PRIu64
			     " it was %#x (epoch is %" PRIu64 "%s)", seg, sector,
			     c.oracle.content[sector], copy->epoch, copy->content[sector],
			     c.now.epoch, c.now.frozen ? " frozen" : "");
		count.clean++;
	}
}

static void check_recovery(bool all)
{
	bool *dirty = calloc(c.segs, sizeof(*dirty));
	uint64_t nr_dirty, nr;
	struct state said;
	bool lost;

	must(get_status(&said, &lost, &nr_dirty), "get the status");
	adopt_state(&said);
	c.nr_maybe = 0;
	/* A checkpoint without an answer has no snapshot that could be committed. */
	if (c.now.frozen && !(find_copy(c.now.epoch)))
		c.may_commit = false;

	if (oracle_recover(&c.oracle, c.base_raw, all))
		miss("the base lost what was flushed");
	nr = get_dirty("current", dirty);
	if (nr != nr_dirty)
		miss("%" PRIu64 " segments are dirty, the status says %" PRIu64, nr, nr_dirty);
	if (lost && nr != c.segs)
		miss("tracking is lost, and %" PRIu64 " segments are clean", c.segs - nr);
	if (c.now.frozen)
		get_dirty("frozen", dirty);
	if (c.noted)
		c.distrust = c.now.epoch + 1;
	if (lost)
		c.lost_until = c.now.epoch + 1;
	if (lost || c.now.committed < c.distrust)
		count.lost++;
	if (c.now.committed >= c.distrust)
		check_clean(dirty);
	c.noted = false;
	free(dirty);
}

static void wipe(const char *path, uint64_t sectors)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	void *buf = xalloc(BLOCK);
	uint64_t i;

	memset(buf, 0, BLOCK);
	for (i = 0; i + 8 <= sectors; i += 8)
		if (pwrite(fd, buf, BLOCK, i * SECTOR) != BLOCK)
			die("cannot wipe %s", path);
	free(buf);
	close(fd);
}

/* A third pattern, so that neither zeros nor old data pass for a lost write. */
static void prefill(void)
{
	struct op op = { .sectors = SEG_SECTORS };
	void *buf = xalloc(op.sectors * SECTOR);

	for (; op.first < c.oracle.sectors; op.first += op.sectors) {
		if (op.sectors > c.oracle.sectors - op.first)
			op.sectors = c.oracle.sectors - op.first;
		if (!oracle_begin(&c.oracle, 0, &op))
			die("cannot begin");
		op_fill(&op, buf);
		if (pwrite(c.base_raw, buf, op.sectors * SECTOR,
			   oracle_place(&c.oracle, op.first) * SECTOR) < 0)
			die("cannot fill %s", c.base_path);
		oracle_end(&c.oracle, 0, true, true);
	}
	free(buf);
}

/*
 * New metadata: of the least size, or with room for the remap table. With or
 * without a gap, behind which the bits are in another sector of their block, so
 * that a crash can tear it.
 */
static void begin_life(void)
{
	c.oracle.gap = 0;
	if (c.device_sectors > GAP + c.oracle.sectors && one_in(&c.random, 2))
		c.oracle.gap = GAP;
	c.sectors = c.oracle.sectors + c.oracle.gap;
	c.segs = place_seg(c.oracle.segs - 1) + 1;
	c.use_meta_sectors = one_in(&c.random, 2) ? 4 * 8 : c.meta_sectors;
	wipe(c.meta_path, c.meta_sectors);
	prefill();
	memset(&c.now, 0, sizeof(c.now));
	c.nr_maybe = 0;
	c.distrust = 0;
	c.lost_until = 0;
	c.may_commit = false;
}

static void run_cycle(bool all)
{
	if (c.cycle % CYCLES_A_LIFE == 0)
		begin_life();
	draw_event();
	build_stack();
	check_recovery(all);
	run_until_crash();
	count_dropped();
	tear_down_stack();
}

/* The same, but to look only. */
static void check_last(void)
{
	build_stack();
	check_recovery(true);
	tear_down_stack();
}

/*
 * ---- main ----
 */

static uint64_t device_sectors(int fd)
{
	uint64_t bytes = 0;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die("cannot open a device: %s", strerror(errno));
	return bytes / SECTOR;
}

/*
 * Debug kernels are slow; the rhythm of all that happens follows. The least
 * counts, as whatever else the machine does is not the kernel's.
 */
static unsigned int measure_tick(void)
{
	struct op op = { .sectors = 32, .stamp = 1 };
	void *buf = xalloc(op.sectors * SECTOR);
	unsigned int i, least = 5000;

	op_fill(&op, buf);
	for (i = 0; i < 32; i++) {
		uint64_t start = now_us(), took;

		if (pwrite(c.base_fd, buf, op.sectors * SECTOR, 0) < 0)
			die("cannot write to a judge: %s", strerror(errno));
		took = now_us() - start;
		if (took < least)
			least = took;
	}
	free(buf);
	return least < 200 ? 200 : least;
}

static void start_threads(void)
{
	static struct writer writers[NR_WRITERS];
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < NR_WRITERS; i++) {
		writers[i].nr = i;
		writers[i].buf = xalloc(MAX_IO);
		must(-pthread_create(&thread, NULL, writer, &writers[i]), "start a thread");
	}
	must(-pthread_create(&thread, NULL, crasher, NULL), "start a thread");
	if (c.outages)
		must(-pthread_create(&thread, NULL, listener, NULL), "start a thread");
}

static void set_up(void)
{
	int meta = open(c.meta_path, O_RDWR | O_CLOEXEC);

	set_up_gate();
	must(dm_open(), "open device-mapper");
	c.meta_sectors = device_sectors(meta);
	close(meta);
	if (c.meta_sectors > MAX_META)
		c.meta_sectors = MAX_META;
	c.base_raw = open(c.base_path, O_RDWR | O_DIRECT | O_CLOEXEC);
	c.device_sectors = device_sectors(c.base_raw);
	/* Not a whole number of segments, nor of blocks. */
	oracle_init(&c.oracle, (c.device_sectors < WINDOW ? c.device_sectors : WINDOW) - 1003);
	c.sectors = c.oracle.sectors;
	c.written = calloc(c.oracle.segs, sizeof(*c.written));
	if (!c.written)
		die("no memory");

	c.random = c.seed;
	must(dm_create(BASE), "create a judge");
	must(dm_create(META), "create a judge");
	must(dm_create(VOL), "create the volume");
	c.use_meta_sectors = c.meta_sectors;
	make_table(BASE, c.sectors, c.base_path);
	make_table(META, c.meta_sectors, c.meta_path);
	must(dm_node(META, META_NODE), "make a device node");
	must(dm_node(VOL, VOL_NODE), "make a device node");
	c.base_fd = open_device(BASE, BASE_NODE);
	c.tick_us = measure_tick();
	start_threads();
}

static void summary(uint64_t us)
{
	printf("%u cycles, %.1f a second\n", c.cycle, c.cycle * 1e6 / us);
	printf("%" PRIu64 " checkpoints (%" PRIu64 " over another), %" PRIu64 " commits, %"
	       PRIu64 " aborts, %" PRIu64 " marks, %" PRIu64 " reloads, %" PRIu64
	       " messages that had to do nothing\n", count.checkpoints, count.over,
	       count.commits, count.aborts, count.marks, count.reloads, count.refused);
	printf("%" PRIu64 " writes, %" PRIu64 " flushes\n", count.writes, count.flushes);
	if (c.outages)
		printf("%" PRIu64 " outages, %" PRIu64 " times lost\n", count.outages,
		       count.lost);
	printf("%" PRIu64 " base and %" PRIu64 " metadata sectors dropped\n",
	       count.dropped_base, count.dropped_meta);
	printf("%" PRIu64 " segments checked clean\n", count.clean);
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
	c.base_path = argv[optind];
	c.meta_path = argv[optind + 1];
}

int main(int argc, char **argv)
{
	uint64_t start;

	parse_args(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();

	printf("seed %" PRIu64 ", tick %u us\n", c.seed, c.tick_us);
	start = now_us();
	while (c.cycle < c.cycles)
		run_cycle(one_in(&c.random, 8));
	check_last();
	summary(now_us() - start);
	close(c.base_fd);
	must(dm_remove(VOL), "remove the volume");
	must(dm_remove(META), "remove a judge");
	must(dm_remove(BASE), "remove a judge");
	if (!count.clean || !count.commits || !(count.dropped_base + count.dropped_meta)) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
