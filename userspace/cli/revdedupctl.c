// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl: keep versions of disk images and block devices in a pool. See
 * Documentation/revdedupctl.8.
 *
 * This file has the table of commands with their options, and the end of the program.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/standard.h"
#include "host/sys/dm.h"
#include "cli.h"
#include "remedies.h"

#define O(name)		CTL_OPTION_BIT(CTL_OPT_##name)
#define COMMON		(O(POOL) | O(CONFIG) | O(LOCK_WAIT) | O(JSON) | O(QUIET) | O(VERBOSE))
/*
 * The options of commands that need no pool, and read no configuration: a mistake in that
 * leaves no guest without its disk at boot.
 */
#define HOST		(COMMON & ~(O(POOL) | O(CONFIG)))
#define KEEP		(O(KEEP_LAST) | O(KEEP_HOURLY) | O(KEEP_DAILY) | O(KEEP_WEEKLY) | \
			 O(KEEP_MONTHLY) | O(KEEP_YEARLY) | O(KEEP_WITHIN) | O(KEEP_TAG) | \
			 O(REMOVE_ALL))
#define ANY		1000000

/* In the order of 'help', see there. */
const struct ctl_command ctl_commands[] = {
	{ "snapshot", "backup", { "create" }, "VOL [--from PATH]|--group NAME VOL...|--all",
	  "take a version of an attached volume, an image or a device",
	  COMMON | O(PROGRESS) | O(FROM) | O(CHANGED) | O(QMP) | O(LIBVIRT) | O(BITMAP) |
	  O(NEXT_BITMAP) | O(TEMP) | O(FULL_SCAN) | O(COMMENT) | O(TAG) | O(GROUP) | O(COW_SIZE) |
	  O(HOOK_TIMEOUT) | O(ALL) | O(SIZE) | O(COMPRESSION) | O(PIECES) | O(DEDUP) |
	  O(VERIFY_HITS) | O(RATE) | O(FORCE), 0, ANY, false, cmd_snapshot },
	{ "list", "ls", { "versions", "snapshots" }, "[VOL|@TAG]", "list versions",
	  COMMON | O(NEWEST) | O(SORT), 0, 1, false, cmd_list },
	{ "show", NULL, { "info" }, "VOL[@VERSION]|@TAG", "describe a version",
	  COMMON, 1, 1, false, cmd_show },
	{ "status", NULL, { NULL }, "[VOL]", "show pool and volumes; exits 1 if one needs attention",
	  COMMON, 0, 1, false, cmd_status },
	{ "restore", NULL, { "extract" }, "VOL@VERSION --to TARGET",
	  "write a version to a file or a device",
	  COMMON | O(PROGRESS) | O(FROM) | O(TO) | O(FULL) | O(RATE) | O(RSH) | O(YES) | O(FORCE),
	  1, 1, false, cmd_restore },
	{ "dump", NULL, { "cat" }, "VOL@VERSION", "write a version to stdout",
	  (COMMON | O(PROGRESS) | O(RATE)) & ~O(JSON), 1, 1, false, cmd_dump },
	{ "send", NULL, { "push" }, "[VOL[@VERSION]|@TAG...|--all] [--to POOL|HOST:POOL]",
	  "copy versions to another pool, or write them to stdout",
	  COMMON | O(PROGRESS) | O(DRY_RUN) | O(TO) | O(ALL) | O(NEWEST) | O(SINCE) | O(AS) |
	  O(RATE) | O(RSH) | O(COMPRESSION) | O(FORCE), 0, ANY, false, cmd_send },
	{ "receive", NULL, { "pull" }, "[VOL[@VERSION]...|--all --from POOL|HOST:POOL]",
	  "copy versions from another pool, or read them from stdin",
	  COMMON | O(PROGRESS) | O(FROM) | O(ALL) | O(NEWEST) | O(AS) | O(RATE) | O(RSH), 0, ANY,
	  false, cmd_receive },
	{ "serve", NULL, { NULL }, "[VOL[@VERSION] --from HOST:POOL]",
	  "be the other end of send and receive, on stdin and stdout",
	  (COMMON | O(SHARE) | O(APPEND_ONLY) | O(READ_ONLY) | O(VOLUMES) | O(LIMIT) | O(RATE) |
	   O(FROM) | O(RSH)) & ~O(JSON), 0, 1, false, cmd_serve },
	{ "mount", NULL, { NULL }, "VOL[@VERSION] DIR", "mount the file system in a version",
	  COMMON | O(WRITABLE) | O(PARTITION), 2, 2, false, cmd_mount },
	{ "umount", NULL, { "unmount" }, "DIR", "unmount a version, and remove its device",
	  COMMON, 1, 1, false, cmd_umount },
	{ "map", NULL, { "activate" }, "VOL[@VERSION] [NAME]", "make a block device of a version",
	  COMMON | O(WRITABLE) | O(FROM) | O(RSH), 1, 2, false, cmd_map },
	{ "unmap", NULL, { "deactivate" }, "NAME", "remove the device of a version",
	  COMMON | O(YES) | O(FORCE), 1, 1, false, cmd_unmap },
	{ "export", NULL, { NULL }, "VOL[@VERSION]|--all", "serve versions as disks over NBD",
	  COMMON | O(ALL) | O(UNIX) | O(ADDRESS) | O(PORT) | O(TLS_CERTIFICATES) | O(TLS_PSK) |
	  O(INSECURE) | O(WRITABLE) | O(BACKGROUND) | O(FROM) | O(RSH), 0, 1, false, cmd_export },
	{ "unexport", NULL, { NULL }, "VOL@VERSION|--all", "end an export",
	  HOST | O(ALL), 0, 1, false, cmd_unexport },
	{ "files", NULL, { NULL }, "VOL[@VERSION] [PATH]", "list the files in a version, or get them out",
	  COMMON | O(TO) | O(TAR), 1, 2, false, cmd_files },
	{ "find", NULL, { "locate" }, "PATTERN [VOL[@VERSION]]",
	  "find files in versions, and when they changed",
	  COMMON | O(PROGRESS) | O(NEWEST), 1, 2, false, cmd_find },
	{ "diff", NULL, { NULL }, "VOL@A [VOL@B|--from PATH]",
	  "list ranges that differ: offset and length",
	  COMMON | O(PROGRESS) | O(FROM), 1, 2, false, cmd_diff },
	{ "tag", NULL, { "label" }, "VOL@VERSION +TAG|-TAG...", "add and remove tags",
	  COMMON, 2, ANY, true, cmd_tag },
	{ "protect", NULL, { "hold", "pin" }, "VOL@VERSION|@TAG...", "keep versions from being deleted",
	  COMMON, 1, ANY, false, cmd_protect },
	{ "unprotect", NULL, { "release", "unpin" }, "VOL@VERSION|@TAG...",
	  "allow versions to be deleted again",
	  COMMON, 1, ANY, false, cmd_unprotect },
	{ "delete", "rm", { "remove", "forget" }, "VOL@VERSION|@TAG...", "delete versions",
	  COMMON | O(PROGRESS) | O(DRY_RUN), 1, ANY, false, cmd_delete },
	{ "prune", NULL, { "expire" }, "[VOL] [--keep-...]", "delete versions that no rule keeps",
	  COMMON | O(PROGRESS) | O(DRY_RUN) | KEEP, 0, 1, false, cmd_prune },
	{ "init", NULL, { "create-pool" }, "[POOL]", "make a pool in the directory POOL",
	  O(DATA) | O(SIZE) | O(RESERVE) | O(COMPRESSION) | O(PIECES) | O(DEDUP) | O(FORCE) |
	  O(JSON) | O(QUIET) | O(VERBOSE), 0, 1,
	  false, cmd_init },
	{ "attach", NULL, { "track" }, "VOL|--all", "start tracking the changes of a volume",
	  HOST | O(FROM) | O(META) | O(ALL), 0, 1, false, cmd_attach },
	{ "detach", NULL, { "untrack" }, "VOL", "stop tracking a volume, and forget its changes",
	  HOST | O(YES) | O(FORCE), 1, 1, false, cmd_detach },
	{ "clone", NULL, { NULL }, "VOL[@VERSION] GROUP/NAME",
	  "make a new volume from a version, at once",
	  COMMON | O(THINPOOL) | O(NO_HYDRATE), 2, 2, false, cmd_clone },
	{ "rollback", NULL, { "revert", "merge" }, "VOL@VERSION|@TAG",
	  "turn an attached volume back to a version, at once",
	  COMMON | O(PROGRESS) | O(YES) | O(FORCE) | O(NO_SNAPSHOT) | O(COW_SIZE) |
	  O(HOOK_TIMEOUT), 1, 1, false, cmd_rollback },
	{ "tune", NULL, { NULL }, "[VOL]", "show or change how what is new is stored, by default or of VOL",
	  COMMON | O(PIECES) | O(DEDUP) | O(RESET), 0, 1, false, cmd_tune },
	{ "dedup", NULL, { "optimize" }, "",
	  "let old versions give up what the pool has twice",
	  COMMON | O(PROGRESS) | O(DRY_RUN) | O(RATE) | O(TIME) | O(OLDER) | O(LEAST_RUN) | O(TEMP),
	  0, 0, false, cmd_dedup },
	{ "copies", NULL, { NULL }, "[N%|SIZE|0]",
	  "have what most volumes need a second time, on another disk",
	  COMMON | O(PROGRESS) | O(RATE) | O(TO) | O(FORCE) | O(COPIES), 0, 1, false, cmd_copies },
	{ "recompress", NULL, { "compact" }, "none|zstd[:LEVEL]",
	  "store what is in the pool compressed, or raw",
	  COMMON | O(PROGRESS), 1, 1, false, cmd_recompress },
	{ "trim", NULL, { NULL }, "VOL...|--all",
	  "give zeros of attached volumes back to their thin pool",
	  HOST | O(CONFIG) | O(PROGRESS) | O(DRY_RUN) | O(ALL) | O(RATE) | O(TIME),
	  0, ANY, false, cmd_trim },
	{ "offload", NULL, { NULL }, "VOL...|--all",
	  "let attached volumes read cold blocks from the pool only",
	  COMMON | O(PROGRESS) | O(DRY_RUN) | O(YES) | O(FORCE) | O(ALL) | O(RATE) | O(TIME) |
	  O(COLD), 0, ANY, false, cmd_offload },
	{ "recall", NULL, { NULL }, "VOL...|--all",
	  "copy back what attached volumes read from the pool",
	  HOST | O(CONFIG) | O(PROGRESS) | O(ALL) | O(RATE), 0, ANY, false, cmd_recall },
	{ "grow", NULL, { "resize" }, "", "give a pool more room: a longer file, or all of its device",
	  COMMON | O(SIZE), 0, 0, false, cmd_grow },
	{ "take-over", NULL, { "takeover" }, "", "have a pool in RADOS that another host has",
	  COMMON | O(FORCE), 0, 0, false, cmd_take_over },
	{ "stats", NULL, { "du", "df" }, "", "show how much is in the pool",
	  COMMON | O(ISOLATION), 0, 0, false, cmd_stats },
	{ "report", NULL, { NULL }, "[VOL...] --html FILE|--json",
	  "draw what changed, what is shared, and what a rule would free",
	  COMMON | O(HTML) | (KEEP & ~O(REMOVE_ALL)), 0, ANY, false, cmd_report },
	{ "metrics", NULL, { NULL }, "",
	  "print numbers of pool and attached volumes for Prometheus",
	  (COMMON | O(OUTPUT) | O(TEXTFILE)) & ~O(JSON), 0, 0, false, cmd_metrics },
	{ "config", NULL, { NULL }, "", "show the settings, and where each is from",
	  COMMON, 0, 0, false, cmd_config },
	{ "help", NULL, { NULL }, "[COMMAND]", "describe a command",
	  O(POOL), 0, 1, false, cmd_help },
	{ "version", NULL, { NULL }, "", "print the version",
	  O(POOL), 0, 0, false, cmd_version },
	{ "doctor", NULL, { NULL }, "",
	  "find what is missing or wrong on this host, and what mends it",
	  COMMON, 0, 0, false, cmd_doctor },
	{ "check", NULL, { "fsck" }, "", "check the catalog, without reading content",
	  COMMON, 0, 0, false, cmd_check },
	{ "scrub", NULL, { NULL }, "[VOL[@VERSION]]", "read everything to find damage",
	  COMMON | O(PROGRESS) | O(RATE) | O(SAMPLE) | O(TIME), 0, 1, false, cmd_scrub },
	{ "verify", NULL, { "boot-test" }, "[VOL[@VERSION]|--all] --boot",
	  "boot a version for trial, and see whether its guest comes up",
	  COMMON | O(BOOT) | O(ALL) | O(VOLUMES) | O(RULE) | O(TIME) | O(MEMORY) | O(CPUS) |
	  O(FIRMWARE) | O(ACCEL), 0, 1, false, cmd_verify },
	{ "repair", NULL, { NULL }, "[--from PATH]...|--rebuild-catalog",
	  "heal damage from other copies, or make a new catalog",
	  COMMON | O(PROGRESS) | O(DRY_RUN) | O(FROM) | O(FORCE) | O(REBUILD_CATALOG), 0, 0, false,
	  cmd_repair },
	/* For the scripts of userspace/completion. */
	{ "__complete", NULL, { NULL }, "WORD...", NULL, 0, 1, ANY, true, cmd_complete },
	{ NULL }
};

