/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The remap table in memory, and who may touch what.
 *
 *   table.c    words and pages: load, look up, page cache
 *   remap.c    bios: where they go, writes that go home
 *   writeback.c   waiting changes become stable; settle
 *   edit.c     messages that change or print entries
 *   hydrate.c  copy blocks home in the background
 *
 * A segment's word is 64 bits in memory, always there (8 bytes for 2 MiB):
 *
 *    63                                            4 3 2 1 0
 *   +-----------------------------------------------+-+-+---+
 *   | 0            pool block << 2                      | K |  mapped whole: K is
 *   +-----------------------------------------------+-+-+---+  BASE, ZERO or POOL
 *   | address of struct dmr_page                    |0|0| 0 |  its page is here
 *   | address of struct dmr_page                    |1|1| 0 |  ... is being read
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
 * dmr_table.lock, and so do all lists. Changes:
 *
 *   home bit      set when a write or copy home has completed; cleared when the
 *                 entry on disk says BASE, too. The entry itself follows in
 *                 memory between the two (writeback.c). Cleared as well if the base
 *                 has lost what was copied, of which nobody above would know; not
 *                 where they have written the block since (`copied`), which they can
 *                 only do to all of it: a part waits until the copy is stable
 *   entry, word   in place, in any order with anything: ZERO by discard, what
 *                 remap, set and alias say; the places have the same content or
 *                 the device is suspended. Then the page, or the block that the
 *                 word is in, waits for the next commit
 *   word to page  the page is there in memory; the old word stays on disk until
 *                 the page was written (dmr_page.disk_word)
 *   page to BASE  only a commit does that, behind its flush of the base
 *
 * Lock order: dmr_meta.message_lock, dmr_meta.lock, dmr_table.commit_lock, and
 * dmr_table.lock, which is taken in interrupts.
 */
#ifndef DMR_TABLE_H
#define DMR_TABLE_H

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
#define DMR_WORD_TAGS		15ULL
#define DMR_WORD_BASE		((u64)DMR_BASE)
#define DMR_WORD_ZERO		((u64)DMR_ZERO)

enum dmr_page_state {
	DMR_PAGE_FREE,		/* on dmr_table.free, or on its way there */
	DMR_PAGE_LOADING,
	DMR_PAGE_CLEAN,		/* on dmr_table.clean */
	DMR_PAGE_DIRTY,		/* on dmr_table.dirty; or may become so soon */
	DMR_PAGE_COMMITTING,	/* on the list of a commit */
};

struct dmr_page {
	__le64 *entries;		/* DMR_SEG_BLOCKS of them */
	DECLARE_BITMAP(home, DMR_SEG_BLOCKS);
	DECLARE_BITMAP(copied, DMR_SEG_BLOCKS);	/* of home: not flushed, nor written to */
	bool referenced;		/* map sets it, the clock clears it */

	u64 seg;
	enum dmr_page_state state;
	struct list_head list;
	bool changed;			/* entries, since the last commit took it */
	bool on_disk;			/* it was written, and its word says so */
	u64 disk_word;			/* what the word on disk is until then */
	DECLARE_BITMAP(taken, DMR_SEG_BLOCKS);	/* of home, by a running commit */
	DECLARE_BITMAP(busy, DMR_SEG_BLOCKS);	/* a write or copy home is in flight */
	unsigned int nr_pins;		/* those, and who holds it by hand */
	unsigned int nr_base;		/* entries by kind, home ones are BASE */
	unsigned int nr_zero;
	struct bio_list waiters;	/* for a load, or for busy blocks */
	int load_error;
	struct rcu_head rcu;
	struct dmr_table *table;
};

/* Marks of `watch`, a bit a block. */
struct dmr_watch {
	DECLARE_BITMAP(marks, DMR_SEG_BLOCKS);
};

#define DMR_MAX_WATCHES		4096

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

	unsigned int phase;		/* 0 or 1 */
	struct dmr_flight __percpu *flight;
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

	/* The worker of writeback.c. */
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
	struct dmr_copy copies[DMR_MAX_COPIES];
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

static inline u64 dmr_block_seg(u64 block)
{
	return block / DMR_SEG_BLOCKS;
}

static inline unsigned int dmr_block_index(u64 block)
{
	return block % DMR_SEG_BLOCKS;
}

static inline bool dmr_word_is_whole(u64 word)
{
	return word & DMR_WORD_KIND;
}

/* The page is in memory and may be read. */
static inline bool dmr_word_is_here(u64 word)
{
	return !(word & DMR_WORD_TAGS);
}

static inline struct dmr_page *dmr_word_page(u64 word)
{
	return (struct dmr_page *)(unsigned long)(word & ~DMR_WORD_TAGS);
}

static inline u64 dmr_word_of(struct dmr_entry place)
{
	return place.kind | place.block << 2;
}

