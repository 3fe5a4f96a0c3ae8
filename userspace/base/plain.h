/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files in a directory that a stranger may have filled, such as a pool that was copied from
 * elsewhere. A link in the place of a file, or a second name of a file, would have a command
 * write outside of the directory; to open a fifo or a device does something by itself.
 *
 * For root there is more: who owns the directory or a file, or may write to the directory, can
 * exchange a file at any moment, while root uses it. So both belong to root then.
 */
#ifndef RD_PLAIN_H
#define RD_PLAIN_H

#include <stdbool.h>
#include <sys/types.h>

/* May this user use the directory @path? -EPERM, after a message. Where there is none: 0. */
int rd_check_directory(const char *path);

/*
 * Is there a plain file @path, which this user may use? -ENOENT, -EPERM after a message, other
 * -errno. @write: the file has no other name. @links: a link to a file or to a block device is
 * one as well, if the link is this user's; the data area may be one.
 */
int rd_check_plain(const char *path, bool write, bool links);

/*
 * Open the plain file @path with O_CLOEXEC. -EPERM: it is none, after a message. Like open(),
 * whose @flags may have O_CREAT, O_EXCL and O_TRUNC; what is refused is not truncated.
 */
int rd_open_plain(const char *path, int flags, mode_t mode);

#endif
