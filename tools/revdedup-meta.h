/* SPDX-License-Identifier: GPL-2.0 */
/* What the commands of revdedup-meta share. */
#ifndef REVDEDUP_META_H
#define REVDEDUP_META_H

#include "../userspace/json.h"
#include "../userspace/meta_read.h"

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
	bool in_use;
	bool frozen;		/* --frozen */
	bool json;		/* --json */
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

/* The commands: exit codes. */
int rd_tool_dump(struct rd_tool *tool);
int rd_tool_dirty(struct rd_tool *tool);
int rd_tool_check(struct rd_tool *tool);

#endif
