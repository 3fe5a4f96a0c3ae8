/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unpack a tar from a guest with bsdtar, which follows no link out of the directory: where it runs
 * as root, nothing else is there for it (--chroot), and else it refuses what lies behind links.
 *
 * That is a new directory in the one that was named, DIR/.revdedup-XXXXXX, which no other user can
 * enter. Only what was asked for is moved to DIR, once all is unpacked.
 */
#ifndef RD_UNTAR_H
#define RD_UNTAR_H

#include <limits.h>
#include <sys/types.h>

struct rd_untar {
	char dir[PATH_MAX];	/* where it is to be */
	char tmp[PATH_MAX];	/* where it is unpacked */
	pid_t pid;
	int fd;			/* write the tar to it */
};

/* Is bsdtar there? 0, or -errno, after a message. */
int rd_untar_is_possible(void);

/* Start to unpack what is to be in @dir. */
int rd_untar_start(struct rd_untar *untar, const char *dir);

/*
 * End it; and, if @r is 0 so far, move @name, or all of it if that is "", to its place. Returns @r,
 * or what was wrong, after a message. -EEXIST: there is one already.
 */
int rd_untar_end(struct rd_untar *untar, const char *name, int r);

#endif
