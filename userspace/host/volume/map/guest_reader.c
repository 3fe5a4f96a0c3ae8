// SPDX-License-Identifier: GPL-2.0
/*
 * Read a guest's files by libguestfs: see guest.h. This is a process of its own, without rights,
 * that prints nothing, and sends records.
 *
 * libguestfs is called, and not its program guestfish: a name from a guest or a user is an argument
 * then, and no part of a command that would have to be quoted.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "guest_reader.h"
#include "libguestfs.h"

/* How many files are asked for at a time. */
#define BATCH		512

struct reader {
	const struct rd_guest_options *options;
	const struct rd_libguestfs *lib;
	void *g;
	const char *path;	/* without its device */
	const char *prefix;	/* the device, or "" */
};

/* --- sending */

static int send_all(const void *data, size_t len)
{
	while (len) {
		ssize_t nr = write(RD_GUEST_FD_RECORDS, data, len);

		if (nr < 0)
			return -errno;
		data = (const char *)data + nr;
		len -= nr;
	}
	return 0;
}

static int send_record(const struct rd_guest_record *record)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	struct rd_guest_head head = { .record = *record };
	unsigned int i;

	for (i = 0; i < RD_GUEST_TEXTS; i++) {
		const char *text = record->text[i] ? record->text[i] : "";

		head.len[i] = strnlen(text, RD_GUEST_TEXT_MAX - 1) + 1;
		head.record.text[i] = NULL;
	}
	rd_buffer_put(&all, &head, sizeof(head));
	for (i = 0; i < RD_GUEST_TEXTS; i++) {
		rd_buffer_put(&all, record->text[i] ? record->text[i] : "", head.len[i] - 1);
		rd_buffer_put_u8(&all, 0);
	}
	return all.failed ? -ENOMEM : send_all(all.data, all.len);
}

