// SPDX-License-Identifier: GPL-2.0
/* The devices of an attached volume. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/loop.h"
#include "host/volume/device/krbd.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/freeze/freeze.h"
#include "meta/read.h"
#include "meta/write.h"
#include "stack.h"

/* --- what there is */

int rd_stack_state(const struct rd_attachment *at, enum rd_stack_state *ret)
{
	struct rd_target_devices devices;
	struct rd_dm_info info;
	int r;

	*ret = RD_STACK_DOWN;
	r = rd_part_info(at, NULL, &info);
	if (r || !info.exists || !info.has_table)
		return r;
	r = rd_target_devices(at->device, &devices);
	*ret = r ? RD_STACK_LINEAR : RD_STACK_UP;
	return r == -ENODATA ? 0 : r;
}

/* --- what the metadata say */

struct metadata {
	bool is_new;		/* the device is all zeros */
	bool is_home;		/* every block is home */
	bool has_table;
};

static int read_metadata(const struct rd_attachment *at, struct metadata *ret, bool mark_lost)
{
	RD_CLOSE int fd = rd_meta_open_path(at->meta, NULL);
	struct rd_meta_source source;
	struct rd_meta meta;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (fd < 0)
		return rd_err(fd, "cannot open '%s'", at->meta);
	r = rd_meta_source_fd(&source, fd);
	if (r)
		return rd_err(r, "cannot read '%s'", at->meta);
	r = rd_meta_open(&meta, &source);
	ret->is_new = r == -ENODATA;
	if (ret->is_new)
		return 0;
	if (r) {
		rd_err(0, "'%s': %s", at->meta, meta.why);
		rd_hint("%s", rd_meta_advice(&meta));
		return r;
	}
	ret->is_home = meta.super.flags & DMR_FLAG_LINEAR_OK;
	ret->has_table = meta.super.flags & DMR_FLAG_TABLE;
	if (!mark_lost || !ret->is_home)
		return 0;
	RD_CLOSE int out = open(at->meta, O_RDWR | O_CLOEXEC | O_DIRECT | O_EXCL);

	r = out < 0 ? -errno : rd_meta_mark_lost(out, &meta);
	return r ? rd_err(r, "cannot record that tracking is lost") : 0;
}

/*
 * Blank metadata of a volume whose base lacks blocks are not new, but lost: made anew they would
 * call the holes in the base its content.
 */
static int check_lost(const struct rd_attachment *at, const struct metadata *metadata)
{
	bool lacks_blocks = at->is_partial || at->dedup_pool || at->pool[0];

	/* A clone begins with blank ones. */
	if (!metadata->is_new || !lacks_blocks || at->is_unfinished)
		return 0;
	rd_err(0, "the metadata of '%s' are lost: '%s' is blank, and blocks of the volume may lie in the pool only",
	       at->volume, at->meta);
	rd_remedy(RD_REMEDY_ABANDON, at->volume,
		  "nothing was changed; restore '%s' from a backup, or the volume from a version",
		  at->meta);
	return -EBADMSG;
}

u64 rd_stack_meta_bytes(u64 sectors)
{
	return dmr_meta_blocks_needed(dmr_nr_segs(sectors) * 2, DMR_FLAG_TABLE) * DMR_BLOCK_SIZE;
}

int rd_stack_clear_meta_end(const char *path)
{
	static const u8 zeros[DMR_BLOCK_SIZE] __attribute__((aligned(DMR_BLOCK_SIZE)));
	RD_CLOSE int fd = rd_open_direct(path, O_WRONLY | O_EXCL, 0);
	bool is_device;
	u64 bytes;
	int r = fd < 0 ? fd : rd_size_of(fd, &bytes, &is_device);

	if (!r)
		r = rd_write_direct(fd, zeros, sizeof(zeros), bytes - sizeof(zeros));
	if (!r && fsync(fd))
		r = -errno;
	return r ? rd_err(r, "cannot write to '%s'", path) : 0;
}

/* --- making them */

