/* SPDX-License-Identifier: GPL-2.0 */
/* What cmd_snapshot.c and cmd_snapshot_group.c share. */
#ifndef CTL_SNAPSHOT_H
#define CTL_SNAPSHOT_H

#include "host/volume/snapshot/live_snapshot.h"
#include "cli.h"

/* Fill in the options of live snapshots from those of all snapshots. 0 or CTL_USAGE. */
int ctl_live_snapshot_options(const struct ctl *ctl, const struct rd_snapshot_options *options,
			      struct rd_live_options *ret);
/* Print what a snapshot of @volume did; @pause_us: 0: there was none, or it is told apart. */
void ctl_tell_snapshot(struct ctl *ctl, const char *volume,
		       const struct rd_snapshot_report *report, u64 pause_us);
/* Has it made a version that exists? After an error, which may have come later. */
bool ctl_snapshot_exists(struct ctl *ctl, const struct rd_snapshot_report *report);
/* Warn where new versions may have old damage. */
void ctl_warn_of_damage(const struct ctl *ctl);

/* snapshot --group */
int ctl_snapshot_group(struct ctl *ctl, const struct rd_snapshot_options *options);
/*
 * snapshot --libvirt. What libvirt says of DOMAIN is the content of the volume DOMAIN/xml, of which
 * each moment has a version.
 */
#define CTL_DEFINITION	"xml"
int ctl_snapshot_domain(struct ctl *ctl, const struct rd_snapshot_options *options);

#endif