/* --- signals */

static volatile int stop;

/* Request a stop. The second signal finds the default, which ends the program. */
static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

/*
 * End if a page of the catalog's index, a file that SQLite has mapped, finds no room. That is
 * like a kill at this point, which does no harm.
 */
static void on_no_page(int signal)
{
	static const char text[] =
		"revdedupctl: no room for the index of the catalog, or it cannot be read\n"
		"revdedupctl: the next command finishes or undoes what this one began\n"
		"revdedupctl: 'revdedupctl delete' and 'prune' make room\n";

	(void)signal;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(CTL_NO_SPACE);
}

static void set_signals(void)
{
	struct sigaction no_page = { .sa_handler = on_no_page };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGBUS, &no_page, NULL);
}

/* --- options that many have */

static int set_progress(struct ctl *ctl)
{
	const char *when = ctl_value(ctl, CTL_OPT_PROGRESS);
	bool always = when && !strcmp(when, "always");

	if (when && !always && strcmp(when, "auto") && strcmp(when, "never"))
		return ctl_usage(ctl, "--progress is auto, always or never, not '%s'", when);
	ctl_progress_init(&ctl->progress, ctl->json, always, &stop);
	if (!(ctl->command->options & O(PROGRESS)) || (when && !strcmp(when, "never")))
		return 0;
	if (always || (!ctl->quiet && (ctl->json || isatty(STDERR_FILENO))))
		ctl_progress_show(&ctl->progress);
	return 0;
}

