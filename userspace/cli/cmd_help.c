// SPDX-License-Identifier: GPL-2.0
/* revdedupctl help, version, completion. */
#include <stdio.h>
#include <string.h>

#include "pool/data/area.h"
#include "cli.h"

/* --- help */

static void help_all(void)
{
	const struct ctl_command *command;
	char text[80];

	fputs("Usage: revdedupctl [--pool POOL] COMMAND ...\n"
	      "\n"
	      "Keeps versions of disk images and block devices in a deduplicating pool. The newest\n"
	      "version is always stored in one piece.\n"
	      "\n", stdout);
	for (command = ctl_commands; command->name; command++) {
		snprintf(text, sizeof(text), "%s %s", command->name, command->operands);
		printf("  %-34s %s\n", text, command->help);
	}
	fputs("\n"
	      "A version is VOL@3, VOL@latest, VOL@-1 (the one before it), VOL@2026-11-20,\n"
	      "VOL@2026-11-20T02:00 (the newest by then), or VOL@TAG.\n"
	      "\n"
	      "'revdedupctl help COMMAND' describes a command, and revdedupctl(8) everything.\n"
	      "\n"
	      "Exit: 0 done, 1 failed, 2 wrong usage, 3 partly done, 4 damage found, 10 no\n"
	      "pool, 11 locked or in use, 12 no space, 13 no kernel module,\n"
	      "130 interrupted.\n", stdout);
}

static void help_one(const struct ctl_command *command)
{
	unsigned int i;

	printf("Usage: revdedupctl %s %s%s%s\n", command->name,
	       command->options && command->options_first ? "[OPTION...] " : "",
	       command->operands,
	       command->options && !command->options_first ? " [OPTION...]" : "");
	for (i = 0; i < ARRAY_SIZE(command->aliases) && command->aliases[i]; i++)
		printf("%s %s", i ? "," : "Also:", command->aliases[i]);
	printf("%s\n%s.\n", i ? "\n" : "", command->help);
	if (command->options)
		putchar('\n');
	ctl_print_options(command);
}

int cmd_help(struct ctl *ctl)
{
	const struct ctl_command *command;

	if (!ctl->nr_operands) {
		help_all();
		return 0;
	}
	command = ctl_find_command(ctl->operands[0]);
	/* A hint "try 'revdedupctl help help'" would not help. */
	ctl->command = NULL;
	if (!command)
		return ctl_usage(ctl, "there is no command '%s'", ctl->operands[0]);
	help_one(command);
	return 0;
}

int cmd_version(struct ctl *ctl)
{
	(void)ctl;
	printf("revdedupctl " RD_VERSION ", pool format %d\n", RD_POOL_FORMAT);
	return 0;
}

/* --- completion */

static void print_names(const struct ctl_command *command, const char *between)
{
	unsigned int i;

	fputs(command->name, stdout);
	for (i = 0; i < ARRAY_SIZE(command->aliases) && command->aliases[i]; i++)
		printf("%s%s", between, command->aliases[i]);
}

static void print_bash(void)
{
	const struct ctl_command *command;

	/* bash offers files if the function offers nothing. */
	fputs("_revdedupctl()\n"
	      "{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} word words=\n"
	      "\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
	      "\t\tcase $word in\n", stdout);
	for (command = ctl_commands; command->name; command++) {
		fputs("\t\t", stdout);
		print_names(command, " | ");
		fputs(") words=\"", stdout);
		ctl_print_option_names(command);
		fputs(" --help\"; break ;;\n", stdout);
	}
	fputs("\t\tesac\n"
	      "\tdone\n"
	      "\tif [ -z \"$words\" ]; then\n"
	      "\t\twords=\"--pool --help --version", stdout);
	for (command = ctl_commands; command->name; command++) {
		putchar(' ');
		print_names(command, " ");
	}
	fputs("\"\n"
	      "\telif [[ $cur != -* ]]; then\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	      "}\n"
	      "complete -o default -F _revdedupctl revdedupctl\n", stdout);
}

int cmd_completion(struct ctl *ctl)
{
	if (strcmp(ctl->operands[0], "bash"))
		return ctl_usage(ctl, "there is no completion for '%s', only for bash",
				 ctl->operands[0]);
	print_bash();
	return 0;
}
