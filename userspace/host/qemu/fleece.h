/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of a disk of a running QEMU at one moment, over NBD, while its guest goes on.
 *
 * QEMU copies what the guest overwrites to a file first ("fleecing"), and a node over that file and
 * the disk is the disk of the moment. In the same transaction a bitmap begins, which the next
 * snapshot reads:
 *
 *	1. clear away what a command that died has left: the export, the job, the node, the copy of
 *	   the list, and bitmaps of ours but for the one that follows on from the newest version
 *	2. a file for what is overwritten, a node over it, QEMU's NBD server
 *	3. one transaction: copy the bitmap OLD to LIST, begin NEW, start the copying
 *	4. export the node with LIST; the snapshot reads it
 *	5. everything of 2 and 3 goes, and OLD if the version exists, or else NEW
 *
 * OLD goes on recording until 5, so at each point there is a bitmap that has all changes since the
 * newest version, whoever dies. A guard does 5 for a command that is killed, but for the bitmaps:
 * of these there is one more than needed until the next snapshot.
 */
#ifndef RD_FLEECE_H
#define RD_FLEECE_H

#include <limits.h>

#include "pool/catalog/versions.h"
#include "host/sys/guard.h"
#include "den.h"
#include "qmp.h"

#define RD_FLEECE_NAME	64

struct rd_fleece {
	struct rd_qmp *qmp;
	char disk[RD_FLEECE_NAME];	/* its node */
	char id[RD_DEN_NAME];		/* of node, job and export; bitmaps begin with it */
	char list[RD_FLEECE_NAME];	/* bitmaps */
	char old[RD_FLEECE_NAME];	/* "": none follows on */
	char new[RD_FLEECE_NAME];
	struct rd_den den;		/* for what is overwritten, and the socket */
	u64 size;			/* of the disk */
	bool has_server;
	bool has_begun;			/* 3 was done */
	bool gave_up;			/* there is no room */
	const char *socket;
	struct rd_guard guard;		/* clears away if the command is killed */
	const char *why_full;		/* NULL where there is an @old */
	char uri[3 * PATH_MAX];
};

struct rd_fleece_options {
	const char *socket;		/* of QMP */
	const char *disk;		/* node, device or qdev */
	const char *dir;		/* for what is overwritten */
	/* Whose bitmaps they are: the UUID of the pool, and the volume. */
	const u8 *pool;
	const char *volume;
	/* Does the bitmap @name follow on from the newest version? */
	bool (*follows)(const struct rd_version *newest, const char *name);
	const struct rd_version *newest;
	bool force;			/* although a kill may end QEMU */
	int lock_fd;			/* its locks end with the command, not with its guard */
};

/* After an error as well, rd_fleece_end(). -EBUSY: another command has the disk. */
int rd_fleece_begin(struct rd_fleece *fleece, const struct rd_fleece_options *options);
/* While it is read, now and then: is there room left? If not, the version is given up. */
void rd_fleece_look(struct rd_fleece *fleece);
/* Nothing more is read: QEMU ends the connection, and not we. */
void rd_fleece_stop_reading(struct rd_fleece *fleece);
/* Is what is read still the content of the moment? -EIO, with a message. */
int rd_fleece_check(struct rd_fleece *fleece);
/* Returns an error only if something is left behind, with a message. */
int rd_fleece_end(struct rd_fleece *fleece, bool is_made);

#endif
