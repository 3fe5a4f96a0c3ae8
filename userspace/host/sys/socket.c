// SPDX-License-Identifier: GPL-2.0
/* Connect to a Unix socket; see socket.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "socket.h"

int rd_socket_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, r;

	_Static_assert(sizeof(address.sun_path) == RD_SOCKET_PATH + 1, "the path of a socket");
	if (strlen(path) > RD_SOCKET_PATH)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	r = -errno;
	close(fd);
	return r;
}
