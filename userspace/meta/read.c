// SPDX-License-Identifier: GPL-2.0
/*
 * Read a metadata device as a target does; see read.h. Each decision names the kernel
 * function that it repeats.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "read.h"

/* Two superblocks and a pair of bitmap blocks: see dmr_meta_get(). */
#define MIN_BLOCKS	4

/* Blocks from a file descriptor */

static bool is_claimed(const char *path)
{
	int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EBUSY;
}

int rd_meta_open_path(const char *path, bool *ret_in_use)
{
	struct stat st;
	int fd;

	/* Look before the open, which may block on a fifo or trigger a device. */
	if (stat(path, &st))
		return -errno;
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
		return -ENOTBLK;
	/* The kernel writes past the page cache of the device, so read past it, too. */
	fd = rd_open_direct(path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	/* Without O_CREAT, O_EXCL has a meaning for block devices only. */
	if (ret_in_use)
		*ret_in_use = S_ISBLK(st.st_mode) && is_claimed(path);
	return fd;
}

static int read_fd(void *ctx, u64 block, void *buf)
{
	_Alignas(DMR_BLOCK_SIZE) u8 aligned[DMR_BLOCK_SIZE];	/* for O_DIRECT */
	struct iovec iov = { .iov_base = aligned, .iov_len = sizeof(aligned) };
	int r = rd_transfer_direct((int)(intptr_t)ctx, &iov, 1, block << DMR_BLOCK_SHIFT, preadv);

	if (!r)
		memcpy(buf, aligned, sizeof(aligned));
	return r;
}

int rd_meta_source_fd(struct rd_meta_source *source, int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);

	if (end < 0)
		return -errno;
	source->read = read_fd;
	source->ctx = (void *)(intptr_t)fd;
	source->nr_blocks = (u64)end >> DMR_BLOCK_SHIFT;
	return 0;
}

/* Superblocks */

static void read_copy(const struct rd_meta_source *source, struct dmr_super_copy *copy,
		      struct rd_meta_raw *raw)
{
	u8 buf[DMR_BLOCK_SIZE];

	if (copy->block >= source->nr_blocks) {
		dmr_super_copy_cut_off(copy);
		return;
	}
	if (source->read(source->ctx, copy->block, buf)) {
		dmr_super_copy_unreadable(copy);
		return;
	}
	dmr_super_copy_unpack(copy, buf);
	raw->is_known = true;
	memcpy(&raw->disk, buf, sizeof(raw->disk));
	raw->rest_is_zero = dmr_is_zero(buf + sizeof(raw->disk),
					sizeof(buf) - sizeof(raw->disk));
}

/* Decide as dmr_meta_get() and dmr_super_read() do. */
static int decide(struct rd_meta *meta, struct dmr_super_state *state)
{
	int r = dmr_super_decide(&meta->a, &meta->b, state);

	/* A good copy A, or one of another version, says more than the size does. */
	if (meta->source->nr_blocks >= MIN_BLOCKS || r == -EMEDIUMTYPE || r == -EOPNOTSUPP ||
	    !meta->a.r)
		return r;
	state->why = "the metadata device is too small: it needs 4 blocks of 4 KiB at least";
	return -ENOSPC;
}

/* See check_belongs(), except for the checks of the table line. */
static const char *why_refused(const struct dmr_super *super)
{
	return super->flags & DMR_FLAG_INCOMPLETE ? "the remap table is incomplete" : NULL;
}

