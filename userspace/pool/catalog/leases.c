// SPDX-License-Identifier: GPL-2.0
/* Devices that read the data area by themselves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "leases.h"
#include "sql.h"

int rd_lease_insert(struct rd_sql *sql, const struct rd_version *version, const char *device,
		    i64 *ret_id)
{
	int r;

	r = rd_sql_run(sql, "INSERT INTO lease(device, volume, number, time)"
		       " VALUES(?, ?, ?, ?)", "tiii", device, version->volume, version->number,
		       (i64)time(NULL));
	if (!r)
		*ret_id = rd_sql_last_id(sql);
	return r;
}

int rd_lease_delete(struct rd_sql *sql, i64 id)
{
	return rd_sql_run(sql, "DELETE FROM lease WHERE id = ?", "i", id);
}

int rd_lease_delete_device(struct rd_sql *sql, const char *device)
{
	return rd_sql_run(sql, "DELETE FROM lease WHERE device = ?", "t", device);
}

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
		r = rd_buffer_put(ret, &lease, sizeof(lease));
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

int rd_lease_newest(struct rd_sql *sql, const char *device, struct rd_lease *ret)
{
	RD_BUFFER struct rd_buffer found = { 0 };
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT id, device, volume, number, time FROM lease"
		       " WHERE device = ? ORDER BY id DESC LIMIT 1", "t", device);
	if (!r)
		r = read_leases(row, &found);
	if (!r && !found.len)
		r = -ENOENT;
	if (!r)
		memcpy(ret, found.data, sizeof(*ret));
	return r;
}

int rd_lease_count(struct rd_sql *sql, const struct rd_version *version, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM lease"
			  " WHERE ?1 = 0 OR (volume = ?1 AND number = ?2)", "ii",
			  version ? version->volume : (i64)0, version ? version->number : (i64)0);
}

int rd_lease_version(struct rd_sql *sql, const struct rd_lease *lease,
		     struct rd_version *version)
{
	return rd_version_kept(sql, lease->volume, lease->number, version);
}