static int make_meta(const struct rd_attachment *at)
{
	char name[RD_DM_NAME_MAX], uuid[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	u64 sectors;
	int r;

	r = rd_part_info(at, "meta", &info);
	if (!r)
		r = rd_block_sectors(at->meta, &sectors);
	if (r || info.has_table)
		return r;
	rd_part_name(name, at, "meta");
	if (!info.exists)
		r = rd_dm_create(name, rd_part_uuid(uuid, at, "meta"));
	if (!r)
		r = rd_dm_load_linear(name, sectors, at->meta);
	return r ? r : rd_dm_resume(name, RD_DM_PRIVATE);
}

static int load_target(const struct rd_attachment *at, const struct metadata *metadata,
		       u64 sectors)
{
	struct rd_poolblocks pool = RD_POOLBLOCKS_NONE;
	char name[RD_DM_NAME_MAX], meta[RD_DM_PATH_MAX];
	u8 uuid[16];
	struct rd_target_table table = {
		.sectors = sectors,
		.base = at->base,
		.volume_uuid = at->uuid,
	};
	int r = 0;

	table.meta = rd_dm_path(meta, rd_part_name(name, at, "meta"));
	table.zeros = !metadata->is_new && !metadata->is_home && at->is_zeros;
	if (!metadata->is_new && !metadata->is_home && !at->is_zeros) {
		if (!at->pool[0])
			return rd_err(-ENODEV, "blocks of '%s' lie in a pool that is unknown",
				      at->volume);
		r = rd_poolblocks_uuid(at->pool, uuid);
		if (!r)
			r = rd_poolblocks_open(&pool, at->pool, false);
		table.pool = pool.path;
		table.pool_uuid = uuid;
	}
	if (!r)
		r = rd_target_load(at->device, &table, 0);
	rd_poolblocks_close(&pool);
	return r;
}

/* Have all blocks come home, by the metadata, that the table has a pool or zeros for? */
static int has_come_home(const struct rd_attachment *at, const struct rd_target_devices *devices,
			 bool *ret)
{
	struct metadata metadata;
	int r;

	*ret = false;
	if (!strcmp(devices->pool, "-") && !rd_target_has_zeros(devices))
		return 0;
	r = read_metadata(at, &metadata, false);
	*ret = !r && metadata.is_home;
	return r;
}

/*
 * Reload the table if the volume's size has changed, or if it no longer needs the pool, or a
 * table at all.
 */
static int follow(const struct rd_attachment *at, u64 sectors)
{
	struct rd_target_devices devices;
	bool is_home = false;
	int r;

	r = rd_target_devices(at->device, &devices);
	if (!r)
		r = has_come_home(at, &devices, &is_home);
	if (r || (devices.sectors == sectors && !is_home))
		return r;
	/* A killed snapshot may have left the table over a device of the old size. */
	r = rd_freeze_end(at);
	if (!r)
		r = rd_target_devices(at->device, &devices);
	if (r)
		return r;
	if (devices.sectors != sectors)
		rd_info("'%s' has been resized to %llu MiB", at->volume, sectors >> 11);
	devices.sectors = sectors;
	if (is_home) {
		snprintf(devices.pool, sizeof(devices.pool), "-");
		rd_target_set_zeros(&devices, false);
	}
	r = rd_target_reload(at->device, &devices);
	if (!r)
		r = rd_dm_swap(at->device, 0);
	rd_krbd_tidy();
	return r;
}

int rd_stack_is_linear(const struct rd_attachment *at, bool *ret)
{
	struct metadata metadata;
	int r = read_metadata(at, &metadata, false);

	*ret = !r && metadata.is_home;
	return r;
}

static int check_table_room(const struct rd_attachment *at)
{
	struct metadata metadata;
	int r = read_metadata(at, &metadata, false);

	if (r || metadata.has_table)
		return r;
	rd_err(0, "the metadata device '%s' is too small for a remap table", at->meta);
	rd_remedy(RD_REMEDY_REATTACH, at->volume,
		  "nothing was changed; with a larger metadata device,");
	return -ENOSPC;
}

int rd_stack_add_table(const struct rd_attachment *at)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(at->device, &devices);

	if (r || strcmp(devices.pool, "-") || rd_target_has_zeros(&devices))
		return r;
	r = check_table_room(at);
	if (r)
		return r;
	rd_target_set_zeros(&devices, true);
	r = rd_target_reload(at->device, &devices);
	/* The content is the same, so there is nothing to flush. */
	return r ? r : rd_dm_swap(at->device, RD_DM_NOFLUSH | RD_DM_NOLOCKFS);
}

/* Load the table. The metadata may name another pool, which was given up. */
static int load_with_pool(const struct rd_attachment *at,
			  const struct rd_target_devices *devices, const struct rd_area *area,
			  const char *pool)
{
	const struct rd_target_table table = {
		.sectors = devices->sectors,
		.base = devices->base,
		.meta = devices->meta,
		.pool = pool,
		.volume_uuid = at->uuid,
		.pool_uuid = area->super.uuid,
	};
	int r = rd_target_load(at->device, &table, 0);

	if (r == -EXDEV)
		rd_remedy(RD_REMEDY_REATTACH, at->volume,
			  "nothing was changed; blocks of '%s' were copied from another pool",
			  at->volume);
	return r;
}

