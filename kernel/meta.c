// SPDX-License-Identifier: GPL-2.0
/*
 * The state of a metadata device: found or made by the constructor, formatted or
 * loaded before the first I/O, resized when the table line has another size (load.c).
 *
 * Only a metadata device that is not one of revdedup, or whose state cannot be known,
 * is refused, and only before the volume runs.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "dirty.h"
#include "dmr_table.h"
#include "firstwrite.h"
#include "flush.h"
#include "load.h"
#include "meta.h"
#include "super.h"
#include "table.h"
#include "watch.h"
#include "writeback.h"

/* For dm-bufio: no thread holds more than one buffer. */
#define RESERVED_BUFFERS	1
#ifndef DMR_NO_TABLE

/* Memory for pages of the remap table, if the table line names none. */
#define DEFAULT_CACHE_MIB	64U
#endif

static LIST_HEAD(dmr_metas);
static DEFINE_MUTEX(dmr_meta_list_lock);

/* ------------------------------------------------------------------
 * What the constructor and preresume check
 */

static bool uuid_mismatch(const u8 *given, const u8 *found)
{
	return !dmr_is_zero(given, DMR_UUID_SIZE) &&
	       !dmr_is_zero(found, DMR_UUID_SIZE) &&
	       memcmp(given, found, DMR_UUID_SIZE);
}

/* Check that the metadata goes with this table line. */
static int check_belongs(struct dm_target *ti, struct dmr_target *rt,
			 const struct dmr_super *super, const char **why)
{
	if (uuid_mismatch(rt->volume_uuid, super->volume_uuid)) {
		*why = "the metadata belongs to another volume (volume_uuid)";
		return -EXDEV;
	}
	if (uuid_mismatch(rt->pool_uuid, super->pool_uuid)) {
		*why = "the metadata belongs to another pool (pool_uuid)";
		return -EXDEV;
	}
#ifndef DMR_NO_TABLE
	if (!(super->flags & (DMR_FLAG_LINEAR_OK | DMR_FLAG_NO_POOL)) && !rt->pool) {
		*why = "blocks of the volume lie in a pool: give the pool device";
		return -ENODEV;
	}
	rt->has_table |= !(super->flags & DMR_FLAG_LINEAR_OK);
	if (!rt->base && !(super->flags & DMR_FLAG_TABLE)) {
		*why = "without a base device there must be a remap table";
		return -ENODEV;
	}
#else
	if (!(super->flags & DMR_FLAG_LINEAR_OK)) {
		*why = "blocks of the volume lie elsewhere, and this version has no remap table";
		return -EOPNOTSUPP;
	}
#endif
	if (super->compat_ro && dmr_table_is_writable(ti)) {
		*why = "the metadata uses a feature that this version can only read (compat_ro)";
		return -EROFS;
	}
	return 0;
}

static int check_size(struct dmr_meta *meta, sector_t volume_sectors, u32 flags,
		      const char **why)
{
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	u64 needed;

	if (nr_segs > DMR_MAX_SEGS) {
		*why = "the volume is larger than 2^32 segments";
		return -EFBIG;
	}
	needed = dmr_meta_blocks_needed(nr_segs, flags);
	if (dmr_device_blocks(meta) < needed) {
		DMERR("metadata device %pg has %llu blocks of 4 KiB, a volume of %llu sectors needs %llu",
		      meta->bdev, dmr_device_blocks(meta), (u64)volume_sectors,
		      needed);
		*why = "the metadata device is too small for the volume";
		return -ENOSPC;
	}
	return 0;
}

/* Check that the table line can work with the metadata. */
static int check_fits(struct dmr_meta *meta, struct dm_target *ti, struct dmr_target *rt,
		      const struct dmr_super *super, const char **why)
{
	int r = check_belongs(ti, rt, super, why);

	return r ? r : check_size(meta, ti->len, super->flags, why);
}

/* The same for those on the disk. */
static int probe_meta(struct dmr_meta *meta, struct dm_target *ti,
		      struct dmr_target *rt, const char **why)
{
	struct dmr_super super;
	int r;

	r = dmr_super_read(meta, &super, why);
	if (r == -ENODATA) {
		if (!dmr_table_is_writable(ti)) {
			*why = "the metadata device is not formatted, and the table is read-only";
			return -EROFS;
		}
		return check_size(meta, ti->len, 0, why);
	}
	return r ? r : check_fits(meta, ti, rt, &super, why);
}

/* ------------------------------------------------------------------
 * Life of the object
 */

