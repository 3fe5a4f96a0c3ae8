// SPDX-License-Identifier: GPL-2.0
/*
 * A version of another pool as a disk over NBD: 'serve' there becomes the server, see cmd_serve.c,
 * and 'serve VOL@VERSION --from' here passes on what it and its client say. The client is nbdkit,
 * which others connect to (host/volume/export.c), or any that starts a server by a command.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "remote.h"

#define FIRST_LISTENING	3

/* From DONE on the other end speaks NBD. */
static int ask(struct ctl *ctl, struct rd_wire *wire, i64 *ret_number)
{
	struct rd_record record;
	int r = ctl_remote_request(ctl, wire, 0);

	if (!r)
		r = rd_wire_expect(wire, RD_REC_DONE, &record);
	if (!r && record.len != sizeof(u64))
		r = rd_wire_refuse(wire, "a version that cannot be read");
	if (!r)
		*ret_number = rd_get_u64(record.data);
	return r;
}

static int check_from(const struct ctl *ctl, const char *from)
{
	struct ctl_remote remote;
	int r = ctl_remote_parse(ctl, from, &remote);

	return r || remote.host[0] ? r :
		ctl_usage(ctl, "--from is a pool of another host: use --pool for '%s'", from);
}

int ctl_find_elsewhere(struct ctl *ctl, struct ctl_version *ret)
{
	const char *from = ctl_value(ctl, CTL_OPT_FROM);
	struct ctl_remote remote;
	struct ctl_name name;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r)
		r = check_from(ctl, from);
	if (!r)
		r = ctl_remote_start(ctl, from, &remote, 'N');
	if (r)
		return r;
	r = ask(ctl, &remote.wire, &ret->version.number);
	snprintf(ret->volume, sizeof(ret->volume), "%s", name.volume);
	ctl_name_print(ret->name, ret->volume, ret->version.number);
	return ctl_remote_end(&remote, r);
}

/* --- joining a client to it */

/* A client of one kind gives a socket that listens, as systemd does; then it is stdin and stdout. */
static int accept_client(void)
{
	const char *pid = getenv("LISTEN_PID");
	int fd;

	if (!pid || atoi(pid) != getpid())
		return 0;
	unsetenv("LISTEN_PID");
	fd = accept(FIRST_LISTENING, NULL, NULL);
	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		return rd_err(-errno, "cannot accept the client");
	close(fd);
	close(FIRST_LISTENING);
	return 0;
}

static int write_all(int fd, const u8 *data, size_t len)
{
	ssize_t n;

	for (; len; data += n, len -= n) {
		n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return -errno;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

/* Pass on what is there. 1: there is no more. */
static int pass(int from, int to)
{
	u8 data[65536];
	ssize_t n = read(from, data, sizeof(data));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? write_all(to, data, n) : 1;
}

/*
 * Until one of them has left. A client only asks, and waits for answers, so what it says always
 * fits into the buffers on the way.
 */
static int join(int fd)
{
	struct pollfd fds[2] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};
	int r = 0;

	while (!r) {
		r = poll(fds, 2, -1) < 0 && errno != EINTR ? -errno : 0;
		if (!r && fds[0].revents)
			r = pass(STDIN_FILENO, fd);
		if (!r && fds[1].revents)
			r = pass(fd, STDOUT_FILENO);
	}
	return r < 0 && r != -EPIPE && r != -ECONNRESET ? r : 0;
}

int ctl_join(struct ctl *ctl)
{
	struct ctl_remote remote;
	const u8 *rest;
	size_t len;
	i64 number;
	int r = accept_client();

	if (!r && (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)))
		r = ctl_usage(ctl, "'serve' speaks NBD with a client, and not with people");
	/* A client may be killed. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (!r)
		r = ctl_remote_start(ctl, ctl_value(ctl, CTL_OPT_FROM), &remote, 'N');
	if (r)
		return r;
	r = ask(ctl, &remote.wire, &number);
	if (r)
		return ctl_remote_end(&remote, r);
	ctl->progress.wire = NULL;
	rest = rd_wire_rest(&remote.wire, &len);
	r = write_all(STDOUT_FILENO, rest, len);
	rd_wire_end(&remote.wire);
	if (!r)
		r = join(remote.wire.in);
	/* A line that is dead would keep it. */
	kill(remote.pid, SIGTERM);
	return ctl_remote_end(&remote, r ? rd_err(r, "cannot pass on what %s says",
						  remote.wire.peer) : 0);
}
