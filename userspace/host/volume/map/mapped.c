// SPDX-License-Identifier: GPL-2.0
/* Make a block device of a version. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/layers.h"
#include "host/sys/loop.h"
#include "host/volume/device/krbd.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/device/target.h"
#include "host/volume/device/version_table.h"
#include "pool/engine/version/version.h"
#include "mapped.h"

#define CHUNK	8	/* sectors; writes are few, and are discarded */
#define MAPPED_UUID	"REVDEDUP-MAP-"

/* --- its UUID, which says on which host it is: only that device-mapper knows it */

static bool host_id(char text[9])
{
	RD_CLOSE int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	bool has = fd >= 0 && read(fd, text, 8) == 8;

	if (!has)
		memset(text, '0', 8);
	text[8] = '\0';
	return has;
}

static int make_uuid(const struct rd_pool *pool, char ret[RD_DEVICE_MAX])
{
	char host[9], text[RD_UUID_TEXT];
	u8 uuid[16];
	int r = rd_uuid_make(uuid);

	if (r)
		return rd_err(r, "no random number");
	/* Another host without one would take the device for one of its own that is gone. */
	if (!host_id(host) && rd_area_can(&pool->area, RD_STORE_FENCED)) {
		rd_err(0, "this host has no /etc/machine-id, by which others know its devices");
		rd_hint("nothing was changed; 'systemd-machine-id-setup' makes one");
		return -ENOENT;
	}
	snprintf(ret, RD_DEVICE_MAX, MAPPED_UUID "%s-%s", host, rd_uuid_print(text, uuid));
	return 0;
}

bool rd_is_mapped(const char *uuid)
{
	return !strncmp(uuid, MAPPED_UUID, strlen(MAPPED_UUID));
}

bool rd_is_mapped_here(const char *uuid)
{
	char prefix[sizeof(MAPPED_UUID) + 10], host[9];

	host_id(host);
	snprintf(prefix, sizeof(prefix), MAPPED_UUID "%s-", host);
	return !strncmp(uuid, prefix, strlen(prefix));
}

/* --- its parts */

/* Open a loop device over the version's table, and return its fd. */
static int open_image(struct rd_pool *pool, const struct rd_version *version,
		      char path[RD_LOOP_PATH])
{
	u64 bytes = rd_version_table_bytes(rd_version_sectors(version));
	struct rd_version_table image = { .sectors = rd_version_sectors(version) };
	int r;

	RD_CLOSE int fd = rd_temporary_file(pool->path, bytes);

	if (fd < 0)
		return fd;
	r = rd_version_table_write(pool, version, &image, fd, bytes);
	return r ? r : rd_loop_open(fd, true, path);
}

static int load_version(struct rd_pool *pool, const struct rd_version *version,
			const char *name)
{
	struct rd_poolblocks blocks = RD_POOLBLOCKS_NONE;
	char meta[RD_LOOP_PATH];
	RD_CLOSE int image = open_image(pool, version, meta);
	struct rd_target_table table = {
		.sectors = rd_version_sectors(version),
		.meta = meta,
		.pool = blocks.path,
		.pool_uuid = pool->area.super.uuid,
	};
	int r;

	if (image < 0)
		return image;
	r = rd_poolblocks_open(&blocks, pool->path, true);
	if (!r)
		r = rd_target_load(name, &table, RD_DM_READ_ONLY);
	rd_poolblocks_close(&blocks);
	return r;
}

int rd_mapped_refresh(struct rd_pool *pool, const struct rd_version *version, const char *name)
{
	int r = rd_version_table_check(pool, version);

	if (!r)
		r = load_version(pool, version, name);
	/* The swap waits for reads in flight: they end before any place is freed. */
	return r ? r : rd_dm_swap(name, RD_DM_NOLOCKFS);
}

/* --- making one */

static int make_read_only(struct rd_pool *pool, const struct rd_version *version,
			  const char *name, const char *uuid)
{
	struct rd_lock shut = RD_LOCK_NONE;
	i64 lease;
	int r;

	r = rd_dm_create(name, uuid);
	if (r)
		return r;
	r = rd_lease_shut(pool, &shut);
	if (!r) {
		r = rd_lease_add(pool, version, uuid, &lease);
		if (!r)
			r = rd_failpoint("map-leased");
		if (!r)
			r = load_version(pool, version, name);
		if (!r)
			r = rd_dm_resume(name, 0);
		rd_lock_drop(&shut);
	}
	if (r) {
		rd_dm_remove(name);
		rd_lease_drop_device(pool, uuid);
	}
	return r;
}

