// SPDX-License-Identifier: GPL-2.0
/*
 * What the programs that crash a volume share. See crashlib.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "lib/dm.h"
#include "crashlib.h"

static const char * const event_names[NR_EVENTS] = {
	"time", "move", "overtake", "flush", "resume", "checkpoint", "over-checkpoint",
	"commit", "abort", "mark", "reload", "remap", "table", "watch", "alias", "shed", "hydrate",
	"begin", "set", "end", "outage",
};

struct run c;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate;		/* anything under gate_lock changed */
static uint64_t crash_at;		/* us, under gate_lock; 0: not armed */

/*
 * ---- small things ----
 */

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nseed %" PRIu64 ", cycle %u, crash at: %s\n", c.seed, c.cycle,
	       event_names[c.event]);
	fflush(stdout);
	/* While threads wait for the volume we would wait for them. */
	if (dm_resume(VOL)) {
		dm_load(VOL, c.sectors, "error", "%s", "");
		dm_resume(VOL);
	}
	_exit(1);
}

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ULL + ts.tv_nsec / 1000;
}

void *xalloc(size_t size)
{
	void *p;

	if (posix_memalign(&p, BLOCK, size))
		die("no memory");
	return p;
}

void must(int r, const char *what)
{
	if (r)
		die("cannot %s: %s", what, strerror(-r));
}

int open_device(const char *name, const char *node)
{
	int fd;

	must(dm_node(name, node), "make a device node");
	fd = open(node, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("cannot open %s: %s", node, strerror(errno));
	return fd;
}

uint64_t device_sectors(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t bytes = 0;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die("cannot open %s: %s", path, strerror(errno));
	close(fd);
	return bytes / SECTOR;
}

void wipe(const char *path, uint64_t sectors)
{
	static const uint64_t step = 256;
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	void *buf = xalloc(step * SECTOR);
	uint64_t done, n;

	memset(buf, 0, step * SECTOR);
	for (done = 0; done < sectors; done += n) {
		n = sectors - done < step ? sectors - done : step;
		if (pwrite(fd, buf, n * SECTOR, done * SECTOR) != (ssize_t)(n * SECTOR))
			die("cannot wipe %s", path);
	}
	free(buf);
	close(fd);
}

void prefill(void)
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
			die("cannot fill %s", c.base.path);
		oracle_end(&c.oracle, 0, true, true);
	}
	free(buf);
}

bool may_fail(int r)
{
	return atomic_load(&c.crashing) || (c.had_outage && r == -EIO);
}

/*
 * ---- the crash ----
 */

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

void pause_us(uint64_t us)
{
	uint64_t end = now_us() + us;

	pthread_mutex_lock(&gate_lock);
	while (!atomic_load(&c.crashing) && now_us() < end)
		gate_wait(end);
	pthread_mutex_unlock(&gate_lock);
}

void arm(uint64_t delay_us)
{
	uint64_t at = now_us() + delay_us;

	pthread_mutex_lock(&gate_lock);
	/* The earliest moment counts, and only for this cycle. */
	if (!atomic_load(&c.crashing) && (!crash_at || at < crash_at))
		crash_at = at;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

enum event find_event(const char *name)
{
	enum event event = 0;

	while (event < NR_EVENTS && strcmp(name, event_names[event]))
		event++;
	return event;
}

void reached(enum event event, uint64_t *random)
{
	unsigned int n = event == AT_MOVE ? 2 : 8;

	if (!atomic_load(&c.running))
		return;
	if (event == c.event && atomic_fetch_sub(&c.event_nr, 1) == 1)
		arm(below(random, n * (c.flush_us + 2 * c.tick_us)));
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
		if (c.dies)
			must(dm_message(META, "halt on"), "halt");
		else
			must(dm_message(META, "crash %" PRIu64, rnd(&random)), "crash");
		set_flag(&c.crashed, true);
		drain();
		set_flag(&c.drained, true);
	}
	return NULL;
}

static void slow_down(const char *name, const struct ground *ground, unsigned int us)
{
	if (!strcmp(ground->type, "judge"))
		must(dm_message(name, "flush-delay %u", us), "slow down a judge");
}

static void load_error(void)
{
	must(dm_load(VOL, c.sectors, "error", "%s", ""), "load the error target");
}

void start_cycle(void)
{
	atomic_store(&c.crashed, false);
	atomic_store(&c.drained, false);
	/* Not before, as there is nothing to see in a slow recovery. */
	slow_down(BASE, &c.base, c.flush_us / 4);
	slow_down(META, &c.meta, c.flush_us);
	c.dies = !strcmp(c.meta.type, "judge") && one_in(&c.random, 3);

	pthread_mutex_lock(&gate_lock);
	c.nr_working = c.nr_workers;
	c.cycle++;
	atomic_store(&c.running, true);
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
	/* Before something else makes stable what the last kernel has left. */
	if (c.after_death && one_in(&c.random, 2))
		arm(below(&c.random, 30 * c.tick_us));
}

void wait_for_crash(void)
{
	wait_for_flag(&c.crashed);
	/* Let nobody wait for a resume, which may be refused, and all I/O fail. */
	if (dm_resume(VOL)) {
		load_error();
		must(dm_resume(VOL), "resume the error target");
	}
	wait_for_flag(&c.drained);
	atomic_store(&c.crashing, false);
	c.had_outage = false;
	c.has_outage = false;
}

void stop_work(void)
{
	set_flag(&c.crashing, true);
	set_flag(&c.crashed, true);
	pthread_mutex_lock(&gate_lock);
	while (atomic_load(&c.running))
		gate_wait(0);
	pthread_mutex_unlock(&gate_lock);
	atomic_store(&c.crashing, false);
}

