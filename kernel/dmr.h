/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private structures of dm-revdedup, and who may touch what.
 *
 *   target.c   table line, map, suspend and resume, status
 *   message.c  messages: parse, check, call
 *   dirty.c    first writes to a segment: hold, make the bit stable, let go
 *   checkpoint.c    checkpoint, commit, abort, mark
 *   meta.c     the state of a metadata device: find, load, format, resize
 *   super.c    the two copies of the superblock
 *   table.h    the remap table: table.c, remap.c, writeback.c, edit.c, hydrate.c
 *   format.c, ranges.c   pure: on-disk format, text of messages
 *
 * Lock order: dmr_meta.message_lock, dmr_meta.lock, those of the remap table that
 * sleep (table.h), dmr_meta.flush_lock or base_flush_lock, dm-bufio's,
 * dmr_meta.defer_lock. The map function takes only the last, and only for a first
 * write, and dmr_table.lock.
 * dmr_meta_list_lock is taken with none of them and held over no I/O: a metadata
 * device that hangs is no other volume's business.
 */
#ifndef DMR_H
#define DMR_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/dm-bufio.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "break.h"
#include "compat.h"
#include "format.h"
#include "ranges.h"

#define DM_MSG_PREFIX "revdedup"

/*
 * A metadata device in use. The state belongs to the device, not to a table:
 * when a table is reloaded the new target takes the same object over, because
 * what memory knows (bits not yet stable after a write error, say) may be more
 * than the disk does. One mapped device owns it as long as it lives.
 */
struct dmr_meta {
	struct list_head list;		/* under dmr_meta_list_lock */
	refcount_t refs;		/* one a constructed target; 0: it goes */
	struct block_device *bdev;	/* open as long as a target is */
	struct mapped_device *owner;

	struct dm_bufio_client *bufio;
	struct workqueue_struct *wq;
	struct dmr_table *table;	/* NULL: all is BASE, and no pool */

	struct mutex message_lock;	/* one message at a time */

	/*
	 * Everything from here to the next lock is under it, and so is every
	 * write to the metadata device. Exception: map reads `stable` without.
	 */
	struct mutex lock;
	struct dm_target *ti;		/* the live target; NULL while none is */
	bool loaded:1;			/* what follows is valid */
	bool suspended:1;		/* between postsuspend and preresume */
	bool read_only:1;
	bool checkpoint_is_fresh:1;	/* no resume since the last one */

	struct dmr_super super;		/* the state; see super.c */
	u64 last_seq;			/* of any attempt to write it */
	bool super_is_stale;		/* a copy is not what super says */
	bool super_needs_a;		/* copy B alone may not be found */
	bool epoch_is_unsure;		/* the disk may be in another than super */
	bool event_is_due;		/* the worker raises it */
	bool lost_before;		/* the lost mark was there at load, */
	u64 lost_before_epoch;		/* with this epoch */
	u32 seed;

	/*
	 * A bit a segment, whole groups of them:
	 *   want    dirty in the current epoch
	 *   stable  the same, and on disk: what map asks. Replaced only while
	 *           the device is suspended, bits are added under the lock
	 *   frozen  dirty in the epoch before, with DMR_FLAG_FROZEN
	 * and a bit a group:
	 *   stale   the block on disk lacks bits that want has
	 */
	u64 nr_segs;
	u64 nr_groups;
	unsigned long *want;
	unsigned long *stable;
	unsigned long *frozen;
	unsigned long *stale;

	/*
	 * A flush of the base that nobody asked us for has failed: how often, and
	 * until when, that is still to be told. Under no lock.
	 */
	atomic_t flush_failed;
	unsigned long tell_until;	/* jiffies */
	struct mutex base_flush_lock;	/* such a flush begins when the last is noted */

	/*
	 * Bits and superblocks are written under this lock, the remap table under
	 * another: of two who flush one is told that the device has lost its cache,
	 * and with it what the other wrote. So they flush one after the other, and
	 * count (under flush_lock) how often that failed.
	 */
	struct mutex flush_lock;
	unsigned int flush_errors;

	struct bio_list held;		/* first writes whose bits are in want */

	/* An outage: the metadata device failed a write; see dirty.c. */
	bool outage;
	bool outage_is_marked;		/* a superblock copy has the lost mark */
	bool outage_is_noted;		/* lost-noted came */
	unsigned long outage_start;	/* jiffies */
	unsigned long next_retry;	/* jiffies; or of a stale superblock copy */

	/* Group commit, worker only; see gather() in dirty.c. */
	u64 commit_ns;			/* how long the last one took */
	unsigned int crowd;		/* writers seen around it */
	unsigned int expected;		/* to wait for; map reads it, too */
	unsigned int probe_gap;
	unsigned int probe_left;

	spinlock_t defer_lock;		/* the next four */
	struct bio_list deferred;	/* first writes as map left them */
	unsigned int nr_deferred;
	struct bio_list zeroes;		/* write zeroes that the base refused */
	bool requeue;			/* noflush suspend: push first writes back */

	wait_queue_head_t arrived;	/* nr_deferred or requeue changed */
	struct delayed_work work;
	struct work_struct zero_work;
};

/* A constructed table line. */
struct dmr_target {
	struct dm_dev *base;		/* NULL: none, a version */
	struct dm_dev *meta_dev;
	struct dm_dev *pool;		/* NULL: none */
	struct dmr_meta *meta;
	u8 volume_uuid[DMR_UUID_SIZE];	/* zero: not given */
	u8 pool_uuid[DMR_UUID_SIZE];	/* zero: not given */
	unsigned int cache_mib;		/* 0: not given */
	unsigned int nr_opts;		/* words, for the table line */
	bool read_only;
};

