// SPDX-License-Identifier: GPL-2.0
/* Find out the state of an attached volume. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/sys/block.h"
#include "host/sys/thin.h"
#include "host/volume/freeze/freeze.h"
#include "health.h"

/* How much would the thin pool have to hold once all is copied back, and what has it left? */
static void measure_debt(struct rd_health *health)
{
	struct rd_thin thin;

	health->debt = health->target.nr_pool * RD_BLOCK_SIZE;
	if (access(health->at->base, F_OK) || rd_thin_find(health->at->base, &thin))
		return;
	health->thin_is_full = thin.pool_used >= thin.pool_bytes;
	health->is_thin = health->debt;
	if (health->is_thin)
		health->room = thin.pool_bytes - thin.pool_used;
}

static bool has_no_way_back(const struct rd_health *health)
{
	return health->is_thin && health->at->dedup_pool && health->room < health->debt;
}

/* Return the problem of a device that tracks. */
static enum rd_problem problem_of(const struct rd_health *health, bool is_suspended)
{
	if (is_suspended && !rd_attachment_is_busy(health->at))
		return RD_PROBLEM_SUSPENDED;
	/* Which is why the target may have failed as well. */
	if (health->thin_is_full)
		return RD_PROBLEM_THIN_FULL;
	if (!strcmp(health->target.mode, "fail"))
		return RD_PROBLEM_META_FAILS;
	if (strcmp(health->target.mode, "rw"))
		return RD_PROBLEM_READ_ONLY;
	return has_no_way_back(health) ? RD_PROBLEM_NO_WAY_BACK : RD_PROBLEM_NONE;
}

static enum rd_note note_of(const struct rd_health *health)
{
	const struct rd_target_status *target = &health->target;

	if (!rd_target_is_home(target) && !strcmp(target->hydration, "off"))
		return RD_NOTE_STAYS_AWAY;
	if (target->hydration_left)
		return RD_NOTE_COMING_HOME;
	if (target->is_lost)
		return RD_NOTE_TRACKING_LOST;
	if (health->is_frozen || target->has_checkpoint)
		return RD_NOTE_SNAPSHOT;
	return RD_NOTE_NONE;
}

static void judge(struct rd_health *health, bool is_suspended)
{
	switch (health->stack) {
	case RD_STACK_DOWN:
		health->problem = RD_PROBLEM_NO_DEVICE;
		break;
	case RD_STACK_LINEAR:
		health->problem = RD_PROBLEM_NOT_TRACKED;
		break;
	case RD_STACK_UP:
		health->problem = problem_of(health, is_suspended);
		health->note = note_of(health);
		break;
	}
}

static int ask(struct rd_health *health, bool *ret_suspended)
{
	const struct rd_attachment *at = health->at;
	struct rd_dm_info info;
	int r;

	*ret_suspended = false;
	r = rd_stack_state(at, &health->stack);
	if (r || health->stack != RD_STACK_UP)
		return r;
	r = rd_part_info(at, NULL, &info);
	*ret_suspended = !r && info.suspended;
	if (!r)
		r = rd_target_status(at->device, &health->target);
	if (r == -ENODATA)
		health->stack = RD_STACK_LINEAR;
	if (!r)
		measure_debt(health);
	health->is_frozen = rd_freeze_is_there(at);
	return r == -ENODATA ? 0 : r;
}

/* Check the volume below, which may be missing or replaced. */
static enum rd_problem problem_below(const struct rd_health *health)
{
	RD_FREE struct rd_attachment *now = malloc(sizeof(*now));

	if (now)
		*now = *health->at;
	if (!now || rd_attachment_locate(now))
		return RD_PROBLEM_BASE_GONE;
	if (health->problem || health->stack != RD_STACK_UP)
		return RD_PROBLEM_NONE;
	return rd_block_is_open(now->base) ? RD_PROBLEM_BYPASSED : RD_PROBLEM_NONE;
}

void rd_health_check(struct rd_health *health, const struct rd_attachment *at)
{
	enum rd_problem below;
	bool is_suspended;

	memset(health, 0, sizeof(*health));
	health->at = at;
	/* An unfinished clone may lack any of its parts. */
	if (at->is_unfinished) {
		health->problem = RD_PROBLEM_UNFINISHED;
		return;
	}
	if (ask(health, &is_suspended)) {
		health->stack = RD_STACK_DOWN;
		health->problem = RD_PROBLEM_UNKNOWN;
		return;
	}
	judge(health, is_suspended);
	below = problem_below(health);
	if (below)
		health->problem = below;
}
