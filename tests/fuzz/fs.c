// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that a guest has written: its table, and free space of the file systems on it. An input
 * is the size of the disk, two bytes, and sectors, each behind its number, two bytes; the others
 * are zeros.
 */
#include "fs/freespace.h"
#include "tests/unit/disk_image.h"
#include "fuzz.h"

#define SECTORS		16384

static u8 disk_data[SECTORS * IMAGE_SECTOR];

struct taken {
	const struct rd_fs_part *part;
	u64 behind;
};

static struct rd_fs_disk disk;
static u64 bytes_read;

static int read_disk(void *ctx, void *buf, size_t len, u64 offset)
{
	(void)ctx;
	must(offset <= disk.size && len <= disk.size - offset);
	memcpy(buf, disk_data + offset, len);
	bytes_read += len;
	return 0;
}

static int take(void *ctx, u64 offset, u64 len)
{
	struct taken *taken = ctx;

	must(len && offset >= taken->behind && offset >= taken->part->offset);
	taken->behind = offset + len;
	must(taken->behind <= taken->part->offset + taken->part->size);
	return 0;
}

static void check_part(const struct rd_fs_part *part)
{
	struct taken taken = { .part = part };
	struct rd_fs_found found;

	must(part->offset <= disk.size && part->size <= disk.size - part->offset);
	bytes_read = 0;
	must(!rd_fs_free_space(&disk, part, &found, take, &taken));
	must(found.state <= RD_FS_DAMAGED && (found.kind || found.state == RD_FS_UNKNOWN));
	/* The work is bounded by what there is. */
	must(bytes_read <= part->size + 65536);
}

static void check_disk(void)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int i, j, nr;

	if (rd_fs_partitions(&disk, parts, &nr))
		return;
	must(nr <= RD_FS_PARTS);
	for (i = 0; i < nr; i++) {
		check_part(&parts[i]);
		for (j = 0; j < i; j++)
			must(parts[i].offset >= parts[j].offset + parts[j].size ||
			     parts[j].offset >= parts[i].offset + parts[i].size);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	u8 *touched[128];
	unsigned int nr = 0;
	size_t len;

	disk = (struct rd_fs_disk){ .read = read_disk };
	disk.size = fuzz_take(&input, 2) % (SECTORS + 1) * IMAGE_SECTOR;
	while (input.len && nr < ARRAY_SIZE(touched)) {
		touched[nr] = disk_data + fuzz_take(&input, 2) % SECTORS * IMAGE_SECTOR;
		len = rd_min(input.len, IMAGE_SECTOR);
		memcpy(touched[nr++], input.at, len);
		input.at += len;
		input.len -= len;
	}
	check_disk();
	while (nr)
		memset(touched[--nr], 0, IMAGE_SECTOR);
	return 0;
}

/* Make an input of what is on the disk, and begin with a new one. */
static void seed(void)
{
	static const u8 zeros[IMAGE_SECTOR];
	static u8 input[2 + 128 * (2 + IMAGE_SECTOR)] = { SECTORS >> 8, SECTORS & 255 };
	size_t len = 2;
	unsigned int i;

	for (i = 0; i < SECTORS && len < sizeof(input); i++) {
		const u8 *sector = disk_data + i * IMAGE_SECTOR;

		if (!memcmp(sector, zeros, IMAGE_SECTOR))
			continue;
		input[len++] = i >> 8;
		input[len++] = i & 255;
		memcpy(input + len, sector, IMAGE_SECTOR);
		len += IMAGE_SECTOR;
	}
	fuzz_seed(input, len);
	memset(disk_data, 0, sizeof(disk_data));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	image_ext4(disk_data);
	seed();
	/* 64bit with meta_bg, and bigalloc in clusters of one block. */
	image_ext4(disk_data);
	put_le32(disk_data + 1024 + 96, 0x292);
	put_le16(disk_data + 1024 + 254, 64);
	seed();
	image_ext4(disk_data);
	put_le32(disk_data + 1024 + 100, 0x211);
	seed();
	image_xfs(disk_data);
	seed();
	image_mbr(disk_data, 0, 0x83, 63, 3000);
	image_mbr(disk_data, 1, 0x0f, 4000, 8000);
	image_mbr(disk_data + 4000 * IMAGE_SECTOR, 0, 0x83, 63, 2000);
	image_mbr(disk_data + 4000 * IMAGE_SECTOR, 1, 0x05, 3000, 2000);
	image_mbr(disk_data + 7000 * IMAGE_SECTOR, 0, 0x83, 63, 2000);
	image_xfs(disk_data + 63 * IMAGE_SECTOR);
	image_ext4(disk_data + 4063 * IMAGE_SECTOR);
	seed();
	image_gpt(disk_data, IMAGE_SECTOR, 0, 100, 4000);
	image_gpt(disk_data, IMAGE_SECTOR, 1, 5000, 9000);
	image_xfs(disk_data + 5000 * IMAGE_SECTOR);
	seed();
	return 0;
}
