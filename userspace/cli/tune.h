/* SPDX-License-Identifier: GPL-2.0 */
/* Rules, for the commands init and tune. */
#ifndef RD_CTL_TUNE_H
#define RD_CTL_TUNE_H

#include "pool/engine/space/measure.h"
#include "cli.h"

const char *ctl_dedup_name(struct rd_rule rule);
/* Add the members that say what a rule is. */
void ctl_json_rule(struct ctl *ctl, struct rd_rule rule);

/* rd_measure(), with progress. */
int ctl_measure(struct ctl *ctl, bool by_default, struct rd_measure_report *report);

/* Let this be the rule of the pool, which is open for writing. */
int ctl_rule_choose(struct ctl *ctl, struct rd_rule rule);

#endif
