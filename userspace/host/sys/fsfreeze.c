// SPDX-License-Identifier: GPL-2.0
/* Freeze file systems of this host that lie on a volume indirectly. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "fsfreeze.h"
#include "layers.h"
#include "mounts.h"

static bool is_known(const struct rd_buffer *fss, dev_t dev)
{
	const struct rd_fs *fs;

	rd_each(fs, fss)
		if (fs->dev == dev)
			return true;
	return false;
}

static bool is_wanted(const struct rd_mount *mount, const dev_t *devices, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (mount->device == devices[i] ? nr > 1 :
		    rd_device_lies_on(mount->device, devices[i]))
			return true;
	return false;
}

static int look(const struct rd_mount *mount, struct rd_buffer *ret)
{
	struct rd_fs fs = { .dev = mount->number, .device = mount->device };
	struct stat st;

	memcpy(fs.where, mount->where, sizeof(fs.where));
	fs.fd = open(fs.where, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME);
	if (fs.fd < 0)
		return rd_err(-errno, "cannot open '%s', which lies on the volume", fs.where);
	/* Another file system may be mounted over it, which has its own line. */
	if (fstat(fs.fd, &st) || st.st_dev != fs.dev) {
		close(fs.fd);
		return 0;
	}
	rd_buffer_put(ret, &fs, sizeof(fs));
	if (!ret->failed)
		return 0;
	close(fs.fd);
	return -ENOMEM;
}

/* Reverse the order: a file system in a file of another one was mounted later. */
static void turn_round(struct rd_buffer *fss)
{
	struct rd_fs *fs = (struct rd_fs *)fss->data, other;
	size_t i, nr = fss->len / sizeof(*fs);

	for (i = 0; i < nr / 2; i++) {
		other = fs[i];
		fs[i] = fs[nr - 1 - i];
		fs[nr - 1 - i] = other;
	}
}

int rd_fs_find(const dev_t *devices, unsigned int nr, struct rd_buffer *ret)
{
	struct rd_mount mount;
	struct rd_mounts mounts;
	int r;

	r = rd_mounts_open(&mounts);
	if (r)
		return rd_err(r, "cannot read the list of mounts");
	while (!r && rd_mounts_next(&mounts, &mount))
		if (!is_known(ret, mount.number) && is_wanted(&mount, devices, nr))
			r = look(&mount, ret);
	rd_mounts_close(&mounts);
	turn_round(ret);
	return r;
}

void rd_fs_close(struct rd_buffer *fss)
{
	struct rd_fs *fs;

	rd_each(fs, fss)
		close(fs->fd);
	rd_buffer_free(fss);
}

int rd_fs_freeze(const struct rd_fs *fs, bool *is_frozen)
{
	/*
	 * Set before: the guard must not find false for one that is frozen. A thaw too many
	 * does no harm.
	 */
	*is_frozen = true;
	if (!ioctl(fs->fd, FIFREEZE, 0)) {
		rd_info("froze '%s'", fs->where);
		return 0;
	}
	*is_frozen = false;
	if (errno == EBUSY) {
		rd_info("'%s' is frozen already", fs->where);
		return 0;
	}
	if (errno == EOPNOTSUPP) {
		rd_warn("'%s' cannot be frozen: it was only synced", fs->where);
		return 0;
	}
	return rd_err(-errno, "cannot freeze '%s'", fs->where);
}

int rd_fs_thaw(const struct rd_fs *fs)
{
	if (!ioctl(fs->fd, FITHAW, 0) || errno == EINVAL)
		return 0;
	rd_err(-errno, "cannot thaw '%s'", fs->where);
	rd_hint("writes to it wait until 'fsfreeze --unfreeze %s'", fs->where);
	return -EIO;
}
