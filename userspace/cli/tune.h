/* SPDX-License-Identifier: GPL-2.0 */
/* Rules, for the commands init and tune. */
#ifndef RD_CTL_TUNE_H
#define RD_CTL_TUNE_H

#include "pool/engine/measure.h"
#include "cli.h"

const char *ctl_dedup_name(struct rd_rule rule);
/* Add the members that say what a rule is. */
void ctl_json_rule(struct ctl *ctl, struct rd_rule rule);

/* Measure in how many pieces a segment may be, and say so. The pool is open for writing. */
int ctl_measure_pieces(struct ctl *ctl, u16 *ret);

/*
 * Change the rule of @volume, or of the pool, by the options: --pieces auto is measured. The pool
 * is open for writing.
 */
int ctl_tune(struct ctl *ctl, const char *volume, struct rd_rule_change *change);

#endif
