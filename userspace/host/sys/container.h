/* SPDX-License-Identifier: GPL-2.0 */
/* Formats of files that have a disk in them, such as qcow2. */
#ifndef RD_CONTAINER_H
#define RD_CONTAINER_H

/*
 * Tell by the first bytes of the file or block device @path in which of these formats it is,
 * by the name that qemu-img has for it. NULL: in none, or it cannot be read. A guest can write
 * such bytes to the beginning of a raw disk, so the answer is a guess.
 */
const char *rd_container_format(const char *path);

#endif