/* What libguestfs has failed at. Returns -EIO. */
__attribute__((format(printf, 3, 4)))
static int tell(struct reader *reader, enum rd_guest_kind kind, const char *fmt, ...)
{
	const char *why = reader->g ? reader->lib->last_error(reader->g) : NULL;
	struct rd_guest_record record = { .kind = kind };
	char what[1024], text[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	snprintf(text, sizeof(text), "%s%s%.2000s", what, why ? ": " : "", why ? why : "");
	record.text[0] = text;
	send_record(&record);
	return -EIO;
}

static int send_file(const struct guestfs_statns *st, const char *path, const char *link)
{
	const struct rd_guest_record record = {
		.kind = RD_GUEST_FILE,
		.mode = st->mode,
		.uid = st->uid,
		.gid = st->gid,
		.size = st->size,
		.inode = st->ino,
		.mtime = st->mtime,
		.mtime_ns = st->mtime_ns,
		.ctime = st->ctime,
		.ctime_ns = st->ctime_ns,
		.text = { path, link },
	};

	return send_record(&record);
}

/* What libguestfs does not say is wrong. Returns -EIO. */
static int tell_unread(const char *dir)
{
	char text[4096];
	const struct rd_guest_record record = { .kind = RD_GUEST_ERROR, .text = { text } };

	snprintf(text, sizeof(text), "cannot read all of '%.4000s'", dir);
	send_record(&record);
	return -EIO;
}

/* Are there @nr files, all of them readable? The number -1 stands for one that is not. */
static bool is_whole(const struct guestfs_statns_list *stats, size_t nr)
{
	size_t i;

	for (i = 0; i < nr && i < stats->len && stats->val[i].ino != -1; i++)
		;
	return i == nr && nr == stats->len;
}

static size_t count(char *const *list)
{
	size_t nr = 0;

	while (list[nr])
		nr++;
	return nr;
}

/* --- mounting */

static int order(const void *a, const void *b)
{
	return strlen(*(char *const *)a) < strlen(*(char *const *)b) ? -1 : 1;
}

/* Is a device one of these file systems? */
static bool has_device(char *const *systems, const char *device)
{
	while (*systems && strcmp(*systems, device))
		systems += 2;
	return *systems;
}

/*
 * Name parts of a btrfs in @names as all else is named, and the user names them: by the order of
 * disks, of which the version is the first and only one. libguestfs before 1.58 has there what its
 * kernel calls the disk: now sda and now sdb, by chance, beside the disk that it has booted from.
 * It takes both names, and shows no others' sdb.
 */
static char **name_by_order(char **names)
{
	static const char second[] = "btrfsvol:/dev/sdb";
	char **at;

	for (at = names; at && *at; at++)
		if (!strncmp(*at, second, sizeof(second) - 1))
			(*at)[sizeof(second) - 2] = 'a';
	return names;
}

/*
 * @at: a directory, and its device, that could not be mounted. A CD in a drive, or another disk, is
 * no part of the volume. Of what is, a version without those files looks as if they were deleted.
 */
static int tell_unmounted(struct reader *reader, char *const *systems, char *const *at)
{
	bool is_here = has_device(systems, at[1]), finds = reader->options->work == RD_GUEST_FIND;

	if (!strcmp(at[0], "/") || (is_here && finds))
		return tell(reader, RD_GUEST_ERROR, "cannot mount '%s' at '%s'", at[1], at[0]);
	if (!finds)
		tell(reader, is_here ? RD_GUEST_PARTLY : RD_GUEST_WARNING,
		     "cannot mount '%s' at '%s'", at[1], at[0]);
	return 0;
}

/* Pairs of a directory and a device; what is mounted on another comes behind that. */
static int mount_system(struct reader *reader, char *const *systems, const char *root)
{
	char **mounts = name_by_order(reader->lib->inspect_get_mountpoints(reader->g, root));
	int r = 0;

	if (!mounts)
		return tell(reader, RD_GUEST_ERROR, "cannot find what the guest mounts");
	qsort(mounts, count(mounts) / 2, 2 * sizeof(*mounts), order);
	for (; *mounts && !r; mounts += 2)
		if (reader->lib->mount_ro(reader->g, mounts[1], mounts[0]))
			r = tell_unmounted(reader, systems, mounts);
	return r;
}

/* Has it files that no other has? A part of a btrfs is a directory of the whole, too. */
static bool is_own(char *const *system)
{
	return strncmp(system[0], "btrfsvol:", 9) && system[1][0] && strcmp(system[1], "swap") &&
		strcmp(system[1], "unknown");
}

/* Find the file system that @path begins with, its device and a colon; NULL: none. */
static const char *find_device(char *const *systems, const char *path)
{
	for (; *systems; systems += 2) {
		size_t len = strlen(*systems);

		if (!strncmp(path, *systems, len) && !strncmp(path + len, ":/", 2))
			return *systems;
	}
	return NULL;
}

/* Can @path be nothing but one with a device? */
static bool names_device(const char *path)
{
	return path[0] != '/' || (!strncmp(path, "/dev/", 5) && strstr(path, ":/"));
}

/* @path begins with none of @systems; NULL: none is the one to take. Returns -EIO. */
static int tell_systems(char *const *systems, const char *path)
{
	RD_FREE char *text = NULL;
	struct rd_guest_record record = { .kind = RD_GUEST_ERROR };
	const char *between = "; it has ";
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return -ENOMEM;
	if (path)
		fprintf(out, "the disk has no file system that '%s' begins with", path);
	else
		fputs("the disk has no operating system, or several, and no lone file system", out);
	for (; *systems; systems += 2, between = ", ")
		fprintf(out, "%s%s", between, *systems);
	if (fclose(out))
		return -ENOMEM;
	record.text[0] = text;
	send_record(&record);
	return -EIO;
}

static int mount_device(struct reader *reader, const char *device)
{
	if (reader->lib->mount_ro(reader->g, device, "/"))
		return tell(reader, RD_GUEST_ERROR, "cannot mount '%s'", device);
	return 0;
}

/* The file system, if it is the only one; NULL: it is not. */
static const char *find_only(char *const *systems)
{
	const char *found = NULL;

	for (; *systems; systems += 2) {
		if (!is_own(systems))
			continue;
		if (found)
			return NULL;
		found = systems[0];
	}
	return found;
}

/*
 * Mount the system that is installed, or the only file system. -ENOENT, without a word: there is
 * neither.
 */
static int mount_default(struct reader *reader, char *const *systems)
{
	char **roots = reader->lib->inspect_os(reader->g);
	const char *only = find_only(systems);

	if (!roots)
		return tell(reader, RD_GUEST_ERROR, "cannot look for an operating system");
	if (roots[0] && !roots[1])
		return mount_system(reader, systems, roots[0]);
	return only ? mount_device(reader, only) : -ENOENT;
}

/* --- one file system each */

static int send_systems(struct reader *reader, char *const *systems)
{
	int r = 0;

	for (; *systems && !r; systems += 2) {
		bool is_device = !strncmp(systems[0], "/dev/", 5);
		int64_t size = is_device ?
			reader->lib->blockdev_getsize64(reader->g, systems[0]) : 0;
		RD_FREE char *label = reader->lib->vfs_label(reader->g, systems[0]);
		const struct rd_guest_record record = {
			.kind = RD_GUEST_SYSTEM,
			.size = size > 0 ? size : 0,
			.text = { systems[0], systems[1], label },
		};

		r = send_record(&record);
	}
	return r;
}

/* --- listing */

static int list_one(struct reader *reader, const struct guestfs_statns *st)
{
	RD_FREE char *link = S_ISLNK(st->mode) ?
		reader->lib->readlink(reader->g, reader->path) : NULL;

	return send_file(st, reader->path, link);
}

static int list_names(struct reader *reader, const char *dir, char *const *names)
{
	struct guestfs_statns_list *stats = reader->lib->lstatnslist(reader->g, dir, names);
	char **links = reader->lib->readlinklist(reader->g, dir, names);
	size_t nr = count(names), i;
	int r = 0;

	if (!stats || !links)
		return tell(reader, RD_GUEST_ERROR, "cannot read '%s'", dir);
	if (!is_whole(stats, nr) || count(links) != nr)
		return tell_unread(dir);
	for (i = 0; i < nr && !r; i++)
		r = send_file(&stats->val[i], names[i],
			      S_ISLNK(stats->val[i].mode) ? links[i] : NULL);
	return r;
}

static int list(struct reader *reader)
{
	struct guestfs_statns *st = reader->lib->lstatns(reader->g, reader->path);
	char **names;

	if (!st)
		return tell(reader, RD_GUEST_ERROR, "cannot read '%s'", reader->path);
	if (!S_ISDIR(st->mode))
		return list_one(reader, st);
	names = reader->lib->ls(reader->g, reader->path);
	if (!names)
		return tell(reader, RD_GUEST_ERROR, "cannot read '%s'", reader->path);
	return list_names(reader, reader->path, names);
}

/* --- finding */

static bool matches(const char *pattern, const char *path)
{
	const char *name = strrchr(path, '/');

	if (strchr(pattern, '/'))
		return !fnmatch(pattern + (pattern[0] == '/'), path, FNM_PATHNAME);
	return !fnmatch(pattern, name ? name + 1 : path, 0);
}

struct found {
	const char *dir, *name;
};

static int by_directory(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int r = strcmp(x->dir, y->dir);

	return r ? r : strcmp(x->name, y->name);
}

/* Ask for @nr names of one directory, and send what they are. */
static int send_found(struct reader *reader, const struct found *found, size_t nr)
{
	struct guestfs_statns_list *stats;
	const char *names[BATCH + 1], *dir = found->dir;
	RD_FREE char *root = NULL;
	size_t i;
	int r = 0;

	for (i = 0; i < nr; i++)
		names[i] = found[i].name;
	names[nr] = NULL;
	if (asprintf(&root, "/%s", dir) < 0)
		root = NULL;
	stats = root ? reader->lib->lstatnslist(reader->g, root, (char *const *)names) : NULL;
	if (!stats)
		return tell(reader, RD_GUEST_ERROR, "cannot read '/%s'", dir);
	if (!is_whole(stats, nr))
		return tell_unread(root);
	for (i = 0; i < nr && !r; i++) {
		RD_FREE char *path = NULL;

		if (asprintf(&path, "%s/%s%s%s", reader->prefix, dir, dir[0] ? "/" : "",
			     names[i]) < 0)
			path = NULL;
		r = path ? send_file(&stats->val[i], path, NULL) : -ENOMEM;
	}
	return r;
}

/* @all: paths, each with its zero. */
static int match_all(struct reader *reader, char *all, size_t len)
{
	RD_BUFFER struct rd_buffer matched = { 0 };
	const struct found *found, *end;
	char *at, *next;
	size_t nr;
	int r = 0;

	for (at = all; at < all + len; at = next) {
		char *slash = strrchr(at, '/');
		struct found one = { slash ? at : "", slash ? slash + 1 : at };

		next = at + strlen(at) + 1;
		if (!matches(reader->path, at))
			continue;
		if (slash)
			*slash = '\0';
		rd_buffer_put(&matched, &one, sizeof(one));
	}
	if (matched.failed)
		return -ENOMEM;
	found = (const struct found *)matched.data;
	end = found + matched.len / sizeof(*found);
	if (found)
		qsort(matched.data, end - found, sizeof(*found), by_directory);
	for (; found < end && !r; found += nr) {
		for (nr = 1; found + nr < end && nr < BATCH &&
		     !strcmp(found[nr].dir, found->dir); nr++)
			;
		r = send_found(reader, found, nr);
	}
	return r;
}

/* Find in what is mounted. */
static int find(struct reader *reader)
{
	RD_CLOSE int fd = memfd_create("names", MFD_CLOEXEC);
	char path[64], *all;
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	if (fd < 0 || reader->lib->find0(reader->g, "/", path) || fstat(fd, &st))
		return tell(reader, RD_GUEST_ERROR, "cannot list all files");
	if (!st.st_size)
		return 0;
	/* With a zero behind the last one, whatever that ends with. */
	if (ftruncate(fd, st.st_size + 1))
		return tell(reader, RD_GUEST_ERROR, "cannot list all files");
	all = mmap(NULL, st.st_size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
		   0);
	if (all == MAP_FAILED)
		return tell(reader, RD_GUEST_ERROR, "cannot list all files");
	r = match_all(reader, all, st.st_size);
	munmap(all, st.st_size + 1);
	return r;
}

static int find_in_each(struct reader *reader, char *const *systems)
{
	char prefix[4096];
	int r = 0;

	for (; *systems && !r; systems += 2) {
		if (!is_own(systems))
			continue;
		if (reader->lib->mount_ro(reader->g, systems[0], "/")) {
			tell(reader, RD_GUEST_PARTLY, "cannot mount '%s'", systems[0]);
			continue;
		}
		snprintf(prefix, sizeof(prefix), "%s:", systems[0]);
		reader->prefix = prefix;
		r = find(reader);
		if (!r && reader->lib->umount_all(reader->g))
			r = tell(reader, RD_GUEST_ERROR, "cannot unmount '%s'", systems[0]);
	}
	return r;
}

/* --- tar */

/* Append what matches the character @c, and nothing that its place does not take. */
static void put_char(struct rd_buffer *to, char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
		rd_buffer_put_u8(to, c);
	} else if (c == '\\' || c == '^' || c == '!') {
		rd_buffer_put_u8(to, '\\');
		rd_buffer_put_u8(to, c);
	} else if (c == '\n') {
		/* A pattern is a line. */
		rd_buffer_put_u8(to, '?');
	} else {
		/* At the end of a line a space alone would not be read. */
		rd_buffer_put_u8(to, '[');
		rd_buffer_put_u8(to, c);
		rd_buffer_put_u8(to, ']');
	}
}

