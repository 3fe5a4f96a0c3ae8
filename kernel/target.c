// SPDX-License-Identifier: GPL-2.0
/*
 * dm-revdedup knows every 2 MiB segment of a volume that was written since the last
 * committed snapshot, whatever crashes.
 *
 * This file is what device-mapper calls: the table line, map, suspend and
 * resume, status. See dmr.h for the order of files and locks, format.h for the
 * metadata device, firstwrite.c for the rule that no write is forgotten, and
 * Documentation/dm-revdedup.rst for users.
 *
 * map decides from bits in memory alone. Reads, flushes, and writes to segments
 * that are dirty already go down at once, so that the target costs what
 * dm-linear costs; everything else goes to the worker.
 */
#include <linux/module.h>
#include <linux/uuid.h>

#include "dirty.h"
#include "firstwrite.h"
#include "flush.h"
#include "hydrate.h"
#include "message.h"
#include "meta.h"
#include "queue.h"
#include "ranges.h"
#include "remap.h"
#include "table.h"

#define MAX_MIB		65536U

/* ------------------------------------------------------------------
 * Table line
 */

static int parse_base(struct dm_target *ti, struct dmr_target *rt,
		      const char *path)
{
	int r;

#ifndef DMR_NO_TABLE
	if (!strcmp(path, "-")) {
		if (rt->read_only && rt->pool)
			return 0;
		ti->error = "only a read-only table with a pool device needs no base device";
		return -EINVAL;
	}
#endif
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &rt->base);
	if (r)
		ti->error = "cannot open the base device";
	return r;
}

static bool is_same(struct dm_dev *a, struct dm_dev *b)
{
	return a && b && a->bdev->bd_dev == b->bdev->bd_dev;
}

static int parse_meta_dev(struct dm_target *ti, struct dmr_target *rt,
			  const char *path)
{
	int r;

	r = dm_get_device(ti, path, dm_table_get_mode(ti->table),
			  &rt->meta_dev);
	if (r) {
		ti->error = "cannot open the metadata device";
		return r;
	}
	if (is_same(rt->meta_dev, rt->base)) {
		ti->error = "metadata must not lie on the base device";
		return -EINVAL;
	}
	return 0;
}

#ifndef DMR_NO_TABLE
static int parse_pool(struct dm_target *ti, struct dmr_target *rt,
		      const char *path)
{
	int r;

	if (!strcmp(path, "-"))
		return 0;
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &rt->pool);
	if (r)
		ti->error = "cannot open the pool device";
	return r;
}

static int check_pool(struct dm_target *ti, struct dmr_target *rt)
{
	if (is_same(rt->meta_dev, rt->pool))
		ti->error = "metadata must not lie on the pool device";
	else if (is_same(rt->base, rt->pool))
		ti->error = "base and pool must be two devices";
	else
		return 0;
	return -EINVAL;
}

/*
 * Refuse a pool with larger logical blocks than the base has: a file system on the
 * volume is laid out for the blocks of the base, and could not read smaller parts of a
 * pool block. Without a base the device is a version of a volume whose blocks are
 * unknown: the pool must have the smallest ones.
 */
static int check_pool_block_size(struct dm_target *ti, struct dmr_target *rt)
{
	unsigned int of_base = rt->base ? bdev_logical_block_size(rt->base->bdev) :
			       SECTOR_SIZE;

	if (!rt->pool || bdev_logical_block_size(rt->pool->bdev) <= of_base)
		return 0;
	ti->error = rt->base ? "the pool device has larger logical blocks than the base device" :
		    "a pool without a base must have logical blocks of 512 bytes";
	return -EINVAL;
}
#endif

static bool has_large_blocks(struct dm_dev *dev)
{
	return dev && bdev_logical_block_size(dev->bdev) > DMR_BLOCK_SIZE;
}

