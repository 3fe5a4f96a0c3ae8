// SPDX-License-Identifier: GPL-2.0
/* Which versions of a volume a policy keeps. */
#include <time.h>

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

/* The number of the hour, day, ... that @item is in; @nr: of the item. */
static i64 period(enum ctl_keep_rule rule, const struct ctl_keep_item *item, size_t nr)
{
	time_t seconds = item->time;
	struct tm tm;
	i64 day;

	if (rule == CTL_KEEP_LAST)
		return nr;
	if (!localtime_r(&seconds, &tm))
		return nr;
	/* Where clocks are put back, one hour of the day comes twice: it is two. */
	if (rule == CTL_KEEP_HOURLY)
		return (item->time + tm.tm_gmtoff) / 3600 * 2 + (tm.tm_isdst > 0);
	day = (item->time + tm.tm_gmtoff) / 86400;
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

static void apply_count(enum ctl_keep_rule rule, unsigned int count,
			struct ctl_keep_item *items, size_t nr)
{
	i64 last = -1, now;

	while (nr-- && count) {
		now = period(rule, &items[nr], nr);
		if (now == last)
			continue;
		items[nr].reasons |= 1U << rule;
		last = now;
		count--;
	}
}

void ctl_keep(const struct ctl_keep_policy *policy, struct ctl_keep_item *items, size_t nr)
{
	unsigned int rule;
	size_t i;

	for (i = 0; i < nr; i++) {
		struct ctl_keep_item *item = &items[i];

		item->reasons = 0;
		if (policy->within && item->time >= items[nr - 1].time - policy->within)
			item->reasons |= 1U << CTL_KEEP_WITHIN;
		if (item->is_tagged)
			item->reasons |= 1U << CTL_KEEP_TAGGED;
		if (item->is_protected)
			item->reasons |= 1U << CTL_KEEP_PROTECTED;
	}
	for (rule = 0; rule < CTL_KEEP_COUNTED; rule++)
		apply_count(rule, policy->counts[rule], items, nr);
}
