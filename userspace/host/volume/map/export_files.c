// SPDX-License-Identifier: GPL-2.0
/* What runs on this host as an export: a file for each, which its process has locked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "host/sys/run.h"
#include "host/sys/socket.h"
#include "export_files.h"

#define SUFFIX		".export"
#define MAX_TRIES	10
#define PAUSE_US	20000

/* --- paths */

/* As it was at first: a process in the background works in another directory. */
static const char *run_directory(void)
{
	static char ret[PATH_MAX];
	const char *named = getenv("REVDEDUP_RUN"), *user = getenv("XDG_RUNTIME_DIR");
	char here[PATH_MAX];

	if (ret[0])
		return ret;
	if (named && named[0] == '/')
		snprintf(ret, PATH_MAX, "%.3800s", named);
	else if (named && named[0] && getcwd(here, sizeof(here)))
		snprintf(ret, PATH_MAX, "%.1900s/%.1900s", here, named);
	else if (!geteuid())
		snprintf(ret, PATH_MAX, "/run/revdedup");
	else if (user && user[0])
		snprintf(ret, PATH_MAX, "%.3800s/revdedup", user);
	else
		snprintf(ret, PATH_MAX, "/tmp/revdedup-%u", (unsigned int)geteuid());
	return ret;
}

void rd_export_file(char ret[PATH_MAX], const char *name, const char *what)
{
	size_t len = snprintf(ret, PATH_MAX, "%.3900s/", run_directory());
	char *at;

	snprintf(ret + len, PATH_MAX - len, "%.159s.%s", name, what);
	for (at = ret + len; *at; at++)
		if (*at == '/')
			*at = '-';
}

/* A name that is too long for the path of a socket is cut, and told from others by its sum. */
void rd_export_socket(char ret[PATH_MAX], const char *name)
{
	size_t sum_len = strlen("~01234567"), len;
	char cut[RD_EXPORT_NAME];

	rd_export_file(ret, name, "sock");
	len = strlen(ret);
	if (len <= RD_SOCKET_PATH || len - RD_SOCKET_PATH + sum_len >= strlen(name))
		return;
	snprintf(cut, sizeof(cut), "%.*s~%08x",
		 (int)(strlen(name) - (len - RD_SOCKET_PATH) - sum_len), name,
		 crc32c(~0U, name, strlen(name)));
	rd_export_file(ret, cut, "sock");
}

void rd_export_device_name(char ret[RD_EXPORT_NAME], const char *device)
{
	snprintf(ret, RD_EXPORT_NAME, "%.150s:map", device);
}

/* Another user could have made /tmp/revdedup-UID. */
int rd_export_make_directory(void)
{
	const char *dir = run_directory();
	struct stat st;

	/* Whatever the umask is, others may look for a socket that is theirs. */
	if (mkdir(dir, 0755) ? errno != EEXIST : chmod(dir, 0755))
		return rd_err(-errno, "cannot make '%s'", dir);
	if (lstat(dir, &st))
		return rd_err(-errno, "cannot look at '%s'", dir);
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		return 0;
	rd_err(0, "'%s' is not a directory of this user", dir);
	rd_hint("nothing was exported; XDG_RUNTIME_DIR, or REVDEDUP_RUN, names another one");
	return -EPERM;
}

/* --- one */

static int refuse_running(const struct rd_export *export)
{
	rd_err(0, "%s is exported already", export->name);
	if (export->is_own)
		rd_hint("nothing was changed; another command uses it, and ends it");
	else if (export->device[0])
		rd_remedy(RD_REMEDY_UNMAP, export->device, "nothing was changed");
	else
		rd_remedy(RD_REMEDY_UNEXPORT, export->name, "nothing was changed");
	return -EEXIST;
}

/*
 * Open the file @path, and lock it. -EAGAIN: a process has the lock, which may be one that
 * only looked, or has removed the file, which nothing had locked yet.
 */
static int open_locked(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat ours, there;

	if (fd < 0)
		return rd_err(-errno, "cannot make '%s'", path);
	if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &ours) && !stat(path, &there) &&
	    ours.st_ino == there.st_ino)
		return fd;
	close(fd);
	return -EAGAIN;
}

