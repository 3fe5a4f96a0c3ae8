/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A data area in RADOS: a shard, named ceph:POOL/SHARD. All objects of a shard are in the namespace
 * SHARD of the pool POOL, so that caps can name it, and nothing else may be there:
 *
 *	head			attributes, all of them text:
 *	    format		"1"
 *	    image		ID, 16 digits of base 16
 *	    bytes		the size of the data area
 *	    epoch		8 digits: the epoch of the writers
 *	    sealed		8 digits: the last epoch that has sealed the journal
 *	    owner		EPOCH SINCE BASE TOKEN HOST
 *	rbd_data.ID.%016x	2 MiB of the data area each, at offset / 2 MiB
 *	    e			8 digits: the last epoch that has written there
 *
 *	rbd_id.revdedup		of a shard that a kernel has read: an RBD image, whose data objects
 *	rbd_header.ID		are those above; see rd_shard_image()
 *
 * So a frame is an object, and the fingerprints of 256 frames are one. What is zeros as a whole
 * need not be there.
 *
 * owner: in epoch EPOCH, since the second SINCE, the commands write that share the catalog with
 * TOKEN, on HOST. Such a command may raise the epoch itself, and the others follow it; BASE is the
 * epoch in which TOKEN took the shard over.
 *
 * A write is one operation on one object, which is atomic, and one of these:
 *
 *	go on only if the object is there and e <= E; write; e = E
 *	create the object, which must not be there; write; e = E
 *
 * (In one operation that creates, nothing can be compared: there is no attribute yet.) So once an
 * object was written in epoch E, nothing of an earlier epoch arrives there any more, however late,
 * and no clock has a part in it. Where it was not, a late write can leave any content in an object
 * of which nothing is named, and so:
 *
 * - A place that was given back may hold anything: the store lacks RD_STORE_ZEROS. A whole frame
 *   that is written replaces the object, whatever that is.
 * - A part of the journal is only written where an object is, and never makes one: the frame was
 *   cleared in the same epoch, or sealed in a later one. A frame that a later epoch has given
 *   back is not there, or was written by it. So a part that an earlier epoch writes is refused.
 *
 * Reads need no epoch: content is checked by its fingerprint.
 *
 * In a pool that is full, or at its quota, writes fail with -ENOSPC, and do not wait. The journal
 * and the head may be written even then, or nothing could be deleted.
 */
#ifndef RD_RADOS_H
#define RD_RADOS_H

#include <limits.h>

#include "store.h"

/* Find the name of a shard: @path itself, or where the link @path leads. False: it is none. */
bool rd_rados_name(const char *path, char ret[PATH_MAX]);

/*
 * Open the shard @name. With O_CREAT in @flags it is made if it is not there, and written in the
 * epoch that it has. Otherwise nothing can be written before rd_shard_own(). Messages have been
 * printed.
 */
int rd_rados_open(struct rd_store **ret, const char *name, int flags);

/* --- the head */

#define RD_SHARD_TOKEN	32
#define RD_SHARD_HOST	64

struct rd_shard {
	u64 epoch, sealed;
	/* BASE and so on; no token: it has had no owner yet. */
	u64 base;
	i64 since;
	char token[RD_SHARD_TOKEN + 1];
	char host[RD_SHARD_HOST + 1];
};

int rd_shard_read(struct rd_store *store, struct rd_shard *ret);

/*
 * Raise the epoch from @shard->epoch by one, and be the owner with @token; @is_new: from another
 * owner. Fills in @shard. -EAGAIN, without a message: it has another epoch by now.
 */
int rd_shard_take(struct rd_store *store, struct rd_shard *shard, const char *token, bool is_new);

/*
 * Let nothing of an earlier epoch than @epoch be written any more to the object at @offset.
 * -ENOENT, without a message: it is lost.
 */
int rd_shard_seal(struct rd_store *store, u64 epoch, u64 offset);

/* Is there no object at @offset, where the caller knows that one was? */
int rd_shard_is_lost(struct rd_store *store, u64 offset, bool *ret);

/* Note that the journal is sealed for @epoch. */
int rd_shard_note_sealed(struct rd_store *store, u64 epoch);

/* Write in the epoch of @shard from now on, and in those that follow while the base is the same. */
void rd_shard_own(struct rd_store *store, const struct rd_shard *shard);
/* Is @shard as of the base that rd_shard_own() was told, whatever its epoch? */
bool rd_shard_is_ours(struct rd_store *store, const struct rd_shard *shard);

/* Let others see that a command of the owner runs, until the store is closed. */
int rd_shard_watch(struct rd_store *store);

enum rd_shard_life {
	RD_SHARD_IDLE,		/* no command of the owner runs */
	RD_SHARD_BUSY,		/* one does */
	RD_SHARD_SILENT,	/* one did a moment ago, and does not answer */
};

/* Ask the commands of the owner whether they live. */
int rd_shard_ask(struct rd_store *store, enum rd_shard_life *ret);

/* --- as the kernel reads it */

#define RD_SHARD_IMAGE	"revdedup"

/* Which image it is. A copy of the pool of Ceph, or of the cluster, has one with the same ID. */
struct rd_shard_image_id {
	char image[17];
	char cluster[37];	/* its fsid */
	char pool[21];		/* the number of the pool of Ceph */
	char space[256];
};

/* What the kernel's rbd has to be told. */
struct rd_shard_image {
	struct rd_shard_image_id id;
	char *pool, *space;
	char *user;
	char *key;		/* or NULL, where none was found */
	char *monitors;		/* ADDRESS:PORT,... */
	bool has_v2;		/* these speak version 2 of the protocol */
};

/*
 * Make an RBD image of the shard, unless that was done, and say how to map it. It has no feature
 * but layering and is larger than any pool, so that it need not grow with this one. The list of
 * images lacks it: to the tools of RBD it is none. Messages have been printed.
 */
int rd_shard_image(struct rd_store *store, struct rd_shard_image *ret);
void rd_shard_image_free(struct rd_shard_image *image);

/* Make the image alone. False, without a message: such a pool of Ceph cannot have one. */
bool rd_shard_has_image(struct rd_store *store);

/* Which image it is, whether it is there or not. */
int rd_shard_image_id(const struct rd_store *store, struct rd_shard_image_id *ret);

#endif
