// SPDX-License-Identifier: GPL-2.0
/*
 * The judge of crashes: a disk with a volatile write cache that loses, at the moment
 * that a test chooses, everything that was not flushed. For tests only.
 *
 *   0 <sectors> judge <dev> <group> [<#opts> [flush_delay_us <n>] [cache_blocks <n>]
 *                                            [discard_blocks <n>]]
 *
 * The model
 * ---------
 * A write is copied into memory and acknowledged at once. Nothing of it reaches
 * <dev> until it is flushed, written with FUA, or the cache is over its limit.
 * All unflushed versions of a sector are kept, not only the last, because a
 * disk may have written back any of them when the power goes.
 *
 * - Reads see the newest acknowledged version.
 * - A flush makes stable what was acknowledged before it came, and nothing that
 *   came later, although a disk might. It takes flush_delay_us first, during
 *   which other writes are acknowledged: that makes narrow windows wide.
 * - FUA makes its own blocks stable and nothing else.
 * - Discards and write zeroes are cached changes like any other; both make the
 *   sectors read as zeros. With discard_blocks n a discard takes effect only on the
 *   units of n blocks that it covers whole, as a thin volume frees only whole chunks.
 * - Over the limit a random half of the blocks is written back unasked.
 * - A clean end (suspend) writes back everything.
 * - A failed flush (see below) throws a random part of what it should have made
 *   stable away: a disk that lost its power for a moment does that. A program that
 *   does not write again after a failed flush has lost data.
 * - A failed write has been cached or not, by a coin: a disk that lost its cable
 *   for a moment does that.
 *
 * A crash hits all live devices of a group at one instant: whatever was
 * acknowledged before it is in, whatever comes after fails with EIO, and so
 * does what is in flight, until the table is replaced. Each sector then
 * becomes independently its stable content or any one of its unflushed versions.
 * Independent coins alone would seldom produce a whole block lost beside a whole
 * block kept, so each device draws one of several policies at each crash (enum
 * policy); all of them produce subsets that independent coins could.
 *
 * With cache_blocks 0 it is a disk without a cache: it gets no flushes, and a crash
 * only makes all I/O fail. Discards and write zeroes are not for such a disk.
 *
 * Messages
 * --------
 *   crash <seed>              crash the group of this device; returns when it is over. 0:
 *                             nothing that was not flushed is kept
 *   halt on|off               the same without a loss, as where a kernel dies and the power
 *                             stays: all I/O fails, and what was acknowledged is in the
 *                             cache still when that is off again
 *   fail-writes on [<first sector> <sectors>]
 *   fail-writes except <first sector> <sectors>
 *   fail-writes off           writes (to that range, or to the rest) fail with EIO;
 *                             without a range flushes fail too; reads go on
 *   fail-flushes on|full|off  only they fail; full: as those of a thin pool without room
 *   fail-discards on|off      discards are refused as not supported
 *   ignore-discards on|off    discards succeed, and change nothing: a thin pool that is
 *                             read-only does that
 *   flush-delay <us>
 *   discard-delay <us>        each discard takes effect so much later. Another delay, a
 *                             crash or halt ends those that run
 *   hold-rcu <ms>             keep the CPU, and any RCU grace period from ending
 *
 * Status: <reads> <write bios> <sectors written> <flushes> <cached sectors>
 *         <sectors dropped by crashes> <ok|crashed> <0|1: a delay runs>
 * Write bios are writes, discards and write zeroes; each version cached counts.
 */
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "judge.h"

#define DEFAULT_CACHE_BLOCKS	4096U
#define MAX_DELAY_US		90000000U
#define MAX_HOLD_MS		10000U

static LIST_HEAD(groups);
static DEFINE_MUTEX(groups_mutex);

/*
 * ---- I/O ----
 */

static struct judge_io *io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct judge_io));
}

/* Put the newest cached versions over what was read from the device. */
static void overlay(struct judge *j, struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		unsigned int done;

		for (done = 0; done < bv.bv_len; done += SECTOR_SIZE) {
			sector_t sector = iter.bi_sector + (done >> SECTOR_SHIFT);
			unsigned int s = sector % BLOCK_SECTORS;
			struct version *v;

			v = cache_newest(j, sector / BLOCK_SECTORS);
			v = version_upto(v, s, NEVER);
			if (v && v->page)
				memcpy_page(bv.bv_page, bv.bv_offset + done, v->page,
					    s << SECTOR_SHIFT, SECTOR_SIZE);
			else if (v)
				memzero_page(bv.bv_page, bv.bv_offset + done,
					     SECTOR_SIZE);
		}
	}
}

