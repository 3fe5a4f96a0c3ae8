/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of a disk on RBD at one moment, and what has changed since the moment of the newest
 * version:
 *
 *	1. remove the snapshots of RBD that are ours and do not belong to the newest version: a
 *	   command that died has left them
 *	2. make the snapshot NEW of RBD; the version is read from it
 *	3. list what differs from OLD, which belongs to the newest version, to NEW
 *	4. OLD is removed once the version exists, which keeps a hash of NEW; or else NEW
 *
 * A snapshot of RBD is known by the cluster, its pool, the ID of the image and its own number,
 * which are never used again: another image or another snapshot of the same name is not taken for
 * it. Whoever dies, there is one snapshot more than needed at most, until the next command.
 */
#ifndef RD_RBD_MOMENT_H
#define RD_RBD_MOMENT_H

#include "pool/engine/snapshot/snapshot.h"
#include "rbd.h"

#define RD_RBD_SNAP	64

struct rd_rbd_moment {
	/* The caller fills in these. Our snapshots of this volume begin with @prefix and '-'. */
	struct rd_rbd *rbd;
	const struct rd_version *newest;	/* id 0: there is none */
	const char *prefix;
	char new[RD_RBD_SNAP];		/* a name that nothing has */
	const volatile int *stop;	/* or NULL; not 0: the user has asked to stop */

	char old[RD_RBD_SNAP];		/* "": none follows on */
	bool has_new;
	struct rd_buffer ranges;	/* struct rd_changed_range */
	struct rd_changed changed;
	u8 tracker[RD_TRACKER_SIZE];
};

/*
 * Do 1 to 3, and fill in @options. With options->why_full no list is made. After an error as well,
 * rd_rbd_moment_end().
 */
int rd_rbd_moment_begin(struct rd_rbd_moment *moment, struct rd_snapshot_options *options);
/* Are both snapshots still there? What is read from one that is removed is anything. */
int rd_rbd_moment_check(struct rd_rbd_moment *moment);
/* Do 4. Returns an error only if something is left behind, with a message. */
int rd_rbd_moment_end(struct rd_rbd_moment *moment, bool is_made);

#endif
