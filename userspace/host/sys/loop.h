/* SPDX-License-Identifier: GPL-2.0 */
/* Loop devices, which make block devices of files. */
#ifndef RD_LOOP_H
#define RD_LOOP_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/units.h"

#define RD_LOOP_PATH	32

/* Make a file without a name in the directory @dir. Its fd, or -errno; says what failed. */
int rd_temporary_file(const char *dir, u64 bytes);

/*
 * Make a loop device over the file or block device @fd, with logical blocks of 512 bytes.
 * The kernel removes it when it is closed for the last time, so that no crash leaves one.
 * Returns an fd of it, to be closed once a table has the device, or -errno; says what
 * failed.
 */
int rd_loop_open(int fd, bool read_only, char path[RD_LOOP_PATH]);

/* 1: the block device with this number, "7:0", is a loop device over @file. 0: not. */
int rd_loop_is_over(const char *number, const struct stat *file);

/* A loop device gets the size of the file that it is over; another device stays as it is. */
int rd_loop_grow(const char *number);

/* Is there a loop device over this file? Then @path is one. */
bool rd_loop_find(const struct stat *file, char path[RD_LOOP_PATH]);

#endif