/* Append what matches any other character. */
static void put_other(struct rd_buffer *to, char c)
{
	static const char no_newline[] = "[\x01-\x09\x0b-\xff]";
	char text[6] = "[^";

	if (c == '\n') {
		rd_buffer_put(to, no_newline, strlen(no_newline));
		return;
	}
	text[2] = '\\';
	text[3] = c;
	text[4] = ']';
	rd_buffer_put(to, text, 5);
}

/* Add "./", the first @nr characters of @name, and @end; a NULL with the last one. */
static void put_pattern(struct rd_buffer *list, const char *name, size_t nr, const char *end,
			const char *other)
{
	struct rd_buffer text = { 0 };
	size_t i;

	rd_buffer_put(&text, "./", 2);
	for (i = 0; i < nr; i++)
		put_char(&text, name[i]);
	if (other)
		put_other(&text, *other);
	rd_buffer_put(&text, end, strlen(end) + 1);
	list->failed |= text.failed;
	rd_buffer_put(list, &text.data, sizeof(text.data));
}

/*
 * tar takes a directory, and patterns of what it leaves out. To get one file, which then has all
 * that tar knows to keep, leave out each name in its directory that differs from @name at some
 * character, ends before it does, or goes on behind it.
 */
static char **exclude_others(const char *name)
{
	struct rd_buffer list = { 0 };
	size_t i, len = strlen(name);

	for (i = 0; i < len; i++) {
		put_pattern(&list, name, i, "*", &name[i]);
		if (i)
			put_pattern(&list, name, i, "", NULL);
	}
	put_pattern(&list, name, len, "[^/]*", NULL);
	rd_buffer_put(&list, &(char *){ NULL }, sizeof(char *));
	return list.failed ? NULL : (char **)list.data;
}