/* Refuse devices that cannot take a block of 4 KiB; kernels from 6.15 on have such. */
static int check_block_size(struct dm_target *ti, struct dmr_target *rt)
{
	if (has_large_blocks(rt->base))
		ti->error = "the base device has logical blocks of more than 4096 bytes";
	else if (has_large_blocks(rt->meta_dev))
		ti->error = "the metadata device has logical blocks of more than 4096 bytes";
	else
#ifndef DMR_NO_TABLE
		return check_pool_block_size(ti, rt);
#else
		return 0;
#endif
	return -EINVAL;
}

#ifndef DMR_NO_TABLE
static int parse_mib(struct dm_target *ti, const char *text, unsigned int *to)
{
	u64 mib;

	if (dmr_parse_u64(text, &mib) || !mib || mib > MAX_MIB) {
		ti->error = "cache_mib and pack_mib must be 1 to 65536";
		return -EINVAL;
	}
	if (*to) {
		ti->error = "an option is given twice";
		return -EINVAL;
	}
	*to = mib;
	return 0;
}

/* Parse an option of the remap table: 1, or 0 if this is none, or -errno. */
static int parse_table_opt(struct dm_target *ti, struct dmr_target *rt, const char *name,
			   struct dm_arg_set *as)
{
	unsigned int *mib = !strcasecmp(name, "cache_mib") ? &rt->cache_mib :
			    !strcasecmp(name, "pack_mib") ? &rt->pack_mib : NULL;
	int r;

	if (!strcasecmp(name, "zeros")) {
		if (rt->zeros) {
			ti->error = "an option is given twice";
			return -EINVAL;
		}
		rt->zeros = true;
		return 1;
	}
	if (!mib || !as->argc)
		return 0;
	r = parse_mib(ti, dm_shift_arg(as), mib);
	return r ? r : 1;
}
#endif

static int parse_uuid(struct dm_target *ti, const char *text, u8 *uuid)
{
	uuid_t parsed;

	if (strlen(text) != UUID_STRING_LEN || uuid_parse(text, &parsed) ||
	    uuid_is_null(&parsed)) {
		ti->error = "a uuid must be 36 characters, and not all zeros";
		return -EINVAL;
	}
	export_uuid(uuid, &parsed);
	return 0;
}

static int parse_opts(struct dm_target *ti, struct dmr_target *rt,
		      struct dm_arg_set *as)
{
#ifndef DMR_NO_TABLE
	static const struct dm_arg nr_opts_arg = {
		0, 9, "the number of option words must be 0 to 9, and so many must follow",
	};
	static char bad_option[] =
		"options are volume_uuid|pool_uuid <uuid>, cache_mib|pack_mib <MiB>, zeros";
#else
	static const struct dm_arg nr_opts_arg = {
		0, 4, "the number of option words must be 0 to 4, and so many must follow",
	};
	static char bad_option[] =
		"options are volume_uuid|pool_uuid <uuid>";
#endif
	unsigned int nr_opts;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(&nr_opts_arg, as, &nr_opts, &ti->error);
	if (r)
		return r;
	if (as->argc != nr_opts) {
		ti->error = "the number of option words does not match the words that follow";
		return -EINVAL;
	}
	rt->nr_opts = nr_opts;
	while (as->argc) {
		const char *name = dm_shift_arg(as);
		u8 *uuid = !strcasecmp(name, "volume_uuid") ? rt->volume_uuid :
			   !strcasecmp(name, "pool_uuid") ? rt->pool_uuid :
			   NULL;

#ifndef DMR_NO_TABLE
		r = parse_table_opt(ti, rt, name, as);
		if (r < 0)
			return r;
		if (r)
			continue;
#endif
		if (!uuid || !as->argc) {
			ti->error = bad_option;
			return -EINVAL;
		}
		if (!dmr_is_zero(uuid, DMR_UUID_SIZE)) {
			ti->error = "an option is given twice";
			return -EINVAL;
		}
		r = parse_uuid(ti, dm_shift_arg(as), uuid);
		if (r)
			return r;
	}
	return 0;
}

