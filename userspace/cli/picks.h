/* SPDX-License-Identifier: GPL-2.0 */
/* What is to be sent: volumes and versions by name, from operands or from the other end. */
#ifndef CTL_PICKS_H
#define CTL_PICKS_H

#include "pool/stream/send.h"
#include "cli.h"

struct ctl_picks {
	bool serves;		/* others, who see only the volumes of --volumes */
	struct rd_buffer texts;	/* VOL, VOL@VERSION or @TAG, each with its zero; none: all */
	struct rd_buffer patterns;	/* the same, of volumes; none: any */
	struct rd_buffer names;	/* a struct ctl_volume each */
	struct rd_buffer picks;	/* the struct rd_send_pick of each */
};

/* Read a REQUEST. */
int ctl_picks_read(struct ctl_picks *picks, const struct rd_record *record, u64 *ret_newest);
/* Find them in the pool, which is open: options->picks. */
int ctl_picks_find(struct ctl *ctl, struct ctl_picks *picks, struct rd_send_options *options);
/* Find the version that @text names, if the other end may see it, and read it as @name. */
int ctl_find_served(struct ctl *ctl, const struct ctl_picks *picks, const char *text,
		    struct ctl_name *name, struct ctl_version *ret);
void ctl_picks_free(struct ctl_picks *picks);

/* Open the pool to send from it: for writing, where we may, so that versions can be held. */
int ctl_open_to_send(struct ctl *ctl);

/* May the other end of 'serve' see, or write to, @volume? @ctx is the struct ctl. */
bool ctl_serves_volume(void *ctx, const char *volume);

#endif
