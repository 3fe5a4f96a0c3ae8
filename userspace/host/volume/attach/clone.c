// SPDX-License-Identifier: GPL-2.0
/* Make a volume that begins as a version. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/lvm.h"
#include "host/volume/device/version_table.h"
#include "pool/engine/version/version.h"
#include "clone.h"
#include "stack.h"
#include "tenants.h"

struct clone {
	struct rd_pool *pool;
	const struct rd_version *version;
	const struct rd_clone_options *options;
	struct rd_attachment *at;
	struct rd_lv base, meta;
	bool base_is_zeros;
};

/* --- names */

static int name_lvs(const char *volume, struct rd_lv *base, struct rd_lv *meta)
{
	const char *slash = strchr(volume, '/');
	int vg = slash ? slash - volume : 0;

	if (!vg || !slash[1] || strchr(slash + 1, '/')) {
		rd_err(0, "'%s' is not the name of a logical volume", volume);
		rd_hint("nothing was changed; name it as GROUP/NAME");
		return -EINVAL;
	}
	/* A device's path has both names and a suffix. */
	if (vg > 60 || strlen(slash + 1) > 50)
		return rd_err(-ENAMETOOLONG, "'%s' is too long for a logical volume", volume);
	snprintf(base->vg, sizeof(base->vg), "%.*s", vg, volume);
	snprintf(base->name, sizeof(base->name), "%s", slash + 1);
	*meta = *base;
	strcat(meta->name, "_rdmeta");
	return 0;
}

/* Make the tag of this clone: no volume with other data has it. */
static void make_tag(const struct rd_attachment *at, char ret[64])
{
	char uuid[RD_UUID_TEXT];

	snprintf(ret, 64, "revdedup-clone-%s", rd_uuid_print(uuid, at->uuid));
}

/* --- what is in its way */

/*
 * Check that no volume has the name. A detach that was killed leaves only the metadata device.
 */
static int check_name(const struct rd_lv *lv, bool is_meta)
{
	bool exists;
	int r = rd_lv_exists(lv, &exists);

	if (r || !exists)
		return r;
	rd_err(0, "there is a logical volume '%s/%s'", lv->vg, lv->name);
	if (is_meta)
		rd_hint("nothing was changed; 'lvremove %s/%s' removes what an interrupted command has left",
			lv->vg, lv->name);
	else
		rd_hint("nothing was changed; choose another name: a clone is a new volume");
	return -EEXIST;
}

static int check_group_room(const struct clone *clone)
{
	u64 sectors = rd_version_sectors(clone->version);
	u64 wanted = rd_stack_meta_bytes(sectors), room;
	int r;

	if (!clone->options->thin_pool)
		wanted += sectors * 512;
	r = rd_vg_free(clone->base.vg, &room);
	if (r) {
		rd_hint("nothing was changed; 'vgs' lists the volume groups");
		return r;
	}
	/* Extents are not split, so lvcreate may still refuse. */
	if (room >= wanted)
		return 0;
	rd_err(0, "volume group '%s' has %llu MiB free, and the clone needs %llu", clone->base.vg,
	       room >> 20, rd_round_up(wanted, 1 << 20) >> 20);
	if (clone->options->thin_pool)
		rd_hint("nothing was changed; its metadata need that room, as they are not thin");
	else
		rd_remedy(RD_REMEDY_THIN_CLONE, NULL, "nothing was changed");
	return -ENOSPC;
}

static int check(struct clone *clone)
{
	const char *thin_pool = clone->options->thin_pool;
	int r;

	r = check_name(&clone->base, false);
	if (!r)
		r = check_name(&clone->meta, true);
	if (!r)
		r = check_group_room(clone);
	if (r || !thin_pool)
		return r;
	r = rd_thin_pool_check(clone->base.vg, thin_pool, &clone->base_is_zeros);
	if (r)
		rd_hint("nothing was changed; 'lvs' lists the volumes of the group");
	return r;
}

/* --- making it */

static int make_lvs(struct clone *clone)
{
	u64 sectors = rd_version_sectors(clone->version);
	struct rd_attachment *at = clone->at;
	char tag[64];
	int r;

	make_tag(at, tag);
	r = rd_lv_create_tagged(&clone->base, sectors * 512, clone->options->thin_pool, tag);
	if (!r)
		r = rd_failpoint("clone-base");
	if (!r)
		r = rd_block_sectors(at->base, &sectors);
	if (!r)
		r = rd_lv_create(&clone->meta, rd_stack_meta_bytes(sectors));
	if (!r)
		r = rd_failpoint("clone-meta");
	return r ? r : rd_attachment_identify(at);
}

