/* SPDX-License-Identifier: GPL-2.0 */
/* The rounds of SHA-256 on vectors of LANES words, for sha256_lanes.c to include. */

typedef u32 NAME(vec) __attribute__((vector_size(LANES * 4)));

#define ROTATE(x, n)	((x) >> (n) | (x) << (32 - (n)))

/* Load the 16 words of the chunk at @offset of each block. */
TARGET static inline void NAME(load)(const void *const blocks[], size_t offset,
				     NAME(vec) words[16])
{
	u32 raw[16][LANES] __attribute__((aligned(64)));
	unsigned int lane, t;

	for (lane = 0; lane < LANES; lane++) {
		u32 chunk[16];

		memcpy(chunk, (const u8 *)blocks[lane] + offset, sizeof(chunk));
		for (t = 0; t < 16; t++)
			raw[t][lane] = __builtin_bswap32(chunk[t]);
	}
	memcpy(words, raw, sizeof(raw));
}

TARGET static inline void NAME(rounds)(NAME(vec) state[8], NAME(vec) w[16])
{
	NAME(vec) a = state[0], b = state[1], c = state[2], d = state[3];
	NAME(vec) e = state[4], f = state[5], g = state[6], h = state[7];
	unsigned int t;

#pragma GCC unroll 16
	for (t = 0; t < 64; t++) {
		NAME(vec) t1, t2;

		if (t >= 16) {
			NAME(vec) x = w[(t + 1) % 16], y = w[(t + 14) % 16];

			w[t % 16] += (ROTATE(x, 7) ^ ROTATE(x, 18) ^ x >> 3) + w[(t + 9) % 16] +
				(ROTATE(y, 17) ^ ROTATE(y, 19) ^ y >> 10);
		}
		t1 = h + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) + ((e & f) ^ (~e & g)) +
			round_constants[t] + w[t % 16];
		t2 = (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & b) | (c & (a | b)));
		h = g;
		g = f;
		f = e;
		e = d + t1;
		d = c;
		c = b;
		b = a;
		a = t1 + t2;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

TARGET static void NAME(sha256)(const void *const blocks[], u8 digests[][32])
{
	const NAME(vec) zero = { 0 };
	NAME(vec) state[8], words[16];
	unsigned int i, lane;
	size_t offset;

	for (i = 0; i < 8; i++)
		state[i] = zero + initial_state[i];
	for (offset = 0; offset < RD_BLOCK_SIZE; offset += 64) {
		NAME(load)(blocks, offset, words);
		NAME(rounds)(state, words);
	}
	for (i = 0; i < 16; i++)
		words[i] = zero + padding[i];
	NAME(rounds)(state, words);
	for (lane = 0; lane < LANES; lane++) {
		for (i = 0; i < 8; i++) {
			u32 word = __builtin_bswap32(state[i][lane]);

			memcpy(digests[lane] + i * 4, &word, 4);
		}
	}
}

#undef ROTATE
