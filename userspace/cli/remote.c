// SPDX-License-Identifier: GPL-2.0
/* The other end of send and receive: see remote.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/sys/run.h"
#include "names.h"
#include "remedies.h"
#include "remote.h"

#define MAX_PROGRAM	1000
#define KILL_MS		3000

static int refuse(const struct ctl *ctl, const char *text)
{
	return ctl_usage(ctl, "'%s' is neither a pool nor [USER@]HOST:POOL", text);
}

static bool copy(char *to, size_t size, const char *from, size_t len)
{
	if (len >= size)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

static bool parse_url(const char *text, struct ctl_remote *ret)
{
	const char *path = strchr(text, '/'), *port;

	if (!path)
		return false;
	port = memchr(text, ':', path - text);
	if (port && !copy(ret->port, sizeof(ret->port), port + 1, path - port - 1))
		return false;
	return copy(ret->host, sizeof(ret->host), text, (port ? port : path) - text) &&
		copy(ret->pool, sizeof(ret->pool), path, strlen(path));
}

int ctl_check_as(const struct ctl *ctl)
{
	const char *as = ctl_value(ctl, CTL_OPT_AS);

	return !as || ctl_is_volume(as) ? 0 :
		ctl_usage(ctl, "--as: '%s' is not the name of a volume", as);
}

int ctl_remote_parse(const struct ctl *ctl, const char *text, struct ctl_remote *ret)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
	bool fine;

	memset(ret, 0, sizeof(*ret));
	if (!strncmp(text, "ssh://", 6))
		fine = parse_url(text + 6, ret) && ret->host[0];
	else if (colon && (!slash || colon < slash))
		fine = copy(ret->host, sizeof(ret->host), text, colon - text) && ret->host[0] &&
			copy(ret->pool, sizeof(ret->pool), colon + 1, strlen(colon + 1));
	else
		fine = copy(ret->pool, sizeof(ret->pool), text, strlen(text));
	/* ssh would take it for an option. */
	return fine && ret->host[0] != '-' && ret->pool[0] ? 0 : refuse(ctl, text);
}

/* --- starting it */

/* Quote for the shell of the other host. */
static bool quote(char *to, size_t size, const char *text)
{
	size_t len = 0;

	for (; *text && len + 6 < size; text++) {
		if (*text == '\'') {
			memcpy(to + len, "'\\''", 4);
			len += 4;
		} else {
			to[len++] = *text;
		}
	}
	to[len] = '\0';
	return !*text;
}

static void run_here(const struct ctl_remote *remote)
{
	execl("/proc/self/exe", "revdedupctl", "--pool", remote->pool, "serve", "--share", "all",
	      NULL);
}

/* The program for connecting may have options: the shell takes it apart. */
static void run_there(const struct ctl *ctl, const struct ctl_remote *remote)
{
	const char *rsh = ctl_value(ctl, CTL_OPT_RSH);
	char program[MAX_PROGRAM + 40], command[2 * PATH_MAX + 100], pool[2 * PATH_MAX];

	snprintf(program, sizeof(program), "exec %.*s \"$@\"", MAX_PROGRAM, rsh ? rsh : "ssh");
	if (!quote(pool, sizeof(pool), remote->pool))
		return;
	/* Who is not root has no sbin in the path that sshd gives. */
	snprintf(command, sizeof(command),
		 "env \"PATH=$PATH:/usr/local/sbin:/usr/sbin\" revdedupctl --pool '%s' serve",
		 pool);
	if (remote->port[0])
		execl("/bin/sh", "sh", "-c", program, "sh", "-p", remote->port, remote->host,
		      command, NULL);
	else
		execl("/bin/sh", "sh", "-c", program, "sh", remote->host, command, NULL);
}

static void run_child(const struct ctl *ctl, const struct ctl_remote *remote, int fd)
{
	signal(SIGPIPE, SIG_DFL);
	if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		_exit(127);
	if (remote->host[0])
		run_there(ctl, remote);
	else
		run_here(remote);
	_exit(127);
}

