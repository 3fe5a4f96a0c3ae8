/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read all blocks of recipes from the data area, each block once: those of ordinary frames in
 * the order of the data area, then those of packed frames, pack by pack.
 */
#ifndef RD_SURVEY_H
#define RD_SURVEY_H

#include "base/buffer.h"
#include "pool/pool.h"

struct rd_survey {
	u64 next_frame;		/* to begin with; U64_MAX: it is done */
	/* It ends there as well, somewhat later; 0: it does not. */
	u64 max_bytes;
	u64 until_us;
	/*
	 * Of the disk: blocks of recipes, and packs with their fingerprints, which are in slots
	 * as well.
	 */
	u64 bytes_read;		/* so far */
	u64 bytes_total;
	/*
	 * rd_place each, in order: places whose block does not match the fingerprint
	 * beside it. No lock is held, so a place may have got other content meanwhile.
	 */
	struct rd_buffer suspects;
};

/*
 * Continue from survey->next_frame until the end, or until there are about @max_suspects
 * suspects; the caller frees them.
 */
int rd_survey(struct rd_pool *pool, struct rd_survey *survey, size_t max_suspects);

/* Is there nothing left to read, or are the limits reached? */
bool rd_survey_is_over(const struct rd_survey *survey);

#endif
