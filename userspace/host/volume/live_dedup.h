/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Give back space of a thin volume that is attached, while it is written to.
 *
 * Mode ZEROS is an fstrim from outside: where a whole chunk of the thin pool reads as zeros,
 * the chunk is given back. Nothing depends on anything afterwards. See dedup_zeros.c.
 *
 * A volume is worked on in windows of RD_DEDUP_WINDOW bytes. It is stopped between two of them,
 * and goes on there the next time: the file of the attachment has a cursor.
 */
#ifndef RD_LIVE_DEDUP_H
#define RD_LIVE_DEDUP_H

#include "attach.h"

#define RD_DEDUP_WINDOW	(64U << 20)

enum rd_live_dedup_mode {
	RD_LIVE_DEDUP_ZEROS,
};

struct rd_live_dedup_options {
	enum rd_live_dedup_mode mode;
	u64 rate;		/* bytes a second to read; 0: any */
	u64 until_us;		/* end at this time of rd_now_us(); 0: when all is done */
	bool dry_run;		/* only check, and say what there is */
	const struct rd_progress *progress;	/* or NULL */
};

struct rd_live_dedup_report {
	u64 first, bytes;	/* what was looked at; @first: 0 unless it went on */
	u64 found;		/* bytes in chunks that could be given back */
	u64 mapped_before, mapped_after;	/* bytes that the volume has in its thin pool */
	u64 pool_used_before, pool_used_after;	/* of the data of that thin pool, by all */
	bool out_of_time;
	bool coming_home;	/* what is not stable on the base yet is copied there */
};

/*
 * The attachment stays locked. What was done before an error or -EINTR stays done, and
 * @report says so. -ENOPKG: the volume is not tracked, as the module cannot be had.
 */
int rd_live_dedup(const struct rd_caller *caller, struct rd_attachment *at,
		  const struct rd_live_dedup_options *options,
		  struct rd_live_dedup_report *report);

#endif