static void do_read(struct judge *j, struct bio *bio)
{
	struct bio *clone;
	int r;

	mutex_lock(&j->io_mutex);
	clone = bio_alloc_clone(j->dev->bdev, bio, GFP_NOIO, &j->bios);
	r = submit_bio_wait(clone);
	bio_put(clone);
	if (!r)
		overlay(j, bio);
	mutex_unlock(&j->io_mutex);

	bio->bi_status = errno_to_blk_status(r);
	bio_endio(bio);
}

/* A flush, or the second half of a FUA write, which is cached already. */
static int do_sync(struct judge *j, struct bio *bio)
{
	struct judge_io *io = io_of(bio);
	int r;

	if (io->failed) {
		cache_lose_some(j, io->seq);
		return -EIO;
	}
	mutex_lock(&j->io_mutex);
	if (bio_sectors(bio))
		r = cache_write_back(j, bio_first_block(bio), bio_last_block(bio), io->seq);
	else
		r = cache_write_back(j, 0, j->nr_blocks - 1, io->seq);
	mutex_unlock(&j->io_mutex);
	return r;
}

static bool has_crashed(struct judge *j)
{
	bool crashed;

	spin_lock(&j->group->lock);
	crashed = j->crashed;
	spin_unlock(&j->group->lock);
	return crashed;
}

/*
 * Take as long as @delay_us says, or until it says something else: a test lets go what it has
 * held, instead of hoping that it is quicker.
 */
static void take_time(struct judge *j, unsigned int *delay_us)
{
	unsigned int delay = READ_ONCE(*delay_us);

	if (delay)
		wait_event_hrtimeout(j->delays, READ_ONCE(*delay_us) != delay ||
				     READ_ONCE(j->crashed),
				     ns_to_ktime((u64)delay * NSEC_PER_USEC));
}

static void do_syncs(struct judge *j, struct bio_list *syncs)
{
	struct bio *bio;

	if (bio_list_empty(syncs))
		return;
	take_time(j, &j->flush_delay_us);

	while ((bio = bio_list_pop(syncs))) {
		/* Not where only the kernel has died: the disk may not have come to it. */
		int r = has_crashed(j) ? -EIO : do_sync(j, bio);

		/* Even if it was written: no program may act on it after the crash. */
		if (has_crashed(j))
			r = -EIO;
		bio->bi_status = errno_to_blk_status(r);
		bio_endio(bio);
	}
}

/*
 * Serve reads before flushes, so that they do not wait for the delay: I/Os that are in
 * flight at the same time have no order.
 */
static void do_work(struct work_struct *work)
{
	struct judge *j = container_of(work, struct judge, work);
	struct bio_list reads = BIO_EMPTY_LIST, syncs = BIO_EMPTY_LIST;
	struct bio_list all;
	struct bio *bio;

	spin_lock(&j->group->lock);
	all = j->deferred;
	bio_list_init(&j->deferred);
	spin_unlock(&j->group->lock);

	while ((bio = bio_list_pop(&all)))
		bio_list_add(bio_data_dir(bio) == READ ? &reads : &syncs, bio);
	while ((bio = bio_list_pop(&reads)))
		do_read(j, bio);
	do_syncs(j, &syncs);
	cache_shrink(j);
}

/* Under group->lock. */
static int __defer(struct judge *j, struct bio *bio, bool failed)
{
	struct judge_io *io = io_of(bio);

	lockdep_assert_held(&j->group->lock);
	io->seq = j->seq;
	io->failed = failed;
	bio_list_add(&j->deferred, bio);
	queue_work(j->wq, &j->work);
	return DM_MAPIO_SUBMITTED;
}

