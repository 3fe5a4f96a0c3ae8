// SPDX-License-Identifier: GPL-2.0
/*
 * What a test loads in place of libguestfs: the files in $LIBGUESTFS_FAKE/VOL@N are those of a
 * guest with one file system, or VOL@N.tar is the tar of any of them, and VOL@N.raw all that the
 * process sends. With VOL@N.mounts, lines of a directory and a device, it is a system, which
 * mounts these; no device with "bad" in it can be mounted. VOL@N.systems, lines of a device and a
 * type, are its file systems. Of a file "unread" nothing is known, and of those behind "short" even
 * less. So a guest can do what a real one does only after it has broken out of QEMU.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/volume/map/libguestfs.h"

static char root[PATH_MAX], error[300];

static const char *in_root(const char *path)
{
	static char ret[2 * PATH_MAX];

	snprintf(ret, sizeof(ret), "%s%s%s", root, path[0] == '/' ? "" : "/", path);
	return ret;
}

/* Run a command of the shell, with its output to @file. */
static int run(const char *command, const char *dir, const char *file)
{
	pid_t pid = fork();
	int status, fd;

	if (!pid) {
		fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || dup2(fd, 1) < 0)
			_exit(1);
		execl("/bin/sh", "sh", "-c", command, "sh", dir, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	snprintf(error, sizeof(error), "command failed\033[31m");
	return status ? -1 : 0;
}

static char **list_of(const char *a, const char *b, const char *c, const char *d)
{
	char **ret = calloc(5, sizeof(*ret));

	ret[0] = a ? strdup(a) : NULL;
	ret[1] = b ? strdup(b) : NULL;
	ret[2] = c ? strdup(c) : NULL;
	ret[3] = d ? strdup(d) : NULL;
	return ret;
}

/* The words in a file beside the guest; NULL: there is none. */
static char **words(const char *suffix)
{
	char path[PATH_MAX + 8], **ret;
	FILE *file;
	int i;

	snprintf(path, sizeof(path), "%s%s", root, suffix);
	file = fopen(path, "re");
	if (!file)
		return NULL;
	ret = calloc(100, sizeof(*ret));
	for (i = 0; fscanf(file, "%ms", &ret[i]) == 1; i++)
		;
	ret[i] = NULL;
	fclose(file);
	return ret;
}

void *guestfs_create(void) { return root; }
void guestfs_close(void *g) { (void)g; }
const char *guestfs_last_error(void *g) { (void)g; return error; }
void guestfs_set_error_handler(void *g, void *c, void *x) { (void)g; (void)c; (void)x; }
int guestfs_set_backend(void *g, const char *b) { (void)g; (void)b; return 0; }

int guestfs_add_drive_opts_argv(void *g, const char *disk, const struct guestfs_add_drive *how)
{
	(void)g;
	(void)how;
	snprintf(root, sizeof(root), "%s/%s", getenv("LIBGUESTFS_FAKE"), disk);
	return 0;
}

/* What is in a file ".raw" is sent at once. */
int guestfs_launch(void *g)
{
	char raw[PATH_MAX + 8], data[8192];
	int fd;

	(void)g;
	snprintf(raw, sizeof(raw), "%s.raw", root);
	fd = open(raw, O_RDONLY);
	if (fd >= 0) {
		ssize_t len = read(fd, data, sizeof(data));

		(void)!write(3, data, len);
		_exit(0);
	}
	if (access(in_root("/"), X_OK)) {
		printf("what QEMU says\033[31m\302\233\n");
		fflush(stdout);
		snprintf(error, sizeof(error), "no such guest");
		return -1;
	}
	/* Whoever it is can do nothing that root can. */
	if (getuid() == 0 || access("/root/.", R_OK) == 0)
		abort();
	/* It has no terminal, and no program gives it more rights. */
	if (getsid(0) != getpid() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		abort();
	/* What can be large is not where sockets are. */
	snprintf(raw, sizeof(raw), "%s/large", getenv("LIBGUESTFS_TMPDIR"));
	fd = open(raw, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || strstr(raw, getenv("XDG_RUNTIME_DIR")))
		abort();
	close(fd);
	return 0;
}

char **guestfs_inspect_os(void *g)
{
	(void)g;
	return list_of(words(".mounts") ? "/dev/sda" : NULL, NULL, NULL, NULL);
}

char **guestfs_inspect_get_mountpoints(void *g, const char *r)
{
	(void)g;
	(void)r;
	return words(".mounts");
}

char **guestfs_list_filesystems(void *g)
{
	char **systems = words(".systems");

	(void)g;
	if (systems)
		return systems;
	return words(".mounts") ? list_of("/dev/sda", "ext4", "/dev/bad", "xfs") :
		list_of("/dev/sda", "ext4", NULL, NULL);
}

int guestfs_mount_ro(void *g, const char *device, const char *dir)
{
	(void)g;
	(void)dir;
	snprintf(error, sizeof(error), "it is bad");
	return strstr(device, "bad") ? -1 : 0;
}

int guestfs_umount_all(void *g) { (void)g; return 0; }
char *guestfs_vfs_label(void *g, const char *d) { (void)g; (void)d; return strdup("a\033[31mb"); }
int64_t guestfs_blockdev_getsize64(void *g, const char *d) { (void)g; (void)d; return 1 << 20; }
char *guestfs_realpath(void *g, const char *path) { (void)g; return strdup(path); }

static int fill(struct guestfs_statns *ret, const char *path)
{
	struct stat st;

	if (lstat(path, &st)) {
		snprintf(error, sizeof(error), "%.200s", strerror(errno));
		return -1;
	}
	*ret = (struct guestfs_statns){
		.ino = st.st_ino, .mode = st.st_mode, .uid = st.st_uid, .gid = st.st_gid,
		.size = st.st_size, .mtime = st.st_mtim.tv_sec, .mtime_ns = st.st_mtim.tv_nsec,
		.ctime = st.st_mtim.tv_sec,
	};
	return 0;
}

struct guestfs_statns *guestfs_lstatns(void *g, const char *path)
{
	struct guestfs_statns *ret = malloc(sizeof(*ret));

	(void)g;
	return fill(ret, in_root(path)) ? NULL : ret;
}

char **guestfs_ls(void *g, const char *dir)
{
	char **ret = calloc(1000, sizeof(*ret));
	struct dirent **all;
	int i, at = 0, nr = scandir(in_root(dir), &all, NULL, alphasort);

	(void)g;
	for (i = 0; i < nr; i++)
		if (strcmp(all[i]->d_name, ".") && strcmp(all[i]->d_name, ".."))
			ret[at++] = all[i]->d_name;
	return ret;
}

struct guestfs_statns_list *guestfs_lstatnslist(void *g, const char *dir, char *const *names)
{
	struct guestfs_statns_list *ret = calloc(1, sizeof(*ret));
	char path[3 * PATH_MAX];

	(void)g;
	ret->val = calloc(1000, sizeof(*ret->val));
	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", in_root(dir), *names);
		if (!strcmp(*names, "short"))
			break;
		fill(&ret->val[ret->len], path);
		if (!strcmp(*names, "unread"))
			ret->val[ret->len].ino = -1;
		ret->len++;
	}
	return ret;
}

char *guestfs_readlink(void *g, const char *path)
{
	char *ret = calloc(1, PATH_MAX);

	(void)g;
	return readlink(in_root(path), ret, PATH_MAX - 1) < 0 ? NULL : ret;
}

char **guestfs_readlinklist(void *g, const char *dir, char *const *names)
{
	char **ret = calloc(1000, sizeof(*ret)), path[PATH_MAX];
	unsigned int i;

	for (i = 0; names[i]; i++) {
		snprintf(path, sizeof(path), "%s/%.255s", dir, names[i]);
		ret[i] = guestfs_readlink(g, path);
		ret[i] = ret[i] ? ret[i] : strdup("");
	}
	return ret;
}

int guestfs_find0(void *g, const char *dir, const char *file)
{
	(void)g;
	(void)dir;
	return run("cd \"$1\" && find . -mindepth 1 -printf '%P\\0'", root, file);
}

int guestfs_tar_out_opts_argv(void *g, const char *dir, const char *file,
			      const struct guestfs_tar_out *how)
{
	(void)g;
	(void)how;
	(void)dir;
	return run("cat \"$1.tar\" && ! test -e \"$1.cut\"", root, file);
}