static inline struct dmr_entry dmr_page_entry(struct dmr_page *page, unsigned int i)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };

	if (test_bit(i, page->home))
		return base;
	/* Pairs with the barriers where a home bit is cleared. */
	smp_rmb();
	return dmr_entry_body(le64_to_cpu(READ_ONCE(page->entries[i])));
}

static inline u64 dmr_table_word(struct dmr_table *t, u64 seg)
{
	/* Pairs with store_word(): a page is filled before its word is there. */
	return smp_load_acquire(&t->words[seg]);
}

static inline bool dmr_is_watched(struct dmr_table *t)
{
	/* Pairs with drop_watch(): entries are new before there is no watch. */
	return smp_load_acquire(&t->nr_watches);
}

static inline bool dmr_table_waits(struct dmr_table *t)
{
	return READ_ONCE(t->nr_dirty) || READ_ONCE(t->words_wait);
}

/* table.c */

struct dmr_table *dmr_table_create(struct dmr_meta *meta, unsigned int max_pages);
void dmr_table_destroy(struct dmr_table *t);
/* Read the words, or with @fresh make all BASE. May sleep; nobody else uses it. */
int dmr_table_load(struct dmr_table *t, bool fresh);
/* The devices of the live target; it is suspended. */
void dmr_table_use(struct dmr_table *t, struct dmr_target *rt,
		   unsigned int max_pages);
/* Have the next commit write hints, too. */
void dmr_table_write_hints(struct dmr_table *t);
/* No target is left: end what goes on behind. */
void dmr_table_stop(struct dmr_table *t);
/* Another size of the volume; the device is suspended. */
int dmr_table_resize(struct dmr_table *t, u64 volume_sectors);

/* Blocks of the volume in @seg. */
unsigned int dmr_table_blocks_in(struct dmr_table *t, u64 seg);

/* Entries of blocks @first, ... of the segment, packed: @place and what follows it. */
void dmr_table_pack(struct dmr_table *t, u64 seg, unsigned int first,
		    unsigned int nr, struct dmr_entry place, __le64 *to);

/*
 * The place of @block. False if its page is not in memory. The caller is in an
 * RCU read-side critical section.
 */
bool dmr_table_look_up(struct dmr_table *t, u64 block, struct dmr_entry *place);
/* How many blocks from @block on, at most @max, lie at @place and on. */
u64 dmr_table_run(struct dmr_table *t, u64 block, u64 max, struct dmr_entry place);

/* The caller of these holds t->lock. */

/* A page with which something can be done, or NULL: later. */
struct dmr_page *dmr_page_take(struct dmr_table *t);
void dmr_page_give_back(struct dmr_page *page);
/* The segment is mapped by @word now: nothing is lost with the page. */
void dmr_page_replace(struct dmr_page *page, u64 word);
void dmr_page_mark_dirty(struct dmr_page *page);
/* Entry @i is @packed now, which is of kind @kind. */
void dmr_page_change(struct dmr_page *page, unsigned int i, enum dmr_kind kind,
		     __le64 packed);
/* What was to be read into @page is there, or not. Ends waiting bios. */
void dmr_page_end_load(struct dmr_page *page, int r, struct bio_list *failed);
/* The page of @seg, which is on disk only, is going to be read into @page. */
void dmr_page_begin_load(struct dmr_table *t, struct dmr_page *page, u64 seg);
/* Blocks that are about to be written or copied home. */
void dmr_page_make_busy(struct dmr_page *page, unsigned int first, unsigned int nr);
/* They are home now (@ok), or not; @copied: nobody above has written them. */
void dmr_page_came_home(struct dmr_page *page, unsigned int first,
			unsigned int nr, bool ok, bool copied);
/* So much waits for a commit that no other page may. */
bool dmr_page_is_throttled(struct dmr_page *page);
/* What was copied home since the last flush is where it was: how many blocks. */
unsigned int dmr_page_take_back(struct dmr_page *page);
void dmr_page_pin(struct dmr_page *page);
void dmr_page_unpin(struct dmr_page *page);
void dmr_table_word_dirty(struct dmr_table *t, u64 seg);
void dmr_table_set_word(struct dmr_table *t, u64 seg, u64 word);

/* These two sleep. */

/*
 * Have @seg mapped by a page in memory, pinned. -ERESTARTSYS when a signal came,
 * -EIO, -EUCLEAN for a damaged word.
 */
int dmr_page_get(struct dmr_table *t, u64 seg, struct dmr_page **ret);
void dmr_page_put(struct dmr_page *page);

/*
 * Map @seg by @page, which was taken for it, instead of by @word; unless it is
 * mapped by something else meanwhile. Without the lock.
 */
