/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prove that the segments which the catalog names for a version are those that it was made
 * with. A fingerprint proves the content of each segment. The sum of the version (see
 * rd_fp_sum()), computed when it was made and kept in the version's row, proves that the
 * segments belong to it. A command that reads a version proves it before it passes on the
 * first byte: this reads all rows of the version, and no content. A restore also adds up
 * the segments that it has really used.
 */
#ifndef RD_PROOF_H
#define RD_PROOF_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

/*
 * Prove a version. -EUCLEAN, after a message: its segments are not those that it was made
 * with. If the content of a segment is not known at all, nothing can be proven: this
 * returns 0, and a command that reads the segment finds the damage.
 */
int rd_version_prove(struct rd_pool *pool, const struct rd_version *version);

/* Print that message, for a caller that has computed the sum itself. Returns -EUCLEAN. */
int rd_version_disproved(struct rd_pool *pool, const struct rd_version *version);

#endif
