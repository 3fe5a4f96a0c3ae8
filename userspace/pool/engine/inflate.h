/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Store raw what a device is to read: its table names blocks of the data area, and the kernel
 * decodes no packs. Packed frames that the version names become ordinary ones with the same
 * slots, so a recipe that is whole stays so.
 *
 * Frames are written a few at a time (rewrite.h). A command that ends early leaves some that
 * are raw and some that are packed, which is as good as before.
 */
#ifndef RD_INFLATE_H
#define RD_INFLATE_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

struct rd_inflate {
	const u8 *wanted;	/* a bit for each segment; NULL: all */
	u64 first, end;		/* segments outside are left alone; end 0: to the last one */
	bool may_fill_up;	/* the last frames of the pool, too: for what frees others */
};

/*
 * Store raw what @version has in packs. The caller has rd_lease_shut(); before a device reads
 * the places, rd_journal_flush() must tell the journal. *@ret_bytes: of blocks that were moved.
 *
 * -ENOSPC, before anything is moved if that can be known; -EBADMSG: damage. Says so.
 */
int rd_inflate(struct rd_pool *pool, const struct rd_version *version,
	       const struct rd_inflate *what, u64 *ret_bytes);

/* Count the bytes that rd_inflate() of all of @version would store raw. */
int rd_inflate_estimate(struct rd_pool *pool, const struct rd_version *version,
			u64 *ret_bytes);

/* Does any map of @version name a packed frame? */
int rd_version_is_packed(struct rd_pool *pool, const struct rd_version *version, bool *ret);

#endif
