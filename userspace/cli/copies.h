/* SPDX-License-Identifier: GPL-2.0 */
/* Copies on another disk (pool/engine/care/copy.h), brought up to date behind a pass. */
#ifndef CTL_COPIES_H
#define CTL_COPIES_H

#include "pool/engine/care/copy.h"

struct ctl;

struct ctl_copies {
	bool is_wanted;
	bool were_left;		/* by ctl_copies_prepare() */
	double percent;		/* of what is stored; or */
	u64 bytes;		/* with no percentage. Neither: there shall be none */
	struct rd_copy_report report;
};

/* Read --copies, --to and --force. A dry run makes none. */
int ctl_copies_options(const struct ctl *ctl, struct ctl_copies *ret);
/*
 * Find them, or make them where there are none yet. What is wrong is an error if they were typed;
 * if only the settings ask for them they are left as they are, and ctl_copies_update() says so.
 */
int ctl_copies_prepare(struct ctl *ctl, struct ctl_copies *copies);
/* Bring them up to date, and print how many there are. */
int ctl_copies_update(struct ctl *ctl, struct ctl_copies *copies, u64 rate);

#endif
