// SPDX-License-Identifier: GPL-2.0
/* revdedupctl mount and umount: the file system in a version. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/sys/layers.h"
#include "host/volume/map/mapped.h"
#include "host/volume/map/mapped_nbd.h"
#include "host/volume/map/mount.h"
#include "cli.h"

static void print_mounted(struct ctl *ctl, const struct ctl_version *version, const char *path,
			  const struct rd_mount_options *options, const char *type)
{
	if (ctl->json)
		ctl_json(ctl, "mount",
			 "version=%s device=%s directory=%s file_system=%s writable=%d",
			 version->name, path, options->dir, type, options->writable);
	else if (!ctl->quiet)
		printf("mounted %s at %s: %s%s\n", version->name, options->dir, type,
		       options->writable ? "; writes are discarded at umount" : ", read-only");
}

static int refuse_mounted(const struct ctl_version *version, const char *path)
{
	char where[PATH_MAX];

	if (!rd_path_is_mounted(path, where))
		return 0;
	rd_err(0, "%s is mounted at '%s'", version->name, where);
	rd_hint("nothing was changed; 'revdedupctl umount %s' unmounts it", where);
	return -EBUSY;
}

/* Refuse a name whose device is mounted; remove the device if a killed command left it. */
static int take_name(struct ctl *ctl, const struct ctl_version *version, const char *name)
{
	char path[RD_DM_PATH_MAX];
	struct rd_dm_info info;
	int r = rd_dm_info(name, &info);

	if (r || !info.exists)
		return r;
	r = refuse_mounted(version, rd_dm_path(path, name));
	return r ? r : rd_mapped_remove(ctl->pool, name);
}

static int take_nbd(struct ctl *ctl, const struct ctl_version *version, const char *name)
{
	struct rd_mapped_nbd mapped;
	int r = rd_mapped_nbd_find(name, &mapped);

	if (!r)
		r = refuse_mounted(version, mapped.nbd.path);
	if (!r)
		r = ctl_unmap_nbd(ctl, name);
	return r == -ENODEV ? 0 : r;
}

static int mount_version(struct ctl *ctl, const struct rd_mount_options *options)
{
	struct rd_mapped_options mapped = { .writable = options->writable };
	char name[RD_DM_NAME_MAX], type[RD_FS_TYPE_MAX], path[RD_DM_PATH_MAX];
	struct ctl_version version;
	int r;

	r = ctl_find_to_read(ctl, &version);
	if (!r)
		r = ctl_device_name(&version, ":mount", name);
	if (!r)
		r = ctl_refuse_nbd(name);
	if (!r)
		r = take_name(ctl, &version, name);
	mapped.name = name;
	if (!r)
		r = rd_mapped_make(ctl->pool, &version.version, &mapped);
	if (r)
		return r;
	r = rd_mount(name, options, type);
	if (r)
		rd_mapped_remove(ctl->pool, name);
	else
		print_mounted(ctl, &version, rd_dm_path(path, name), options, type);
	return r;
}

static int mount_nbd(struct ctl *ctl, const struct rd_mount_options *options)
{
	char name[RD_DM_NAME_MAX], type[RD_FS_TYPE_MAX];
	struct ctl_nbd_version version;
	struct rd_mapped_nbd mapped;
	int r = ctl_find_for_nbd(ctl, &version);

	if (!r)
		r = ctl_device_name(&version.version, ":mount", name);
	if (!r)
		r = take_nbd(ctl, &version.version, name);
	if (!r)
		r = ctl_map_nbd(ctl, &version, name, &mapped);
	if (r)
		return r;
	r = rd_mount(name, options, type);
	if (r)
		ctl_unmap_nbd(ctl, name);
	else
		print_mounted(ctl, &version.version, mapped.nbd.path, options, type);
	return r;
}

static int check_directory(const char *dir)
{
	struct stat st;

	if (!stat(dir, &st) && S_ISDIR(st.st_mode))
		return 0;
	rd_err(0, "'%s' is not a directory", dir);
	rd_hint("nothing was mounted; 'mkdir %s' makes one", dir);
	return CTL_FAILED;
}

int cmd_mount(struct ctl *ctl)
{
	struct rd_mount_options options = { .writable = ctl_has(ctl, CTL_OPT_WRITABLE) };
	enum ctl_mapper mapper;
	struct ctl_name name;
	u64 partition = 0;
	int r;

	options.dir = ctl->operands[1];
	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_PARTITION, 1, 4096, &partition);
	options.partition = partition;
	if (!r)
		r = check_directory(options.dir);
	if (!r)
		r = ctl_find_mapper(ctl, &name, &mapper);
	if (!r && mapper == CTL_MAPPER_NBD)
		return mount_nbd(ctl, &options);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	return r ? r : mount_version(ctl, &options);
}

int cmd_umount(struct ctl *ctl)
{
	const char *dir = ctl->operands[0];
	char name[RD_DM_NAME_MAX];
	struct rd_mapped_nbd mapped;
	int r;

	r = rd_mounted_version(dir, name);
	/* By nbd it needs no pool to be removed. */
	if (!r && !rd_mapped_nbd_find(name, &mapped)) {
		r = rd_unmount(dir);
		return r ? r : ctl_unmap_nbd(ctl, name);
	}
	/* Open the pool first: the device cannot be removed without it. */
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = rd_unmount(dir);
	return r ? r : rd_mapped_remove(ctl->pool, name);
}
