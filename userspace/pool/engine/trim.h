/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What fstrim in the guests would save: leftovers, blocks that the newest version of a volume
 * stores although the file system in it has them free (fs/freespace.h).
 *
 * Counted are blocks of 4 KiB that lie in free space as a whole and are not zeros in the map of
 * their segment. A leftover is *alone* if the recipe owns it, no other row of a newest version
 * names this recipe, and no recipe of one refers to it: it goes when this version lets go. What
 * clones share goes with the last of them, if all are trimmed. So the sum of those that are alone
 * is the least that is saved; the most is the sum of shares, in which a block that the recipe owns
 * counts as one part of as many as rows of newest versions name the recipe. Old versions keep what
 * is given up until they are deleted, and are not looked at.
 *
 * Read are the tables and bitmaps of the guest, as any content through random.h, and the maps.
 * No lock is held: a version that is deleted meanwhile cannot be read then.
 */
#ifndef RD_TRIM_H
#define RD_TRIM_H

#include "fs/freespace.h"
#include "pool/catalog/versions.h"
#include "pool/pool.h"

struct rd_trim_part {
	unsigned int number;		/* of the partition; 0: all of the disk */
	struct rd_fs_found found;
	u64 free;			/* bytes that the file system has free */
	u64 leftover;			/* blocks of them that the version stores */
	u64 alone;			/* of these, what no other newest version needs */
	u64 share;			/* bytes: its part of what newest versions share */
};

struct rd_trim_volume {
	const char *name;
	const struct rd_version *version;
	/* Its content cannot be read (after a message), or its table is damaged: no partitions. */
	bool is_unreadable, has_bad_table;
	unsigned int nr;
	const struct rd_trim_part *parts;
};

/* Not 0: enough. */
typedef int rd_trim_take_fn(void *ctx, const struct rd_trim_volume *volume);

/*
 * Look at the newest version of each volume, by name, and call @take with it. At most @rate bytes
 * a second are read (0: any), and nothing after @until_us (0: whenever): -ETIMEDOUT. The pool is
 * open for reading, and can only be closed afterwards, as after rd_random_new().
 */
int rd_trim_run(struct rd_pool *pool, u64 rate, u64 until_us, rd_trim_take_fn *take, void *ctx);

#endif