static int set_common(struct ctl *ctl)
{
	unsigned int i;

	/* The last of these two counts. */
	for (i = 0; i < ctl->nr_given; i++)
		if (ctl->given[i].option == CTL_OPT_QUIET)
			rd_verbosity = -1;
		else if (ctl->given[i].option == CTL_OPT_VERBOSE)
			rd_verbosity = 1;
	ctl->quiet = rd_verbosity < 0;
	ctl->json = ctl_has(ctl, CTL_OPT_JSON);
	return set_progress(ctl);
}

/* --- running one */

static int check_usage(struct ctl *ctl)
{
	const struct ctl_command *command = ctl->command;
	const char *now;
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++) {
		now = ctl_option_now(command, ctl->given[i].option);
		if (now)
			return ctl_usage(ctl, "%s", now);
		if (!ctl_takes(command, ctl->given[i].option))
			return ctl_usage(ctl, "'%s' does not take --%s", command->name,
					 ctl_option_name(ctl->given[i].option));
	}
	now = ctl_option_now(command, CTL_OPTIONS);
	if (ctl->nr_operands < command->min)
		return ctl_usage(ctl, "'%s' needs %s", command->name, command->operands);
	if (ctl->nr_operands > command->max && now)
		return ctl_usage(ctl, "%s", now);
	if (ctl->nr_operands > command->max)
		return ctl_usage(ctl, "unexpected argument '%s'", ctl->operands[command->max]);
	return set_common(ctl);
}