static int tar(struct reader *reader)
{
	struct guestfs_tar_out how = {
		.bitmask = GUESTFS_TAR_NUMERIC | GUESTFS_TAR_XATTRS | GUESTFS_TAR_ACLS,
		.numericowner = 1,
		.xattrs = 1,
		.acls = 1,
	};
	RD_FREE char *dir = strdup(reader->path), *real = NULL, *to = NULL;
	char *name = dir ? strrchr(dir, '/') : NULL;

	if (!name || asprintf(&to, "/dev/fd/%d", RD_GUEST_FD_TAR) < 0)
		return -ENOMEM;
	if (!reader->lib->lstatns(reader->g, reader->path))
		return tell(reader, RD_GUEST_ERROR, "cannot read '%s'", reader->path);
	*name++ = '\0';
	if (name[0]) {
		how.excludes = exclude_others(name);
		how.bitmask |= GUESTFS_TAR_EXCLUDES;
		if (!how.excludes)
			return -ENOMEM;
	}
	/* The path of a tar would be looked up outside of the guest's root. */
	real = reader->lib->realpath(reader->g, dir[0] ? dir : "/");
	if (!real || reader->lib->tar_out_opts_argv(reader->g, real, to, &how))
		return tell(reader, RD_GUEST_ERROR, "cannot read '%s'", reader->path);
	return 0;
}

