/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The remap table in memory, and who may touch what.
 *
 *   table.c    words and pages: load, look up, page cache
 *   remap.c    bios: where they go, writes that go home
 *   commit.c   waiting changes become stable; settle
 *   edit.c     messages that change or print entries
 *   hydrate.c  copy blocks home in the background
 *
 * A segment's word is 64 bits in memory, always there (8 bytes for 2 MiB):
 *
 *    63                                            4 3 2 1 0
 *   +-----------------------------------------------+-+-+---+
 *   | 0            pool block << 2                      | K |  mapped whole: K is
 *   +-----------------------------------------------+-+-+---+  BASE, ZERO or POOL
 *   | address of struct rdd_page                    |0|0| 0 |  its page is here
 *   | address of struct rdd_page                    |1|1| 0 |  ... is being read
 *   | hints                                         |0|1| 0 |  ... is on disk only
 *   | 0                                             |1|0| 0 |  damaged
 *   +-----------------------------------------------+-+-+---+
 *
 * Entries of a page are kept as on disk, checks and all; one that is damaged is 0.
 * What a write home has made BASE is in a bitmap beside them, `home`, since the
 * entry on disk may follow only when the base was flushed behind the write: so
 * what is copied to disk is always entries that may be there.
 *
 * Reading words, entries and home needs RCU only. Changing them needs
 * rdd_table.lock, and so do all lists. Changes:
 *
 *   home bit      set when a write or copy home has completed; cleared when the
 *                 entry on disk says BASE, too. The entry itself follows in
 *                 memory between the two (commit.c). Cleared as well if the base
 *                 has lost what was copied, of which nobody above would know; not
 *                 where they have written the block since (`copied`), which they can
 *                 only do to all of it: a part waits until the copy is stable
 *   entry, word   in place, in any order with anything: ZERO by discard, what
 *                 remap, set and alias say; the places have the same content or
 *                 the device is suspended. Then the page, or the block that the
 *                 word is in, waits for the next commit
 *   word to page  the page is there in memory; the old word stays on disk until
 *                 the page was written (rdd_page.disk_word)
 *   page to BASE  only a commit does that, behind its flush of the base
 *
 * Lock order: rdd_meta.message_lock, rdd_meta.lock, rdd_table.commit_lock, and
 * rdd_table.lock, which is taken in interrupts.
 */
#ifndef RDD_TABLE_H
#define RDD_TABLE_H

#include <linux/dm-io.h>
#include <linux/dm-kcopyd.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/xarray.h>

#include "rdd.h"

#define RDD_WORD_KIND		3ULL
#define RDD_WORD_AWAY		4ULL
#define RDD_WORD_LOADING	12ULL
#define RDD_WORD_BAD		8ULL
#define RDD_WORD_TAGS		15ULL
#define RDD_WORD_BASE		((u64)RDD_BASE)
#define RDD_WORD_ZERO		((u64)RDD_ZERO)

enum rdd_page_state {
	RDD_PAGE_FREE,		/* on rdd_table.free, or on its way there */
	RDD_PAGE_LOADING,
	RDD_PAGE_CLEAN,		/* on rdd_table.clean */
	RDD_PAGE_DIRTY,		/* on rdd_table.dirty; or may become so soon */
	RDD_PAGE_COMMITTING,	/* on the list of a commit */
};

struct rdd_page {
	__le64 *entries;		/* RDD_SEG_BLOCKS of them */
	DECLARE_BITMAP(home, RDD_SEG_BLOCKS);
	DECLARE_BITMAP(copied, RDD_SEG_BLOCKS);	/* of home: not flushed, nor written to */
	bool referenced;		/* map sets it, the clock clears it */

	u64 seg;
	enum rdd_page_state state;
	struct list_head list;
	bool changed;			/* entries, since the last commit took it */
	bool on_disk;			/* it was written, and its word says so */
	u64 disk_word;			/* what the word on disk is until then */
	DECLARE_BITMAP(taken, RDD_SEG_BLOCKS);	/* of home, by a running commit */
	DECLARE_BITMAP(busy, RDD_SEG_BLOCKS);	/* a write or copy home is in flight */
	unsigned int nr_pins;		/* those, and who holds it by hand */
	unsigned int nr_base;		/* entries by kind, home ones are BASE */
	unsigned int nr_zero;
	struct bio_list waiters;	/* for a load, or for busy blocks */
	int load_error;
	struct rcu_head rcu;
	struct rdd_table *table;
};

/* Marks of `watch`, a bit a block. */
struct rdd_watch {
	DECLARE_BITMAP(marks, RDD_SEG_BLOCKS);
};

#define RDD_MAX_WATCHES		4096

