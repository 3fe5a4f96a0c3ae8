// SPDX-License-Identifier: GPL-2.0
/* Hold the content of volumes still while they are copied. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "meta/table_read.h"
#include "freeze.h"
#include "pause.h"

/* In sectors: dm-snapshot copies a chunk once, before its first overwrite. */
#define CHUNK		32
#define MIN_COW		(64ULL << 20)
#define MAX_COW		(32ULL << 30)
/* A block of metadata is a chunk, so that what can change is what the store must hold. */
#define META_CHUNK	DMR_BLOCK_SECTORS

/* --- parts */

struct part {
	char name[RD_DM_NAME_MAX];
	char path[RD_DM_PATH_MAX];
};

static void name_part(struct part *part, const struct rd_attachment *at, const char *word)
{
	rd_part_name(part->name, at, word);
	rd_dm_path(part->path, part->name);
}

static bool exists(const struct rd_attachment *at, const char *word)
{
	struct rd_dm_info info;

	return !rd_part_info(at, word, &info) && info.exists;
}

/* Make a device with this table, which its first resume activates. */
static int prepare(const struct rd_attachment *at, const char *word, u64 sectors,
		   const char *target, const char *params)
{
	char name[RD_DM_NAME_MAX], uuid[RD_DM_NAME_MAX];
	int r;

	r = rd_dm_create(rd_part_name(name, at, word), rd_part_uuid(uuid, at, word));
	return r ? r : rd_dm_load(name, sectors, target, params, 0);
}

static int prepare_snapshot(const struct rd_attachment *at, const char *word, u64 sectors,
			    const char *origin, const struct rd_cow *cow,
			    unsigned int chunk)
{
	char params[PATH_MAX + RD_LV_PATH_MAX + 32];

	/* Not persistent: after a crash the snapshot is useless. */
	snprintf(params, sizeof(params), "%s %s N %u", origin, cow->path, chunk);
	return prepare(at, word, sectors, "snapshot", params);
}

static int resume_part(const struct rd_attachment *at, const char *word, unsigned int flags)
{
	char name[RD_DM_NAME_MAX];

	return rd_dm_resume(rd_part_name(name, at, word), RD_DM_PRIVATE | flags);
}

/* --- beginning */

static u64 cow_bytes(const struct rd_freeze_options *options,
		     const struct rd_target_status *status)
{
	u64 dirty = status->nr_dirty << RD_SEG_SHIFT;

	if (options->cow_bytes)
		return options->cow_bytes;
	return rd_min(rd_max(dirty / 4, MIN_COW), MAX_COW);
}

/* Make the devices over the base, and load the volume's next table on top of them. */
static int prepare_base(struct rd_freeze *freeze, const struct rd_freeze_options *options,
			const struct rd_target_status *status)
{
	const struct rd_attachment *at = freeze->at;
	struct rd_cow cow = RD_COW_NONE;
	struct rd_target_devices devices;
	struct part origin;
	u64 sectors;
	int r;

	name_part(&origin, at, "origin");
	r = rd_block_sectors(at->base, &sectors);
	if (!r)
		r = rd_cow_open(&cow, at->base, options->dir, cow_bytes(options, status));
	if (!r)
		r = prepare_snapshot(at, "snap", sectors, at->base, &cow, CHUNK);
	rd_cow_keep(&cow);
	/*
	 * In this order: a snapshot-origin learns at its resume how long a write may be so
	 * that it touches one chunk. Without a snapshot it would learn nothing, and copy only
	 * the first chunk of each write.
	 */
	if (!r)
		r = prepare(at, "origin", sectors, "snapshot-origin", at->base);
	if (!r)
		r = resume_part(at, "origin", 0);
	if (!r)
		r = rd_target_devices(at->device, &devices);
	if (r)
		return r;
	rd_block_number(devices.base, origin.path);
	return rd_target_reload(at->device, &devices);
}

/*
 * Calculate what of the metadata can change until the copy is done: superblocks, bitmaps, words,
 * and the pages of segments that are not home. No other page is written: a segment leaves home
 * only by commands that wait for the lock of the attachment. So the store cannot overflow,
 * however the volume is written to.
 */
