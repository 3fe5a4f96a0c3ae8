// SPDX-License-Identifier: GPL-2.0
/* Devices that read the data area by themselves. */
#include <errno.h>

#include "base/inject.h"
#include "pool/engine/journal/journal.h"
#include "lease.h"

/* --- taking one */

int rd_lease_shut(struct rd_pool *pool, struct rd_lock *ret)
{
	/* Shared: others may load tables, too. */
	return rd_pool_lock(pool, ret, RD_LOCK_FREE, 0, false, "the queue of slots to free");
}

static int insert(struct rd_sql *sql, const struct rd_version *version, const char *device,
		  i64 *ret_id)
{
	struct rd_version now;
	int r;

	r = rd_version_by_id(sql, version->id, &now);
	if (!r && !rd_version_exists(&now))
		r = -ENOENT;
	return r ? r : rd_lease_insert(sql, &now, device, ret_id);
}

/* A catalog that is made anew from the journal must know it, too. */
static int make_stable(struct rd_pool *pool, i64 id)
{
	int r = rd_failpoint("lease-add");

	if (!r)
		r = rd_journal_flush(pool);
	if (r)
		rd_lease_forget(pool, id);
	return r;
}

int rd_lease_add(struct rd_pool *pool, const struct rd_version *version, const char *device,
		 i64 *ret_id)
{
	int r;

	if (strlen(device) >= RD_DEVICE_MAX)
		return -ENAMETOOLONG;
	r = rd_catalog_do(pool->sql, insert(pool->sql, version, device, ret_id));
	return r ? r : make_stable(pool, *ret_id);
}

static int insert_as(struct rd_sql *sql, const char *reader, const char *device, i64 *ret_id)
{
	struct rd_version version;
	struct rd_lease lease;
	int r;

	r = rd_lease_newest(sql, reader, &lease);
	if (!r)
		r = rd_lease_version(sql, &lease, &version);
	return r ? r : rd_lease_insert(sql, &version, device, ret_id);
}

int rd_lease_share(struct rd_pool *pool, const char *reader, const char *device, i64 *ret_id)
{
	int r = rd_catalog_do(pool->sql, insert_as(pool->sql, reader, device, ret_id));

	return r ? r : make_stable(pool, *ret_id);
}

/* --- giving it up */

int rd_lease_forget(struct rd_pool *pool, i64 id)
{
	return rd_catalog_do(pool->sql, rd_lease_delete(pool->sql, id));
}
