// SPDX-License-Identifier: GPL-2.0
/* Print the state of an attached volume. */
#include <stdio.h>

#include "health.h"
#include "sizes.h"

const char *ctl_problem_print(char *text, const struct rd_health *health)
{
	static const char *const problems[] = {
		[RD_PROBLEM_NONE] = NULL,
		[RD_PROBLEM_UNFINISHED] =
			"is an unfinished clone: 'revdedupctl attach' cleans up, unless it is still being made",
		[RD_PROBLEM_UNKNOWN] = "cannot be asked for its state",
		[RD_PROBLEM_NO_DEVICE] = "has no device: 'revdedupctl attach' makes it",
		[RD_PROBLEM_NOT_TRACKED] =
			"is not tracked: 'revdedupctl attach' changes that, once there is the module dm-revdedup",
		[RD_PROBLEM_SUSPENDED] =
			"is suspended, and programs that use it wait: 'revdedupctl attach' resumes it",
		[RD_PROBLEM_META_FAILS] =
			"cannot write its metadata device: flushes fail; see dmesg",
		[RD_PROBLEM_READ_ONLY] = "cannot be written to; see dmesg",
		[RD_PROBLEM_BASE_GONE] =
			"has lost the device below it: see 'lvs', and 'vgchange -ay'",
		[RD_PROBLEM_BYPASSED] =
			"is bypassed: a program has %s itself open, and its writes are not tracked; 'fuser -v %s' shows which",
		[RD_PROBLEM_THIN_FULL] =
			"lies in a thin pool that is full: writes wait, or fail; see 'lvs', and 'lvextend'",
		[RD_PROBLEM_NO_WAY_BACK] =
			"reads %s from the pool only, and its thin pool has %s free: too little to copy that back",
	};

	if (health->problem == RD_PROBLEM_NO_WAY_BACK) {
		snprintf(text, CTL_PROBLEM_TEXT, problems[RD_PROBLEM_NO_WAY_BACK],
			 ctl_size(health->debt), ctl_size(health->room));
		return text;
	}
	if (health->problem != RD_PROBLEM_BYPASSED)
		return problems[health->problem];
	snprintf(text, CTL_PROBLEM_TEXT, problems[RD_PROBLEM_BYPASSED], health->at->base,
		 health->at->base);
	return text;
}

/* It stays there until the user wants it back, for which the thin pool must have room. */
static const char *print_away(char *text, const struct rd_health *health)
{
	const char *debt = ctl_size(health->debt);

	if (!health->debt)
		return "has blocks that are zeros by the metadata alone";
	if (health->is_thin)
		snprintf(text, CTL_NOTE_TEXT, "reads %s from the pool '%s' only, could need as much of its thin pool (%s free)",
			 debt, health->at->pool, ctl_size(health->room));
	else
		snprintf(text, CTL_NOTE_TEXT, "reads %s from the pool '%s' only", debt,
			 health->at->pool);
	return text;
}

const char *ctl_note_print(char *text, const struct rd_health *health)
{
	switch (health->note) {
	case RD_NOTE_NONE:
		return NULL;
	case RD_NOTE_STAYS_AWAY:
		return print_away(text, health);
	case RD_NOTE_COMING_HOME:
		if (!health->at->pool[0])
			return "is being given zeros back that only its metadata had";
		snprintf(text, CTL_NOTE_TEXT, "is being copied back from the pool '%s': %s left",
			 health->at->pool, ctl_size(health->target.hydration_left * RD_BLOCK_SIZE));
		return text;
	case RD_NOTE_TRACKING_LOST:
		return "has lost track of changes: the next snapshot reads everything";
	case RD_NOTE_SNAPSHOT:
		return "has a snapshot that is running or was interrupted: the next one cleans up";
	}
	return NULL;
}

const char *ctl_stack_name(enum rd_stack_state stack)
{
	static const char *const names[] = { "down", "linear", "tracked" };

	return names[stack];
}
