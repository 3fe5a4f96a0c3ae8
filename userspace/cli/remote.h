/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The other end of send and receive: 'revdedupctl serve', started for a pool of this host, or by
 * ssh on another, with its stdin and stdout for the stream.
 *
 *	POOL2				a directory of this host
 *	[USER@]HOST:POOL		by ssh
 *	ssh://[USER@]HOST[:PORT]/POOL
 */
#ifndef CTL_REMOTE_H
#define CTL_REMOTE_H

#include <sys/types.h>

#include "pool/stream/wire.h"
#include "cli.h"

struct ctl_remote {
	char host[300];		/* [USER@]HOST, or "": this host */
	char port[8];
	char pool[PATH_MAX];
	bool is_own;		/* the pool that is open here */
	pid_t pid;
	struct ctl_progress *progress;	/* a sign of life for the other end */
	struct rd_wire wire;
};

/* Is --as the name of a volume, if it is given? 0 or CTL_USAGE. */
int ctl_check_as(const struct ctl *ctl);
/* Parse @text. 0 or CTL_USAGE. */
int ctl_remote_parse(const struct ctl *ctl, const char *text, struct ctl_remote *ret);
/* Start the other end, and say who we are: 'S', 'R', or 'N' (remote_disk.c). */
int ctl_remote_start(struct ctl *ctl, const char *text, struct ctl_remote *remote, char who);
/* End it. @r is what became of the work: the other end is told of an error. Returns @r. */
int ctl_remote_end(struct ctl_remote *remote, int r);

/* Ask the other end, as one that receives, for what the first @nr operands name. */
int ctl_remote_request(struct ctl *ctl, struct rd_wire *wire, int nr, u64 newest);

/* Find the version of another pool that the operand names: its name and number. */
int ctl_find_elsewhere(struct ctl *ctl, struct ctl_version *ret);
/* Join stdin and stdout, which speak NBD, to it. */
int ctl_join(struct ctl *ctl);

/* Fill in the rest of @wire, whose files are set, as the options say. 0 or CTL_USAGE. */
int ctl_wire(struct ctl *ctl, struct rd_wire *wire);

#endif
