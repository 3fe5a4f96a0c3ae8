// SPDX-License-Identifier: GPL-2.0
/* Whose a pool in RADOS is. */
#include <string.h>

#include "shard_owner.h"

int ctl_shard_owner(const struct rd_area *area, struct ctl_shard_owner *ret)
{
	struct rd_shard shard;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!rd_area_can(area, RD_STORE_FENCED))
		return 0;
	r = rd_shard_read(area->store, &shard);
	if (r)
		return r;
	memcpy(ret->host, shard.host, sizeof(ret->host));
	ret->since = shard.since;
	ret->epoch = shard.epoch;
	return 0;
}
