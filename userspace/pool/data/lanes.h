/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SHA-256 of many blocks at once, a block in each lane of the vector registers.
 *
 * OpenSSL hashes one message at a time, and without the SHA instructions of
 * newer processors that is 0.4 GB/s a core: less than disks give. Blocks do not
 * depend on each other, so 16 of them go through AVX-512 together, or 8 through
 * AVX2. Where the SHA instructions are there, or none of these, OpenSSL does it.
 */
#ifndef RD_LANES_H
#define RD_LANES_H

#include "base/units.h"

#define RD_LANES_MAX	16

/* How many blocks go together; 0: this processor is no good for it. */
unsigned int rd_lanes(void);

/* Of rd_lanes() blocks. @digests: as SHA-256 writes them. */
void rd_lanes_sha256(const void *const blocks[RD_LANES_MAX], u8 digests[RD_LANES_MAX][32]);

#endif
