/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SHA-256 of many blocks at once, a block in each lane of the vector registers.
 *
 * OpenSSL hashes one message at a time. Without the SHA instructions of newer
 * processors that is 0.4 GB/s a core, less than disks deliver. Blocks do not depend on
 * each other, so AVX-512 hashes 16 of them together, and AVX2 hashes 8. With the SHA
 * instructions each one waits for the last, and half of what they can do lies idle: two
 * blocks together take as long as one. OpenSSL does it on processors with none of these. Written
 * by hand, because no library that Debian packages hashes several messages at once.
 */
#ifndef RD_SHA256_LANES_H
#define RD_SHA256_LANES_H

#include "base/units.h"

#define RD_LANES_MAX	16

/* Return how many blocks are hashed together; 0: OpenSSL is faster on this processor. */
unsigned int rd_lanes(void);

/* Hash @lanes blocks, as many as rd_lanes() says. @digests: in the byte order of SHA-256. */
void rd_lanes_sha256(unsigned int lanes, const void *const blocks[RD_LANES_MAX],
		     u8 digests[RD_LANES_MAX][32]);

#endif
