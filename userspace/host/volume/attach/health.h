/* SPDX-License-Identifier: GPL-2.0 */
/* Tell how an attached volume is. */
#ifndef RD_HEALTH_H
#define RD_HEALTH_H

#include "stack.h"

/* What the user has to mend. */
enum rd_problem {
	RD_PROBLEM_NONE,
	RD_PROBLEM_UNFINISHED,		/* a clone that is being made, or was cut short */
	RD_PROBLEM_UNKNOWN,		/* its devices cannot be asked */
	RD_PROBLEM_NO_DEVICE,
	RD_PROBLEM_NOT_TRACKED,		/* its device is linear */
	RD_PROBLEM_SUSPENDED,		/* and no command works on it */
	RD_PROBLEM_META_FAILS,		/* the metadata device cannot be written */
	RD_PROBLEM_READ_ONLY,		/* the target refuses writes */
	RD_PROBLEM_BASE_GONE,		/* base or metadata device are not there */
	RD_PROBLEM_BYPASSED,		/* a program has the base itself open */
	RD_PROBLEM_THIN_FULL,		/* no room in the thin pool below it */
	RD_PROBLEM_NO_WAY_BACK,		/* no room to copy back what it gave to the pool */
};

/* What ends by itself, or does no harm. */
enum rd_note {
	RD_NOTE_NONE,
	RD_NOTE_STAYS_AWAY,		/* blocks lie in the pool, and are not copied back */
	RD_NOTE_COMING_HOME,		/* blocks are being copied back */
	RD_NOTE_TRACKING_LOST,		/* the next snapshot reads everything */
	RD_NOTE_SNAPSHOT,		/* one is being taken, or was cut short */
};

struct rd_health {
	const struct rd_attachment *at;
	enum rd_stack_state stack;
	struct rd_target_status target;	/* where it is RD_STACK_UP */
	bool is_frozen;
	bool is_thin;
	bool thin_is_full;
	u64 debt, room;		/* bytes to be copied back, and free for that, if it is thin */
	enum rd_problem problem;
	enum rd_note note;
};

/* What cannot be asked is a problem of that volume, and said. */
void rd_health_check(struct rd_health *health, const struct rd_attachment *at);

#endif
