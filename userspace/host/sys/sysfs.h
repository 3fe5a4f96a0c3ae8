/* SPDX-License-Identifier: GPL-2.0 */
/* Files of sysfs, which have one line each. */
#ifndef RD_SYSFS_H
#define RD_SYSFS_H

#include <stddef.h>

/* Read the line, without its end; "" where there is no such file. */
void rd_sysfs_line(const char *file, char *ret, size_t size);

#endif
