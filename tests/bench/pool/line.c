// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: line BYTES DELAY COMMAND...
 *
 * Run COMMAND behind a line: what goes to it and comes from it passes at BYTES a second, and
 * arrives DELAY ms later. As much is on its way as a connection would have: what the line holds in
 * both directions, and a socket's buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE	16384
#define PIECES	4096
#define SOCKET	(1 << 20)

struct way {
	int in, out;
	double next;		/* when the line is free, in s */
	unsigned int first, nr;
	size_t bytes;
	struct piece {
		double due;
		size_t len, done;
		char data[PIECE];
	} pieces[PIECES];
};

static double rate, delay;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int has_room(const struct way *way)
{
	return way->in >= 0 && way->nr < PIECES && way->bytes < rate * 2 * delay + SOCKET;
}

static void take(struct way *way)
{
	struct piece *piece = &way->pieces[(way->first + way->nr) % PIECES];
	ssize_t n = read(way->in, piece->data, PIECE);
	double t = now();

	if (n <= 0) {
		close(way->in);
		way->in = -1;
		return;
	}
	piece->len = n;
	piece->done = 0;
	way->next = (way->next > t ? way->next : t) + n / rate;
	piece->due = way->next + delay;
	way->bytes += n;
	way->nr++;
}

static void give(struct way *way)
{
	struct piece *piece = &way->pieces[way->first];
	ssize_t n = write(way->out, piece->data + piece->done, piece->len - piece->done);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		way->nr = 0;
		if (way->in >= 0)
			close(way->in);
		way->in = -1;
		return;
	}
	piece->done += n;
	way->bytes -= n;
	if (piece->done == piece->len) {
		way->first = (way->first + 1) % PIECES;
		way->nr--;
	}
}

/* What is to be waited for: in ms, or until an event. */
static int wait_for(const struct way *way, struct pollfd fds[2])
{
	double t = now();

	fds[0] = (struct pollfd){ .fd = has_room(way) ? way->in : -1, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = -1, .events = POLLOUT };
	if (!way->nr)
		return -1;
	if (way->pieces[way->first].due <= t) {
		fds[1].fd = way->out;
		return -1;
	}
	return (way->pieces[way->first].due - t) * 1000 + 1;
}

int main(int argc, char **argv)
{
	static struct way ways[2];
	int to[2], from[2], i, status;
	struct pollfd fds[4];
	pid_t pid;

	if (argc < 4 || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return 2;
	rate = atof(argv[1]);
	delay = atof(argv[2]) / 1000;
	pid = fork();
	if (!pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	ways[0] = (struct way){ .in = 0, .out = to[1] };
	ways[1] = (struct way){ .in = from[0], .out = 1 };
	fcntl(to[1], F_SETFL, O_NONBLOCK);
	while (ways[1].in >= 0 || ways[1].nr) {
		int ms = 1000;

		for (i = 0; i < 2; i++) {
			int more = wait_for(&ways[i], fds + 2 * i);

			if (more >= 0 && more < ms)
				ms = more;
		}
		if (poll(fds, 4, ms) <= 0)
			continue;
		for (i = 0; i < 2; i++) {
			if (fds[2 * i].revents)
				take(&ways[i]);
			if (fds[2 * i + 1].revents)
				give(&ways[i]);
		}
		if (ways[0].in < 0 && !ways[0].nr && ways[0].out >= 0) {
			close(ways[0].out);
			ways[0].out = -1;
		}
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
