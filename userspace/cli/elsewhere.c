// SPDX-License-Identifier: GPL-2.0
/* Which version of each volume is elsewhere: see elsewhere.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elsewhere.h"
#include "replace.h"

#define NAME	"last-sent"
/* More lines are not ours. */
#define MAX	100000

static bool parse(const char *line, struct ctl_elsewhere *ret)
{
	memset(ret, 0, sizeof(*ret));
	return sscanf(line, "%lld %lld %128s %511[^\n]", &ret->number, &ret->time, ret->volume,
		      ret->to) == 4 && ctl_is_volume(ret->volume);
}

void ctl_elsewhere_read(const char *pool, struct rd_buffer *ret)
{
	FILE *file = ctl_read_in(pool, NAME);
	struct ctl_elsewhere one;
	char line[1024];
	unsigned int nr;

	if (!file)
		return;
	for (nr = 0; nr < MAX && fgets(line, sizeof(line), file); nr++)
		if (parse(line, &one))
			rd_buffer_put(ret, &one, sizeof(one));
	fclose(file);
}

static struct ctl_elsewhere *find(const struct rd_buffer *all, const struct ctl_elsewhere *like)
{
	struct ctl_elsewhere *one;

	rd_each(one, all)
		if (!strcmp(one->volume, like->volume) && !strcmp(one->to, like->to))
			return one;
	return NULL;
}

static int write_to(const char *path, const struct rd_buffer *all)
{
	RD_FREE char *tmp = NULL;
	const struct ctl_elsewhere *one;
	FILE *out = ctl_replace_begin(path, &tmp);

	if (!out)
		return -errno;
	rd_each(one, all)
		fprintf(out, "%lld %lld %s %s\n", one->number, one->time, one->volume, one->to);
	return ctl_replace_end(out, tmp, 0600);
}

void ctl_elsewhere_write(const char *pool, const struct rd_buffer *now)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	RD_FREE char *path = rd_path_in(pool, NAME);
	const struct ctl_elsewhere *one;
	struct ctl_elsewhere *old;
	int r;

	if (!now->len || access(pool, W_OK))
		return;
	ctl_elsewhere_read(pool, &all);
	rd_each(one, now) {
		old = find(&all, one);
		if (old)
			*old = *one;
		else
			rd_buffer_put(&all, one, sizeof(*one));
	}
	r = path && !all.failed ? write_to(path, &all) : -ENOMEM;
	if (r)
		rd_warn("cannot write '%s': 'status' and 'metrics' will not show this run",
			path ? path : NAME);
}
