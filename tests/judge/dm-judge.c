// SPDX-License-Identifier: GPL-2.0
/*
 * The judge of crashes: a disk with a volatile write cache that loses, at a
 * moment of our choice, what nobody flushed. For tests only.
 *
 *   0 <sectors> judge <dev> <group> [<#opts> [flush_delay_us <n>] [cache_blocks <n>]]
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
 *   sectors read as zeros.
 * - Over the limit a random half of the blocks is written back unasked.
 * - A clean end (suspend) writes back everything.
 * - A failed flush (see below) throws a random part of what it should have made
 *   stable away: a disk that lost its power for a moment does that, and whoever
 *   does not write again after a failed flush has lost data.
 *
 * A crash hits all live devices of a group at one instant: whatever was
 * acknowledged before it is in, whatever comes after fails with EIO, and so
 * does what is in flight, until the table is replaced. Each sector then
 * becomes independently its stable content or any one of its unflushed versions.
 * Independent coins alone would seldom produce a whole block lost beside a whole
 * block kept, so each device draws one of several policies at each crash (enum
 * policy); all of them produce subsets that independent coins could.
 *
 * Messages
 * --------
 *   crash <seed>              crash the group of this device; returns when it is over
 *   fail-writes on [<first sector> <sectors>]
 *   fail-writes off           writes (to that range) fail with EIO; without a range
 *                             flushes fail too; reads go on
 *   fail-discards on|off      discards are refused as not supported
 *   flush-delay <us>
 *
 * Status: <reads> <write bios> <sectors written> <flushes> <cached sectors>
 *         <sectors dropped by crashes> <ok|crashed>
 * Write bios are writes, discards and write zeroes; each version cached counts.
 *
 * Locks
 * -----
 * group->mutex       members of the group, crashes; may sleep
 *   judge->io_mutex  writing to <dev>, and removal of versions; may sleep
 *     group->lock    insertion of versions, counters, state; one for all members,
 *                    so that a crash is one instant for all of them
 *
 * Versions of a block are a list from the newest to the oldest. Insertion is at
 * the head, under group->lock. Whoever holds io_mutex and has read the head
 * under group->lock can walk the list: nobody else removes.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/device-mapper.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#define DM_MSG_PREFIX		"judge"

#define BLOCK_SECTORS		8U
#define BLOCK_SIZE_BYTES	(BLOCK_SECTORS << SECTOR_SHIFT)
#define ALL_SECTORS		0xff
#define DEFAULT_CACHE_BLOCKS	4096U
#define MAX_FLUSH_DELAY_US	1000000U
#define NEVER			U64_MAX

/* What some of a block's sectors became by one write. Immutable once inserted. */
struct version {
	struct version *older;
	struct page *page;		/* NULL: zeros */
	u64 seq;
	u8 mask;			/* of sectors */
};

struct group {
	struct list_head list;
	struct list_head members;	/* judges that are live */
	struct mutex mutex;
	spinlock_t lock;		/* see above */
	unsigned int refs;		/* under groups_mutex */
	char name[];
};

struct judge {
	struct dm_target *ti;
	struct dm_dev *dev;
	struct group *group;
	struct list_head member;	/* of group->members */
	struct mutex io_mutex;
	struct bio_set bios;
	struct workqueue_struct *wq;
	struct work_struct work;
	wait_queue_head_t room;		/* cached_blocks went down, or a crash */
	unsigned int cache_limit;	/* in blocks */
	unsigned int flush_delay_us;
	unsigned long nr_blocks;

	/* The rest is under group->lock. */
	struct version **newest;	/* of each block */
	unsigned long *cached;		/* bitmap: blocks with versions */
	struct bio_list deferred;
	u64 seq;			/* of the last version inserted */
	unsigned long cached_blocks;	/* versions, in fact */
	u64 cached_sectors;
	bool crashed;
	bool fail_writes;
	bool fail_discards;
	sector_t fail_first;
	sector_t fail_sectors;		/* 0: everything, and flushes */
	u64 nr_reads;
	u64 nr_writes;
	u64 written_sectors;
	u64 nr_flushes;
	u64 dropped_sectors;
};