/* Blocks that are being copied home; page is NULL in one that is not in use. */
struct rdd_copy {
	struct rdd_page *page;
	unsigned int first;
	unsigned int nr;
	unsigned int phase;
	bool lost;			/* the base has lost its cache since it began */
};

#define RDD_MAX_COPIES		8U

/* Bios between map and their end, by the phase in which they came. */
struct rdd_flight {
	long nr[2];
};

struct rdd_table {
	struct rdd_meta *meta;
	u32 seed;
	u64 *words;			/* a segment each */
	u64 nr_segs;
	u64 volume_sectors;

	/* Devices of the live target. */
	struct block_device *base;	/* NULL: none */
	struct block_device *pool;	/* NULL: none, and no entry needs it */
	u64 pool_blocks;

	unsigned int phase;		/* 0 or 1 */
	struct rdd_flight __percpu *flight;
	unsigned int nr_watches;	/* map reads it */

	struct mutex commit_lock;	/* one commit at a time */
	spinlock_t lock;

	/* Pages. Those in no list are loading, or held back by RCU. */
	struct list_head free;
	struct list_head clean;		/* the clock goes round here */
	struct list_head dirty;
	unsigned int nr_pages;		/* all that exist */
	unsigned int max_pages;
	unsigned int max_dirty;
	unsigned int nr_spare;		/* free, or held back by RCU */
	unsigned int nr_dirty;		/* dirty and committing */
	u64 page_reads;
	wait_queue_head_t page_wait;	/* for a page: to be free, loaded, idle */

	unsigned long *words_dirty;	/* a bit a block of words: to be written */
	unsigned long *hints_stale;	/* the same: by the next suspend */
	bool words_wait;		/* words_dirty is not empty */

	u64 nr[4];			/* blocks by kind; PAGE: damaged */
	struct xarray watches;		/* by segment */

	/* Bios for the worker of remap.c. */
	struct bio_list deferred;
	struct bio_list throttled;	/* until the next commit */
	struct bio_list recopies;	/* their blocks are copied home again */
	struct bio_list copied_up;	/* these were, and are to be flushed */
	struct bio_list unflushed;	/* for a copy, until a commit has flushed it */
	struct list_head loaded;	/* pages that were read */
	struct work_struct io_work;
	struct work_struct flush_work;
	struct bio_set bios;

	/* The worker of commit.c. */
	struct bio_list flushes;	/* and FUA writes: end after a commit */
	bool commit_now;
	bool commit_failed;		/* the last one */
	bool base_lost;			/* its cache: a commit is to take back */
	unsigned int nr_losses;		/* flushes of the base that failed */
	seqcount_spinlock_t losses;	/* how often something was taken back */
	unsigned int losses_before;	/* when the running message began */
	struct delayed_work commit_work;
	void **bounce;			/* blocks on their way to the disk */
	unsigned long *words_taken;	/* words_dirty of the running commit */

	/* hydrate.c */
	bool is_paused;			/* from presuspend to resume */
	unsigned int nr_copies;
	struct rdd_copy copies[RDD_MAX_COPIES];
	u64 hydrate_cursor;		/* block */
	u64 hydrate_errors;		/* in this round */
	unsigned long slice_end;	/* jiffies */
	s64 slice_left;			/* blocks that may be copied in this slice */
	struct delayed_work hydrate_work;

	struct dm_io_client *io;
	struct dm_kcopyd_client *kcopyd;
	struct workqueue_struct *wq;
	__le64 *scratch;		/* of messages: a packed run */
	__le64 *io_scratch;		/* of the worker */
};

static inline u64 rdd_block_seg(u64 block)
{
	return block / RDD_SEG_BLOCKS;
}

static inline unsigned int rdd_block_index(u64 block)
{
	return block % RDD_SEG_BLOCKS;
}

static inline bool rdd_word_is_whole(u64 word)
{
	return word & RDD_WORD_KIND;
}

/* The page is in memory and may be read. */
static inline bool rdd_word_is_here(u64 word)
{
	return !(word & RDD_WORD_TAGS);
}

static inline struct rdd_page *rdd_word_page(u64 word)
{
	return (struct rdd_page *)(unsigned long)(word & ~RDD_WORD_TAGS);
}

static inline u64 rdd_word_of(struct rdd_entry place)
{
	return place.kind | place.block << 2;
}

static inline struct rdd_entry rdd_page_entry(struct rdd_page *page, unsigned int i)
{
	static const struct rdd_entry base = { .kind = RDD_BASE };

	if (test_bit(i, page->home))
		return base;
	/* Pairs with the barriers where a home bit is cleared. */
	smp_rmb();
	return rdd_entry_body(le64_to_cpu(READ_ONCE(page->entries[i])));
}

static inline u64 rdd_table_word(struct rdd_table *t, u64 seg)
{
	/* Pairs with store_word(): a page is filled before its word is there. */
	return smp_load_acquire(&t->words[seg]);
}

