/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies: some frames of the pool a second time, in a file or on a block device elsewhere, to
 * which POOL/copies leads.
 *
 *	0		superblock
 *	4 KiB		table: 8 bytes for each frame that follows
 *	2 MiB		group 0: a frame of fingerprints, then 256 frames
 *	2 + 514 MiB	group 1: the same, and so on, as in the data area (area.h)
 *
 * Slot s of a frame has what slot s of that frame of the pool had when it was copied, which may
 * be a packed one; here it is raw. A fingerprint of zeros: there is no copy of the slot.
 *
 * The superblock (little endian):
 *
 *	 0  8  magic
 *	 8  4  CRC-32C of the block with this field zero
 *	12  4  format, 1
 *	16 16  UUID of these copies
 *	32 16  UUID of the pool
 *	48     zeros
 *
 * An entry of the table (little endian): bits 0 to 39 the frame of the pool plus 1, bits 40 to
 * 63 how many blocks there are; 0: the frame is free.
 *
 * All of it is a hint. A copy counts only if its content has the fingerprint that is wanted,
 * which comes from the pool, whatever table and fingerprints here say. Content is stable before
 * its fingerprints are written, and these before their entry. An entry is removed, and that is
 * stable, before something else takes the place. So where entry, fingerprint and content do not
 * agree, a copy is damaged.
 */
#ifndef RD_COPIES_H
#define RD_COPIES_H

#include "fp.h"
#include "map.h"

/* That the table has room for. */
#define RD_COPIES_MAX	((RD_SEG_SIZE - RD_BLOCK_SIZE) / sizeof(__le64))
/* Frames that are written before one flush. */
#define RD_COPIES_BATCH	16

struct rd_copies {
	int fd;
	bool is_device;
	u8 uuid[16], pool[16];
	u32 nr_frames;		/* that there is room for */
	__le64 *table;		/* RD_COPIES_MAX */
	struct rd_hasher *hasher;
	u8 *block;		/* for transfers */
	struct rd_fp *fps;
	/* Called when a search has looked at frame @i, or NULL. Not 0: end. */
	int (*step)(void *ctx, u32 i);
	void *ctx;
};

/*
 * Open the copies of the pool in the directory @pool, whose UUID is @uuid. -ENOENT, without a
 * message: there are none, and no link. Anything else that is wrong is a warning, as the pool
 * does without. @writable: after RD_LOCK_PASS; a device that something else holds is busy.
 */
int rd_copies_open(struct rd_copies *ret, const char *pool, const u8 uuid[16], bool writable);
void rd_copies_close(struct rd_copies *copies);
/* Read the table again, for what came since they were opened. After an error, a warning. */
int rd_copies_read_table(struct rd_copies *copies);
/* Is there a link to copies, whatever they are? */
bool rd_copies_exist(const char *pool);

/*
 * Make the new or empty file or block device @path the copies of that pool, or take what are
 * such by now. -EEXIST, after a message: there is something else.
 */
int rd_copies_format(const char *path, const u8 pool[16]);

/* What is in the frame @i: a frame of the pool, U64_MAX if it is free; and how many blocks. */
u64 rd_copies_frame(const struct rd_copies *copies, u32 i, unsigned int *ret_blocks);
/* Count the frames and blocks. */
void rd_copies_count(const struct rd_copies *copies, u64 *ret_frames, u64 *ret_blocks);

/*
 * Is the entry of frame @i no longer what it was when the copies were opened? One that cannot be
 * read counts as the same.
 */
bool rd_copies_has_changed(struct rd_copies *copies, u32 i);

/* Read the fingerprints of frame @i, or zeros. They are there until the next call. */
const struct rd_fp *rd_copies_fps(struct rd_copies *copies, u32 i);
/* Read them to @copies->fps. -errno: there are zeros, because they cannot be read. */
int rd_copies_read_fps(struct rd_copies *copies, u32 i);

/* Read a slot. -EBADMSG: it is not what @fp says. With any error @to may have anything. */
int rd_copies_read(struct rd_copies *copies, u32 i, unsigned int slot, const struct rd_fp *fp,
		   void *to);

/*
 * Find blocks by their content: those of the RD_SEG_BLOCKS fingerprints @fps whose @want is true,
 * which should be where @map says. What is found goes to its place in @segment, and its @want
 * becomes false. Returns how many, or what ended it.
 */
int rd_copies_find(struct rd_copies *copies, const struct rd_map *map, const struct rd_fp *fps,
		   bool *want, u8 *segment);

/* --- writing; only what holds RD_LOCK_PASS does so */

/* Write the content of @nr slots of a frame, from @slot on; aligned memory. */
int rd_copies_write(struct rd_copies *copies, u32 i, unsigned int slot, unsigned int nr,
		    const void *data);
int rd_copies_write_fps(struct rd_copies *copies, u32 i, const struct rd_fp *fps);
/* Write the entry of frame @i: it has @nr blocks of @frame of the pool. */
int rd_copies_enter(struct rd_copies *copies, u32 i, u64 frame, unsigned int nr);
/* Remove it; the frame is free when that is flushed, and then its space may be given back. */
int rd_copies_drop(struct rd_copies *copies, u32 i);
void rd_copies_punch(struct rd_copies *copies, u32 i);
int rd_copies_sync(struct rd_copies *copies);
/* What is there are no copies any more. */
int rd_copies_erase(struct rd_copies *copies);

#endif
