// SPDX-License-Identifier: GPL-2.0
/*
 * dm-revdedup: a volume passes through unchanged, and every 2 MiB segment that
 * was written since the last committed snapshot is known, whatever crashes.
 *
 *   revdedup <base dev> <meta dev> <pool dev|-> [<#opts> <opt>...]
 *
 * This file is what device-mapper calls: the table line, map, suspend and
 * resume, status. See rdd.h for the other files and the lock order, format.h
 * for the metadata device, track.c for the rule that no write is forgotten, and
 * Documentation/dm-revdedup.rst for users.
 *
 * map decides from bits in memory alone. Reads, flushes, and writes to segments
 * that are dirty already go down at once, so that the target costs what
 * dm-linear costs; everything else goes to the worker.
 */
#include <linux/module.h>
#include <linux/uuid.h>

#include "rdd.h"

/* ------------------------------------------------------------------
 * Table line
 */

static int parse_base(struct dm_target *ti, struct rdd_target *rt,
		      const char *path)
{
	int r;

	if (!strcmp(path, "-")) {
		ti->error = "a base device is needed: volumes without one are not supported yet";
		return -EINVAL;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &rt->base);
	if (r)
		ti->error = "cannot open the base device";
	return r;
}

static int parse_meta_dev(struct dm_target *ti, struct rdd_target *rt,
			  const char *path)
{
	int r;

	r = dm_get_device(ti, path, dm_table_get_mode(ti->table),
			  &rt->meta_dev);
	if (r) {
		ti->error = "cannot open the metadata device";
		return r;
	}
	if (rt->meta_dev->bdev->bd_dev == rt->base->bdev->bd_dev) {
		ti->error = "base and metadata must be two devices";
		return -EINVAL;
	}
	return 0;
}

static int parse_pool(struct dm_target *ti, const char *path)
{
	if (!strcmp(path, "-"))
		return 0;
	ti->error = "a pool device is not supported yet: say -";
	return -EINVAL;
}

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

static int parse_opts(struct dm_target *ti, struct rdd_target *rt,
		      struct dm_arg_set *as)
{
	static const struct dm_arg nr_opts_arg = {
		0, 4, "the number of option words must be 0 to 4, and so many must follow",
	};
	unsigned int nr_opts;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(&nr_opts_arg, as, &nr_opts, &ti->error);
	if (r)
		return r;
	if (as->argc != nr_opts) {
		ti->error = "the number of option words is not what follows";
		return -EINVAL;
	}
	rt->nr_opts = nr_opts;
	while (as->argc) {
		const char *name = dm_shift_arg(as);
		const char *value = dm_shift_arg(as);
		u8 *uuid = !strcasecmp(name, "volume_uuid") ? rt->volume_uuid :
			   !strcasecmp(name, "pool_uuid") ? rt->pool_uuid :
			   NULL;

		if (!uuid || !value) {
			ti->error = "options are volume_uuid <uuid> and pool_uuid <uuid>";
			return -EINVAL;
		}
		if (!rdd_is_zero(uuid, RDD_UUID_SIZE)) {
			ti->error = "an option is given twice";
			return -EINVAL;
		}
		r = parse_uuid(ti, value, uuid);
		if (r)
			return r;
	}
	return 0;
}

static void rdd_destroy(struct dm_target *ti, struct rdd_target *rt)
{
	if (rt->meta)
		rdd_meta_put(rt->meta, ti);
	if (rt->meta_dev)
		dm_put_device(ti, rt->meta_dev);
	if (rt->base)
		dm_put_device(ti, rt->base);
	kfree(rt);
}

static void rdd_init_target(struct dm_target *ti, struct rdd_target *rt)
{
	ti->private = rt;
	ti->per_io_data_size = sizeof(struct rdd_io);
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	/*
	 * Even where the base takes none now: a snapshot-origin that is under
	 * us at this moment goes away again.
	 */
	ti->discards_supported = true;
}

