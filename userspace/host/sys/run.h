/* SPDX-License-Identifier: GPL-2.0 */
/* Other programs. */
#ifndef RD_RUN_H
#define RD_RUN_H

#include <sys/types.h>

#include "base/buffer.h"

/*
 * Run a program (the last of @argv is NULL) with its stdout in @ret_output, with a
 * NUL behind it, or thrown away where that is NULL. Its stderr is ours. Returns its
 * exit status, or -errno, and that is said.
 */
int rd_run(char *const *argv, struct rd_buffer *ret_output);

/*
 * The same, with its stdout on our stderr. It and all that it has started is killed
 * when the time is over: -ETIME, without a word. *@running: its process group while
 * it runs, 0 before and after.
 */
int rd_run_within(char *const *argv, unsigned int seconds, pid_t *running);

#endif
