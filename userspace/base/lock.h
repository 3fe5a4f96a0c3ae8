/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks between commands. They are ranges of a file that the kernel drops with
 * the process, however it ends; no lock is ever stale.
 *
 * Order: pool, volumes by number, versions by number, sessions, freeing,
 * journal; then the catalog's own.
 */
#ifndef RD_LOCK_H
#define RD_LOCK_H

#include <stdbool.h>

#include "units.h"

enum rd_lock_class {
	RD_LOCK_POOL,		/* shared: any command; exclusive: repair */
	RD_LOCK_FREE,		/* who gives places back */
	RD_LOCK_JOURNAL,	/* who writes the journal */
	RD_LOCK_SESSION,	/* a session is alive */
	RD_LOCK_VOLUME,		/* who makes or deletes versions of a volume */
	RD_LOCK_VERSION,	/* shared: who reads it; exclusive: who deletes it */
};

struct rd_lock {
	int fd;
	u64 offset;
};

/* Who waits as long as this says so. */
#ifdef RD_TEST
#define RD_TELL_MS	200
#else
#define RD_TELL_MS	2000
#endif

/* @ms; in a test what REVDEDUP_PATIENCE says, in ms. */
unsigned int rd_patience_ms(unsigned int ms);

#define RD_LOCK_NONE	((struct rd_lock){ .fd = -1 })

/*
 * @fd: an open file of its own, which locks made through it belong to.
 * @wait_ms: how long to wait; 0 not at all. Returns 0, -EAGAIN or -errno.
 */
int rd_lock_take(struct rd_lock *ret, int fd, enum rd_lock_class class, u64 id,
		 bool exclusive, unsigned int wait_ms);
void rd_lock_drop(struct rd_lock *lock);

#endif