/* --- all of it */

static int work(struct reader *reader)
{
	switch (reader->options->work) {
	case RD_GUEST_LIST:
		return list(reader);
	case RD_GUEST_FIND:
		return find(reader);
	case RD_GUEST_TAR:
		break;
	}
	return tar(reader);
}

static int read_disk(struct reader *reader)
{
	const struct rd_guest_options *options = reader->options;
	char **systems = name_by_order(reader->lib->list_filesystems(reader->g));
	const char *device;
	int r;

	if (!systems)
		return tell(reader, RD_GUEST_ERROR, "cannot look for file systems");
	if (!options->path)
		return send_systems(reader, systems);
	reader->path = options->path;
	device = options->work == RD_GUEST_FIND ? NULL : find_device(systems, options->path);
	if (!device && options->work != RD_GUEST_FIND && names_device(options->path))
		return tell_systems(systems, options->path);
	if (device) {
		reader->path += strlen(device) + 1;
		r = mount_device(reader, device);
	} else {
		r = mount_default(reader, systems);
	}
	if (r == -ENOENT && options->work == RD_GUEST_FIND)
		return find_in_each(reader, systems);
	if (r == -ENOENT)
		return tell_systems(systems, NULL);
	return r ? r : work(reader);
}

static int start(struct reader *reader, const struct rd_guest_place *place)
{
	char server[4096], *const servers[] = { server, NULL };
	const struct guestfs_add_drive how = {
		.bitmask = GUESTFS_DRIVE_READONLY | GUESTFS_DRIVE_FORMAT | GUESTFS_DRIVE_PROTOCOL |
			GUESTFS_DRIVE_SERVER,
		.readonly = 1,
		.format = "raw",
		.protocol = "nbd",
		.server = servers,
	};

	reader->g = reader->lib->create();
	if (!reader->g)
		return -ENOMEM;
	snprintf(server, sizeof(server), "unix:%s", place->socket);
	reader->lib->set_error_handler(reader->g, NULL, NULL);
	/* Not by a libvirt, whose guest would not end with this process. */
	if (reader->lib->set_backend(reader->g, "direct") ||
	    reader->lib->add_drive_opts_argv(reader->g, reader->options->version, &how) ||
	    reader->lib->launch(reader->g))
		return tell(reader, RD_GUEST_NO_START, "cannot start libguestfs");
	return 0;
}

/* Leave of the environment what is for libguestfs. */
static int clean_environment(const struct rd_guest_place *place)
{
	struct rd_buffer kept = { 0 };
	char **at, *text;

	for (at = environ; *at; at++)
		if (!strncmp(*at, "LIBGUESTFS_", 11) || !strncmp(*at, "SUPERMIN_", 9))
			rd_buffer_put(&kept, at, sizeof(*at));
	rd_buffer_put(&kept, &(char *){ NULL }, sizeof(*at));
	if (kept.failed || clearenv())
		return -ENOMEM;
	for (at = (char **)kept.data; (text = *at); at++)
		putenv(text);
	return setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1) || setenv("LC_ALL", "C", 1) ||
		setenv("HOME", place->dir, 1) || setenv("XDG_RUNTIME_DIR", place->dir, 1) ||
		setenv("LIBGUESTFS_TMPDIR", place->tmp, 1) ? -ENOMEM : 0;
}

int rd_guest_serve(const struct rd_guest_options *options, const struct rd_guest_place *place)
{
	struct reader reader = { .options = options, .prefix = "" };
	int r = rd_libguestfs_load(&reader.lib);

	if (!r)
		r = clean_environment(place);
	if (!r)
		r = start(&reader, place);
	if (!r)
		r = read_disk(&reader);
	if (reader.g)
		reader.lib->close(reader.g);
	return r ? 1 : 0;
}
