/* SPDX-License-Identifier: GPL-2.0 */
/* Connections to servers on this host. */
#ifndef RD_SOCKET_H
#define RD_SOCKET_H

/* The longest path that a Unix socket can have. */
#define RD_SOCKET_PATH	107

/* So long a server may take to have room for one more. */
#define RD_SOCKET_SECONDS	60

/*
 * Connect to the Unix socket at @path. Without a word. -ENAMETOOLONG: see RD_SOCKET_PATH;
 * -ETIMEDOUT: see RD_SOCKET_SECONDS.
 */
int rd_socket_connect(const char *path);

#endif