int rd_meta_open(struct rd_meta *meta, const struct rd_meta_source *source)
{
	struct dmr_super_state state;

	memset(meta, 0, sizeof(*meta));
	meta->source = source;
	read_copy(source, &meta->a, &meta->raw_a);
	meta->b.block = source->nr_blocks ? dmr_super_b_block(&meta->a, source->nr_blocks) : 0;
	read_copy(source, &meta->b, &meta->raw_b);
	meta->r = decide(meta, &state);
	if (meta->r) {
		meta->why = state.why;
		return meta->r;
	}
	meta->super = state.super;
	meta->chosen = state.chosen;
	meta->other_life = state.missing == 'B' && !meta->b.r;
	meta->seed = dmr_seed(meta->super.meta_uuid);
	meta->nr_segs = dmr_nr_segs(meta->super.volume_sectors);
	meta->nr_groups = dmr_nr_groups(meta->nr_segs);
	meta->refused = why_refused(&meta->super);
	return 0;
}

/* Advice */

enum advice {
	REPEAT_BATCH,
	UPGRADE,
	NOTHING,
	WRONG_DEVICE,
	RESTORE_OVERWRITTEN,
	ZERO_OVERWRITTEN,
	RESTORE,
	ZERO,
	MORE_SPACE,
	GIVE_SIZE_BACK,
	RESTORE_OR_ZERO,
	LOOK_AT_DISK,
};

static const char *const advices[] = {
	[REPEAT_BATCH] =
		"repeat the batch of changes that was cut off",
	[UPGRADE] =
		"use a later version of dm-revdedup and of this program; do not format the device",
	[NOTHING] =
		"nothing to do: a target formats the device at its first resume, with every segment dirty",
	[WRONG_DEVICE] =
		"check that this is the right device; to have it formatted, zero its first 4 KiB",
	[RESTORE_OVERWRITTEN] =
		"copy B at the end is good, something overwrote the beginning; restore the device from a backup: its remap table says where blocks of the volume are",
	[ZERO_OVERWRITTEN] =
		"copy B at the end is good, something overwrote the beginning; zero the first and the last 4 KiB to start afresh, with every segment dirty",
	[RESTORE] =
		"restore the device from a backup: its remap table says where blocks of the volume are",
	[ZERO] =
		"zero the first and the last 4 KiB to start afresh, with every segment dirty",
	[MORE_SPACE] =
		"use a larger device",
	[GIVE_SIZE_BACK] =
		"extend it to its former size (lvextend), or copy the whole metadata image again",
	[RESTORE_OR_ZERO] =
		"restore it from a backup; if no block of the volume is remapped, zero the first and the last 4 KiB to start afresh, with every segment dirty",
	[LOOK_AT_DISK] =
		"look for disk errors in the kernel's log, and copy the device to another one",
};

/* True if a good copy says that the remap table is in use: it must not be zeroed. */
static bool is_remapped(const struct rd_meta *meta)
{
	return (!meta->a.r && !(meta->a.super.flags & DMR_FLAG_LINEAR_OK)) ||
	       (!meta->b.r && !(meta->b.super.flags & DMR_FLAG_LINEAR_OK));
}

static enum advice advise(const struct rd_meta *meta)
{
	switch (-meta->r) {
	case 0:
		return REPEAT_BATCH;
	case ENODATA:
		return NOTHING;
	case EMEDIUMTYPE:
		if (meta->b.r)
			return meta->b.r == -EOPNOTSUPP ? UPGRADE : WRONG_DEVICE;
		return is_remapped(meta) ? RESTORE_OVERWRITTEN : ZERO_OVERWRITTEN;
	case EEXIST:
		if (meta->b.r)
			return meta->b.r == -EOPNOTSUPP ? UPGRADE : RESTORE_OR_ZERO;
		return is_remapped(meta) ? RESTORE : ZERO;
	case EOPNOTSUPP:
		return UPGRADE;
	case ENOSPC:
		return meta->a.r ? MORE_SPACE : GIVE_SIZE_BACK;
	case EBADMSG:
		return RESTORE_OR_ZERO;
	}
	return LOOK_AT_DISK;
}

const char *rd_meta_advice(const struct rd_meta *meta)
{
	return advices[advise(meta)];
}

/* Bitmaps */

