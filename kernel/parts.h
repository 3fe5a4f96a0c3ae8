/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of a message of the remap table, cut where segments end.
 */
#ifndef DMR_PARTS_H
#define DMR_PARTS_H

#include "dmr_table.h"
#include "ranges.h"

/* A range, or a part of one, that is within a segment. */
struct dmr_part {
	u64 seg;
	unsigned int first;
	unsigned int nr;
	struct dmr_entry place[2];
};

typedef int (*dmr_part_fn)(struct dmr_table *t, const struct dmr_part *part);

/* Change entries of a pinned page; the new ones are in t->scratch. Under t->lock. */
typedef void (*dmr_change_fn)(struct dmr_table *t, const struct dmr_part *part,
			      struct dmr_page *page);

/* Check the text of a message; what is wrong is in the log: 0 or -errno. Sleeps. */
int dmr_parts_check(struct dmr_table *t, const char *verb, const char *ranges,
		    const struct dmr_range_rules *rules);
/* Do the ranges, which were checked, name a place of @kind? Anywhere. */
bool dmr_parts_name_kind(const char *ranges, const struct dmr_range_rules *rules,
			 enum dmr_kind kind);
/* Be able to read the packs that the ranges, which were checked, name: 0 or -errno. Sleeps. */
int dmr_parts_admit_packs(struct dmr_table *t, const char *ranges,
			  const struct dmr_range_rules *rules);

/* Call @fn for each part of the ranges, until it fails: 0 or its -errno. Sleeps. */
int dmr_parts_run(struct dmr_table *t, const char *ranges,
		  const struct dmr_range_rules *rules, dmr_part_fn fn);
/*
 * Have @change change a part's entries to @to; write back before if too much waits: 0
 * or -errno. Sleeps.
 */
int dmr_part_change(struct dmr_table *t, const struct dmr_part *part,
		    struct dmr_entry to, dmr_change_fn change);
/* Is the part all of its segment, and can a word have @place for it? Anywhere. */
bool dmr_part_fits_word(struct dmr_table *t, const struct dmr_part *part, struct dmr_entry place);

/*
 * May a message that does many things go on, the next of which takes an I/O or so? -ERESTARTSYS
 * when a signal came, -EBUSY when a suspend or a resume waits for it, and with that a guest.
 * io_uring, for one, signals work to a task whose ring was closed: the kernel then sends the
 * message again, and the program sees no -EINTR of which it knows no signal.
 *
 * Device-mapper hands -ERESTARTSYS on, and copies nothing out, as for DM_DEV_WAIT. Where a handler
 * has run that does not restart calls, the program sees -EINTR. Else the message begins anew,
 * takes message_lock anew, and finds another table line, perhaps, as one that a program sends
 * again after -EBUSY. So each that may end so must come to the same end when it is run again
 * after any part of its work:
 *
 *   table   changes nothing
 *   remap   a block that has the new place has not the old one any more; not where a message
 *           names a block twice, first with a place that it gets later
 *   set     gives the same place again; begin and end take no notice of signals
 *
 * Checks are made again: what another program has done between them may have the message fail
 * half done, as any error does. A settle is of all changes, those of the first time, too. Only a
 * look at a large table keeps nothing of what it has done: signals of a timer, for which
 * a handler restarts calls, can keep it from its end. Those of io_uring end with the I/O in flight.
 */
int dmr_parts_may_continue(struct dmr_table *t);

#endif
