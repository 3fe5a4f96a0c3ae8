/* SPDX-License-Identifier: GPL-2.0 */
/* Compare the journal with the catalog: do both belong together, and is all of it there? */
#ifndef RD_JOURNAL_LIFE_H
#define RD_JOURNAL_LIFE_H

#include "pool/pool.h"

/* Say what is wrong where catalog and data area are not of one life. */
const char *rd_life_text(enum rd_life life);

/*
 * Find out whether catalog and data area are of one life. Where the pool may be written,
 * this mends a superblock that a crash has left behind, and follows a journal that a
 * command has begun before it died.
 */
int rd_journal_life(struct rd_pool *pool, enum rd_life *ret);

/* Is all of the journal there that the catalog says is? */
int rd_journal_verify(struct rd_pool *pool, bool *ret_good);

/*
 * Find the journal of the catalog where no superblock says which one holds, and set both
 * of its fields in pool->area.super. -EUCLEAN, after a message: the data area has not the
 * journal of this catalog, or a newer one.
 */
int rd_journal_find(struct rd_pool *pool);

#endif