struct judge_io {
	u64 seq;			/* versions up to this one are meant */
	bool failed;			/* a flush to be failed by the worker */
};

static LIST_HEAD(groups);
static DEFINE_MUTEX(groups_mutex);

/*
 * ---- Versions ----
 */

static void version_free(struct version *v)
{
	if (v->page)
		__free_page(v->page);
	kfree(v);
}

static void versions_free(struct version *v)
{
	while (v) {
		struct version *older = v->older;

		version_free(v);
		v = older;
	}
}

static struct version *version_alloc(u8 mask, bool zeros, gfp_t gfp)
{
	struct version *v = kmalloc(sizeof(*v), gfp);

	if (!v)
		return NULL;
	v->older = NULL;
	v->mask = mask;
	v->page = zeros ? NULL : alloc_page(gfp);
	if (!zeros && !v->page) {
		kfree(v);
		return NULL;
	}
	return v;
}

/* The sectors of @block that lie in [@first, @first + @count). */
static u8 block_mask(unsigned long block, sector_t first, sector_t count)
{
	sector_t start = (sector_t)block * BLOCK_SECTORS;
	unsigned int from = first > start ? first - start : 0;
	sector_t end = first + count - start;
	unsigned int to = min_t(sector_t, end, BLOCK_SECTORS);

	return (ALL_SECTORS << from) & (ALL_SECTORS >> (BLOCK_SECTORS - to));
}

static sector_t bio_first(struct bio *bio)
{
	return bio->bi_iter.bi_sector;
}

static unsigned long bio_first_block(struct bio *bio)
{
	return bio_first(bio) / BLOCK_SECTORS;
}

static unsigned long bio_last_block(struct bio *bio)
{
	return (bio_end_sector(bio) - 1) / BLOCK_SECTORS;
}

/* Copy a bio's data into its versions, which are linked in order of address. */
static void copy_from_bio(struct bio *bio, struct version *v)
{
	size_t pos = (bio_first(bio) % BLOCK_SECTORS) << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		unsigned int done = 0;

		while (done < bv.bv_len) {
			unsigned int len = min_t(size_t, bv.bv_len - done,
						 BLOCK_SIZE_BYTES - pos);

			memcpy_page(v->page, pos, bv.bv_page,
				    bv.bv_offset + done, len);
			done += len;
			pos += len;
			if (pos == BLOCK_SIZE_BYTES) {
				pos = 0;
				v = v->older;
			}
		}
	}
}

/*
 * One version for each block of @bio, linked in order of address through
 * ->older until they are inserted. May sleep.
 */
static struct version *versions_of_bio(struct bio *bio)
{
	bool zeros = bio_op(bio) != REQ_OP_WRITE;
	struct version *first = NULL, **link = &first;
	unsigned long b;

	for (b = bio_first_block(bio); b <= bio_last_block(bio); b++) {
		u8 mask = block_mask(b, bio_first(bio), bio_sectors(bio));
		struct version *v = version_alloc(mask, zeros, GFP_NOIO);

		if (!v) {
			versions_free(first);
			return NULL;
		}
		*link = v;
		link = &v->older;
	}
	if (!zeros)
		copy_from_bio(bio, first);
	return first;
}

static void __count_version(struct judge *j, struct version *v, int sign)
{
	lockdep_assert_held(&j->group->lock);
	j->cached_blocks += sign;
	j->cached_sectors += sign * (int)hweight8(v->mask);
}

/* Under group->lock. */
static void __insert_versions(struct judge *j, struct bio *bio, struct version *v)
{
	unsigned long b = bio_first_block(bio);

	lockdep_assert_held(&j->group->lock);
	j->seq++;
	while (v) {
		struct version *next = v->older;

		v->seq = j->seq;
		v->older = j->newest[b];
		j->newest[b] = v;
		__set_bit(b, j->cached);
		__count_version(j, v, 1);
		v = next;
		b++;
	}
}

