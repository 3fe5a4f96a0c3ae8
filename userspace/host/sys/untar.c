// SPDX-License-Identifier: GPL-2.0
/* Unpack a tar: see untar.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "run.h"
#include "untar.h"

int rd_untar_is_possible(void)
{
	char *const argv[] = { "bsdtar", "--version", NULL };
	int r = rd_run_quietly(argv, NULL);

	if (r >= 0)
		return 0;
	rd_err(r, "cannot run 'bsdtar'");
	rd_hint("nothing was changed; the Debian package libarchive-tools has it");
	return r;
}

/* Its messages are for the user. It replaces nothing, and makes zeros holes. */
static void become_bsdtar(const char *dir, int fd)
{
	char *const argv[] = { "bsdtar", "-x", "-p", "-k", "-S", "--numeric-owner", "-f", "-", "-C",
			       (char *)dir, geteuid() ? NULL : "--chroot", NULL };

	/* What was written before is not cut by a Ctrl-C: the other end closes the pipe. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(fd, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	execvp(argv[0], argv);
	_exit(127);
}

int rd_untar_start(const char *dir, pid_t *ret_pid, int *ret_fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return rd_err(-errno, "cannot make a pipe");
	signal(SIGPIPE, SIG_IGN);
	*ret_pid = fork();
	if (!*ret_pid)
		become_bsdtar(dir, ends[0]);
	close(ends[0]);
	*ret_fd = ends[1];
	return *ret_pid < 0 ? rd_err(-errno, "cannot start 'bsdtar'") : 0;
}

int rd_untar_end(pid_t pid, int fd)
{
	int status;

	close(fd);
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return rd_err(-errno, "cannot wait for 'bsdtar'");
	if (!status)
		return 0;
	rd_err(0, "'bsdtar' could not unpack all of it");
	return -EIO;
}
