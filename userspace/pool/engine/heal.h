/* SPDX-License-Identifier: GPL-2.0 */
/* Mend what is rotten from another copy of it, where there is one. */
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
 * @pool is open for writing; for a dry run it need not be. 0 even where something
 * is left: see the report, whose rows are the caller's to free.
 */
int rd_heal(struct rd_pool *pool, const struct rd_heal_options *options,
	    struct rd_damage_report *report);

#endif
