/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs of the engine. A process that runs one can be killed at any instant: the
 * next command that opens the pool for writing finishes or undoes what it left.
 *
 * The files of the engine, from the top; a file calls only those below it:
 *
 *	session		opens a pool for a command, and ends the command
 *	snapshot_group	several snapshots as one
 *	snapshot, restore, heal, adopt, supers, grow
 *			one command each
 *	fence		owns a pool that several hosts can reach
 *	recover		what commands that died have left
 *	lease_drop	devices that do not read the pool any more
 *	free		gives back the queue
 *	finish		a volume after a crash, or after the last lease of a version
 *	delete, estimate
 *	pass		over the whole pool
 *	isolation	what a lost frame hurts
 *	copy, copy_choose, copy_check
 *			some frames a second time, elsewhere
 *	reverse, leave, swap
 *			reverse deduplication
 *	free_packs	packs that have lost blocks
 *	recompress	all that is raw as packs, or the other way
 *	rewrite		what lives in frames as packs, or raw
 *	move_packs	packs elsewhere, as they are
 *	compact		moves slots that are in use together
 *	rebuild, check, survey, proof, damage
 *			the catalog made anew; what is there, and whether it is sound
 *	twins, twins_stream, twins_join, twins_filter
 *			blocks that the pool has more than once
 *	dependents	what needs a frame, for each
 *	spill		what does not fit into memory
 *	undo		versions that do not exist yet
 *	random		versions read here and there, as disks are
 *	hold		processes that read versions
 *	lease, doomed	devices that read the pool, and what they must leave
 *	journal_life	catalog and journal compared
 *	journal		the copy of the catalog, written
 *	journal_read, journal_part
 *	pack_writer	places and numbers of new packs
 *	keepers		blocks that stay, proven
 *	blocks		blocks one by one, wherever they are
 *	resolve		a recipe, with its references followed
 *	source		is an image written while it is read?
 */
#ifndef RD_ENGINE_H
#define RD_ENGINE_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

struct rd_written;

/*
 * Reverse deduplication: recipes that only older versions refer to give up each block
 * that the newest version of the volume has as well. The caller has the volume's lock. @written:
 * what this command has written, and flushed; or NULL (keepers.h).
 * *@ret_waiting: how many contents are left to the pass over the pool (pass.h), as it would have
 * taken longer to look for them than to make the version.
 */
int rd_reverse(struct rd_pool *pool, struct rd_version *version, struct rd_written *written,
	       u64 *ret_waiting);
int rd_reverse_superseded(struct rd_pool *pool, i64 volume);

/*
 * Give back all that is in the queue. The caller has no lock of a volume: a device that
 * turns out to be gone may have been the last that held a version.
 */
int rd_free_queue(struct rd_pool *pool);

/*
 * Undo versions of @volume that were being made, and finish those that are new
 * or half deleted. The caller has the volume's lock.
 */
int rd_finish_volume(struct rd_pool *pool, i64 volume);
/* Do the same for each volume that no other command has locked. */
int rd_finish_volumes(struct rd_pool *pool);

/*
 * Delete a version that exists, or is PARTIAL, of a volume that is locked and finished. Its state
 * is HELD then if it is still there for a device.
 */
int rd_delete(struct rd_pool *pool, struct rd_version *version);
/* Delete the rest of a version whose state is DELETING. */
int rd_delete_resume(struct rd_pool *pool, struct rd_version *version);

/*
 * Say how many bytes would be free if the @nr versions @ids were deleted. Exact, unless one
 * is the newest of its volume: then it may become more. An estimate where blocks are in packs.
 */
int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes);

/* What only a version has: rd_delete_estimate() of that version alone. */
struct rd_unique {
	i64 number;
	u64 bytes;
};

/*
 * Add to each of the @nr versions of @volume, which are in the order of numbers, what only it
 * has; in one pass, for all of a volume. -E2BIG, without a message: that would take too much
 * memory.
 */
int rd_unique_bytes(struct rd_pool *pool, i64 volume, struct rd_unique *versions, size_t nr);

#endif
