/* SPDX-License-Identifier: GPL-2.0 */
/* What 'verify --boot' is told: by options, and by the section [boot] of revdedup.conf. */
#ifndef CTL_BOOTRULES_H
#define CTL_BOOTRULES_H

#include "host/qemu/boot.h"
#include "cli.h"

/* Where nothing says when a guest is up. */
#define CTL_BOOT_RULE_1	"serial:login:"
#define CTL_BOOT_RULE_2	"agent"
#define CTL_BOOT_RULES	CTL_BOOT_RULE_1 ", " CTL_BOOT_RULE_2
#define CTL_BOOT_RULES_MAX	16

/* Is it what the option or the setting needs? */
bool ctl_boot_rule_is(const char *text);
bool ctl_boot_volumes_are(const char *text);
bool ctl_boot_accel_is(const char *text);

struct ctl_boot_limits {
	u64 memory, cpus, time_us;
	enum rd_boot_accel accel;
	enum rd_firmware firmware;
};

/* Read all options but for the rules, and check those. 0 or CTL_USAGE. */
int ctl_boot_limits(const struct ctl *ctl, struct ctl_boot_limits *ret);
/*
 * Which rules count for @volume: of the first that there are, those of --rule, that of the first
 * pattern of --volumes which fits, the settings, CTL_BOOT_RULES. Returns how many.
 */
size_t ctl_boot_rules(const struct ctl *ctl, const char *volume,
		      struct rd_boot_rule ret[CTL_BOOT_RULES_MAX]);
/* Does a pattern of --volumes fit @volume? */
bool ctl_boot_is_meant(const struct ctl *ctl, const char *volume);

#endif
