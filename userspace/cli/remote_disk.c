// SPDX-License-Identifier: GPL-2.0
/*
 * A version of another pool as a disk over NBD: 'serve' there becomes the server, see cmd_serve.c,
 * and 'serve VOL@VERSION --from' here passes on what it and its client say. The client is nbdkit,
 * which others connect to (host/volume/map/export.c), or any that starts a server by a command.
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

/*
 * Find out which version it is: @name, of the first operand. From DONE on the other end speaks NBD,
 * and nothing of ours may come in between.
 */
static int ask(struct ctl *ctl, struct rd_wire *wire, const struct ctl_name *name,
	       i64 *ret_number)
{
	struct rd_record record;
	i64 number = 0;
	int r = ctl_remote_request(ctl, wire, 1, 0);

	wire->out = -1;
	if (!r)
		r = rd_wire_expect(wire, RD_REC_DONE, &record);
	if (r)
		return r;
	if (record.len == sizeof(number))
		number = rd_get_u64(record.data);
	if (number <= 0 || (name->kind == CTL_NAME_NUMBER && number != name->number))
		return rd_wire_refuse(wire, "another version");
	*ret_number = number;
	return 0;
}

/* Read operand and --from, which others print, and files have in a line. */
static int check(struct ctl *ctl, const char *from, struct ctl_name *ret)
{
	struct ctl_remote remote;
	const char *c = from;
	int r = ctl_version_operand(ctl, 0, true, ret);

	while (!r && *c >= ' ' && *c != 127)
		c++;
	if (!r && *c)
		return ctl_usage(ctl, "'%s' is no name of a pool", from);
	if (!r)
		r = ctl_remote_parse(ctl, from, &remote);
	return r || remote.host[0] ? r :
		ctl_usage(ctl, "--from is a pool of another host: use --pool for '%s'", from);
}

/* Nobody listens there any more: a line that is dead would keep us. */
static int end(struct ctl_remote *remote, int r)
{
	kill(remote->pid, SIGTERM);
	return ctl_remote_end(remote, r);
}

int ctl_find_elsewhere(struct ctl *ctl, struct ctl_version *ret)
{
	const char *from = ctl_value(ctl, CTL_OPT_FROM);
	struct ctl_remote remote;
	struct ctl_name name;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = check(ctl, from, &name);
	if (!r)
		r = ctl_remote_start(ctl, from, &remote, 'N');
	if (r)
		return r;
	r = ask(ctl, &remote.wire, &name, &ret->version.number);
	snprintf(ret->volume, sizeof(ret->volume), "%s", name.volume);
	ctl_name_print(ret->name, ret->volume, ret->version.number);
	return end(&remote, r);
}

/* --- joining a client to it */

/* One kind of client gives a socket that listens, as systemd does: it is stdin and stdout then. */
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
	return 0;
}

/* Wait until the file can be read, or written to. Either may be one that does not block. */
static int wait_for(int fd, short events, const volatile int *stop)
{
	struct pollfd one = { .fd = fd, .events = events };

	if (poll(&one, 1, -1) < 0 && errno != EINTR)
		return -errno;
	return *stop ? -EINTR : 0;
}

static int write_all(int fd, const u8 *data, size_t len, const volatile int *stop)
{
	ssize_t n;
	int r = 0;

	for (; len && !r; data += n, len -= n) {
		n = write(fd, data, len);
		if (n >= 0)
			continue;
		r = errno == EINTR || errno == EAGAIN ? wait_for(fd, POLLOUT, stop) : -errno;
		n = 0;
	}
	return r;
}

/* Pass on what is there. 1: there is no more. */
static int pass(int from, int to, const volatile int *stop)
{
	u8 data[65536];
	ssize_t n = read(from, data, sizeof(data));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	return n ? write_all(to, data, n, stop) : 1;
}

/*
 * Until one of them has left. A client only asks, and waits for answers, so what it says always
 * fits into the buffers on the way.
 */
static int join(int fd, const volatile int *stop)
{
	struct pollfd fds[2] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};
	int r = 0;

	while (!r && !*stop) {
		r = poll(fds, 2, -1) < 0 && errno != EINTR ? -errno : 0;
		if (!r && fds[0].revents)
			r = pass(STDIN_FILENO, fd, stop);
		if (!r && fds[1].revents)
			r = pass(fd, STDOUT_FILENO, stop);
	}
	return r == 1 || r == -EPIPE || r == -ECONNRESET || r == -EINTR ? 0 : r;
}

int ctl_join(struct ctl *ctl)
{
	const volatile int *stop = ctl->progress.progress.stop;
	const char *from = ctl_value(ctl, CTL_OPT_FROM);
	struct ctl_remote remote;
	struct ctl_name name;
	const u8 *rest;
	size_t len;
	i64 number;
	int r = check(ctl, from, &name);

	if (!r)
		r = accept_client();
	if (!r && (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)))
		r = ctl_usage(ctl, "'serve' speaks NBD with a client, and not with people");
	/* A client may be killed, and has files that are no business of ours, such as a lock. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	if (!r)
		r = ctl_remote_start(ctl, from, &remote, 'N');
	if (r)
		return r;
	r = ask(ctl, &remote.wire, &name, &number);
	if (r)
		return end(&remote, r);
	rest = rd_wire_rest(&remote.wire, &len);
	r = write_all(STDOUT_FILENO, rest, len, stop);
	if (!r)
		r = join(remote.wire.in, stop);
	if (r)
		rd_err(r, "cannot pass on what %s says", remote.wire.peer);
	return end(&remote, r);
}
