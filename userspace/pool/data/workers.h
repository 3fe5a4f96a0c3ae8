/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that compute while the thread that owns them keeps the disk busy.
 * A job goes in with rd_workers_give(), and its run() is called by some thread;
 * when it has returned, done() is called by the owner, from rd_ring_wait().
 */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include "fp.h"
#include "ring.h"

struct rd_job {
	void (*run)(struct rd_job *job, struct rd_hasher *hasher);
	void (*done)(struct rd_job *job);
	void *ctx;
	struct rd_job *next;
};

struct rd_workers;

/* One thread a core. @ring must outlive them. */
int rd_workers_new(struct rd_workers **ret, struct rd_ring *ring);
/*
 * Jobs that wait are dropped, those that run are waited for. Nothing but
 * rd_ring_free() may be called for the ring after that.
 */
void rd_workers_free(struct rd_workers *workers);

void rd_workers_give(struct rd_workers *workers, struct rd_job *job);

#endif
