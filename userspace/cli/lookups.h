/* SPDX-License-Identifier: GPL-2.0 */
/* What inline snapshots looked up, for snapshot and stats; see pool.rst. */
#ifndef CTL_LOOKUPS_H
#define CTL_LOOKUPS_H

#include "pool/engine/snapshot/lookups.h"
#include "cli.h"

/* Add them as the object "lookups". */
void ctl_json_lookups(struct rd_json *out, const struct rd_lookup_counts *counts);

/* Print what is recorded of the volume @name, or of all (NULL) and in total. The pool is open. */
int ctl_lookups_print(struct ctl *ctl, const char *name);

#endif
