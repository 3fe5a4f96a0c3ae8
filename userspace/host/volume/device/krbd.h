/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's driver rbd, which makes a block device of an image in a Ceph cluster. A host has one
 * device of a shard, read-only, and all tables name that. The kernel does not remove it by itself:
 * rd_krbd_tidy() does where nothing has it open, and a device that a crash left is found again by
 * the next rd_krbd_open(), or goes with the next rd_krbd_tidy().
 */
#ifndef RD_KRBD_H
#define RD_KRBD_H

#include <stdbool.h>

#include "pool/data/rados.h"

#define RD_KRBD_PATH	32

/* Has the kernel the driver? It is loaded if need be. */
bool rd_krbd_exists(void);

/*
 * Open our device of @image, with what is there, or map it. Returns its fd, to be closed once a
 * table has the device; so nobody removes it before. Or -errno; says what failed.
 */
int rd_krbd_open(const struct rd_shard_image *image, char path[RD_KRBD_PATH]);

/* Is the block device with this number, "252:0", one that rd_krbd_open() made of this image? */
bool rd_krbd_is_of(const char *number, const struct rd_shard_image_id *id);

/* Remove the devices of shards that nothing uses. What others have mapped stays. */
void rd_krbd_tidy(void);

#endif
