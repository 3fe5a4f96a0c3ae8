/* SPDX-License-Identifier: GPL-2.0 */
/* A version as a remap table of the target. */
#ifndef RD_VERSION_TABLE_H
#define RD_VERSION_TABLE_H

#include "kernel/ranges.h"
#include "pool/catalog/versions.h"
#include "pool/engine/read/resolve.h"
#include "pool/pool.h"

static inline u64 rd_version_sectors(const struct rd_version *version)
{
	return rd_round_up(version->size, 512) / 512;
}

/*
 * Call @take with each run of adjacent blocks of segments @first to @first + @nr - 1, in
 * order, until it returns an error. Blocks behind the version's end are left out. The
 * version may move off a place at any time, but the place is not freed as long as the
 * caller has rd_lease_shut().
 */
int rd_version_table_walk(struct rd_pool *pool, const struct rd_version *version, u64 first, u64 nr,
			  int (*take)(void *ctx, const struct dmr_range *range), void *ctx);

/* Is a block of @version in a pack? Without one it finds that out by reading all maps. */
int rd_version_is_packed(struct rd_pool *pool, const struct rd_version *version, bool *ret);

/*
 * May a table have the places of @version? 0, or -EOPNOTSUPP and says so: some are in packs, and
 * the loaded module reads none.
 */
int rd_version_table_check(struct rd_pool *pool, const struct rd_version *version);

struct rd_version_table {
	const u8 *volume_uuid;	/* of the target that it is for; NULL: any */
	u64 sectors;		/* of its device: behind the version's end are zeros */
	/* The base reads as zeros where it was never written: zeros are home already. */
	bool base_is_zeros;
	bool hydrate;		/* copy home as soon as there is a device */
	u64 rate_mib;		/* for that, a second; 0: as fast as it goes */
};

/*
 * Write a whole metadata device with this table to @fd, which has @bytes, at least
 * rd_version_table_bytes(). Stable when it returns.
 */
int rd_version_table_write(struct rd_pool *pool, const struct rd_version *version,
			   const struct rd_version_table *image, int fd, u64 bytes);
u64 rd_version_table_bytes(u64 sectors);

#endif
