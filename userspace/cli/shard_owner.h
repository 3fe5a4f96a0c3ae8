/* SPDX-License-Identifier: GPL-2.0 */
/* Whose a pool in RADOS is. */
#ifndef CTL_SHARD_OWNER_H
#define CTL_SHARD_OWNER_H

#include "pool/data/area.h"
#include "pool/data/rados.h"

struct ctl_shard_owner {
	char host[RD_SHARD_HOST + 1];	/* "": it is not in RADOS, or had no owner yet */
	i64 since;
	u64 epoch;
};

int ctl_shard_owner(const struct rd_area *area, struct ctl_shard_owner *ret);

#endif
