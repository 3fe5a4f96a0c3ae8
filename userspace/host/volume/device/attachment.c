// SPDX-License-Identifier: GPL-2.0
/* Files that describe the attached volumes of this host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "pool/pool.h"
#include "attachment.h"

/* --- names */

static bool print_device_name(const char *volume, char ret[RD_DM_NAME_MAX])
{
	size_t at = sprintf(ret, "revdedup-");

	/* Leave room for a colon and a word. */
	for (; *volume && at < RD_DM_NAME_MAX - 16; volume++) {
		if (*volume == '-')
			ret[at++] = '-';
		ret[at++] = *volume == '/' ? '-' : *volume;
	}
	ret[at] = '\0';
	return !*volume;
}

int rd_device_name(const char *volume, char ret[RD_DM_NAME_MAX])
{
	return print_device_name(volume, ret) ? 0 :
		rd_err(-ENAMETOOLONG, "the name of the volume is too long for a device");
}

const char *rd_part_name(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part)
{
	snprintf(ret, RD_DM_NAME_MAX, "%.111s:%.15s", at->device, part);
	return ret;
}

static bool has_device_uuid(const struct rd_attachment *at)
{
	static const u8 none[16];

	return memcmp(at->device_uuid, none, sizeof(none));
}

const char *rd_part_uuid(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part)
{
	bool is_adopted = !part && has_device_uuid(at);
	char uuid[RD_UUID_TEXT];

	rd_uuid_print(uuid, is_adopted ? at->device_uuid : at->uuid);
	snprintf(ret, RD_DM_NAME_MAX, RD_DM_UUID "%s%s%s", uuid, part ? "-" : "",
		 part ? part : "");
	return ret;
}

/* --- its devices */

static const char *name_of(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			   const char *part)
{
	return part ? rd_part_name(ret, at, part) : at->device;
}

int rd_part_info(const struct rd_attachment *at, const char *part, struct rd_dm_info *ret)
{
	char buffer[RD_DM_NAME_MAX], uuid[RD_DM_NAME_MAX];
	const char *name = name_of(buffer, at, part);
	int r = rd_dm_info(name, ret);

	if (r || !ret->exists || !strcmp(ret->uuid, rd_part_uuid(uuid, at, part)))
		return r;
	rd_err(0, "another device is called '%s'", name);
	rd_hint("nothing was changed; 'dmsetup info %s' describes it", name);
	return -EEXIST;
}

