/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Refuse a block device or file that is about to be written over, read, or tracked, and
 * is something else than the user takes it for. Where a name was mistaken, this is the
 * last place that can say so. All of these say what is wrong, and that nothing was
 * changed.
 */
#ifndef RD_SAFETY_H
#define RD_SAFETY_H

#include "base/buffer.h"
#include "host/volume/device/attachment.h"
#include "pool/pool.h"

/*
 * Is @path the data area of the pool in the directory @pool, in that directory, another
 * name of something there, or a loop device over it?
 */
bool rd_is_of_pool(const char *pool, const char *path);

/* A version that is about to be written over a block device or file. */
struct rd_overwrite {
	const char *pool;		/* its directory */
	const char *volume;
	const char *version;		/* "vm1@3", for messages */
	const struct rd_buffer *volumes;	/* of the pool: names, each with its zero */
	bool force;			/* whatever is there that may be lost */
	bool inside;			/* FORMAT:PATH would be written to as well */
};

/* May @path be written over? -EINVAL, -EBUSY. */
int rd_check_overwrite(const char *path, const struct rd_overwrite *overwrite);

/*
 * May @path be read as an image? -EINVAL, -EBUSY. Where it is in use only with @force,
 * and then *@ret_in_use is true; only with @force as well where it looks like a container
 * of a disk (host/sys/container.h).
 */
int rd_check_image(const char *path, bool force, bool *ret_in_use);

/* May the block device @path become the data area of a pool? @force: it is not empty. */
int rd_check_data(const char *path, bool force);

/* Do the copies of the pool in the directory @pool share a disk with its data? */
bool rd_copies_are_beside(const char *pool);

/*
 * May the file or block device @path have copies of blocks of the pool in the directory @pool?
 * @is_new: it has none yet. @force: it may lie on the disk of the pool itself.
 */
int rd_check_copies(const char *pool, const char *path, bool is_new, bool force);

/* May @base be attached, with metadata on @meta (NULL: on a new volume)? */
int rd_check_attach(const char *base, const char *meta);

/*
 * -EINVAL: the pool lies on the volume. It would copy itself, and wait for itself while the
 * volume is suspended.
 */
int rd_check_pool_apart(const struct rd_pool *pool, const struct rd_attachment *at);

/* -EBUSY: a file system on @at would write what it has in memory over a roll-back. */
int rd_check_not_mounted(const struct rd_attachment *at);

#endif
