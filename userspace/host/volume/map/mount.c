// SPDX-License-Identifier: GPL-2.0
/* Mount the file system of a mapped version. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/mounts.h"
#include "host/sys/run.h"
#include "mapped.h"
#include "mapped_nbd.h"
#include "mount.h"

static int refuse_content(const char *name, const struct rd_content *content)
{
	if (content->table[0]) {
		rd_err(0, "'%s' has partitions (%s)", name, content->table);
		rd_remedy(RD_REMEDY_NAME_PARTITION, NULL, "nothing was mounted");
	} else {
		rd_err(0, "'%s' has no file system, or an unknown one", name);
		rd_remedy(RD_REMEDY_MAP, NULL, "nothing was mounted");
	}
	return -EMEDIUMTYPE;
}

/* --- the device, of the module or of nbd */

#define PATH_SIZE	RD_DM_PATH_MAX

static const char *path_of(char path[PATH_SIZE], const char *name)
{
	struct rd_mapped_nbd mapped;

	if (rd_mapped_nbd_find(name, &mapped))
		return rd_dm_path(path, name);
	snprintf(path, PATH_SIZE, "%s", mapped.nbd.path);
	return path;
}

/* Name the partition so that rd_is_mapped() holds of it. */
static int part_uuid(const char *name, char ret[RD_DM_NAME_MAX])
{
	struct rd_mapped_nbd mapped;
	struct rd_dm_info info;
	int r;

	if (!rd_mapped_nbd_find(name, &mapped)) {
		snprintf(ret, RD_DM_NAME_MAX, "REVDEDUP-MAP-%s", strrchr(mapped.nbd.path, '/') + 1);
		return 0;
	}
	r = rd_dm_info(name, &info);
	snprintf(ret, RD_DM_NAME_MAX, "%.100s", info.uuid);
	return r;
}

/* --- partitions */

/*
 * Ask where the partition is, by a table that counts in blocks of this size. -ENODEV, without
 * a message: there is none.
 */
static int ask_partition(const char *path, unsigned int nr, const char *block_size,
			 u64 *ret_start, u64 *ret_sectors)
{
	char number[16];
	char *const argv[] = { "partx", "-g", "-o", "START,SECTORS", "--nr", number,
			 "--sector-size", (char *)block_size, (char *)path, NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	int r;

	snprintf(number, sizeof(number), "%u", nr);
	r = rd_run(argv, &text);
	if (r >= 0 && (r || sscanf((char *)text.data, "%llu %llu", ret_start, ret_sectors) != 2))
		r = -ENODEV;
	return r;
}

static int find_partition(const char *path, unsigned int nr, u64 *ret_start, u64 *ret_sectors)
{
	/* The original disk may have had blocks of 4096 bytes. */
	static const char *const sizes[] = { "512", "4096" };
	unsigned int i;
	int r = -ENODEV;

	for (i = 0; i < ARRAY_SIZE(sizes) && r == -ENODEV; i++)
		r = ask_partition(path, nr, sizes[i], ret_start, ret_sectors);
	if (r != -ENODEV)
		return r;
	rd_err(0, "there is no partition %u on '%s'", nr, path);
	rd_remedy(RD_REMEDY_MAP, NULL, "nothing was mounted; 'partx -s' lists the partitions of a device");
	return r;
}

static int make_part(const char *name, const struct rd_mount_options *options,
		     char part[RD_DM_NAME_MAX])
{
	char path[PATH_SIZE], params[PATH_SIZE + 32];
	char uuid[RD_DM_NAME_MAX], below[RD_DM_NAME_MAX];
	u64 start, sectors;
	int r;

	r = find_partition(path_of(path, name), options->partition, &start, &sectors);
	if (!r)
		r = part_uuid(name, below);
	if (r)
		return r;
	rd_mapped_part(part, name);
	snprintf(uuid, sizeof(uuid), "%.100s-part", below);
	snprintf(params, sizeof(params), "%s %llu", path, start);
	r = rd_dm_create(part, uuid);
	if (r)
		return r;
	r = rd_dm_load(part, sectors, "linear", params, options->writable ? 0 : RD_DM_READ_ONLY);
	if (!r)
		r = rd_dm_resume(part, 0);
	if (r)
		rd_dm_remove(part);
	return r;
}

/* --- mounting */

static const char *options_for(const char *type, bool writable)
{
	static const struct {
		const char *type, *read_only, *writable;
	} known[] = {
		{ "ext3", "noload", "" },
		{ "ext4", "noload", "" },
		/* nouuid: the original, or another version of it, may be mounted. */
		{ "xfs", "norecovery,nouuid", "nouuid" },
		{ "btrfs", "rescue=nologreplay", "" },
		{ "f2fs", "norecovery", "" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(known[i].type, type))
			return writable ? known[i].writable : known[i].read_only;
	return "";
}

static int mount_device(const char *name, const char *path,
			const struct rd_mount_options *options, char ret_type[RD_FS_TYPE_MAX])
{
	/* A guest has written the content. */
	unsigned long flags = MS_NOSUID | MS_NODEV | (options->writable ? 0 : MS_RDONLY);
	struct rd_content content = { 0 };
	int r;

	r = rd_probe(path, &content);
	if (r)
		return r;
	if (!content.type[0])
		return refuse_content(name, &content);
	memcpy(ret_type, content.type, RD_FS_TYPE_MAX);
	if (!mount(path, options->dir, content.type, flags,
		   options_for(content.type, options->writable)))
		return 0;
	r = rd_err(-errno, "cannot mount '%s', which holds '%s', at '%s'", path, content.type,
		   options->dir);
	if (r == -ENODEV)
		rd_remedy(RD_REMEDY_MAP, NULL, "the kernel has no file system '%s'", content.type);
	else if (options->writable)
		rd_hint("the kernel's log says why: see dmesg");
	else
		rd_remedy(RD_REMEDY_MOUNT_WRITABLE, NULL, "the kernel's log says why: see dmesg");
	return r;
}

int rd_mount(const char *name, const struct rd_mount_options *options,
	     char ret_type[RD_FS_TYPE_MAX])
{
	char part[RD_DM_NAME_MAX], path[PATH_SIZE];
	int r;

	if (!options->partition)
		return mount_device(name, path_of(path, name), options, ret_type);
	r = make_part(name, options, part);
	if (r)
		return r;
	r = mount_device(part, rd_dm_path(path, part), options, ret_type);
	if (r)
		rd_dm_remove(part);
	return r;
}

/* --- and back */

int rd_mounted_version(const char *dir, char ret[RD_DM_NAME_MAX])
{
	char uuid[RD_DM_NAME_MAX] = "", *part;
	dev_t device;

	if (!rd_mounted_at(dir, &device)) {
		if (rd_mapped_nbd_name(device, ret))
			return 0;
		rd_block_dm(device, "name", ret);
		rd_block_dm(device, "uuid", uuid);
	}
	if (!rd_is_mapped(uuid)) {
		rd_err(0, "no version is mounted at '%s'", dir);
		rd_hint("nothing was changed; /proc/mounts lists what is mounted where");
		return -ENODEV;
	}
	part = strrchr(ret, ':');
	if (part && !strcmp(part, ":part"))
		*part = '\0';
	return 0;
}

int rd_unmount(const char *dir)
{
	int r = umount2(dir, UMOUNT_NOFOLLOW) ? -errno : 0;

	if (!r)
		return 0;
	rd_err(r, "cannot unmount '%s'", dir);
	rd_hint("nothing was changed%s", r == -EBUSY ? "; 'fuser -m' shows what uses it" : "");
	return r;
}
