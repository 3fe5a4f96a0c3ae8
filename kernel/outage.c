// SPDX-License-Identifier: GPL-2.0
/*
 * The beginning of an outage: a write to the metadata device has failed. firstwrite.c
 * tells what that means for first writes.
 */
#include <linux/jiffies.h>

#include "outage.h"
#include "queue.h"

void dmr_outage_event(struct dmr_meta *meta)
{
	if (meta->ti)
		dm_table_event(meta->ti->table);
}

void dmr_outage_begin(struct dmr_meta *meta, const char *what, int r)
{
	lockdep_assert_held(&meta->lock);
	if (meta->outage)
		return;
	DMERR("%s: %s on %pg failed: error %d; tracking counts as lost until it can be written",
	      dmr_name(meta), what, meta->bdev, r);
	meta->outage = true;
	meta->outage_is_marked = false;
	meta->outage_is_noted = false;
	meta->outage_start = jiffies;
	meta->next_retry = jiffies;
	dmr_queue_tracker(meta);
	dmr_outage_event(meta);
}