static int rdd_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dm_arg_set as = { .argc = argc - 3, .argv = argv + 3 };
	struct rdd_target *rt;
	int r;

	if (argc < 3) {
		ti->error = "arguments are <base dev> <meta dev> <pool dev|-> [<#opts> <opt>...]";
		return -EINVAL;
	}
	rt = kzalloc(sizeof(*rt), GFP_KERNEL);
	if (!rt) {
		ti->error = "cannot allocate the target";
		return -ENOMEM;
	}
	rt->read_only = !rdd_table_is_writable(ti);
	r = parse_pool(ti, argv[2]);
	if (!r)
		r = parse_opts(ti, rt, &as);
	if (!r)
		r = parse_base(ti, rt, argv[0]);
	if (!r)
		r = parse_meta_dev(ti, rt, argv[1]);
	if (!r)
		rt->meta = rdd_meta_get(ti, rt, &r);
	if (r) {
		rdd_destroy(ti, rt);
		return r;
	}
	rdd_init_target(ti, rt);
	return 0;
}

static void rdd_dtr(struct dm_target *ti)
{
	rdd_destroy(ti, ti->private);
}

/* ------------------------------------------------------------------
 * I/O
 */

static bool is_stable(struct rdd_meta *meta, struct bio *bio)
{
	u64 seg = rdd_sector_seg(bio->bi_iter.bi_sector);
	u64 last = rdd_sector_seg(bio_end_sector(bio) - 1);

	for (; seg <= last; seg++) {
		if (!test_bit(seg, meta->stable))
			return false;
	}
	return true;
}

static int map_write(struct rdd_meta *meta, struct bio *bio)
{
	if (bio_op(bio) == REQ_OP_WRITE_ZEROES) {
		struct rdd_io *io = dm_per_bio_data(bio, sizeof(*io));

		io->sector = bio->bi_iter.bi_sector;
		io->sectors = bio_sectors(bio);
	}
	if (likely(is_stable(meta, bio)))
		return DM_MAPIO_REMAPPED;
	/*
	 * Nobody blocks here, so REQ_NOWAIT is no reason to send it back: then
	 * io_uring would have a worker thread of its own send each first write
	 * again. But our worker, which issues it, may block. And nobody may poll
	 * for what another thread has yet to issue.
	 */
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	rdd_track_defer(meta, bio);
	return DM_MAPIO_SUBMITTED;
}

static int rdd_map(struct dm_target *ti, struct bio *bio)
{
	struct rdd_target *rt = ti->private;

	bio_set_dev(bio, rt->base->bdev);

	/*
	 * The flag of a device below can go while we live: when lvcreate puts
	 * a snapshot-origin under us.
	 */
	if (unlikely((bio->bi_opf & REQ_NOWAIT) &&
		     !bdev_nowait(rt->base->bdev))) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (!op_is_write(bio_op(bio)) || !bio_sectors(bio))
		return DM_MAPIO_REMAPPED;

	/* Those above us that had it open for writing still can. */
	if (unlikely(rt->read_only))
		return DM_MAPIO_KILL;

	/* What the base does not take at the moment changes nothing. */
	if (unlikely(bio_op(bio) == REQ_OP_DISCARD &&
		     !bdev_max_discard_sectors(rt->base->bdev))) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	return map_write(rt->meta, bio);
}

/* The base may have changed between our look at it in map and its own. */
static int rdd_end_io(struct dm_target *ti, struct bio *bio,
		      blk_status_t *error)
{
	struct rdd_target *rt = ti->private;

	if (likely(*error != BLK_STS_NOTSUPP))
		return DM_ENDIO_DONE;

	if (bio_op(bio) == REQ_OP_WRITE_ZEROES) {
		rdd_track_zero(rt->meta, bio);
		return DM_ENDIO_INCOMPLETE;
	}
	if (bio_op(bio) == REQ_OP_DISCARD)
		*error = BLK_STS_OK;
	else if (bio->bi_opf & REQ_NOWAIT)
		*error = BLK_STS_AGAIN;
	return DM_ENDIO_DONE;
}

/* ------------------------------------------------------------------
 * Suspend and resume
 */

static void rdd_presuspend(struct dm_target *ti)
{
	struct rdd_target *rt = ti->private;

	/* First writes that wait would keep the suspend waiting. */
	if (dm_noflush_suspending(ti))
		rdd_track_requeue(rt->meta, true);
}

static void rdd_presuspend_undo(struct dm_target *ti)
{
	struct rdd_target *rt = ti->private;

	rdd_track_requeue(rt->meta, false);
}

/*
 * Device-mapper has waited for all bios, so nothing is deferred or held, and
 * none comes before preresume. Bits are stable, or an outage goes on.
 */
