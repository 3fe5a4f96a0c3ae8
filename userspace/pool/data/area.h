/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data area of a pool, in a sparse file, on a block device or in RADOS: in a store (store.h).
 *
 *	0		superblock, copy A
 *	1 MiB		superblock, copy B
 *	2 MiB		group 0: a frame of fingerprints, then 256 frames
 *	2 + 514 MiB	group 1: the same, and so on
 *
 * A frame is 2 MiB: 512 slots of one block each. The 16-byte fingerprint of the
 * block in slot s of frame f is at byte 8192 * (f % 256) + 16 * s of the group's
 * frame of fingerprints. Slots that no recipe names, and their fingerprints, may
 * hold anything.
 *
 * A packed frame has a number of 2^36 or above. Its blocks are in a pack (pack.h), which lies
 * in slots of ordinary frames, where the table pack of the catalog says. Its fingerprints are
 * in an ordinary frame, too: those of packed frame 2^36 + 256 * f + i, 8192 bytes, at byte
 * 8192 * i of frame f.
 *
 * The superblock (little endian):
 *
 *	 0  8  magic
 *	 8  4  CRC-32C of the block with this field zero
 *	12  4  format, 2: of this superblock, and of what the journal keeps
 *	16 16  UUID of the pool
 *	32  8  number of frames
 *	40  8  sequence number: of two good copies the one with the higher number holds
 *	48  8  number of the journal
 *	56  8  first frame of the journal
 *	64  8  features: compatible		unknown ones are kept, and ignored
 *	72  8  features: compatible for reading	unknown ones forbid writing
 *	80  8  features: incompatible		unknown ones forbid all
 *	88  1  how new content is stored: 0 raw, 1 zstd
 *	89  1  the level of zstd, signed
 *	90  1  how new content is deduplicated: 0 reverse, 1 inline
 *	91  1  zero
 *	92  2  pieces that a segment of a newest version may have; 0 is 1
 *	94     zeros
 *
 * A feature is a bit. They are looked at before what follows from the format: of a pool that
 * has an unknown one, nothing else need be as it is here. Bit 0 of the incompatible ones: there
 * are packs. It is set and stable before the catalog has the first one, and stays. Bit 1: the
 * pool, or a volume, has or had another rule than reverse deduplication in one piece. Bit 2: a
 * version arrives, or has arrived, from another pool, and was PARTIAL until all of it was there.
 *
 * A write goes to copy A, then to copy B, each flushed: one copy is always whole.
 */
#ifndef RD_AREA_H
#define RD_AREA_H

#include <stdbool.h>

#include "fp.h"
#include "map.h"
#include "pack.h"
#include "store.h"

#define RD_POOL_FORMAT	2

#define RD_INCOMPAT_PACKS	1ULL
#define RD_INCOMPAT_PIECES	2ULL
#define RD_INCOMPAT_PARTIAL	4ULL
#define RD_INCOMPAT_KNOWN	(RD_INCOMPAT_PACKS | RD_INCOMPAT_PIECES | RD_INCOMPAT_PARTIAL)

#define RD_GROUP_FRAMES	256
/* 512 TiB; packed frames have the numbers from 2^36 on. */
#define RD_MAX_FRAMES	(1ULL << 28)
#define RD_PACKED_FRAMES	(1ULL << 36)

/* How much of what is new is stored as a reference to what the pool has. */
enum rd_dedup {
	RD_DEDUP_REVERSE,	/* what the version before has at the same offset */
	RD_DEDUP_INLINE,	/* the same, and what the pool has anywhere */
};

struct rd_rule {
	u16 pieces;		/* of a segment of a newest version, at most; not 0 */
	enum rd_dedup dedup;
};

/* A choice of what is to be other than before. */
struct rd_rule_change {
	u16 pieces;		/* 0: as before */
	bool has_dedup;
	enum rd_dedup dedup;
};

static inline void rd_rule_apply(struct rd_rule *rule, const struct rd_rule_change *change)
{
	if (change->pieces)
		rule->pieces = change->pieces;
	if (change->has_dedup)
		rule->dedup = change->dedup;
}

#define RD_RULE_FIRST	((struct rd_rule){ .pieces = 1, .dedup = RD_DEDUP_REVERSE })

/* Is it another one than that of a pool in which nothing was chosen? */
static inline bool rd_rule_is_chosen(struct rd_rule rule)
{
	return rule.pieces != 1 || rule.dedup != RD_DEDUP_REVERSE;
}

struct rd_pool_super {
	u64 format;
	u8 uuid[16];
	u64 nr_frames;
	u64 seq;
	u64 journal_id;
	u64 journal_frame;
	u64 compat, compat_ro, incompat;	/* features */
	struct rd_compression compression;	/* of what is new */
	struct rd_rule rule;			/* the same, in volumes without a rule */
};

struct rd_area {
	struct rd_store *store;	/* NULL: not open */
	bool writable;
	struct rd_pool_super super;
};

static inline bool rd_frame_is_packed(u64 frame)
{
	return frame >= RD_PACKED_FRAMES;
}

/* The packed frame whose fingerprints are in page @page of @frame; and back: in which frame? */
static inline u64 rd_packed_frame(u64 frame, unsigned int page)
{
	return RD_PACKED_FRAMES + frame * RD_GROUP_FRAMES + page;
}

