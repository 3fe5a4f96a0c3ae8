/* SPDX-License-Identifier: GPL-2.0 */
/* The parts that the commands of revdedup-meta share. */
#ifndef REVDEDUP_META_H
#define REVDEDUP_META_H

#include "base/json.h"
#include "meta/read.h"
#include "meta/table_read.h"

/* Exit codes, as in the man page. */
enum {
	EXIT_FINE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_DAMAGE = 4,
};

/* The device at hand, and the options of the command line. */
struct rd_tool {
	const char *path;
	char **args;		/* the arguments after it, up to a NULL */
	bool in_use;
	bool frozen;		/* --frozen */
	bool json;		/* --json */
	bool force;		/* --force */
	bool yes;		/* --yes */
	bool dry_run;		/* --dry-run */
	const char *sectors;	/* --sectors; NULL where not given */
	const char *volume_uuid;
	const char *pool_uuid;
	struct rd_json out;
	struct rd_meta_source source;
	struct rd_meta meta;
};

/* Return the exit code for the state of the device. */
int rd_tool_exit(const struct rd_tool *tool);

/* Print on stderr why there is no answer, and what to do next. Returns the exit code. */
int rd_tool_refuse(const struct rd_tool *tool);

/* Print the beginning that all JSON has in common, and the end. */
void rd_tool_json_begin(struct rd_tool *tool);
void rd_tool_json_end(struct rd_tool *tool);

/* Print one line on stderr; return EXIT_FAILED or EXIT_USAGE. */
__attribute__((format(printf, 1, 2)))
int rd_tool_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2)))
int rd_tool_misused(const char *fmt, ...);

/* Print "cannot @what '@path'", and why; return EXIT_FAILED. */
int rd_tool_complain(const char *what, const char *path, int r);

/*
 * Open a device or a file for this process alone. -EBUSY: it is mounted, claimed by a
 * target, or open by this function in another process. O_CREAT makes a file where there
 * is none. Returns an fd or -errno.
 */
int rd_tool_open_alone(const char *path, int flags);

/* Print on stderr that the location of these blocks of the volume is unknown. */
void rd_tool_bad_run(const struct rd_run *run);

/* Run a command; return its exit code. */
int rd_tool_dump(struct rd_tool *tool);
int rd_tool_dirty(struct rd_tool *tool);
int rd_tool_check(struct rd_tool *tool);
int rd_tool_table(struct rd_tool *tool);
/* These open the device themselves, to write to it. */
int rd_tool_make(struct rd_tool *tool);
int rd_tool_finish(struct rd_tool *tool);

#endif
