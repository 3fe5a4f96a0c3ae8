// SPDX-License-Identifier: GPL-2.0
/* Load libguestfs: see libguestfs.h. */
#include "base/library.h"
#include "base/units.h"
#include "libguestfs.h"

#define CALL(name)	{ "guestfs_" #name, offsetof(struct rd_libguestfs, name) }

static const struct rd_library_call table[] = {
	CALL(create),
	CALL(close),
	CALL(last_error),
	CALL(set_error_handler),
	CALL(set_backend),
	CALL(add_drive_opts_argv),
	CALL(launch),
	CALL(inspect_os),
	CALL(inspect_get_mountpoints),
	CALL(list_filesystems),
	CALL(mount_ro),
	CALL(umount_all),
	CALL(vfs_label),
	CALL(blockdev_getsize64),
	CALL(realpath),
	CALL(ls),
	CALL(lstatns),
	CALL(lstatnslist),
	CALL(readlink),
	CALL(readlinklist),
	CALL(find0),
	CALL(tar_out_opts_argv),
};

_Static_assert(sizeof(struct rd_libguestfs) == ARRAY_SIZE(table) * sizeof(void *),
	       "a line for each call");

int rd_libguestfs_load(const struct rd_libguestfs **ret)
{
	static struct rd_libguestfs calls;
	static struct rd_library library = {
		.file = "libguestfs.so.0",
		.name = "libguestfs",
		.purpose = "to read the files of a guest",
		.packages = "'libguestfs0', Fedora's 'libguestfs'",
		.calls = table,
		.nr = ARRAY_SIZE(table),
	};

	*ret = &calls;
	return rd_library_load(&library, &calls);
}
