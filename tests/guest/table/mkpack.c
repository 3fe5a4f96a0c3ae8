// SPDX-License-Identifier: GPL-2.0
/*
 * mkpack DEVICE BLOCK [WORD]...: write a pack whose head is in block BLOCK of the device.
 * Each sector of its slots says letter and number, as those of "fill" do (lib/dmserve.c):
 * sector 8 * slot + i has this number. Prints how many blocks it takes.
 *
 *   letter=X     instead of k
 *   even         only the slots with an even number have a block
 *   raw          every other group, from the second on, is stored as it is
 *   uuid=HEX     of the pool, 32 digits; zeros if not given
 *
 * What is wrong, in group 1 (slots 10 to 1f) unless it is in the head:
 *   flip         a byte that is not what was summed
 *   sum          the sum, where the bytes are right
 *   junk         bytes that are no frame, with the right sum
 *   bomb         a frame of 1 MiB
 *   short        a frame of 15 blocks
 *   checksum     nothing: the frame has a checksum of its own
 *   later        stored as no program knows yet
 *   magic, crc   of the head
 *   long         its length is more than it can be
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "kernel/pack_format.h"

#define SECTOR		512U
#define BAD_GROUP	1U

static char **words;
static struct dmr_pack_head head;
static u8 pack[2 * DMR_SEG_BLOCKS * DMR_BLOCK_SIZE];
static u64 blocks[DMR_PACK_GROUP_SIZE / sizeof(u64)];

/* What follows "NAME=", or an empty text for NAME itself; NULL: it was not given. */
static const char *word(const char *name)
{
	size_t len = strlen(name);
	char **w;

	for (w = words; *w; w++)
		if (!strncmp(*w, name, len) && (!(*w)[len] || (*w)[len] == '='))
			return *w + len + ((*w)[len] == '=');
	return NULL;
}

static bool has(unsigned int slot)
{
	return !word("even") || !(slot % 2);
}

/* Gather the blocks of a group: how many bytes these are. */
static size_t gather(unsigned int group)
{
	char letter = word("letter") ? *word("letter") : 'k';
	size_t nr = 0, i, slot;

	for (slot = group * DMR_PACK_GROUP_BLOCKS; slot < (group + 1) * DMR_PACK_GROUP_BLOCKS;
	     slot++) {
		if (!has(slot))
			continue;
		head.slots[slot / 64] |= 1ULL << slot % 64;
		for (i = 0; i < DMR_BLOCK_SIZE / sizeof(u64); i++)
			blocks[nr++] = (u64)letter << 56 |
				(slot * 8 + i * sizeof(u64) / SECTOR);
	}
	return nr * sizeof(u64);
}

static size_t compress(const void *from, size_t len, u8 *to, bool checksum)
{
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t r;

	if (!ctx)
		err(1, "zstd");
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, checksum);
	r = ZSTD_compress2(ctx, to, ZSTD_compressBound(len), from, len);
	ZSTD_freeCCtx(ctx);
	if (ZSTD_isError(r))
		errx(1, "%s", ZSTD_getErrorName(r));
	return r;
}

static size_t bad_group(size_t len, u8 *to)
{
	static u8 much[1 << 20];

	if (word("bomb"))
		return compress(much, sizeof(much), to, false);
	if (word("short"))
		return compress(blocks, len - DMR_BLOCK_SIZE, to, false);
	if (word("junk"))
		return memset(to, 0xa5, 100), 100;
	return compress(blocks, len, to, word("checksum"));
}

static size_t put_group(unsigned int nr, u8 *to)
{
	size_t all = gather(nr), len = all;
	bool bad = nr == BAD_GROUP, raw = word("raw") && nr % 2;

	head.groups[nr].codec = bad && word("later") ? 77 : raw ? DMR_CODEC_RAW : DMR_CODEC_ZSTD;
	if (raw)
		memcpy(to, blocks, all);
	else
		len = bad ? bad_group(all, to) : compress(blocks, all, to, false);
	head.groups[nr].sum = XXH64(to, len, 0) ^ (bad && word("sum"));
	head.groups[nr].len = bad && word("long") ? DMR_PACK_GROUP_SIZE + 1 : len;
	if (bad && word("flip"))
		to[len / 2] ^= 1;
	return len;
}

static void put_uuid(const char *text)
{
	unsigned int i, byte;

	for (i = 0; text && i < DMR_UUID_SIZE; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			errx(2, "uuid=%s: not 32 digits", text);
		head.uuid[i] = byte;
	}
}

int main(int argc, char **argv)
{
	struct dmr_pack_disk *disk = (struct dmr_pack_disk *)pack;
	size_t len = DMR_PACK_HEAD;
	unsigned int i;
	u64 block;
	int fd;

	if (argc < 3)
		errx(2, "usage: mkpack DEVICE BLOCK [WORD]...");
	words = argv + 3;
	block = strtoull(argv[2], NULL, 0);
	put_uuid(word("uuid"));
	head.frame = 1ULL << 40;
	for (i = 0; i < DMR_PACK_GROUPS; i++)
		len += put_group(i, pack + len);
	dmr_pack_head_pack(&head, disk);
	disk->magic[3] ^= !!word("magic");
	if (word("crc"))
		disk->groups[5].sum[0] ^= 1;
	len = (len + DMR_BLOCK_SIZE - 1) / DMR_BLOCK_SIZE * DMR_BLOCK_SIZE;
	fd = open(argv[1], O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, pack, len, block * DMR_BLOCK_SIZE) != (ssize_t)len || fsync(fd))
		err(1, "%s", argv[1]);
	printf("%zu\n", len / DMR_BLOCK_SIZE);
	return 0;
}
