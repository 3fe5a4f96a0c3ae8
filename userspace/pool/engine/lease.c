// SPDX-License-Identifier: GPL-2.0
/* Devices that read the data area by themselves: the table lease. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "engine.h"
#include "journal.h"
#include "lease.h"

/* --- what goes */

static int compare_frames(const void *a, const void *b)
{
	const struct rd_doomed_frame *x = a, *y = b;

	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

bool rd_doomed_has(const struct rd_doomed *doomed, u64 block)
{
	struct rd_doomed_frame key, *found;
	unsigned int slot;

	if (!doomed->nr || block < doomed->first || block > doomed->last ||
	    !rd_area_slot_at(block * RD_BLOCK_SIZE, &key.frame, &slot))
		return false;
	found = bsearch(&key, doomed->frames, doomed->nr, sizeof(key), compare_frames);
	return found && rd_slots_test(&found->slots, slot);
}

/* --- taking one */

int rd_lease_shut(struct rd_pool *pool, struct rd_lock *ret)
{
	/* Shared: others may load tables, too. */
	return rd_pool_lock(pool, ret, RD_LOCK_FREE, 0, false, "what is to be freed");
}

static int insert(struct rd_sql *sql, const struct rd_version *version, const char *device,
		  i64 *ret_id)
{
	struct rd_version now;
	int r;

	r = rd_version_by_id(sql, version->id, &now);
	if (!r && !rd_version_exists(&now))
		r = -ENOENT;
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO lease(device, volume, number, time)"
			       " VALUES(?, ?, ?, ?)", "tiii", device, now.volume, now.number,
			       (i64)time(NULL));
	*ret_id = rd_sql_last_id(sql);
	return r;
}

int rd_lease_add(struct rd_pool *pool, const struct rd_version *version, const char *device,
		 i64 *ret_id)
{
	int r;

	if (strlen(device) >= RD_DEVICE_MAX)
		return -ENAMETOOLONG;
	r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_catalog_end(pool->sql, insert(pool->sql, version, device, ret_id));
	if (r)
		return r;
	/* A catalog that is made anew must know it, too. */
	r = rd_failpoint("lease-add");
	if (!r)
		r = rd_journal_flush(pool);
	if (r)
		rd_lease_forget(pool, *ret_id);
	return r;
}

/* --- giving it up */

int rd_lease_forget(struct rd_pool *pool, i64 id)
{
	int r = rd_catalog_begin(pool->sql);

	if (r)
		return r;
	r = rd_sql_run(pool->sql, "DELETE FROM lease WHERE id = ?", "i", id);
	return rd_catalog_end(pool->sql, r);
}

/* What nothing holds any more goes. A crash here leaves that to the next command. */
static int let_go(struct rd_pool *pool)
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

	return r ? r : let_go(pool);
}

int rd_lease_drop_device(struct rd_pool *pool, const char *device)
{
	int r = rd_catalog_begin(pool->sql);

	if (r)
		return r;
	r = rd_sql_run(pool->sql, "DELETE FROM lease WHERE device = ?", "t", device);
	r = rd_catalog_end(pool->sql, r);
	return r ? r : let_go(pool);
}

/* --- looking */

static int read_leases(struct rd_row *row, struct rd_buffer *ret)
{
	struct rd_lease lease;
	const char *device;
	int r = 0;

	while (!r && (r = rd_row_next(row)) > 0) {
		memset(&lease, 0, sizeof(lease));
		lease.id = rd_row_i64(row, 0);
		device = rd_row_text(row, 1);
		snprintf(lease.device, sizeof(lease.device), "%s", device ? device : "");
		lease.volume = rd_row_i64(row, 2);
		lease.number = rd_row_i64(row, 3);
		lease.time = rd_row_i64(row, 4);
		rd_buffer_put(ret, &lease, sizeof(lease));
		r = ret->failed ? -ENOMEM : 0;
	}
	return r;
}

int rd_lease_list(struct rd_sql *sql, const struct rd_version *version, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT id, device, volume, number, time FROM lease"
		       " WHERE ?1 = 0 OR (volume = ?1 AND number = ?2) ORDER BY id", "ii",
		       version ? version->volume : (i64)0, version ? version->number : (i64)0);
	return r ? r : read_leases(row, ret);
}

int rd_lease_version(struct rd_sql *sql, const struct rd_lease *lease,
		     struct rd_version *version)
{
	i64 id;
	int r;

	r = rd_sql_number(sql, &id, "SELECT id FROM version WHERE volume = ? AND number = ?"
			  " AND " RD_VERSION_KEPT, "ii", lease->volume, lease->number);
	return r ? r : rd_version_by_id(sql, id, version);
}
