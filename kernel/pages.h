/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages of the remap table: a bounded cache, and what happens to the blocks of a page.
 */
#ifndef DMR_PAGES_H
#define DMR_PAGES_H

#include "dmr_table.h"

/* Pages that are there from the beginning, so that I/O goes on without memory. */
#define DMR_MIN_PAGES		32U

/* Allocate the pages that are there from the beginning: 0 or -ENOMEM. Sleeps. */
int dmr_pages_alloc(struct dmr_table *t);
/* Free a page that no thread can find. Sleeps. */
void dmr_page_free(struct dmr_page *page);

/* Under t->lock: */

/* Take a page for a segment; evict others if need be. NULL: none is free, try later. */
struct dmr_page *dmr_page_take(struct dmr_table *t);
/* Give back a page that was taken and is not used. */
void dmr_page_give_back(struct dmr_page *page);
/* Map the segment of @page by @word instead; the page goes. */
void dmr_page_replace(struct dmr_page *page, u64 word);
/* Give back a page that no word names any more, but a thread may be looking at. */
void dmr_page_retire(struct dmr_page *page);
/* Have the next write-back look at @page. */
void dmr_page_mark_dirty(struct dmr_page *page);
/* Make @packed, which is of kind @kind, the entry of block @i. */
void dmr_page_change(struct dmr_page *page, unsigned int i, enum dmr_kind kind,
		     __le64 packed);
/* Have the segment wait for @page, into which dmr_page_read() is to read its entries. */
void dmr_page_begin_load(struct dmr_table *t, struct dmr_page *page, u64 seg);
/* Use what was read into @page, or with error @r move the waiting bios to @failed. */
void dmr_page_end_load(struct dmr_page *page, int r, struct bio_list *failed);
/* Lock blocks that are about to be written or copied home; dmr_page_came_home() ends it. */
void dmr_page_make_busy(struct dmr_page *page, unsigned int first, unsigned int nr);
/* Unlock them; with @ok they are home. @copied: the target has copied them. */
void dmr_page_came_home(struct dmr_page *page, unsigned int first,
			unsigned int nr, bool ok, bool copied);
/* Do so many pages wait for a write-back that @page may not become dirty, too? */
bool dmr_page_is_throttled(struct dmr_page *page);
/* Undo the copies home since the last flush of the base. Returns the number of blocks. */
unsigned int dmr_page_take_back(struct dmr_page *page);
/* Keep @page in memory until dmr_page_unpin(). */
void dmr_page_pin(struct dmr_page *page);
void dmr_page_unpin(struct dmr_page *page);

/* These sleep: */

/*
 * Have @seg mapped by a page in memory, pinned: 0, -ERESTARTSYS when a signal came, -EIO,
 * -EUCLEAN for a damaged word, or -EBUSY where no page can become free and a suspend waits.
 */
int dmr_page_get(struct dmr_table *t, u64 seg, struct dmr_page **ret);
/* Unpin a page, not under t->lock. */
void dmr_page_put(struct dmr_page *page);
/*
 * The same two for a scan of the table: of pages that it reads, the one that it has left is
 * evicted first, unless I/O looks at it. So a scan evicts few pages that I/O needs.
 */
int dmr_page_get_to_scan(struct dmr_table *t, u64 seg, struct dmr_page **ret);
void dmr_page_put_scanned(struct dmr_page *page);
/*
 * Map @seg by @page, which was taken for it, instead of by @word. If the segment is
 * mapped by something else by now, give @page back.
 */
void dmr_page_split(struct dmr_table *t, struct dmr_page *page, u64 seg, u64 word);
/* Read the entries of @page, then call @done with it; with @done NULL, wait. */
int dmr_page_read(struct dmr_page *page, io_notify_fn done);
/* Check what was read into @page: a damaged entry becomes 0. */
void dmr_page_check(struct dmr_page *page);

#endif