static int write_table(const struct clone *clone)
{
	const struct rd_attachment *at = clone->at;
	struct rd_version_table image = {
		.volume_uuid = at->uuid,
		.base_is_zeros = clone->base_is_zeros,
		.hydrate = !clone->options->stay,
	};
	RD_CLOSE int fd = rd_open_direct(at->meta, O_RDWR | O_EXCL, 0);
	u64 sectors;
	int r;

	if (fd < 0)
		return rd_err(fd, "cannot open '%s'", at->meta);
	r = rd_block_sectors(at->base, &image.sectors);
	if (!r)
		r = rd_block_sectors(at->meta, &sectors);
	return r ? r : rd_version_table_write(clone->pool, clone->version, &image, fd,
					      sectors * 512);
}

static int bring_up(struct rd_attachment *at)
{
	enum rd_stack_state state;
	int r = rd_stack_up(at, &state);

	return !r && state != RD_STACK_UP ? -ENOPKG : r;
}

/*
 * Hold the pool shut until the device exists and can be asked: no place that the table names
 * is freed before.
 */
static int make_device(struct clone *clone)
{
	struct rd_lock shut = RD_LOCK_NONE;
	char device[RD_DM_NAME_MAX];
	i64 lease;
	int r;

	r = rd_lease_shut(clone->pool, &shut);
	if (!r)
		r = rd_lease_add(clone->pool, clone->version,
				 rd_part_uuid(device, clone->at, NULL), &lease);
	if (!r)
		r = rd_failpoint("clone-leased");
	if (!r)
		r = write_table(clone);
	if (!r)
		r = rd_failpoint("clone-table");
	if (!r)
		r = bring_up(clone->at);
	if (!r)
		r = rd_failpoint("clone-up");
	rd_lock_drop(&shut);
	return r;
}

static int save(struct rd_attachment *at, bool is_unfinished)
{
	at->is_unfinished = is_unfinished;
	return rd_attachment_save(at);
}

static int make(struct clone *clone)
{
	int r;

	r = save(clone->at, true);
	if (!r)
		r = rd_failpoint("clone-noted");
	if (!r)
		r = make_lvs(clone);
	if (!r)
		r = make_device(clone);
	if (!r)
		r = save(clone->at, false);
	if (!r)
		return 0;
	if (!rd_clone_undo(clone->pool, clone->at))
		rd_hint("nothing is left of the clone");
	return r;
}

/* --- */

/* Take the name: it must be free, or that of an unfinished clone, which is removed. */
static int take_name(const struct clone *clone, const char *volume)
{
	RD_FREE struct rd_attachment *was = malloc(sizeof(*was));
	int r = was ? rd_attachment_load(was, volume) : -ENOMEM;

	if (r)
		return r == -ENOENT ? 0 : r;
	if (was->is_unfinished && !strcmp(was->pool, clone->at->pool))
		return rd_clone_undo(clone->pool, was);
	if (was->is_unfinished) {
		rd_err(0, "'%s' is an unfinished clone from the pool '%s'", volume,
		       was->pool);
		rd_remedy(RD_REMEDY_CLEAR_CLONE, volume, "nothing was changed");
		return -EEXIST;
	}
	rd_err(0, "'%s' is attached already", volume);
	rd_hint("nothing was changed; choose another name: a clone is a new volume");
	return -EEXIST;
}

static int begin(struct clone *clone, unsigned int wait_ms)
{
	char base[RD_LV_PATH_MAX], meta[RD_LV_PATH_MAX];
	const char *volume = clone->options->volume;
	struct rd_attachment *at = clone->at;
	int r;

	r = rd_attachment_init(at, volume, rd_lv_path(base, &clone->base),
			       rd_lv_path(meta, &clone->meta));
	if (!r)
		r = rd_attachment_lock(at, wait_ms);
	if (!r && !realpath(clone->pool->path, at->pool))
		r = rd_err(-errno, "cannot find the path of the pool");
	/* Another command may have made the clone before the lock was taken. */
	if (!r)
		r = take_name(clone, volume);
	return r ? r : check(clone);
}

int rd_clone(struct rd_pool *pool, const struct rd_version *version,
	     const struct rd_clone_options *options, unsigned int wait_ms,
	     struct rd_attachment *at)
{
	struct clone clone = { pool, version, options, at, .base_is_zeros = false };
	int r;

	r = name_lvs(options->volume, &clone.base, &clone.meta);
	if (!r)
		r = begin(&clone, wait_ms);
	if (!r)
		r = rd_version_table_check(pool, version);
	if (!r)
		r = make(&clone);
	/* Free places that other commands could not free meanwhile. */
	if (!r)
		rd_free_queue_late(pool);
	return r;
}

int rd_clone_undo(struct rd_pool *pool, struct rd_attachment *at)
{
	struct rd_lv base, meta;
	char tag[64];
	int r;

	make_tag(at, tag);
	r = name_lvs(at->volume, &base, &meta);
	if (!r)
		r = rd_stack_abandon(at);
	if (!r)
		r = rd_lv_remove_tagged(&base, tag);
	if (!r)
		r = rd_lv_remove(&meta);
	if (!r)
		r = rd_tell_gone(pool, at);
	/* Remove the file last: it says that there are remains. */
	return r ? r : rd_attachment_remove(at);
}