int rd_part_wake(const struct rd_attachment *at, const char *part, unsigned int flags)
{
	char name[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	int r = rd_part_info(at, part, &info);

	return r || !info.suspended ? r : rd_dm_resume(name_of(name, at, part), flags);
}

int rd_part_remove(const struct rd_attachment *at, const char *part)
{
	char name[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	int r = rd_part_info(at, part, &info);

	return r || !info.exists ? r : rd_dm_remove(name_of(name, at, part));
}

/* --- devices below */

/* Read the dm UUID of @path; "" if it is no device of device-mapper. */
static int read_dm_uuid(const char *path, char ret[RD_DM_NAME_MAX])
{
	struct stat st;

	ret[0] = '\0';
	if (stat(path, &st))
		return -errno;
	if (!S_ISBLK(st.st_mode))
		return -ENOTBLK;
	rd_block_dm(st.st_rdev, "uuid", ret);
	return 0;
}

/*
 * Keep @path if it still is that device, else replace it by the device's new name. -ENODEV:
 * @path is another device now.
 */
static int find_device(char path[PATH_MAX], const char *uuid)
{
	char now[RD_DM_NAME_MAX], name[RD_DM_NAME_MAX];
	int r;

	r = read_dm_uuid(path, now);
	if (!r && (!uuid[0] || !strcmp(now, uuid)))
		return 0;
	if (uuid[0] && !rd_dm_find(uuid, name)) {
		rd_dm_path(path, name);
		return 0;
	}
	return r ? r : -ENODEV;
}

static int locate(char path[PATH_MAX], const char *uuid, const char *what)
{
	int r = find_device(path, uuid);

	if (r == -ENODEV)
		return rd_err(r, "%s '%s' is another device now", what, path);
	return r ? rd_err(r, "%s '%s' does not exist", what, path) : 0;
}

int rd_attachment_locate_meta(struct rd_attachment *at)
{
	return find_device(at->meta, at->meta_uuid);
}

int rd_attachment_locate(struct rd_attachment *at)
{
	int r = locate(at->base, at->base_uuid, "the volume");

	return r ? r : locate(at->meta, at->meta_uuid, "the metadata device");
}

int rd_attachment_init(struct rd_attachment *at, const char *volume, const char *base,
		       const char *meta)
{
	int r;

	memset(at, 0, sizeof(*at));
	snprintf(at->volume, sizeof(at->volume), "%s", volume);
	snprintf(at->base, sizeof(at->base), "%s", base);
	snprintf(at->meta, sizeof(at->meta), "%s", meta);
	r = rd_device_name(volume, at->device);
	if (r)
		return r;
	r = rd_uuid_make(at->uuid);
	return r ? rd_err(r, "no random number") : 0;
}

int rd_attachment_identify(struct rd_attachment *at)
{
	int r = read_dm_uuid(at->base, at->base_uuid);

	if (r)
		return rd_err(r, "'%s' cannot be a volume", at->base);
	r = read_dm_uuid(at->meta, at->meta_uuid);
	return r ? rd_err(r, "'%s' cannot be a metadata device", at->meta) : 0;
}

int rd_attachment_path(char ret[PATH_MAX], const struct rd_pool *pool)
{
	RD_FREE char *path = realpath(pool->path, NULL);

	if (!path || strlen(path) >= PATH_MAX)
		return rd_err(-ENAMETOOLONG, "the path of the pool is too long");
	snprintf(ret, PATH_MAX, "%s", path);
	return 0;
}

/* --- files */

char *rd_config_path(const char *name)
{
	const char *config = getenv("REVDEDUP_CONFIG");

	return rd_path_in(config && config[0] ? config : "/etc/revdedup", name);
}

static char *directory(void)
{
	return rd_config_path("volumes");
}

/* Make the directory and its parents. */
static int make_directory(const char *path)
{
	RD_FREE char *copy = strdup(path);
	char *at;

	if (!copy)
		return -ENOMEM;
	for (at = copy + 1; at; at = at ? at + 1 : NULL) {
		at = strchr(at, '/');
		if (at)
			*at = '\0';
		if (mkdir(copy, 0755) && errno != EEXIST)
			return rd_err(-errno, "cannot make the directory '%s'", copy);
		if (!at)
			break;
		*at = '/';
	}
	return 0;
}

/* Lines with a number, which are left out where it is 0 */
static const struct {
	const char *key;
	size_t at;
} numbers[] = {
	{ "version_uid", offsetof(struct rd_attachment, version_uid) },
	{ "zeros_cursor", offsetof(struct rd_attachment, zeros_cursor) },
	{ "pool_cursor", offsetof(struct rd_attachment, pool_cursor) },
	{ "dedup_in_pool", offsetof(struct rd_attachment, dedup_in_pool) },
	{ "dedup_cold", offsetof(struct rd_attachment, dedup_cold) },
	{ "dedup_time", offsetof(struct rd_attachment, dedup_time) },
	{ "dedup_lost_marks", offsetof(struct rd_attachment, dedup_lost_marks) },
};

static void put_numbers(FILE *file, const struct rd_attachment *at)
{
	unsigned int i;
	u64 number;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		memcpy(&number, (const u8 *)at + numbers[i].at, sizeof(number));
		if (number)
			fprintf(file, "%s=%llu\n", numbers[i].key, number);
	}
}

static void put_line(FILE *file, const char *key, const char *value)
{
	if (value[0])
		fprintf(file, "%s=%s\n", key, value);
}

static void put_all(FILE *file, const struct rd_attachment *at)
{
	char uuid[RD_UUID_TEXT];

	fprintf(file, "# written by revdedup, which needs it at boot\n");
	put_line(file, "volume", at->volume);
	put_line(file, "uuid", rd_uuid_print(uuid, at->uuid));
	if (has_device_uuid(at))
		put_line(file, "device_uuid", rd_uuid_print(uuid, at->device_uuid));
	put_line(file, "base", at->base);
	put_line(file, "base_uuid", at->base_uuid);
	put_line(file, "meta", at->meta);
	put_line(file, "meta_uuid", at->meta_uuid);
	put_line(file, "pool", at->pool);
	put_line(file, "version_pool", at->version_pool);
	put_line(file, "zeros", at->is_zeros ? "yes" : "");
	put_line(file, "dedup", at->dedup_pool ? "pool" : "");
	put_line(file, "partial", at->is_partial ? "yes" : "");
	put_numbers(file, at);
	put_line(file, "unfinished", at->is_unfinished ? "yes" : "");
}

static int write_file(const char *path, const struct rd_attachment *at)
{
	FILE *file = fopen(path, "we");
	int r;

	if (!file)
		return rd_err(-errno, "cannot write '%s'", path);
	put_all(file, at);
	r = fflush(file) || ferror(file) || fsync(fileno(file)) ? -errno : 0;
	if (fclose(file) && !r)
		r = -errno;
	return r ? rd_err(r, "cannot write '%s'", path) : 0;
}

/* Return the path of a file beside that of @at: ".NAME.word" */
static char *hidden_path(const char *dir, const struct rd_attachment *at, const char *word)
{
	char name[RD_DM_NAME_MAX + 8];

	snprintf(name, sizeof(name), ".%.120s.%.5s", at->device, word);
	return dir ? rd_path_in(dir, name) : NULL;
}

int rd_attachment_save(const struct rd_attachment *at)
{
	RD_FREE char *dir = directory();
	/* A name of its own: another command may save another attachment meanwhile. */
	RD_FREE char *tmp = hidden_path(dir, at, "new");
	RD_FREE char *path = dir ? rd_path_in(dir, at->device) : NULL;
	int r;

	if (!tmp || !path)
		return -ENOMEM;
	r = make_directory(dir);
	if (!r)
		r = write_file(tmp, at);
	if (!r)
		r = rd_failpoint("attachment-rename");
	if (!r && rename(tmp, path))
		r = rd_err(-errno, "cannot write '%s'", path);
	return r ? r : rd_sync_directory(dir);
}

int rd_attachment_bypassed(struct rd_attachment *at)
{
	if (!at->version_uid)
		return 0;
	at->version_uid = 0;
	return rd_attachment_save(at);
}

int rd_attachment_remove(const struct rd_attachment *at)
{
	RD_FREE char *dir = directory();
	RD_FREE char *path = dir ? rd_path_in(dir, at->device) : NULL;

	if (!path)
		return -ENOMEM;
	if (unlink(path) && errno != ENOENT)
		return rd_err(-errno, "cannot remove '%s'", path);
	return rd_sync_directory(dir);
}

/* Lock a file beside it: rename() replaces the file itself. */
int rd_attachment_lock(struct rd_attachment *at, unsigned int wait_ms)
{
	RD_FREE char *dir = directory();
	RD_FREE char *path = hidden_path(dir, at, "lock");
	unsigned int waited = 0;
	int fd;

	if (at->is_locked)
		return 0;
	if (!path)
		return -ENOMEM;
	fd = make_directory(dir) ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return rd_err(-errno, "cannot open '%s'", path);
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EINTR && errno != EWOULDBLOCK)
			return rd_err(-errno, "cannot lock '%s'", path);
		if (waited >= wait_ms) {
			rd_err(0, "another command works on '%s'", at->volume);
			rd_remedy(RD_REMEDY_WAIT_FOR_LOCK, NULL, "nothing was changed");
			return -EBUSY;
		}
		usleep(100000);
		waited += 100;
	}
	at->is_locked = true;
	at->lock_fd = fd;
	return 0;
}

