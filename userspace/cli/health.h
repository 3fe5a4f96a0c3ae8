/* SPDX-License-Identifier: GPL-2.0 */
/* How an attached volume is, for status and metrics. */
#ifndef CTL_HEALTH_H
#define CTL_HEALTH_H

#include "host/volume/stack.h"

struct ctl_health {
	const struct rd_attachment *at;
	enum rd_stack_state stack;
	struct rd_target_status target;	/* where it is RD_STACK_UP */
	bool is_frozen;
	/* What somebody has to do, and what nobody has to: NULL where it is nothing. */
	const char *problem;
	const char *note;
	char left[64];		/* a note */
};

/* What cannot be asked is a problem of that volume, and said. */
void ctl_health(struct ctl_health *health, const struct rd_attachment *at);

/* "tracked" */
const char *ctl_stack_name(enum rd_stack_state stack);

#endif
