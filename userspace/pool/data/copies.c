// SPDX-License-Identifier: GPL-2.0
/* The file or device of the copies: see copies.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "base/uuid.h"
#include "area.h"
#include "copies.h"

#define MAGIC		0x0a53504f43445652ULL	/* "RVDCOPS\n" */
#define FORMAT		1
#define FRAME_BITS	40
#define TABLE_SIZE	(RD_SEG_SIZE - RD_BLOCK_SIZE)
#define IN_BLOCK	(RD_BLOCK_SIZE / sizeof(__le64))

struct super_disk {
	__le64 magic;
	__le32 crc;
	__le32 format;
	u8 uuid[16];
	u8 pool[16];
	u8 zeros[RD_BLOCK_SIZE - 48];
};

_Static_assert(sizeof(struct super_disk) == RD_BLOCK_SIZE, "superblock");

static u32 super_crc(const struct super_disk *disk)
{
	struct super_disk copy = *disk;

	copy.crc = 0;
	return ~crc32c(~0U, &copy, sizeof(copy));
}

/* --- transfers */

static int read_at(struct rd_copies *copies, void *buf, size_t len, u64 offset)
{
	int r = rd_failpoint("copies-read");

	return r ? r : rd_read_direct(copies->fd, buf, len, offset);
}

static int write_at(struct rd_copies *copies, const void *buf, size_t len, u64 offset)
{
	int r = rd_failpoint("copies-write");

	if (!r)
		r = rd_write_direct(copies->fd, buf, len, offset);
	return r ? rd_err(r, "cannot write the copies") : 0;
}

int rd_copies_sync(struct rd_copies *copies)
{
	int r = rd_failpoint("copies-sync");

	if (!r && fdatasync(copies->fd))
		r = -errno;
	return r ? rd_err(r, "cannot flush the copies") : 0;
}

/* --- opening */

static int check_super(struct rd_copies *copies, const char *path)
{
	const struct super_disk *disk = (const struct super_disk *)copies->block;
	int r = read_at(copies, copies->block, RD_BLOCK_SIZE, 0);

	if (r) {
		rd_warn("cannot read the copies '%s': %s", path, strerror(-r));
		return r;
	}
	if (le64_to_cpu(disk->magic) != MAGIC || le32_to_cpu(disk->crc) != super_crc(disk)) {
		rd_warn("'%s' has no copies, or its superblock is damaged", path);
		return -EMEDIUMTYPE;
	}
	if (le32_to_cpu(disk->format) != FORMAT) {
		rd_warn("'%s' has copies in a format that this program does not know", path);
		return -EOPNOTSUPP;
	}
	if (memcmp(disk->pool, copies->pool, sizeof(disk->pool))) {
		rd_warn("'%s' has the copies of another pool", path);
		return -ESTALE;
	}
	memcpy(copies->uuid, disk->uuid, sizeof(copies->uuid));
	return 0;
}

/* An entry that cannot be is none. */
int rd_copies_read_table(struct rd_copies *copies)
{
	unsigned int blocks;
	u32 i;
	int r = read_at(copies, copies->table, TABLE_SIZE, RD_BLOCK_SIZE);

	if (r) {
		rd_warn("cannot read the table of the copies: %s", strerror(-r));
		return r;
	}
	for (i = 0; i < RD_COPIES_MAX; i++)
		if (rd_copies_frame(copies, i, &blocks) != U64_MAX &&
		    (i >= copies->nr_frames || blocks > RD_SEG_BLOCKS))
			copies->table[i] = 0;
	return 0;
}

/*
 * -EBUSY: something else writes them. RD_LOCK_PASS keeps other commands on this pool away, but a
 * copy of the pool's directory has the same link. Where there are no such locks it does without.
 */
static int lock(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (!fcntl(fd, F_OFD_SETLK, &all))
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : 0;
}