static struct version *newest_version(struct judge *j, unsigned long block)
{
	struct version *v;

	spin_lock(&j->group->lock);
	v = j->newest[block];
	spin_unlock(&j->group->lock);
	return v;
}

/* Forget the versions of @block up to @seq. Under io_mutex. */
static void remove_versions(struct judge *j, unsigned long block, u64 seq)
{
	struct version **link, *v, *gone;

	lockdep_assert_held(&j->io_mutex);
	spin_lock(&j->group->lock);
	link = &j->newest[block];
	while (*link && (*link)->seq > seq)
		link = &(*link)->older;
	gone = *link;
	*link = NULL;
	if (!j->newest[block])
		__clear_bit(block, j->cached);
	for (v = gone; v; v = v->older)
		__count_version(j, v, -1);
	spin_unlock(&j->group->lock);
	versions_free(gone);
}

/* First block with versions at or after @block, nr_blocks if there is none. */
static unsigned long next_cached(struct judge *j, unsigned long block)
{
	spin_lock(&j->group->lock);
	block = find_next_bit(j->cached, j->nr_blocks, block);
	spin_unlock(&j->group->lock);
	return block;
}

/*
 * ---- Which version a sector gets. All of this is under io_mutex. ----
 */

static struct version *version_upto(struct version *v, unsigned int sector, u64 seq)
{
	while (v && (v->seq > seq || !(v->mask & (1U << sector))))
		v = v->older;
	return v;
}

/*
 * Policies. Dropping everything, keeping the newest of everything, and keeping
 * what was written up to some moment, as a disk that writes back in order, are
 * all UP_TO_SEQ.
 */
enum policy {
	UP_TO_SEQ,		/* newest version up to chooser->seq */
	BY_BLOCK,		/* UP_TO_SEQ, with another seq for each block */
	BY_SECTOR,		/* any version, or none, for each sector */
};

struct chooser {
	enum policy policy;
	u64 seq;
	struct rnd_state *rnd;
};

static u64 random_upto(struct rnd_state *rnd, u64 limit)
{
	u64 r = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);

	return r % (limit + 1);
}

/* Any version that touches @mask, or NULL, which is the stable content. */
static struct version *random_version(struct rnd_state *rnd, struct version *v, u8 mask)
{
	struct version *pick = NULL;
	unsigned int nr = 0;

	for (; v; v = v->older)
		if ((v->mask & mask) && !random_upto(rnd, ++nr))
			pick = v;
	return pick;
}

/* Pick a version for each sector of a block; NULL: leave the device as it is. */
static void choose(struct chooser *c, struct version *newest, struct version **picks)
{
	u64 seq = c->seq;
	unsigned int s;

	if (c->policy == BY_BLOCK) {
		struct version *last = random_version(c->rnd, newest, ALL_SECTORS);

		seq = last ? last->seq : 0;
	}
	for (s = 0; s < BLOCK_SECTORS; s++) {
		if (c->policy == BY_SECTOR)
			picks[s] = random_version(c->rnd, newest, 1U << s);
		else
			picks[s] = version_upto(newest, s, seq);
	}
}

/*
 * ---- Writing to the device. All of this is under io_mutex. ----
 */

/* Gathers pages for adjacent sectors into bios. */
struct writer {
	struct judge *j;
	struct bio *bio;
	int r;
};

static void writer_submit(struct writer *w)
{
	int r;

	if (!w->bio)
		return;
	r = submit_bio_wait(w->bio);
	if (r && !w->r)
		w->r = r;
	bio_put(w->bio);
	w->bio = NULL;
}

