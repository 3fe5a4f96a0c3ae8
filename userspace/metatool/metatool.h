/* SPDX-License-Identifier: GPL-2.0 */
/* What the commands of revdedup-meta share. */
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

/* A device that was opened, and how to print what is said of it. */
struct rd_tool {
	const char *path;
	char **args;		/* what follows it, up to a NULL */
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

/* What a device that no target would load is worth in exit codes. */
int rd_tool_exit(const struct rd_tool *tool);

/* Say on stderr why there is no answer, and what to do next. */
int rd_tool_refuse(const struct rd_tool *tool);

/* The beginning that all JSON has in common. */
void rd_tool_json_begin(struct rd_tool *tool);
void rd_tool_json_end(struct rd_tool *tool);

/* One line on stderr; returns the exit code that it is called for. */
__attribute__((format(printf, 1, 2)))
int rd_tool_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2)))
int rd_tool_misused(const char *fmt, ...);

/* "cannot @what '@path'", and why. */
int rd_tool_complain(const char *what, const char *path, int r);

/*
 * Open a device or an image that nobody else is to use as long as it is open:
 * what is mounted, claimed by a target or open here in another process is busy.
 * O_CREAT makes a file where there is nothing. Returns an fd or -errno.
 */
int rd_tool_open_alone(const char *path, int flags);

/* A line on stderr: blocks of the volume that nobody knows the place of. */
void rd_tool_bad_run(const struct rd_run *run);

/* A place as messages have it, b, z, p and a number in hex: in @text, or fixed. */
#define RD_PLACE_TEXT	24
const char *rd_place_print(char text[RD_PLACE_TEXT], const struct dmr_entry *place);

/* The commands: exit codes. */
int rd_tool_dump(struct rd_tool *tool);
int rd_tool_dirty(struct rd_tool *tool);
int rd_tool_check(struct rd_tool *tool);
int rd_tool_table(struct rd_tool *tool);
/* These open what they write to themselves. */
int rd_tool_make(struct rd_tool *tool);
int rd_tool_finish(struct rd_tool *tool);

#endif
