// SPDX-License-Identifier: GPL-2.0
/* The directory boot/ of a pool: see boottest.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/plain.h"
#include "base/sort.h"
#include "boottest.h"
#include "replace.h"

#define DIRECTORY	"boot"
#define RESULT		"result"
#define UID_DIGITS	16
#define NAME_SIZE	(sizeof(DIRECTORY) + UID_DIGITS + 32)
#define FORMAT		"time %llu\npassed %d\nwhy %s\nof %s@%lld\n"

/* --- names */

static const char *print_name(char name[NAME_SIZE], u64 uid, const char *suffix)
{
	snprintf(name, NAME_SIZE, DIRECTORY "/%016llx.%.16s", uid, suffix);
	return name;
}

char *ctl_boot_test_path(const struct ctl *ctl, u64 uid, const char *suffix)
{
	char name[NAME_SIZE];

	return rd_path_in(ctl->pool->path, print_name(name, uid, suffix));
}

/* Is @name "UID.SUFFIX"? */
static bool parse_name(const char *name, u64 *ret_uid, const char **ret_suffix)
{
	char *end;

	if (strspn(name, "0123456789abcdef") != UID_DIGITS || name[UID_DIGITS] != '.')
		return false;
	*ret_uid = strtoull(name, &end, 16);
	*ret_suffix = end + 1;
	return true;
}

/* Open the directory. NULL: it is not there, or not for us to use. */
static DIR *open_directory(const struct ctl *ctl)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, DIRECTORY);
	int fd = path && !rd_check_directory(path) ?
		open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* --- reading */

/* Read the version, which older programs have not written. */
static void read_version(FILE *file, struct ctl_boot_test *ret)
{
	char text[CTL_VERSION_TEXT];
	struct ctl_name name;

	_Static_assert(sizeof(text) == 150, "room for what is read");
	if (fscanf(file, "\nof %149s", text) != 1 || ctl_name_parse(&name, text) ||
	    name.kind != CTL_NAME_NUMBER)
		return;
	memcpy(ret->volume, name.volume, sizeof(ret->volume));
	ret->number = name.number;
}