static void dmr_destroy(struct dm_target *ti, struct dmr_target *rt)
{
	if (rt->meta)
		dmr_meta_put(rt->meta, ti);
	if (rt->meta_dev)
		dm_put_device(ti, rt->meta_dev);
#ifndef DMR_NO_TABLE
	if (rt->pool)
		dm_put_device(ti, rt->pool);
#endif
	if (rt->base)
		dm_put_device(ti, rt->base);
	kfree(rt);
}

static void dmr_init_target(struct dm_target *ti, struct dmr_target *rt)
{
	ti->private = rt;
	ti->per_io_data_size = sizeof(struct dmr_io);
	ti->num_flush_bios = 1;
#ifndef DMR_NO_TABLE
	/* Entries may wait in memory even where the base has no cache. */
	ti->flush_supported = rt->has_table;
#endif
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	/*
	 * Even if the base supports none now: a snapshot-origin that is below the
	 * target at this moment goes away again.
	 */
	ti->discards_supported = true;
}

static int dmr_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dm_arg_set as = { .argc = argc - 3, .argv = argv + 3 };
	struct dmr_target *rt;
	int r;

	if (argc < 3) {
#ifndef DMR_NO_TABLE
		ti->error = "arguments are <base dev|-> <meta dev> <pool dev|-> [<#opts> <opt>...]";
#else
		ti->error = "arguments are <base dev> <meta dev> - [<#opts> <opt>...]";
#endif
		return -EINVAL;
	}
#ifdef DMR_NO_TABLE
	if (strcmp(argv[2], "-")) {
		ti->error = "there is no remap table, so the pool device must be -";
		return -EINVAL;
	}
#endif
	rt = kzalloc(sizeof(*rt), GFP_KERNEL);
	if (!rt) {
		ti->error = "cannot allocate the target";
		return -ENOMEM;
	}
	rt->read_only = !dmr_table_is_writable(ti);
	r = parse_opts(ti, rt, &as);
#ifndef DMR_NO_TABLE
	if (!r)
		r = parse_pool(ti, rt, argv[2]);
	rt->has_table = rt->pool || rt->zeros;
#endif
	if (!r)
		r = parse_base(ti, rt, argv[0]);
	if (!r)
		r = parse_meta_dev(ti, rt, argv[1]);
#ifndef DMR_NO_TABLE
	if (!r)
		r = check_pool(ti, rt);
#endif
	if (!r)
		r = check_block_size(ti, rt);
	if (!r)
		rt->meta = dmr_meta_get(ti, rt, &r);
	if (r) {
		dmr_destroy(ti, rt);
		return r;
	}
	dmr_init_target(ti, rt);
	return 0;
}

static void dmr_dtr(struct dm_target *ti)
{
	dmr_destroy(ti, ti->private);
}

/* ------------------------------------------------------------------
 * I/O
 */

static int map_write(struct dmr_meta *meta, struct bio *bio)
{
	if (bio_op(bio) == REQ_OP_WRITE_ZEROES) {
		struct dmr_io *io = dmr_io_of(bio);

		io->base = bio->bi_bdev;
		io->sector = bio->bi_iter.bi_sector;
		io->sectors = bio_sectors(bio);
	}
	if (likely(dmr_dirty_is_stable(meta, bio)))
		return DM_MAPIO_REMAPPED;
	/*
	 * The submitter does not block here, so do not refuse a REQ_NOWAIT bio:
	 * io_uring would send each first write again from a worker thread of its own.
	 * But the worker that issues the bio may block, so drop the flag. And no
	 * submitter may poll for a bio that another thread has yet to issue.
	 */
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	dmr_queue_first_write(meta, bio);
	return DM_MAPIO_SUBMITTED;
}