static void clear_rest(struct rd_meta_bits *bits)
{
	unsigned int i;

	bits->nr_dirty = 0;
	for (i = 0; i < DMR_BITS_LONGS; i++) {
		if (bits->nr_segs <= i * 64)
			bits->bits[i] = 0;
		else if (bits->nr_segs < i * 64 + 64)
			bits->bits[i] &= U64_MAX >> (64 - bits->nr_segs % 64);
		bits->nr_dirty += __builtin_popcountll(bits->bits[i]);
	}
}

/* Read the bitmaps as dmr_bitmaps_read() does. */
void rd_meta_read_bits(const struct rd_meta *meta, u64 group, u64 epoch,
		       struct rd_meta_bits *bits)
{
	struct dmr_bits_disk disk;
	u64 rest = meta->nr_segs - group * DMR_GROUP_SEGS;

	bits->first = group * DMR_GROUP_SEGS;
	bits->nr_segs = rest < DMR_GROUP_SEGS ? rest : DMR_GROUP_SEGS;
	bits->block = dmr_bits_block(group, epoch, meta->super.flags);
	bits->epoch = 0;
	bits->r = meta->source->read(meta->source->ctx, bits->block, &disk);
	if (bits->r) {
		memset(bits->bits, 0xff, sizeof(bits->bits));
		bits->state = RD_BITS_UNREADABLE;
	} else if (dmr_bits_unpack(meta->seed, bits->block, epoch, &disk,
				   bits->bits)) {
		bits->epoch = le64_to_cpu(disk.epoch);
		bits->state = bits->epoch == epoch ? RD_BITS_GOOD : RD_BITS_OLDER;
	} else {
		/* The block is damaged, unless it is valid for the epoch that it names. */
		u64 scratch[DMR_BITS_LONGS];

		bits->epoch = le64_to_cpu(disk.epoch);
		bits->state = dmr_bits_unpack(meta->seed, bits->block,
					      bits->epoch, &disk, scratch) ?
			      RD_BITS_COMING : RD_BITS_DAMAGED;
	}
	clear_rest(bits);
}

void rd_meta_walk_init(struct rd_meta_walk *walk, const struct rd_meta *meta,
		       enum rd_meta_set set)
{
	walk->meta = meta;
	walk->set = set;
	walk->next = 0;
	walk->loaded = U64_MAX;
	if (set == RD_META_FROZEN && !(meta->super.flags & DMR_FLAG_FROZEN))
		walk->next = meta->nr_segs;
}

static void walk_load(struct rd_meta_walk *walk, u64 group)
{
	u64 epoch = walk->meta->super.epoch - (walk->set == RD_META_FROZEN);

	if (walk->loaded == group)
		return;
	rd_meta_read_bits(walk->meta, group, epoch, &walk->bits);
	walk->loaded = group;
}

/* Step to the first segment from walk->next on that is @dirty, or to the end. */
static u64 walk_find(struct rd_meta_walk *walk, bool dirty)
{
	while (walk->next < walk->meta->nr_segs) {
		unsigned int bit = walk->next % DMR_GROUP_SEGS;
		u64 bits;

		walk_load(walk, walk->next / DMR_GROUP_SEGS);
		bits = walk->bits.bits[bit / 64];
		bits = (dirty ? bits : ~bits) >> bit % 64;
		if (bits)
			return walk->next += __builtin_ctzll(bits);
		walk->next += 64 - bit % 64;
	}
	return walk->next = walk->meta->nr_segs;
}

bool rd_meta_walk_next(struct rd_meta_walk *walk, struct dmr_range *range)
{
	const struct rd_meta *meta = walk->meta;

	range->first = walk->next;
	if (walk->set == RD_META_CURRENT && (meta->super.flags & DMR_FLAG_LOST)) {
		/* As in dmr_load(): with the lost mark every segment is dirty. */
		walk->next = meta->nr_segs;
	} else {
		range->first = walk_find(walk, true);
		walk_find(walk, false);
	}
	range->len = walk->next - range->first;
	return range->len;
}