void rd_attachment_unlock(struct rd_attachment *at)
{
	if (at->is_locked)
		close(at->lock_fd);
	at->is_locked = false;
}

bool rd_attachment_is_busy(const struct rd_attachment *at)
{
	RD_CLOSE int fd = -1;
	RD_FREE char *dir = directory();
	RD_FREE char *path = hidden_path(dir, at, "lock");

	if (path)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

/* --- reading them */

static bool take(char *to, size_t size, const char *line, const char *key)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) || line[len] != '=' || strlen(line + len + 1) >= size)
		return false;
	snprintf(to, size, "%s", line + len + 1);
	return true;
}

static bool take_number(struct rd_attachment *at, const char *line)
{
	char text[24], *end;
	unsigned int i;
	u64 number;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (!take(text, sizeof(text), line, numbers[i].key))
			continue;
		number = strtoull(text, &end, 10);
		memcpy((u8 *)at + numbers[i].at, &number, sizeof(number));
		return end != text && !*end;
	}
	return false;
}

static bool take_line(struct rd_attachment *at, const char *line)
{
	char uuid[RD_UUID_TEXT];

	if (!line[0] || line[0] == '#')
		return true;
	if (take_number(at, line))
		return true;
	if (!strcmp(line, "zeros=yes"))
		return at->is_zeros = true;
	if (!strcmp(line, "partial=yes"))
		return at->is_partial = true;
	if (!strcmp(line, "dedup=pool"))
		return at->dedup_pool = true;
	if (take(uuid, sizeof(uuid), line, "uuid"))
		return rd_uuid_parse(at->uuid, uuid);
	if (take(uuid, sizeof(uuid), line, "device_uuid"))
		return rd_uuid_parse(at->device_uuid, uuid);
	if (!strcmp(line, "unfinished=yes"))
		return at->is_unfinished = true;
	return take(at->volume, sizeof(at->volume), line, "volume") ||
		take(at->base, sizeof(at->base), line, "base") ||
		take(at->base_uuid, sizeof(at->base_uuid), line, "base_uuid") ||
		take(at->meta, sizeof(at->meta), line, "meta") ||
		take(at->meta_uuid, sizeof(at->meta_uuid), line, "meta_uuid") ||
		take(at->pool, sizeof(at->pool), line, "pool") ||
		take(at->version_pool, sizeof(at->version_pool), line, "version_pool");
}

