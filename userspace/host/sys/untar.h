/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unpack a tar from a guest with bsdtar, which follows no link out of the directory: where it runs
 * as root, nothing else is there for it (--chroot), and else it refuses what lies behind links.
 */
#ifndef RD_UNTAR_H
#define RD_UNTAR_H

#include <sys/types.h>

/* Is bsdtar there? 0, or -errno, after a message. */
int rd_untar_is_possible(void);

/* Start to unpack what is written to *@ret_fd below @dir. */
int rd_untar_start(const char *dir, pid_t *ret_pid, int *ret_fd);

/* Close @fd, and wait. -EIO, after a message: not all could be unpacked. */
int rd_untar_end(pid_t pid, int fd);

#endif