static inline bool rdd_is_watched(struct rdd_table *t)
{
	/* Pairs with drop_watch(): entries are new before there is no watch. */
	return smp_load_acquire(&t->nr_watches);
}

static inline bool rdd_table_waits(struct rdd_table *t)
{
	return READ_ONCE(t->nr_dirty) || READ_ONCE(t->words_wait);
}

/* The same place, @by blocks on. */
static inline struct rdd_entry rdd_entry_plus(struct rdd_entry entry, u64 by)
{
	if (entry.kind == RDD_POOL)
		entry.block += by;
	return entry;
}

static inline bool rdd_entry_equal(struct rdd_entry a, struct rdd_entry b)
{
	return a.kind == b.kind && a.block == b.block;
}

/* table.c */

struct rdd_table *rdd_table_create(struct rdd_meta *meta, unsigned int max_pages);
void rdd_table_destroy(struct rdd_table *t);
/* Read the words, or with @fresh make all BASE. May sleep; nobody else uses it. */
int rdd_table_load(struct rdd_table *t, bool fresh);
/* The devices of the live target; it is suspended. */
void rdd_table_use(struct rdd_table *t, struct rdd_target *rt,
		   unsigned int max_pages);
/* Have the next commit write hints, too. */
void rdd_table_write_hints(struct rdd_table *t);
/* No target is left: end what goes on behind. */
void rdd_table_stop(struct rdd_table *t);
/* Another size of the volume; the device is suspended. */
int rdd_table_resize(struct rdd_table *t, u64 volume_sectors);

/* Blocks of the volume in @seg. */
unsigned int rdd_table_blocks_in(struct rdd_table *t, u64 seg);

/* Entries of blocks @first, ... of the segment, packed: @place and what follows it. */
void rdd_table_pack(struct rdd_table *t, u64 seg, unsigned int first,
		    unsigned int nr, struct rdd_entry place, __le64 *to);

/*
 * The place of @block. False if its page is not in memory. The caller is in an
 * RCU read-side critical section.
 */
bool rdd_table_look_up(struct rdd_table *t, u64 block, struct rdd_entry *place);
/* How many blocks from @block on, at most @max, lie at @place and on. */
u64 rdd_table_run(struct rdd_table *t, u64 block, u64 max, struct rdd_entry place);

/* The caller of these holds t->lock. */

/* A page with which something can be done, or NULL: later. */
struct rdd_page *rdd_page_take(struct rdd_table *t);
void rdd_page_give_back(struct rdd_page *page);
/* The segment is mapped by @word now: nothing is lost with the page. */
void rdd_page_replace(struct rdd_page *page, u64 word);
void rdd_page_mark_dirty(struct rdd_page *page);
/* Entry @i is @packed now, which is of kind @kind. */
void rdd_page_change(struct rdd_page *page, unsigned int i, enum rdd_kind kind,
		     __le64 packed);
/* What was to be read into @page is there, or not. Ends waiting bios. */
void rdd_page_end_load(struct rdd_page *page, int r, struct bio_list *failed);
/* The page of @seg, which is on disk only, is going to be read into @page. */
void rdd_page_begin_load(struct rdd_table *t, struct rdd_page *page, u64 seg);
/* Blocks that are about to be written or copied home. */
void rdd_page_make_busy(struct rdd_page *page, unsigned int first, unsigned int nr);
/* They are home now (@ok), or not; @copied: nobody above has written them. */
void rdd_page_came_home(struct rdd_page *page, unsigned int first,
			unsigned int nr, bool ok, bool copied);
/* So much waits for a commit that no other page may. */
bool rdd_page_is_throttled(struct rdd_page *page);
/* What was copied home since the last flush is where it was: how many blocks. */
unsigned int rdd_page_take_back(struct rdd_page *page);
void rdd_page_pin(struct rdd_page *page);
void rdd_page_unpin(struct rdd_page *page);
void rdd_table_word_dirty(struct rdd_table *t, u64 seg);
void rdd_table_set_word(struct rdd_table *t, u64 seg, u64 word);

/* These two sleep. */

/*
 * Have @seg mapped by a page in memory, pinned. -ERESTARTSYS when a signal came,
 * -EIO, -EUCLEAN for a damaged word.
 */
int rdd_page_get(struct rdd_table *t, u64 seg, struct rdd_page **ret);
void rdd_page_put(struct rdd_page *page);

/*
 * Map @seg by @page, which was taken for it, instead of by @word; unless it is
 * mapped by something else meanwhile. Without the lock.
 */
void rdd_page_split(struct rdd_table *t, struct rdd_page *page, u64 seg, u64 word);
/* Read the page of its segment; @done is called with @page, NULL: it waits. */
int rdd_page_read(struct rdd_page *page, io_notify_fn done);
/* Check what was read into @page. Without the lock. */
void rdd_page_check(struct rdd_page *page);
int rdd_table_io(struct rdd_table *t, blk_opf_t opf, u64 block, unsigned int nr,
		 void *vmalloced);

