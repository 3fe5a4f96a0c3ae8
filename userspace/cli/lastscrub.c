// SPDX-License-Identifier: GPL-2.0
/* Read and write the files last-scrub, last-check and last-dedup of a pool. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/pool.h"
#include "lastscrub.h"
#include "replace.h"

#define SCRUB	"last-scrub"
#define CHECK	"last-check"
#define DEDUP	"last-dedup"
#define PART	"scrub-part"
#define PART_FORMAT	"next %llu\nread %llu\nof %llu\nsince %llu\n"
#define FORMAT	"versions %llu\nfingerprints %llu\ncatalog %llu\n"

#define UNSHOWN	"'status' and 'metrics' will not show this run"

/* Replace the file @name. A failure is printed, and @loss, unless that is NULL. */
__attribute__((format(printf, 4, 5)))
static void replace(const struct ctl *ctl, const char *name, const char *loss, const char *fmt, ...)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, name), *tmp = NULL;
	FILE *out = path ? ctl_replace_begin(path, &tmp) : NULL;
	int r = out ? 0 : -errno;
	va_list args;

	if (out) {
		va_start(args, fmt);
		vfprintf(out, fmt, args);
		va_end(args);
		r = ctl_replace_end(out, tmp, 0600);
	}
	if (r && loss)
		rd_err(r, "cannot write '%s': %s", path ? path : name, loss);
}

void ctl_last_scrub_write(const struct ctl *ctl, const struct ctl_last_scrub *scrub)
{
	replace(ctl, SCRUB, UNSHOWN, FORMAT, scrub->versions, scrub->fingerprints, scrub->wrong);
}

void ctl_last_check_write(const struct ctl *ctl, u64 nr_wrong)
{
	replace(ctl, CHECK, NULL, FORMAT, 0ULL, 0ULL, nr_wrong);
}

void ctl_last_dedup_write(const struct ctl *ctl)
{
	replace(ctl, DEDUP, UNSHOWN, "%s", "");
}

u64 ctl_last_dedup_read(const struct ctl *ctl)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, DEDUP);
	struct stat st;

	return path && !stat(path, &st) && S_ISREG(st.st_mode) ? (u64)st.st_mtime : CTL_UNKNOWN;
}

void ctl_scrub_part_read(const struct ctl *ctl, struct ctl_scrub_part *ret)
{
	FILE *file = ctl_read_in(ctl->pool->path, PART);

	if (!file || fscanf(file, PART_FORMAT, &ret->next, &ret->read, &ret->all,
			    &ret->since) != 4)
		*ret = (struct ctl_scrub_part){ 0 };
	if (file)
		fclose(file);
}

void ctl_scrub_part_write(const struct ctl *ctl, const struct ctl_scrub_part *part)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, PART);
	static const char loss[] = "the next scrub reads the same once more";

	if (part->next)
		replace(ctl, PART, loss, PART_FORMAT, part->next, part->read, part->all,
			part->since);
	else if (path && unlink(path) && errno != ENOENT)
		rd_err(-errno, "cannot remove '%s': %s", path, loss);
}

static void read_from(const struct ctl *ctl, const char *name, struct ctl_last_scrub *ret)
{
	FILE *file = ctl_read_in(ctl->pool->path, name);
	struct stat st;

	if (file && fscanf(file, FORMAT, &ret->versions, &ret->fingerprints, &ret->wrong) == 3 &&
	    !fstat(fileno(file), &st))
		ret->time = st.st_mtime;
	else
		memset(ret, 0xff, sizeof(*ret));
	if (file)
		fclose(file);
}

bool ctl_last_found_damage(const struct ctl_last_scrub *last)
{
	return last->time != CTL_UNKNOWN && (last->versions || last->fingerprints || last->wrong);
}

void ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret)
{
	read_from(ctl, SCRUB, ret);
}

void ctl_last_check_read(const struct ctl *ctl, struct ctl_last_scrub *ret)
{
	read_from(ctl, CHECK, ret);
}
