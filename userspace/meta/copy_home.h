/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copy home without the kernel: end a roll-back whose blocks are partly in the pool.
 * Every block that is not BASE is copied to the base, the base is flushed, and then
 * the superblock says that all blocks are BASE.
 *
 * Until then the table stays as it is, and blocks that it calls BASE are not written.
 * So after a crash at any moment the copy can begin anew. The content of the volume
 * is the same before, meanwhile and afterwards, so the dirty bits stay.
 */
#ifndef RD_COPY_HOME_H
#define RD_COPY_HOME_H

#include "table_read.h"

struct rd_copy_home {
	const struct rd_meta *meta;
	int meta_fd;
	int base_fd;
	int pool_fd;
	u64 pool_blocks;	/* that the pool has */

	/* Called for each run that cannot be copied. May be NULL. */
	void (*bad)(struct rd_copy_home *home, const struct rd_run *run);
	/* Called with the number of blocks that are home, of nr_pool + nr_zero. May be NULL. */
	void (*progress)(struct rd_copy_home *home, u64 done);

	/* Filled by rd_copy_home_plan(): blocks */
	u64 nr_pool;
	u64 nr_zero;
	u64 nr_damaged;
	u64 nr_unreadable;
	u64 nr_outside;		/* beyond the end of the pool */

	/*
	 * After rd_copy_home_copy() or rd_copy_home_seal() failed: "cannot ...", or which pack
	 * cannot be read, or, after -EBADMSG, is damaged.
	 */
	const char *what;
	char text[128];
};

/*
 * Read the whole table and change nothing. Returns 0, or -EBADMSG (the table is damaged),
 * -EIO (it is unreadable) or -ERANGE (it names blocks beyond the end of the pool).
 */
int rd_copy_home_plan(struct rd_copy_home *home);

/*
 * Copy the blocks home, and flush the base: 0 or -errno. -EBADMSG: a pack is damaged, or one of
 * another pool; what was copied home before is as good as ever.
 */
int rd_copy_home_copy(struct rd_copy_home *home);

/* Record that all blocks are BASE, after rd_copy_home_copy(): 0 or -errno. */
int rd_copy_home_seal(struct rd_copy_home *home);

#endif
