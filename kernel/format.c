// SPDX-License-Identifier: GPL-2.0
/*
 * Layout arithmetic, packing and checking of the metadata device. Pure; also
 * built in user space. The format itself is described in format.h.
 */
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "format.h"

#define ENTRY_CHECK_SHIFT	48
#define ENTRY_BODY_MASK		((1ULL << ENTRY_CHECK_SHIFT) - 1)

static_assert(sizeof(struct dmr_super_disk) == 512);
static_assert(sizeof(struct dmr_bits_disk) == DMR_BLOCK_SIZE);
static_assert(DMR_GROUP_SEGS % DMR_SEG_BLOCKS == 0);
static_assert(DMR_GROUP_SEGS % 64 == 0);

u64 dmr_nr_segs(u64 volume_sectors)
{
	/* Not DIV_ROUND_UP: the sum would overflow on the largest volumes. */
	return (volume_sectors >> DMR_SEG_SECTOR_SHIFT) +
	       !!(volume_sectors & (DMR_SEG_SECTORS - 1));
}

u64 dmr_nr_blocks(u64 volume_sectors)
{
	return volume_sectors / DMR_BLOCK_SECTORS + !!(volume_sectors % DMR_BLOCK_SECTORS);
}

unsigned int dmr_blocks_in_seg(u64 volume_sectors, u64 seg)
{
	u64 rest = dmr_nr_blocks(volume_sectors) - seg * DMR_SEG_BLOCKS;

	return rest < DMR_SEG_BLOCKS ? rest : DMR_SEG_BLOCKS;
}

/* 64-bit division by a constant that 32-bit kernels can link. */
static u64 group_of(u64 seg, u32 *ret_rest)
{
	/* 32256 = 512 * 63; seg <= 2^32, so seg / 512 fits 32 bits. */
	u32 units = seg / DMR_SEG_BLOCKS;

	*ret_rest = (units % DMR_GROUP_WORD_BLOCKS) * DMR_SEG_BLOCKS +
		    (u32)(seg % DMR_SEG_BLOCKS);
	return units / DMR_GROUP_WORD_BLOCKS;
}

u64 dmr_nr_groups(u64 nr_segs)
{
	u32 rest;
	u64 group = group_of(nr_segs, &rest);

	return group + !!rest;
}

static u64 group_start(u64 group, u32 flags)
{
	return 1 + group * (flags & DMR_FLAG_TABLE ?
			    DMR_STRIDE_TABLE : DMR_STRIDE_BITS);
}

u64 dmr_meta_blocks_needed(u64 nr_segs, u32 flags)
{
	u32 rest;
	u64 group = group_of(nr_segs, &rest);
	u64 blocks = group_start(group, flags);

	/* The last group needs pages only for the segments it has. */
	if (rest && (flags & DMR_FLAG_TABLE))
		blocks += DMR_STRIDE_BITS + DMR_GROUP_WORD_BLOCKS + rest;
	else if (rest)
		blocks += DMR_STRIDE_BITS;
	return blocks + 1;
}

u64 dmr_bits_block(u64 group, u64 epoch, u32 flags)
{
	return group_start(group, flags) + (epoch & 1);
}

u64 dmr_word_block(u64 seg)
{
	u32 rest;
	u64 group = group_of(seg, &rest);

	return group_start(group, DMR_FLAG_TABLE) + DMR_STRIDE_BITS +
	       rest / DMR_SEG_BLOCKS;
}

u64 dmr_page_block(u64 seg)
{
	u32 rest;
	u64 group = group_of(seg, &rest);

	return group_start(group, DMR_FLAG_TABLE) + DMR_STRIDE_BITS +
	       DMR_GROUP_WORD_BLOCKS + rest;
}

bool dmr_is_zero(const void *p, size_t len)
{
	return !memchr_inv(p, 0, len);
}

u32 dmr_seed(const u8 *meta_uuid)
{
	return crc32c(~0U, meta_uuid, DMR_UUID_SIZE);
}

