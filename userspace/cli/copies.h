/* SPDX-License-Identifier: GPL-2.0 */
/* Copies on another disk (pool/engine/copy.h), brought up to date behind a pass. */
#ifndef CTL_COPIES_H
#define CTL_COPIES_H

#include "pool/engine/copy.h"

struct ctl;

struct ctl_copies {
	bool is_wanted;
	double percent;		/* of what is stored; or */
	u64 bytes;		/* with no percentage. Neither: there shall be none */
	struct rd_copy_report report;
};

/* Read --copies, --to and --force. A dry run makes none. */
int ctl_copies_options(const struct ctl *ctl, struct ctl_copies *ret);
/* Find them, or make them where there are none yet. */
int ctl_copies_prepare(struct ctl *ctl, const struct ctl_copies *copies);
/* Bring them up to date, and print how many there are. */
int ctl_copies_update(struct ctl *ctl, struct ctl_copies *copies, u64 rate);

#endif
