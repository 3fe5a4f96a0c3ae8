/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table lease: devices that read the data area by themselves, and the versions that
 * their tables were made of. See engine/lease.h for the rules.
 */
#ifndef RD_LEASES_H
#define RD_LEASES_H

#include "base/buffer.h"
#include "versions.h"

/* As long as device-mapper's UUIDs, with the zero. */
#define RD_DEVICE_MAX	129

struct rd_lease {
	i64 id;
	char device[RD_DEVICE_MAX];
	/* The version that the table was made of. */
	i64 volume;
	i64 number;
	i64 time;
};

/* In a transaction. */
int rd_lease_insert(struct rd_sql *sql, const struct rd_version *version, const char *device,
		    i64 *ret_id);
int rd_lease_delete(struct rd_sql *sql, i64 id);
int rd_lease_delete_device(struct rd_sql *sql, const char *device);

/* Append struct rd_lease: all of them, or those of @version. */
int rd_lease_list(struct rd_sql *sql, const struct rd_version *version, struct rd_buffer *ret);
/* Count the same. */
int rd_lease_count(struct rd_sql *sql, const struct rd_version *version, u64 *ret);

/* The version of a lease, which may be HELD. -ENOENT. */
int rd_lease_version(struct rd_sql *sql, const struct rd_lease *lease,
		     struct rd_version *version);

#endif
