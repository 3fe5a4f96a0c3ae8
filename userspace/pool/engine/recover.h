/* SPDX-License-Identifier: GPL-2.0 */
/* Finish or undo what commands that died have left. */
#ifndef RD_RECOVER_H
#define RD_RECOVER_H

#include "pool/catalog/sql.h"

struct rd_pool;

int rd_recover(struct rd_pool *pool);

/*
 * Undo what @pool's session has not finished, and give back what it took; it goes
 * on. Of a command that failed, which would else leave the space taken until the
 * next one.
 */
int rd_undo(struct rd_pool *pool);

/*
 * Undo what @session has not finished, and forget it. Whoever calls this has
 * its lock. If it fails, the next command that opens the pool does it.
 */
int rd_end_session(struct rd_sql *sql, i64 session);

#endif
