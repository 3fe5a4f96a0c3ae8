/* SPDX-License-Identifier: GPL-2.0 */
/*
 * That the segments which the catalog names for a version are those that it was made
 * with. The content of each segment is proven by its fingerprint; that it is this
 * version's is proven by the version's sum (see rd_fp_sum()), which was made when the
 * version was and is in a row of its own. Whoever reads a version proves it before the
 * first byte leaves: all rows of the version are read for that, and no content. A
 * restore adds up once more what it has really used.
 */
#ifndef RD_PROOF_H
#define RD_PROOF_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

/*
 * 0: the segments are the version's. -EUCLEAN, after a word: they are not. A segment
 * whose content is not known at all is no proof of either, and is damage that whoever
 * reads it comes upon: 0, too.
 */
int rd_version_prove(struct rd_pool *pool, const struct rd_version *version);

/* The word, for who has added up by himself. */
int rd_version_disproved(struct rd_pool *pool, const struct rd_version *version);

#endif