static int dmr_map(struct dm_target *ti, struct bio *bio)
{
	struct dmr_target *rt = ti->private;

#ifndef DMR_NO_TABLE
	if (rt->meta->table)
		return dmr_remap_map(rt->meta->table, rt, bio);
#endif

	bio_set_dev(bio, rt->base->bdev);

	/*
	 * The base can lose the feature while the target is live, when lvcreate puts a
	 * snapshot-origin below it.
	 */
	if (unlikely((bio->bi_opf & REQ_NOWAIT) &&
		     !bdev_nowait(rt->base->bdev))) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (!op_is_write(bio_op(bio)) || !bio_sectors(bio))
		return DM_MAPIO_REMAPPED;

	/* A program that had the device open for writing before can still write. */
	if (unlikely(rt->read_only))
		return DM_MAPIO_KILL;

	/* A discard that the base does not support at the moment changes nothing. */
	if (unlikely(bio_op(bio) == REQ_OP_DISCARD &&
		     !bdev_max_discard_sectors(rt->base->bdev))) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	return map_write(rt->meta, bio);
}

/* What the base supports may have changed since map looked. */
static int dmr_end_io(struct dm_target *ti, struct bio *bio,
		      blk_status_t *error)
{
	struct dmr_target *rt = ti->private;

	if (unlikely(*error == BLK_STS_NOTSUPP)) {
		if (bio_op(bio) == REQ_OP_WRITE_ZEROES) {
			dmr_queue_zeroes(rt->meta, bio);
			return DM_ENDIO_INCOMPLETE;
		}
		if (bio_op(bio) == REQ_OP_DISCARD)
			*error = BLK_STS_OK;
		else if (bio->bi_opf & REQ_NOWAIT)
			*error = BLK_STS_AGAIN;
	}
#ifndef DMR_NO_TABLE
	if (unlikely(*error && (bio->bi_opf & (REQ_PREFLUSH | REQ_FUA)) && rt->meta->table))
		dmr_remap_note_error(rt->meta->table, bio, *error);
#endif
	if (unlikely(bio->bi_opf & (REQ_PREFLUSH | REQ_FUA)))
		dmr_flush_tell(rt->meta, error);
#ifndef DMR_NO_TABLE
	if (rt->meta->table)
		return dmr_remap_end_io(rt->meta->table, bio, error);
#endif
	return DM_ENDIO_DONE;
}

/* ------------------------------------------------------------------
 * Suspend and resume
 */

static void dmr_presuspend(struct dm_target *ti)
{
	struct dmr_target *rt = ti->private;

	/* Device-mapper blocks I/O first, and then waits for a message that runs. */
	WRITE_ONCE(rt->meta->is_awaited, true);
	/* First writes that are held would keep the suspend waiting. */
	if (dm_noflush_suspending(ti))
		dmr_first_write_requeue(rt->meta, true);
#ifndef DMR_NO_TABLE
	if (rt->meta->table)
		dmr_hydrate_pause(rt->meta->table);
#endif
}

static void dmr_presuspend_undo(struct dm_target *ti)
{
	struct dmr_target *rt = ti->private;

	WRITE_ONCE(rt->meta->is_awaited, false);
	dmr_first_write_requeue(rt->meta, false);
#ifndef DMR_NO_TABLE
	if (rt->meta->table)
		dmr_hydrate_resume(rt->meta->table);
#endif
}

/*
 * Suspend: device-mapper has waited for all bios, so none is deferred or held, and
 * none comes before preresume. Bits are stable, or an outage goes on.
 */
static void dmr_postsuspend(struct dm_target *ti)
{
	struct dmr_target *rt = ti->private;

	dmr_first_write_requeue(rt->meta, false);
	dmr_meta_suspend(rt->meta);
}

