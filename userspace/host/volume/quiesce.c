// SPDX-License-Identifier: GPL-2.0
/* Ask hooks and file systems to hold still before a volume is suspended. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/fsfreeze.h"
#include "quiesce.h"

#define MAX_FSS		64

/* What the guard must know about the progress of the command. */
struct rd_quiesce_shared {
	unsigned int nr_begun;		/* hooks */
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
		one = rd_hook_run(&quiesce->hooks, --shared->nr_begun, "post", quiesce->at,
				  quiesce->seconds, &shared->running);
		r = r ? r : one;
	}
	return r;
}

static void drop(struct rd_quiesce *quiesce)
{
	rd_fs_close(&quiesce->fss);
	rd_hooks_free(&quiesce->hooks);
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
		rd_err(0, "hooks and frozen file systems of '%s' were released after %d s, before the snapshot was ready",
		       quiesce->at->volume, quiesce->guard.limit_ms / 1000);
	drop(quiesce);
	return r ? r : thawed;
}

/* --- doing it */

static int run_hooks(struct rd_quiesce *quiesce)
{
	struct rd_quiesce_shared *shared = quiesce->shared;
	int r = 0;

	while (!r && shared->nr_begun < quiesce->hooks.nr) {
		shared->nr_begun++;
		r = rd_hook_run(&quiesce->hooks, shared->nr_begun - 1, "pre", quiesce->at,
				quiesce->seconds, &shared->running);
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

static int find(struct rd_quiesce *quiesce)
{
	char device[RD_DM_PATH_MAX];
	int r = rd_hooks_find(&quiesce->hooks);

	if (!r)
		r = rd_fs_find(rd_dm_path(device, quiesce->at->device), &quiesce->fss);
	if (!r && nr_fss(quiesce) > MAX_FSS)
		r = rd_err(-E2BIG, "more than %d file systems lie on '%s'", MAX_FSS,
			   quiesce->at->volume);
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
	quiesce->guard.limit_ms = (quiesce->hooks.nr + 1) * quiesce->seconds * 1000;
	r = rd_guard_begin(&quiesce->guard);
	if (r)
		drop(quiesce);
	return r;
}

int rd_quiesce_begin(struct rd_quiesce *quiesce, const struct rd_attachment *at,
		     unsigned int seconds)
{
	int r;

	memset(quiesce, 0, sizeof(*quiesce));
	quiesce->at = at;
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
