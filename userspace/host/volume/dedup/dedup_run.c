// SPDX-License-Identifier: GPL-2.0
/* Give back space of an attached volume: what all modes have in common. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/direct.h"
#include "base/log.h"
#include "host/volume/attach/dedup_home.h"
#include "host/volume/freeze/freeze.h"
#include "dedup_read.h"
#include "dedup_run.h"

#define HOME_TRIES	100
#define HOME_GAP_NS	100000000L

/* --- may it be done? */

static int check_discards(const struct rd_dedup_run *run)
{
	const char *volume = run->at->volume;

	if (run->thin.has_origin) {
		rd_err(0, "'%s' has an external origin, which it would read where a chunk is given back",
		       volume);
		rd_remedy(RD_REMEDY_CLONE_THIN, NULL, "nothing was changed");
		return -EINVAL;
	}
	if (!run->thin.discards) {
		rd_err(0, "the thin pool of '%s' ignores discards: nothing would be given back",
		       volume);
		rd_hint("nothing was changed; lvmthin(7) says how to change that");
		return -EOPNOTSUPP;
	}
	if (run->thin.chunk > RD_DEDUP_WINDOW) {
		rd_err(0, "the thin pool of '%s' has chunks of %llu MiB, too large to be free as a whole",
		       volume, run->thin.chunk >> 20);
		rd_hint("nothing was changed; chunks of up to %u MiB are looked for",
			RD_DEDUP_WINDOW >> 20);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int check_thin(struct rd_dedup_run *run)
{
	int r = rd_thin_find(run->at->base, &run->thin);

	if (r == -ENODEV && run->options->thin_only)
		return r;
	if (r == -ENODEV) {
		rd_err(0, "'%s' is no thin volume: it takes up the same space whatever it holds",
		       run->at->volume);
		rd_remedy(RD_REMEDY_CLONE_THIN, NULL, "nothing was changed");
		return -EINVAL;
	}
	run->is_thin = !r;
	return r ? r : check_discards(run);
}

static int check_state(const struct rd_dedup_run *run)
{
	const char *volume = run->at->volume;
	struct rd_target_status status;
	int r = rd_target_status(run->at->device, &status);

	if (r)
		return rd_err(r, "'%s' is not tracked", volume);
	if (status.has_checkpoint || rd_freeze_is_there(run->at)) {
		rd_err(0, "a snapshot of '%s' was interrupted", volume);
		rd_remedy(RD_REMEDY_FINISH_SNAPSHOT, volume, "nothing was changed");
		return -EBUSY;
	}
	if (strcmp(status.hydration, "off")) {
		rd_err(0, "'%s' is being copied back", volume);
		rd_remedy(RD_REMEDY_SEE_STATUS, NULL, "nothing was changed");
		return -EBUSY;
	}
	if (!strcmp(status.mode, "rw"))
		return 0;
	rd_err(0, "'%s' cannot be written to", volume);
	rd_hint("nothing was changed; the kernel's log says why: see dmesg");
	return -EROFS;
}

static int measure_volume(struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(run->at->device, &devices);

	if (r)
		return rd_err(r, "'%s' is not tracked", run->at->volume);
	run->nr_blocks = rd_round_up(devices.sectors, 8) / 8;
	run->unit = rd_max(run->thin.chunk / RD_BLOCK_SIZE, 1);
	return 0;
}

static int check(struct rd_dedup_run *run)
{
	int r = check_thin(run);

	if (!r)
		r = check_state(run);
	if (!r)
		r = measure_volume(run);
	if (r)
		return r;
	return rd_dedup_is_zeros(run) ? rd_dedup_zeros_check(run) : rd_dedup_pool_check(run);
}

/* --- beginning and end */

static int begin(struct rd_dedup_run *run)
{
	char path[RD_DM_PATH_MAX];

	run->pace.rate = run->options->rate;
	run->fd = rd_open_direct(rd_dm_path(path, run->at->device), O_RDONLY, 0);
	return run->fd < 0 ? rd_err(run->fd, "cannot open '%s'", path) : 0;
}

static void end(struct rd_dedup_run *run)
{
	rd_dedup_reader_free(run->reader);
	if (run->fd >= 0)
		close(run->fd);
	if (run->pool_fd >= 0)
		close(run->pool_fd);
	rd_dedup_source_close(&run->source);
}

/* Wait until all is home, or as long as that may take without a word of the user. */
static int come_home(struct rd_dedup_run *run)
{
	struct timespec gap = { .tv_nsec = HOME_GAP_NS };
	bool is_home = false;
	unsigned int i;
	int r;

	r = rd_dedup_bring_home(run->at, &is_home);
	for (i = 0; i < HOME_TRIES && !r && !is_home; i++) {
		nanosleep(&gap, NULL);
		r = rd_dedup_bring_home(run->at, &is_home);
	}
	run->report->coming_home = !is_home;
	return r;
}

static int run_zeros(struct rd_dedup_run *run)
{
	int home, r;

	r = rd_dedup_zeros(run);
	/* Also after an error, and if the user has had enough. */
	home = come_home(run);
	return r ? r : home;
}

/* What there is now, whatever was wanted. */
static int measure(struct rd_dedup_run *run)
{
	struct rd_target_status status;
	struct rd_thin now;
	int r = rd_thin_find(run->at->base, &now);

	if (!r)
		r = rd_target_status(run->at->device, &status);
	if (r)
		return r;
	run->report->mapped_after = now.mapped;
	run->report->pool_used_after = now.pool_used;
	run->report->in_pool = status.nr_pool * RD_BLOCK_SIZE;
	return 0;
}

static int run_mode(struct rd_dedup_run *run)
{
	int r = begin(run);

	if (r)
		return r;
	return rd_dedup_is_zeros(run) ? run_zeros(run) : rd_dedup_pool(run);
}

/* Note how a run has ended that had begun. */
static int note_end(struct rd_dedup_run *run, int error)
{
	if (!error) {
		run->at->dedup_time = time(NULL);
		if (!rd_dedup_is_zeros(run))
			run->at->dedup_in_pool = run->report->in_pool / RD_BLOCK_SIZE;
	}
	return rd_attachment_save(run->at);
}

static int work(struct rd_dedup_run *run)
{
	bool begun;
	int then, r;

	r = check(run);
	run->report->mapped_before = run->thin.mapped;
	run->report->pool_used_before = run->thin.pool_used;
	begun = !r && !run->options->dry_run;
	if (begun)
		r = run_mode(run);
	then = run->is_thin ? measure(run) : 0;
	r = r ? r : then;
	then = begun ? note_end(run, r) : 0;
	end(run);
	return r ? r : then;
}

int rd_live_dedup(const struct rd_caller *caller, struct rd_attachment *at,
		  const struct rd_live_dedup_options *options,
		  struct rd_live_dedup_report *report)
{
	struct rd_dedup_run run = {
		.at = at,
		.options = options,
		.report = report,
		.fd = -1,
		.pool = caller->pool,
		.shut = RD_LOCK_NONE,
		.pool_fd = -1,
	};
	int r;

	memset(report, 0, sizeof(*report));
	r = rd_volume_track(caller, at);
	return r ? r : work(&run);
}
