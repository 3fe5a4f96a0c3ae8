/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk that is read or written over NBD, by one connection with many requests in flight: a server such as
 * qemu-nbd takes no second one.
 *
 * The ring of the snapshot or restore waits for the socket, and libnbd's state machine runs in its thread. Requests
 * that have ended are put on a list, because libnbd calls back with its handle locked, and their
 * done() is called when it is not.
 */
#ifndef RD_NBD_SOURCE_H
#define RD_NBD_SOURCE_H

#include "pool/engine/snapshot.h"

struct rd_nbd;

/* Does @text name an NBD server? */
bool rd_nbd_is_uri(const char *text);

/*
 * Connect to @uri, or, unless @argv is NULL, to the server that this program is, which gets its
 * socket from us and ends with the connection; then @uri is its name to people. @bitmap: the dirty
 * bitmap of QEMU that is asked for, or NULL. Errors are said, with what the server answered.
 */
int rd_nbd_open(struct rd_nbd **ret, const char *uri, char **argv, const char *bitmap);
void rd_nbd_close(struct rd_nbd *nbd);

bool rd_nbd_is_read_only(const struct rd_nbd *nbd);

/* The disk, for a snapshot or a restore, until rd_nbd_close(). */
struct rd_served *rd_nbd_served(struct rd_nbd *nbd);

/*
 * Read which ranges of the disk are dirty in the bitmap that was asked for: an array of struct
 * rd_changed_range. -ENOENT, without a message: the server has no such bitmap.
 */
int rd_nbd_dirty(struct rd_nbd *nbd, struct rd_buffer *ret);

#endif