static u32 block_csum(u32 seed, u64 block_nr, const void *body, size_t len)
{
	__le64 nr = cpu_to_le64(block_nr);

	return crc32c(crc32c(seed, &nr, sizeof(nr)), body, len);
}

static __le32 super_csum(const struct dmr_super_disk *disk, u64 block_nr)
{
	return cpu_to_le32(block_csum(~0U, block_nr, &disk->version,
				      sizeof(*disk) - sizeof(disk->csum)));
}

void dmr_super_pack(const struct dmr_super *super, u64 block_nr,
		    struct dmr_super_disk *disk)
{
	memset(disk, 0, sizeof(*disk));
	disk->version = cpu_to_le32(DMR_FORMAT_VERSION);
	memcpy(disk->magic, DMR_MAGIC, sizeof(disk->magic));
	memcpy(disk->meta_uuid, super->meta_uuid, DMR_UUID_SIZE);
	memcpy(disk->volume_uuid, super->volume_uuid, DMR_UUID_SIZE);
	memcpy(disk->pool_uuid, super->pool_uuid, DMR_UUID_SIZE);
	disk->compat = cpu_to_le32(super->compat);
	disk->compat_ro = cpu_to_le32(super->compat_ro);
	disk->incompat = cpu_to_le32(super->incompat);
	disk->flags = cpu_to_le32(super->flags);
	disk->seq = cpu_to_le64(super->seq);
	disk->volume_sectors = cpu_to_le64(super->volume_sectors);
	disk->meta_blocks = cpu_to_le64(super->meta_blocks);
	disk->epoch = cpu_to_le64(super->epoch);
	disk->committed = cpu_to_le64(super->committed);
	disk->version_nr = cpu_to_le64(super->version_nr);
	disk->lost_epoch = cpu_to_le64(super->lost_epoch);
	disk->hydrate_mib = cpu_to_le32(super->hydrate_mib);
	disk->csum = super_csum(disk, block_nr);
}

static void super_fields(const struct dmr_super_disk *disk,
			 struct dmr_super *super)
{
	memcpy(super->meta_uuid, disk->meta_uuid, DMR_UUID_SIZE);
	memcpy(super->volume_uuid, disk->volume_uuid, DMR_UUID_SIZE);
	memcpy(super->pool_uuid, disk->pool_uuid, DMR_UUID_SIZE);
	super->compat = le32_to_cpu(disk->compat);
	super->compat_ro = le32_to_cpu(disk->compat_ro);
	super->incompat = le32_to_cpu(disk->incompat);
	super->flags = le32_to_cpu(disk->flags);
	super->seq = le64_to_cpu(disk->seq);
	super->volume_sectors = le64_to_cpu(disk->volume_sectors);
	super->meta_blocks = le64_to_cpu(disk->meta_blocks);
	super->epoch = le64_to_cpu(disk->epoch);
	super->committed = le64_to_cpu(disk->committed);
	super->version_nr = le64_to_cpu(disk->version_nr);
	super->lost_epoch = le64_to_cpu(disk->lost_epoch);
	super->hydrate_mib = le32_to_cpu(disk->hydrate_mib);
}

/* A good checksum proves who wrote a superblock, not that it makes sense. */
static bool super_is_sane(const struct dmr_super *super, u64 block_nr)
{
	u64 nr_segs = dmr_nr_segs(super->volume_sectors);

	return nr_segs && nr_segs <= DMR_MAX_SEGS &&
	       !(super->flags & ~DMR_FLAGS_ALL) &&
	       /* Without a table there is nowhere to keep other places. */
	       (super->flags & (DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK)) &&
	       super->meta_blocks >= dmr_meta_blocks_needed(nr_segs, super->flags) &&
	       (!block_nr || block_nr == super->meta_blocks - 1) &&
	       super->committed <= super->epoch &&
	       super->lost_epoch <= super->epoch &&
	       (!(super->flags & DMR_FLAG_FROZEN) ||
		super->committed < super->epoch) &&
	       /* There must be a next epoch. */
	       super->epoch < U64_MAX && super->seq && super->seq < DMR_MAX_SEQ;
}

