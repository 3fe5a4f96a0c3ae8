/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The metadata device of a revdedup volume: every byte of it.
 *
 * This header and format.c are pure: no I/O, no allocation, no locks. The kernel
 * target, the user-space tools and the tests build the same two files, so they agree
 * on what a metadata device says.
 *
 * All numbers are little-endian. A block is 4 KiB, a segment 2 MiB of the
 * volume's address space (512 blocks). The device is laid out in groups of
 * 32256 segments (63 GiB of volume). The place of everything follows from the
 * number of its segment alone, so a volume grows by appending groups, and nothing
 * ever moves:
 *
 *   block 0            superblock, copy A
 *   block 1            group 0
 *   block 1 + stride   group 1
 *   ...
 *   last block         superblock, copy B
 *
 * A group, with a remap table (stride 32321) and without (stride 2):
 *
 *   +------------+------------+---------------------+------------------------+
 *   | bitmap     | bitmap     | 63 blocks of words  | 32256 pages of entries |
 *   | even epoch | odd epoch  | 8 bytes a segment   | 4 KiB a segment        |
 *   +------------+------------+---------------------+------------------------+
 *         always present      |     only where DMR_FLAG_TABLE is set
 *
 * Epochs and bitmaps
 * ------------------
 * Epoch E is the run of writes between checkpoint E and checkpoint E + 1. Its
 * dirty bits are in the bitmap of its parity, and each bitmap block carries the
 * epoch that it was written in. A block that carries an older epoch than the one
 * in question says "no segment is dirty": so checkpoint E + 1 is one write of the
 * superblock, no bitmap has to be zeroed before it, and none can be half zeroed
 * by a crash. A block with a bad checksum, or from an epoch that has not come
 * yet, says "every segment is dirty".
 *
 * The frozen set of checkpoint E is the bitmap of epoch E - 1. It stands until
 * commit E or abort E (DMR_FLAG_FROZEN).
 *
 * What a crash can leave
 * ----------------------
 * Superblock copy A is written and flushed before copy B, with a sequence
 * number that grows by one with each write; the valid copy with the greater
 * number is the state. A copy that is unreadable or damaged might have been the
 * newer one. So the other one counts for everything but the dirty bits: the volume
 * is DMR_FLAG_LOST, and every segment dirty. The next write leaps over every
 * number that the missing copy can have, in case that copy comes back.
 *
 * A bitmap block is written and flushed before the first write that it stands for
 * is issued, so the bits say too much after a crash, never too little.
 *
 * A page is written and flushed before the word that names it, and an entry
 * becomes BASE on disk only after the base was flushed behind the data of that
 * block. So each entry names a place that holds the block as it was at the last
 * flush, or as something that was written to it later.
 */
#ifndef DMR_FORMAT_H
#define DMR_FORMAT_H

#include <linux/bits.h>
#include <linux/types.h>

#define DMR_FORMAT_VERSION	1

#define DMR_BLOCK_SHIFT		12
#define DMR_BLOCK_SIZE		BIT(DMR_BLOCK_SHIFT)
#define DMR_BLOCK_SECTORS	(DMR_BLOCK_SIZE >> 9)

#define DMR_SEG_SECTOR_SHIFT	12
#define DMR_SEG_SECTORS		BIT(DMR_SEG_SECTOR_SHIFT)
#define DMR_SEG_BLOCKS		512U

#define DMR_GROUP_SEGS		32256U
#define DMR_GROUP_WORD_BLOCKS	(DMR_GROUP_SEGS / DMR_SEG_BLOCKS)
#define DMR_STRIDE_BITS		2U
#define DMR_STRIDE_TABLE	(2U + DMR_GROUP_WORD_BLOCKS + DMR_GROUP_SEGS)

/* Volumes of more than 2^32 segments (8 EiB) are refused. */
#define DMR_MAX_SEGS		BIT_ULL(32)

#define DMR_UUID_SIZE		16

/*
 * Superblock: 512 bytes, which a disk writes whole or not at all; the rest of
 * its block is zero. The checksum is CRC-32C over bytes 4..511, seeded with
 * the block number, so a copy in the wrong place does not pass. Every format
 * version keeps checksum, version and magic as they are, so that "from another
 * version" can be told from "damaged".
 */