static int set_up(struct rd_copies *copies, const char *path, bool writable)
{
	u64 bytes;
	int r;

	/* By now a device may be part of another one, which does not write its superblock over. */
	r = rd_check_plain(path, writable, true);
	copies->fd = r ? r : rd_open_direct(path, writable ? O_RDWR | O_EXCL : O_RDONLY, 0);
	r = copies->fd < 0 ? copies->fd : rd_size_of(copies->fd, &bytes, &copies->is_device);
	if (!r && writable)
		r = lock(copies->fd);
	if (r) {
		rd_warn("cannot open the copies '%s': %s", path, strerror(-r));
		return r;
	}
	copies->nr_frames = copies->is_device ? rd_min(rd_frames_in(bytes), RD_COPIES_MAX) :
		RD_COPIES_MAX;
	copies->table = rd_alloc_direct(TABLE_SIZE);
	copies->block = rd_alloc_direct(RD_BLOCK_SIZE);
	copies->fps = rd_alloc_direct(RD_FPS_SIZE);
	copies->hasher = rd_hasher_new();
	if (!copies->table || !copies->block || !copies->fps || !copies->hasher)
		return -ENOMEM;
	r = check_super(copies, path);
	return r ? r : rd_copies_read_table(copies);
}

bool rd_copies_exist(const char *pool)
{
	RD_FREE char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/copies", pool) < 0) {
		path = NULL;
		return true;
	}
	return !lstat(path, &st) || errno != ENOENT;
}

