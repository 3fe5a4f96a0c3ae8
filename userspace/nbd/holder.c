// SPDX-License-Identifier: GPL-2.0
/*
 * The process that writes holds to the pool, so that the one which speaks with clients need not
 * be able to write there. It has a session of its own, and ends when the server has closed the
 * socket between them, or died. A server whose holder dies goes on and holds nothing more.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/engine/space/hold.h"
#include "pool/engine/version/session.h"
#include "nbd.h"

struct request {
	i64 version;			/* to hold, or 0 */
	i64 hold;			/* to end */
};

/* Of a request; the first one is about the start. */
struct answer {
	i64 r;
	i64 hold;
};

/* --- the process */

static struct answer do_request(struct rd_pool *pool, const struct request *request)
{
	struct rd_version version = { .id = request->version };
	struct answer answer = { 0 };

	answer.r = request->version ? rd_hold_add(pool, &version, &answer.hold) :
		rd_hold_drop(pool, request->hold);
	return answer;
}

static bool tell(int fd, struct answer answer)
{
	return send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

static void do_all(struct rd_pool *pool, int fd)
{
	struct request request;

	while (recv(fd, &request, sizeof(request), 0) == sizeof(request) &&
	       tell(fd, do_request(pool, &request)))
		;
}

static void run(const char *path, int fd, pid_t server)
{
	struct answer answer = { 0 };
	struct rd_pool *pool;
	bool is_open;

	/* The server ends it. A handler of nbdkit would end the server, by a pipe of both. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_NAME, "revdedup-holder");
	answer.r = rd_session_open(&pool, path, RD_POOL_HOLD, "export", 0, NULL);
	is_open = !answer.r;
	if (is_open)
		answer.r = pool->session ? rd_hold_for(pool, server) : -EROFS;
	if (tell(fd, answer) && !answer.r)
		do_all(pool, fd);
	if (is_open)
		rd_session_close(pool, answer.r);
	_exit(0);
}

/* --- the server's side */

static int hear(const struct nbd_holder *holder, i64 *ret_hold)
{
	struct answer answer;

	if (recv(holder->fd, &answer, sizeof(answer), 0) != sizeof(answer))
		return -EPIPE;
	*ret_hold = answer.hold;
	return answer.r;
}

static int ask(const struct nbd_holder *holder, struct request request, i64 *ret_hold)
{
	if (send(holder->fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		return -EPIPE;
	return hear(holder, ret_hold);
}

int nbd_holder_start(struct nbd_holder *holder, const char *path)
{
	pid_t server = getpid();
	int ends[2], r;
	i64 none;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return rd_err(-errno, "cannot make a socket");
	holder->pid = fork();
	if (!holder->pid) {
		close(ends[0]);
		run(path, ends[1], server);
	}
	close(ends[1]);
	holder->fd = ends[0];
	r = holder->pid < 0 ? rd_err(-errno, "cannot start a process") : hear(holder, &none);
	if (r)
		nbd_holder_stop(holder);
	return r;
}

void nbd_holder_stop(struct nbd_holder *holder)
{
	close(holder->fd);
	if (holder->pid > 0)
		while (waitpid(holder->pid, NULL, 0) < 0 && errno == EINTR)
			;
	holder->pid = 0;
}

int nbd_holder_add(const struct nbd_holder *holder, i64 version, i64 *ret_hold)
{
	return ask(holder, (struct request){ .version = version }, ret_hold);
}

void nbd_holder_drop(const struct nbd_holder *holder, i64 hold)
{
	i64 none;

	ask(holder, (struct request){ .hold = hold }, &none);
}
