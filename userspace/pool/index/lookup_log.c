// SPDX-License-Identifier: GPL-2.0
/* What inline snapshots looked up; see lookup_log.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/crc32c.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "base/read_text.h"
#include "index_parts.h"
#include "lookup_log.h"

#define LOG	"lookups"
#define OLD	"lookups.old"
#define FORMAT	1
#define SUM_LEN	9	/* with the blank */

static u32 sum_of(const char *text, size_t len)
{
	return ~crc32c(~0U, text, len);
}

/* --- a line */

/* Returns its length, with the end of the line. -EINVAL: the volume has a name that cannot be. */
static int print_line(char line[RD_LOOKUP_LINE], const struct rd_lookup_entry *entry)
{
	const u64 *counts = (const u64 *)&entry->counts;
	char *text = line + SUM_LEN;
	size_t len, max = RD_LOOKUP_LINE - SUM_LEN;
	char sum[SUM_LEN + 1];
	unsigned int i;

	if (!entry->volume[0] || strchr(entry->volume, '\n'))
		return -EINVAL;
	len = snprintf(text, max, "%d %lld %lld", FORMAT, entry->time, entry->number);
	for (i = 0; i < RD_LOOKUP_COUNTS; i++)
		len += snprintf(text + len, max - len, " %llu", counts[i]);
	len += snprintf(text + len, max - len, " %s", entry->volume);
	snprintf(sum, sizeof(sum), "%08x ", sum_of(text, len));
	memcpy(line, sum, SUM_LEN);
	text[len] = '\n';
	return SUM_LEN + len + 1;
}

/* Read the number that *@text begins with, and the blank behind it. */
static bool read_number(const char **text, u64 *ret)
{
	char *end;

	if ((**text < '0' || **text > '9') && **text != '-')
		return false;
	*ret = strtoull(*text, &end, 10);
	*text = end + 1;
	return *end == ' ';
}

/* @line: without its end, and with a zero there. */
static bool parse_line(const char *line, size_t len, struct rd_lookup_entry *ret)
{
	u64 *counts = (u64 *)&ret->counts, format, time, number;
	const char *text = line + SUM_LEN;
	char sum[SUM_LEN + 1];
	unsigned int i;

	if (len <= SUM_LEN || strlen(line) != len)
		return false;
	snprintf(sum, sizeof(sum), "%08x ", sum_of(text, len - SUM_LEN));
	if (memcmp(line, sum, SUM_LEN) || !read_number(&text, &format) || format != FORMAT ||
	    !read_number(&text, &time) || !read_number(&text, &number))
		return false;
	for (i = 0; i < RD_LOOKUP_COUNTS; i++)
		if (!read_number(&text, &counts[i]))
			return false;
	ret->time = time;
	ret->number = number;
	if (!*text || strlen(text) >= sizeof(ret->volume))
		return false;
	memcpy(ret->volume, text, strlen(text) + 1);
	return true;
}

/* --- adding */

/* Let @files begin a new file, if the one that there is has become long. */
static void rotate(const struct rd_files *files, const char *path)
{
	char old[PATH_MAX];
	struct stat st;

	/* Where this fails, the file grows on. */
	if (!stat(path, &st) && st.st_size >= RD_LOOKUP_LOG_MAX && !rd_files_path(old, files, OLD))
		(void)!rename(path, old);
}

/* A power cut or a full file system may have left a line without its end. */
static bool ends_in_line(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char last;

	return size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

/* The end of a line first, if there is one missing: each write is a whole line. */
static int append(int fd, const char *line, size_t len)
{
	ssize_t n;

	if (!ends_in_line(fd) && write(fd, "\n", 1) < 0)
		return -errno;
	n = write(fd, line, len);
	return n < 0 ? -errno : n < (ssize_t)len ? -ENOSPC : 0;
}

static int add_line(struct rd_files *files, const char *line, size_t len)
{
	struct rd_lock names = RD_LOCK_NONE;
	char path[PATH_MAX];
	int fd, r;

	r = rd_failpoint("index-lookups");
	if (!r)
		r = rd_files_path(path, files, LOG);
	if (!r)
		r = rd_files_lock_names(files, &names, true);
	if (r)
		return r;
	rotate(files, path);
	fd = rd_open_plain(path, O_RDWR | O_APPEND | O_CREAT, 0600);
	r = fd < 0 ? fd : append(fd, line, len);
	if (fd >= 0)
		close(fd);
	rd_lock_drop(&names);
	return r;
}

void rd_lookup_log_add(struct rd_index *index, const struct rd_lookup_entry *entry)
{
	struct rd_files *files = &index->files;
	char line[RD_LOOKUP_LINE];
	int r = print_line(line, entry);

	if (r > 0)
		r = add_line(files, line, r);
	/* An index that cannot be written has been told of. */
	if (r && !files->told_write)
		rd_warn("cannot write '%s/" LOG "': %s; what this snapshot looked up is not recorded",
			files->path, strerror(-r));
}

/* --- reading */

static int parse(char *text, size_t len, struct rd_buffer *ret)
{
	char *end, *all = text + len;
	struct rd_lookup_entry entry;

	/* What follows the last end of a line is not whole. */
	for (; (end = memchr(text, '\n', all - text)); text = end + 1) {
		*end = '\0';
		if (parse_line(text, end - text, &entry))
			rd_buffer_put(ret, &entry, sizeof(entry));
	}
	return ret->failed ? -ENOMEM : 0;
}

static int read_file(const struct rd_files *files, const char *name, struct rd_buffer *ret)
{
	RD_CLOSE int fd = -1;
	struct rd_buffer text = { 0 };
	char path[PATH_MAX];
	int r = rd_files_path(path, files, name);

	if (r)
		return r;
	fd = rd_open_plain(path, O_RDONLY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	r = rd_read_text(fd, 128 * RD_LOOKUP_LOG_MAX, &text);
	if (!r)
		r = parse((char *)text.data, text.len, ret);
	rd_buffer_free(&text);
	return r;
}

int rd_lookup_log_read(const char *pool_path, struct rd_buffer *ret)
{
	struct rd_lock names = RD_LOCK_NONE;
	struct rd_files files;
	int r = rd_files_find(&files, pool_path);

	if (r)
		return r;
	/* Without the lock, on a file system that is read-only, no one else has it either. */
	rd_files_lock_names(&files, &names, false);
	r = read_file(&files, OLD, ret);
	if (!r)
		r = read_file(&files, LOG, ret);
	rd_lock_drop(&names);
	rd_files_close(&files);
	return r;
}
