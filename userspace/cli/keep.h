/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decide which versions of a volume a policy keeps. Pure.
 *
 * Each rule counts by itself, so several may keep a version. A rule "N daily"
 * keeps the newest version of each of the last N days that have one; days, weeks
 * (from Monday), months and years are those of local time. "Within" counts from
 * the newest version and not from now, so that a volume without new versions loses
 * none.
 *
 * "Last" counts by numbers, all other rules by times. A clock that was wrong costs no
 * version: every rule keeps the last version, whatever its time, and versions dated in
 * the future, which do not count against the rule's number.
 */
#ifndef CTL_KEEP_H
#define CTL_KEEP_H

#include <stdbool.h>

#include "base/units.h"

enum ctl_keep_rule {
	CTL_KEEP_LAST,
	CTL_KEEP_HOURLY,
	CTL_KEEP_DAILY,
	CTL_KEEP_WEEKLY,
	CTL_KEEP_MONTHLY,
	CTL_KEEP_YEARLY,
	CTL_KEEP_COUNTED,	/* those above have a number */

	CTL_KEEP_WITHIN = CTL_KEEP_COUNTED,
	CTL_KEEP_TAGGED,
	CTL_KEEP_PROTECTED,
	CTL_KEEP_RULES,
};

/* "last", "hourly" and so on. */
extern const char *const ctl_keep_names[CTL_KEEP_RULES];

struct ctl_keep_policy {
	unsigned int counts[CTL_KEEP_COUNTED];
	i64 within;		/* seconds; 0: no such rule */
	i64 now;
};

struct ctl_keep_item {
	i64 time;
	bool is_protected;
	bool is_tagged;		/* with a tag that is to be kept */
	unsigned int reasons;	/* result: a bit for each rule; 0: not kept */
};

/* The number of the hour, day and so on of local time in which @time is. */
i64 ctl_keep_period(enum ctl_keep_rule rule, i64 time);

/* @items: in the order of their numbers. -ENOMEM */
int ctl_keep(const struct ctl_keep_policy *policy, struct ctl_keep_item *items, size_t nr);

#endif
