// SPDX-License-Identifier: GPL-2.0
/* End leases, and delete the versions that these alone have held. */
#include "base/inject.h"
#include "engine.h"
#include "lease.h"
#include "lease_drop.h"

/* A crash here leaves it to the next command. */
static int delete_released(struct rd_pool *pool)
{
	int r;

	r = rd_failpoint("lease-drop");
	if (!r)
		r = rd_finish_volumes(pool);
	return r ? r : rd_free_queue(pool);
}

int rd_lease_drop(struct rd_pool *pool, i64 id)
{
	int r = rd_lease_forget(pool, id);

	return r ? r : delete_released(pool);
}

int rd_lease_drop_device(struct rd_pool *pool, const char *device)
{
	int r = rd_catalog_begin(pool->sql);

	if (r)
		return r;
	r = rd_catalog_end(pool->sql, rd_lease_delete_device(pool->sql, device));
	return r ? r : delete_released(pool);
}