int rd_copies_open(struct rd_copies *copies, const char *pool, const u8 uuid[16], bool writable)
{
	RD_FREE char *path = NULL;
	int r;

	memset(copies, 0, sizeof(*copies));
	memcpy(copies->pool, uuid, sizeof(copies->pool));
	if (asprintf(&path, "%s/copies", pool) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = rd_copies_exist(pool) ? set_up(copies, path, writable) : -ENOENT;
	if (r)
		rd_copies_close(copies);
	return r;
}

void rd_copies_close(struct rd_copies *copies)
{
	if (copies->fd > 0)
		close(copies->fd);
	free(copies->table);
	free(copies->block);
	free(copies->fps);
	rd_hasher_free(copies->hasher);
	memset(copies, 0, sizeof(*copies));
	copies->fd = -1;
}

/* --- making and removing */

static int write_super(struct rd_copies *copies)
{
	struct super_disk *disk = (struct super_disk *)copies->block;

	memset(disk, 0, sizeof(*disk));
	disk->magic = cpu_to_le64(MAGIC);
	disk->format = cpu_to_le32(FORMAT);
	memcpy(disk->uuid, copies->uuid, sizeof(disk->uuid));
	memcpy(disk->pool, copies->pool, sizeof(disk->pool));
	disk->crc = cpu_to_le32(super_crc(disk));
	return write_at(copies, disk, sizeof(*disk), 0);
}

static bool is_of_pool(const struct rd_copies *copies)
{
	const struct super_disk *disk = (const struct super_disk *)copies->block;

	return le64_to_cpu(disk->magic) == MAGIC && le32_to_cpu(disk->crc) == super_crc(disk) &&
		le32_to_cpu(disk->format) == FORMAT &&
		!memcmp(disk->pool, copies->pool, sizeof(disk->pool));
}

/* The table is there before the superblock: a device may have anything in its place. */
static int write_format(struct rd_copies *copies, const char *path)
{
	u64 bytes;
	int r;

	r = rd_size_of(copies->fd, &bytes, &copies->is_device);
	if (!r)
		r = rd_read_direct(copies->fd, copies->block, RD_BLOCK_SIZE, 0);
	if (r)
		return rd_err(r, "cannot use '%s' for copies", path);
	/* A crash came before the link. */
	if (is_of_pool(copies))
		return 0;
	if (!rd_is_zero(copies->block, RD_BLOCK_SIZE) || (!copies->is_device && bytes)) {
		rd_err(0, "'%s' is not empty: it has something else than copies of this pool",
		       path);
		rd_hint("nothing was changed; name another file or device, or empty this one");
		return -EEXIST;
	}
	if (copies->is_device && !rd_frames_in(bytes))
		return rd_err(-ENOSPC, "'%s' is too small for copies", path);
	memset(copies->table, 0, TABLE_SIZE);
	r = rd_uuid_make(copies->uuid);
	/* A new file has holes there. */
	if (!r && copies->is_device)
		r = write_at(copies, copies->table, TABLE_SIZE, RD_BLOCK_SIZE);
	if (!r)
		r = rd_copies_sync(copies);
	if (!r)
		r = write_super(copies);
	return r ? r : rd_copies_sync(copies);
}

/* A device is free; where nothing is, a link that leads nowhere is no new file. */
static int open_new(const char *path)
{
	struct stat st;
	bool is_new = lstat(path, &st) && errno == ENOENT;

	return rd_open_direct(path, O_RDWR | O_EXCL | (is_new ? O_CREAT | O_NOFOLLOW : 0), 0600);
}

int rd_copies_format(const char *path, const u8 pool[16])
{
	struct rd_copies copies = { .fd = open_new(path) };
	int r;

	if (copies.fd < 0)
		return rd_err(copies.fd, "cannot open '%s'", path);
	memcpy(copies.pool, pool, sizeof(copies.pool));
	copies.table = rd_alloc_direct(TABLE_SIZE);
	copies.block = rd_alloc_direct(RD_BLOCK_SIZE);
	r = copies.table && copies.block ? write_format(&copies, path) : -ENOMEM;
	rd_copies_close(&copies);
	return r;
}

int rd_copies_erase(struct rd_copies *copies)
{
	int r;

	if (!copies->is_device)
		return ftruncate(copies->fd, 0) ? rd_err(-errno, "cannot remove the copies") : 0;
	memset(copies->block, 0, RD_BLOCK_SIZE);
	r = write_at(copies, copies->block, RD_BLOCK_SIZE, 0);
	return r ? r : rd_copies_sync(copies);
}

/* --- reading */

u64 rd_copies_frame(const struct rd_copies *copies, u32 i, unsigned int *ret_blocks)
{
	u64 entry = le64_to_cpu(copies->table[i]);
	u64 frame = entry & ((1ULL << FRAME_BITS) - 1);

	*ret_blocks = entry >> FRAME_BITS;
	return frame - 1;
}

void rd_copies_count(const struct rd_copies *copies, u64 *ret_frames, u64 *ret_blocks)
{
	unsigned int blocks;
	u32 i;

	*ret_frames = 0;
	*ret_blocks = 0;
	for (i = 0; i < copies->nr_frames; i++) {
		if (rd_copies_frame(copies, i, &blocks) == U64_MAX)
			continue;
		++*ret_frames;
		*ret_blocks += blocks;
	}
}

bool rd_copies_has_changed(struct rd_copies *copies, u32 i)
{
	u32 first = i - i % IN_BLOCK;

	return !read_at(copies, copies->block, RD_BLOCK_SIZE,
			RD_BLOCK_SIZE + first * sizeof(*copies->table)) &&
		memcmp(copies->block + (i - first) * sizeof(*copies->table), &copies->table[i],
		       sizeof(*copies->table));
}

int rd_copies_read_fps(struct rd_copies *copies, u32 i)
{
	int r = read_at(copies, copies->fps, RD_FPS_SIZE, rd_frame_fps_offset(i));

	if (r)
		memset(copies->fps, 0, RD_FPS_SIZE);
	return r;
}

const struct rd_fp *rd_copies_fps(struct rd_copies *copies, u32 i)
{
	(void)rd_copies_read_fps(copies, i);
	return copies->fps;
}

int rd_copies_read(struct rd_copies *copies, u32 i, unsigned int slot, const struct rd_fp *fp,
		   void *to)
{
	struct rd_fp found;
	int r = read_at(copies, copies->block, RD_BLOCK_SIZE, rd_slot_offset(i, slot));

	if (r)
		return r;
	memcpy(to, copies->block, RD_BLOCK_SIZE);
	rd_fp_blocks(copies->hasher, to, 1, &found);
	return rd_fp_agrees(fp, &found) ? 0 : -EBADMSG;
}

/* Which are wanted, by 12 of their bits: nearly all that are not are told at once. */
struct filter {
	u64 bits[64];
};

static void filter_add(struct filter *filter, unsigned int key)
{
	filter->bits[key % 4096 / 64] |= 1ULL << key % 64;
}

static bool filter_has(const struct filter *filter, unsigned int key)
{
	return filter->bits[key % 4096 / 64] >> key % 64 & 1;
}

static unsigned int key_of(const struct rd_fp *fp)
{
	return fp->b[0] << 8 | fp->b[1];
}

/* A slot has @fp: give it to all that want it. */
static unsigned int give(struct rd_copies *copies, u32 i, unsigned int slot,
			 const struct rd_fp *fp, const struct rd_fp *fps, bool *want, u8 *segment)
{
	unsigned int block, nr = 0;

	for (block = 0; block < RD_SEG_BLOCKS; block++) {
		if (!want[block] || !rd_fp_equal(&fps[block], fp) ||
		    rd_copies_read(copies, i, slot, &fps[block],
				   segment + (size_t)block * RD_BLOCK_SIZE))
			continue;
		want[block] = false;
		nr++;
	}
	return nr;
}

static unsigned int find_in(struct rd_copies *copies, u32 i, const struct filter *wanted,
			    const struct rd_fp *fps, bool *want, u8 *segment)
{
	const struct rd_fp *here = rd_copies_fps(copies, i);
	unsigned int slot, nr = 0;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (filter_has(wanted, key_of(&here[slot])))
			nr += give(copies, i, slot, &here[slot], fps, want, segment);
	return nr;
}

int rd_copies_find(struct rd_copies *copies, const struct rd_map *map, const struct rd_fp *fps,
		   bool *want, u8 *segment)
{
	struct filter wanted = { 0 }, frames = { 0 };
	unsigned int nr = 0, blocks, pass;
	u64 frame;
	u32 i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (want[i]) {
			filter_add(&wanted, key_of(&fps[i]));
			filter_add(&frames, rd_place_id(map->at[i]));
		}
	/* The copies of their own frames first: mostly they are enough, and all are many reads. */
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < copies->nr_frames && memchr(want, true, RD_SEG_BLOCKS); i++) {
			frame = rd_copies_frame(copies, i, &blocks);
			if (frame == U64_MAX || filter_has(&frames, frame) == pass)
				continue;
			nr += find_in(copies, i, &wanted, fps, want, segment);
			r = copies->step ? copies->step(copies->ctx, i) : 0;
			if (r)
				return r;
		}
	return nr;
}

