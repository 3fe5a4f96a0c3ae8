// SPDX-License-Identifier: GPL-2.0
/* revdedupctl help, version, completion. */
#include <stdio.h>
#include <string.h>

#include "pool/data/area.h"
#include "cli.h"

/* --- help */

/* Above the first command of a group. */
static const char *heading_of(const char *command)
{
	static const struct {
		const char *command, *text;
	} headings[] = {
		{ "snapshot", "Every day" },
		{ "init", "Now and then" },
		{ "doctor", "When something may be broken" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(headings); i++)
		if (!strcmp(headings[i].command, command))
			return headings[i].text;
	return NULL;
}

static void help_all(void)
{
	const struct ctl_command *command;
	const char *heading;

	fputs("Usage: revdedupctl [--pool POOL] COMMAND ...\n"
	      "\n"
	      "Keeps versions of disk images and block devices in a deduplicating pool. The\n"
	      "newest is stored in one piece on a disk that seeks, in few on others.\n", stdout);
	for (command = ctl_commands; command->name; command++) {
		if (!command->help)
			continue;
		heading = heading_of(command->name);
		if (heading)
			printf("\n%s:\n", heading);
		printf("  %-10s %s\n", command->name, command->help);
	}
	fputs("\n"
	      "A version is VOL@3, VOL@latest, VOL@-1 (the one before it), VOL@2026-11-20,\n"
	      "VOL@2026-11-20T02:00 (the newest by then), or VOL@TAG.\n"
	      "\n"
	      "Commands may be cut short ('snap'), but for those that remove or replace data.\n"
	      "'revdedupctl help COMMAND' describes a command, revdedupctl(8) everything, and\n"
	      "revdedup.conf(5) the settings.\n"
	      "\n"
	      "Exit: 0 done, 1 failed, 2 wrong usage, 3 partly done, 4 damage found, 10 no\n"
	      "pool, 11 locked or in use, 12 no space, 13 no kernel module,\n"
	      "130 interrupted.\n", stdout);
}

static void help_one(const struct ctl_command *command)
{
	printf("Usage: revdedupctl %s%s%s%s%s\n", command->name,
	       command->options_first ? " [OPTION...]" : "", command->operands[0] ? " " : "",
	       command->operands, command->options_first ? "" : " [OPTION...]");
	if (command->also)
		printf("Also: %s\n", command->also);
	printf("\n%s.\n\n", command->help);
	ctl_print_options(command);
}

int cmd_help(struct ctl *ctl)
{
	int r;

	if (!ctl->nr_operands) {
		help_all();
		return 0;
	}
	r = ctl_choose_command(ctl, ctl->operands[0]);
	if (!r)
		help_one(ctl->command);
	return r;
}

int cmd_version(struct ctl *ctl)
{
	(void)ctl;
	printf("revdedupctl " RD_VERSION ", pool format %d\n", RD_POOL_FORMAT);
	return 0;
}
