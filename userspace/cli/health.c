// SPDX-License-Identifier: GPL-2.0
/* How an attached volume is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/sys/block.h"
#include "host/volume/freeze.h"
#include "cli.h"
#include "health.h"

static const char cut_short[] =
	"is a clone that is being made, or was cut short: 'revdedupctl attach' clears up";

static const char used_past_it[] =
	"is used past its device, which is not tracked: 'fuser -v' of what it lies on says by whom";

/* What is wrong with a device that tracks. */
static const char *problem_of(const struct ctl_health *health, bool is_suspended)
{
	if (is_suspended && !rd_attachment_is_busy(health->at))
		return "is suspended, and who uses it waits: 'revdedupctl attach' resumes it";
	if (!strcmp(health->target.mode, "fail"))
		return "cannot write its metadata device: flushes fail; see dmesg";
	if (strcmp(health->target.mode, "rw"))
		return "cannot be written to; see dmesg";
	return NULL;
}

static const char *print_left(struct ctl_health *health)
{
	char size[CTL_SIZE_TEXT];

	snprintf(health->left, sizeof(health->left), "is on its way home: %s to go",
		 ctl_size_print(size, health->target.hydration_left * RD_BLOCK_SIZE));
	return health->left;
}

static const char *note_of(struct ctl_health *health)
{
	const struct rd_target_status *target = &health->target;

	if (!rd_target_is_home(target) && !strcmp(target->hydration, "off"))
		return "has blocks in the pool, and they stay there";
	if (target->hydration_left)
		return print_left(health);
	if (target->is_lost)
		return "has lost track of changes: the next snapshot reads all of it";
	if (health->is_frozen || target->has_checkpoint)
		return "has a snapshot that is being copied, or was: the next one cleans up";
	return NULL;
}

static void judge(struct ctl_health *health, bool is_suspended)
{
	switch (health->stack) {
	case RD_STACK_DOWN:
		health->problem = "has no device: 'revdedupctl attach' makes it";
		break;
	case RD_STACK_LINEAR:
		health->problem = "is not tracked: 'revdedupctl attach' changes that";
		break;
	case RD_STACK_UP:
		health->problem = problem_of(health, is_suspended);
		health->note = note_of(health);
		break;
	}
}

static int ask(struct ctl_health *health, bool *ret_suspended)
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
	health->is_frozen = rd_freeze_is_there(at);
	return r == -ENODATA ? 0 : r;
}

/* The volume below may be gone, or be another one, under a device that is there. */
static const char *problem_below(const struct ctl_health *health)
{
	RD_FREE struct rd_attachment *now = malloc(sizeof(*now));

	if (now)
		*now = *health->at;
	if (!now || rd_attachment_locate(now))
		return "has lost what it lies on: see 'lvs', and 'vgchange -ay'";
	if (health->problem || health->stack != RD_STACK_UP)
		return NULL;
	return rd_block_is_open(now->base) ? used_past_it : NULL;
}

void ctl_health(struct ctl_health *health, const struct rd_attachment *at)
{
	const char *below;
	bool is_suspended;

	memset(health, 0, sizeof(*health));
	health->at = at;
	/* Any part of it may not be there. */
	if (at->is_unfinished) {
		health->problem = cut_short;
		return;
	}
	if (ask(health, &is_suspended)) {
		health->stack = RD_STACK_DOWN;
		health->problem = "cannot be asked how it is";
		return;
	}
	judge(health, is_suspended);
	below = problem_below(health);
	if (below)
		health->problem = below;
}

const char *ctl_stack_name(enum rd_stack_state stack)
{
	static const char *const names[] = { "down", "linear", "tracked" };

	return names[stack];
}