struct dmr_super_disk {
	__le32 csum;
	__le32 version;			/* DMR_FORMAT_VERSION */
	__u8 magic[16];			/* DMR_MAGIC */
	__u8 meta_uuid[DMR_UUID_SIZE];	/* random, made at format; seeds all other checks */
	__u8 volume_uuid[DMR_UUID_SIZE];/* zero: not told yet */
	__u8 pool_uuid[DMR_UUID_SIZE];	/* zero: not told yet */
	__le32 compat;			/* unknown bits: go on */
	__le32 compat_ro;		/* unknown bits: read only */
	__le32 incompat;		/* unknown bits: refuse */
	__le32 flags;			/* DMR_FLAG_* */
	__le64 seq;			/* of this write of the superblock */
	__le64 volume_sectors;
	__le64 meta_blocks;		/* copy B is in block meta_blocks - 1 */
	__le64 epoch;			/* current epoch = last checkpoint */
	__le64 committed;		/* last committed checkpoint; 0: none */
	__le64 version_nr;		/* version recorded by that commit */
	__le64 lost_epoch;		/* with DMR_FLAG_LOST: epoch in which it happened */
	__le32 hydrate_mib;		/* with DMR_FLAG_HYDRATE: MiB/s; 0: no limit */
	__u8 reserved[364];		/* zero */
};

/* More writes than one copy can be behind the other; see dmr_super_choose(). */
#define DMR_SEQ_LEAP		BIT_ULL(32)
/* Far more writes than will ever happen, so that adding to a number never wraps. */
#define DMR_MAX_SEQ		BIT_ULL(63)

#define DMR_MAGIC		"revdedup-meta\r\n\x1a"

/* A frozen set exists: checkpoint `epoch` is neither committed nor aborted. */
#define DMR_FLAG_FROZEN		BIT(0)
/* Writes of epoch `lost_epoch` or before may be missing from the bits. */
#define DMR_FLAG_LOST		BIT(1)
/*
 * Every block is BASE, and a linear table over the base is the same device. Words and
 * pages are not read and may hold anything. The words are initialised, all BASE and
 * stable, before this flag is cleared for the first other entry.
 */
#define DMR_FLAG_LINEAR_OK	BIT(2)
/* A batch of `set` was begun and not ended: the table must not be used. */
#define DMR_FLAG_INCOMPLETE	BIT(3)
/* The groups have room for words and pages. */
#define DMR_FLAG_TABLE		BIT(4)
/* Blocks are being copied home, and will be when the device is set up again. */
#define DMR_FLAG_HYDRATE	BIT(5)
/*
 * No entry is POOL, nor was one since the table was last linear: a table line needs no pool
 * device. Cleared before a message may give a block a place in a pool.
 */
#define DMR_FLAG_NO_POOL	BIT(6)
#define DMR_FLAGS_ALL		(BIT(7) - 1)

/*
 * Entries may be PACK. Set before the first is, and cleared when the table is linear again: then
 * a target that decodes nothing can be used.
 */
#define DMR_INCOMPAT_PACK	BIT(0)
#ifndef DMR_NO_PACKS
#define DMR_INCOMPAT_ALL	DMR_INCOMPAT_PACK
#else
#define DMR_INCOMPAT_ALL	0U
#endif

/*
 * Bitmap block: bit s % 64 of bits[s / 64] is segment s of the group. Bits past
 * the end of the volume mean nothing. CRC-32C over bytes 4..4095, seeded with
 * the metadata UUID and the block number.
 */
#define DMR_BITS_LONGS		(DMR_GROUP_SEGS / 64)

struct dmr_bits_disk {
	__le32 csum;
	__le32 reserved0;
	__le64 epoch;
	__u8 reserved[48];
	__le64 bits[DMR_BITS_LONGS];
};

/*
 * Table entry, in words (one for each segment) and in pages (one for each
 * block):
 *
 *    63        48 47                                2 1    0
 *   +------------+-----------------------------------+------+
 *   |   check    |          0                         | BASE |
 *   |            |          0                         | ZERO |
 *   |            |      pool block                    | POOL |
 *   |            | pool block of the head |   slot    |  0   |  in a page: PACK
 *   |            | 0 |    0    | nr ZERO  | nr BASE   |  0   |  a word: PAGE
 *   |            | 1 | pool block of head |     0     |  0   |  a word: PACK
 *   +------------+-----------------------------------+------+
 *                 47                  11 10          2
 *
 * A word of kind POOL maps the whole segment to 512 pool blocks in a row, one of kind
 * PACK to the slots 0 to 511 of the pack whose head is there (pack_format.h), and one of
 * kind PAGE says "look in the segment's page". Instead of a place, a PAGE word has how
 * many of its 512 entries are BASE and ZERO, in 10 bits each. These two are hints: after
 * a crash they may be those of an earlier page. Entries of blocks past the end of the
 * volume are BASE.
 *
 * The check is over kind, block, the entry's index (segment or volume block),
 * whether it is a word, and the metadata UUID. It is never zero, so an entry of
 * all zeros is never valid. Entries are independent: a torn page or word block
 * is a mix of old and new entries, each of them right.
 */
enum dmr_kind {
	DMR_PAGE = 0,		/* in memory also: damaged */
	DMR_BASE = 1,
	DMR_ZERO = 2,
	DMR_POOL = 3,
	DMR_PACK = 4,		/* 0 on disk */
	DMR_NR_KINDS
};

