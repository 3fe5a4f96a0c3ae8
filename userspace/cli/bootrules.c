// SPDX-License-Identifier: GPL-2.0
/* What 'verify --boot' is told: see bootrules.h. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "bootrules.h"

#define MEMORY		(1ULL << 30)
#define TIME_US		(10 * 60 * 1000000ULL)
#define SPACE		" \t"

/* --- values */

static int parse_accel(const char *text, enum rd_boot_accel *ret)
{
	static const char *const names[] = { "auto", "kvm", "tcg" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(text, names[i])) {
			*ret = RD_BOOT_ACCEL_AUTO + i;
			return 0;
		}
	return -EINVAL;
}

/* "PATTERN [RULE]". The pattern is copied; 0 and the rule "": it has none. */
static int parse_volumes(const char *text, char pattern[CTL_NAME_MAX + 1], const char **ret_rule)
{
	struct rd_boot_rule rule;
	size_t len = strcspn(text, SPACE);

	if (!len || len > CTL_NAME_MAX)
		return -EINVAL;
	snprintf(pattern, CTL_NAME_MAX + 1, "%.*s", (int)len, text);
	*ret_rule = text + len + strspn(text + len, SPACE);
	return **ret_rule ? rd_boot_rule_parse(*ret_rule, &rule) : 0;
}

bool ctl_boot_rule_is(const char *text)
{
	struct rd_boot_rule rule;

	return !rd_boot_rule_parse(text, &rule);
}

bool ctl_boot_volumes_are(const char *text)
{
	char pattern[CTL_NAME_MAX + 1];
	const char *rule;

	return !parse_volumes(text, pattern, &rule);
}

bool ctl_boot_accel_is(const char *text)
{
	enum rd_boot_accel accel;

	return !parse_accel(text, &accel);
}

/* --- options */

static int check_rules(const struct ctl *ctl)
{
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++) {
		const struct ctl_given *given = &ctl->given[i];

		if (given->option == CTL_OPT_RULE && !ctl_boot_rule_is(given->value))
			return ctl_usage(ctl, "--rule needs serial:TEXT, agent, screen or screen:SECONDS, not '%s'",
					 given->value);
		if (given->option == CTL_OPT_VOLUMES && !ctl_boot_volumes_are(given->value))
			return ctl_usage(ctl, "--volumes needs a pattern, and perhaps a rule, not '%s'",
					 given->value);
	}
	return 0;
}

int ctl_boot_limits(const struct ctl *ctl, struct ctl_boot_limits *ret)
{
	const char *time = ctl_value(ctl, CTL_OPT_TIME), *accel = ctl_value(ctl, CTL_OPT_ACCEL);
	const char *firmware = ctl_value(ctl, CTL_OPT_FIRMWARE);
	int r;

	*ret = (struct ctl_boot_limits){ .memory = MEMORY, .cpus = 1, .time_us = TIME_US };
	r = check_rules(ctl);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_MEMORY, &ret->memory);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_CPUS, 1, CTL_CPUS_MAX, &ret->cpus);
	if (r)
		return r;
	if (ret->memory < CTL_MEMORY_MIN)
		return ctl_usage(ctl, "--memory needs 16M or more");
	if (time && ctl_time_limit_parse(time, &ret->time_us))
		return ctl_usage(ctl, "--time needs a time such as 90s, 30m or 2h, not '%s'", time);
	if (accel && parse_accel(accel, &ret->accel))
		return ctl_usage(ctl, "--accel is auto, kvm or tcg, not '%s'", accel);
	if (firmware && strcmp(firmware, "bios") && strcmp(firmware, "uefi"))
		return ctl_usage(ctl, "--firmware is bios or uefi, not '%s'", firmware);
	if (firmware)
		ret->firmware = firmware[0] == 'b' ? RD_FIRMWARE_BIOS : RD_FIRMWARE_UEFI;
	return 0;
}

/* --- of a volume */

/* Find the first pattern that fits. NULL: none; else its rule, or "". */
static const char *find_pattern(const struct ctl *ctl, const char *volume)
{
	char pattern[CTL_NAME_MAX + 1];
	const char *rule;
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++)
		if (ctl->given[i].option == CTL_OPT_VOLUMES &&
		    !parse_volumes(ctl->given[i].value, pattern, &rule) &&
		    !fnmatch(pattern, volume, 0))
			return rule;
	return NULL;
}

bool ctl_boot_is_meant(const struct ctl *ctl, const char *volume)
{
	return find_pattern(ctl, volume);
}

size_t ctl_boot_rules(const struct ctl *ctl, const char *volume,
		      struct rd_boot_rule ret[CTL_BOOT_RULES_MAX])
{
	const char *of_volume = find_pattern(ctl, volume);
	bool is_typed = ctl_has_typed(ctl, CTL_OPT_RULE);
	unsigned int i;
	size_t nr = 0;

	if (!is_typed && of_volume && of_volume[0])
		return !rd_boot_rule_parse(of_volume, &ret[0]);
	for (i = 0; i < ctl->nr_given && nr < CTL_BOOT_RULES_MAX; i++)
		if (ctl->given[i].option == CTL_OPT_RULE &&
		    !rd_boot_rule_parse(ctl->given[i].value, &ret[nr]))
			nr++;
	if (nr)
		return nr;
	rd_boot_rule_parse(CTL_BOOT_RULE_1, &ret[0]);
	rd_boot_rule_parse(CTL_BOOT_RULE_2, &ret[1]);
	return 2;
}