/*
 * The target has the size that its pool device had when the table was loaded, and a loop device
 * that of the file when it was made.
 */
static int reload_grown(const struct rd_attachment *at, const struct rd_target_devices *devices)
{
	int r = rd_loop_grow(devices->pool);

	if (r)
		return rd_err(r, "cannot tell device %s that the pool may have grown",
			      devices->pool);
	r = rd_target_reload(at->device, devices);
	return r ? r : rd_dm_swap(at->device, RD_DM_NOFLUSH | RD_DM_NOLOCKFS);
}

int rd_stack_add_pool(const struct rd_attachment *at, const struct rd_area *area,
		      const char *path)
{
	struct rd_poolblocks blocks = RD_POOLBLOCKS_NONE;
	struct rd_target_devices devices;
	int r = rd_target_devices(at->device, &devices);

	if (!r && strcmp(devices.pool, "-")) {
		r = rd_poolblocks_compare(area, devices.pool);
		return r ? rd_err(r, "blocks of '%s' lie in another pool than '%s'", at->volume,
				  path) : reload_grown(at, &devices);
	}
	if (!r)
		r = check_table_room(at);
	if (!r)
		r = rd_poolblocks_open(&blocks, path, false);
	if (!r)
		r = load_with_pool(at, &devices, area, blocks.path);
	if (!r)
		r = rd_dm_swap(at->device, RD_DM_NOFLUSH | RD_DM_NOLOCKFS);
	rd_poolblocks_close(&blocks);
	return r;
}

/* Make the volume without the module, as a linear device. */
static int make_without(struct rd_attachment *at, const struct metadata *metadata, u64 sectors)
{
	if (!metadata->is_new && !metadata->is_home) {
		rd_err(0, "there is no module dm-revdedup for this kernel, and blocks of '%s' %s",
		       at->volume, at->is_zeros ? "are zeros that the base does not have" :
		       "lie in the pool");
		rd_hint("install the module for this kernel (dkms), or copy them back with 'revdedup-meta finish'");
		return -ENOPKG;
	}
	rd_warn("there is no module dm-revdedup for this kernel: '%s' works, but is not tracked",
		at->volume);
	rd_hint("once the module is back, the next snapshot reads everything");
	return rd_dm_load_linear(at->device, sectors, at->base);
}

static int make_volume(struct rd_attachment *at, enum rd_stack_state before,
		       enum rd_stack_state *ret_state)
{
	bool has_module = rd_target_exists();
	char uuid[RD_DM_NAME_MAX];
	struct metadata metadata;
	u64 sectors;
	int r;

	r = rd_block_sectors(at->base, &sectors);
	if (r || (before == RD_STACK_LINEAR && !has_module))
		return r;
	/* A linear device has not tracked, however short it existed. */
	r = read_metadata(at, &metadata, !has_module || before == RD_STACK_LINEAR);
	if (!r)
		r = check_lost(at, &metadata);
	if (!r && has_module)
		r = make_meta(at);
	if (!r && before == RD_STACK_DOWN)
		r = rd_dm_create(at->device, rd_part_uuid(uuid, at, NULL));
	if (r)
		return r;
	*ret_state = has_module ? RD_STACK_UP : RD_STACK_LINEAR;
	r = has_module ? load_target(at, &metadata, sectors) :
		make_without(at, &metadata, sectors);
	if (!r)
		r = before == RD_STACK_LINEAR ? rd_dm_swap(at->device, 0) :
			rd_dm_resume(at->device, 0);
	return r;
}

/* Resume what a killed command left suspended. -EUCLEAN: see rollback.h. */
static int wake(const struct rd_attachment *at)
{
	int r = rd_part_wake(at, "meta", RD_DM_PRIVATE);

	return r ? r : rd_part_wake(at, NULL, 0);
}

/*
 * Remove what a command that failed or was killed has made over the volume, none of which was
 * ever used. What is in use is linear, and goes on.
 */
static void unmake(const struct rd_attachment *at, enum rd_stack_state before)
{
	if (before == RD_STACK_LINEAR)
		rd_dm_unload(at->device);
	else
		rd_part_remove(at, NULL);
	rd_part_remove(at, "meta");
}

