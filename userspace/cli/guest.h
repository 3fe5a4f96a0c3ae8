/* SPDX-License-Identifier: GPL-2.0 */
/* What 'files' and 'find' print of a file in a guest, whose name may be anything. */
#ifndef CTL_GUEST_H
#define CTL_GUEST_H

#include "host/volume/map/guest.h"
#include "cli.h"

/*
 * Print a name without what could change the terminal, and such that no two names look the same:
 * control characters, a backslash and what is not UTF-8 as \xNN.
 */
void ctl_print_name(const char *name);

/* "-rwsr-xr-x     0     0        34888 2026-11-20 02:00:13" */
void ctl_print_file(const struct rd_guest_record *file);

/* Add what is known of it, but for its path, to a line of JSON. */
void ctl_json_file(struct ctl *ctl, const struct rd_guest_record *file);

#endif
