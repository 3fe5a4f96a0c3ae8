/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Undo something even if the command is killed: a process of its own waits for the end
 * of the command.
 */
#ifndef RD_GUARD_H
#define RD_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

struct rd_guard {
	/*
	 * Runs in that process, once: when rd_guard_end() tells it to, when the command is
	 * gone, or when the time is over. @is_alone: one of the last two.
	 */
	int (*end)(void *ctx, bool is_alone);
	void *ctx;
	int limit_ms;		/* -1: for as long as it takes */
	/* That process has it not, so that its locks are gone with the command; 0: none. */
	int drop_fd;

	pid_t pid;
	int fd;
};

int rd_guard_begin(struct rd_guard *guard);
/*
 * Have @end run, and wait for it. -EIO: it did not return 0; -ETIME: the time was over
 * before.
 */
int rd_guard_end(struct rd_guard *guard);

#endif
