// SPDX-License-Identifier: GPL-2.0
/* Find a command by what the user has typed: its name, another name, or a short form. */
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "cli.h"

static const struct ctl_command *find_exact(const char *name)
{
	const struct ctl_command *command;

	for (command = ctl_commands; command->name; command++)
		if (!strcmp(command->name, name) ||
		    (command->also && !strcmp(command->also, name)))
			return command;
	return NULL;
}

/* Is @name short for @command? Its other name is written in full. */
static bool is_short(const char *name, const struct ctl_command *command)
{
	return name[0] && command->help && !strncmp(command->name, name, strlen(name));
}

const struct ctl_command *ctl_match_command(const char *name)
{
	const struct ctl_command *command = find_exact(name), *found = NULL;

	if (command)
		return command;
	for (command = ctl_commands; command->name; command++) {
		if (!is_short(name, command))
			continue;
		if (found)
			return NULL;
		found = command;
	}
	return found;
}

static int refuse_ambiguous(struct ctl *ctl, const char *name)
{
	char text[200] = "";
	const struct ctl_command *command;
	size_t len = 0;

	for (command = ctl_commands; command->name; command++)
		if (is_short(name, command) && len < sizeof(text))
			len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? ", " : "",
					command->name);
	return ctl_usage(ctl, "'%s' is short for more than one command: %s", name, text);
}

/* The command that was called @name once, or in short, or NULL. */
static const struct ctl_command *find_old(const char *name)
{
	const struct ctl_command *command;
	unsigned int i;

	for (command = ctl_commands; command->name; command++)
		for (i = 0; i < ARRAY_SIZE(command->was) && command->was[i]; i++)
			if (!strncmp(command->was[i], name, rd_max(strlen(name), CTL_OLD_MIN)))
				return command;
	return NULL;
}

static int refuse_unknown(struct ctl *ctl, const char *name)
{
	const struct ctl_command *command = find_old(name);
	struct rd_nearest nearest = { 0 };
	char text[RD_SUGGEST_TEXT];

	if (command)
		return ctl_usage(ctl, "'%s' is '%s' now", name, command->name);
	for (command = ctl_commands; command->name; command++) {
		if (!command->help)
			continue;
		rd_nearest_add(&nearest, name, command->name);
		if (command->also)
			rd_nearest_add(&nearest, name, command->also);
	}
	return ctl_usage(ctl, "there is no command '%s'%s", name,
			 rd_nearest_print(text, &nearest, ""));
}

int ctl_choose_command(struct ctl *ctl, const char *name)
{
	const struct ctl_command *command;

	ctl->command = ctl_match_command(name);
	if (ctl->command)
		return 0;
	for (command = ctl_commands; command->name; command++)
		if (is_short(name, command))
			return refuse_ambiguous(ctl, name);
	return refuse_unknown(ctl, name);
}

/*
 * Which command a short form means depends on which others there are, and a later version
 * has more. The commands that ask, or that can be tried with a dry run, take something away, and
 * so does 'copies 0': for these three letters less are not worth a mistake.
 */
int ctl_check_in_full(const struct ctl *ctl, const char *name)
{
	const ctl_options takes_away = CTL_OPTION_BIT(CTL_OPT_YES) |
		CTL_OPTION_BIT(CTL_OPT_DRY_RUN);

	if ((!(ctl->command->options & takes_away) && ctl->command->run != cmd_copies) ||
	    find_exact(name))
		return 0;
	return ctl_usage(ctl, "'%s' is short for '%s', which removes or replaces data: write it in full",
			 name, ctl->command->name);
}
