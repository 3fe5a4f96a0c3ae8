/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read what recipes have in the data area, each block once and in the order in
 * which it lies there.
 */
#ifndef RD_SURVEY_H
#define RD_SURVEY_H

#include "base/buffer.h"
#include "pool/data/map.h"
#include "pool/pool.h"

struct rd_survey {
	u64 next_frame;		/* to begin with; U64_MAX: it is done */
	u64 bytes_read;		/* so far */
	u64 bytes_total;
	/*
	 * rd_place each, in order: places whose block was not what the fingerprint
	 * beside it says. Nobody waits for the reader, so they may have had
	 * something else by then.
	 */
	struct rd_buffer suspects;
};

/*
 * Go on from survey->next_frame until the end, or until there are about
 * @max_suspects; the caller frees them.
 */
int rd_survey(struct rd_pool *pool, struct rd_survey *survey, size_t max_suspects);

#endif
