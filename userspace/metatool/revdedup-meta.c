// SPDX-License-Identifier: GPL-2.0
/*
 * revdedup-meta: print and check a metadata device or an image of one, make one
 * with a table, and copy blocks home, all without the kernel. See
 * Documentation/revdedup-meta.8.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "base/standard.h"
#include "base/suggest.h"
#include "meta/check.h"
#include "metatool.h"

static const char help[] =
"Usage: revdedup-meta [--json] dump DEVICE\n"
"       revdedup-meta [--json] [--frozen] dirty DEVICE\n"
"       revdedup-meta [--json] check DEVICE\n"
"       revdedup-meta [--json] table DEVICE [FIRST [COUNT]]\n"
"       revdedup-meta [--json] [--force] [--volume-uuid UUID] [--pool-uuid UUID]\n"
"                     --sectors N make DEVICE FILE\n"
"       revdedup-meta [--json] [--yes | --dry-run] finish DEVICE BASE POOL\n"
"\n"
"Print, check, make and retire the metadata device of a revdedup volume, or an image\n"
"of one. Only make and finish write.\n"
"\n"
"  dump       print all fields, and what a target would do with the device\n"
"  dirty      print the dirty segments, a range a line: first,len in hex, as in the\n"
"             messages of the target\n"
"  check      look for damage, and say what a target would do about it\n"
"  table      print where the blocks are, a range a line: first,len,place; the place is\n"
"             b (base), z (zeros), p and a pool block, or k, the pool block of a pack,\n"
"             a dot and the slot in it. FIRST and COUNT are decimal\n"
"  make       format DEVICE, with every segment dirty and the places that FILE (or -)\n"
"             lists, in the same form, ascending; all other blocks are on the base\n"
"  finish     copy every block that is not on BASE from POOL to BASE, so that a\n"
"             linear device over BASE is the volume\n"
"\n"
"  --frozen   for dirty: print the frozen set of the pending checkpoint instead of\n"
"             the current set\n"
"  --sectors N         for make: the size of the volume in sectors of 512 bytes\n"
"  --volume-uuid UUID  for make: the UUID that the target's table line will name\n"
"  --pool-uuid UUID    the same for the pool\n"
"  --force    for make: overwrite DEVICE, whatever it holds\n"
"  -y, --yes  for finish: do not ask\n"
"  --dry-run  for finish: read everything, write nothing\n"
"  --json     print JSON\n"
"  -h, --help     print this help\n"
"  -V, --version  print the version\n"
"\n"
"Exit: 0 fine, 1 failed, 2 wrong usage, 4 the metadata is damaged.\n";

/* Bits, which do not collide with the characters that getopt_long() returns. */
enum {
	OPT_FROZEN = 1 << 8,
	OPT_JSON = 1 << 9,
	OPT_SECTORS = 1 << 10,
	OPT_VOLUME_UUID = 1 << 11,
	OPT_POOL_UUID = 1 << 12,
	OPT_FORCE = 1 << 13,
	OPT_YES = 1 << 14,
	OPT_DRY_RUN = 1 << 15,
};

static const struct command {
	const char *name;
	int (*run)(struct rd_tool *tool);
	bool writes;
	unsigned int options;	/* it takes these, and --json */
	int min_args, max_args;
	const char *needs;
} commands[] = {
	{ "dump", rd_tool_dump, false, 0, 1, 1, "a device" },
	{ "dirty", rd_tool_dirty, false, OPT_FROZEN, 1, 1, "a device" },
	{ "check", rd_tool_check, false, 0, 1, 1, "a device" },
	{ "table", rd_tool_table, false, 0, 1, 3, "a device" },
	{ "make", rd_tool_make, true,
	  OPT_SECTORS | OPT_VOLUME_UUID | OPT_POOL_UUID | OPT_FORCE, 2, 2,
	  "a device and a file of places" },
	{ "finish", rd_tool_finish, true, OPT_YES | OPT_DRY_RUN, 3, 3,
	  "a device, the base and the pool" },
};

int rd_tool_exit(const struct rd_tool *tool)
{
	if (!tool->meta.r)
		return EXIT_FINE;
	return rd_meta_is_damaged(&tool->meta) ? EXIT_DAMAGE : EXIT_FAILED;
}

int rd_tool_refuse(const struct rd_tool *tool)
{
	fprintf(stderr, "revdedup-meta: '%s': %s\n", tool->path,
		tool->meta.why);
	fprintf(stderr, "revdedup-meta: %s\n", rd_meta_advice(&tool->meta));
	return rd_tool_exit(tool);
}

void rd_tool_json_begin(struct rd_tool *tool)
{
	tool->out.out = stdout;
	rd_json_add(&tool->out, "{ device=%s blocks=%llu in_use=%d",
		    tool->path, tool->source.nr_blocks, tool->in_use);
}

void rd_tool_json_end(struct rd_tool *tool)
{
	rd_json_end(&tool->out, '}');
	putchar('\n');
}

static void say(const char *fmt, va_list args, const char *end)
{
	fputs("revdedup-meta: ", stderr);
	vfprintf(stderr, fmt, args);
	fputs(end, stderr);
}

int rd_tool_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args, "\n");
	va_end(args);
	return EXIT_FAILED;
}

int rd_tool_misused(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args, " (try --help)\n");
	va_end(args);
	return EXIT_USAGE;
}

int rd_tool_complain(const char *what, const char *path, int r)
{
	const char *why = r == -ENOTBLK ?
		"neither a block device nor a file" : strerror(-r);

	return rd_tool_fail("cannot %s '%s': %s", what, path, why);
}