static void rdd_postsuspend(struct dm_target *ti)
{
	struct rdd_target *rt = ti->private;
	struct rdd_meta *meta = rt->meta;

	rdd_track_requeue(meta, false);
	mutex_lock(&meta->lock);
	meta->suspended = true;
	mutex_unlock(&meta->lock);
}

static int rdd_preresume(struct dm_target *ti)
{
	struct rdd_target *rt = ti->private;

	return rdd_meta_resume(rt->meta, ti, rt);
}

/* ------------------------------------------------------------------
 * Status
 */

static u64 count_dirty(struct rdd_meta *meta)
{
	u64 i, nr = 0;

	for (i = 0; i < meta->nr_groups * RDD_BITS_LONGS; i++)
		nr += hweight64(meta->want[i]);
	return nr;
}

/*
 * <format version> <epoch> <uncommitted checkpoint|-> <last version>
 * <dirty>/<total segments> <base> <zero> <pool blocks> <hydration left>
 * <ok|lost> <rw|ro>
 */
static void status_info(struct dm_target *ti, struct rdd_meta *meta,
			char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	mutex_lock(&meta->lock);
	if (!meta->loaded) {
		DMEMIT("-");
	} else {
		DMEMIT("%u %llu ", RDD_FORMAT_VERSION, meta->super.epoch);
		if (meta->super.flags & RDD_FLAG_FROZEN)
			DMEMIT("%llu", meta->super.epoch);
		else
			DMEMIT("-");
		DMEMIT(" %llu %llu/%llu %llu 0 0 0 %s %s",
		       meta->super.version_nr, count_dirty(meta),
		       meta->nr_segs,
		       DIV_ROUND_UP_ULL(ti->len, RDD_BLOCK_SECTORS),
		       rdd_is_lost(meta) ? "lost" : "ok",
		       meta->read_only ? "ro" : "rw");
	}
	mutex_unlock(&meta->lock);
}

static void status_table(struct rdd_target *rt, char *result,
			 unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT("%s %s -", rt->base->name, rt->meta_dev->name);
	if (!rt->nr_opts)
		return;
	DMEMIT(" %u", rt->nr_opts);
	if (!rdd_is_zero(rt->volume_uuid, RDD_UUID_SIZE))
		DMEMIT(" volume_uuid %pUb", rt->volume_uuid);
	if (!rdd_is_zero(rt->pool_uuid, RDD_UUID_SIZE))
		DMEMIT(" pool_uuid %pUb", rt->pool_uuid);
}

static void status_ima(struct dm_target *ti, struct rdd_target *rt,
		       char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT_TARGET_NAME_VERSION(ti->type);
	DMEMIT(",base=%s,meta=%s,pool=-;", rt->base->name, rt->meta_dev->name);
}

static void rdd_status(struct dm_target *ti, status_type_t type,
		       unsigned int status_flags, char *result,
		       unsigned int maxlen)
{
	struct rdd_target *rt = ti->private;

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

static int rdd_iterate_devices(struct dm_target *ti,
			       iterate_devices_callout_fn fn, void *data)
{
	struct rdd_target *rt = ti->private;

	return fn(ti, rt->base, 0, ti->len, data);
}

static void rdd_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	rdd_limits_want_discard(limits);
}

static struct target_type rdd_target_type = {
	.name = "revdedup",
	.version = { 1, 0, 0 },
	/* No DAX, no zoned base, no prepare_ioctl: no way past the bits. */
	.features = DM_TARGET_SINGLETON | DM_TARGET_NOWAIT,
	.module = THIS_MODULE,
	.ctr = rdd_ctr,
	.dtr = rdd_dtr,
	.map = rdd_map,
	.end_io = rdd_end_io,
	.presuspend = rdd_presuspend,
	.presuspend_undo = rdd_presuspend_undo,
	.postsuspend = rdd_postsuspend,
	.preresume = rdd_preresume,
	.status = rdd_status,
	.message = rdd_message,
	.iterate_devices = rdd_iterate_devices,
	.io_hints = rdd_io_hints,
};

static int __init rdd_init(void)
{
	return dm_register_target(&rdd_target_type);
}

static void __exit rdd_exit(void)
{
	dm_unregister_target(&rdd_target_type);
}

module_init(rdd_init);
module_exit(rdd_exit);

MODULE_DESCRIPTION("device-mapper target that knows what was written since the last snapshot");
MODULE_LICENSE("GPL");
