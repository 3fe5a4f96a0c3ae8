// SPDX-License-Identifier: GPL-2.0
/*
 * mkpack DEVICE BLOCK [WORD]...: write a pack whose head is in block BLOCK of the device.
 * Each sector of its slots says letter and number, as those of "fill" do
 * (tests/guest/lib/dmserve.c):
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

#include "lib/pack.h"

#define SECTOR		512U
#define BAD_GROUP	1U

static char **words;
static struct pack pack;
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

/* Gather the blocks of a group: which slots have one. */
static u16 gather(unsigned int group)
{
	char letter = word("letter") ? *word("letter") : 'k';
	size_t nr = 0, i, slot;
	u16 slots = 0;

	for (slot = group * DMR_PACK_GROUP_BLOCKS; slot < (group + 1) * DMR_PACK_GROUP_BLOCKS;
	     slot++) {
		if (!has(slot))
			continue;
		slots |= 1U << slot % DMR_PACK_GROUP_BLOCKS;
		for (i = 0; i < DMR_BLOCK_SIZE / sizeof(u64); i++)
			blocks[nr++] = (u64)letter << 56 |
				(slot * 8 + i * sizeof(u64) / SECTOR);
	}
	return slots;
}

static size_t bad_bytes(size_t len, u8 *to)
{
	static u8 much[1 << 20];

	if (word("bomb"))
		return pack_compress(much, sizeof(much), to, false);
	if (word("short"))
		return pack_compress(blocks, len - DMR_BLOCK_SIZE, to, false);
	if (word("junk"))
		return memset(to, 0xa5, 100), 100;
	return pack_compress(blocks, len, to, word("checksum"));
}

static void add_bad_group(u16 slots)
{
	size_t len = hweight16(slots) * DMR_BLOCK_SIZE, at;
	static u8 bytes[2 * DMR_PACK_GROUP_SIZE];

	len = bad_bytes(len, bytes);
	at = pack_store(&pack, slots, bytes, len, word("later") ? 77 : DMR_CODEC_ZSTD);
	pack.head.groups[BAD_GROUP].sum ^= !!word("sum");
	if (word("long"))
		pack.head.groups[BAD_GROUP].len = DMR_PACK_GROUP_SIZE + 1;
	if (word("flip"))
		pack.bytes[at + len / 2] ^= 1;
}

static void add_group(unsigned int nr)
{
	u16 slots = gather(nr);

	if (word("raw") && nr % 2)
		pack_add(&pack, slots, blocks, DMR_CODEC_RAW);
	else if (nr == BAD_GROUP)
		add_bad_group(slots);
	else
		pack_add(&pack, slots, blocks, DMR_CODEC_ZSTD);
}

static void put_uuid(const char *text)
{
	unsigned int i, byte;

	for (i = 0; text && i < DMR_UUID_SIZE; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			errx(2, "uuid=%s: not 32 digits", text);
		pack.head.uuid[i] = byte;
	}
}

int main(int argc, char **argv)
{
	struct dmr_pack_disk *disk = (struct dmr_pack_disk *)pack.bytes;
	unsigned int i, nr;
	ssize_t len;
	u64 block;
	int fd;

	if (argc < 3)
		errx(2, "usage: mkpack DEVICE BLOCK [WORD]...");
	words = argv + 3;
	block = strtoull(argv[2], NULL, 0);
	pack_begin(&pack);
	put_uuid(word("uuid"));
	for (i = 0; i < DMR_PACK_GROUPS; i++)
		add_group(i);
	nr = pack_end(&pack);
	len = nr * DMR_BLOCK_SIZE;
	disk->magic[3] ^= !!word("magic");
	if (word("crc"))
		disk->groups[5].sum[0] ^= 1;
	fd = open(argv[1], O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, pack.bytes, len, block * DMR_BLOCK_SIZE) != len || fsync(fd))
		err(1, "%s", argv[1]);
	printf("%u\n", nr);
	return 0;
}