static int exit_code(int r)
{
	switch (r) {
	case -EBUSY:
		return CTL_LOCKED;
	case -ENOSPC:
		return CTL_NO_SPACE;
	case -ENOPKG:
		return CTL_NO_MODULE;
	case -EUCLEAN:
		return CTL_DAMAGE;
	case -EINTR:
		rd_err(0, "interrupted");
		return CTL_INTERRUPTED;
	case -ENOMEM:
		rd_err(0, "out of memory");
		return CTL_FAILED;
	}
	return r < 0 ? CTL_FAILED : r;
}

/* Does it change nothing: neither the pool, nor a target, nor this host? */
static bool only_prints(const struct ctl *ctl)
{
	static int (*const all[])(struct ctl *ctl) = {
		cmd_check, cmd_complete, cmd_config, cmd_diff, cmd_doctor, cmd_dump, cmd_files,
		cmd_find, cmd_help, cmd_list, cmd_metrics, cmd_report, cmd_scrub, cmd_show,
		cmd_stats, cmd_status, cmd_version,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (ctl->command->run == all[i])
			return true;
	return ctl_has(ctl, CTL_OPT_DRY_RUN);
}

static int run(struct ctl *ctl)
{
	int r;

	/* A command that changes something goes on to its end even if nobody reads what it says. */
	if (!only_prints(ctl))
		signal(SIGPIPE, SIG_IGN);
	r = ctl->command->run(ctl);
	/* What it was about is gone. */
	ctl_progress_begin(&ctl->progress, NULL);
	r = ctl_close(ctl, r);
	ctl->is_missing = r == -ENOENT;
	r = exit_code(r);
	/* Output that did not arrive is a failure. stdio no longer knows its cause. */
	if (fflush(stdout) || ferror(stdout)) {
		rd_err(0, "cannot write to stdout: the output is incomplete");
		return r ? r : CTL_FAILED;
	}
	return r;
}

/* Run "COMMAND --help" as "help COMMAND", whatever other arguments there are. */
static int run_help(struct ctl *ctl)
{
	char *name = ctl->command ? (char *)ctl->command->name : NULL;

	ctl->operands = &name;
	ctl->nr_operands = !!name;
	ctl->command = ctl_match_command("help");
	return run(ctl);
}

static int run_version(struct ctl *ctl)
{
	ctl->command = ctl_match_command("version");
	return run(ctl);
}

/*
 * Is an option that is for all commands there? 'tag' takes what begins with a dash for a tag,
 * but does not surprise who asks for help: only behind "--" is "-h" a tag.
 */
static bool has_common(const struct ctl *ctl, int argc, char **argv, enum ctl_option option)
{
	int i = ctl->first_operand;

	if (ctl_has(ctl, option))
		return true;
	if (!strcmp(argv[i - 1], "--"))
		return false;
	for (; i < argc; i++)
		if (argv[i][0] == '-' && argv[i][1] && !argv[i][2] &&
		    ctl_find_letter(argv[i][1]) == option)
			return true;
	return false;
}

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	int r;

	r = ctl_parse(ctl, argc, argv, ctl->command->options_first);
	if (r)
		return r;
	if (has_common(ctl, argc, argv, CTL_OPT_HELP))
		return run_help(ctl);
	if (has_common(ctl, argc, argv, CTL_OPT_VERSION))
		return run_version(ctl);
	ctl->operands = argv + ctl->first_operand;
	ctl->nr_operands = argc - ctl->first_operand;
	r = ctl_check_in_full(ctl, argv[0]);
	if (!r)
		r = check_usage(ctl);
	if (!r)
		r = ctl_config_load(ctl);
	return r ? exit_code(r) : run(ctl);
}

