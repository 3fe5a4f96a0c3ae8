// SPDX-License-Identifier: GPL-2.0
/* A directory for what a guest overwrites: see den.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "den.h"

/* Of a disk's size there is to be this share, or so much. */
#define ROOM_SHARE	64
#define ROOM_MIN	(64U << 20)
#define UUID_BYTES	16
#define STEP_US		20000
#define LOCK_STEPS	1500

void rd_den_name(char ret[RD_DEN_NAME], const u8 *pool, const char *what)
{
	snprintf(ret, RD_DEN_NAME, "rd-%08x%08x", crc32c(0, pool, UUID_BYTES),
		 crc32c(0, what, strlen(what)));
}

void rd_den_unique(char *ret, size_t size, const char *name)
{
	u64 random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (u64)getpid();
	snprintf(ret, size, "%s-%016llx", name, random);
}

static int check_owner(const struct rd_den *den, uid_t other, mode_t mode)
{
	struct stat st;

	if (fstat(den->fd, &st))
		return -errno;
	if ((st.st_uid == geteuid() || st.st_uid == other) && !(st.st_mode & 07777 & ~mode))
		return 0;
	rd_err(0, "'%s' belongs to another user, or others may use it", den->path);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, "remove it");
	return -EPERM;
}

/* The guard of a command that died may still be at it. */
static int lock(struct rd_den *den)
{
	int steps = 0;

	while (flock(den->fd, LOCK_EX | LOCK_NB)) {
		if (++steps == LOCK_STEPS) {
			rd_err(0, "another command takes a snapshot of the same disk");
			return -EBUSY;
		}
		usleep(STEP_US);
	}
	den->has_lock = true;
	return 0;
}

int rd_den_open(struct rd_den *den, const char *dir, const char *name, uid_t other, mode_t mode)
{
	char real[PATH_MAX];
	int r;

	if (!realpath(dir, real))
		return rd_err(-errno, "cannot use the directory '%s'", dir);
	snprintf(den->path, sizeof(den->path), "%s/%s", real, name);
	if (mkdir(den->path, 0700) && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", den->path);
	den->fd = open(den->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (den->fd < 0)
		return rd_err(-errno, "cannot open '%s'", den->path);
	r = check_owner(den, other, mode);
	if (!r)
		r = lock(den);
	if (r)
		return r;
	/* Until what we make there is made, QEMU is not to change names in it. */
	if (fchown(den->fd, geteuid(), getegid()) || fchmod(den->fd, mode))
		return rd_err(-errno, "cannot take '%s' back from QEMU", den->path);
	return 0;
}

void rd_den_close(struct rd_den *den)
{
	if (den->has_lock)
		rmdir(den->path);
	if (den->fd >= 0)
		close(den->fd);
	den->fd = -1;
}

/* --- room */

static u64 free_bytes(const struct rd_den *den)
{
	struct statvfs st;

	return fstatvfs(den->fd, &st) ? 0 : (u64)st.f_bavail * st.f_frsize;
}

static u64 needed(u64 size)
{
	return rd_min(size, rd_max(size / ROOM_SHARE, (u64)ROOM_MIN));
}

/* A write of the guest for which there is no room fails: QEMU has no other way. */
int rd_den_check_room(const struct rd_den *den, u64 size)
{
	if (free_bytes(den) >= needed(size))
		return 0;
	rd_err(0, "'%s' has no room for what the guest overwrites meanwhile: %llu MiB are needed",
	       den->path, (needed(size) >> 20) + 1);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, NULL);
	return -ENOSPC;
}

bool rd_den_is_full(const struct rd_den *den, u64 size)
{
	return free_bytes(den) < needed(size) / 4;
}