static void writer_add(struct writer *w, sector_t sector, struct page *page,
		       unsigned int from, unsigned int nr)
{
	unsigned int len = nr << SECTOR_SHIFT, offset = from << SECTOR_SHIFT;

	if (w->bio && bio_end_sector(w->bio) == sector &&
	    bio_add_page(w->bio, page, len, offset) == len)
		return;

	writer_submit(w);
	w->bio = bio_alloc(w->j->dev->bdev, BIO_MAX_VECS, REQ_OP_WRITE, GFP_NOIO);
	w->bio->bi_iter.bi_sector = sector;
	__bio_add_page(w->bio, page, len, offset);
}

/* Write @picks, one for each sector of @block: runs of one version at a time. */
static void writer_block(struct writer *w, unsigned long block, struct version **picks)
{
	sector_t start = (sector_t)block * BLOCK_SECTORS;
	unsigned int from, to;

	for (from = 0; from < BLOCK_SECTORS; from = to) {
		struct version *v = picks[from];

		for (to = from + 1; to < BLOCK_SECTORS && picks[to] == v; to++)
			;
		if (v)
			writer_add(w, start + from, v->page ? v->page : ZERO_PAGE(0),
				   from, to - from);
	}
}

static u64 count_dropped(struct version *newest, struct version **picks)
{
	unsigned int s;
	u64 nr = 0;

	for (s = 0; s < BLOCK_SECTORS; s++)
		nr += version_upto(newest, s, NEVER) != picks[s];
	return nr;
}

/*
 * Make stable what @c chooses in blocks @first to @last. Adds the sectors whose
 * newest version was not chosen to @dropped. Versions stay in the cache.
 */
static int write_back(struct judge *j, unsigned long first, unsigned long last,
		      struct chooser *c, u64 *dropped)
{
	struct writer w = { .j = j };
	unsigned long b;

	lockdep_assert_held(&j->io_mutex);
	for (b = next_cached(j, first); b <= last; b = next_cached(j, b + 1)) {
		struct version *newest = newest_version(j, b);
		struct version *picks[BLOCK_SECTORS];

		if (b == j->nr_blocks)
			break;
		choose(c, newest, picks);
		writer_block(&w, b, picks);
		if (dropped)
			*dropped += count_dropped(newest, picks);
	}
	writer_submit(&w);
	return w.r;
}

static void forget(struct judge *j, unsigned long first, unsigned long last, u64 seq)
{
	unsigned long b;

	for (b = next_cached(j, first); b <= last && b < j->nr_blocks;
	     b = next_cached(j, b + 1))
		remove_versions(j, b, seq);
	wake_up_all(&j->room);
}

static int write_back_upto(struct judge *j, unsigned long first, unsigned long last, u64 seq)
{
	struct chooser c = { .policy = UP_TO_SEQ, .seq = seq };
	int r = write_back(j, first, last, &c, NULL);

	if (!r)
		forget(j, first, last, seq);
	return r;
}

static int write_back_all(struct judge *j)
{
	int r;

	mutex_lock(&j->io_mutex);
	r = write_back_upto(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);
	return r;
}

/* A failed flush: of what it should have made stable a random part is gone. */
static void lose_some(struct judge *j, u64 seq)
{
	struct rnd_state rnd;
	unsigned long b;

	prandom_seed_state(&rnd, seq);
	mutex_lock(&j->io_mutex);
	for (b = next_cached(j, 0); b < j->nr_blocks; b = next_cached(j, b + 1))
		if (random_upto(&rnd, 1))
			remove_versions(j, b, seq);
	mutex_unlock(&j->io_mutex);
	wake_up_all(&j->room);
}

/*
 * ---- Crash ----
 */

static void choose_policy(struct judge *j, struct rnd_state *rnd, struct chooser *c)
{
	c->rnd = rnd;
	c->policy = UP_TO_SEQ;
	c->seq = 0;

	switch (random_upto(rnd, 4)) {
	case 0:
		break;
	case 1:
		c->seq = NEVER;
		break;
	case 2:
		c->seq = random_upto(rnd, j->seq);
		break;
	case 3:
		c->policy = BY_BLOCK;
		break;
	case 4:
		c->policy = BY_SECTOR;
		break;
	}
}

