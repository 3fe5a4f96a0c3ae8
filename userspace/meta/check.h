/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Check everything that a metadata device holds, and say for each problem what a target
 * will do about it.
 */
#ifndef RD_META_CHECK_H
#define RD_META_CHECK_H

#include "read.h"

enum rd_severity {
	RD_NOTE,	/* unusual, but no problem */
	RD_UNREADABLE,
	RD_DAMAGE,
	RD_SEVERITY_MAX
};

struct rd_finding {
	enum rd_severity severity;
	u64 block;
	const char *what;
	const char *effect;
};

struct rd_check {
	/* Called for each finding; its texts are valid during the call. */
	void (*report)(struct rd_check *check, const struct rd_finding *finding);

	/* Filled by rd_meta_check() */
	u64 nr[RD_SEVERITY_MAX];	/* findings */
	u64 nr_bitmaps;			/* blocks */
	u64 nr_words;
	u64 nr_pages;
	u64 nr_packed;			/* blocks of the volume that are in packs */
};

/*
 * Check @meta, which is open and ours: @meta->r is 0, or rd_meta_is_damaged() is true.
 * Words and pages are checked only if the state says that they are in use (no
 * DMR_FLAG_LINEAR_OK).
 */
void rd_meta_check(const struct rd_meta *meta, struct rd_check *check);

/* True if the metadata is ours, and so damaged that its state is unknown. */
bool rd_meta_is_damaged(const struct rd_meta *meta);

#endif
