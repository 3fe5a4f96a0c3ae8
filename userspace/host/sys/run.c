// SPDX-License-Identifier: GPL-2.0
/* Run other programs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/read_text.h"
#include "run.h"

extern char **environ;

/* Start a program in its own group, so that Ctrl-C does not interrupt LVM. Prints nothing. */
static int start(char *const *argv, int out, int err, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t signals;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	posix_spawnattr_init(&attr);
	/* A guard ignores these signals; the programs that it runs must not. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGPIPE);
	posix_spawnattr_setsigdefault(&attr, &signals);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawnp(ret_pid, argv[0], &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int tell_unstarted(int r, const char *program)
{
	return r ? rd_err(r, "cannot run '%s'", program) : 0;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Print what a program that failed has written to @fd. */
static void repeat(int fd)
{
	char text[4096];
	ssize_t len;
	off_t at = 0;

	while ((len = pread(fd, text, sizeof(text), at)) > 0) {
		fwrite(text, 1, len, stderr);
		at += len;
	}
}

static int run(char *const *argv, struct rd_buffer *ret_output, bool is_quiet)
{
	/* Not a pipe: nothing reads it while stdout is read. */
	RD_CLOSE int err = memfd_create("stderr", MFD_CLOEXEC);
	bool is_shown = err < 0 || (rd_verbosity > 0 && !is_quiet);
	int ends[2], status, r = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return rd_err(-errno, "cannot make a pipe");
	r = start(argv, ends[1], is_shown ? STDERR_FILENO : err, &pid);
	close(ends[1]);
	if (r && !is_quiet)
		tell_unstarted(r, argv[0]);
	if (!r) {
		struct rd_buffer none = { 0 };

		r = rd_read_text(ends[0], SIZE_MAX, ret_output ? ret_output : &none);
		rd_buffer_free(&none);
		status = wait_for(pid);
		if (status && !is_quiet && !is_shown)
			repeat(err);
		r = r ? rd_err(r, "cannot read the output of '%s'", argv[0]) : status;
	}
	close(ends[0]);
	return r;
}

int rd_run(char *const *argv, struct rd_buffer *ret_output)
{
	return run(argv, ret_output, false);
}

int rd_run_quietly(char *const *argv, struct rd_buffer *ret_output)
{
	return run(argv, ret_output, true);
}

/* --- with a limit */

bool rd_run_ends_within(pid_t pid, u64 ms)
{
	u64 end = rd_now_us() + ms * 1000, now;
	struct pollfd wait = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	int r = 0;

	while (wait.fd >= 0 && r <= 0 && (now = rd_now_us()) < end)
		r = poll(&wait, 1, (end - now + 999) / 1000);
	if (wait.fd >= 0)
		close(wait.fd);
	return r > 0;
}

int rd_run_within(char *const *argv, unsigned int seconds, pid_t *running)
{
	bool in_time;
	pid_t pid;
	int r;

	r = tell_unstarted(start(argv, STDERR_FILENO, STDERR_FILENO, &pid), argv[0]);
	if (r)
		return r;
	*running = pid;
	in_time = rd_run_ends_within(pid, seconds * 1000ULL);
	if (!in_time)
		kill(-pid, SIGKILL);
	r = wait_for(pid);
	*running = 0;
	return in_time ? r : -ETIME;
}