static void free_meta(struct dmr_meta *meta)
{
#ifndef DMR_NO_TABLE
	if (meta->table)
		dmr_table_destroy(meta->table);
#endif
	if (meta->wq)
		destroy_workqueue(meta->wq);
	if (meta->bufio)
		dm_bufio_client_destroy(meta->bufio);
	kvfree(meta->want);
	kvfree(meta->stable);
	kvfree(meta->frozen);
	kvfree(meta->stale);
	mutex_destroy(&meta->message_lock);
	mutex_destroy(&meta->lock);
	mutex_destroy(&meta->flush_lock);
	mutex_destroy(&meta->base_flush_lock);
	kfree(meta);
}

static struct dmr_meta *new_meta(struct block_device *bdev,
				 struct mapped_device *owner)
{
	struct dmr_meta *meta = kzalloc(sizeof(*meta), GFP_KERNEL);
	struct dm_bufio_client *bufio;

	if (!meta)
		return ERR_PTR(-ENOMEM);
	refcount_set(&meta->refs, 1);
	mutex_init(&meta->message_lock);
	mutex_init(&meta->lock);
	mutex_init(&meta->flush_lock);
	mutex_init(&meta->base_flush_lock);
	meta->tell_until = jiffies;
	meta->bdev = bdev;
	meta->owner = owner;
	dmr_first_write_init(meta);

	bufio = dm_bufio_client_create(bdev, DMR_BLOCK_SIZE, RESERVED_BUFFERS,
				       0, NULL, NULL, 0);
	if (IS_ERR(bufio)) {
		free_meta(meta);
		return ERR_CAST(bufio);
	}
	meta->bufio = bufio;
	meta->wq = alloc_workqueue("revdedup", DMR_WQ_FLAGS, 0);
	if (!meta->wq) {
		free_meta(meta);
		return ERR_PTR(-ENOMEM);
	}
	return meta;
}

/* Get a reference to the object of @bdev; make one if there is none. */
static struct dmr_meta *join_meta(struct block_device *bdev,
				  struct mapped_device *owner, const char **why)
{
	struct dmr_meta *meta;

	lockdep_assert_held(&dmr_meta_list_lock);
	list_for_each_entry(meta, &dmr_metas, list) {
		if (meta->bdev->bd_dev != bdev->bd_dev)
			continue;
		if (meta->owner == owner && refcount_inc_not_zero(&meta->refs))
			return meta;
		*why = "the metadata device is in use by another revdedup device";
		return ERR_PTR(-EBUSY);
	}
	meta = new_meta(bdev, owner);
	if (IS_ERR(meta))
		*why = "cannot allocate the state of the metadata device";
	else
		list_add(&meta->list, &dmr_metas);
	return meta;
}

struct dmr_meta *dmr_meta_get(struct dm_target *ti, struct dmr_target *rt,
			      int *ret_r)
{
	struct block_device *bdev = rt->meta_dev->bdev;
	const char *why = "cannot use the metadata device";
	struct dmr_meta *meta;

	/* Two superblocks and a pair of bitmap blocks. */
	if (bdev_nr_bytes(bdev) < 4 * DMR_BLOCK_SIZE) {
		ti->error = "the metadata device is too small: it needs 4 blocks of 4 KiB at least";
		*ret_r = -ENOSPC;
		return NULL;
	}
	mutex_lock(&dmr_meta_list_lock);
	meta = join_meta(bdev, dm_table_get_md(ti->table), &why);
	mutex_unlock(&dmr_meta_list_lock);
	if (IS_ERR(meta)) {
		ti->error = (char *)why;
		*ret_r = PTR_ERR(meta);
		return NULL;
	}

	mutex_lock(&meta->lock);
	*ret_r = meta->loaded ? check_fits(meta, ti, rt, &meta->super, &why) :
				probe_meta(meta, ti, rt, &why);
	mutex_unlock(&meta->lock);
	if (*ret_r) {
		dmr_meta_put(meta, ti);
		ti->error = (char *)why;
		return NULL;
	}
	return meta;
}

/* Write what is in memory only, for the last time. */
static void flush_before_free(struct dmr_meta *meta)
{
	mutex_lock(&meta->lock);
#ifndef DMR_NO_TABLE
	if (meta->table && dmr_table_waits(meta->table) &&
	    dmr_writeback(meta->table))
		DMERR("%s: removed with changes of the remap table that could not be written: writes since the last flush may be lost",
		      dmr_name(meta));
#endif
	if (meta->outage && !dmr_dirty_end_outage(meta))
		DMERR("%s: removed while the metadata device %pg takes no writes: take a full snapshot next",
		      dmr_name(meta), meta->bdev);
	else if (meta->loaded && !meta->read_only)
		dmr_super_refresh(meta);
	mutex_unlock(&meta->lock);
}

static void stop_work(struct dmr_meta *meta)
{
#ifndef DMR_NO_TABLE
	if (meta->table)
		dmr_table_stop(meta->table);
#endif
	cancel_delayed_work_sync(&meta->work);
}

