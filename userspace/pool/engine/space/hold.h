/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Holds: leases (see lease.h) of processes that read versions for as long as others want,
 * as a server does.
 *
 * A hold keeps its version, as every lease does. It keeps no place: such a process checks
 * each block that it reads, and looks a block that has moved up again (random.h), so
 * nothing waits for it before a place is given back.
 *
 * A hold belongs to a session, whose lock the kernel drops with the process. The next
 * command that writes finds holds without a session and ends them, so that a process which
 * was killed holds nothing. A hold is not flushed to the journal: a catalog is made anew only
 * while no process has the pool open, and no hold outlives its process.
 */
#ifndef RD_HOLD_H
#define RD_HOLD_H

#include "pool/catalog/leases.h"
#include "pool/pool.h"

/* End a hold. The next command that writes deletes the version if only this had kept it. */
int rd_hold_drop(struct rd_pool *pool, i64 id);

/*
 * Hold @version, as this command's session. -ENOENT: it does not exist any more. -EROFS,
 * without a message: the pool is open for reading only.
 */
int rd_hold_add(struct rd_pool *pool, const struct rd_version *version, i64 *ret_id);

/* What this session holds is read by the process @pid, and users are told of that one. */
int rd_hold_for(struct rd_pool *pool, i64 pid);

/* Is it a hold, and of which process? *@ret_pid: 0 if the session is over. */
bool rd_lease_is_hold(const struct rd_lease *lease);
/* Find a lease that is none, but a device's. -ENOENT: no device reads the pool. */
int rd_lease_of_device(struct rd_sql *sql, struct rd_lease *ret);
int rd_hold_pid(struct rd_pool *pool, const struct rd_lease *lease, i64 *ret_pid);

/* Does the process of a hold live? The pool is open for writing. 1: yes, 0: no. */
int rd_hold_is_alive(struct rd_pool *pool, const struct rd_lease *lease);

/*
 * The same for a command that only reads the pool: is it the hold of a process that died? It keeps
 * the version until the next command that writes, but nothing reads that.
 */
bool rd_hold_is_over(struct rd_pool *pool, const struct rd_lease *lease);

/* End all holds of processes that died. */
int rd_hold_drop_dead(struct rd_pool *pool);

#endif