static void crash_one(struct judge *j, struct rnd_state *rnd)
{
	struct chooser c;
	u64 dropped = 0;

	choose_policy(j, rnd, &c);
	mutex_lock(&j->io_mutex);
	if (write_back(j, 0, j->nr_blocks - 1, &c, &dropped))
		DMERR("%s: the crash itself failed to write", j->dev->name);
	forget(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);

	spin_lock(&j->group->lock);
	j->dropped_sectors += dropped;
	spin_unlock(&j->group->lock);
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

	list_for_each_entry(j, &g->members, member)
		crash_one(j, &rnd);
	mutex_unlock(&g->mutex);
	return 0;
}

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

			v = newest_version(j, sector / BLOCK_SECTORS);
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
		lose_some(j, io->seq);
		return -EIO;
	}
	mutex_lock(&j->io_mutex);
	if (bio_sectors(bio))
		r = write_back_upto(j, bio_first_block(bio), bio_last_block(bio), io->seq);
	else
		r = write_back_upto(j, 0, j->nr_blocks - 1, io->seq);
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

static void do_syncs(struct judge *j, struct bio_list *syncs)
{
	unsigned int delay = READ_ONCE(j->flush_delay_us);
	struct bio *bio;

	if (bio_list_empty(syncs))
		return;
	if (delay)
		usleep_range(delay, delay + delay / 4);

	while ((bio = bio_list_pop(syncs))) {
		int r = do_sync(j, bio);

		/* Also where it was written: nobody may act on it any more. */
		if (has_crashed(j))
			r = -EIO;
		bio->bi_status = errno_to_blk_status(r);
		bio_endio(bio);
	}
}

/* Write back part of an address space that is cut at a random place. */
static void shrink_cache(struct judge *j)
{
	unsigned long cut, last = j->nr_blocks - 1;
	struct rnd_state rnd;
	int r = 0;

	while (!r && READ_ONCE(j->cached_blocks) > j->cache_limit) {
		prandom_seed_state(&rnd, j->seq);
		cut = random_upto(&rnd, last);
		mutex_lock(&j->io_mutex);
		if (random_upto(&rnd, 1))
			r = write_back_upto(j, 0, cut, NEVER);
		else
			r = write_back_upto(j, cut, last, NEVER);
		mutex_unlock(&j->io_mutex);
	}
}

/*
 * Reads before flushes, so that they do not wait for the delay: an order among
 * I/Os that are in flight at the same time is nobody's right.
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
	shrink_cache(j);
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

	spin_lock(&j->group->lock);
	j->nr_flushes++;
	if (j->crashed)
		r = DM_MAPIO_KILL;
	else
		r = __defer(j, bio, j->fail_writes && !j->fail_sectors);
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
static blk_status_t __write_status(struct judge *j, struct bio *bio)
{
	if (j->crashed)
		return BLK_STS_IOERR;
	if (j->fail_discards && bio_op(bio) == REQ_OP_DISCARD)
		return BLK_STS_NOTSUPP;
	if (j->fail_writes &&
	    (!j->fail_sectors || (bio_first(bio) < j->fail_first + j->fail_sectors &&
				  bio_end_sector(bio) > j->fail_first)))
		return BLK_STS_IOERR;
	return BLK_STS_OK;
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
		__insert_versions(j, bio, v);
		v = NULL;
		if (bio->bi_opf & REQ_FUA) {
			__defer(j, bio, false);
			deferred = true;
		} else if (j->cached_blocks > j->cache_limit) {
			queue_work(j->wq, &j->work);
		}
	}
	spin_unlock(&j->group->lock);
	versions_free(v);
	return deferred;
}

static bool has_room(struct judge *j)
{
	return READ_ONCE(j->cached_blocks) < 2UL * j->cache_limit;
}

static int map_write(struct judge *j, struct bio *bio)
{
	struct version *v;

	if (!bio_sectors(bio)) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	v = versions_of_bio(bio);
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

static int judge_map(struct dm_target *ti, struct bio *bio)
{
	struct judge *j = ti->private;

	bio_set_dev(bio, j->dev->bdev);
	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);

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

/* Reads that were under way when the crash came fail too. */
static int judge_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct judge *j = ti->private;

	if (bio_op(bio) == REQ_OP_READ && READ_ONCE(j->crashed))
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

