/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk that is read or written over NBD, by one connection with many requests in flight: a
 * server such as qemu-nbd takes no second one.
 *
 * The ring of the snapshot or restore waits for the socket, and libnbd's state machine runs in its
 * thread. Requests that have ended go to the ring, which calls their done() later, because libnbd
 * calls back with its handle locked.
 */
#ifndef RD_NBD_SOURCE_H
#define RD_NBD_SOURCE_H

#include "pool/engine/snapshot/snapshot.h"

struct rd_nbd;

/* Does @text name an NBD server? */
bool rd_nbd_is_uri(const char *text);

struct rd_nbd_options {
	const char *uri;
	/*
	 * A program that is the server: it gets its socket from us, and ends with the
	 * connection. @uri is its name to people. Or NULL.
	 */
	char **argv;
	const char *bitmap;		/* the dirty bitmap of QEMU that is asked for, or NULL */
	const volatile int *stop;	/* not 0: the user has asked to stop */
	/*
	 * All of these may be NULL. @look: about once a second, while something is asked. @end:
	 * instead of ending the connection, have the server end it.
	 */
	void (*look)(void *ctx);
	void (*end)(void *ctx);
	void *ctx;
};

/* Connect. Says what failed, and what the server answered; -EINTR: to stop. */
int rd_nbd_open(struct rd_nbd **ret, const struct rd_nbd_options *options);
void rd_nbd_close(struct rd_nbd *nbd);

bool rd_nbd_is_read_only(const struct rd_nbd *nbd);

/* The disk, for a snapshot or a restore, until rd_nbd_close(). */
struct rd_store *rd_nbd_store(struct rd_nbd *nbd);

/* Has the server the bitmap that was asked for? */
bool rd_nbd_has_bitmap(const struct rd_nbd *nbd);

/*
 * Read which ranges of the disk are dirty in the bitmap that was asked for: an array of struct
 * rd_changed_range, in order. No bitmap has what was cut off and is there again since, as zeros.
 * Where a segment of it was not written again, it lies in a range of zeros that ends with a
 * segment: such ranges are in the array, and all of the segments they are in. Of a segment that
 * was written in part, zeros may be the rest: each range is of whole segments.
 */
int rd_nbd_dirty(struct rd_nbd *nbd, struct rd_buffer *ret);

#endif
