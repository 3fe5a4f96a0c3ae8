/* SPDX-License-Identifier: GPL-2.0 */
/* Finish or undo the work of commands that died. */
#ifndef RD_RECOVER_H
#define RD_RECOVER_H

#include "pool/pool.h"

int rd_recover(struct rd_pool *pool);

/*
 * Queue the frames that session @id had reserved, and delete its row if @forget: the journal has
 * nothing of the session that the catalog does not know. The caller has the lock of the session. If
 * this fails, the next command that opens the pool does it.
 */
int rd_recover_session(struct rd_sql *sql, i64 id, bool forget);

#endif