static int make_overlay(struct rd_pool *pool, const struct rd_version *version,
			const char *name, const char *below, const char *uuid)
{
	char path[RD_DM_PATH_MAX], params[256], loop[RD_LOOP_PATH], id[RD_DM_NAME_MAX];
	u64 sectors = rd_version_sectors(version);
	RD_CLOSE int file = rd_temporary_file(pool->path, sectors * 512 + (64 << 20));
	RD_CLOSE int cow = file < 0 ? -1 : rd_loop_open(file, false, loop);
	int r;

	if (cow < 0)
		return file < 0 ? file : cow;
	snprintf(id, sizeof(id), "%.100s-rw", uuid);
	snprintf(params, sizeof(params), "%s %s N %u", rd_dm_path(path, below), loop, CHUNK);
	r = rd_failpoint("map-overlay");
	if (!r)
		r = rd_dm_create(name, id);
	if (r)
		return r;
	r = rd_dm_load(name, sectors, "snapshot", params, 0);
	if (!r)
		r = rd_dm_resume(name, 0);
	if (r)
		rd_dm_remove(name);
	return r;
}

void rd_mapped_part(char ret[RD_DM_NAME_MAX], const char *name)
{
	snprintf(ret, RD_DM_NAME_MAX, "%.120s:part", name);
}

static void name_below(char ret[RD_DM_NAME_MAX], const char *name)
{
	snprintf(ret, RD_DM_NAME_MAX, "%.120s:ro", name);
}

static int remove_one(struct rd_pool *pool, const char *name, const char *uuid)
{
	int r = rd_dm_remove(name);

	if (!r)
		rd_lease_drop_late(pool, uuid);
	return r;
}

static bool is_ours(const struct rd_dm_info *info)
{
	return info->exists && rd_is_mapped(info->uuid);
}

/* Remove the lower device that a killed command left without its upper one. */
static int clear_below(struct rd_pool *pool, const char *below)
{
	struct rd_dm_info info;
	int r = rd_dm_info(below, &info);

	return r || !is_ours(&info) || info.open_count ? r : remove_one(pool, below, info.uuid);
}

static int already_there(const char *name)
{
	char path[RD_DM_PATH_MAX];

	rd_err(0, "the device '%s' exists already", rd_dm_path(path, name));
	return -EEXIST;
}

int rd_mapped_make(struct rd_pool *pool, const struct rd_version *version,
		   const struct rd_mapped_options *options)
{
	char below[RD_DM_NAME_MAX], uuid[RD_DEVICE_MAX];
	struct rd_dm_info info;
	int r;

	if (strlen(options->name) > RD_DM_NAME_MAX - 8)
		return rd_err(-ENAMETOOLONG, "'%s' is too long for a device", options->name);
	r = rd_dm_info(options->name, &info);
	if (!r && info.exists)
		r = already_there(options->name);
	if (!r)
		r = rd_version_table_check(pool, version);
	if (!r)
		r = make_uuid(pool, uuid);
	if (r)
		return r;
	name_below(below, options->name);
	if (options->writable)
		r = clear_below(pool, below);
	if (r)
		return r;
	r = make_read_only(pool, version, options->writable ? below : options->name, uuid);
	if (!r && options->writable) {
		r = make_overlay(pool, version, options->name, below, uuid);
		if (r && !rd_dm_remove(below))
			rd_lease_drop_device(pool, uuid);
	}
	/* Free places that other commands could not free meanwhile. */
	if (!r)
		rd_free_queue_late(pool);
	return r;
}

/* --- and removing it */

static int refuse_used(const char *name)
{
	char path[RD_DM_PATH_MAX], where[PATH_MAX];

	if (rd_path_is_mounted(rd_dm_path(path, name), where)) {
		rd_err(0, "'%s' is mounted at '%s'", name, where);
		rd_remedy(RD_REMEDY_UNMOUNT, where, "nothing was changed");
	} else {
		rd_err(0, "'%s' is in use", name);
		rd_hint("nothing was changed; unmount it first, or stop what reads it");
	}
	return -EBUSY;
}

int rd_mapped_remove_part(const char *name)
{
	char part[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	int r;

	rd_mapped_part(part, name);
	r = rd_dm_info(part, &info);
	if (r || !is_ours(&info))
		return r;
	return info.open_count ? refuse_used(part) : rd_dm_remove(part);
}

int rd_mapped_remove(struct rd_pool *pool, const char *name)
{
	char below[RD_DM_NAME_MAX];
	struct rd_dm_info info, info_below;
	int r;

	name_below(below, name);
	r = rd_dm_info(name, &info);
	if (!r)
		r = rd_dm_info(below, &info_below);
	if (r)
		return r;
	/* A killed command may have left only the lower device. */
	if (!is_ours(&info) && (info.exists || !is_ours(&info_below))) {
		rd_err(0, "'%s' is not a mapped version", name);
		rd_hint("nothing was changed; 'dmsetup ls' lists all devices");
		return -ENODEV;
	}
	r = rd_mapped_remove_part(name);
	if (!r)
		r = rd_dm_info(name, &info);
	if (!r && info.open_count)
		r = refuse_used(name);
	if (!r && info.exists)
		r = remove_one(pool, name, info.uuid);
	if (!r && is_ours(&info_below))
		r = remove_one(pool, below, info_below.uuid);
	rd_krbd_tidy();
	return r;
}
