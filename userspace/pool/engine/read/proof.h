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

/*
 * The same for a version that a new one is to be based on, which would inherit what is wrong:
 * content that is not known at all is an error as well.
 */
int rd_version_prove_base(struct rd_pool *pool, const struct rd_version *version);

/*
 * A proof in parts, each in a transaction of its own: what a version is made of stays the same,
 * though its rows and recipes change. Begin with 0 in all but the first two.
 */
struct rd_proof {
	const struct rd_version *version;
	struct rd_hasher *hasher;
	u64 next;		/* segment */
	rd_sum sum;
	bool is_unknown;	/* what a segment is */
};

/* Add the next segments, within a transaction that reads. 1: others follow. */
int rd_proof_add(struct rd_sql *sql, struct rd_proof *proof);
/* All were added: are they those of the version, as far as that is known? */
bool rd_proof_holds(const struct rd_proof *proof);

/* Print that message, for a caller that has computed the sum itself. Returns -EUCLEAN. */
int rd_version_disproved(struct rd_pool *pool, const struct rd_version *version);

#endif