#define DMR_ENTRY_BLOCK_BITS	46
#define DMR_ENTRY_BLOCK_MAX	(BIT_ULL(DMR_ENTRY_BLOCK_BITS) - 1)

/* A place in a pack is one number: the pool block of its head, and behind it the slot. */
#define DMR_SLOT_BITS		9
#define DMR_HEAD_MAX		(BIT_ULL(DMR_ENTRY_BLOCK_BITS - DMR_SLOT_BITS) - 1)

/* In-core superblock: the fields above, native. */
struct dmr_super {
	u8 meta_uuid[DMR_UUID_SIZE];
	u8 volume_uuid[DMR_UUID_SIZE];
	u8 pool_uuid[DMR_UUID_SIZE];
	u32 compat;
	u32 compat_ro;
	u32 incompat;
	u32 flags;
	u64 seq;
	u64 volume_sectors;
	u64 meta_blocks;
	u64 epoch;
	u64 committed;
	u64 version_nr;
	u64 lost_epoch;
	u32 hydrate_mib;
};

/*
 * Calculate where things are, in 64 bits; @flags are those of the superblock.
 */
u64 dmr_nr_segs(u64 volume_sectors);
/* Blocks of the volume, and those of them in segment @seg; the last may be partial. */
u64 dmr_nr_blocks(u64 volume_sectors);
unsigned int dmr_blocks_in_seg(u64 volume_sectors, u64 seg);
u64 dmr_nr_groups(u64 nr_segs);
u64 dmr_meta_blocks_needed(u64 nr_segs, u32 flags);
u64 dmr_bits_block(u64 group, u64 epoch, u32 flags);
u64 dmr_word_block(u64 seg);
u64 dmr_page_block(u64 seg);

/* Pack @super for the copy in block @block_nr. */
void dmr_super_pack(const struct dmr_super *super, u64 block_nr,
		    struct dmr_super_disk *disk);

/*
 * Check and unpack a superblock. 0 and *@super filled, or -errno and *@why, a sentence
 * for the user:
 * -ENODATA: not metadata of revdedup: all zeros (dmr_is_zero()) or foreign
 * -EBADMSG: metadata of revdedup, and damaged
 * -EOPNOTSUPP: metadata of a version, or with a feature, that is not supported
 */
int dmr_super_unpack(const struct dmr_super_disk *disk, u64 block_nr,
		     struct dmr_super *super, const char **why);

/*
 * Choose between two copies that were read and unpacked with results @ra and
 * @rb (0, or -errno as above or from the read). On success *@super is the
 * state; if one copy is missing it has DMR_FLAG_LOST, and a sequence number
 * DMR_SEQ_LEAP greater than that on disk. Returns 0 or the error that stands
 * for both.
 */
int dmr_super_choose(const struct dmr_super *a, int ra,
		     const struct dmr_super *b, int rb,
		     struct dmr_super *super);

/* What is found where one copy of the superblock belongs. */
struct dmr_super_copy {
	u64 block;		/* where it belongs */
	/*
	 * 0 or the result of dmr_super_unpack(). Beyond that, -EIO: the block is
	 * unreadable; -EMEDIUMTYPE: not ours, and not all zeros; -ENOSPC: the
	 * block is beyond the end of the device.
	 */
	int r;
	const char *why;	/* a sentence, where r is not 0 */
	struct dmr_super super;	/* where r is 0 */
};

/*
 * Fill @copy, of which the block is set, from @data, the DMR_BLOCK_SIZE bytes of that
 * block, or with the reason why there are none.
 */
void dmr_super_copy_unpack(struct dmr_super_copy *copy, const void *data);
void dmr_super_copy_unreadable(struct dmr_super_copy *copy);
void dmr_super_copy_cut_off(struct dmr_super_copy *copy);

/* Find the block of copy B on a device of @nr_blocks (> 0) whose copy A is @a. */
u64 dmr_super_b_block(const struct dmr_super_copy *a, u64 nr_blocks);

/* The state of a metadata device, and where it comes from. */
struct dmr_super_state {
	struct dmr_super super;
	char chosen;		/* 'A' or 'B' */
	char missing;		/* the copy that is no help: 'A', 'B', or 0 for none */
	const char *why;	/* it is missing, or no state is known: a sentence */
};

/*
 * Decide what the state of a device is whose two copies are @a and @b. This is
 * the one place where that is decided: the kernel and the offline tool call it.
 * Returns 0 with *@state filled, or -errno with @state->why:
 *
 *   -ENODATA     the device is empty: a target formats it
 *   -EMEDIUMTYPE the device holds something else
 *   -EEXIST      the first block is zero, the last one is not: neither ours nor empty
 *   -EOPNOTSUPP  a later version, or one with an unknown feature, wrote it
 *   -ENOSPC      the device is smaller than when it was formatted
 *   -EBADMSG     copy A is damaged, and copy B does not help
 *   -EIO         copy A is unreadable, and copy B does not help
 */
