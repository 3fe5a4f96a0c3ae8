/* SPDX-License-Identifier: GPL-2.0 */
/* The pool's part of status: what is in it, what reads it, and what runs. */
#ifndef CTL_POOLSTATUS_H
#define CTL_POOLSTATUS_H

#include "cli.h"

/* Open the pool and print its state. An error was printed. */
int ctl_pool_status(struct ctl *ctl);

#endif
