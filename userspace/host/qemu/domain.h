/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disks of a domain of libvirt at one moment, over NBD, while its guest goes on; by virsh, which
 * takes the URI from LIBVIRT_DEFAULT_URI.
 *
 *	1. clear away what a command that died has left: the job, its files, and checkpoints of
 *	   ours but for those that follow on from a newest version
 *	2. freeze the guest's file systems, if its agent says that they are not frozen; begin a
 *	   backup in pull mode and a checkpoint, of all disks in one transaction of QEMU; thaw. A
 *	   guard thaws if that takes too long or the command dies, until the agent says so
 *	3. each disk is read; a bitmap has what has changed since the checkpoint of its newest
 *	   version
 *	4. end the job; older checkpoints go if the versions exist, or else the new one. A guard
 *	   ends the job if the command dies
 *
 * So at each point there is a checkpoint that the newest versions name. A domain has one backup
 * at a time: that of another program is left alone.
 *
 * In libvirt's transaction the bitmap is copied before the backup begins. A disk with an I/O
 * thread may be written in between, so such disks are read as a whole.
 */
#ifndef RD_DOMAIN_H
#define RD_DOMAIN_H

#include <limits.h>

#include "base/buffer.h"
#include "host/sys/guard.h"
#include "pool/catalog/versions.h"
#include "den.h"

#define RD_DOMAIN_NAME	64

/* The bitmap of each disk that is exported. */
#define RD_DOMAIN_BITMAP	"revdedup"

struct rd_domain_disk {
	char target[RD_DOMAIN_NAME];	/* "vda" */
	bool has_bitmaps;		/* only a file in qcow2 keeps them */
	bool is_wanted;
	struct rd_version newest;	/* of its volume; id 0: none */
	char old[RD_DOMAIN_NAME];	/* the checkpoint of that version, or "" */
	const char *why_full;		/* NULL where there is @old */
	char uri[3 * PATH_MAX];
	u64 size;
};

struct rd_domain {
	const char *name;
	const char *temp;		/* for what is overwritten meanwhile */
	const u8 *pool;			/* its UUID: whose checkpoints they are */
	/* Does the checkpoint @name follow on from the newest version? */
	bool (*follows)(const struct rd_version *newest, const char *name);
	bool force;			/* although a kill may end QEMU */
	int lock_fd;			/* its locks end with the command, not with a guard */
	struct rd_buffer disks;		/* struct rd_domain_disk each */
	struct rd_buffer xml;		/* its definition, as it runs, with a NUL */
	char definition[PATH_MAX + RD_DOMAIN_NAME];	/* a file that has it, until the end */

	/* The rest is that of domain.c. */
	char prefix[RD_DEN_NAME];	/* of our checkpoints, and the name of the den */
	char checkpoint[RD_DOMAIN_NAME];	/* "": there is none */
	struct rd_den den;
	char socket[PATH_MAX + RD_DOMAIN_NAME];	/* has the name of the checkpoint in it */
	bool has_threads, has_begun, gave_up;
	u64 size;			/* of all disks that are wanted */
	pid_t *freezing;		/* the virsh that does, for the guard as well */
	struct rd_guard thaw, job;
};

/* List the disks of a domain that runs. Says what is wrong. */
int rd_domain_disks(struct rd_domain *domain);
/* Steps 1 and 2, for the disks that are wanted. After an error as well, rd_domain_end(). */
int rd_domain_begin(struct rd_domain *domain);
/* While it is read, now and then: is there room left? If not, the versions are given up. */
void rd_domain_look(struct rd_domain *domain);
/* Is what is read still the content of the moment? -EIO, with a message. */
int rd_domain_check(const struct rd_domain *domain);
/* An error, with a message, only where something is left behind. */
int rd_domain_end(struct rd_domain *domain, bool is_made);
void rd_domain_free(struct rd_domain *domain);

#endif
