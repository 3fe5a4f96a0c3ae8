/* SPDX-License-Identifier: GPL-2.0 */
/* Run other programs. */
#ifndef RD_RUN_H
#define RD_RUN_H

#include <sys/types.h>

#include "base/buffer.h"

/*
 * Run a program (the last of @argv is NULL), and put its stdout and a NUL into
 * @ret_output, or discard it where that is NULL. What it writes to stderr is printed if it fails,
 * or with -v: LVM warns of other volumes each time. Returns its exit status, or -errno; says what
 * failed.
 */
int rd_run(char *const *argv, struct rd_buffer *ret_output);
/* The same for a program that may fail, or not be there: nothing is printed. */
int rd_run_quietly(char *const *argv, struct rd_buffer *ret_output);

/*
 * The same, with its stdout on our stderr. After @seconds kill it and all processes that
 * it has started: -ETIME, without a word. *@running: its process group while it runs, 0
 * before and after.
 */
int rd_run_within(char *const *argv, unsigned int seconds, pid_t *running);

/* Wait for the end of a child, for which waitpid() does not wait then. False: the time is over. */
bool rd_run_ends_within(pid_t pid, u64 ms);

#endif
