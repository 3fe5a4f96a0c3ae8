/* SPDX-License-Identifier: GPL-2.0 */
/* stdin, stdout and stderr, as a program finds them. */
#ifndef RD_STANDARD_H
#define RD_STANDARD_H

#include <fcntl.h>
#include <stdbool.h>

/*
 * One that is closed would be the number of the next file that is opened, a pool's data
 * area perhaps, and get what is printed. What is put in its place takes nothing, so
 * that one who prints is told. Before anything else is opened; false: not done.
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
