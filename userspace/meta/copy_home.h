/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finish a roll-back that is half home, without the kernel: copy every block that
 * is not BASE to the base, make that stable, then say in the superblock that no
 * block is anywhere else.
 *
 * Until then the table stands as it was, and what it calls BASE is not touched: so
 * whatever a crash leaves, beginning anew is right. The content of the volume is
 * the same before, in between and after, so the dirty bits stay.
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

	/* May be NULL: a run that cannot be copied. */
	void (*bad)(struct rd_copy_home *finish, const struct rd_run *run);
	/* May be NULL: how much is done of nr_pool + nr_zero. */
	void (*tell)(struct rd_copy_home *finish, u64 done);

	/* Filled by rd_copy_home_plan(): blocks */
	u64 nr_pool;
	u64 nr_zero;
	u64 nr_damaged;
	u64 nr_unreadable;
	u64 nr_outside;		/* of the pool */

	/* What failed, where rd_copy_home_copy() or rd_copy_home_seal() did. */
	const char *what;
};

/*
 * Look at all of the table and change nothing: 0, or what is wrong with it:
 * -EBADMSG (damaged), -EIO (unreadable) or -ERANGE (outside of the pool).
 */
int rd_copy_home_plan(struct rd_copy_home *finish);

/* Bring the blocks home, and flush the base: 0 or -errno. */
int rd_copy_home_copy(struct rd_copy_home *finish);

/* After rd_copy_home_copy(): all is BASE. 0 or -errno. */
int rd_copy_home_seal(struct rd_copy_home *finish);

#endif
