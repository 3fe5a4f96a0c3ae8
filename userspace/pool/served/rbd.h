/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk on RBD, the block devices of Ceph, which a snapshot reads, or a restore writes.
 *
 *	rbd:POOL/[NAMESPACE/]IMAGE[:id=USER][:conf=FILE]
 *
 * Requests are in flight in librbd, which calls back in threads of its own: these put what has
 * ended on a list, and wake the ring of the snapshot or restore by an eventfd.
 */
#ifndef RD_RBD_H
#define RD_RBD_H

#include "pool/data/store.h"

struct rd_rbd;

/* Does @text name a disk on RBD? */
bool rd_rbd_is_spec(const char *text);

/*
 * Connect, and open the image. Says what failed. If it is not there and @size is not 0, make it:
 * *@ret_new, which may be NULL.
 */
int rd_rbd_open(struct rd_rbd **ret, const char *spec, u64 size, bool *ret_new);
void rd_rbd_close(struct rd_rbd *rbd);

/* The disk, for a snapshot or a restore, until rd_rbd_close(). */
struct rd_store *rd_rbd_store(struct rd_rbd *rbd);

/* Count other clients that have the image open to write to it: -errno, with a message. */
int rd_rbd_users(struct rd_rbd *rbd);

#endif
