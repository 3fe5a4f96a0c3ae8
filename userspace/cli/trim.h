/* SPDX-License-Identifier: GPL-2.0 */
/* Print what fstrim in the guests would save, for a dry run of 'dedup'. */
#ifndef CTL_TRIM_H
#define CTL_TRIM_H

#include "pool/engine/pass.h"
#include "cli.h"

struct ctl_trim {
	u64 leftover, alone;	/* blocks, see pool/engine/trim.h */
	u64 share;		/* bytes */
	bool is_unreadable;	/* some of it */
};

/*
 * Look at all volumes, and print each: a line for each partition, or a line of JSON. The pool is
 * of no use afterwards. -ETIMEDOUT: not all of them.
 */
int ctl_trim(struct ctl *ctl, const struct rd_pass_options *options, struct ctl_trim *ret);

/* Print the sum of all. */
void ctl_trim_print(const struct ctl_trim *trim);
void ctl_trim_json(struct ctl *ctl, const struct ctl_trim *trim);

#endif
