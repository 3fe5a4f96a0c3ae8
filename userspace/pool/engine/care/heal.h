/* SPDX-License-Identifier: GPL-2.0 */
/* Mend damaged blocks from another copy, where there is one. */
#ifndef RD_HEAL_H
#define RD_HEAL_H

#include "damage.h"

struct rd_heal_options {
	/* Images and devices that may have what was lost. */
	const char *const *from;
	unsigned int nr_from;
	bool dry_run;		/* count as healed what would be */
};

/*
 * Find damage in @pool, which is open for writing unless this is a dry run, and mend it.
 * Returns 0 even if damage is left: see the report, whose rows the caller frees.
 */
int rd_heal(struct rd_pool *pool, const struct rd_heal_options *options,
	    struct rd_damage_report *report);

#endif
