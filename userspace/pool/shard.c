// SPDX-License-Identifier: GPL-2.0
/* The directory of a pool in RADOS on this host: see shard.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/plain.h"
#include "pool.h"
#include "shard.h"

#define SCHEME		"ceph:"
#define ROOT		"/var/lib/revdedup/ceph/"

bool rd_shard_is_name(const char *pool)
{
	return !strncmp(pool, SCHEME, strlen(SCHEME));
}

/* Without the options behind the name. */
void rd_shard_directory(const char *name, char ret[PATH_MAX])
{
	const char *text = name + strlen(SCHEME);

	snprintf(ret, PATH_MAX, ROOT "%.*s", (int)strcspn(text, ":"), text);
}

/* The options may be others than before. */
static int link_data(const char *directory, const char *name)
{
	RD_FREE char *path = rd_path_in(directory, "data");
	char target[PATH_MAX];
	ssize_t len;

	if (!path)
		return -ENOMEM;
	len = readlink(path, target, sizeof(target) - 1);
	if (len >= 0) {
		target[len] = '\0';
		if (!strcmp(target, name) || !strchr(name + strlen(SCHEME), ':'))
			return 0;
		if (unlink(path))
			return rd_err(-errno, "cannot replace '%s'", path);
	}
	return symlink(name, path) ? rd_err(-errno, "cannot make '%s'", path) : 0;
}

int rd_shard_prepare(const char *name, bool join)
{
	char path[PATH_MAX], *slash;
	int r;

	rd_shard_directory(name, path);
	if (strstr(path, "/../") || strstr(path, "/./"))
		return rd_err(0, "'%s' is no name of a shard", name), -EINVAL;
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return rd_err(-errno, "cannot make '%s'", path);
		*slash = '/';
	}
	if (!join)
		return 0;
	if (mkdir(path, 0700) && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", path);
	r = rd_check_directory(path);
	return r ? r : link_data(path, name);
}