void dmr_meta_put(struct dmr_meta *meta, struct dm_target *ti)
{
	mutex_lock(&meta->lock);
	if (meta->ti == ti)
		meta->ti = NULL;
	mutex_unlock(&meta->lock);

	if (!refcount_dec_and_test(&meta->refs))
		return;
	/*
	 * @meta stays in the list, so that no other target uses the device meanwhile.
	 * No target is left, so only the work itself queues work.
	 */
	stop_work(meta);
	flush_before_free(meta);
	/* flush_before_free() may have queued work. */
	stop_work(meta);

	mutex_lock(&dmr_meta_list_lock);
	list_del(&meta->list);
	mutex_unlock(&dmr_meta_list_lock);
	free_meta(meta);
}

/* ------------------------------------------------------------------
 * Resume and suspend
 */

static int open_meta(struct dmr_meta *meta, struct dm_target *ti,
		     struct dmr_target *rt)
{
	const char *why = "cannot use the metadata device";
	struct dmr_super super;
	int r;

	/*
	 * A kernel that has died may have written what it could not flush, and the power has
	 * not failed since: make it stable before it is believed.
	 */
	meta->is_unflushed = dmr_flush_meta(meta, dmr_flush_errors(meta));
	/* The constructor has read it, but that may be long ago. */
	r = dmr_super_read(meta, &super, &why);
	if (r == -ENODATA && !meta->read_only)
		return dmr_load_new(meta, rt, ti->len);
	/* Otherwise no bit is stable before both copies are written again. */
	if (meta->is_unflushed) {
		meta->super_is_stale = true;
		meta->epoch_is_unsure = true;
	}
	if (!r)
		r = check_fits(meta, ti, rt, &super, &why);
	if (r) {
		DMERR("%s: %s", dmr_name(meta), why);
		return r;
	}
	return dmr_load(meta, &super);
}

static bool adopt_uuid(u8 *known, const u8 *given)
{
	if (!dmr_is_zero(known, DMR_UUID_SIZE) ||
	    dmr_is_zero(given, DMR_UUID_SIZE))
		return false;
	memcpy(known, given, DMR_UUID_SIZE);
	return true;
}

/*
 * Adopt uuids that the table line gives and the metadata lack, and a larger metadata
 * device. On a smaller one copy B is lost for now; its place does not change, since
 * closer to the beginning it could overwrite something else.
 */
static void adopt(struct dmr_meta *meta, struct dmr_target *rt)
{
	struct dmr_super super = meta->super;
	u64 blocks = dmr_device_blocks(meta);
	bool news = adopt_uuid(super.volume_uuid, rt->volume_uuid);

	news |= adopt_uuid(super.pool_uuid, rt->pool_uuid);
	if (blocks > super.meta_blocks) {
		super.meta_blocks = blocks;
		news = true;
	} else if (blocks < super.meta_blocks) {
		DMERR("%s: the metadata device %pg is smaller than when it was formatted: it will be refused when the volume is set up again",
		      dmr_name(meta), meta->bdev);
		meta->super_is_stale = true;
	}
	if (news)
		dmr_super_write(meta, &super);
}

#ifndef DMR_NO_TABLE
static unsigned int cache_pages(const struct dmr_target *rt)
{
	return (rt->cache_mib ? rt->cache_mib : DEFAULT_CACHE_MIB) *
	       (SZ_1M / DMR_BLOCK_SIZE);
}

/* Load the table of @meta, if it has none yet, for the devices of @rt. */
static int take_table(struct dmr_meta *meta, struct dmr_target *rt)
{
	const u32 flags = meta->super.flags;
	struct dmr_table *t;
	int r;

	if (meta->table || !rt->has_table || !(flags & DMR_FLAG_TABLE))
		return 0;
	t = dmr_table_create(meta, cache_pages(rt));
	if (IS_ERR(t))
		return PTR_ERR(t);
	dmr_table_use(t, rt, cache_pages(rt));
	r = dmr_table_load(t, flags & DMR_FLAG_LINEAR_OK);
	if (r) {
		DMERR("%s: cannot read the remap table: error %d",
		      dmr_name(meta), r);
		dmr_table_destroy(t);
		return r;
	}
	meta->table = t;
	if (meta->is_unflushed)
		dmr_table_distrust(t);
	return 0;
}

/* Adopt another size of a volume with a table: new segments are BASE before they count. */
static int resize_with_table(struct dmr_meta *meta, struct dmr_table *t, u64 sectors)
{
	int r = 0;

	if (sectors > t->volume_sectors)
		r = dmr_table_resize(t, sectors);
	if (!r && meta->super.volume_sectors != sectors)
		r = dmr_load_resize(meta, sectors);
	if (r && t->volume_sectors > meta->super.volume_sectors)
		dmr_table_resize(t, meta->super.volume_sectors);
	if (!r && t->volume_sectors > sectors)
		r = dmr_table_resize(t, sectors);
	return r;
}
#endif