int rd_export_make_file(const struct rd_export *export)
{
	char path[PATH_MAX], text[3 * PATH_MAX + RD_EXPORT_URI];
	int len, tries, fd = -EAGAIN, r = rd_export_make_directory();

	if (r)
		return r;
	rd_export_file(path, export->name, "export");
	for (tries = 0; tries < MAX_TRIES && fd == -EAGAIN; tries++) {
		if (tries)
			usleep(PAUSE_US);
		fd = open_locked(path);
	}
	if (fd == -EAGAIN)
		return refuse_running(export);
	if (fd < 0)
		return fd;
	len = snprintf(text, sizeof(text),
		       "name=%s\nasked=%s\nversion=%s\ndevice=%s\npool=%s\nuri=%s\nsocket=%s\nwritable=%d\nown=%d\n",
		       export->name, export->asked, export->version, export->device, export->pool,
		       export->uri, export->socket, export->writable, export->is_own);
	rd_export_file(path, export->name, "pid");
	unlink(path);
	if (ftruncate(fd, 0) || pwrite(fd, text, len, 0) != len) {
		r = rd_err(errno ? -errno : -EIO, "cannot write to '%s'", path);
		close(fd);
		rd_export_remove_files(export);
		return r;
	}
	return fd;
}

static bool is_locked(const char *path)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

bool rd_export_is_locked(const struct rd_export *export)
{
	char path[PATH_MAX];

	rd_export_file(path, export->name, "export");
	return is_locked(path);
}

int rd_export_keep_tmp(const struct rd_export *export, const char *tmp)
{
	char path[PATH_MAX];

	rd_export_file(path, export->name, "link");
	return symlink(tmp, path) ? rd_err(-errno, "cannot make '%s'", path) : 0;
}

/* Another user has written there: rm follows no link, and needs no lock against that user. */
static void remove_directories(const struct rd_export *export)
{
	char path[PATH_MAX], link[PATH_MAX], tmp[PATH_MAX];
	ssize_t len;

	rd_export_file(path, export->name, "tmp");
	rd_export_file(link, export->name, "link");
	len = readlink(link, tmp, sizeof(tmp) - 1);
	tmp[len > 0 ? len : 0] = '\0';
	rd_run_quietly((char *[]){ "rm", "-rf", "--", path, len > 0 ? tmp : NULL, NULL }, NULL);
	unlink(link);
}

void rd_export_remove_files(const struct rd_export *export)
{
	char path[PATH_MAX];

	if (export->socket[0])
		unlink(export->socket);
	if (export->is_own)
		remove_directories(export);
	rd_export_file(path, export->name, "pid");
	unlink(path);
	rd_export_file(path, export->name, "export");
	unlink(path);
}

bool rd_export_read_pid(struct rd_export *export)
{
	char path[PATH_MAX];
	FILE *file;
	int pid = 0;

	rd_export_file(path, export->name, "pid");
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%d\n", &pid) != 1)
		pid = 0;
	fclose(file);
	export->pid = pid;
	return pid > 0;
}

/* --- all */

static void take_line(struct rd_export *export, const char *line)
{
	const struct {
		const char *key;
		char *to;
		size_t size;
	} texts[] = {
		{ "name=", export->name, sizeof(export->name) },
		{ "asked=", export->asked, sizeof(export->asked) },
		{ "version=", export->version, sizeof(export->version) },
		{ "device=", export->device, sizeof(export->device) },
		{ "pool=", export->pool, sizeof(export->pool) },
		{ "uri=", export->uri, sizeof(export->uri) },
		{ "socket=", export->socket, sizeof(export->socket) },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		if (!strncmp(line, texts[i].key, strlen(texts[i].key)))
			snprintf(texts[i].to, texts[i].size, "%s", line + strlen(texts[i].key));
	if (!strcmp(line, "writable=1"))
		export->writable = true;
	if (!strcmp(line, "own=1"))
		export->is_own = true;
}

static bool read_file(struct rd_export *export, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	memset(export, 0, sizeof(*export));
	if (!file)
		return false;
	while (getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		take_line(export, line);
	}
	free(line);
	fclose(file);
	return export->name[0];
}

static int take_file(struct rd_buffer *ret, const char *path)
{
	struct rd_export export;

	if (!read_file(&export, path))
		return 0;
	if (!is_locked(path)) {
		rd_export_remove_files(&export);
		return 0;
	}
	/* One that is just starting has none. */
	if (!rd_export_read_pid(&export))
		return 0;
	return rd_buffer_put(ret, &export, sizeof(export));
}

int rd_exports(struct rd_buffer *ret)
{
	RD_DIR DIR *files = NULL;
	const char *dir = run_directory();
	const struct dirent *entry;
	char path[PATH_MAX];
	int r = 0;

	files = opendir(dir);
	if (!files)
		return errno == ENOENT ? 0 : rd_err(-errno, "cannot read '%s'", dir);
	while (!r && (entry = readdir(files))) {
		size_t len = strlen(entry->d_name);

		if (len <= strlen(SUFFIX) ||
		    strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX))
			continue;
		snprintf(path, sizeof(path), "%.3800s/%.255s", dir, entry->d_name);
		r = take_file(ret, path);
	}
	return r;
}