static inline u64 rd_packed_fps(u64 packed)
{
	return (packed - RD_PACKED_FRAMES) / RD_GROUP_FRAMES;
}

/* Find the offset of an ordinary frame, and that of the fingerprints of any. */
u64 rd_frame_offset(u64 frame);
u64 rd_frame_fps_offset(u64 frame);

static inline u64 rd_slot_offset(u64 frame, unsigned int slot)
{
	return rd_frame_offset(frame) + (u64)slot * RD_BLOCK_SIZE;
}

/* Find the slot at @offset; false: fingerprints or a superblock are there. */
bool rd_area_slot_at(u64 offset, u64 *ret_frame, unsigned int *ret_slot);

/* Find the offset of @place, which is OWN and in an ordinary frame. */
static inline u64 rd_place_offset(rd_place place)
{
	return rd_slot_offset(rd_place_id(place), rd_place_slot(place));
}

/* Find the offset of a pack. */
static inline u64 rd_pack_offset(const struct rd_pack *pack)
{
	return rd_slot_offset(pack->place / RD_SEG_BLOCKS, pack->place % RD_SEG_BLOCKS);
}

/* Is @frame, which may be a packed one, within the area? */
bool rd_area_has_frame(const struct rd_area *area, u64 frame);

/* Count the frames that fit into @bytes. */
u64 rd_frames_in(u64 bytes);

/*
 * Pack and unpack a superblock; pure. Unpacking returns 0, -ENODATA (zeros), -EMEDIUMTYPE
 * (something else), -EBADMSG (damaged) or -EOPNOTSUPP: format or incompatible features,
 * which are all that is filled in then, are not known.
 */
void rd_pool_super_pack(const struct rd_pool_super *super, void *block);
int rd_pool_super_unpack(struct rd_pool_super *super, const void *block);

/*
 * Make the file or block device @path a data area. Without @force it must be new or empty:
 * a file without data, or a device whose first block is zeros. @bytes: the size of a new
 * file.
 */
int rd_area_format(const char *path, u64 bytes, bool force, const u8 uuid[16],
		   u64 journal_id, struct rd_compression compression, struct rd_rule rule);

/*
 * Look for a superblock in @store, or the remains of one. Returns 1, 0, or -errno of a read,
 * without a message. @both: the second copy alone counts, too, though it may be from a
 * pool that was there before.
 */
int rd_area_has_super(struct rd_store *store, bool both);

int rd_area_open(struct rd_area *area, const char *path, bool writable);
/* Open an area both of whose superblocks are lost. -EEXIST, without a message: one is good. */
int rd_area_open_lost(struct rd_area *area, const char *path);
void rd_area_close(struct rd_area *area);

/* Write area->super with the next sequence number to both copies, and flush. */
int rd_area_write_super(struct rd_area *area);

/* Make the store @bytes long, which is more than it has, and flush that. */
int rd_area_extend(struct rd_area *area, u64 bytes);

/* Count the copies that cannot be read; with @stale also one that a crash left behind. */
unsigned int rd_area_bad_supers(struct rd_area *area, bool stale);

/* Read the superblock again, which another process may have written. */
int rd_area_reread_super(struct rd_area *area);

/* Can its store do that? */
static inline bool rd_area_can(const struct rd_area *area, unsigned int cap)
{
	return rd_store_can(area->store, cap);
}

/* Read or write, and wait. The buffer need not be aligned, length and offset must be. */
int rd_area_read(const struct rd_area *area, void *buf, size_t len, u64 offset);
int rd_area_write(const struct rd_area *area, const void *buf, size_t len, u64 offset);
/*
 * Write to the journal or to a superblock: also if the store is full, and only where this host has
 * written before, which a store that is fenced can tell.
 */
int rd_area_log(const struct rd_area *area, const void *buf, size_t len, u64 offset);
/* Print that, unless the store has said why, and return @r. */
int rd_area_cannot_write(const struct rd_area *area, int r, const char *what);
/* Read to a buffer that is aligned. */
int rd_area_read_direct(const struct rd_area *area, void *buf, size_t len, u64 offset);

/* Make all writes stable that have ended, those of other processes too. */
int rd_area_sync(const struct rd_area *area);

/* Give the space back to the store, where that is possible. */
int rd_area_punch(const struct rd_area *area, u64 offset, u64 len);
/* The same for ranges in order, which may be one request each to a store that is far away. */
int rd_area_punch_ranges(const struct rd_area *area, const struct rd_range *ranges,
			 unsigned int nr);

/* The same for whole frames and their fingerprints. */
int rd_area_punch_frames(const struct rd_area *area, u64 frame, u64 nr);

/*
 * Fill a frame that the journal will use with zeros, and flush it: after the end of the
 * journal, old content must not look like a part of it. Some stores have holes there already.
 */
int rd_area_clear_frame(const struct rd_area *area, u64 frame);

/* Read the fingerprints of @nr frames from @frame on, all in one group. */
int rd_area_read_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps);

/* The same, with zeros for what cannot be read, block by block. */
void rd_area_get_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps);

#endif
