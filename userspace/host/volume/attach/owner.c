// SPDX-License-Identifier: GPL-2.0
/* Find out what a block device or a file is used for. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/volume/map/mapped_nbd.h"
#include "kernel/format.h"
#include "pool/data/area.h"
#include "pool/pool.h"
#include "owner.h"

/* --- by what is attached */

/* Is it that device? By UUID if there is one, as names may change. */
static bool is_it(const char *path, const char *uuid, dev_t device, const char *device_uuid)
{
	struct stat st;

	if (uuid[0])
		return !strcmp(uuid, device_uuid);
	return !stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == device;
}

static enum rd_owner_kind kind_of(const struct rd_attachment *at, dev_t device, const char *uuid)
{
	char own[RD_DM_NAME_MAX];

	if (!strcmp(uuid, rd_part_uuid(own, at, NULL)))
		return RD_OWNER_VOLUME;
	if (!strcmp(uuid, rd_part_uuid(own, at, "meta")))
		return RD_OWNER_META;
	if (is_it(at->base, at->base_uuid, device, uuid))
		return RD_OWNER_BASE;
	if (is_it(at->meta, at->meta_uuid, device, uuid))
		return RD_OWNER_META;
	return RD_OWNER_NONE;
}

static int find_attached(dev_t device, const char *uuid, struct rd_owner *ret)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_attachment *at;
	int r;

	r = rd_attachments(&all);
	rd_each(at, &all) {
		if (ret->kind)
			break;
		ret->kind = kind_of(at, device, uuid);
		if (!ret->kind)
			continue;
		snprintf(ret->volume, sizeof(ret->volume), "%s", at->volume);
		snprintf(ret->device, sizeof(ret->device), "%s", at->device);
	}
	return r;
}

/* --- by what is on it */

static bool is_meta(const u8 *block)
{
	const struct dmr_super_disk *meta = (const struct dmr_super_disk *)block;

	return !memcmp(meta->magic, DMR_MAGIC, sizeof(meta->magic));
}

/*
 * Recognize the content. A new logical volume may still have an old pool but for its
 * beginning.
 */
static int find_content(const char *path, bool is_file, struct rd_owner *ret)
{
	u8 block[RD_BLOCK_SIZE] __attribute__((aligned(RD_BLOCK_SIZE)));
	struct rd_store *store = NULL;
	int r;

	r = rd_store_open(&store, path, O_RDONLY);
	/* A damaged superblock counts as well. */
	if (!r)
		r = rd_area_has_super(store, is_file);
	if (r > 0)
		ret->kind = RD_OWNER_POOL;
	if (!r)
		r = store->ops->read(store, block, RD_BLOCK_SIZE, 0);
	rd_store_close(store);
	if (r < 0)
		return rd_err(r, "cannot read '%s'", path);
	if (!ret->kind && is_meta(block))
		ret->kind = RD_OWNER_META;
	return 0;
}

/* --- by where it is */

/* Is it in the directory of a pool? The catalog may be lost, or the data's device. */
static bool is_in_pool(const char *path)
{
	RD_FREE char *dir = realpath(path, NULL);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!slash)
		return false;
	*slash = '\0';
	return rd_is_in(dir, "pool.json") &&
		(rd_is_in(dir, "catalog.db") || rd_is_in(dir, "data"));
}

/* --- */

int rd_owner_find(const char *path, struct rd_owner *ret)
{
	char uuid[RD_DM_NAME_MAX], name[RD_DM_NAME_MAX];
	struct stat st;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (stat(path, &st))
		return 0;
	if (S_ISREG(st.st_mode)) {
		r = find_content(path, true, ret);
		if (!ret->kind && is_in_pool(path))
			ret->kind = RD_OWNER_PART;
		return r;
	}
	if (!S_ISBLK(st.st_mode))
		return 0;
	rd_block_dm(st.st_rdev, "uuid", uuid);
	r = find_attached(st.st_rdev, uuid, ret);
	if (r || ret->kind)
		return r;
	if (!strncmp(uuid, RD_DM_UUID, strlen(RD_DM_UUID)) ||
	    rd_mapped_nbd_name(st.st_rdev, name))
		ret->kind = RD_OWNER_DEVICE;
	return ret->kind ? 0 : find_content(path, false, ret);
}

const char *rd_owner_print(char *text, size_t size, const struct rd_owner *owner)
{
	static const char *const words[] = {
		[RD_OWNER_NONE] = "is not used by revdedup",
		[RD_OWNER_VOLUME] = "is the device of the attached volume",
		[RD_OWNER_BASE] = "lies below the attached volume",
		[RD_OWNER_META] = "is the metadata device of",
		[RD_OWNER_DEVICE] = "is a device of revdedup's own",
		[RD_OWNER_POOL] = "is the data area of a pool",
		[RD_OWNER_PART] = "is part of a pool",
	};

	if (owner->volume[0])
		snprintf(text, size, "%s '%s'", words[owner->kind], owner->volume);
	else if (owner->kind == RD_OWNER_META)
		snprintf(text, size, "holds the metadata of a volume");
	else
		snprintf(text, size, "%s", words[owner->kind]);
	return text;
}

bool rd_is_lv(const char *path, const char *volume)
{
	char name[RD_DM_NAME_MAX], uuid[RD_DM_NAME_MAX], ours[RD_DM_NAME_MAX];
	struct stat st;

	if (!strchr(volume, '/') || stat(path, &st) || !S_ISBLK(st.st_mode) ||
	    rd_device_name(volume, ours))
		return false;
	rd_block_dm(st.st_rdev, "name", name);
	rd_block_dm(st.st_rdev, "uuid", uuid);
	return !strncmp(uuid, "LVM-", 4) && !strcmp(name, ours + strlen("revdedup-"));
}