static int dmr_preresume(struct dm_target *ti)
{
	struct dmr_target *rt = ti->private;
	int r;

	/* Even if the resume is refused: device-mapper destroys the old table line then, too. */
	dmr_meta_use(rt->meta, ti, rt);
	/* A device below may have been reloaded since this table line was. */
	r = check_block_size(ti, rt);
	if (r)
		DMERR("%s: %s", dmr_name(rt->meta), ti->error);
	/* It was reloaded under the live line: the guest must go on, with errors where it reads. */
	if (r && !rt->was_live)
		return r;
	return dmr_meta_resume(rt->meta, ti, rt);
}

static void dmr_resume(struct dm_target *ti)
{
	struct dmr_target *rt = ti->private;

	rt->was_live = true;
#ifndef DMR_NO_TABLE
	if (rt->meta->table)
		dmr_hydrate_resume(rt->meta->table);
#endif
}

/* ------------------------------------------------------------------
 * Status
 */

static u64 count_dirty(struct dmr_meta *meta)
{
	u64 i, nr = 0;

	for (i = 0; i < meta->nr_groups * DMR_BITS_LONGS; i++)
		nr += hweight64(meta->want[i]);
	return nr;
}

#ifndef DMR_NO_TABLE
static void get_counts(struct dmr_meta *meta, struct dm_target *ti,
		       struct dmr_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (meta->table)
		dmr_table_count(meta->table, counts);
	else
		counts->base = dmr_nr_blocks(ti->len);
}

static u64 hydration_left(struct dmr_meta *meta, const struct dmr_counts *counts)
{
	if (!meta->table || !(meta->super.flags & DMR_FLAG_HYDRATE))
		return 0;
	return counts->zero + counts->pool;
}
#endif

/*
 * <format version> <epoch> <uncommitted checkpoint|-> <last version>
 * <dirty>/<total segments> <base> <zero> <pool blocks> <hydration left>
 * <ok|lost> <rw|ro|fail> <off|on|paused> <waiting segments> <page reads>
 * <MiB for packs> <groups read>
 */
static void status_info(struct dm_target *ti, struct dmr_meta *meta,
			char *result, unsigned int maxlen)
{
#ifndef DMR_NO_TABLE
	struct dmr_counts counts;
#endif
	unsigned int sz = 0;

	mutex_lock(&meta->lock);
	if (!meta->loaded) {
		DMEMIT("-");
	} else {
		DMEMIT("%u %llu ", DMR_FORMAT_VERSION, meta->super.epoch);
		if (meta->super.flags & DMR_FLAG_FROZEN)
			DMEMIT("%llu", meta->super.epoch);
		else
			DMEMIT("-");
#ifndef DMR_NO_TABLE
		get_counts(meta, ti, &counts);
		DMEMIT(" %llu %llu/%llu %llu %llu %llu %llu %s %s %s %u %llu %u %llu",
		       meta->super.version_nr, count_dirty(meta),
		       meta->nr_segs, counts.base, counts.zero, counts.pool,
		       hydration_left(meta, &counts), dmr_is_lost(meta) ? "lost" : "ok",
		       meta->read_only ? "ro" : counts.failed ? "fail" : "rw",
		       meta->table ? dmr_hydrate_state(meta->table) : "off",
		       counts.waiting, counts.page_reads, counts.pack_mib,
		       counts.groups_read);
#else
		DMEMIT(" %llu %llu/%llu %llu 0 0 0 %s %s off 0 0 0 0",
		       meta->super.version_nr, count_dirty(meta), meta->nr_segs,
		       dmr_nr_blocks(ti->len), dmr_is_lost(meta) ? "lost" : "ok",
		       meta->read_only ? "ro" : "rw");
#endif
	}
	mutex_unlock(&meta->lock);
}

#ifndef DMR_NO_TABLE
static const char *name_of(struct dm_dev *dev)
{
	return dev ? dev->name : "-";
}
#endif

