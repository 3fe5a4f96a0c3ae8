/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Devices that read the data area by themselves, as those of device-mapper do: each
 * has a table of the places that a version's blocks were at when it was made, under a
 * lease, and changes it only where it is asked to leave. Their memory is shared, so
 * that a process that is killed leaves them as they are.
 */
#ifndef DEVICES_H
#define DEVICES_H

#include "kernel/format.h"
#include "pool/engine/space/lease.h"

#define NR_DEVICES	4
#define DEVICE_BLOCKS	(5 * 512)

struct device {
	bool exists;
	bool is_reachable;
	bool is_down;			/* what it names is known, and stays as it is */
	char name[32];
	i64 lease;
	i64 volume, number;
	u64 size;			/* in bytes; the table has whole segments */
	u8 want[DEVICE_BLOCKS];		/* the number of each block's content */
	struct dmr_entry places[DEVICE_BLOCKS];	/* kind 0: zeros */
};

/* What was done, by all processes. */
struct devices {
	struct device device[NR_DEVICES];
	u64 nr_made, nr_left, nr_gone, nr_unreachable, nr_kept, nr_packed, nr_packed_left;
};

extern struct devices *devices;
extern struct rd_lease_ops devices_lease_ops;

void devices_begin(void);

/* @blocks: what @version has. */
int device_make(struct device *device, struct rd_pool *pool, const struct rd_version *version,
		const u8 *blocks);
/* Take it away; with its lease, or without a word. */
int device_drop(struct device *device, struct rd_pool *pool, bool by_name);
void device_vanish(struct device *device);

/* Does a device that is down name any place of @frame? */
bool devices_down_name(u64 frame);

/* Leases whose device does not exist. */
unsigned int devices_orphans(struct rd_pool *pool);

/* Read each block of each; false: one is not what it must be, and that was said. */
bool devices_are_right(const char *data, const u8 contents[][RD_BLOCK_SIZE]);

#endif
