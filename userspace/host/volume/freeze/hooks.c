// SPDX-License-Identifier: GPL-2.0
/* Run the user's programs around a snapshot. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "host/sys/run.h"
#include "pool/pool.h"
#include "hooks.h"

/* Accept the names that run-parts accepts: no backups of editors, no files of dpkg. */
static int is_hook(const struct dirent *entry)
{
	const char *at = entry->d_name;

	while (isalnum((unsigned char)*at) || *at == '-' || *at == '_')
		at++;
	return !*at;
}

/* --- may it run? */

/* Refuse what a user who is neither root nor the caller could have written. */
static int check_writers(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	if (st.st_uid && st.st_uid != geteuid())
		rd_err(0, "'%s' belongs to another user than root: no hook was run", path);
	else if (st.st_mode & 022)
		rd_err(0, "'%s' can be written to by other users than its owner: no hook was run",
		       path);
	else
		return 0;
	rd_hint("nothing was changed; look at what it does, then 'chown root' and 'chmod go-w'");
	return -EPERM;
}

/* Check the program itself, and the directory that it lies in, which may be that of a link. */
static int check_hook(const char *dir, const char *name)
{
	RD_FREE char *link = rd_path_in(dir, name);
	RD_FREE char *path = NULL;
	int r;

	if (!link)
		return -ENOMEM;
	/* A hook that is not executable is switched off. */
	if (access(link, X_OK))
		return 0;
	path = realpath(link, NULL);
	if (!path)
		return rd_err(-errno, "cannot look at '%s'", link);
	r = check_writers(path);
	return r ? r : check_writers(dirname(path));
}

static int check_all(const struct rd_hooks *hooks)
{
	unsigned int i;
	int r = hooks->nr ? check_writers(hooks->dir) : 0;

	for (i = 0; i < hooks->nr && !r; i++)
		r = check_hook(hooks->dir, hooks->entries[i]->d_name);
	return r;
}

/* --- */

int rd_hooks_find(struct rd_hooks *hooks)
{
	int nr;

	memset(hooks, 0, sizeof(*hooks));
	hooks->dir = rd_config_path("hooks.d");
	if (!hooks->dir)
		return -ENOMEM;
	nr = scandir(hooks->dir, &hooks->entries, is_hook, alphasort);
	if (nr < 0 && errno != ENOENT)
		return rd_err(-errno, "cannot read '%s'", hooks->dir);
	hooks->nr = nr < 0 ? 0 : nr;
	return check_all(hooks);
}

void rd_hooks_free(struct rd_hooks *hooks)
{
	while (hooks->nr)
		free(hooks->entries[--hooks->nr]);
	free(hooks->entries);
	free(hooks->dir);
	memset(hooks, 0, sizeof(*hooks));
}

int rd_hook_run(const struct rd_hooks *hooks, unsigned int nr, const char *when,
		const struct rd_attachment *at, unsigned int seconds, pid_t *running)
{
	RD_FREE char *path = rd_path_in(hooks->dir, hooks->entries[nr]->d_name);
	char device[RD_DM_PATH_MAX];
	char *const argv[] = { path, (char *)when, (char *)at->volume,
			       (char *)rd_dm_path(device, at->device), NULL };
	int r;

	if (!path)
		return -ENOMEM;
	/* A hook that is not executable is switched off. */
	if (access(path, X_OK))
		return 0;
	r = rd_run_within(argv, seconds, running);
	if (r == -ETIME)
		rd_err(0, "the hook '%s %s %s' took longer than %u s and was killed", path, when,
		       at->volume, seconds);
	else if (r > 0)
		rd_err(0, "the hook '%s %s %s' failed with exit status %d", path, when,
		       at->volume, r);
	return r > 0 ? -EIO : r;
}
