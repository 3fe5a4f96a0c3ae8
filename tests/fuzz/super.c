// SPDX-License-Identifier: GPL-2.0
/* The superblock: as it is, and with its checksum made right. */
#include "pool/data/area.c"
#include "fuzz.h"

static void check_one(const struct super_disk *disk)
{
	struct rd_pool_super super, again;
	u8 block[RD_BLOCK_SIZE];

	if (rd_pool_super_unpack(&super, disk))
		return;
	must(super.nr_frames && super.nr_frames <= 1ULL << 40);
	must(super.journal_frame < super.nr_frames);
	must(rd_frame_offset(super.nr_frames - 1) + RD_SEG_SIZE > rd_frame_offset(0));
	must(rd_frame_fps_offset(super.nr_frames - 1) < rd_frame_offset(super.nr_frames - 1));
	must(rd_frames_in(rd_frame_offset(super.nr_frames - 1) + RD_SEG_SIZE) ==
	     super.nr_frames);
	rd_pool_super_pack(&super, block);
	must(!rd_pool_super_unpack(&again, block));
	must(!memcmp(&super, &again, sizeof(super)));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct super_disk disk;

	memset(&disk, 0, sizeof(disk));
	memcpy(&disk, data, rd_min(size, sizeof(disk)));
	check_one(&disk);
	disk.magic = cpu_to_le64(SUPER_MAGIC);
	disk.crc = cpu_to_le32(super_crc(&disk));
	check_one(&disk);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rd_pool_super super = { .nr_frames = 1000, .seq = 3, .journal_id = 77,
				  .journal_frame = 5 };
	u8 block[RD_BLOCK_SIZE];

	(void)argc;
	(void)argv;
	rd_pool_super_pack(&super, block);
	fuzz_seed(block, 128);
	return 0;
}
