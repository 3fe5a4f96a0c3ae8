/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private to the judge of crashes; see target.c for what it is.
 *
 * Locks
 * -----
 * group->mutex       members of the group, crashes; may sleep
 *   judge->io_mutex  writing to the device, and removal of versions; may sleep
 *     group->lock    insertion of versions, counters, state; one for all members,
 *                    so that a crash is one instant for all of them
 *
 * Versions of a block are a list from the newest to the oldest. Insertion is at
 * the head, under group->lock. A thread that holds io_mutex and has read the head
 * under group->lock can walk the list: no other thread removes versions.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#define DM_MSG_PREFIX		"judge"

#define BLOCK_SECTORS		8U
#define BLOCK_SIZE_BYTES	(BLOCK_SECTORS << SECTOR_SHIFT)
#define ALL_SECTORS		0xff
#define NEVER			U64_MAX

/* The data that one write gave to some sectors of a block. Immutable once inserted. */
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
	wait_queue_head_t delays;	/* a delay has changed, or a crash */
	unsigned int cache_limit;	/* in blocks */
	unsigned int flush_delay_us;
	unsigned int discard_delay_us;
	unsigned int discard_blocks;	/* 0: discards may be of any sectors */
	bool ignore_discards;
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
	bool fail_flushes;
	bool is_full;			/* flushes fail for want of room */
	sector_t fail_first;
	sector_t fail_sectors;		/* 0: everything, and flushes */
	bool fail_except;		/* not that range, but the rest */
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

static inline sector_t bio_first(struct bio *bio)
{
	return bio->bi_iter.bi_sector;
}

static inline unsigned long bio_first_block(struct bio *bio)
{
	return bio_first(bio) / BLOCK_SECTORS;
}

static inline unsigned long bio_last_block(struct bio *bio)
{
	return (bio_end_sector(bio) - 1) / BLOCK_SECTORS;
}

/* cache.c */

/*
 * Copy what @bio writes: a version for each of its blocks, linked in order of
 * address. May sleep; NULL without memory.
 */
struct version *cache_make_versions(struct bio *bio);
void cache_free_versions(struct version *v);

/* Have the versions of @bio take effect. Under group->lock. */
void __cache_insert(struct judge *j, struct bio *bio, struct version *v);

/* Get the newest version of @block; the list may be walked under io_mutex. */
struct version *cache_newest(struct judge *j, unsigned long block);
/* Find the first in the list @v that has @sector of the block and is not after @seq. */
struct version *version_upto(struct version *v, unsigned int sector, u64 seq);

/* Make stable what is cached up to @seq in these blocks. Under io_mutex. */
int cache_write_back(struct judge *j, unsigned long first, unsigned long last, u64 seq);

/* These take io_mutex. */
int cache_write_back_all(struct judge *j);
/* Bring the cache under its limit. */
void cache_shrink(struct judge *j);
/* Fail a flush: drop a random part of what it should have made stable. */
void cache_lose_some(struct judge *j, u64 seq);
/*
 * Choose what the crash keeps (without @rnd nothing), write it, forget all; after the instant of
 * the crash.
 */
void cache_crash(struct judge *j, struct rnd_state *rnd);
void cache_forget_all(struct judge *j);

#endif