static int map_flush(struct judge *j, struct bio *bio)
{
	int r;

	if (READ_ONCE(j->is_full)) {
		bio->bi_status = BLK_STS_NOSPC;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	spin_lock(&j->group->lock);
	j->nr_flushes++;
	if (j->crashed)
		r = DM_MAPIO_KILL;
	else
		r = __defer(j, bio, j->fail_flushes || (j->fail_writes && !j->fail_sectors));
	spin_unlock(&j->group->lock);
	return r;
}

/* Under group->lock. */
static bool __is_cached(struct judge *j, struct bio *bio)
{
	unsigned long last = bio_last_block(bio);

	return find_next_bit(j->cached, last + 1, bio_first_block(bio)) <= last;
}

/*
 * Where nothing is cached the device is asked directly: what is cached from now
 * on is younger than the read.
 */
static int map_read(struct judge *j, struct bio *bio)
{
	int r = DM_MAPIO_REMAPPED;

	spin_lock(&j->group->lock);
	j->nr_reads++;
	if (j->crashed)
		r = DM_MAPIO_KILL;
	else if (bio_sectors(bio) && __is_cached(j, bio))
		r = __defer(j, bio, false);
	spin_unlock(&j->group->lock);
	return r;
}

/* Under group->lock. */
static bool __is_to_fail(struct judge *j, struct bio *bio)
{
	bool touches = bio_first(bio) < j->fail_first + j->fail_sectors &&
		       bio_end_sector(bio) > j->fail_first;

	return j->fail_writes && (!j->fail_sectors || touches != j->fail_except);
}

/* Under group->lock. */
static blk_status_t __write_status(struct judge *j, struct bio *bio)
{
	if (j->crashed)
		return BLK_STS_IOERR;
	if (j->fail_discards && bio_op(bio) == REQ_OP_DISCARD)
		return BLK_STS_NOTSUPP;
	return __is_to_fail(j, bio) ? BLK_STS_IOERR : BLK_STS_OK;
}

/* Returns whether the write goes on in the worker. */
static bool insert_write(struct judge *j, struct bio *bio, struct version *v)
{
	bool deferred = false;

	spin_lock(&j->group->lock);
	j->nr_writes++;
	j->written_sectors += bio_sectors(bio);
	bio->bi_status = __write_status(j, bio);
	if (!bio->bi_status) {
		__cache_insert(j, bio, v);
		v = NULL;
		if (bio->bi_opf & REQ_FUA) {
			__defer(j, bio, false);
			deferred = true;
		} else if (j->cached_blocks > j->cache_limit) {
			queue_work(j->wq, &j->work);
		}
	} else if (!j->crashed && __is_to_fail(j, bio) && get_random_u32() & 1) {
		__cache_insert(j, bio, v);
		v = NULL;
	}
	spin_unlock(&j->group->lock);
	cache_free_versions(v);
	return deferred;
}

static bool has_room(struct judge *j)
{
	return READ_ONCE(j->cached_blocks) < 2UL * j->cache_limit;
}

/* Cut a discard to the units that it covers; false: none. */
static bool cut_discard(struct judge *j, struct bio *bio)
{
	u64 unit = (u64)max(j->discard_blocks, 1U) * BLOCK_SECTORS;
	u64 first = DIV64_U64_ROUND_UP(bio_first(bio), unit) * unit;
	u64 end = bio_end_sector(bio) / unit * unit;

	if (READ_ONCE(j->ignore_discards))
		return false;
	if (!j->discard_blocks)
		return true;
	if (first >= end)
		return false;
	bio->bi_iter.bi_sector = first;
	bio->bi_iter.bi_size = (end - first) << SECTOR_SHIFT;
	return true;
}

static int map_write(struct judge *j, struct bio *bio)
{
	struct version *v;

	if (bio_op(bio) == REQ_OP_DISCARD) {
		take_time(j, &j->discard_delay_us);
		if (!cut_discard(j, bio))
			bio->bi_iter.bi_size = 0;
	}
	if (!bio_sectors(bio)) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	v = cache_make_versions(bio);
	if (!v) {
		bio->bi_status = BLK_STS_RESOURCE;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	wait_event(j->room, has_room(j));
	if (!insert_write(j, bio, v))
		bio_endio(bio);
	return DM_MAPIO_SUBMITTED;
}

/* Without a cache. */
static int map_through(struct judge *j, struct bio *bio)
{
	int r = DM_MAPIO_REMAPPED;

	spin_lock(&j->group->lock);
	if (j->crashed || (op_is_write(bio_op(bio)) && __is_to_fail(j, bio)))
		r = DM_MAPIO_KILL;
	spin_unlock(&j->group->lock);
	return r;
}

static int judge_map(struct dm_target *ti, struct bio *bio)
{
	struct judge *j = ti->private;

	bio_set_dev(bio, j->dev->bdev);
	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);

	if (!j->cache_limit)
		return map_through(j, bio);
	if (bio->bi_opf & REQ_PREFLUSH)
		return map_flush(j, bio);
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return map_read(j, bio);
	case REQ_OP_WRITE:
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return map_write(j, bio);
	default:
		return DM_MAPIO_KILL;
	}
}