static bool read_result(const struct ctl *ctl, u64 uid, struct ctl_boot_test *ret)
{
	char name[NAME_SIZE], *at;
	FILE *file = ctl_read_in(ctl->pool->path, print_name(name, uid, RESULT));
	int passed = 0;

	memset(ret, 0, sizeof(*ret));
	ret->uid = uid;
	if (!file)
		return false;
	if (fscanf(file, "time %llu\npassed %d\nwhy %127[^\n]", &ret->time, &passed,
		   ret->why) != 3)
		ret->time = 0;
	else
		read_version(file, ret);
	fclose(file);
	ret->passed = passed == 1;
	/* It is printed, and a stranger may have put it there. */
	for (at = ret->why; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return ret->time;
}

int ctl_boot_tests_read(const struct ctl *ctl, struct rd_buffer *ret)
{
	RD_DIR DIR *dir = open_directory(ctl);
	const struct dirent *entry;
	struct ctl_boot_test test;
	const char *suffix;
	u64 uid;

	while (dir && (entry = readdir(dir)))
		if (parse_name(entry->d_name, &uid, &suffix) && !strcmp(suffix, RESULT) &&
		    read_result(ctl, uid, &test))
			rd_buffer_put(ret, &test, sizeof(test));
	if (ret->failed)
		return -ENOMEM;
	rd_sort((struct ctl_boot_test *)ret->data, ret->len / sizeof(test), uid);
	return 0;
}

const struct ctl_boot_test *ctl_boot_test_find(const struct rd_buffer *tests, u64 uid)
{
	return rd_find((struct ctl_boot_test *)tests->data,
		       tests->len / sizeof(struct ctl_boot_test), uid, uid);
}

/* --- writing */

static int make_directory(const struct ctl *ctl)
{
	RD_DIR DIR *dir = NULL;
	RD_FREE char *path = rd_path_in(ctl->pool->path, DIRECTORY);

	if (!path)
		return -ENOMEM;
	if (mkdir(path, 0700) && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", path);
	/* A link, or a file, is none. */
	dir = open_directory(ctl);
	return dir ? 0 : rd_err(-ENOTDIR, "cannot use '%s'", path);
}

int ctl_boot_test_put(const struct ctl *ctl, u64 uid, const char *suffix, const void *data,
		      size_t len)
{
	RD_FREE char *path = ctl_boot_test_path(ctl, uid, suffix), *tmp = NULL;
	FILE *out;
	int r = path ? make_directory(ctl) : -ENOMEM;

	if (r)
		return r;
	if (!data)
		return unlink(path) && errno != ENOENT ?
			rd_err(-errno, "cannot remove '%s'", path) : 0;
	out = ctl_replace_begin(path, &tmp);
	r = out ? 0 : -errno;
	if (!r) {
		fwrite(data, 1, len, out);
		r = ctl_replace_end(out, tmp, 0600);
	}
	return r ? rd_err(r, "cannot write '%s'", path) : 0;
}

int ctl_boot_test_write(const struct ctl *ctl, const struct ctl_boot_test *test)
{
	char text[sizeof(test->why) + CTL_VERSION_TEXT + 80];
	int len = snprintf(text, sizeof(text), FORMAT, test->time, test->passed, test->why,
			   test->volume, test->number);

	return ctl_boot_test_put(ctl, test->uid, RESULT, text, len);
}

/* --- those that count */

/* Append the version of each that the engine keeps, sorted by uid. */
static int read_kept(const struct ctl *ctl, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_version version;
	const char *volume;
	int r = rd_versions_kept(ctl->pool->sql, &rows);

	while (!r && (r = rd_next_kept(rows, &version, &volume)) > 0) {
		struct ctl_boot_test there = { .uid = version.uid, .number = version.number };

		snprintf(there.volume, sizeof(there.volume), "%s", volume);
		r = rd_buffer_put(ret, &there, sizeof(there));
	}
	rd_sort((struct ctl_boot_test *)ret->data, ret->len / sizeof(struct ctl_boot_test), uid);
	return r;
}

static int has_versions(const struct ctl *ctl, const char *volume, bool *ret)
{
	u64 nr = 0;
	i64 id;
	int r = rd_volume_find(ctl->pool->sql, volume, &id);

	if (!r)
		r = rd_versions_count_of(ctl->pool->sql, id, &nr);
	*ret = nr;
	return r == -ENOENT ? 0 : r;
}

static int add_if_last(struct rd_buffer *last, const struct ctl_boot_test *test)
{
	struct ctl_boot_test *other;

	rd_each(other, last) {
		if (strcmp(other->volume, test->volume))
			continue;
		if (other->time < test->time ||
		    (other->time == test->time && other->number < test->number))
			*other = *test;
		return 0;
	}
	return rd_buffer_put(last, test, sizeof(*test));
}

int ctl_boot_tests_last(const struct ctl *ctl, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer tests = { 0 }, kept = { 0 };
	const struct ctl_boot_test *version;
	struct ctl_boot_test *test;
	bool has = false;
	int r = ctl_boot_tests_read(ctl, &tests);

	/* Most pools have none. */
	if (!r && tests.len)
		r = read_kept(ctl, &kept);
	rd_each(test, &tests) {
		version = ctl_boot_test_find(&kept, test->uid);
		if (version) {
			memcpy(test->volume, version->volume, sizeof(test->volume));
			test->number = version->number;
		}
		if (!r && test->volume[0])
			r = has_versions(ctl, test->volume, &has);
		if (!r && test->volume[0] && has)
			r = add_if_last(ret, test);
	}
	rd_sort((struct ctl_boot_test *)ret->data, ret->len / sizeof(*test), uid);
	return r;
}

/* --- clearing */

/* Does anybody need "UID.SUFFIX"? */
static bool is_needed(const struct rd_buffer *kept, const struct rd_buffer *last, u64 uid,
		      const char *suffix)
{
	return ctl_boot_test_find(kept, uid) ||
		(!strcmp(suffix, RESULT) && ctl_boot_test_find(last, uid));
}

void ctl_boot_tests_clear(struct ctl *ctl)
{
	RD_DIR DIR *dir = open_directory(ctl);
	RD_BUFFER struct rd_buffer kept = { 0 }, last = { 0 };
	const struct dirent *entry;
	const char *suffix;
	u64 uid;

	if (!dir)
		return;
	if (!read_kept(ctl, &kept) && !ctl_boot_tests_last(ctl, &last))
		while ((entry = readdir(dir)))
			if (parse_name(entry->d_name, &uid, &suffix) &&
			    !is_needed(&kept, &last, uid, suffix))
				unlinkat(dirfd(dir), entry->d_name, 0);
}