int dmr_super_unpack(const struct dmr_super_disk *disk, u64 block_nr,
		     struct dmr_super *super, const char **why)
{
	if (memcmp(disk->magic, DMR_MAGIC, sizeof(disk->magic))) {
		*why = dmr_is_zero(disk, sizeof(*disk)) ?
			"the superblock is all zeros" :
			"not a revdedup metadata device (no magic), and not zeroed for one";
		return -ENODATA;
	}
	if (disk->csum != super_csum(disk, block_nr)) {
		*why = "the superblock is damaged (checksum)";
		return -EBADMSG;
	}
	if (le32_to_cpu(disk->version) != DMR_FORMAT_VERSION) {
		*why = "the metadata's format version is not supported";
		return -EOPNOTSUPP;
	}
	if (le32_to_cpu(disk->incompat) & ~DMR_INCOMPAT_ALL) {
		*why = "the metadata uses a feature that is not supported (incompat)";
		return -EOPNOTSUPP;
	}
	super_fields(disk, super);
	if (!super_is_sane(super, block_nr)) {
		*why = "the superblock is damaged (values that contradict each other)";
		return -EBADMSG;
	}
	return 0;
}

int dmr_super_choose(const struct dmr_super *a, int ra,
		     const struct dmr_super *b, int rb,
		     struct dmr_super *super)
{
	/* A copy that a newer version of the target wrote may be the state. */
	if (ra == -EOPNOTSUPP || rb == -EOPNOTSUPP)
		return -EOPNOTSUPP;

	if (ra && rb)
		return ra;

	/* A copy B from an earlier use of the device does not count. */
	if (!ra && !rb && memcmp(a->meta_uuid, b->meta_uuid, DMR_UUID_SIZE))
		rb = -EBADMSG;

	if (!ra && !rb) {
		*super = a->seq >= b->seq ? *a : *b;
		return 0;
	}

	*super = ra ? *b : *a;
	super->flags |= DMR_FLAG_LOST;
	super->lost_epoch = super->epoch;
	/*
	 * The other copy may be newer, may not be writable either, and may become
	 * readable again one day: use a greater number than it can have.
	 */
	super->seq += DMR_SEQ_LEAP;
	return 0;
}

void dmr_super_copy_unpack(struct dmr_super_copy *copy, const void *data)
{
	copy->r = dmr_super_unpack(data, copy->block, &copy->super, &copy->why);
	if (copy->r == -ENODATA && !dmr_is_zero(data, DMR_BLOCK_SIZE)) {
		copy->r = -EMEDIUMTYPE;
		copy->why = "not a revdedup metadata device (no magic), and not zeroed for one";
	}
}

void dmr_super_copy_unreadable(struct dmr_super_copy *copy)
{
	/* Not the error of the read: a bad sector is -ENODATA, as zeros are. */
	copy->r = -EIO;
	copy->why = "cannot read the superblock";
}

void dmr_super_copy_cut_off(struct dmr_super_copy *copy)
{
	copy->r = -ENOSPC;
	copy->why = "beyond the end of the device";
}

u64 dmr_super_b_block(const struct dmr_super_copy *a, u64 nr_blocks)
{
	return (a->r ? nr_blocks : a->super.meta_blocks) - 1;
}

static int no_state(struct dmr_super_state *state, int r, const char *why)
{
	state->why = why;
	return r;
}

int dmr_super_decide(const struct dmr_super_copy *a,
		     const struct dmr_super_copy *b,
		     struct dmr_super_state *state)
{
	bool other_life;
	int r;

	if (a->r == -EMEDIUMTYPE || a->r == -EOPNOTSUPP)
		return no_state(state, a->r, a->why);
	if (!a->r && b->r == -ENOSPC)
		return no_state(state, -ENOSPC,
				"the metadata device is smaller than when it was formatted");
	if (a->r == -ENODATA && (b->r == -ENODATA || b->r == -EMEDIUMTYPE))
		return no_state(state, -ENODATA, a->why);
	if (a->r == -ENODATA)
		return no_state(state, -EEXIST,
				"the first block is zero, but the last one is a superblock or unreadable");