/* Fail reads that were under way at the crash, too. insert_write() has failed writes. */
static int judge_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct judge *j = ti->private;

	if ((bio_op(bio) == REQ_OP_READ || !j->cache_limit) && READ_ONCE(j->crashed))
		*error = BLK_STS_IOERR;
	return DM_ENDIO_DONE;
}

/*
 * ---- Groups ----
 */

static struct group *group_alloc(const char *name)
{
	size_t size = strlen(name) + 1;
	struct group *g = kzalloc(struct_size(g, name, size), GFP_KERNEL);

	if (!g)
		return NULL;
	memcpy(g->name, name, size);
	INIT_LIST_HEAD(&g->members);
	mutex_init(&g->mutex);
	spin_lock_init(&g->lock);
	list_add(&g->list, &groups);
	return g;
}

static struct group *group_get(const char *name)
{
	struct group *g;

	mutex_lock(&groups_mutex);
	list_for_each_entry(g, &groups, list)
		if (!strcmp(g->name, name))
			break;
	if (list_entry_is_head(g, &groups, list))
		g = group_alloc(name);
	if (g)
		g->refs++;
	mutex_unlock(&groups_mutex);
	return g;
}

static void group_put(struct group *g)
{
	mutex_lock(&groups_mutex);
	if (!--g->refs) {
		list_del(&g->list);
		kfree(g);
	}
	mutex_unlock(&groups_mutex);
}

static int crash_group(struct group *g, u64 seed)
{
	struct rnd_state rnd;
	struct judge *j;

	prandom_seed_state(&rnd, seed);
	mutex_lock(&g->mutex);
	spin_lock(&g->lock);
	list_for_each_entry(j, &g->members, member)
		j->crashed = true;
	spin_unlock(&g->lock);

	list_for_each_entry(j, &g->members, member) {
		wake_up_all(&j->delays);
		cache_crash(j, seed ? &rnd : NULL);
	}
	mutex_unlock(&g->mutex);
	return 0;
}

static int halt_group(struct group *g, bool on)
{
	struct judge *j;

	mutex_lock(&g->mutex);
	spin_lock(&g->lock);
	list_for_each_entry(j, &g->members, member)
		j->crashed = on;
	spin_unlock(&g->lock);
	/* What is in flight fails, even if it was done. */
	list_for_each_entry(j, &g->members, member) {
		wake_up_all(&j->delays);
		flush_workqueue(j->wq);
	}
	mutex_unlock(&g->mutex);
	return 0;
}

/*
 * ---- Constructor, suspend, status, messages ----
 */

static void judge_destroy(struct judge *j)
{
	if (j->wq)
		destroy_workqueue(j->wq);
	if (j->group && j->newest && j->cached)
		cache_forget_all(j);
	bioset_exit(&j->bios);
	bitmap_free(j->cached);
	kvfree(j->newest);
	if (j->group)
		group_put(j->group);
	if (j->dev)
		dm_put_device(j->ti, j->dev);
	kfree(j);
}

static int parse_options(struct judge *j, struct dm_arg_set *as, char **error)
{
	static const struct dm_arg nr_args = { 0, 6, "Invalid number of options" };
	unsigned int argc;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(&nr_args, as, &argc, error);
	if (r)
		return r;

	*error = "Unknown option or bad value";
	for (; argc >= 2; argc -= 2) {
		const char *name = dm_shift_arg(as), *value = dm_shift_arg(as);

		if (!strcmp(name, "flush_delay_us"))
			r = kstrtouint(value, 10, &j->flush_delay_us);
		else if (!strcmp(name, "cache_blocks"))
			r = kstrtouint(value, 10, &j->cache_limit);
		else if (!strcmp(name, "discard_blocks"))
			r = kstrtouint(value, 10, &j->discard_blocks);
		else
			r = -EINVAL;
		if (r || j->flush_delay_us > MAX_DELAY_US)
			return -EINVAL;
	}
	return argc || as->argc ? -EINVAL : 0;
}

