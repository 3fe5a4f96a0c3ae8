/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disks that a snapshot reads from a server, or a restore writes to one:
 *
 *	nbd://HOST[:PORT]/EXPORT	an NBD server; also nbds, nbd+unix, nbds+unix
 *	qcow2:FILE			a disk in a file of that format, by qemu-nbd
 *	-				a stream of --size bytes on stdin
 *	rbd:POOL/IMAGE			a disk on RBD, by a snapshot of RBD
 *	--qmp SOCKET --from DISK	a disk of a QEMU that runs: see host/qemu/fleece.h
 */
#ifndef CTL_SERVED_DISK_H
#define CTL_SERVED_DISK_H

#include "host/qemu/den.h"
#include "host/qemu/fleece.h"
#include "pool/engine/read/source.h"
#include "pool/served/bitmap.h"
#include "pool/served/pipe.h"
#include "pool/served/rbd_moment.h"
#include "cli.h"

struct ctl_served_disk {
	struct rd_store *disk;		/* NULL: not open */
	struct rd_nbd *nbd;
	struct rd_pipe pipe;
	struct rd_rbd *rbd;		/* instead */
	struct rd_rbd_moment moment;
	char prefix[RD_DEN_NAME];	/* of our snapshots there */
	struct rd_version newest;	/* id 0: there is none */
	struct rd_bitmap_list list;
	struct rd_source file;		/* that qemu-nbd reads: is it written meanwhile? */
	bool is_fleeced;
	bool is_made;			/* the version exists */
	int left;			/* in QEMU or on RBD, an error */
	struct rd_fleece fleece;
	struct ctl_progress *looks;	/* at the fleece, as long as that is there */
};

/* Does @from name such a disk? */
bool ctl_is_served(const struct ctl *ctl, const char *from);
/* Do the options go together? 0 or CTL_USAGE. */
int ctl_served_check(const struct ctl *ctl, const char *from);

/* Connect to options->from, and fill in the rest of @options. @disk is all zeros. */
int ctl_served_begin(struct ctl *ctl, struct rd_snapshot_options *options,
		     struct ctl_served_disk *disk);
/*
 * Open @path, which ctl_is_served(), to write a disk of @size bytes to it: a file that is not there
 * is made. *@ret_new: it is all zeros. @disk is all zeros.
 */
int ctl_served_target(const struct ctl *ctl, const char *path, u64 size,
		      struct ctl_served_disk *disk, bool *ret_new);

/* After each of both. */
int ctl_served_end(struct ctl_served_disk *disk);

#endif
