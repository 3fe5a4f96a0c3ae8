// SPDX-License-Identifier: GPL-2.0
/* Read and write the files last-scrub, last-check and last-dedup of a pool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/plain.h"
#include "pool/pool.h"
#include "lastscrub.h"
#include "replace.h"

#define SCRUB	"last-scrub"
#define CHECK	"last-check"
#define DEDUP	"last-dedup"
#define PART	"scrub-part"
#define PART_FORMAT	"next %llu\nread %llu\nof %llu\nsince %llu\n"
#define FORMAT	"versions %llu\nfingerprints %llu\ncatalog %llu\n"

/* Without @scrub the file is empty. */
static int write_to(const char *path, const struct ctl_last_scrub *scrub)
{
	RD_FREE char *tmp = NULL;
	FILE *out = ctl_replace_begin(path, &tmp);

	if (!out)
		return -errno;
	if (scrub)
		fprintf(out, FORMAT, scrub->versions, scrub->fingerprints, scrub->wrong);
	return ctl_replace_end(out, tmp, path, 0600);
}

void ctl_last_scrub_write(const struct ctl *ctl, const struct ctl_last_scrub *scrub)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, SCRUB);
	int r = path ? write_to(path, scrub) : -ENOMEM;

	if (r)
		rd_err(r, "cannot write '%s': 'status' and 'metrics' will not show this run",
		       path ? path : SCRUB);
}

void ctl_last_check_write(const struct ctl *ctl, u64 nr_wrong)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, CHECK);
	const struct ctl_last_scrub check = { .wrong = nr_wrong };

	if (path)
		write_to(path, &check);
}

void ctl_last_dedup_write(const struct ctl *ctl)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, DEDUP);

	if (!path || write_to(path, NULL))
		rd_warn("cannot write '%s': 'status' and 'metrics' will not show this run",
			path ? path : DEDUP);
}

u64 ctl_last_dedup_read(const struct ctl *ctl)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, DEDUP);
	struct stat st;

	return path && !stat(path, &st) && S_ISREG(st.st_mode) ? (u64)st.st_mtime : CTL_UNKNOWN;
}

void ctl_scrub_part_read(const struct ctl *ctl, struct ctl_scrub_part *ret)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, PART);
	int fd = path ? rd_open_plain(path, O_RDONLY, 0) : -ENOMEM;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (!file || fscanf(file, PART_FORMAT, &ret->next, &ret->read, &ret->all,
			    &ret->since) != 4)
		*ret = (struct ctl_scrub_part){ 0 };
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
}

static int write_part(const char *path, const struct ctl_scrub_part *part)
{
	RD_FREE char *tmp = NULL;
	FILE *out;

	if (!part->next)
		return unlink(path) && errno != ENOENT ? -errno : 0;
	out = ctl_replace_begin(path, &tmp);
	if (!out)
		return -errno;
	fprintf(out, PART_FORMAT, part->next, part->read, part->all, part->since);
	return ctl_replace_end(out, tmp, path, 0600);
}

void ctl_scrub_part_write(const struct ctl *ctl, const struct ctl_scrub_part *part)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, PART);
	int r = path ? write_part(path, part) : -ENOMEM;

	if (r)
		rd_err(r, "cannot write '%s': the next scrub reads the same once more",
		       path ? path : PART);
}

static void read_from(const struct ctl *ctl, const char *name, struct ctl_last_scrub *ret)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, name);
	int fd = path ? rd_open_plain(path, O_RDONLY, 0) : -ENOMEM;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat st;

	if (file && fscanf(file, FORMAT, &ret->versions, &ret->fingerprints, &ret->wrong) == 3 &&
	    !fstat(fd, &st))
		ret->time = st.st_mtime;
	else
		memset(ret, 0xff, sizeof(*ret));
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
}

void ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret)
{
	read_from(ctl, SCRUB, ret);
}

void ctl_last_check_read(const struct ctl *ctl, struct ctl_last_scrub *ret)
{
	read_from(ctl, CHECK, ret);
}
