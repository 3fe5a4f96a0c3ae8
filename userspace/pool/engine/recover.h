/* SPDX-License-Identifier: GPL-2.0 */
/* Finish or undo what commands that died have left. */
#ifndef RD_RECOVER_H
#define RD_RECOVER_H

#include "pool/pool.h"

int rd_recover(struct rd_pool *pool);

/*
 * Undo what session @id has not finished, queue what it had reserved, and forget it. The
 * caller has the session's lock. If this fails, the next command that opens the pool
 * does it.
 */
int rd_recover_session(struct rd_sql *sql, i64 id);

#endif
