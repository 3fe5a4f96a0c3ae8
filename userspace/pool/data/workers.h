/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that compute while the thread that owns them keeps the disk busy. The owner
 * gives a job to rd_workers_give(), and one of the threads calls run(). When run() has
 * returned, the owner calls done(), from rd_ring_wait().
 */
#ifndef RD_WORKERS_H
#define RD_WORKERS_H

#include "fp.h"
#include "pack.h"
#include "ring.h"

/* What a thread has for its jobs. */
struct rd_thread {
	struct rd_hasher *hasher;
	struct rd_packer *packer;
};

struct rd_job {
	void (*run)(struct rd_job *job, struct rd_thread *thread);
	void (*done)(struct rd_job *job);
	void *ctx;
	struct rd_job *next;
};

struct rd_workers;

/*
 * Start one thread a core. @ring must outlive them. NULL: an owner that waits for something else
 * calls rd_workers_reap(), instead of rd_ring_wait(), when rd_workers_fd() can be read.
 */
int rd_workers_new(struct rd_workers **ret, struct rd_ring *ring);
int rd_workers_fd(const struct rd_workers *workers);
void rd_workers_reap(struct rd_workers *workers);
/*
 * Drop the jobs that wait, wait for those that run, and end the threads. After that the
 * owner may call nothing but rd_ring_free() for the ring.
 */
void rd_workers_free(struct rd_workers *workers);

void rd_workers_give(struct rd_workers *workers, struct rd_job *job);

#endif
