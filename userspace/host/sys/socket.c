// SPDX-License-Identifier: GPL-2.0
/* Connect to a Unix socket; see socket.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/lock.h"
#include "socket.h"

int rd_socket_connect(const char *path)
{
	const unsigned int ms = rd_patience_ms(RD_SOCKET_SECONDS * 1000);
	const struct timeval limit = { ms / 1000, ms % 1000 * 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, r;

	_Static_assert(sizeof(address.sun_path) == RD_SOCKET_PATH + 1, "the path of a socket");
	if (strlen(path) > RD_SOCKET_PATH)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A server that accepts nothing, and has no room for one more, keeps nobody waiting. */
	r = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!r)
		r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (!r)
		return fd;
	r = errno == EAGAIN ? -ETIMEDOUT : -errno;
	close(fd);
	return r;
}