/* Check the name of the file, which a user may have copied or renamed. */
static int check_name(const struct rd_attachment *at, const char *path)
{
	char name[RD_DM_NAME_MAX];
	int r = rd_device_name(at->volume, name);

	if (r || !strcmp(name, at->device))
		return r;
	rd_err(0, "'%s' describes '%s', and should be named '%s'", path, at->volume, name);
	rd_hint("rename the file, or correct its line 'volume='");
	return -EINVAL;
}

static int load_file(struct rd_attachment *at, const char *dir, const char *name)
{
	RD_FREE char *path = rd_path_in(dir, name);
	RD_FREE char *line = NULL;
	static const u8 none[16];
	size_t size = 0;
	FILE *file;
	int r = 0;

	if (!path)
		return -ENOMEM;
	memset(at, 0, sizeof(*at));
	snprintf(at->device, sizeof(at->device), "%s", name);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ENOENT : rd_err(-errno, "cannot read '%s'", path);
	while (!r && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!take_line(at, line))
			r = rd_err(-EINVAL, "'%s': cannot understand the line '%s'", path, line);
	}
	fclose(file);
	if (!r && (!at->volume[0] || !at->base[0] || !at->meta[0] ||
		   !memcmp(at->uuid, none, sizeof(none))))
		r = rd_err(-EINVAL, "'%s' lacks a line: volume, uuid, base and meta are needed",
			   path);
	if (!r)
		return check_name(at, path);
	rd_hint("nothing was changed; install a newer revdedup if one wrote the file; else restore it from a copy, or write the lines anew if you know the volume's devices");
	return r;
}

int rd_attachment_load(struct rd_attachment *at, const char *volume)
{
	RD_FREE char *dir = directory();
	char name[RD_DM_NAME_MAX];
	int r;

	if (!dir)
		return -ENOMEM;
	/* A name that is too long cannot have been attached. */
	r = print_device_name(volume, name) ? load_file(at, dir, name) : -ENOENT;
	if (r || !strcmp(at->volume, volume))
		return r;
	/* A volume outside LVM may be called "a-/b" or "a/-b", which give one name. */
	return rd_err(-EEXIST, "the device of '%s' would have the same name as that of '%s'",
		      volume, at->volume);
}

int rd_attachment_refresh(struct rd_attachment *at)
{
	RD_FREE struct rd_attachment *now = malloc(sizeof(*now));
	int r = now ? rd_attachment_load(now, at->volume) : -ENOMEM;

	if (r)
		return r == -ENOENT ? rd_err(r, "'%s' was detached meanwhile", at->volume) : r;
	now->is_locked = at->is_locked;
	now->lock_fd = at->lock_fd;
	*at = *now;
	return 0;
}

static int is_ours(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "revdedup-", 9);
}

int rd_attachments(struct rd_buffer *ret)
{
	RD_FREE char *dir = directory();
	struct dirent **entries;
	int i, nr, r = 0;

	if (!dir)
		return -ENOMEM;
	nr = scandir(dir, &entries, is_ours, alphasort);
	if (nr < 0)
		return errno == ENOENT ? 0 : rd_err(-errno, "cannot read '%s'", dir);
	for (i = 0; i < nr; i++) {
		RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
		int one = at ? load_file(at, dir, entries[i]->d_name) : -ENOMEM;

		/*
		 * A file that cannot be read must not keep the other volumes from being
		 * attached.
		 */
		if (!one)
			rd_buffer_put(ret, at, sizeof(*at));
		else
			r = r ? r : one;
		free(entries[i]);
	}
	free(entries);
	return ret->failed ? -ENOMEM : r;
}