int dmr_super_decide(const struct dmr_super_copy *a,
		     const struct dmr_super_copy *b,
		     struct dmr_super_state *state);

bool dmr_is_zero(const void *p, size_t len);

/* Return the seed of all checks but the superblock's own. */
u32 dmr_seed(const u8 *meta_uuid);

/* Pack @bits, which are DMR_BITS_LONGS words of 64 bits. */
void dmr_bits_pack(u32 seed, u64 block_nr, u64 epoch, const u64 *bits,
		   struct dmr_bits_disk *disk);

/*
 * Unpack what bitmap block @disk says of @epoch. A damaged block fills @bits with
 * ones and returns false.
 */
bool dmr_bits_unpack(u32 seed, u64 block_nr, u64 epoch,
		     const struct dmr_bits_disk *disk, u64 *bits);

struct dmr_entry {
	enum dmr_kind kind;
	u64 block;		/* of kind POOL, and the hints of kind PAGE */
};

static inline u64 dmr_page_hints(unsigned int nr_base, unsigned int nr_zero)
{
	return nr_base | (u64)nr_zero << 10;
}

static inline unsigned int dmr_hint_base(u64 hints)
{
	return hints & 1023;
}

static inline unsigned int dmr_hint_zero(u64 hints)
{
	return hints >> 10 & 1023;
}

static inline struct dmr_entry dmr_pack_entry(u64 head, unsigned int slot)
{
	struct dmr_entry entry = { .kind = DMR_PACK, .block = head << DMR_SLOT_BITS | slot };

	return entry;
}

static inline unsigned int dmr_entry_slot(struct dmr_entry entry)
{
	return entry.block & (DMR_SEG_BLOCKS - 1);
}

static inline bool dmr_entry_in_pool(struct dmr_entry entry)
{
	return entry.kind == DMR_POOL || entry.kind == DMR_PACK;
}

/* Return the block of the pool that @entry, which is in the pool, names: of a pack its head. */
static inline u64 dmr_entry_pool_block(struct dmr_entry entry)
{
	return entry.kind == DMR_PACK ? entry.block >> DMR_SLOT_BITS : entry.block;
}

/* Return what an entry says, whether or not its check is right. */
static inline struct dmr_entry dmr_entry_body(bool word, u64 value)
{
	struct dmr_entry entry = {
		.kind = value & 3,
		.block = value >> 2 & DMR_ENTRY_BLOCK_MAX,
	};

	if (entry.kind != DMR_PAGE)
		return entry;
	if (word && entry.block > DMR_ENTRY_BLOCK_MAX >> 1)
		return dmr_pack_entry(entry.block >> 8 & DMR_HEAD_MAX, entry.block & 255);
	if (!word && value)
		entry.kind = DMR_PACK;
	return entry;
}

/* The reverse, without a check. */
static inline u64 dmr_entry_value(bool word, struct dmr_entry entry)
{
	if (entry.kind != DMR_PACK)
		return (u64)entry.kind | entry.block << 2;
	if (!word)
		return entry.block << 2;
	return BIT_ULL(47) | entry.block >> DMR_SLOT_BITS << 10;
}

/* Return the place that is @by blocks behind @entry. */
static inline struct dmr_entry dmr_entry_plus(struct dmr_entry entry, u64 by)
{
	if (dmr_entry_in_pool(entry))
		entry.block += by;
	return entry;
}

static inline bool dmr_entry_equal(struct dmr_entry a, struct dmr_entry b)
{
	return a.kind == b.kind && a.block == b.block;
}

/* Is @next the place @by blocks behind @entry? What is behind the last slot is in no run. */
static inline bool dmr_entry_goes_on(struct dmr_entry entry, u64 by, struct dmr_entry next)
{
	return dmr_entry_equal(next, dmr_entry_plus(entry, by)) &&
	       (entry.kind != DMR_PACK || dmr_entry_slot(entry) + by < DMR_SEG_BLOCKS);
}

u64 dmr_entry_pack(u32 seed, bool word, u64 index, struct dmr_entry entry);

/* Unpack @value; false if it is not a valid entry for this place. */
bool dmr_entry_unpack(u32 seed, bool word, u64 index, u64 value,
		      struct dmr_entry *entry);

/*
 * Unpack the word of segment @seg. Beyond dmr_entry_unpack(), false where the
 * segment would run over the last pool block that an entry can name.
 */
bool dmr_word_unpack(u32 seed, u64 seg, u64 value, struct dmr_entry *entry);

#endif
