/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A catalog that is in order by itself and says what is not so, as no command leaves it:
 * each is told within a transaction that is rolled back, and the engine must not act on it.
 */
#ifndef LIES_H
#define LIES_H

#include "pool/pool.h"

/*
 * A row of a version names the content of another: whoever reads a version that sees the
 * row is refused, and nobody else. 1; 0: there are no two contents; -1, after a word.
 */
int lies_row(struct rd_pool *pool, u64 (*below)(u64 limit));

/* A frame that somebody has is said to be free: it is not given out. The same. */
int lies_free(struct rd_pool *pool, u64 (*below)(u64 limit));

/* A frame that somebody has is said to have a tail: it is not filled. The same. */
int lies_tail(struct rd_pool *pool);

#endif
