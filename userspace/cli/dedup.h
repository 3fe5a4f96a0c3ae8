/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pass over the pool, with what belongs to it: for 'dedup', and behind 'prune'; and the same
 * command for attached volumes.
 */
#ifndef CTL_DEDUP_H
#define CTL_DEDUP_H

#include "pool/engine/dedup/pass.h"
#include "copies.h"

struct ctl;

struct ctl_dedup {
	struct rd_pass_options pass;
	struct ctl_copies copies;
};

/* The least that --rate allows. */
#define CTL_RATE_MIN	(1U << 20)

/* Has the work ended before its end in a way that the exit status tells? */
bool ctl_ended_early(const struct ctl *ctl, bool out_of_time);

/* Read --rate (0: any) and --time, until when (0: any). 0 or CTL_USAGE. */
int ctl_dedup_pace(const struct ctl *ctl, u64 *ret_rate, u64 *ret_until_us);

/* Give back space of attached volumes: 'dedup' with operands, or with --all. */
int ctl_dedup_live(struct ctl *ctl);

/* Read the options of a pass. 0 or CTL_USAGE. */
int ctl_dedup_options(const struct ctl *ctl, struct ctl_dedup *ret);

/*
 * Run a pass, bring copies up to date, and print what was done. The pool is open, for a dry run
 * for reading.
 */
int ctl_dedup(struct ctl *ctl, struct ctl_dedup *dedup);

#endif
