/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private to tablecrash: what its controller (tablecrash_control.h) and its workers
 * (tablecrash_work.c) share.
 */
#ifndef RDT_TABLECRASH_H
#define RDT_TABLECRASH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "crashlib.h"
#include "tablecrash_pool.h"

#define NR_WRITERS	4
#define NR_WORKERS	(NR_WRITERS + 1)

/* Single blocks are taken from the first part of the pool, runs from the other. */
#define POOL_SINGLE	4096U
#define POOL_FRAMES	12U
#define POOL_BLOCKS	(POOL_SINGLE + POOL_FRAMES * SEG_BLOCKS)
/* Batches name those of the first half, so that some places are free. */
#define POOL_PACKS	6U

struct table_run {
	bool no_table;			/* the volume has no pool */
	const char *log;		/* dm-log-writes, and no crashes */
	bool no_cache;			/* in this life: of base and pool */

	/*
	 * The lock is for the pool and for messages that change the table. Who
	 * has it does no I/O to the volume, which may be suspended.
	 */
	pthread_mutex_t lock;
	struct pool pool;
	unsigned int rollbacks;		/* places before the last one are void */

	atomic_uint hot;		/* a block: where writers crowd */
};

extern struct table_run t;

struct counts {
	atomic_uint_fast64_t writes, reads, flushes, discards;
	atomic_uint_fast64_t failed_syncs;
	uint64_t remaps, remapped, settles, came_home, watches, aliases, aliased;
	uint64_t sheds, packed, pack_moves, pack_renewals;
	uint64_t hydrates, rollbacks, repeated, finished, reloads, outages;
};

extern struct counts count;

/* One thing that a thread does; see struct worker. */
bool write_step(struct worker *w);
bool table_step(struct worker *w);

/* A message; what fails and may not is a miss. */
int change(enum event event, uint64_t *random, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* With a log: a mark in it that says how far the journal is. */
void mark_log(void);

#endif
