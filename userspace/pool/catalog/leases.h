/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table lease: devices that read the data area directly, and the versions from which
 * their device-mapper tables were made. lease.h states the rules.
 */
#ifndef RD_LEASES_H
#define RD_LEASES_H

#include "base/buffer.h"
#include "versions.h"

/* The length of device-mapper's UUIDs, with the terminating zero. */
#define RD_DEVICE_MAX	129

struct rd_lease {
	i64 id;
	char device[RD_DEVICE_MAX];
	/* The version from which the table was made. */
	i64 volume;
	i64 number;
	i64 time;
};

/* Insert or delete leases; the caller is in a transaction. */
int rd_lease_insert(struct rd_sql *sql, const struct rd_version *version, const char *device,
		    i64 *ret_id);
int rd_lease_delete(struct rd_sql *sql, i64 id);
int rd_lease_delete_device(struct rd_sql *sql, const char *device);

/* Append a struct rd_lease for each lease of @version, or for all if it is NULL. */
int rd_lease_list(struct rd_sql *sql, const struct rd_version *version, struct rd_buffer *ret);
/* Count the same. */
int rd_lease_count(struct rd_sql *sql, const struct rd_version *version, u64 *ret);

/* Find the newest lease of @device. -ENOENT. */
int rd_lease_newest(struct rd_sql *sql, const char *device, struct rd_lease *ret);

/* Load the version of a lease, which may be HELD. -ENOENT. */
int rd_lease_version(struct rd_sql *sql, const struct rd_lease *lease,
		     struct rd_version *version);

#endif
