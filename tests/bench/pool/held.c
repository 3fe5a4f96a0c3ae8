// SPDX-License-Identifier: GPL-2.0
/*
 * held REPORT POOL COMMAND [ARGUMENT]...: run COMMAND, and add to the file REPORT a line with
 * the microseconds of the longest transaction on the catalog of POOL meanwhile. Exit with the
 * status of COMMAND.
 *
 * A transaction that writes holds the first lock in the index of SQLite's log, see "WAL-mode
 * File Format". It asks some thousand times a second who holds it, and takes no lock. Of two
 * transactions between which it did not ask it makes one.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of WAL_WRITE_LOCK. */
#define LOCK_OFFSET	120

static long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* The file comes and goes with the commands, so it is opened each time. */
static bool is_held(const char *index)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = LOCK_OFFSET, .l_len = 1 };
	int fd = open(index, O_RDWR | O_CLOEXEC);
	int r;

	if (fd < 0)
		return false;
	r = fcntl(fd, F_GETLK, &lock);
	close(fd);
	return !r && lock.l_type == F_WRLCK;
}

int main(int argc, char **argv)
{
	long long since = 0, longest = 0, now;
	char index[PATH_MAX];
	FILE *report;
	pid_t child;
	int status;

	if (argc < 4)
		errx(2, "usage: held REPORT POOL COMMAND [ARGUMENT]...");
	snprintf(index, sizeof(index), "%s/catalog.db-shm", argv[2]);
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		execvp(argv[3], argv + 3);
		err(127, "'%s'", argv[3]);
	}
	while (!waitpid(child, &status, WNOHANG)) {
		now = now_us();
		if (!is_held(index))
			since = 0;
		else if (!since)
			since = now;
		if (since && now - since > longest)
			longest = now - since;
		usleep(100);
	}
	report = fopen(argv[1], "a");
	if (!report || fprintf(report, "%lld\n", longest) < 0 || fclose(report))
		err(1, "'%s'", argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