static int meta_cow_bytes(const struct rd_attachment *at, u64 *ret)
{
	RD_CLOSE int fd = rd_meta_open_path(at->meta, NULL);
	struct rd_meta_source source;
	struct rd_meta meta;
	u64 blocks;
	int r = fd < 0 ? fd : rd_meta_source_fd(&source, fd);

	*ret = 0;
	if (!r)
		r = rd_meta_open(&meta, &source);
	if (r)
		return rd_err(r, "cannot read the metadata of '%s' on '%s'", at->volume, at->meta);
	blocks = 2 + meta.nr_groups * (DMR_STRIDE_BITS + DMR_GROUP_WORD_BLOCKS) +
		 rd_table_count_away(&meta);
	*ret = rd_min(blocks, meta.super.meta_blocks) * DMR_BLOCK_SIZE;
	return 0;
}

static int prepare_meta(struct rd_freeze *freeze, const struct rd_freeze_options *options)
{
	const struct rd_attachment *at = freeze->at;
	struct rd_cow cow = RD_COW_NONE;
	struct part meta;
	u64 sectors, bytes;
	int r;

	name_part(&meta, at, "meta");
	r = rd_block_sectors(at->meta, &sectors);
	if (!r)
		r = meta_cow_bytes(at, &bytes);
	if (!r)
		r = rd_cow_open_meta(&cow, at->base, options->dir, bytes);
	if (!r)
		r = prepare_snapshot(at, "metasnap", sectors, at->meta, &cow, META_CHUNK);
	rd_cow_keep(&cow);
	return r ? r : rd_dm_load(meta.name, sectors, "snapshot-origin", at->meta, 0);
}

/* Take a snapshot of the metadata while the volume is suspended and all is written back. */
static int freeze_meta(const struct rd_attachment *at)
{
	char meta[RD_DM_NAME_MAX];
	int r, resumed;

	r = rd_dm_suspend(rd_part_name(meta, at, "meta"), 0);
	if (r)
		return r;
	r = rd_failpoint("freeze-meta");
	if (!r)
		r = resume_part(at, "metasnap", RD_DM_LATER);
	resumed = rd_dm_resume(meta, RD_DM_PRIVATE | RD_DM_LATER);
	return r ? r : resumed;
}

static int checkpoint(struct rd_freeze *freeze)
{
	freeze->epoch = freeze->last_epoch + 1;
	return rd_target_checkpoint(freeze->at->device, freeze->epoch);
}

/* Freezes that begin at one moment. */
struct moment {
	struct rd_freeze *const *freezes;
	unsigned int nr;
	struct rd_quiesce quiesce;
};

static int freeze_one(struct rd_freeze *freeze)
{
	int r = rd_failpoint("freeze-one");

	/* Where the suspend could not write the table back, the checkpoint does, or fails. */
	if (!r)
		r = checkpoint(freeze);
	if (!r && freeze->has_view)
		r = freeze_meta(freeze->at);
	return r ? r : resume_part(freeze->at, "snap", RD_DM_LATER);
}

static int while_suspended(void *ctx)
{
	struct moment *moment = ctx;
	unsigned int i;
	int r = rd_failpoint("freeze-suspended");

	for (i = 0; i < moment->nr && !r; i++)
		r = freeze_one(moment->freezes[i]);
	return r ? r : rd_failpoint("freeze-checkpoint");
}

