// SPDX-License-Identifier: GPL-2.0
/* revdedupctl take-over: have a pool in RADOS that another host has. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "shard_owner.h"

int cmd_take_over(struct ctl *ctl)
{
	struct ctl_shard_owner owner;
	int r;

	r = ctl_open(ctl, ctl_has(ctl, CTL_OPT_FORCE) ? RD_POOL_TAKE_CUT : RD_POOL_TAKE);
	if (r)
		return r;
	r = ctl_shard_owner(&ctl->pool->area, &owner);
	if (!r && !owner.host[0]) {
		rd_err(0, "the pool '%s' is not in RADOS: it belongs to this host alone",
		       ctl->pool->path);
		r = CTL_FAILED;
	}
	if (!r && ctl->json)
		ctl_json(ctl, "take_over", "pool=%s owner=%s epoch=%llu", ctl->pool->path,
			 owner.host, owner.epoch);
	else if (!r && !ctl->quiet)
		printf("the pool '%s' belongs to this host, in epoch %llu\n", ctl->pool->path,
		       owner.epoch);
	return r;
}
