// SPDX-License-Identifier: GPL-2.0
/* What those above a volume do before it is suspended, and undo afterwards. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/fsfreeze.h"
#include "hold.h"

#define MAX_FSS		64

/* What the guard has to know of what the command did. */
struct rd_hold_shared {
	unsigned int nr_begun;		/* hooks */
	pid_t running;			/* a hook */
	bool is_frozen[MAX_FSS];
};

static unsigned int nr_fss(const struct rd_hold *hold)
{
	return hold->fss.len / sizeof(struct rd_fs);
}

static const struct rd_fs *fs_of(const struct rd_hold *hold, unsigned int nr)
{
	return (const struct rd_fs *)hold->fss.data + nr;
}

/* --- undoing it */

static int thaw(struct rd_hold *hold)
{
	unsigned int i = nr_fss(hold);
	int one, r = 0;

	while (i--) {
		if (!hold->shared->is_frozen[i])
			continue;
		one = rd_fs_thaw(fs_of(hold, i));
		hold->shared->is_frozen[i] = false;
		r = r ? r : one;
	}
	return r;
}

/* In the guard. */
static int undo(void *ctx, bool is_alone)
{
	struct rd_hold *hold = ctx;
	struct rd_hold_shared *shared = hold->shared;
	int one, r;

	/* One that still says pre must not go on beside the one that says post. */
	if (is_alone && shared->running)
		kill(-shared->running, SIGKILL);
	r = thaw(hold);
	while (shared->nr_begun) {
		one = rd_hook_run(&hold->hooks, --shared->nr_begun, "post", hold->at,
				  hold->seconds, &shared->running);
		r = r ? r : one;
	}
	return r;
}

static void drop(struct rd_hold *hold)
{
	rd_fs_close(&hold->fss);
	rd_hooks_free(&hold->hooks);
	if (hold->shared)
		munmap(hold->shared, sizeof(*hold->shared));
	hold->shared = NULL;
}

int rd_hold_end(struct rd_hold *hold)
{
	int thawed, r;

	if (!hold->shared)
		return 0;
	thawed = thaw(hold);
	if (hold->began)
		hold->usec = rd_now_us() - hold->began;
	r = rd_guard_end(&hold->guard);
	if (r == -ETIME)
		rd_err(0, "hooks and frozen file systems of '%s' were let go after %d s, before the snapshot was ready",
		       hold->at->volume, hold->guard.limit_ms / 1000);
	drop(hold);
	return r ? r : thawed;
}

/* --- doing it */

static int run_hooks(struct rd_hold *hold)
{
	struct rd_hold_shared *shared = hold->shared;
	int r = 0;

	while (!r && shared->nr_begun < hold->hooks.nr) {
		shared->nr_begun++;
		r = rd_hook_run(&hold->hooks, shared->nr_begun - 1, "pre", hold->at,
				hold->seconds, &shared->running);
	}
	return r;
}

static int freeze(struct rd_hold *hold)
{
	unsigned int i;
	int r = 0;

	/* What can be written before nobody has to wait for. */
	for (i = 0; i < nr_fss(hold); i++)
		syncfs(fs_of(hold, i)->fd);
	if (nr_fss(hold))
		hold->began = rd_now_us();
	for (i = 0; i < nr_fss(hold) && !r; i++)
		r = rd_fs_freeze(fs_of(hold, i), &hold->shared->is_frozen[i]);
	return r;
}

static int find(struct rd_hold *hold)
{
	char device[RD_DM_PATH_MAX];
	int r = rd_hooks_find(&hold->hooks);

	if (!r)
		r = rd_fs_find(rd_dm_path(device, hold->at->device), &hold->fss);
	if (!r && nr_fss(hold) > MAX_FSS)
		r = rd_err(-E2BIG, "more than %d file systems lie on '%s'", MAX_FSS,
			   hold->at->volume);
	return r;
}

static int begin_guard(struct rd_hold *hold)
{
	int r;

	hold->shared = mmap(NULL, sizeof(*hold->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hold->shared == MAP_FAILED) {
		hold->shared = NULL;
		return -ENOMEM;
	}
	hold->guard.end = undo;
	hold->guard.ctx = hold;
	/* Each hook may take its time, and what is between pre and post as much again. */
	hold->guard.limit_ms = (hold->hooks.nr + 1) * hold->seconds * 1000;
	r = rd_guard_begin(&hold->guard);
	if (r)
		drop(hold);
	return r;
}

int rd_hold_begin(struct rd_hold *hold, const struct rd_attachment *at, unsigned int seconds)
{
	int r;

	memset(hold, 0, sizeof(*hold));
	hold->at = at;
	hold->seconds = seconds;
	r = find(hold);
	if (r || (!hold->hooks.nr && !nr_fss(hold))) {
		drop(hold);
		return r;
	}
	r = begin_guard(hold);
	if (r)
		return r;
	r = run_hooks(hold);
	if (!r)
		r = rd_failpoint("hold-hooks");
	if (!r)
		r = freeze(hold);
	if (!r)
		r = rd_failpoint("hold-frozen");
	if (r)
		rd_hold_end(hold);
	return r;
}
