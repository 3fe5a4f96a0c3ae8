// SPDX-License-Identifier: GPL-2.0
/* Decide which versions of a volume a policy keeps. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/sort.h"
#include "keep.h"

const char *const ctl_keep_names[CTL_KEEP_RULES] = {
	[CTL_KEEP_LAST] = "last",
	[CTL_KEEP_HOURLY] = "hourly",
	[CTL_KEEP_DAILY] = "daily",
	[CTL_KEEP_WEEKLY] = "weekly",
	[CTL_KEEP_MONTHLY] = "monthly",
	[CTL_KEEP_YEARLY] = "yearly",
	[CTL_KEEP_WITHIN] = "within",
	[CTL_KEEP_TAGGED] = "tag",
	[CTL_KEEP_PROTECTED] = "protected",
};

i64 ctl_keep_period(enum ctl_keep_rule rule, i64 time)
{
	time_t seconds = time;
	struct tm tm;
	i64 day;

	if (!localtime_r(&seconds, &tm))
		return time;
	/* When clocks are put back, an hour occurs twice, and counts as two. */
	if (rule == CTL_KEEP_HOURLY)
		return (time + tm.tm_gmtoff) / 3600 * 2 + (tm.tm_isdst > 0);
	day = (time + tm.tm_gmtoff) / 86400;
	switch (rule) {
	case CTL_KEEP_DAILY:
		return day;
	case CTL_KEEP_WEEKLY:
		/* The first day of 1970 was a Thursday. */
		return (day + 3) / 7;
	case CTL_KEEP_MONTHLY:
		return tm.tm_year * 12 + tm.tm_mon;
	default:
		return tm.tm_year;
	}
}

static int compare_times(const void *a, const void *b)
{
	const struct ctl_keep_item *const *x = a, *const *y = b;

	return rd_order((*x)->time, (*y)->time) ? : rd_order(*x, *y);
}

/* Apply a rule that counts. @sorted: @items in the order of the rule. */
static void apply_count(enum ctl_keep_rule rule, const struct ctl_keep_policy *policy,
			struct ctl_keep_item *items, struct ctl_keep_item **sorted, size_t nr)
{
	unsigned int count = policy->counts[rule];
	i64 last = 0, now;
	bool any = false;

	if (!count || !nr)
		return;
	items[nr - 1].reasons |= 1U << rule;
	while (nr-- && count) {
		if (rule != CTL_KEEP_LAST && sorted[nr]->time > policy->now) {
			sorted[nr]->reasons |= 1U << rule;
			continue;
		}
		now = rule == CTL_KEEP_LAST ? (i64)nr : ctl_keep_period(rule, sorted[nr]->time);
		if (any && now == last)
			continue;
		sorted[nr]->reasons |= 1U << rule;
		any = true;
		last = now;
		count--;
	}
}

static void apply_within(const struct ctl_keep_policy *policy, struct ctl_keep_item *items,
			 size_t nr)
{
	i64 from = policy->now;
	size_t i;

	if (!policy->within || !nr)
		return;
	for (i = nr; i--;) {
		if (items[i].time <= policy->now) {
			from = items[i].time;
			break;
		}
	}
	from -= policy->within;
	for (i = 0; i < nr; i++)
		if (items[i].time >= from || i == nr - 1)
			items[i].reasons |= 1U << CTL_KEEP_WITHIN;
}

int ctl_keep(const struct ctl_keep_policy *policy, struct ctl_keep_item *items, size_t nr)
{
	RD_FREE struct ctl_keep_item **sorted = calloc(nr + 1, sizeof(*sorted));
	unsigned int rule;
	size_t i;

	if (!sorted)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		struct ctl_keep_item *item = &items[i];

		sorted[i] = item;
		item->reasons = 0;
		if (item->is_tagged)
			item->reasons |= 1U << CTL_KEEP_TAGGED;
		if (item->is_protected)
			item->reasons |= 1U << CTL_KEEP_PROTECTED;
	}
	apply_within(policy, items, nr);
	apply_count(CTL_KEEP_LAST, policy, items, sorted, nr);
	qsort(sorted, nr, sizeof(*sorted), compare_times);
	for (rule = CTL_KEEP_LAST + 1; rule < CTL_KEEP_COUNTED; rule++)
		apply_count(rule, policy, items, sorted, nr);
	return 0;
}
