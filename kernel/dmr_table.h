/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The remap table: the order of its files, its locks, what it is in memory, and who may touch
 * what. Only the files of the table, queue.c, flush.c and meta.c include this; target.c and
 * message.c use the functions of table.h.
 *
 * In the drawing of dmr.h the files of the table stand below meta.c, and above those of
 * dirty bits and the superblock:
 *
 *   table.c                        life of a remap table
 *   edit.c  print.c  parts.c       messages of the table
 *   hydrate.c  deferred.c          copies home, bios that had to wait
 *   remap.c                        map and end_io of a bio
 *   copy.c  units.c                copies of blocks to the base, discards there
 *   writeback.c                    changes become stable; settle
 *   pages.c  words.c  hold.c  flight.c
 *                                  the table in memory
 *
 * Of these, firstwrite.c calls remap.c for the writes that it held. Lock order:
 *
 *   dmr_meta.lock
 *   dmr_table.writeback_lock      mutex      one write-back at a time
 *   dmr_meta.flush_lock, ...
 *   dmr_meta.defer_lock
 *   dmr_table.lock                spinlock   in interrupts, too
 *
 * map takes only the last two, not both together, and where nothing changes none of them.
 *
 * A segment's word is 64 bits in memory, always there (8 bytes for 2 MiB):
 *
 *    63                                            4 3 2 1 0
 *   +-----------------------------------------------+-+-+---+
 *   | 0            pool block << 2                      | K |  mapped whole: K is
 *   +-----------------------------------------------+-+-+---+  BASE, ZERO or POOL
 *   | the word PACK on disk, without its check      |1|0| 0 |  mapped whole to a pack
 *   | address of struct dmr_page                    |0|0| 0 |  its page is here
 *   | address of struct dmr_page                    |1|1| 0 |  ... is being read
 *   | hints                                         |0|1| 0 |  ... is on disk only
 *   | 0                                             |1|0| 0 |  damaged
 *   +-----------------------------------------------+-+-+---+
 *
 * Entries of a page are kept as on disk, checks and all; one that is damaged is 0. A
 * block that a write home has made BASE has its bit in a bitmap beside them, `home`,
 * because the entry on disk may become BASE only when the base was flushed behind the
 * write. So every entry in memory is one that may be written to disk at any time.
 *
 * Reading words, entries and home needs RCU only. Changing them needs
 * dmr_table.lock, and so do all lists. Changes:
 *
 *   home bit      set when a write or copy home has completed, or the base has zeros
 *                 as the block (shed.c, which counts as a copy); cleared when the
 *                 entry on disk says BASE, too. The entry in memory changes between
 *                 the two (writeback.c). Cleared as well if the base has lost what the
 *                 target copied there, because no writer above would learn of that;
 *                 not if a writer has written the block since (`copied`). Such a write
 *                 covers the whole block: a write of a part waits until the copy is
 *                 stable
 *   entry, word   in place, in any order with anything: ZERO by discard, what
 *                 remap, set and alias say; the places have the same content or
 *                 the device is suspended. Then the page, or the block that the
 *                 word is in, waits for the next write-back
 *   word to page  the page is there in memory; the old word stays on disk until
 *                 the page was written (dmr_page.disk_word)
 *   page to BASE  only a write-back does that, behind its flush of the base
 */
#ifndef DMR_TABLE_TYPES_H
#define DMR_TABLE_TYPES_H

#include <linux/dm-io.h>
#include <linux/dm-kcopyd.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/xarray.h>

#include "dmr.h"

#define DMR_WORD_KIND		3ULL
#define DMR_WORD_AWAY		4ULL
#define DMR_WORD_LOADING	12ULL
#define DMR_WORD_BAD		8ULL
#define DMR_WORD_PACK		8ULL		/* with a place */
#define DMR_WORD_TAGS		15ULL
#define DMR_WORD_BASE		((u64)DMR_BASE)
#define DMR_WORD_ZERO		((u64)DMR_ZERO)

enum dmr_page_state {
	DMR_PAGE_FREE,		/* on dmr_table.free, or on its way there */
	DMR_PAGE_LOADING,
	DMR_PAGE_CLEAN,		/* on dmr_table.clean */
	DMR_PAGE_DIRTY,		/* on dmr_table.dirty; changed, or about to be */
	DMR_PAGE_WRITING,	/* on the list of a write-back */
};

struct dmr_page {
	__le64 *entries;		/* DMR_SEG_BLOCKS of them */
	DECLARE_BITMAP(home, DMR_SEG_BLOCKS);
	DECLARE_BITMAP(copied, DMR_SEG_BLOCKS);	/* of home: copied, not flushed or written since */
	bool referenced;		/* map sets it, the clock clears it */

	u64 seg;
	enum dmr_page_state state;
	struct list_head list;
	bool changed;			/* entries, since the last write-back took it */
	bool on_disk;			/* it was written, and its word says so */
	u64 disk_word;			/* what the word on disk is until then */
	DECLARE_BITMAP(taken, DMR_SEG_BLOCKS);	/* of home, by a running write-back */
	DECLARE_BITMAP(busy, DMR_SEG_BLOCKS);	/* a write or copy home is in flight */
	unsigned int nr_pins;		/* those, and dmr_page_get() */
	unsigned int nr_base;		/* entries by kind, home ones are BASE */
	unsigned int nr_zero;
	struct bio_list waiters;	/* for a load, or for busy blocks */
	int load_error;
	struct rcu_head rcu;
	struct dmr_table *table;
};

#ifndef DMR_NO_ALIAS
/* Marks of `watch`, a bit a block, in a segment that has any. Under dmr_table.lock. */
struct dmr_watch {
	DECLARE_BITMAP(marks, DMR_SEG_BLOCKS);
};