void dmr_page_split(struct dmr_table *t, struct dmr_page *page, u64 seg, u64 word);
/* Read the page of its segment; @done is called with @page, NULL: it waits. */
int dmr_page_read(struct dmr_page *page, io_notify_fn done);
/* Check what was read into @page. Without the lock. */
void dmr_page_check(struct dmr_page *page);
int dmr_table_io(struct dmr_table *t, blk_opf_t opf, u64 block, unsigned int nr,
		 void *vmalloced);

/* remap.c */

void dmr_remap_init(struct dmr_table *t);
int dmr_remap_map(struct dmr_table *t, struct dmr_target *rt, struct bio *bio);
int dmr_remap_end_write(struct dmr_table *t, struct bio *bio, struct dmr_io *io,
			blk_status_t *error);
/* A FLUSH or FUA write has failed. */
void dmr_remap_note_error(struct dmr_table *t, struct bio *bio, blk_status_t error);
/* A first write, whose bit is stable now. */
void dmr_remap_resume(struct dmr_table *t, struct bio *bio);
/* Bios to the worker; the caller holds t->lock. */
void dmr_remap_defer(struct dmr_table *t, struct bio_list *bios);

static inline unsigned int dmr_flight_begin(struct dmr_table *t)
{
	/* Pairs with the change of phase in drain(). */
	unsigned int phase = smp_load_acquire(&t->phase);

	this_cpu_inc(t->flight->nr[phase]);
	return phase;
}

static inline void dmr_flight_end(struct dmr_table *t, unsigned int phase)
{
	this_cpu_dec(t->flight->nr[phase]);
}

static inline int dmr_remap_end_io(struct dmr_table *t, struct bio *bio,
				   blk_status_t *error)
{
	struct dmr_io *io = dm_per_bio_data(bio, sizeof(*io));

	if (unlikely(io->homing || io->fua) &&
	    dmr_remap_end_write(t, bio, io, error) == DM_ENDIO_INCOMPLETE)
		return DM_ENDIO_INCOMPLETE;
	if (likely(io->counted))
		dmr_flight_end(t, io->phase);
	return DM_ENDIO_DONE;
}

/* writeback.c */

void dmr_writeback_init(struct dmr_table *t);
int dmr_writeback_alloc(struct dmr_table *t);
void dmr_writeback_exit(struct dmr_table *t);
/* Make all changes stable that were made before: 0 or -errno. Sleeps. */
int dmr_table_writeback(struct dmr_table *t);
/* Commit, then wait for all I/O that was mapped before. */
int dmr_table_settle(struct dmr_table *t);
/* A message begins: its settle fails if something is taken back from here on. */
void dmr_table_begin_settle(struct dmr_table *t);
/* @bio ends when a commit has ended that begins after this. */
void dmr_writeback_defer(struct dmr_table *t, struct bio *bio);
/* A flush of the base has failed: one of ours, or, @at_once, one from above. */
void dmr_writeback_base_lost(struct dmr_table *t, bool at_once);
/* Soon; the caller holds t->lock. */
void dmr_writeback_kick(struct dmr_table *t);
/* Are all blocks BASE, and is that stable? */
bool dmr_table_is_linear(struct dmr_table *t);
/* If so, the superblock says it. The caller holds meta->lock. */
void dmr_table_note_linear(struct dmr_table *t);

/* edit.c: messages; the caller holds message_lock only. */

int dmr_edit_remap(struct dmr_table *t, const char *ranges);
int dmr_edit_set(struct dmr_table *t, const char *ranges);
int dmr_edit_watch(struct dmr_table *t, const char *ranges);
int dmr_edit_alias(struct dmr_table *t, const char *ranges);
int dmr_edit_punch(struct dmr_table *t, const char *ranges);
int dmr_edit_begin(struct dmr_table *t);
int dmr_edit_end(struct dmr_table *t);
int dmr_edit_print(struct dmr_table *t, u64 first, u64 count, char *result,
		   unsigned int maxlen);
/* Forget the marks of these blocks; the caller holds t->lock. */
void dmr_watch_clear(struct dmr_table *t, u64 seg, unsigned int first,
		     unsigned int nr);
void dmr_watch_drop_all(struct dmr_table *t);

/* hydrate.c */

void dmr_hydrate_init(struct dmr_table *t);
/* @count sectors from @sector on, within blocks at @place and on, to the base. */
void dmr_copy_home(struct dmr_table *t, struct dmr_entry place, sector_t sector,
		   sector_t count, dm_kcopyd_notify_fn fn, void *context);
/* The caller holds meta->lock. */
int dmr_hydrate_start(struct dmr_table *t, u32 mib);
int dmr_hydrate_stop(struct dmr_table *t);
/* No copies from the return of this until go_on. Sleeps. */
void dmr_hydrate_pause(struct dmr_table *t);
void dmr_hydrate_go_on(struct dmr_table *t);
/* There may be something to do now, unless it is paused. */
void dmr_hydrate_kick(struct dmr_table *t);
const char *dmr_hydrate_state(struct dmr_table *t);

#endif
