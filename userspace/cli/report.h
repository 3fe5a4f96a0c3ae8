/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The numbers of a report: one object of JSON, which the page report.html draws.
 *
 * Versions are counted through all volumes that have any, from 1 on: volumes in the order of
 * their names. What belongs to versions is an array with a value for each. Maps are as in map.h,
 * but for nothing at the end.
 */
#ifndef CTL_REPORT_H
#define CTL_REPORT_H

#include "cli.h"
#include "keep.h"

/*
 * Write the object to @out, for the volumes that are operands or for all. CTL_DAMAGE: all that can
 * be known is there, but the catalog is damaged.
 */
int ctl_report_write(struct ctl *ctl, const struct ctl_keep_policy *policy, FILE *out);

/* --- report_volume.c */

/* What is read once for all volumes. */
struct ctl_report {
	struct rd_buffer boots;		/* struct ctl_boot_test each */
	struct rd_buffer elsewhere;	/* struct ctl_elsewhere each */
	u64 max_parts;			/* a volume is divided into no more */
};

/*
 * Write to ctl->out the object of a volume, whose first version has the number @first. Without a
 * version nothing is written.
 */
int ctl_report_volume(struct ctl *ctl, const struct ctl_report *report,
		      const struct ctl_volume *volume, u32 first);

#endif
