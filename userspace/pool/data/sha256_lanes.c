// SPDX-License-Identifier: GPL-2.0
/*
 * SHA-256 (FIPS 180-4) of several messages of one block each, in the lanes of vectors;
 * see sha256_lanes.h. Word t of all messages is one vector. The rounds are those of the
 * standard, with vectors for words. sha256_rounds.h is compiled for two instruction sets.
 */
#include <stdbool.h>
#include <string.h>

#include "sha256_lanes.h"

#ifdef __x86_64__

#include <cpuid.h>

static const u32 round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static const u32 initial_state[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* The chunk after the data: a bit, zeros, and the length in bits. */
static const u32 padding[16] = { 0x80000000, [15] = RD_BLOCK_SIZE * 8 };

#define LANES	16
#define TARGET	__attribute__((target("avx512f,avx512bw")))
#define NAME(x)	x##_16
#include "sha256_rounds.h"
#undef LANES
#undef TARGET
#undef NAME

#define LANES	8
#define TARGET	__attribute__((target("avx2")))
#define NAME(x)	x##_8
#include "sha256_rounds.h"

static bool has_sha_instructions(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

unsigned int rd_lanes(void)
{
	if (has_sha_instructions())
		return 0;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		return 16;
	return __builtin_cpu_supports("avx2") ? 8 : 0;
}

void rd_lanes_sha256(const void *const blocks[RD_LANES_MAX], u8 digests[RD_LANES_MAX][32])
{
	if (rd_lanes() == 16)
		sha256_16(blocks, digests);
	else
		sha256_8(blocks, digests);
}

#else

unsigned int rd_lanes(void)
{
	return 0;
}

void rd_lanes_sha256(const void *const blocks[RD_LANES_MAX], u8 digests[RD_LANES_MAX][32])
{
	(void)blocks;
	(void)digests;
}

#endif
