/* SPDX-License-Identifier: GPL-2.0 */
/* The connection to a disk on RBD, for the files rbd*.c. */
#ifndef RD_RBD_DISK_H
#define RD_RBD_DISK_H

#include <pthread.h>

#include "base/buffer.h"
#include "librbd.h"
#include "pool/data/ceph.h"
#include "rbd.h"

struct rd_rbd {
	struct rd_store store;
	const struct rd_librbd *lib;
	struct rd_ceph ceph;
	const char *space;	/* namespace, or NULL */
	const char *image;
	rbd_image_t disk;
	bool is_listed;		/* all that is read has changed: holes are not asked for */

	bool is_moment;		/* a snapshot is read */
	bool is_silent;		/* no answer came */
	bool is_told;		/* it was said what ended it */
	/* With the threads of librbd. */
	pthread_mutex_t lock;
	pthread_cond_t idle;	/* no request is in librbd */
	unsigned int busy;

	/* The ranges of [from, to) that have data, in order. */
	struct rd_buffer data;
	u64 from, to;
};

struct rd_rbd_range {
	u64 start;
	u64 end;
};

/* Say that a snapshot which is needed is no longer there. */
void rd_rbd_gone(struct rd_rbd *rbd);

/* Say what could not be done with it. Returns @r. */
int rd_rbd_failed(struct rd_rbd *rbd, int r, const char *what);

/* Read the size of the image, or of its snapshot that was set. */
int rd_rbd_read_size(struct rd_rbd *rbd);

/*
 * Append to @ret, in order and rounded to @unit, what has changed in [@from, @to) since the
 * snapshot @since; NULL: what has data.
 */
int rd_rbd_diff(struct rd_rbd *rbd, const char *since, u64 from, u64 to, u64 unit,
		struct rd_buffer *ret);

#endif