int ctl_wire(struct ctl *ctl, struct rd_wire *wire)
{
	u64 rate = 0;
	int r = ctl_value_size(ctl, CTL_OPT_RATE, &rate);

	wire->pace.rate = rate;
	wire->stop = ctl->progress.progress.stop;
	/* A pipe that is closed is an error of the write. */
	signal(SIGPIPE, SIG_IGN);
	return r;
}

/* A pool that is sent to itself would look like a copy elsewhere. */
static int check_own(const struct ctl *ctl, struct ctl_remote *remote)
{
	struct stat own, other;

	remote->is_own = ctl->pool && !remote->host[0] && !stat(ctl->pool->path, &own) &&
		!stat(remote->pool, &other) && own.st_dev == other.st_dev &&
		own.st_ino == other.st_ino;
	if (!remote->is_own || ctl_has(ctl, CTL_OPT_AS))
		return 0;
	rd_err(0, "'%s' is this pool itself", remote->pool);
	rd_hint("nothing was copied; --as NAME makes a volume of another name in it");
	return CTL_FAILED;
}

int ctl_remote_start(struct ctl *ctl, const char *text, struct ctl_remote *remote, char who)
{
	int fds[2], r;
	char other;

	r = ctl_remote_parse(ctl, text, remote);
	remote->progress = &ctl->progress;
	if (!r)
		r = check_own(ctl, remote);
	if (!r)
		r = ctl_wire(ctl, &remote->wire);
	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return rd_err(-errno, "cannot make a pair of sockets");
	remote->pid = fork();
	if (!remote->pid)
		run_child(ctl, remote, fds[1]);
	close(fds[1]);
	remote->wire.in = fds[0];
	remote->wire.out = fds[0];
	remote->wire.peer = remote->host[0] ? remote->host : remote->pool;
	if (remote->pid < 0) {
		r = rd_err(-errno, "cannot start the other end");
		close(fds[0]);
		return r;
	}
	r = rd_wire_begin(&remote->wire, who, &other);
	if (!r && other == who)
		r = rd_wire_refuse(&remote->wire, "that it does the same as we");
	ctl->progress.wire = &remote->wire;
	return r ? ctl_remote_end(remote, r) : 0;
}

/*
 * Do not wait without limit where the work has failed: ssh lives as long as the connection does,
 * and a disk that does not answer can hold serve for ever. One that has been silent for the whole
 * patience gets no more of it. Not even SIGKILL ends what waits for a disk of this host.
 */
static void make_end(const struct ctl_remote *remote)
{
	bool has_ended = !remote->wire.is_given_up &&
		rd_run_ends_within(remote->pid, remote->wire.patience * 1000ULL);

	if (!has_ended) {
		kill(remote->pid, SIGTERM);
		has_ended = rd_run_ends_within(remote->pid, KILL_MS);
	}
	if (!has_ended) {
		kill(remote->pid, SIGKILL);
		rd_run_ends_within(remote->pid, KILL_MS);
	}
	waitpid(remote->pid, NULL, WNOHANG);
}

int ctl_remote_end(struct ctl_remote *remote, int r)
{
	const char *why = ctl_first_error();

	if (r && r != -EREMOTEIO)
		rd_wire_fail(&remote->wire, why[0] ? why : "it failed");
	remote->progress->wire = NULL;
	rd_wire_end(&remote->wire);
	close(remote->wire.in);
	if (r)
		make_end(remote);
	else
		while (waitpid(remote->pid, NULL, 0) < 0 && errno == EINTR)
			;
	if (r == -EPIPE && remote->host[0] && !remote->wire.received)
		rd_hint("is revdedupctl installed there, and the name of the host right?");
	return r;
}

int ctl_remote_request(struct ctl *ctl, struct rd_wire *wire, int nr, u64 newest)
{
	RD_BUFFER struct rd_buffer payload = { 0 };
	u8 head[8] = { 0 };
	int i, r;

	rd_put_u32(head, newest);
	rd_buffer_put(&payload, head, sizeof(head));
	for (i = 0; i < nr; i++)
		rd_buffer_put(&payload, ctl->operands[i], strlen(ctl->operands[i]) + 1);
	r = rd_wire_put_buffer(wire, RD_REC_REQUEST, &payload);
	return r ? r : rd_wire_flush(wire);
}