static int judge_init(struct judge *j, const char *dev, const char *group, char **error)
{
	int r;

	*error = "Cannot get the device";
	r = dm_get_device(j->ti, dev, dm_table_get_mode(j->ti->table), &j->dev);
	if (r) {
		j->dev = NULL;
		return r;
	}
	r = bioset_init(&j->bios, BIO_POOL_SIZE, 0, 0);
	if (r)
		return r;

	*error = "Cannot allocate";
	j->nr_blocks = DIV_ROUND_UP(j->ti->len, BLOCK_SECTORS);
	j->newest = kvcalloc(j->nr_blocks, sizeof(*j->newest), GFP_KERNEL);
	j->cached = bitmap_zalloc(j->nr_blocks, GFP_KERNEL);
	j->wq = alloc_ordered_workqueue("judge", WQ_MEM_RECLAIM);
	j->group = group_get(group);
	if (!j->newest || !j->cached || !j->wq || !j->group)
		return -ENOMEM;
	return 0;
}

static int judge_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	const char *dev = dm_shift_arg(&as), *group = dm_shift_arg(&as);
	struct judge *j;
	int r;

	if (!group) {
		ti->error = "Wanted: <dev> <group> [<#opts> <opt>...]";
		return -EINVAL;
	}
	j = kzalloc(sizeof(*j), GFP_KERNEL);
	if (!j) {
		ti->error = "Cannot allocate";
		return -ENOMEM;
	}
	j->ti = ti;
	j->cache_limit = DEFAULT_CACHE_BLOCKS;
	mutex_init(&j->io_mutex);
	INIT_LIST_HEAD(&j->member);
	INIT_WORK(&j->work, do_work);
	init_waitqueue_head(&j->room);
	init_waitqueue_head(&j->delays);

	r = parse_options(j, &as, &ti->error);
	if (!r)
		r = judge_init(j, dev, group, &ti->error);
	if (r) {
		judge_destroy(j);
		return r;
	}
	ti->private = j;
	ti->num_flush_bios = 1;
	if (j->cache_limit) {
		ti->num_discard_bios = 1;
		ti->num_write_zeroes_bios = 1;
		ti->flush_supported = true;
		ti->discards_supported = true;
	}
	ti->per_io_data_size = sizeof(struct judge_io);
	return 0;
}

static void judge_dtr(struct dm_target *ti)
{
	judge_destroy(ti->private);
}

static void leave_group(struct judge *j)
{
	mutex_lock(&j->group->mutex);
	list_del_init(&j->member);
	mutex_unlock(&j->group->mutex);
}

static void judge_postsuspend(struct dm_target *ti)
{
	struct judge *j = ti->private;

	flush_workqueue(j->wq);
	leave_group(j);
	if (cache_write_back_all(j))
		DMERR("%s: cannot write back", j->dev->name);
}

static void judge_resume(struct dm_target *ti)
{
	struct gendisk *disk = dm_disk(dm_table_get_md(ti->table));
	struct judge *j = ti->private;

	/*
	 * dm offers write zeroes only where the device below has them. The cache
	 * needs no help for that.
	 */
	if (j->cache_limit)
		disk->queue->limits.max_write_zeroes_sectors = UINT_MAX >> SECTOR_SHIFT;

	mutex_lock(&j->group->mutex);
	list_add(&j->member, &j->group->members);
	mutex_unlock(&j->group->mutex);
}

static void judge_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct judge *j = ti->private;

	if (!j->cache_limit)
		return;
	limits->discard_granularity = j->discard_blocks ?
				      j->discard_blocks * BLOCK_SIZE_BYTES : SECTOR_SIZE;
	limits->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->max_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	/* overlay() counts on whole sectors. */
	limits->dma_alignment = SECTOR_SIZE - 1;
}

static int judge_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				 void *data)
{
	struct judge *j = ti->private;

	return fn(ti, j->dev, 0, ti->len, data);
}

static void emit_counters(struct judge *j, char *result, unsigned int maxlen)
{
	/* It needs no barrier: a test looks again and again. */
	bool delays = waitqueue_active(&j->delays);
	unsigned int sz = 0;

	spin_lock(&j->group->lock);
	DMEMIT("%llu %llu %llu %llu %llu %llu %s %d", j->nr_reads, j->nr_writes,
	       j->written_sectors, j->nr_flushes, j->cached_sectors,
	       j->dropped_sectors, j->crashed ? "crashed" : "ok",
	       delays);
	spin_unlock(&j->group->lock);
}