int rd_stack_up(struct rd_attachment *at, enum rd_stack_state *ret_state)
{
	enum rd_stack_state before;
	u64 sectors;
	int r;

	r = rd_attachment_locate(at);
	if (!r)
		r = rd_stack_state(at, ret_state);
	if (r)
		return r;
	if (*ret_state == RD_STACK_UP) {
		r = wake(at);
		if (!r)
			r = rd_block_sectors(at->base, &sectors);
		return r ? r : follow(at, sectors);
	}
	before = *ret_state;
	unmake(at, before);
	r = make_volume(at, before, ret_state);
	/* A device whose roll-back must be finished is suspended until it is. */
	if (r && r != -EUCLEAN)
		unmake(at, before);
	return r;
}

/* --- taking them off */

/* Count the blocks that are not home. -ENODATA: there is no such device, or it does not know. */
static int count_away(const struct rd_attachment *at, u64 *ret)
{
	struct rd_target_devices devices;
	struct rd_target_status status;
	struct rd_dm_info info;
	int r;

	*ret = 0;
	r = rd_part_info(at, NULL, &info);
	/* One whose resume was refused may have no table in memory, and call all blocks home. */
	if (r || !info.exists || !info.has_table || info.suspended)
		return r ? r : -ENODATA;
	r = rd_target_status(at->device, &status);
	if (r != -ENODATA) {
		*ret = r ? 0 : status.nr_pool + status.nr_zero;
		return r;
	}
	/* The device is linear, or the target has no numbers. */
	r = rd_target_devices(at->device, &devices);
	return r == -ENODATA ? 0 : r ? r : -ENODATA;
}

int rd_stack_is_home(const struct rd_attachment *at, bool *ret)
{
	struct metadata metadata;
	u64 away;
	int r = count_away(at, &away);

	*ret = !r && !away;
	if (r != -ENODATA)
		return r;
	r = read_metadata(at, &metadata, false);
	if (!r)
		r = check_lost(at, &metadata);
	*ret = !r && (metadata.is_new || metadata.is_home);
	return r;
}

static int check_home(const struct rd_attachment *at)
{
	bool is_home;
	u64 away;
	int r = count_away(at, &away);

	if (r == -ENODATA)
		r = rd_stack_is_home(at, &is_home);
	else
		is_home = !away;
	if (r)
		rd_remedy(RD_REMEDY_DETACH_ANYWAY, at->volume, "nothing was changed");
	if (r || is_home)
		return r;
	if (at->is_zeros) {
		rd_err(0, "blocks of '%s' are zeros that the base does not have yet", at->volume);
		rd_remedy(RD_REMEDY_TRIM, at->volume, "nothing was changed");
		return -EBUSY;
	}
	rd_err(0, "blocks of '%s' lie in the pool", at->volume);
	if (at->dedup_pool)
		rd_remedy(RD_REMEDY_RECALL, at->volume, "nothing was changed");
	else
		rd_remedy(RD_REMEDY_SEE_STATUS, NULL, "nothing was changed");
	rd_remedy(RD_REMEDY_ABANDON, at->volume, NULL);
	return -EBUSY;
}

static int leave_linear(const struct rd_attachment *at)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(at->device, &devices);

	if (r)
		return r == -ENODATA ? 0 : r;
	r = rd_dm_load_linear(at->device, devices.sectors, at->base);
	return r ? r : rd_dm_swap(at->device, 0);
}

int rd_stack_down(struct rd_attachment *at, bool *ret_open)
{
	struct rd_dm_info info;
	int r;

	*ret_open = false;
	r = rd_part_info(at, NULL, &info);
	if (!r)
		r = check_home(at);
	/* Once it is gone the volume may be written without it. */
	if (!r)
		r = rd_attachment_bypassed(at);
	if (r)
		return r;
	*ret_open = info.exists && info.open_count > 0;
	if (*ret_open)
		r = leave_linear(at);
	else if (info.exists)
		r = rd_dm_remove(at->device);
	if (!r)
		r = rd_part_remove(at, "meta");
	rd_krbd_tidy();
	return r;
}

int rd_stack_abandon(struct rd_attachment *at)
{
	struct rd_dm_info info;
	int r;

	r = rd_part_info(at, NULL, &info);
	if (!r && info.exists && info.open_count) {
		rd_err(0, "'%s' is in use", at->device);
		rd_hint("nothing was changed; unmount it first, or stop what uses it");
		return -EBUSY;
	}
	if (!r)
		r = rd_attachment_bypassed(at);
	if (!r && info.exists)
		r = rd_dm_remove(at->device);
	if (!r)
		r = rd_part_remove(at, "meta");
	rd_krbd_tidy();
	return r ? r : rd_freeze_abandon(at);
}
