// SPDX-License-Identifier: GPL-2.0
/*
 * revdedup-meta: print and check a metadata device or an image of one, without
 * the kernel and without writing a byte. See Documentation/revdedup-meta.8.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "../userspace/meta_check.h"
#include "revdedup-meta.h"

static const char help[] =
"Usage: revdedup-meta [--json] dump DEVICE\n"
"       revdedup-meta [--json] [--frozen] dirty DEVICE\n"
"       revdedup-meta [--json] check DEVICE\n"
"\n"
"Print and check the metadata device of a revdedup volume, or an image of one.\n"
"Nothing is ever written to it.\n"
"\n"
"  dump       everything it says, and what a target would make of it\n"
"  dirty      the dirty segments: a range a line, first,len in hex, as the\n"
"             target's messages have them\n"
"  check      look for damage, and say what a target would do about it\n"
"\n"
"  --frozen   of dirty: the frozen set of the checkpoint that waits, instead\n"
"             of the current one\n"
"  --json     print JSON\n"
"  --help     print this\n"
"  --version  print the version\n"
"\n"
"Exit: 0 fine, 1 failed, 2 wrong usage, 4 the metadata is damaged.\n";

static const struct command {
	const char *name;
	int (*run)(struct rd_tool *tool);
	bool takes_frozen;
} commands[] = {
	{ "dump", rd_tool_dump, false },
	{ "dirty", rd_tool_dirty, true },
	{ "check", rd_tool_check, false },
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
	rd_json_begin(&tool->out, NULL, '{');
	rd_json_string(&tool->out, "device", tool->path);
	rd_json_u64(&tool->out, "blocks", tool->source.nr_blocks);
	rd_json_bool(&tool->out, "in_use", tool->in_use);
}

void rd_tool_json_end(struct rd_tool *tool)
{
	rd_json_end(&tool->out, '}');
	putchar('\n');
}

__attribute__((format(printf, 1, 2)))
static int usage_error(const char *fmt, ...)
{
	va_list args;

	fputs("revdedup-meta: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs(" (try --help)\n", stderr);
	return EXIT_USAGE;
}

static int complain(const char *what, const char *path, int r)
{
	const char *why = r == -ENOTBLK ?
		"neither a block device nor a file" : strerror(-r);

	fprintf(stderr, "revdedup-meta: cannot %s '%s': %s\n", what, path, why);
	return EXIT_FAILED;
}

static int run_on(const struct command *command, struct rd_tool *tool, int fd)
{
	int r = rd_meta_source_fd(&tool->source, fd);

	if (r)
		return complain("read", tool->path, r);
	if (tool->in_use)
		fprintf(stderr,
			"revdedup-meta: warning: '%s' is in use, and what it says may be changing; ask the target (dmsetup message) instead\n",
			tool->path);
	rd_meta_open(&tool->meta, &tool->source);
	r = command->run(tool);
	/* An answer that did not arrive is none. */
	if (fflush(stdout) || ferror(stdout))
		return complain("write to", "stdout", -errno);
	return r;
}

static int run(const struct command *command, struct rd_tool *tool)
{
	int fd = rd_meta_open_path(tool->path, &tool->in_use);
	int r;

	if (fd < 0)
		return complain("open", tool->path, fd);
	r = run_on(command, tool, fd);
	close(fd);
	return r;
}

static int parse_command(char **args, int nr_args, struct rd_tool *tool)
{
	size_t i;

	if (!nr_args)
		return usage_error("which command?");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(args[0], commands[i].name))
			break;
	if (i == ARRAY_SIZE(commands))
		return usage_error("there is no command '%s'", args[0]);
	if (tool->frozen && !commands[i].takes_frozen)
		return usage_error("'%s' does not take --frozen", args[0]);
	if (nr_args < 2)
		return usage_error("'%s' needs a device", args[0]);
	if (nr_args > 2)
		return usage_error("one device only, not '%s' too", args[2]);
	tool->path = args[1];
	return run(&commands[i], tool);
}

static int print(const char *text)
{
	fputs(text, stdout);
	if (fflush(stdout) || ferror(stdout))
		return complain("write to", "stdout", -errno);
	return EXIT_FINE;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "frozen", no_argument, NULL, 'f' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 }
	};
	struct rd_tool tool = { 0 };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'f':
			tool.frozen = true;
			break;
		case 'j':
			tool.json = true;
			break;
		case 'h':
			return print(help);
		case 'V':
			return print("revdedup-meta " RD_VERSION ", metadata format 1\n");
		default:
			return usage_error("there is no option '%s'",
					   argv[optind - 1]);
		}
	}
	return parse_command(argv + optind, argc - optind, &tool);
}