/* --- writing */

int rd_copies_write(struct rd_copies *copies, u32 i, unsigned int slot, unsigned int nr,
		    const void *data)
{
	return write_at(copies, data, (size_t)nr * RD_BLOCK_SIZE, rd_slot_offset(i, slot));
}

int rd_copies_write_fps(struct rd_copies *copies, u32 i, const struct rd_fp *fps)
{
	memmove(copies->fps, fps, RD_FPS_SIZE);
	return write_at(copies, copies->fps, RD_FPS_SIZE, rd_frame_fps_offset(i));
}

static int write_entry(struct rd_copies *copies, u32 i, u64 entry)
{
	copies->table[i] = cpu_to_le64(entry);
	i -= i % IN_BLOCK;
	return write_at(copies, &copies->table[i], RD_BLOCK_SIZE,
			RD_BLOCK_SIZE + i * sizeof(*copies->table));
}

int rd_copies_enter(struct rd_copies *copies, u32 i, u64 frame, unsigned int nr)
{
	return write_entry(copies, i, (u64)nr << FRAME_BITS | (frame + 1));
}

int rd_copies_drop(struct rd_copies *copies, u32 i)
{
	return write_entry(copies, i, 0);
}

/* Nothing relies on it. */
void rd_copies_punch(struct rd_copies *copies, u32 i)
{
	if (!copies->is_device)
		(void)!fallocate(copies->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 rd_frame_offset(i), RD_SEG_SIZE);
}
