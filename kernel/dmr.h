/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dm-revdedup: the order of its files, its locks, and what is known of a device.
 *
 * An include goes down in this drawing, never up, and neither does a call:
 *
 *   target.c                         what device-mapper calls
 *   message.c                        messages: parse, check, call
 *   meta.c                           life of a metadata device
 *   load.c    firstwrite.c           its format and size; writes that wait for a bit
 *   checkpoint.c                     checkpoint, commit, abort, mark
 *   dirty.c                          dirty bits become stable; the end of an outage
 *   super.c                          the two copies of the superblock
 *   bitmaps.c                        bitmaps in memory and on disk
 *   outage.c  flush.c                an outage begins; flushes of both devices
 *   queue.c                          what waits for a worker
 *   format.c                         pure: the on-disk format
 *   ranges.c                         pure: text of messages
 *
 * A lower file that needs an upper one leaves work in a queue of queue.c; the upper
 * file has set the work item up that takes it from there. This header has what is
 * known of a device. Each other header has the functions of one
 * file, and says where they may be called:
 *
 *   sleeps        in process context, under no spinlock
 *   anywhere      in map and end_io, too, and in interrupts
 *   under X       the caller holds the lock X; a function under a mutex sleeps
 *
 * Lock order, the first is taken first:
 *
 *   dmr_meta.message_lock         mutex      one message at a time
 *   dmr_meta.lock                 mutex      state, bits and superblock
 *   dmr_meta.flush_lock, dmr_meta.base_flush_lock
 *                                 mutexes    one flush of a device at a time
 *   the lock of dm-bufio
 *   dmr_meta.defer_lock           spinlock   in interrupts, too
 *
 * map takes only the last, and where nothing changes none.
 * dmr_meta_list_lock (meta.c) is taken with no other lock and held over no I/O: a
 * metadata device that hangs must not hold up another volume.
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

#include "compat.h"
#include "format.h"

#define DM_MSG_PREFIX "revdedup"

#ifndef DMR_NO_TABLE
struct dmr_page;
struct dmr_table;
#endif

/*
 * A metadata device in use. The state belongs to the device, not to a table line:
 * when a table line is reloaded the new target takes the same object over, because
 * memory may know more than the disk does, for example bits that are not stable
 * after a write error. One mapped device owns the object as long as it lives.
 */
struct dmr_meta {
	struct list_head list;		/* under dmr_meta_list_lock */
	refcount_t refs;		/* one a constructed target; 0: it goes */
	struct block_device *bdev;	/* open as long as a target is */
	struct mapped_device *owner;

	struct dm_bufio_client *bufio;
	struct workqueue_struct *wq;
#ifndef DMR_NO_TABLE
	struct dmr_table *table;	/* NULL: all is BASE, and no pool */
#endif

	struct mutex message_lock;	/* one message at a time */
	/* A suspend or a resume waits for it, and so does the guest. Under no lock. */
	bool is_awaited;

	/*
	 * `lock` protects the fields from here to flush_failed, `held`, the outage, and
	 * every write of bits and superblocks to the metadata device. Exception: map reads
	 * `stable` without it.
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
	bool is_unflushed;		/* when it was loaded, the device could not flush */
	bool event_is_due;		/* the worker raises it */
	bool lost_before;		/* the lost mark was there at load, */
	u64 lost_before_epoch;		/* with this epoch */
	u32 seed;

	/*
	 * A bit a segment, whole groups of them:
	 *   want    dirty in the current epoch
	 *   stable  the same, and on disk: map tests it. Replaced only while the
	 *           device is suspended, bits are added under the lock
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
	 * A flush of the base that the target issued for itself has failed: how many
	 * flushes from above still have to fail for it, and until when. Under no lock.
	 */
	atomic_t flush_failed;
	unsigned long tell_until;	/* jiffies */
	struct mutex base_flush_lock;	/* a flush begins when the last one is noted */

	/*
	 * Not all writes to the metadata device are under `lock`. Of two flushes at the
	 * same time only one learns that the device has lost its cache, and with it what
	 * the other had written. So flushes run one after the other, and count (under
	 * flush_lock) how often one failed.
	 */
	struct mutex flush_lock;
	unsigned int flush_errors;

	struct bio_list held;		/* first writes whose bits are in want */

	/* An outage: the metadata device failed a write; see firstwrite.c. */
	bool outage;
	bool outage_is_marked;		/* a superblock copy has the lost mark */
	bool outage_is_noted;		/* lost-noted came */
	unsigned long outage_start;	/* jiffies */
	unsigned long next_retry;	/* jiffies; or of a stale superblock copy */

	/* How long to wait for more writers, worker only; see gather() in firstwrite.c. */
	u64 flush_ns;			/* how long the last flush of bits took */
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
	struct dmr_meta *meta;
	u8 volume_uuid[DMR_UUID_SIZE];	/* zero: not given */
	u8 pool_uuid[DMR_UUID_SIZE];	/* zero: not given */
	unsigned int nr_opts;		/* words, for the table line */
	bool read_only;
	bool was_live;			/* it was resumed once */
#ifndef DMR_NO_TABLE
	struct dm_dev *pool;		/* NULL: none */
	unsigned int cache_mib;		/* 0: not given */
	unsigned int pack_mib;		/* 0: not given */
	bool zeros;			/* a remap table without a pool */
	bool has_table;			/* a remap table goes with it, if there is room for one */
#endif
};

/* Per bio. */
struct dmr_io {
	/*
	 * Where a write zeroes began, in case the target must write the zeros itself. The base
	 * may have led the bio on, to another device, and it comes back as it was there.
	 */
	struct block_device *base;
	sector_t sector;
	unsigned int sectors;
#ifndef DMR_NO_TABLE

	/* With a remap table; see remap.c. */
	u8 phase;		/* it is counted in */
	bool counted:1;
	bool fua:1;		/* the block layer may take it off the bio */
	bool homing:1;		/* blocks of page are busy with it */
	bool written_back:1;	/* a FUA write: the write-back that it waits for is over */
	bool at_base:1;		/* it was sent there */
	bool in_work:1;		/* it came to the worker */
	bool copy_failed:1;
	bool copied_again:1;
	u16 first;
	u16 nr;
	struct dmr_page *page;
	atomic_t copies;
	unsigned int losses;	/* dmr_table.nr_losses when they began */
#endif
};

static inline struct dmr_io *dmr_io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct dmr_io));
}

static inline u64 dmr_sector_seg(sector_t sector)
{
	return sector >> DMR_SEG_SECTOR_SHIFT;
}

/* The name of the mapped device, for the log. Anywhere. */
static inline const char *dmr_name(struct dmr_meta *meta)
{
	return dm_device_name(meta->owner);
}

/* Blocks of 4 KiB that the metadata device has. Anywhere. */
static inline u64 dmr_device_blocks(struct dmr_meta *meta)
{
	return dm_bufio_get_device_size(meta->bufio);
}

/* Is tracking lost? Under meta->lock. */
static inline bool dmr_is_lost(struct dmr_meta *meta)
{
	return meta->outage || (meta->super.flags & DMR_FLAG_LOST);
}

#endif