static void judge_status(struct dm_target *ti, status_type_t type,
			 unsigned int status_flags, char *result, unsigned int maxlen)
{
	struct judge *j = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		emit_counters(j, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %s 6 flush_delay_us %u cache_blocks %u discard_blocks %u",
		       j->dev->name, j->group->name, j->flush_delay_us, j->cache_limit,
		       j->discard_blocks);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static int fail_writes(struct judge *j, bool on, bool except, u64 first, u64 sectors)
{
	spin_lock(&j->group->lock);
	j->fail_writes = on;
	j->fail_except = except;
	j->fail_first = first;
	j->fail_sectors = sectors;
	spin_unlock(&j->group->lock);
	return 0;
}

static int message_fail_writes(struct judge *j, unsigned int argc, char **argv)
{
	bool except = argc == 4 && !strcmp(argv[1], "except");
	u64 first, sectors;

	if (argc == 2 && !strcmp(argv[1], "off"))
		return fail_writes(j, false, false, 0, 0);
	if (argc < 2 || (strcmp(argv[1], "on") && !except))
		return -EINVAL;
	if (argc == 2)
		return fail_writes(j, true, false, 0, 0);
	if (argc != 4 || kstrtou64(argv[2], 10, &first) ||
	    kstrtou64(argv[3], 10, &sectors) || !sectors)
		return -EINVAL;
	return fail_writes(j, true, except, first, sectors);
}

/* What a reader does that looks at an object for long; other CPUs must not free it. */
static void hold_rcu(unsigned int ms)
{
	ktime_t end = ktime_add_ms(ktime_get(), ms);

	rcu_read_lock();
	DMINFO("holds RCU for %u ms", ms);
	/* By the clock, as a slow machine must not make a stall of it. */
	while (ktime_before(ktime_get(), end))
		cpu_relax();
	DMINFO("releases RCU");
	rcu_read_unlock();
}

static int message_delay(struct judge *j, unsigned int *delay_us, const char *value)
{
	unsigned int us;

	if (kstrtouint(value, 10, &us) || us > MAX_DELAY_US)
		return -EINVAL;
	WRITE_ONCE(*delay_us, us);
	wake_up_all(&j->delays);
	return 0;
}

static int judge_message(struct dm_target *ti, unsigned int argc, char **argv,
			 char *result, unsigned int maxlen)
{
	struct judge *j = ti->private;
	unsigned int ms;
	u64 seed;

	if (!strcmp(argv[0], "fail-writes"))
		return message_fail_writes(j, argc, argv);
	if (argc != 2)
		return -EINVAL;
	if (!strcmp(argv[0], "crash") && !kstrtou64(argv[1], 10, &seed))
		return crash_group(j->group, seed);
	if (!strcmp(argv[0], "halt"))
		return halt_group(j->group, !strcmp(argv[1], "on"));
	if (!strcmp(argv[0], "fail-discards")) {
		WRITE_ONCE(j->fail_discards, !strcmp(argv[1], "on"));
		return 0;
	}
	if (!strcmp(argv[0], "fail-flushes")) {
		WRITE_ONCE(j->fail_flushes, !strcmp(argv[1], "on"));
		WRITE_ONCE(j->is_full, !strcmp(argv[1], "full"));
		return 0;
	}
	if (!strcmp(argv[0], "ignore-discards")) {
		WRITE_ONCE(j->ignore_discards, !strcmp(argv[1], "on"));
		return 0;
	}
	if (!strcmp(argv[0], "flush-delay"))
		return message_delay(j, &j->flush_delay_us, argv[1]);
	if (!strcmp(argv[0], "discard-delay"))
		return message_delay(j, &j->discard_delay_us, argv[1]);
	if (!strcmp(argv[0], "hold-rcu") && !kstrtouint(argv[1], 10, &ms) &&
	    ms <= MAX_HOLD_MS) {
		hold_rcu(ms);
		return 0;
	}
	return -EINVAL;
}

static struct target_type judge_target = {
	.name = "judge",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = judge_ctr,
	.dtr = judge_dtr,
	.map = judge_map,
	.end_io = judge_end_io,
	.postsuspend = judge_postsuspend,
	.resume = judge_resume,
	.status = judge_status,
	.message = judge_message,
	.iterate_devices = judge_iterate_devices,
	.io_hints = judge_io_hints,
};

static int __init dm_judge_init(void)
{
	return dm_register_target(&judge_target);
}

static void __exit dm_judge_exit(void)
{
	dm_unregister_target(&judge_target);
}

module_init(dm_judge_init);
module_exit(dm_judge_exit);

MODULE_DESCRIPTION(DM_NAME " judge of crashes, for tests");
MODULE_AUTHOR("revdedup maintainers");
MODULE_LICENSE("GPL");
