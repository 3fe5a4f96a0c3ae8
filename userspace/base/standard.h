/* SPDX-License-Identifier: GPL-2.0 */
/* The standard files, which may be closed when a program starts. */
#ifndef RD_STANDARD_H
#define RD_STANDARD_H

#include <fcntl.h>
#include <stdbool.h>

/*
 * Occupy the numbers of standard files that are closed. Otherwise the next file that the
 * program opens, perhaps the data area of a pool, would get that number, and the output
 * with it. The substitute refuses writes, so that a print fails. Call this before any
 * other file is opened; false: it failed.
 */
static inline bool rd_hold_standard_files(void)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
			return false;
	return true;
}

#endif
