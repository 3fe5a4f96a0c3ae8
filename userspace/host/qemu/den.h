/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A directory for what a guest overwrites while its disks are read. Its name is the same each
 * time, so that what a command that died has left is found, and it lies where others write too: so
 * it must be ours, and files in it are made and removed by the descriptor that was checked.
 */
#ifndef RD_DEN_H
#define RD_DEN_H

#include <limits.h>
#include <sys/types.h>

#include "base/units.h"

/* Where it is unless the user says so. */
#define RD_DEN_PLACE	"/var/tmp"
/* No node of QEMU has a longer name. */
#define RD_DEN_NAME	32

struct rd_den {
	int fd;			/* and a lock of it, -1: it is not there */
	bool has_lock;
	char path[PATH_MAX + RD_DEN_NAME];
};

/* Its name, with which all begins that is ours of one thing, @what, in the pool with that UUID. */
void rd_den_name(char ret[RD_DEN_NAME], const u8 *pool, const char *what);
/* A name that begins with it, and that nothing else has or will have. */
void rd_den_unique(char *ret, size_t size, const char *name);

/*
 * Make or find @name in @dir, and lock it. It may belong to us or to @other, the user of QEMU, and
 * belongs to us from now on, with @mode. -EBUSY: another command has it.
 */
int rd_den_open(struct rd_den *den, const char *dir, const char *name, uid_t other, mode_t mode);
/* Let go of it, and remove it if it is empty. */
void rd_den_close(struct rd_den *den);

/* Is there room for what is overwritten on disks of @size bytes? -ENOSPC. */
int rd_den_check_room(const struct rd_den *den, u64 size);
/* Is there so little left that writes of the guest could soon fail? */
bool rd_den_is_full(const struct rd_den *den, u64 size);

#endif
