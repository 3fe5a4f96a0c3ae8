/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks between commands: locks on ranges of a file. The kernel drops them when the
 * process ends in any way, so no lock is ever stale.
 *
 * Order: pool, the pass, volumes by number, versions by number, sessions, freeing, journal, index;
 * then the catalog's own lock.
 */
#ifndef RD_LOCK_H
#define RD_LOCK_H

#include <stdbool.h>

#include "units.h"

enum rd_lock_class {
	RD_LOCK_POOL,		/* shared: any command; exclusive: repair, grow */
	RD_LOCK_FREE,		/* to give blocks back */
	RD_LOCK_JOURNAL,	/* to write the journal */
	RD_LOCK_SESSION,	/* a session is alive */
	RD_LOCK_VOLUME,		/* to make or delete versions of a volume */
	RD_LOCK_VERSION,	/* shared: to read it; exclusive: to delete it */
	RD_LOCK_INDEX,		/* names and merges of the index: see pool/index/files.h */
	RD_LOCK_PASS,		/* to run a pass over the pool */
};

struct rd_lock {
	int fd;
	u64 offset;
};

/* A command that has waited this long for a lock says that it waits. */
#ifdef RD_TEST
#define RD_TELL_MS	200
#else
#define RD_TELL_MS	2000
#endif

/* Return @ms, or in a test the number in REVDEDUP_PATIENCE. */
unsigned int rd_patience_ms(unsigned int ms);

#define RD_LOCK_NONE	((struct rd_lock){ .fd = -1 })

/*
 * Take a lock. @fd: an open file description that nothing else uses; the lock belongs to
 * it. @wait_ms: how long to wait; 0: not at all. Returns 0, -EAGAIN or -errno.
 */
int rd_lock_take(struct rd_lock *ret, int fd, enum rd_lock_class class, u64 id,
		 bool exclusive, unsigned int wait_ms);
void rd_lock_drop(struct rd_lock *lock);

/* Does another command hold the lock? Takes nothing. */
bool rd_lock_is_held(int fd, enum rd_lock_class class, u64 id);

#endif