/*
 * ---- Constructor, suspend, status, messages ----
 */

static void forget_all(struct judge *j)
{
	mutex_lock(&j->io_mutex);
	forget(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);
}

static void judge_destroy(struct judge *j)
{
	if (j->wq)
		destroy_workqueue(j->wq);
	if (j->group && j->newest && j->cached)
		forget_all(j);
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
	static const struct dm_arg nr_args = { 0, 4, "Invalid number of options" };
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
		else
			r = -EINVAL;
		if (r || !j->cache_limit || j->flush_delay_us > MAX_FLUSH_DELAY_US)
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

	r = parse_options(j, &as, &ti->error);
	if (!r)
		r = judge_init(j, dev, group, &ti->error);
	if (r) {
		judge_destroy(j);
		return r;
	}
	ti->private = j;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->flush_supported = true;
	ti->discards_supported = true;
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
	if (write_back_all(j))
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
	disk->queue->limits.max_write_zeroes_sectors = UINT_MAX >> SECTOR_SHIFT;

	mutex_lock(&j->group->mutex);
	list_add(&j->member, &j->group->members);
	mutex_unlock(&j->group->mutex);
}

static void judge_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	limits->discard_granularity = SECTOR_SIZE;
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
	unsigned int sz = 0;

	spin_lock(&j->group->lock);
	DMEMIT("%llu %llu %llu %llu %llu %llu %s", j->nr_reads, j->nr_writes,
	       j->written_sectors, j->nr_flushes, j->cached_sectors,
	       j->dropped_sectors, j->crashed ? "crashed" : "ok");
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
		DMEMIT("%s %s 4 flush_delay_us %u cache_blocks %u", j->dev->name,
		       j->group->name, j->flush_delay_us, j->cache_limit);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static int fail_writes(struct judge *j, bool on, u64 first, u64 sectors)
{
	spin_lock(&j->group->lock);
	j->fail_writes = on;
	j->fail_first = first;
	j->fail_sectors = sectors;
	spin_unlock(&j->group->lock);
	return 0;
}

static int message_fail_writes(struct judge *j, unsigned int argc, char **argv)
{
	u64 first, sectors;

	if (argc == 2 && !strcmp(argv[1], "off"))
		return fail_writes(j, false, 0, 0);
	if (argc < 2 || strcmp(argv[1], "on"))
		return -EINVAL;
	if (argc == 2)
		return fail_writes(j, true, 0, 0);
	if (argc != 4 || kstrtou64(argv[2], 10, &first) ||
	    kstrtou64(argv[3], 10, &sectors) || !sectors)
		return -EINVAL;
	return fail_writes(j, true, first, sectors);
}

static int judge_message(struct dm_target *ti, unsigned int argc, char **argv,
			 char *result, unsigned int maxlen)
{
	struct judge *j = ti->private;
	unsigned int us;
	u64 seed;

	if (!strcmp(argv[0], "fail-writes"))
		return message_fail_writes(j, argc, argv);
	if (argc != 2)
		return -EINVAL;
	if (!strcmp(argv[0], "crash") && !kstrtou64(argv[1], 10, &seed))
		return crash_group(j->group, seed);
	if (!strcmp(argv[0], "fail-discards")) {
		WRITE_ONCE(j->fail_discards, !strcmp(argv[1], "on"));
		return 0;
	}
	if (!strcmp(argv[0], "flush-delay") && !kstrtouint(argv[1], 10, &us) &&
	    us <= MAX_FLUSH_DELAY_US) {
		WRITE_ONCE(j->flush_delay_us, us);
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
