// SPDX-License-Identifier: GPL-2.0
/* Unpack a tar: see untar.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
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

/*
 * Its messages are for the user. It replaces nothing, and makes zeros holes. The locale is the one
 * in which names of a tar are not converted: glibc would load code for that, of the directory that
 * is the root by then. No variable tells it or others more.
 */
static void become_bsdtar(const struct rd_untar *untar, int fd)
{
	char path[PATH_MAX + 8], *const env[] = { path, "LC_ALL=C.UTF-8", NULL };
	char *const argv[] = { "bsdtar", "-x", "-p", "-k", "-S", "--numeric-owner", "-f", "-", "-C",
			       (char *)untar->tmp, geteuid() ? NULL : "--chroot", NULL };
	const char *search = getenv("PATH");

	/* What was written before is not cut by a Ctrl-C: the other end closes the pipe. */
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	snprintf(path, sizeof(path), "PATH=%s", search ? search : "/usr/bin:/bin");
	if (dup2(fd, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	execvpe(argv[0], argv, env);
	_exit(127);
}

static void remove_tmp(const struct rd_untar *untar)
{
	char *const argv[] = { "rm", "-rf", "--", (char *)untar->tmp, NULL };
	char *const open_argv[] = { "chmod", "-R", "u+rwx", "--", (char *)untar->tmp, NULL };

	/* Only root removes what is in a directory that cannot be written to. */
	if (geteuid())
		rd_run_quietly(open_argv, NULL);
	if (rd_run_quietly(argv, NULL))
		rd_warn("cannot remove '%s'", untar->tmp);
}

int rd_untar_start(struct rd_untar *untar, const char *dir)
{
	int ends[2];

	if (!realpath(dir, untar->dir))
		return rd_err(-errno, "cannot find '%s'", dir);
	snprintf(untar->tmp, sizeof(untar->tmp), "%.4000s/.revdedup-XXXXXX", untar->dir);
	if (pipe2(ends, O_CLOEXEC))
		return rd_err(-errno, "cannot make a pipe");
	untar->fd = ends[1];
	if (!mkdtemp(untar->tmp)) {
		close(ends[0]);
		close(ends[1]);
		return rd_err(-errno, "cannot make a directory in '%s'", untar->dir);
	}
	signal(SIGPIPE, SIG_IGN);
	untar->pid = fork();
	if (!untar->pid)
		become_bsdtar(untar, ends[0]);
	close(ends[0]);
	if (untar->pid > 0)
		return 0;
	close(ends[1]);
	remove_tmp(untar);
	return rd_err(-EAGAIN, "cannot start 'bsdtar'");
}

static int wait_for(const struct rd_untar *untar)
{
	int status;

	while (waitpid(untar->pid, &status, 0) != untar->pid)
		if (errno != EINTR)
			return rd_err(-errno, "cannot wait for 'bsdtar'");
	if (!status)
		return 0;
	rd_err(0, "'bsdtar' could not unpack all of it");
	return -EIO;
}

/* Some file systems, as NFS, cannot refuse to replace. */
static int move_without(int from, int to, const char *name)
{
	struct stat st;

	if (!fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	return errno != ENOENT || renameat(from, name, to, name) ? -errno : 0;
}

static int move_between(int from, int to, const char *name)
{
	bool is_closed;
	struct stat st;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	/* Whoever moves a directory must be able to write to it, unless that is root. */
	is_closed = geteuid() && S_ISDIR(st.st_mode) && !(st.st_mode & 0200);
	if (is_closed && fchmodat(from, name, st.st_mode | 0200, 0))
		return -errno;
	r = renameat2(from, name, to, name, RENAME_NOREPLACE) ? -errno : 0;
	if (r == -EINVAL)
		r = move_without(from, to, name);
	if (!r && is_closed && fchmodat(to, name, st.st_mode, 0))
		r = -errno;
	return r;
}

static int move(const struct rd_untar *untar, const char *name)
{
	RD_CLOSE int from = open(untar->tmp, O_PATH | O_DIRECTORY | O_CLOEXEC);
	RD_CLOSE int to = open(untar->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = from < 0 || to < 0 ? -errno : 0;

	if (!r)
		r = move_between(from, to, name);
	if (r == -EEXIST)
		rd_err(0, "there is '%s/%s' already", untar->dir, name);
	else if (r == -ENOENT)
		rd_err(0, "'%s' is not in what the guest has sent", name);
	else if (r)
		rd_err(r, "cannot move '%s' to '%s'", name, untar->dir);
	return r;
}

static int move_all(const struct rd_untar *untar)
{
	RD_DIR DIR *all = opendir(untar->tmp);
	const struct dirent *entry;
	int r = 0;

	if (!all)
		return rd_err(-errno, "cannot read '%s'", untar->tmp);
	while (!r && (entry = readdir(all)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = move(untar, entry->d_name);
	return r;
}

int rd_untar_end(struct rd_untar *untar, const char *name, int r)
{
	int r2;

	close(untar->fd);
	r2 = wait_for(untar);
	/* bsdtar says why it reads no more. */
	if (!r || r == -EPIPE)
		r = r2 ? r2 : r;
	if (!r)
		r = name[0] ? move(untar, name) : move_all(untar);
	remove_tmp(untar);
	return r;
}