/* Flush while writers go on what a suspend and a checkpoint would have to flush. */
static int flush(const struct rd_attachment *at)
{
	char path[RD_DM_PATH_MAX];
	RD_CLOSE int fd = open(rd_dm_path(path, at->device), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return rd_err(-errno, "cannot open '%s'", path);
	return fdatasync(fd) ? rd_err(-errno, "cannot flush '%s'", path) : 0;
}

static int pause_volumes(struct moment *moment, u64 *ret_us)
{
	RD_FREE struct rd_paused *devices = calloc(moment->nr, sizeof(*devices));
	struct rd_pause pause = {
		.devices = devices,
		.nr = moment->nr,
		.work = while_suspended,
		.ctx = moment,
	};
	unsigned int i;
	int resumed, r = 0;

	if (!devices)
		return -ENOMEM;
	for (i = 0; i < moment->nr && !r; i++) {
		const struct rd_attachment *at = moment->freezes[i]->at;

		memcpy(devices[i].device, at->device, sizeof(devices[i].device));
		rd_part_name(devices[i].inner, at, "meta");
		/* Linux 6.1 refuses to freeze a file system twice. */
		if (rd_quiesce_has_frozen(&moment->quiesce, i))
			devices[i].flags = RD_DM_NOLOCKFS;
		r = flush(at);
	}
	if (!r)
		r = rd_pause(&pause, &resumed);
	*ret_us = pause.usec;
	return r;
}

static int hold_and_pause(struct moment *moment, const struct rd_freeze_options *options)
{
	RD_FREE const struct rd_attachment **ats = calloc(moment->nr, sizeof(*ats));
	unsigned int i;
	u64 us = 0;
	int undone, r;

	if (!ats)
		return -ENOMEM;
	for (i = 0; i < moment->nr; i++)
		ats[i] = moment->freezes[i]->at;
	r = rd_quiesce_begin(&moment->quiesce, ats, moment->nr, options->hook_seconds);
	if (r)
		return r;
	r = pause_volumes(moment, &us);
	undone = rd_quiesce_end(&moment->quiesce);
	for (i = 0; i < moment->nr; i++) {
		moment->freezes[i]->pause_us = rd_max(us, moment->quiesce.usec);
		moment->freezes[i]->undo_failed = undone == -EIO;
	}
	return r ? r : undone == -EIO ? 0 : undone;
}

static int make_view(struct rd_freeze *freeze)
{
	const struct rd_attachment *at = freeze->at;
	char name[RD_DM_NAME_MAX], uuid[RD_DM_NAME_MAX];
	struct part snap, metasnap;
	struct rd_target_devices devices;
	struct rd_target_table table;
	int r;

	name_part(&snap, at, "snap");
	name_part(&metasnap, at, "metasnap");
	r = rd_target_devices(at->device, &devices);
	if (r)
		return r;
	table = (struct rd_target_table){
		.sectors = devices.sectors,
		.base = snap.path,
		.meta = metasnap.path,
		.pool = devices.pool,
		.zeros = rd_target_has_zeros(&devices),
	};
	r = rd_dm_create(rd_part_name(name, at, "view"), rd_part_uuid(uuid, at, "view"));
	if (!r)
		r = rd_target_load(name, &table, RD_DM_READ_ONLY);
	if (!r)
		r = rd_dm_resume(name, RD_DM_PRIVATE);
	return r;
}

static int set_source(struct rd_freeze *freeze)
{
	struct part part;

	name_part(&part, freeze->at, freeze->has_view ? "view" : "snap");
	memcpy(freeze->source, part.path, sizeof(part.path));
	return freeze->has_view ? make_view(freeze) : 0;
}

/* Make all that can be made before the pause. */
static int prepare_all(struct rd_freeze *freeze, const struct rd_freeze_options *options)
{
	struct rd_target_status status;
	int r;

	r = rd_target_status(freeze->at->device, &status);
	if (r)
		return rd_err(r, "'%s' is not tracked", freeze->at->volume);
	freeze->has_view = !rd_target_is_home(&status);
	/* It is this command that makes the next one: the attachment is locked. */
	freeze->last_epoch = status.epoch;
	r = prepare_base(freeze, options, &status);
	if (!r && freeze->has_view)
		r = prepare_meta(freeze, options);
	return r;
}

static int begin(struct moment *moment, const struct rd_freeze_options *options)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < moment->nr && !r; i++)
		r = prepare_all(moment->freezes[i], options);
	if (!r)
		r = rd_failpoint("freeze-prepared");
	if (!r)
		r = hold_and_pause(moment, options);
	if (!r)
		r = rd_failpoint("freeze-resumed");
	for (i = 0; i < moment->nr && !r; i++)
		r = set_source(moment->freezes[i]);
	return r;
}