static void status_table(struct dmr_target *rt, char *result,
			 unsigned int maxlen)
{
	unsigned int sz = 0;

#ifndef DMR_NO_TABLE
	DMEMIT("%s %s %s", name_of(rt->base), rt->meta_dev->name,
	       name_of(rt->pool));
#else
	DMEMIT("%s %s -", rt->base->name, rt->meta_dev->name);
#endif
	if (!rt->nr_opts)
		return;
	DMEMIT(" %u", rt->nr_opts);
	if (!dmr_is_zero(rt->volume_uuid, DMR_UUID_SIZE))
		DMEMIT(" volume_uuid %pUb", rt->volume_uuid);
	if (!dmr_is_zero(rt->pool_uuid, DMR_UUID_SIZE))
		DMEMIT(" pool_uuid %pUb", rt->pool_uuid);
#ifndef DMR_NO_TABLE
	if (rt->cache_mib)
		DMEMIT(" cache_mib %u", rt->cache_mib);
	if (rt->pack_mib)
		DMEMIT(" pack_mib %u", rt->pack_mib);
	if (rt->zeros)
		DMEMIT(" zeros");
#endif
}

static void status_ima(struct dm_target *ti, struct dmr_target *rt,
		       char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT_TARGET_NAME_VERSION(ti->type);
#ifndef DMR_NO_TABLE
	DMEMIT(",base=%s,meta=%s,pool=%s;", name_of(rt->base),
	       rt->meta_dev->name, name_of(rt->pool));
#else
	DMEMIT(",base=%s,meta=%s,pool=-;", rt->base->name, rt->meta_dev->name);
#endif
}

static void dmr_status(struct dm_target *ti, status_type_t type,
		       unsigned int status_flags, char *result,
		       unsigned int maxlen)
{
	struct dmr_target *rt = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		status_info(ti, rt->meta, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		status_table(rt, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		status_ima(ti, rt, result, maxlen);
		break;
	}
}

/* ------------------------------------------------------------------
 * The rest of the target type
 */

static int dmr_iterate_devices(struct dm_target *ti,
			       iterate_devices_callout_fn fn, void *data)
{
	struct dmr_target *rt = ti->private;

#ifndef DMR_NO_TABLE
	/*
	 * Tell device-mapper of the base only: all writes go there, so write zeroes, discards
	 * and block sizes of the pool do not matter to the volume.
	 */
	if (!rt->base)
		return fn(ti, rt->pool, 0, bdev_nr_sectors(rt->pool->bdev), data);
#endif
	return fn(ti, rt->base, 0, ti->len, data);
}

static void dmr_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
#ifndef DMR_NO_TABLE
	struct dmr_target *rt = ti->private;

	if (rt->base && rt->pool)
		dmr_limits_add_reads(limits, rt->pool->bdev);
#endif
	dmr_limits_want_discard(limits);
}

static struct target_type dmr_target_type = {
	.name = "revdedup",
	.version = { 1, 1, 0 },
	/* No DAX, no zoned base, no prepare_ioctl: no way past the bits. */
	.features = DM_TARGET_SINGLETON | DM_TARGET_NOWAIT,
	.module = THIS_MODULE,
	.ctr = dmr_ctr,
	.dtr = dmr_dtr,
	.map = dmr_map,
	.end_io = dmr_end_io,
	.presuspend = dmr_presuspend,
	.presuspend_undo = dmr_presuspend_undo,
	.postsuspend = dmr_postsuspend,
	.preresume = dmr_preresume,
	.resume = dmr_resume,
	.status = dmr_status,
	.message = dmr_message,
	.iterate_devices = dmr_iterate_devices,
	.io_hints = dmr_io_hints,
};

static int __init dmr_init(void)
{
	return dm_register_target(&dmr_target_type);
}

static void __exit dmr_exit(void)
{
	dm_unregister_target(&dmr_target_type);
}

module_init(dmr_init);
module_exit(dmr_exit);

MODULE_DESCRIPTION("device-mapper target for incremental and deduplicated snapshots");
MODULE_LICENSE("GPL");