struct dmr_page;
struct dmr_table;

/* Per bio. */
struct dmr_io {
	/* Where a write zeroes began, in case we must do it ourselves. */
	sector_t sector;
	unsigned int sectors;

	/* With a remap table; see remap.c. */
	u8 phase;		/* it is counted in */
	bool counted:1;
	bool fua:1;		/* the block layer may take it off the bio */
	bool homing:1;		/* blocks of page are busy with it */
	bool committed:1;	/* what a FUA write waits for */
	bool at_base:1;		/* it was sent there */
	bool in_work:1;		/* it came to the worker */
	bool copy_failed:1;
	bool copied_again:1;
	u16 first;
	u16 nr;
	struct dmr_page *page;
	atomic_t copies;
	unsigned int losses;	/* dmr_table.nr_losses when they began */
};

static inline u64 dmr_sector_seg(sector_t sector)
{
	return sector >> DMR_SEG_SECTOR_SHIFT;
}

/* Flush the base for ourselves; see target.c. Sleeps. */
int dmr_flush_base(struct dmr_meta *meta, struct block_device *base);

/* Are the dirty bits of all that @bio writes on disk? */
static inline bool dmr_is_stable(struct dmr_meta *meta, struct bio *bio)
{
	u64 seg = dmr_sector_seg(bio->bi_iter.bi_sector);
	u64 last = dmr_sector_seg(bio_end_sector(bio) - 1);

	for (; seg <= last; seg++) {
		if (!test_bit(seg, meta->stable))
			return false;
	}
	return true;
}

/* super.c: the caller holds meta->lock, or nobody else knows meta yet. */

/* 0; -ENODATA for a device to be formatted; else -errno and *@why. */
int dmr_super_read(struct dmr_meta *meta, struct dmr_super *super,
		   const char **why);
/*
 * Make @next the state, on at least one copy: 0. Or neither could be written,
 * memory keeps the old state, and an outage has begun: -errno.
 */
int dmr_super_write(struct dmr_meta *meta, const struct dmr_super *next);
/* Write the state again where a copy lacks it, or may lack it. */
int dmr_super_refresh(struct dmr_meta *meta);

/* meta.c */

/*
 * Find or make the object of @ti's metadata device. Reads the superblock,
 * writes nothing. NULL and ti->error, *@ret_r set, on failure.
 */
struct dmr_meta *dmr_meta_get(struct dm_target *ti, struct dmr_target *rt,
			      int *ret_r);
void dmr_meta_put(struct dmr_meta *meta, struct dm_target *ti);
/* Format or load, adopt uuids and size of the table: before any I/O. */
int dmr_meta_resume(struct dmr_meta *meta, struct dm_target *ti,
		    struct dmr_target *rt);
/* Write one bitmap block, of epoch @epoch, from @bits; not flushed. */
int dmr_meta_write_bits(struct dmr_meta *meta, u64 group, u64 epoch,
			const unsigned long *bits);
/*
 * Make stable what was written since @errors was asked for: what is in dm-bufio, or
 * what went past it. -errno: it may not be there.
 */
int dmr_meta_write_out(struct dmr_meta *meta, unsigned int errors);
int dmr_meta_flush(struct dmr_meta *meta, unsigned int errors);

static inline unsigned int dmr_meta_flush_errors(struct dmr_meta *meta)
{
	return READ_ONCE(meta->flush_errors);
}

/* All I/O has ended: make stable what is in memory only. */
void dmr_meta_suspend(struct dmr_meta *meta);
const char *dmr_meta_name(struct dmr_meta *meta);

/* dirty.c */

void dmr_dirty_init(struct dmr_meta *meta);
/* map: @bio is the first write to a segment; it is issued when it may be. */
void dmr_dirty_defer(struct dmr_meta *meta, struct bio *bio);
/* end_io: the base refused this write zeroes; write them. */
void dmr_dirty_zero(struct dmr_meta *meta, struct bio *bio);
/* For a noflush suspend: push back what is deferred, until told otherwise. */
void dmr_dirty_requeue(struct dmr_meta *meta, bool requeue);

/* The caller of these holds meta->lock. */

/* Put bits of segments [@first, @first + @len) into want. */
void dmr_dirty_set(struct dmr_meta *meta, u64 first, u64 len);
/* Make want stable. An error begins an outage. */
int dmr_dirty_flush(struct dmr_meta *meta);
/* A write to the metadata device failed: begin an outage if none is. */
void dmr_dirty_failed(struct dmr_meta *meta, const char *what, int r);
/* What an outage kept in memory only is written: then it is over. */
bool dmr_dirty_end_outage(struct dmr_meta *meta);
/* Have the worker look again soon. */
void dmr_dirty_kick(struct dmr_meta *meta);
/* What dmr_is_lost() says has changed. */
void dmr_dirty_event(struct dmr_meta *meta);

static inline bool dmr_is_lost(struct dmr_meta *meta)
{
	return meta->outage || (meta->super.flags & DMR_FLAG_LOST);
}

/* checkpoint.c: the caller holds meta->lock; 0 or -errno, logged. */

int dmr_checkpoint(struct dmr_meta *meta, struct block_device *base, u64 epoch);
int dmr_commit(struct dmr_meta *meta, u64 epoch, u64 version);
int dmr_abort(struct dmr_meta *meta, u64 epoch);
int dmr_mark(struct dmr_meta *meta, const char *ranges);

/* message.c */
int dmr_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen);

#endif
