// SPDX-License-Identifier: GPL-2.0
/* Keep the places of a pool that a view reads: see view_pool.h. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/device/target.h"
#include "pool/engine/space/lease.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/version.h"
#include "tenants.h"
#include "view_pool.h"

/* --- which pool it is */

/* Refuse a pool that is not the one in the table, whatever its path says. */
static int refuse(const struct rd_attachment *at, const struct rd_pool *pool)
{
	rd_err(0, "blocks of '%s' lie in another pool than '%s' and '%s'", at->volume, pool->path,
	       at->pool);
	rd_remedy(RD_REMEDY_SEE_STATUS, NULL,
		  "no version was made; bring back the pool '%s', or wait until the blocks are copied back",
		  at->pool);
	return -EXDEV;
}

static int open_other(struct rd_view_pool *reads, const struct rd_caller *caller,
		      const struct rd_attachment *at, const char *device)
{
	int r = -ENOENT;

	if (at->pool[0])
		r = rd_session_open(&reads->pool, at->pool, RD_POOL_WRITE, caller->verb,
				    caller->wait_ms, NULL);
	if (r) {
		reads->pool = NULL;
		rd_err(0, "cannot keep blocks of '%s' in the pool '%s' while they are copied to '%s'",
		       at->volume, at->pool, caller->pool->path);
		rd_remedy(RD_REMEDY_SEE_STATUS, NULL,
			  "no version was made; make that pool usable, or wait until the blocks are copied back");
		return r;
	}
	reads->is_own = true;
	reads->pool->lease_ops = &rd_host_lease_ops;
	r = rd_poolblocks_compare(&reads->pool->area, device);
	return r == -EXDEV ? refuse(at, caller->pool) : r;
}

static int find_pool(struct rd_view_pool *reads, const struct rd_caller *caller,
		     const struct rd_attachment *at, const char *device)
{
	int r = rd_poolblocks_compare(&caller->pool->area, device);

	if (!r)
		reads->pool = caller->pool;
	return r == -EXDEV ? open_other(reads, caller, at, device) : r;
}

/* --- keeping its places */

/*
 * A volume whose lease is gone has only zeros left that are not home. If it has more, nothing
 * is freed until they are copied.
 */
static int do_without_lease(struct rd_view_pool *reads, const struct rd_attachment *at)
{
	return rd_device_names_pool(at->device, &reads->needs_shut);
}

static int keep_places(struct rd_view_pool *reads, const struct rd_attachment *at)
{
	char device[RD_DM_NAME_MAX];
	i64 lease;
	int r;

	r = rd_lease_shut(reads->pool, &reads->shut);
	if (r)
		return r;
	rd_part_uuid(reads->view, at, "view");
	r = rd_lease_share(reads->pool, rd_part_uuid(device, at, NULL), reads->view, &lease);
	reads->has_lease = !r;
	return r == -ENOENT ? do_without_lease(reads, at) : r;
}

int rd_view_pool_open(struct rd_view_pool *reads, const struct rd_caller *caller,
		      const struct rd_attachment *at)
{
	struct rd_target_devices devices;
	int r;

	r = rd_target_devices(at->device, &devices);
	if (r || !strcmp(devices.pool, "-"))
		return r;
	r = find_pool(reads, caller, at, devices.pool);
	return r ? r : keep_places(reads, at);
}

void rd_view_pool_viewed(struct rd_view_pool *reads)
{
	if (!reads->needs_shut)
		rd_lock_drop(&reads->shut);
}

void rd_view_pool_unviewed(struct rd_view_pool *reads)
{
	rd_lock_drop(&reads->shut);
}

int rd_view_pool_close(struct rd_view_pool *reads)
{
	int r = 0;

	rd_lock_drop(&reads->shut);
	if (reads->has_lease)
		r = rd_lease_drop_device(reads->pool, reads->view);
	if (reads->is_own)
		r = rd_session_close(reads->pool, r);
	*reads = RD_VIEW_POOL_NONE;
	return r;
}

/* --- its UUID */

bool rd_is_view(const char *uuid)
{
	static const char end[] = "-view";
	size_t len = strlen(uuid);

	return !strncmp(uuid, RD_DM_UUID, strlen(RD_DM_UUID)) && len >= strlen(end) &&
		!strcmp(uuid + len - strlen(end), end);
}

bool rd_is_view_here(const char *uuid)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_attachment *at;
	char own[RD_DM_NAME_MAX];
	bool found = false;

	if (!rd_is_view(uuid))
		return false;
	rd_attachments(&all);
	rd_each(at, &all)
		found |= !strcmp(uuid, rd_part_uuid(own, at, "view"));
	return found;
}