/*
 * ---- workers ----
 */

static void work_until_crash(struct worker *w)
{
	w->random = c.seed + 1000 * c.cycle + w->nr;
	w->fd = open(VOL_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (w->fd < 0)
		die("cannot open %s: %s", VOL_NODE, strerror(errno));
	/* A base that is no judge goes on after the crash. */
	while (!atomic_load(&c.crashed) && w->step(w))
		;
	if (!atomic_load(&c.crashing))
		die("thread %u: an I/O failed before the crash: %s", w->nr, strerror(errno));
	close(w->fd);
}

static void *worker(void *arg)
{
	struct worker *w = arg;
	unsigned int cycle = 0;

	for (;;) {
		pthread_mutex_lock(&gate_lock);
		while (!atomic_load(&c.running) || c.cycle == cycle)
			gate_wait(0);
		cycle = c.cycle;
		pthread_mutex_unlock(&gate_lock);

		work_until_crash(w);

		pthread_mutex_lock(&gate_lock);
		if (!--c.nr_working)
			atomic_store(&c.running, false);
		pthread_cond_broadcast(&gate);
		pthread_mutex_unlock(&gate_lock);
	}
	return NULL;
}

static void start(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;

	must(-pthread_create(&thread, NULL, run, arg), "start a thread");
}

void start_worker(struct worker *w)
{
	w->buf = xalloc(MAX_IO);
	c.nr_workers++;
	start(worker, w);
}

void start_thread(void *(*run)(void *arg))
{
	start(run, NULL);
}

/*
 * ---- the stack ----
 */

void make_ground(const char *name, uint64_t sectors, const struct ground *ground)
{
	must(dm_load(name, sectors, ground->type, "%s %s", ground->path, ground->args),
	     "load a judge");
	must(dm_resume(name), "resume a judge");
}

int load_volume(void)
{
	return dm_load(VOL, c.sectors, "revdedup", "%s", c.line);
}

void build_stack(void)
{
	int r;

	c.after_death = c.dies;
	if (!c.dies) {
		make_ground(BASE, c.sectors, &c.base);
		make_ground(META, c.use_meta_sectors, &c.meta);
	}
	c.dies = false;
	r = load_volume();
	if (r)
		miss("cannot load the volume: %s", strerror(-r));
}

static void count_dropped(void)
{
	uint64_t base = 0, meta = 0;
	char line[256];

	must(dm_status(BASE, line, sizeof(line)), "get the judge's status");
	sscanf(line, "%*u %*u %*u %*u %*u %" SCNu64, &base);
	must(dm_status(META, line, sizeof(line)), "get the judge's status");
	sscanf(line, "%*u %*u %*u %*u %*u %" SCNu64, &meta);
	c.dropped_base += base;
	c.dropped_meta += meta;
}

/*
 * The disks live on, and their power fails later. The base has a flush, so that what the volume
 * says then can be taken for what it is; what is in the cache of the metadata is not stable.
 */
static void begin_afterlife(void)
{
	uint64_t cached = 0;
	char line[256];

	must(dm_message(META, "halt off"), "go on");
	must(dm_message(META, "fail-writes off"), "end the outage");
	must(dm_status(META, line, sizeof(line)), "get the judge's status");
	sscanf(line, "%*u %*u %*u %*u %" SCNu64, &cached);
	if (fsync(c.base_fd))
		die("cannot flush the base: %s", strerror(errno));
	c.deaths++;
	c.left_cached += cached;
}

static void suspend_judges(void)
{
	must(dm_suspend(BASE, DM_NOFLUSH | DM_NOLOCKFS), "suspend a judge");
	must(dm_suspend(META, DM_NOFLUSH | DM_NOLOCKFS), "suspend a judge");
}

void end_afterlife(void)
{
	if (!c.dies)
		return;
	c.dies = false;
	suspend_judges();
}

/*
 * The devices stay, as to make and remove one takes longer than all else, but
 * each gets a new table. Without a table of its own in the volume the target
 * forgets its state, as it does when the device is removed.
 */
void tear_down_stack(void)
{
	count_dropped();
	load_error();
	must(dm_suspend(VOL, DM_NOFLUSH | DM_NOLOCKFS), "suspend the volume");
	must(dm_resume(VOL), "resume the error target");
	if (c.dies)
		begin_afterlife();
	else
		suspend_judges();
	must(dm_suspend(VOL, DM_NOFLUSH | DM_NOLOCKFS), "suspend the error target");
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

void crash_set_up(void)
{
	set_up_gate();
	must(dm_open(), "open device-mapper");
	c.random = c.seed;
	c.base_raw = open(c.base.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (c.base_raw < 0)
		die("cannot open %s: %s", c.base.path, strerror(errno));
	must(dm_create(BASE), "create a judge");
	must(dm_create(META), "create a judge");
	must(dm_create(VOL), "create the volume");
	make_ground(BASE, c.sectors, &c.base);
	make_ground(META, c.use_meta_sectors, &c.meta);
	must(dm_node(META, META_NODE), "make a device node");
	must(dm_node(VOL, VOL_NODE), "make a device node");
	c.base_fd = open_device(BASE, BASE_NODE);
	c.tick_us = measure_tick();
	start_thread(crasher);
}

bool crash_goes_on(bool has_checked)
{
	return c.cycle < c.cycles || (!has_checked && c.cycle / 50 < c.cycles);
}

void crash_clean_up(void)
{
	close(c.base_fd);
	must(dm_remove(VOL), "remove the volume");
	must(dm_remove(META), "remove a judge");
	must(dm_remove(BASE), "remove a judge");
}