/* Adopt another size of the volume. */
static int resize(struct dmr_meta *meta, u64 sectors)
{
	/*
	 * Refuse while copy B is not known to be at the end, see adopt(): what is appended
	 * to the metadata could overwrite it.
	 */
	if (meta->super.volume_sectors != sectors &&
	    meta->super.meta_blocks != dmr_device_blocks(meta)) {
		DMERR("%s: cannot record the new size: the size of the metadata device is not recorded either",
		      dmr_name(meta));
		return -EIO;
	}
#ifndef DMR_NO_TABLE
	if (meta->table)
		return resize_with_table(meta, meta->table, sectors);
#endif
	return meta->super.volume_sectors == sectors ? 0 : dmr_load_resize(meta, sectors);
}

static int take_over(struct dmr_meta *meta, struct dm_target *ti,
		     struct dmr_target *rt)
{
	const char *why = "cannot use the metadata device";
	int r;

	if (meta->loaded) {
		/* The state may have changed since the constructor checked it. */
		r = check_belongs(ti, rt, &meta->super, &why);
		if (r)
			DMERR("%s: %s", dmr_name(meta), why);
	} else {
		r = open_meta(meta, ti, rt);
		meta->loaded = !r;
		meta->suspended = true;
	}
#ifndef DMR_NO_TABLE
	/* The constructor did not know that: its device may take no flushes. */
	if (!r && rt->has_table && !ti->flush_supported) {
		DMERR("%s: the volume is not linear any more: load the table line again",
		      dmr_name(meta));
		r = -ENODEV;
	}
	if (!r)
		r = take_table(meta, rt);
	if (!r && (meta->super.flags & DMR_FLAG_INCOMPLETE)) {
		DMERR("%s: the remap table is incomplete: repeat the batch that was cut off (begin, set, end), then resume",
		      dmr_name(meta));
		r = -EUCLEAN;
	}
	if (!r && meta->table && meta->read_only &&
	    ti->len > meta->super.volume_sectors) {
		DMERR("%s: a read-only table line cannot make the volume larger",
		      dmr_name(meta));
		r = -EROFS;
	}
#endif
	if (r || meta->read_only)
		return r;
	/*
	 * Errors of these three begin an outage, and the volume runs on. Only a new size
	 * that cannot be recorded stops it.
	 */
	adopt(meta, rt);
	dmr_dirty_flush(meta);
	dmr_super_refresh(meta);
	return resize(meta, ti->len);
}

/* Wait for the message that runs, which ends as soon as it can. */
static void lock_out_messages(struct dmr_meta *meta)
{
	WRITE_ONCE(meta->is_awaited, true);
	mutex_lock(&meta->message_lock);
	mutex_lock(&meta->lock);
}

static void let_in_messages(struct dmr_meta *meta)
{
	WRITE_ONCE(meta->is_awaited, false);
	mutex_unlock(&meta->lock);
	mutex_unlock(&meta->message_lock);
}

void dmr_meta_use(struct dmr_meta *meta, struct dm_target *ti, struct dmr_target *rt)
{
	unsigned int noio = memalloc_noio_save();

	lock_out_messages(meta);
	meta->ti = ti;
	meta->read_only = !dmr_table_is_writable(ti);
#ifndef DMR_NO_TABLE
#ifndef DMR_NO_ALIAS
	/* The program that has made marks may be dead, and they slow writers down. */
	if (meta->table)
		dmr_watch_drop_all(meta->table);
#endif
	if (meta->table)
		dmr_table_use(meta->table, rt, cache_pages(rt));
#endif
	let_in_messages(meta);
	memalloc_noio_restore(noio);
}

int dmr_meta_resume(struct dmr_meta *meta, struct dm_target *ti,
		    struct dmr_target *rt)
{
	unsigned int noio = memalloc_noio_save();
	int r;

	/* Otherwise a message could be looking at a segment that is cut off. */
	lock_out_messages(meta);
	r = take_over(meta, ti, rt);
	if (!r) {
		meta->suspended = false;
		meta->checkpoint_is_fresh = false;
	}
	let_in_messages(meta);
	memalloc_noio_restore(noio);
	return r;
}

void dmr_meta_suspend(struct dmr_meta *meta)
{
	mutex_lock(&meta->lock);
#ifndef DMR_NO_TABLE
	/* Write hints, too. dmr_writeback() logs an error, and the changes stay in memory. */
	if (meta->table && !meta->read_only) {
		dmr_table_write_hints(meta->table);
		if (!dmr_writeback(meta->table))
			dmr_writeback_note_linear(meta->table);
	}
#endif
	meta->suspended = true;
	WRITE_ONCE(meta->is_awaited, false);
	mutex_unlock(&meta->lock);
}
