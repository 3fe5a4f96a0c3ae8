/* SPDX-License-Identifier: GPL-2.0 */
/* Connections to servers on this host. */
#ifndef RD_SOCKET_H
#define RD_SOCKET_H

/* The longest path that a Unix socket can have. */
#define RD_SOCKET_PATH	107

/* Connect to the Unix socket at @path. Without a word. -ENAMETOOLONG: see RD_SOCKET_PATH. */
int rd_socket_connect(const char *path);

#endif
