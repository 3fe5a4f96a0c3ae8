// SPDX-License-Identifier: GPL-2.0
/* Ask hooks and file systems to hold still before volumes are suspended. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/fsfreeze.h"
#include "quiesce.h"

#define MAX_FSS		64

/* What the guard must know about the progress of the command. */
struct rd_quiesce_shared {
	unsigned int nr_begun;		/* hooks: all of the first volume, and so on */
	pid_t running;			/* a hook */
	bool is_frozen[MAX_FSS];
};

static unsigned int nr_fss(const struct rd_quiesce *quiesce)
{
	return quiesce->fss.len / sizeof(struct rd_fs);
}

static const struct rd_fs *fs_of(const struct rd_quiesce *quiesce, unsigned int nr)
{
	return (const struct rd_fs *)quiesce->fss.data + nr;
}

static unsigned int nr_hooks(const struct rd_quiesce *quiesce)
{
	return quiesce->hooks.nr * quiesce->nr;
}

static int run_hook(struct rd_quiesce *quiesce, unsigned int nr, const char *when)
{
	const struct rd_hooks *hooks = &quiesce->hooks;

	return rd_hook_run(hooks, nr % hooks->nr, when, quiesce->ats[nr / hooks->nr],
			   quiesce->seconds, &quiesce->shared->running);
}

/* --- undoing it */

static int thaw(struct rd_quiesce *quiesce)
{
	unsigned int i = nr_fss(quiesce);
	int one, r = 0;

	while (i--) {
		if (!quiesce->shared->is_frozen[i])
			continue;
		one = rd_fs_thaw(fs_of(quiesce, i));
		quiesce->shared->is_frozen[i] = false;
		r = r ? r : one;
	}
	return r;
}

/* Undo all in the guard. */
static int undo(void *ctx, bool is_alone)
{
	struct rd_quiesce *quiesce = ctx;
	struct rd_quiesce_shared *shared = quiesce->shared;
	int one, r;

	/* A hook that still runs as pre must not go on beside the one that runs as post. */
	if (is_alone && shared->running)
		kill(-shared->running, SIGKILL);
	r = thaw(quiesce);
	while (shared->nr_begun) {
		one = run_hook(quiesce, --shared->nr_begun, "post");
		r = r ? r : one;
	}
	return r;
}

static void drop(struct rd_quiesce *quiesce)
{
	rd_fs_close(&quiesce->fss);
	rd_hooks_free(&quiesce->hooks);
	free(quiesce->devices);
	quiesce->devices = NULL;
	if (quiesce->shared)
		munmap(quiesce->shared, sizeof(*quiesce->shared));
	quiesce->shared = NULL;
}

int rd_quiesce_end(struct rd_quiesce *quiesce)
{
	int thawed, r;

	if (!quiesce->shared)
		return 0;
	thawed = thaw(quiesce);
	if (quiesce->began)
		quiesce->usec = rd_now_us() - quiesce->began;
	r = rd_guard_end(&quiesce->guard);
	if (r == -ETIME)
		rd_err(0, "hooks and frozen file systems of '%s'%s were released after %d s, before the snapshot was ready",
		       quiesce->ats[0]->volume, quiesce->nr > 1 ? " and others" : "",
		       quiesce->guard.limit_ms / 1000);
	drop(quiesce);
	return r ? r : thawed;
}

/* --- doing it */

static int run_hooks(struct rd_quiesce *quiesce)
{
	struct rd_quiesce_shared *shared = quiesce->shared;
	int r = 0;

	while (!r && shared->nr_begun < nr_hooks(quiesce)) {
		shared->nr_begun++;
		r = run_hook(quiesce, shared->nr_begun - 1, "pre");
	}
	return r;
}

static int freeze(struct rd_quiesce *quiesce)
{
	unsigned int i;
	int r = 0;

	/* Write back before the freeze, so that writers wait less. */
	for (i = 0; i < nr_fss(quiesce); i++)
		syncfs(fs_of(quiesce, i)->fd);
	if (nr_fss(quiesce))
		quiesce->began = rd_now_us();
	for (i = 0; i < nr_fss(quiesce) && !r; i++)
		r = rd_fs_freeze(fs_of(quiesce, i), &quiesce->shared->is_frozen[i]);
	return r;
}

static int find_devices(struct rd_quiesce *quiesce)
{
	char path[RD_DM_PATH_MAX];
	struct stat st;
	unsigned int i;

	quiesce->devices = calloc(quiesce->nr, sizeof(*quiesce->devices));
	if (!quiesce->devices)
		return -ENOMEM;
	for (i = 0; i < quiesce->nr; i++) {
		if (stat(rd_dm_path(path, quiesce->ats[i]->device), &st))
			return rd_err(-errno, "cannot look at '%s'", path);
		quiesce->devices[i] = st.st_rdev;
	}
	return 0;
}

static int find(struct rd_quiesce *quiesce)
{
	int r = rd_hooks_find(&quiesce->hooks);

	if (!r)
		r = find_devices(quiesce);
	if (!r)
		r = rd_fs_find(quiesce->devices, quiesce->nr, &quiesce->fss);
	if (!r && nr_fss(quiesce) > MAX_FSS)
		r = rd_err(-E2BIG, "more than %d file systems lie on '%s'%s", MAX_FSS,
			   quiesce->ats[0]->volume, quiesce->nr > 1 ? " and others" : "");
	return r;
}

static int begin_guard(struct rd_quiesce *quiesce)
{
	int r;

	quiesce->shared = mmap(NULL, sizeof(*quiesce->shared), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (quiesce->shared == MAP_FAILED) {
		quiesce->shared = NULL;
		return -ENOMEM;
	}
	quiesce->guard.end = undo;
	quiesce->guard.ctx = quiesce;
	/* Each hook may take its time, and the work between pre and post as much again. */
	quiesce->guard.limit_ms = rd_min((nr_hooks(quiesce) + 1ULL) * quiesce->seconds * 1000,
					 (u64)INT_MAX);
	r = rd_guard_begin(&quiesce->guard);
	if (r)
		drop(quiesce);
	return r;
}

bool rd_quiesce_has_frozen(const struct rd_quiesce *quiesce, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr_fss(quiesce); i++)
		if (fs_of(quiesce, i)->device == quiesce->devices[nr] &&
		    quiesce->shared->is_frozen[i])
			return true;
	return false;
}

int rd_quiesce_begin(struct rd_quiesce *quiesce, const struct rd_attachment *const *ats,
		     unsigned int nr, unsigned int seconds)
{
	int r;

	memset(quiesce, 0, sizeof(*quiesce));
	quiesce->ats = ats;
	quiesce->nr = nr;
	quiesce->seconds = seconds;
	r = find(quiesce);
	if (r || (!quiesce->hooks.nr && !nr_fss(quiesce))) {
		drop(quiesce);
		return r;
	}
	r = begin_guard(quiesce);
	if (r)
		return r;
	r = run_hooks(quiesce);
	if (!r)
		r = rd_failpoint("quiesce-hooks");
	if (!r)
		r = freeze(quiesce);
	if (!r)
		r = rd_failpoint("quiesce-frozen");
	if (r)
		rd_quiesce_end(quiesce);
	return r;
}
