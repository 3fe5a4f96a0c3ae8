/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libguestfs, loaded when the first file of a guest is read: a host needs it for nothing else, and
 * it brings a QEMU.
 *
 * Its header is not used, because its package brings all of that to each machine that builds. What
 * is here is a part of it, of which libguestfs promises that it does not change.
 */
#ifndef RD_LIBGUESTFS_H
#define RD_LIBGUESTFS_H

#include <stdint.h>

struct guestfs_statns {
	int64_t dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks;
	int64_t atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns;
	int64_t spare[6];
};

struct guestfs_statns_list {
	uint32_t len;
	struct guestfs_statns *val;
};

/* A bit in @bitmask for each member that is set, counted from the first one behind it. */
struct guestfs_add_drive {
	uint64_t bitmask;
#define GUESTFS_DRIVE_READONLY	(1ULL << 0)
	int readonly;
#define GUESTFS_DRIVE_FORMAT	(1ULL << 1)
	const char *format;
	const char *iface, *name, *label;
#define GUESTFS_DRIVE_PROTOCOL	(1ULL << 5)
	const char *protocol;
#define GUESTFS_DRIVE_SERVER	(1ULL << 6)
	char *const *server;
	const char *username, *secret, *cachemode, *discard;
	int copyonread, blocksize;
};

struct guestfs_tar_out {
	uint64_t bitmask;
	const char *compress;
#define GUESTFS_TAR_NUMERIC	(1ULL << 1)
	int numericowner;
#define GUESTFS_TAR_EXCLUDES	(1ULL << 2)
	char *const *excludes;
#define GUESTFS_TAR_XATTRS	(1ULL << 3)
	int xattrs;
	int selinux;
#define GUESTFS_TAR_ACLS	(1ULL << 5)
	int acls;
};

/* The calls that are used, without their guestfs_: libguestfs.c has a line for each. */
struct rd_libguestfs {
	void *(*create)(void);
	void (*close)(void *g);
	const char *(*last_error)(void *g);
	void (*set_error_handler)(void *g, void *call, void *ctx);
	int (*set_backend)(void *g, const char *backend);
	int (*add_drive_opts_argv)(void *g, const char *disk, const struct guestfs_add_drive *how);
	int (*launch)(void *g);
	char **(*inspect_os)(void *g);
	char **(*inspect_get_mountpoints)(void *g, const char *root);
	char **(*list_filesystems)(void *g);
	int (*mount_ro)(void *g, const char *device, const char *dir);
	int (*umount_all)(void *g);
	char *(*vfs_label)(void *g, const char *device);
	int64_t (*blockdev_getsize64)(void *g, const char *device);
	char *(*realpath)(void *g, const char *path);
	char **(*ls)(void *g, const char *dir);
	struct guestfs_statns *(*lstatns)(void *g, const char *path);
	struct guestfs_statns_list *(*lstatnslist)(void *g, const char *dir, char *const *names);
	char *(*readlink)(void *g, const char *path);
	char **(*readlinklist)(void *g, const char *dir, char *const *names);
	int (*find0)(void *g, const char *dir, const char *file);
	int (*tar_out_opts_argv)(void *g, const char *dir, const char *file,
				 const struct guestfs_tar_out *how);
};

/* Load it, or say which package has it: -ELIBACC. */
int rd_libguestfs_load(const struct rd_libguestfs **ret);

#endif