static int run_line(struct ctl *ctl, int argc, char **argv)
{
	int r;

	r = ctl_parse(ctl, argc, argv, true);
	if (r)
		return r;
	argc -= ctl->first_operand;
	argv += ctl->first_operand;
	if (ctl_has(ctl, CTL_OPT_VERSION))
		return run_version(ctl);
	if (!argc && ctl_has(ctl, CTL_OPT_HELP))
		return run_help(ctl);
	if (!argc)
		return ctl_usage(ctl, "no command given");
	r = ctl_choose_command(ctl, argv[0]);
	return r ? r : run_command(ctl, argc, argv);
}

/*
 * Is an error to be an object on stdout? Not where stdout would be the content of a version:
 * of 'dump' and 'files --tar -', which refuse --json. The arguments behind one that is wrong were
 * not parsed.
 */
static bool errors_are_json(const struct ctl *ctl, char **argv)
{
	const char *to = ctl_value(ctl, CTL_OPT_TAR);
	bool json = ctl_has(ctl, CTL_OPT_JSON);

	for (; *argv && strcmp(*argv, "--"); argv++)
		json |= !strcmp(*argv, "--json");
	return json && !(to && !strcmp(to, "-")) &&
		(!ctl->command || ctl->command->options & O(JSON));
}

/* More options than that are not given: one may be a letter of many behind one dash. */
static size_t count_letters(char **argv)
{
	size_t nr = 1;

	while (*argv)
		nr += strlen(*argv++);
	return nr;
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .given = calloc(count_letters(argv), sizeof(*ctl.given)) };
	int r;

	ctl_print_messages(&ctl.progress);
	if (!ctl.given || !rd_hold_standard_files())
		return CTL_FAILED;
	set_signals();
	rd_dm_init();
	/* If stdout and stderr go to one file, their lines must be in order. */
	setlinebuf(stdout);
	r = run_line(&ctl, argc, argv);
	if (r && errors_are_json(&ctl, argv))
		ctl_print_error_json(r, ctl.is_missing);
	ctl_config_free(&ctl.config);
	free(ctl.given);
	return r;
}
