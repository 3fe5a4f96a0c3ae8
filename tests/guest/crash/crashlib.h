/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs that crash a volume again and again share: the devices, the
 * threads that work until the crash, and the moment of the crash.
 *
 * BASE and META are judges of crashes (tests/judge) over ramdisks, VOL is a
 * revdedup device on both. The moment is the point: most faults show only in
 * the middle of something. So a cycle draws an event at which to crash (enum
 * event), and the crash comes some flush times after that event begins. In a third of the
 * cycles only the kernel dies: the next one finds on the disks what the last one has written,
 * and a later crash takes away what nobody has flushed.
 *
 * There is one run a process, and its state is in `c`.
 */
#ifndef RDT_CRASHLIB_H
#define RDT_CRASHLIB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/random.h"
#include "oracle.h"

#define BASE		"rdt-base"
#define META		"rdt-meta"
#define VOL		"rdt-vol"
#define BASE_NODE	"/dev/" BASE
#define META_NODE	"/dev/" META
#define VOL_NODE	"/dev/" VOL

#define MAX_IO		(4U << 20)
#define BLOCK		4096U
#define BLOCK_SECTORS	(BLOCK / SECTOR)
#define SLOW_US		1000		/* a tick on a slow kernel */

/* When to crash. Not every program knows all of these. */
enum event {
	AT_TIME,
	AT_MOVE,			/* of the crowd, to a clean segment */
	AT_OVERTAKE,			/* a later write was quicker than a first one */
	AT_FLUSH,
	AT_RESUME,
	AT_CHECKPOINT,
	AT_OVER_CHECKPOINT,		/* one that finds another uncommitted */
	AT_COMMIT,
	AT_ABORT,
	AT_MARK,
	AT_RELOAD,
	AT_REMAP,
	AT_TABLE,
	AT_WATCH,
	AT_ALIAS,
	AT_SHED,
	AT_HYDRATE,
	AT_BEGIN,			/* of a batch of `set` */
	AT_SET,
	AT_END,
	AT_OUTAGE,
	NR_EVENTS,
};

/* What BASE or META lies on: the line of its table. */
struct ground {
	const char *type;		/* "judge" */
	const char *path;		/* a ramdisk */
	const char *args;		/* what follows it */
};

struct run {
	/* The command line. */
	unsigned int cycles;
	uint64_t seed;
	bool outages;

	/* The stack. */
	struct ground base;
	struct ground meta;
	char line[256];			/* of VOL's table, after the target's name */
	uint64_t sectors;		/* of the volume, in this life */
	uint64_t segs;
	uint64_t use_meta_sectors;	/* of the metadata device, in this life */
	int base_raw;			/* the ramdisk */
	int base_fd;			/* the judge on it */
	unsigned int flush_us;		/* of the metadata; the base's is less */
	unsigned int tick_us;		/* what a small write takes on this kernel */

	struct oracle oracle;
	uint64_t random;		/* of the controller */

	/* A cycle. */
	unsigned int cycle;
	enum event event;
	atomic_int event_nr;		/* crash at the how-manieth of them */
	bool had_outage;		/* in this cycle: messages may fail */
	bool has_outage;		/* now */
	bool dies;			/* only the kernel; the caches of disks stay */
	bool after_death;		/* that was so in the last cycle */
	atomic_bool running;		/* until all workers have stopped */
	atomic_bool crashing;		/* from now on anything may fail */
	atomic_bool crashed;
	atomic_bool drained;		/* the crasher has nothing to do any more */
	unsigned int nr_workers;
	unsigned int nr_working;	/* under the gate's lock */

	uint64_t dropped_base;
	uint64_t dropped_meta;
	uint64_t deaths;
	uint64_t left_cached;		/* sectors of the metadata, by these */
};

extern struct run c;

/* Trouble of our own: say so and what would repeat it, and exit. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* What we look for. */
#define miss(format, ...) die("MISS: " format, ##__VA_ARGS__)

uint64_t now_us(void);
void *xalloc(size_t size);		/* aligned to a block */
void must(int r, const char *what);
int open_device(const char *name, const char *node);
uint64_t device_sectors(const char *path);
void wipe(const char *path, uint64_t sectors);

/*
 * Fill the base with a third pattern, so that neither zeros nor old data pass for
 * a lost write.
 */
void prefill(void);

/* May a message, or a suspend, fail with @r now? */
bool may_fail(int r);

/*
 * A thread that works on the volume from the start of a cycle until its crash:
 * step() does one thing, and returns false when an I/O failed, which it may only
 * after the crash has begun.
 */
struct worker {
	unsigned int nr;		/* in the oracle, too */
	bool (*step)(struct worker *w);
	uint64_t random;
	void *buf;			/* MAX_IO */
	int fd;				/* the volume */
};

void start_worker(struct worker *w);
void start_thread(void *(*run)(void *arg));

/* Crash @delay_us from now, or earlier if somebody else said so. */
void arm(uint64_t delay_us);
/* By its name; NR_EVENTS: none. */
enum event find_event(const char *name);
/* Somebody is about to do @event; @random is his. */
void reached(enum event event, uint64_t *random);
/* A pause that ends with the crash. */
void pause_us(uint64_t us);
/* Workers run from here on ... */
void start_cycle(void);
/* ... and when this returns, all is over: the crash, and what it made fail. */
void wait_for_crash(void);
/* Or without a crash. */
void stop_work(void);

/* After c.base and so on are set: the devices, and whoever crashes them. */
void crash_set_up(void);
void crash_clean_up(void);
/* After --cycles, too, while nothing was checked, as on a slow machine; to fifty times that. */
bool crash_goes_on(bool has_checked);
void make_ground(const char *name, uint64_t sectors, const struct ground *ground);
/* The judges anew, if they have crashed, and the volume's table on them, not resumed yet. */
void build_stack(void);
void tear_down_stack(void);
/* Before something is changed below the judges, which may live still. */
void end_afterlife(void);
int load_volume(void);

#endif
