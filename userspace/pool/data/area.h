/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data area of a pool: a sparse file or a block device.
 *
 *	0		superblock, copy A
 *	1 MiB		superblock, copy B
 *	2 MiB		group 0: a frame of fingerprints, then 256 frames
 *	2 + 514 MiB	group 1: the same, and so on
 *
 * A frame is 2 MiB, or 512 slots of a block each. The 16-byte fingerprint of
 * what is in slot s of frame f is at byte 8192 * (f % 256) + 16 * s of the
 * group's frame of fingerprints. What is in slots that no recipe names, and
 * their fingerprints, means nothing.
 *
 * The superblock (little endian):
 *
 *	 0  8  magic
 *	 8  4  CRC-32C of the block with this field zero
 *	12  4  format, 2: of this superblock, and of what the journal keeps
 *	16 16  UUID of the pool
 *	32  8  number of frames
 *	40  8  sequence number: of two good copies the higher one holds
 *	48  8  journal: its number
 *	56  8  journal: its first frame
 *	64  8  features: compatible		unknown ones are ignored
 *	72  8  features: compatible for reading	unknown ones forbid writing,
 *						and all by this version
 *	80  8  features: incompatible		unknown ones forbid all
 *	88     zeros
 *
 * A write goes to copy A, then to copy B, each flushed: one is always whole.
 */
#ifndef RD_AREA_H
#define RD_AREA_H

#include <stdbool.h>

#include "fp.h"
#include "map.h"
#include "ring.h"

#define RD_POOL_FORMAT	2

#define RD_GROUP_FRAMES	256

struct rd_pool_super {
	u64 format;
	u8 uuid[16];
	u64 nr_frames;
	u64 seq;
	u64 journal_id;
	u64 journal_frame;
};

struct rd_area {
	int fd;
	bool is_device;
	bool writable;
	u64 bytes;		/* of the file or device */
	struct rd_pool_super super;
};

/* Where frame @frame begins, and where its fingerprints are. */
u64 rd_frame_offset(u64 frame);
u64 rd_frame_fps_offset(u64 frame);

static inline u64 rd_slot_offset(u64 frame, unsigned int slot)
{
	return rd_frame_offset(frame) + (u64)slot * RD_BLOCK_SIZE;
}

/* The other way round; false: there is no slot. */
bool rd_area_slot_at(u64 offset, u64 *ret_frame, unsigned int *ret_slot);

/* @place: OWN. */
static inline u64 rd_place_offset(rd_place place)
{
	return rd_slot_offset(rd_place_id(place), rd_place_slot(place));
}

/* How many frames there is place for in @bytes. */
u64 rd_frames_in(u64 bytes);

/* Pure. Unpacking: 0, -ENODATA (zeros), -EMEDIUMTYPE, -EBADMSG, -EOPNOTSUPP. */
void rd_pool_super_pack(const struct rd_pool_super *super, void *block);
int rd_pool_super_unpack(struct rd_pool_super *super, const void *block);

/*
 * Make an area of the file or block device @path, which must be new or empty (a file:
 * all of it a hole; a device: its first block zeros) unless @force. @bytes: size of a
 * new file.
 */
int rd_area_format(const char *path, u64 bytes, bool force, const u8 uuid[16],
		   u64 journal_id);

/*
 * Is there a superblock in @fd, or what was one? @both: or the second one alone, which
 * may as well be of a pool that was there before. -errno: it cannot be read, which is not
 * said.
 */
int rd_area_has_super(int fd, bool both);

int rd_area_open(struct rd_area *area, const char *path, bool writable);
/* One of which both superblocks are lost; -EEXIST, without a word: one is not. */
int rd_area_open_lost(struct rd_area *area, const char *path);
void rd_area_close(struct rd_area *area);

/* Write area->super with the next sequence number to both copies, and flush. */
int rd_area_write_super(struct rd_area *area);

/*
 * How many of the two copies cannot be read; @stale counts one of before a crash
 * too.
 */
unsigned int rd_area_bad_supers(struct rd_area *area, bool stale);

/* What another process has made of it. */
int rd_area_reread_super(struct rd_area *area);

/* Plain calls; the buffer need not be aligned, the rest must be. */
int rd_area_read(const struct rd_area *area, void *buf, size_t len, u64 offset);
int rd_area_write(const struct rd_area *area, const void *buf, size_t len, u64 offset);

/* All writes that have ended, by whomever, are stable when it returns. */
int rd_area_sync(const struct rd_area *area);

/* Give the place back to the file system or device, where that can be done. */
int rd_area_punch(const struct rd_area *area, u64 offset, u64 len);

/* The same of frames, and their fingerprints. */
int rd_area_punch_frames(const struct rd_area *area, u64 frame, u64 nr);

/*
 * Have zeros in a frame that the journal is to go to, stable: after its end, what was
 * there before must not look like a part of it. Holes of a file have them.
 */
int rd_area_clear_frame(const struct rd_area *area, u64 frame);

/* The fingerprints of @nr frames from @frame on, all in one group. */
int rd_area_read_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps);

/* The same, with zeros for those of a frame that cannot be read. */
void rd_area_get_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps);

#endif
