/* SPDX-License-Identifier: GPL-2.0 */
/* What reads a version from the pool, without a copy of its own: leases, for people. */
#ifndef CTL_READER_H
#define CTL_READER_H

#include "pool/catalog/leases.h"
#include "cli.h"

struct ctl_reader {
	/* Of the device, its UUID if it is not on this host; or "process 123", which serves it. */
	char name[RD_DEVICE_MAX + 16];
	char mount[PATH_MAX];		/* where it is mounted, or "" */
	bool is_here;			/* on this host, now */
};

/* Find out what @lease is of. */
void ctl_reader_find(struct rd_pool *pool, const struct rd_lease *lease, struct ctl_reader *ret);

/* Print its name, and where it is mounted. */
void ctl_reader_print(const struct ctl_reader *reader);

#endif
