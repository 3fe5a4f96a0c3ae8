// SPDX-License-Identifier: GPL-2.0
/* Write the superblock of a metadata device that no target uses. */
#include <errno.h>
#include <unistd.h>

#include "base/direct.h"
#include "write.h"

static int write_copy(int fd, const struct dmr_super *super, u64 block)
{
	_Alignas(DMR_BLOCK_SIZE) u8 data[DMR_BLOCK_SIZE] = { 0 };
	int r;

	dmr_super_pack(super, block, (struct dmr_super_disk *)data);
	r = rd_write_direct(fd, data, sizeof(data), block << DMR_BLOCK_SHIFT);
	if (!r && fsync(fd))
		r = -errno;
	return r;
}

int rd_meta_super_write(int fd, const struct dmr_super *super)
{
	int ra = write_copy(fd, super, 0);
	int rb = write_copy(fd, super, super->meta_blocks - 1);

	return rb ? ra : 0;
}

int rd_meta_mark_lost(int fd, const struct rd_meta *meta)
{
	struct dmr_super super = meta->super;

	super.flags |= DMR_FLAG_LOST;
	super.lost_epoch = super.epoch;
	super.seq++;
	return rd_meta_super_write(fd, &super);
}
