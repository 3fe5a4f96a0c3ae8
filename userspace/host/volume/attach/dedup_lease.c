// SPDX-License-Identifier: GPL-2.0
/* Leases of attached volumes that read the pool. */
#include <errno.h>
#include <string.h>

#include "base/inject.h"
#include "pool/engine/version/version.h"
#include "dedup_lease.h"

int rd_leases_of(struct rd_pool *pool, const struct rd_attachment *at, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	char device[RD_DM_NAME_MAX];
	const struct rd_lease *lease;
	int r = rd_lease_list(pool->sql, NULL, &all);

	rd_part_uuid(device, at, NULL);
	rd_each(lease, &all)
		if (!strcmp(lease->device, device))
			rd_buffer_put(ret, lease, sizeof(*lease));
	return !r && ret->failed ? -ENOMEM : r;
}

static bool is_of(const struct rd_lease *lease, const struct rd_version *version)
{
	return lease->volume == version->volume && lease->number == version->number;
}

int rd_has_lease(struct rd_pool *pool, const struct rd_attachment *at,
		 const struct rd_version *version, bool *ret)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_leases_of(pool, at, &leases);

	*ret = false;
	rd_each(lease, &leases)
		if (is_of(lease, version))
			*ret = true;
	return r;
}

static int add(struct rd_pool *pool, const struct rd_attachment *at,
	       const struct rd_version *version)
{
	char device[RD_DM_NAME_MAX];
	bool has;
	i64 id;
	int r = rd_has_lease(pool, at, version, &has);

	if (r || has)
		return r;
	r = rd_lease_add(pool, version, rd_part_uuid(device, at, NULL), &id);
	return r ? r : rd_failpoint("lease-moved");
}

int rd_lease_move(struct rd_pool *pool, const struct rd_attachment *at,
		  const struct rd_version *version)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_leases_of(pool, at, &leases);

	if (!r && leases.len)
		r = add(pool, at, version);
	rd_each(lease, &leases)
		if (!r && !is_of(lease, version))
			r = rd_lease_drop(pool, lease->id);
	return r;
}
