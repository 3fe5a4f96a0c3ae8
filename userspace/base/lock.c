// SPDX-License-Identifier: GPL-2.0
/* Locks between commands: OFD locks on ranges of one byte; see lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lock.h"

#define POLL_MS		20
#define CLASS_SHIFT	48

static int set(int fd, u64 offset, short type)
{
	struct flock flock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = offset,
		.l_len = 1,
	};

	return fcntl(fd, F_OFD_SETLK, &flock) ? -errno : 0;
}

unsigned int rd_patience_ms(unsigned int ms)
{
#ifdef RD_TEST
	const char *text = getenv("REVDEDUP_PATIENCE");

	if (text)
		return atoi(text);
#endif
	return ms;
}

static u64 offset_of(enum rd_lock_class class, u64 id)
{
	return ((u64)class + 1) << CLASS_SHIFT | id;
}

int rd_lock_take(struct rd_lock *ret, int fd, enum rd_lock_class class, u64 id,
		 bool exclusive, unsigned int wait_ms)
{
	struct timespec nap = { .tv_nsec = POLL_MS * 1000000L };
	u64 offset = offset_of(class, id);
	unsigned int waited = 0;
	int r;

	for (;;) {
		r = set(fd, offset, exclusive ? F_WRLCK : F_RDLCK);
		if (r == -EACCES)
			r = -EAGAIN;
		if (r != -EAGAIN || waited >= wait_ms)
			break;
		nanosleep(&nap, NULL);
		waited += POLL_MS;
	}
	if (r)
		return r;
	ret->fd = fd;
	ret->offset = offset;
	return 0;
}

void rd_lock_drop(struct rd_lock *lock)
{
	if (lock->fd < 0)
		return;
	/* To drop a lock that this process has cannot fail. */
	set(lock->fd, lock->offset, F_UNLCK);
	lock->fd = -1;
}

bool rd_lock_is_held(int fd, enum rd_lock_class class, u64 id)
{
	struct flock flock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = offset_of(class, id),
		.l_len = 1,
	};

	return !fcntl(fd, F_OFD_GETLK, &flock) && flock.l_type != F_UNLCK;
}
