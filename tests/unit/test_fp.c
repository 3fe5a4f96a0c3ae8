// SPDX-License-Identifier: GPL-2.0
/*
 * Fingerprints: SHA-256 in lanes, for each instruction set that this machine has,
 * against OpenSSL's; and segments, whichever way they are hashed. Sums of versions. Quick sums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <openssl/sha.h>

/* For the functions that it chooses from. */
#include "pool/data/sha256_lanes.c"
#include "pool/data/fp.h"
#include "pool/data/quick.h"

static u8 data[RD_SEG_SIZE];

static int fill(void **state)
{
	size_t i;

	(void)state;
	srandom(1);
	for (i = 0; i < sizeof(data); i++)
		data[i] = random();
	/* What is all bits is where carries are. */
	memset(data, 0xff, RD_BLOCK_SIZE);
	/* Zeros here and there, and blocks that differ in their last bit. */
	memset(data + 7 * RD_BLOCK_SIZE, 0, 5 * RD_BLOCK_SIZE);
	memcpy(data + 20 * RD_BLOCK_SIZE, data + 21 * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
	data[21 * RD_BLOCK_SIZE - 1] ^= 1;
	return 0;
}

#ifdef __x86_64__
static void check_lanes(unsigned int lanes,
			void (*sha256)(const void *const blocks[], u8 digests[][32]))
{
	u8 digests[RD_LANES_MAX][32], want[32];
	const void *blocks[RD_LANES_MAX];
	unsigned int i, first;

	for (first = 0; first < RD_SEG_BLOCKS; first += lanes) {
		for (i = 0; i < lanes; i++)
			blocks[i] = data + (size_t)(first + i) * RD_BLOCK_SIZE;
		sha256(blocks, digests);
		for (i = 0; i < lanes; i++) {
			SHA256(blocks[i], RD_BLOCK_SIZE, want);
			assert_memory_equal(digests[i], want, sizeof(want));
		}
	}
}

static void test_avx512(void **state)
{
	(void)state;
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw"))
		skip();
	check_lanes(16, sha256_16);
}

static void test_avx2(void **state)
{
	(void)state;
	if (!__builtin_cpu_supports("avx2"))
		skip();
	check_lanes(8, sha256_8);
}

static void test_pair(void **state)
{
	(void)state;
	if (!has_sha_instructions())
		skip();
	check_lanes(PAIR, sha256_pair);
}
#endif

static void check_segment(size_t len)
{
	struct rd_fp fps[RD_SEG_BLOCKS], zero = { 0 };
	struct rd_hasher *hasher = rd_hasher_new();
	struct rd_seg_fp fp;
	u8 want[32];
	unsigned int i;

	assert_non_null(hasher);
	rd_fp_segment(hasher, data, len, fps, &fp);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		const u8 *block = data + (size_t)i * RD_BLOCK_SIZE;

		SHA256(block, RD_BLOCK_SIZE, want);
		if (i >= len / RD_BLOCK_SIZE || rd_is_zero(block, RD_BLOCK_SIZE))
			assert_memory_equal(&fps[i], &zero, sizeof(zero));
		else
			assert_memory_equal(&fps[i], want, sizeof(zero));
	}
	SHA256((u8 *)fps, sizeof(fps), want);
	assert_memory_equal(fp.b, want, sizeof(want));
	rd_hasher_free(hasher);
}

static void test_segment(void **state)
{
	(void)state;
	check_segment(RD_SEG_SIZE);
	check_segment(RD_SEG_SIZE - RD_BLOCK_SIZE);
	check_segment(17 * RD_BLOCK_SIZE);
	check_segment(3 * RD_BLOCK_SIZE);
	check_segment(2 * RD_BLOCK_SIZE);
	check_segment(RD_BLOCK_SIZE);
	check_segment(0);
}

/* The sum that a pool keeps: of the number of the segment and all of its fingerprint. */
static void test_sum(void **state)
{
	static const u64 segments[] = { 0, 1, 255, 256, 1ULL << 32, (1ULL << 43) - 1 };
	struct rd_hasher *hasher = rd_hasher_new();
	u8 input[40], want[32];
	struct rd_seg_fp fp;
	unsigned int i, j;
	rd_sum sum;

	(void)state;
	assert_non_null(hasher);
	for (i = 0; i < ARRAY_SIZE(segments); i++) {
		memcpy(fp.b, data + i * sizeof(fp.b) + RD_BLOCK_SIZE, sizeof(fp.b));
		for (j = 0; j < 8; j++)
			input[j] = segments[i] >> 8 * j;
		memcpy(input + 8, fp.b, sizeof(fp.b));
		SHA256(input, sizeof(input), want);
		sum = rd_fp_sum(hasher, segments[i], &fp);
		for (j = 0; j < sizeof(sum); j++)
			assert_int_equal((u8)(sum >> 8 * j), want[j]);
	}
	rd_hasher_free(hasher);
}

static void swap_blocks(u8 *a, u8 *b)
{
	u8 block[RD_BLOCK_SIZE];

	memcpy(block, a, sizeof(block));
	memcpy(a, b, sizeof(block));
	memcpy(b, block, sizeof(block));
}

static void test_quick_sum(void **state)
{
	u8 *block = data + 30 * RD_BLOCK_SIZE;
	u64 sum = rd_quick_sum(data, 0, RD_SEG_BLOCKS);
	unsigned int bit;

	(void)state;
	/* In parts, without the zeros between. */
	assert_true(rd_quick_sum(data, 0, 7) +
		    rd_quick_sum(data + 12 * RD_BLOCK_SIZE, 12, RD_SEG_BLOCKS - 12) == sum);
	for (bit = 0; bit < 8 * RD_BLOCK_SIZE; bit += 1021) {
		block[bit / 8] ^= 1 << bit % 8;
		assert_false(rd_quick_sum(data, 0, RD_SEG_BLOCKS) == sum);
		block[bit / 8] ^= 1 << bit % 8;
	}
	swap_blocks(block, block + RD_BLOCK_SIZE);
	assert_false(rd_quick_sum(data, 0, RD_SEG_BLOCKS) == sum);
	/* A block and zeros, too. */
	swap_blocks(block, block + RD_BLOCK_SIZE);
	swap_blocks(data + 6 * RD_BLOCK_SIZE, data + 7 * RD_BLOCK_SIZE);
	assert_false(rd_quick_sum(data, 0, RD_SEG_BLOCKS) == sum);
	swap_blocks(data + 6 * RD_BLOCK_SIZE, data + 7 * RD_BLOCK_SIZE);
	assert_true(rd_quick_sum(data, 0, RD_SEG_BLOCKS) == sum);
}

/* One bit of any byte makes a block something else than zeros, which are not stored. */
static void test_zero(void **state)
{
	u8 block[RD_BLOCK_SIZE] = { 0 };
	unsigned int i;

	(void)state;
	assert_true(rd_is_zero(block, sizeof(block)));
	for (i = 0; i < sizeof(block); i++) {
		block[i] = 1 << i % 8;
		assert_false(rd_is_zero(block, sizeof(block)));
		block[i] = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_avx512),
		cmocka_unit_test(test_avx2),
		cmocka_unit_test(test_pair),
#endif
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_quick_sum),
	};

	return cmocka_run_group_tests_name("fp", tests, fill, NULL);
}