int rd_freeze_begin(struct rd_freeze *const *freezes, unsigned int nr,
		    const struct rd_freeze_options *options)
{
	struct moment moment = { .freezes = freezes, .nr = nr };
	unsigned int i;
	int r;

	r = begin(&moment, options);
	if (!r)
		return 0;
	for (i = 0; i < nr; i++) {
		rd_freeze_end(freezes[i]->at);
		/* A resume that failed before the swap has left it suspended over its base. */
		rd_part_wake(freezes[i]->at, NULL, 0);
		if (freezes[i]->epoch)
			rd_target_abort(freezes[i]->at->device, freezes[i]->epoch);
	}
	return r;
}

/* --- while it is copied */

static int check_part(const struct rd_attachment *at, const char *word)
{
	RD_FREE char *text = NULL;
	char name[RD_DM_NAME_MAX], target[RD_DM_NAME_MAX];
	u64 sectors;
	int r;

	r = rd_dm_status(rd_part_name(name, at, word), &sectors, target, &text);
	if (r)
		return r;
	if (text[0] >= '0' && text[0] <= '9')
		return 0;
	rd_err(0, "'%s' was written faster than it was copied: no room was left for overwritten data (%s)",
	       at->volume, text);
	rd_remedy(RD_REMEDY_MORE_COW, NULL, NULL);
	return -EIO;
}

int rd_freeze_check(const struct rd_freeze *freeze)
{
	int r = check_part(freeze->at, "snap");

	return r || !freeze->has_view ? r : check_part(freeze->at, "metasnap");
}

/* --- ending */

static int is_on_origin(const struct rd_attachment *at, const struct rd_target_devices *devices)
{
	char base[32];

	if (access(at->base, F_OK))
		return rd_err(-errno, "'%s' does not exist", at->base);
	return strcmp(devices->base, rd_block_number(base, at->base)) != 0;
}

static int back_to_base(const struct rd_attachment *at)
{
	struct rd_target_devices devices;
	int r;

	if (!exists(at, NULL))
		return 0;
	/* Drop a table that was loaded and never resumed. */
	rd_dm_unload(at->device);
	r = rd_target_devices(at->device, &devices);
	if (r == -ENODATA)
		return 0;
	if (!r)
		r = is_on_origin(at, &devices);
	if (r <= 0)
		return r;
	rd_block_number(devices.base, at->base);
	r = rd_target_reload(at->device, &devices);
	/* The content is the same, so there is nothing to flush. */
	return r ? r : rd_dm_swap(at->device, RD_DM_NOFLUSH | RD_DM_NOLOCKFS);
}

static int meta_back(const struct rd_attachment *at)
{
	char name[RD_DM_NAME_MAX], target[RD_DM_NAME_MAX];
	RD_FREE char *text = NULL;
	u64 sectors;
	int r;

	if (!exists(at, "meta"))
		return 0;
	rd_dm_unload(rd_part_name(name, at, "meta"));
	r = rd_part_wake(at, "meta", RD_DM_PRIVATE);
	if (r)
		return r;
	r = rd_dm_table(name, &sectors, target, &text);
	if (r || !strcmp(target, "linear"))
		return r;
	r = rd_dm_load_linear(name, sectors, at->meta);
	return r ? r : rd_dm_swap(name, RD_DM_PRIVATE);
}

bool rd_freeze_is_there(const struct rd_attachment *at)
{
	return exists(at, "origin") || exists(at, "snap") || exists(at, "metasnap") ||
		exists(at, "view");
}

int rd_freeze_abandon(const struct rd_attachment *at)
{
	static const char *const parts[] = { "view", "metasnap", "snap", "origin" };
	unsigned int i;
	int one, r = 0;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		one = rd_part_remove(at, parts[i]);
		r = r ? r : one;
	}
	return r;
}

/* Try to remove every part, so that as little as possible is left. */
int rd_freeze_end(const struct rd_attachment *at)
{
	int r, one;

	r = back_to_base(at);
	one = meta_back(at);
	r = r ? r : one;
	one = rd_freeze_abandon(at);
	r = r ? r : one;
	one = rd_cow_remove(at->base);
	return r ? r : one;
}
