/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One host at a time writes to a pool that several can reach, and the catalog there is made of the
 * journal: data/rados.h says what the store does for that.
 *
 * A host takes the pool over from epoch E to E + 1, whether the host that had it lives or not:
 *
 *	1. the head: where the epoch is E it becomes E + 1, and this host the owner
 *	2. object 0, which has the superblocks: e = E + 1. No journal can be begun in E any more
 *	3. the journal is followed to its end; its last frame: e = E + 1; it is followed on, in case
 *	   it went on meanwhile, and so forth. Now it is final: no part can be appended in E
 *	4. the head: it is sealed
 *	5. the catalog in this host's directory is made of the journal
 *	6. POOL/shard notes that the catalog is that of base E + 1
 *
 * The commands of a host share its epoch, its catalog and its locks as in any pool. What a command
 * that died had sent off may still be under way, and must not arrive in a place that is used anew:
 * so whoever gets the lock of the journal, or that of freeing, or undoes its work, does 1 to 4 with
 * the same base first, once for each session that has died. Commands that live see this as a write
 * that is refused, and go on in the new epoch.
 *
 * A version is reported when the journal has it, and so no take-over loses it. The catalog may have
 * more; of a host that is not the owner it is dropped, in step 5.
 *
 * What a crash leaves. After 1: the epoch is not sealed, and this host is the owner: its next
 * command does 2 to 6, another host begins with 1. After 4: POOL/shard has another base than the
 * head, and so 5 and 6 are done by the next command. All steps can be done twice.
 *
 * A host that was stopped before 1 and continues after 6 has, in what it writes:
 *
 *	- the journal, and a superblock: refused. So it reports nothing
 *	- content in frames that it had reserved: refused where E + 1 has written, else it stays,
 *	  and nothing names it
 *	- places to give back, which its journal had given up: the same
 *
 * Without the rule of step 3 that the journal is read once more, a part that is appended between
 * the reading and the seal would be reported there, and lost here.
 */
#ifndef RD_FENCE_H
#define RD_FENCE_H

#include "pool/pool.h"

/*
 * Open the catalog of a pool whose store is fenced, after rd_pool_open(). Where *@mode writes, this
 * host owns the pool then; -EBUSY, after a message: another host does, and has a command that runs,
 * or does not answer. *@mode becomes RD_POOL_READ where it can and another host owns the pool.
 */
int rd_fence_enter(struct rd_pool *pool, enum rd_pool_mode *mode);

/*
 * A repair, by the owner, has made the catalog, in a store that is fenced: it counts from now
 * on, in a new journal.
 */
int rd_fence_rebuilt(struct rd_pool *pool);

/*
 * Begin a new epoch if a command of this host has died since this one last looked. The caller has
 * the lock of the journal, or, for rd_fence_renew(), may take it.
 */
int rd_fence_look(struct rd_pool *pool);
int rd_fence_renew(struct rd_pool *pool);

#endif
