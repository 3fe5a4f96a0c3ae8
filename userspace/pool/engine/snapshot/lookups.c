// SPDX-License-Identifier: GPL-2.0
/* What inline snapshots looked up; see lookups.h. */
#include <errno.h>

#include "base/log.h"
#include "lookups.h"

int rd_lookups(const struct rd_pool *pool, struct rd_buffer *ret)
{
	int r = rd_lookup_log_read(pool->path, ret);

	return r && r != -ENOMEM ?
		rd_err(r, "cannot read what was looked up, in the index of '%s'", pool->path) : r;
}