	r = dmr_super_choose(&a->super, a->r, &b->super, b->r, &state->super);
	if (r)
		return no_state(state, r, a->r == r ? a->why : b->why);

	other_life = !a->r && !b->r &&
		     memcmp(a->super.meta_uuid, b->super.meta_uuid, DMR_UUID_SIZE);
	state->missing = a->r ? 'A' : b->r || other_life ? 'B' : 0;
	state->why = a->r ? a->why : other_life ? "from an earlier use of the device" : b->why;
	if (state->missing)
		state->chosen = state->missing == 'A' ? 'B' : 'A';
	else
		state->chosen = a->super.seq >= b->super.seq ? 'A' : 'B';
	return 0;
}

static __le32 bits_csum(u32 seed, u64 block_nr,
			const struct dmr_bits_disk *disk)
{
	return cpu_to_le32(block_csum(seed, block_nr, &disk->reserved0,
				      sizeof(*disk) - sizeof(disk->csum)));
}

void dmr_bits_pack(u32 seed, u64 block_nr, u64 epoch, const u64 *bits,
		   struct dmr_bits_disk *disk)
{
	unsigned int i;

	memset(disk, 0, offsetof(struct dmr_bits_disk, bits));
	disk->epoch = cpu_to_le64(epoch);
	for (i = 0; i < DMR_BITS_LONGS; i++)
		disk->bits[i] = cpu_to_le64(bits[i]);
	disk->csum = bits_csum(seed, block_nr, disk);
}

bool dmr_bits_unpack(u32 seed, u64 block_nr, u64 epoch,
		     const struct dmr_bits_disk *disk, u64 *bits)
{
	u64 found = le64_to_cpu(disk->epoch);
	unsigned int i;

	if (disk->csum != bits_csum(seed, block_nr, disk) || found > epoch) {
		memset(bits, 0xff, DMR_BITS_LONGS * sizeof(*bits));
		return false;
	}
	for (i = 0; i < DMR_BITS_LONGS; i++)
		bits[i] = found == epoch ? le64_to_cpu(disk->bits[i]) : 0;
	return true;
}

static u16 entry_check(u32 seed, bool word, u64 index, u64 body)
{
	struct {
		__le64 body;
		__le64 index;
		__le64 word;
	} key = {
		.body = cpu_to_le64(body),
		.index = cpu_to_le64(index),
		.word = cpu_to_le64(word),
	};
	u32 crc = crc32c(seed, &key, sizeof(key));
	u16 check = crc ^ (crc >> 16);

	return check ? check : 1;
}

u64 dmr_entry_pack(u32 seed, bool word, u64 index, struct dmr_entry entry)
{
	u64 body = dmr_entry_value(word, entry);

	return body | (u64)entry_check(seed, word, index, body) <<
		      ENTRY_CHECK_SHIFT;
}

static bool hints_are_sane(u64 hints)
{
	return !(hints >> 20) &&
	       dmr_hint_base(hints) + dmr_hint_zero(hints) <= DMR_SEG_BLOCKS;
}

bool dmr_entry_unpack(u32 seed, bool word, u64 index, u64 value,
		      struct dmr_entry *entry)
{
	if (value >> ENTRY_CHECK_SHIFT !=
	    entry_check(seed, word, index, value & ENTRY_BODY_MASK))
		return false;

	*entry = dmr_entry_body(word, value);
	switch (entry->kind) {
	case DMR_PAGE:
		return word && hints_are_sane(entry->block);
	case DMR_PACK:
		return !word || !dmr_entry_slot(*entry);
	case DMR_POOL:
		return true;
	default:
		return !entry->block;
	}
}

bool dmr_word_unpack(u32 seed, u64 seg, u64 value, struct dmr_entry *entry)
{
	return dmr_entry_unpack(seed, true, seg, value, entry) &&
	       (entry->kind != DMR_POOL ||
		entry->block <= DMR_ENTRY_BLOCK_MAX - (DMR_SEG_BLOCKS - 1));
}
