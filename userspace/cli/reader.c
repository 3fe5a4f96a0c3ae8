// SPDX-License-Identifier: GPL-2.0
/* Name what reads a version. Another kind of reader gets its name here, and only here. */
#include <stdio.h>

#include "host/sys/dm.h"
#include "host/sys/layers.h"
#include "host/volume/map/mapped_nbd.h"
#include "pool/engine/space/hold.h"
#include "reader.h"

/* Is the process @pid one that only serves a device? */
static bool find_nbd(i64 pid, struct ctl_reader *ret)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_mapped_nbd *mapped;
	bool found = false;

	rd_mapped_nbds(&all);
	rd_each(mapped, &all) {
		if (found || !mapped->is_alive || mapped->export.pid != pid)
			continue;
		found = true;
		snprintf(ret->name, sizeof(ret->name), "%s", mapped->name);
		if (!rd_path_is_mounted(mapped->nbd.path, ret->mount))
			ret->mount[0] = '\0';
	}
	return found;
}

void ctl_reader_find(struct rd_pool *pool, const struct rd_lease *lease, struct ctl_reader *ret)
{
	char name[RD_DM_NAME_MAX], path[RD_DM_PATH_MAX];
	i64 pid;

	memset(ret, 0, sizeof(*ret));
	if (rd_lease_is_hold(lease) && !rd_hold_pid(pool, lease, &pid)) {
		ret->is_here = pid;
		if (find_nbd(pid, ret))
			return;
		snprintf(ret->name, sizeof(ret->name), "process %lld", pid);
		return;
	}
	ret->is_here = !rd_dm_find(lease->device, name);
	snprintf(ret->name, sizeof(ret->name), "%s", ret->is_here ? name : lease->device);
	if (ret->is_here && !rd_path_is_mounted(rd_dm_path(path, name), ret->mount))
		ret->mount[0] = '\0';
}

void ctl_reader_print(const struct ctl_reader *reader)
{
	fputs(reader->name, stdout);
	if (reader->mount[0])
		printf(" (mounted at %s)", reader->mount);
}