int rd_tool_open_alone(const char *path, int flags)
{
	struct stat st = { .st_mode = S_IFREG };
	int fd;

	/* Look before the open, which may block on a fifo or trigger a device. */
	if (stat(path, &st) && (errno != ENOENT || !(flags & O_CREAT)))
		return -errno;
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
		return -ENOTBLK;
	if (S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	fd = rd_open_direct(path, flags, 0666);
	if (fd >= 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

static int run_on(int (*command)(struct rd_tool *tool), struct rd_tool *tool, int fd)
{
	int r = rd_meta_source_fd(&tool->source, fd);

	if (r)
		return rd_tool_complain("read", tool->path, r);
	if (tool->in_use)
		fprintf(stderr,
			"revdedup-meta: warning: '%s' is in use, and its content may be changing; ask the target instead (dmsetup message)\n",
			tool->path);
	rd_meta_open(&tool->meta, &tool->source);
	return command(tool);
}

static int run_read(int (*command)(struct rd_tool *tool), struct rd_tool *tool)
{
	int fd = rd_meta_open_path(tool->path, &tool->in_use);
	int r;

	if (fd < 0)
		return rd_tool_complain("open", tool->path, fd);
	r = run_on(command, tool, fd);
	close(fd);
	return r;
}

static int run(const struct command *command, struct rd_tool *tool)
{
	int r = command->writes ? command->run(tool) : run_read(command->run, tool);

	/* An answer that cannot be written is a failure. */
	if (fflush(stdout) || ferror(stdout))
		return rd_tool_complain("write to", "stdout", -errno);
	return r;
}

static const struct option options[] = {
	{ "frozen", no_argument, NULL, OPT_FROZEN },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "sectors", required_argument, NULL, OPT_SECTORS },
	{ "volume-uuid", required_argument, NULL, OPT_VOLUME_UUID },
	{ "pool-uuid", required_argument, NULL, OPT_POOL_UUID },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "yes", no_argument, NULL, OPT_YES },
	{ "dry-run", no_argument, NULL, OPT_DRY_RUN },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static const char *option_name(unsigned int given)
{
	const struct option *option = options;

	while (!(given & option->val))
		option++;
	return option->name;
}

static int unknown_command(const char *name)
{
	struct rd_nearest nearest = { 0 };
	char text[RD_SUGGEST_TEXT];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		rd_nearest_add(&nearest, name, commands[i].name);
	return rd_tool_misused("there is no command '%s'%s", name,
			       rd_nearest_print(text, &nearest, ""));
}

static int unknown_option(const char *given)
{
	struct rd_nearest nearest = { 0 };
	char text[RD_SUGGEST_TEXT];
	const struct option *option;

	for (option = options; option->name && !strncmp(given, "--", 2); option++)
		rd_nearest_add(&nearest, given + 2, option->name);
	return rd_tool_misused("there is no option '%s'%s", given,
			       rd_nearest_print(text, &nearest, "--"));
}

static int parse_command(char **args, int nr_args, unsigned int given,
			 struct rd_tool *tool)
{
	const struct command *command = commands;

	if (!nr_args)
		return rd_tool_misused("no command given");
	while (strcmp(args[0], command->name))
		if (++command == commands + ARRAY_SIZE(commands))
			return unknown_command(args[0]);
	/* A command that never asks takes the answer as well. */
	given &= ~(command->options | OPT_JSON | OPT_YES);
	if (given)
		return rd_tool_misused("'%s' does not take --%s", args[0],
				       option_name(given));
	if (nr_args - 1 < command->min_args)
		return rd_tool_misused("'%s' needs %s", args[0], command->needs);
	if (nr_args - 1 > command->max_args)
		return rd_tool_misused("unexpected argument '%s'", args[command->max_args + 1]);
	tool->path = args[1];
	tool->args = args + 2;
	return run(command, tool);
}

static int print(const char *text)
{
	fputs(text, stdout);
	if (fflush(stdout) || ferror(stdout))
		return rd_tool_complain("write to", "stdout", -errno);
	return EXIT_FINE;
}

/* Keep the argument of @option. */
static void take_option(struct rd_tool *tool, int option)
{
	switch (option) {
	case OPT_SECTORS:
		tool->sectors = optarg;
		return;
	case OPT_VOLUME_UUID:
		tool->volume_uuid = optarg;
		return;
	case OPT_POOL_UUID:
		tool->pool_uuid = optarg;
		return;
	}
}

int main(int argc, char **argv)
{
	struct rd_tool tool = { 0 };
	unsigned int given = 0;
	int c;

	if (!rd_hold_standard_files())
		return EXIT_FAILED;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":hVy", options, NULL)) != -1) {
		if (c == 'h')
			return print(help);
		if (c == 'V')
			return print("revdedup-meta " RD_VERSION ", metadata format 1\n");
		if (c == 'y')
			c = OPT_YES;
		if (c == ':')
			return rd_tool_misused("'%s' needs a value", argv[optind - 1]);
		if (c == '?')
			return unknown_option(argv[optind - 1]);
		take_option(&tool, c);
		given |= c;
	}
	tool.frozen = given & OPT_FROZEN;
	tool.json = given & OPT_JSON;
	tool.force = given & OPT_FORCE;
	tool.yes = given & OPT_YES;
	tool.dry_run = given & OPT_DRY_RUN;
	return parse_command(argv + optind, argc - optind, given, &tool);
}