/* remap.c */

void rdd_remap_init(struct rdd_table *t);
int rdd_remap_map(struct rdd_table *t, struct rdd_target *rt, struct bio *bio);
int rdd_remap_end_write(struct rdd_table *t, struct bio *bio, struct rdd_io *io,
			blk_status_t *error);
/* A FLUSH or FUA write has failed. */
void rdd_remap_note_error(struct rdd_table *t, struct bio *bio, blk_status_t error);
/* A first write, whose bit is stable now. */
void rdd_remap_go_on(struct rdd_table *t, struct bio *bio);
/* Bios to the worker; the caller holds t->lock. */
void rdd_remap_defer(struct rdd_table *t, struct bio_list *bios);

static inline unsigned int rdd_flight_begin(struct rdd_table *t)
{
	/* Pairs with the change of phase in drain(). */
	unsigned int phase = smp_load_acquire(&t->phase);

	this_cpu_inc(t->flight->nr[phase]);
	return phase;
}

static inline void rdd_flight_end(struct rdd_table *t, unsigned int phase)
{
	this_cpu_dec(t->flight->nr[phase]);
}

static inline int rdd_remap_end_io(struct rdd_table *t, struct bio *bio,
				   blk_status_t *error)
{
	struct rdd_io *io = dm_per_bio_data(bio, sizeof(*io));

	if (unlikely(io->homing || io->fua) &&
	    rdd_remap_end_write(t, bio, io, error) == DM_ENDIO_INCOMPLETE)
		return DM_ENDIO_INCOMPLETE;
	if (likely(io->counted))
		rdd_flight_end(t, io->phase);
	return DM_ENDIO_DONE;
}

/* commit.c */

void rdd_commit_init(struct rdd_table *t);
int rdd_commit_alloc(struct rdd_table *t);
void rdd_commit_exit(struct rdd_table *t);
/* Make all changes stable that were made before: 0 or -errno. Sleeps. */
int rdd_table_commit(struct rdd_table *t);
/* Commit, then wait for all I/O that was mapped before. */
int rdd_table_settle(struct rdd_table *t);
/* A message begins: its settle fails if something is taken back from here on. */
void rdd_table_begin_settle(struct rdd_table *t);
/* @bio ends when a commit has ended that begins after this. */
void rdd_commit_defer(struct rdd_table *t, struct bio *bio);
/* A flush of the base has failed: one of ours, or, @at_once, one from above. */
void rdd_commit_base_lost(struct rdd_table *t, bool at_once);
/* Soon; the caller holds t->lock. */
void rdd_commit_kick(struct rdd_table *t);
/* Are all blocks BASE, and is that stable? */
bool rdd_table_is_linear(struct rdd_table *t);
/* If so, the superblock says it. The caller holds meta->lock. */
void rdd_table_note_linear(struct rdd_table *t);

/* edit.c: messages; the caller holds message_lock only. */

int rdd_edit_remap(struct rdd_table *t, const char *ranges);
int rdd_edit_set(struct rdd_table *t, const char *ranges);
int rdd_edit_watch(struct rdd_table *t, const char *ranges);
int rdd_edit_alias(struct rdd_table *t, const char *ranges);
int rdd_edit_punch(struct rdd_table *t, const char *ranges);
int rdd_edit_begin(struct rdd_table *t);
int rdd_edit_end(struct rdd_table *t);
int rdd_edit_print(struct rdd_table *t, u64 first, u64 count, char *result,
		   unsigned int maxlen);
/* Forget the marks of these blocks; the caller holds t->lock. */
void rdd_watch_clear(struct rdd_table *t, u64 seg, unsigned int first,
		     unsigned int nr);
void rdd_watch_drop_all(struct rdd_table *t);

/* hydrate.c */

void rdd_hydrate_init(struct rdd_table *t);
/* @count sectors from @sector on, within blocks at @place and on, to the base. */
void rdd_copy_home(struct rdd_table *t, struct rdd_entry place, sector_t sector,
		   sector_t count, dm_kcopyd_notify_fn fn, void *context);
/* The caller holds meta->lock. */
int rdd_hydrate_start(struct rdd_table *t, u32 mib);
int rdd_hydrate_stop(struct rdd_table *t);
/* No copies from the return of this until go_on. Sleeps. */
void rdd_hydrate_pause(struct rdd_table *t);
void rdd_hydrate_go_on(struct rdd_table *t);
/* There may be something to do now, unless it is paused. */
void rdd_hydrate_kick(struct rdd_table *t);
const char *rdd_hydrate_state(struct rdd_table *t);

#endif