#define DMR_MAX_WATCHES		4096
#endif

/* Blocks that are being copied home; page is NULL in one that is not in use. */
struct dmr_copy {
	struct dmr_page *page;
	unsigned int first;
	unsigned int nr;
	unsigned int phase;
	bool lost;			/* the base has lost its cache since it began */
};

#define DMR_MAX_COPIES		8U

/* Bios between map and their end, by the phase in which they came. */
struct dmr_flight {
	long nr[2];
};

struct dmr_table {
	struct dmr_meta *meta;
	u32 seed;
	u64 *words;			/* a segment each */
	u64 nr_segs;
	u64 volume_sectors;

	/* Devices of the live target. */
	struct block_device *base;	/* NULL: none */
	struct block_device *pool;	/* NULL: none, and no entry needs it */
	u64 pool_blocks;
#ifndef DMR_NO_PACKS
	struct dmr_packs *packs;	/* NULL: no entry is PACK, nor was one */
	unsigned int pack_mib;		/* for the groups that it has */
#endif
	bool is_used;			/* the table line wants it; else all is BASE */

	unsigned int phase;		/* 0 or 1 */
	struct dmr_flight __percpu *flight;

	struct mutex writeback_lock;	/* one write-back at a time */
	spinlock_t lock;

	/* Pages. Those in no list are loading, or held back by RCU. */
	struct list_head free;
	struct list_head clean;		/* the clock goes round here */
	struct list_head dirty;
	unsigned int nr_pages;		/* all that exist */
	unsigned int max_pages;
	unsigned int max_dirty;
	unsigned int nr_spare;		/* free, or held back by RCU */
	unsigned int nr_dirty;		/* dirty and being written */
	u64 page_reads;
	unsigned long nr_stores;	/* of words; see swap_words() */
	u64 nr_changes;			/* of places */
	u64 nr_settled;			/* of these, when the last settle began that succeeded */
	wait_queue_head_t page_wait;	/* for a page: to be free, loaded, idle */

	unsigned long *words_dirty;	/* a bit a block of words: to be written */
	unsigned long *hints_stale;	/* the same: by the next suspend */
	/* The same: without it none of them is, or ever was, a page or a place in the pool. */
	unsigned long *words_pool;
	bool words_wait;		/* words_dirty is not empty */

	u64 nr[4];			/* blocks by kind; PAGE: damaged */
#ifndef DMR_NO_ALIAS
	unsigned int nr_watches;	/* map reads it */
	struct xarray watches;		/* by segment; map looks which there are */
	u64 watch_token;		/* of the program that has marked; under message_lock */
	bool watch_is_settled;		/* as is this: no write is in flight that saw no marks */
	bool is_aliasing;		/* blocks are about to become POOL or ZERO */
#endif
	bool base_is_unsettled;		/* a block was BASE since the last settle; see units.c */
	struct list_head holds;		/* of hold.h */

	/* deferred.c and copy.c */
	struct bio_list deferred;
	struct bio_list throttled;	/* until the next write-back */
	struct bio_list recopies;	/* their blocks are copied home again */
	struct bio_list copied_up;	/* these were, and are to be flushed */
	struct bio_list unflushed;	/* for a copy, until a write-back has flushed it */
	struct list_head loaded;	/* pages that were read */
	struct work_struct io_work;
	struct work_struct flush_work;
	struct bio_set bios;

	/* writeback.c */
	struct bio_list flushes;	/* and FUA writes: end after a write-back */
	bool writeback_is_due;
	bool writeback_failed;		/* the last one */
	bool base_unflushed;		/* by that: the base has refused */
	bool base_lost;			/* its cache: the next write-back takes back */
	unsigned int nr_losses;		/* flushes of the base that failed */
	seqcount_spinlock_t losses;	/* how often something was taken back */
	unsigned int losses_before;	/* `losses` when the running message began */
	struct delayed_work writeback_work;
	void **bounce;			/* blocks on their way to the disk */
	unsigned long *words_taken;	/* words_dirty of the running write-back */

	/* hydrate.c */
	bool is_paused;			/* from presuspend to resume */
	unsigned int nr_copies;
	struct dmr_copy copies[DMR_MAX_COPIES];
	u64 hydrate_cursor;		/* block */
	u64 hydrate_errors;		/* in this round */
	unsigned long slice_end;	/* jiffies */
	s64 slice_left;			/* blocks that may be copied in this slice */
	struct delayed_work hydrate_work;

	struct dm_io_client *io;
	struct dm_kcopyd_client *kcopyd;
	struct workqueue_struct *wq;
#ifndef DMR_NO_PACKS
	struct workqueue_struct *pack_wq;	/* of packs.c */
#endif
	__le64 *scratch;		/* of messages: a packed run */
	__le64 *io_scratch;		/* of the worker */
};

static inline u64 dmr_block_seg(u64 block)
{
	return block / DMR_SEG_BLOCKS;
}

static inline unsigned int dmr_block_index(u64 block)
{
	return block % DMR_SEG_BLOCKS;
}

/* The first and last block of the volume that @bio, which has data, touches. */
static inline u64 dmr_bio_first_block(struct bio *bio)
{
	return bio->bi_iter.bi_sector / DMR_BLOCK_SECTORS;
}

static inline u64 dmr_bio_last_block(struct bio *bio)
{
	return (bio_end_sector(bio) - 1) / DMR_BLOCK_SECTORS;
}

/* Do changes wait for a write-back? Anywhere. */
static inline bool dmr_table_waits(struct dmr_table *t)
{
	return READ_ONCE(t->nr_dirty) || READ_ONCE(t->words_wait);
}

#endif
