// SPDX-License-Identifier: GPL-2.0
/*
 * SHA-256 (FIPS 180-4) of several messages of one block each, in the lanes of vectors;
 * see sha256_lanes.h. Word t of all messages is one vector. The rounds are those of the
 * standard, with vectors for words. sha256_rounds.h is compiled for two instruction sets. The
 * instructions for SHA need no lanes, and have two messages at a time all the same.
 */
#include <stdbool.h>
#include <string.h>

#include "sha256_lanes.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>

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
#undef TARGET

/* --- by the instructions for SHA */

#define PAIR	2
#define TARGET	__attribute__((target("sha,ssse3,sse4.1")))

/* The instructions have the words a, b, e and f in one register, and the others in the second. */
struct pair_state {
	__m128i abef[PAIR], cdgh[PAIR];
};

TARGET static inline void pair_load(const void *const blocks[PAIR], size_t offset,
				    __m128i words[PAIR][4])
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	unsigned int i, n;

	for (n = 0; n < PAIR; n++)
		for (i = 0; i < 4; i++)
			words[n][i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)
				((const u8 *)blocks[n] + offset) + i), swap);
}

/* Four rounds are a step, for which each message waits until its last one has ended. */
TARGET static inline void pair_rounds(struct pair_state *state, __m128i w[PAIR][4])
{
	struct pair_state before = *state;
	unsigned int n, t;

#pragma GCC unroll 16
	for (t = 0; t < 16; t++) {
		const __m128i k = _mm_loadu_si128((const __m128i *)round_constants + t);

#pragma GCC unroll 2
		for (n = 0; n < PAIR; n++) {
			__m128i x, last = w[n][(t + 3) % 4];

			if (t >= 4) {
				x = _mm_sha256msg1_epu32(w[n][t % 4], w[n][(t + 1) % 4]);
				x = _mm_add_epi32(x, _mm_alignr_epi8(last, w[n][(t + 2) % 4], 4));
				w[n][t % 4] = _mm_sha256msg2_epu32(x, last);
			}
			x = _mm_add_epi32(w[n][t % 4], k);
			state->cdgh[n] = _mm_sha256rnds2_epu32(state->cdgh[n], state->abef[n], x);
			x = _mm_shuffle_epi32(x, 0x0e);
			state->abef[n] = _mm_sha256rnds2_epu32(state->abef[n], state->cdgh[n], x);
		}
	}
	for (n = 0; n < PAIR; n++) {
		state->abef[n] = _mm_add_epi32(state->abef[n], before.abef[n]);
		state->cdgh[n] = _mm_add_epi32(state->cdgh[n], before.cdgh[n]);
	}
}

TARGET static void sha256_pair(const void *const blocks[], u8 digests[][32])
{
	struct pair_state state;
	__m128i words[PAIR][4];
	unsigned int i, n;
	size_t offset;

	for (n = 0; n < PAIR; n++) {
		const u32 *h = initial_state;

		state.abef[n] = _mm_set_epi32(h[0], h[1], h[4], h[5]);
		state.cdgh[n] = _mm_set_epi32(h[2], h[3], h[6], h[7]);
	}
	for (offset = 0; offset < RD_BLOCK_SIZE; offset += 64) {
		pair_load(blocks, offset, words);
		pair_rounds(&state, words);
	}
	for (n = 0; n < PAIR; n++)
		memcpy(words[n], padding, sizeof(padding));
	pair_rounds(&state, words);
	for (n = 0; n < PAIR; n++) {
		u32 h[8], abef[4], cdgh[4];

		memcpy(abef, &state.abef[n], sizeof(abef));
		memcpy(cdgh, &state.cdgh[n], sizeof(cdgh));
		for (i = 0; i < 2; i++) {
			h[i] = __builtin_bswap32(abef[3 - i]);
			h[i + 2] = __builtin_bswap32(cdgh[3 - i]);
			h[i + 4] = __builtin_bswap32(abef[1 - i]);
			h[i + 6] = __builtin_bswap32(cdgh[1 - i]);
		}
		memcpy(digests[n], h, sizeof(h));
	}
}

/* --- */

static bool has_sha_instructions(void)
{
	unsigned int a, b, c, d;

	/* Those that have them have the other two. */
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA &&
		__builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1");
}

unsigned int rd_lanes(void)
{
	if (has_sha_instructions())
		return PAIR;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		return 16;
	return __builtin_cpu_supports("avx2") ? 8 : 0;
}

void rd_lanes_sha256(unsigned int lanes, const void *const blocks[RD_LANES_MAX],
		     u8 digests[RD_LANES_MAX][32])
{
	if (lanes == PAIR)
		sha256_pair(blocks, digests);
	else if (lanes == 16)
		sha256_16(blocks, digests);
	else
		sha256_8(blocks, digests);
}

#else

unsigned int rd_lanes(void)
{
	return 0;
}

void rd_lanes_sha256(unsigned int lanes, const void *const blocks[RD_LANES_MAX],
		     u8 digests[RD_LANES_MAX][32])
{
	(void)lanes;
	(void)blocks;
	(void)digests;
}

#endif
