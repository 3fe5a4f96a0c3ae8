/* SPDX-License-Identifier: GPL-2.0 */
/* Compare the journal with the catalog: do they belong together, and is it complete? */
#ifndef RD_JOURNAL_LIFE_H
#define RD_JOURNAL_LIFE_H

#include "pool/catalog/state.h"
#include "pool/pool.h"

/* Return a sentence that says how catalog and data area differ. */
const char *rd_life_text(enum rd_life life);

/*
 * Find out whether catalog and data area are of one life. Where the pool may be written,
 * this mends a superblock that a crash has left behind, and follows a journal that a
 * command has begun before it died.
 */
int rd_journal_life(struct rd_pool *pool, enum rd_life *ret);

/*
 * The catalog has seen the part before @end stable. Is that part still there? Then it is
 * RD_LIFE_ONE, as far as that goes.
 */
int rd_journal_see_last(const struct rd_area *area, const struct rd_journal_end *end,
			enum rd_life *ret);

/* Does the data area have all of the journal that the catalog knows? */
int rd_journal_verify(struct rd_pool *pool, bool *ret_good);

/*
 * Find the journal of the catalog without a superblock, and set its two fields in
 * pool->area.super. -EUCLEAN, after a message: the data area has no journal of this
 * catalog, or a newer one.
 */
int rd_journal_find(struct rd_pool *pool);

#endif
