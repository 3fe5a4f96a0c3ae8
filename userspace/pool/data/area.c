// SPDX-License-Identifier: GPL-2.0
/* The data area: its layout, its superblock, plain reads and writes; see area.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "area.h"
#include "rados.h"

#define SUPER_MAGIC	0x0a4c4f4f50445652ULL	/* "RVDPOOL\n" */
#define COPY_A		0
#define COPY_B		(1ULL << 20)
#define FIRST_GROUP	((u64)RD_SEG_SIZE)
#define GROUP_SIZE	((RD_GROUP_FRAMES + 1ULL) * RD_SEG_SIZE)

struct super_disk {
	__le64 magic;
	__le32 crc;
	__le32 format;
	u8 uuid[16];
	__le64 nr_frames;
	__le64 seq;
	__le64 journal_id;
	__le64 journal_frame;
	__le64 compat;
	__le64 compat_ro;
	__le64 incompat;
	u8 codec;
	int8_t level;
	u8 dedup;
	u8 zero;
	__le16 pieces;
	u8 zeros[RD_BLOCK_SIZE - 94];
};

_Static_assert(sizeof(struct super_disk) == RD_BLOCK_SIZE, "superblock");

u64 rd_frame_offset(u64 frame)
{
	return FIRST_GROUP + frame / RD_GROUP_FRAMES * GROUP_SIZE +
		(frame % RD_GROUP_FRAMES + 1) * RD_SEG_SIZE;
}

u64 rd_frame_fps_offset(u64 frame)
{
	if (rd_frame_is_packed(frame))
		return rd_frame_offset(rd_packed_fps(frame)) +
			frame % RD_GROUP_FRAMES * RD_FPS_SIZE;
	return FIRST_GROUP + frame / RD_GROUP_FRAMES * GROUP_SIZE +
		frame % RD_GROUP_FRAMES * RD_FPS_SIZE;
}

bool rd_area_slot_at(u64 offset, u64 *ret_frame, unsigned int *ret_slot)
{
	u64 group, nr;

	if (offset < FIRST_GROUP)
		return false;
	group = (offset - FIRST_GROUP) / GROUP_SIZE;
	nr = (offset - FIRST_GROUP) % GROUP_SIZE / RD_SEG_SIZE;
	*ret_frame = group * RD_GROUP_FRAMES + nr - 1;
	*ret_slot = offset % RD_SEG_SIZE / RD_BLOCK_SIZE;
	/* The first frame of a group has the fingerprints. */
	return nr;
}

bool rd_area_has_frame(const struct rd_area *area, u64 frame)
{
	if (rd_frame_is_packed(frame))
		frame = rd_packed_fps(frame);
	return frame < area->super.nr_frames;
}

u64 rd_frames_in(u64 bytes)
{
	u64 groups, rest;

	if (bytes < FIRST_GROUP)
		return 0;
	bytes -= FIRST_GROUP;
	groups = bytes / GROUP_SIZE;
	rest = bytes % GROUP_SIZE / RD_SEG_SIZE;
	return groups * RD_GROUP_FRAMES + (rest ? rest - 1 : 0);
}

static u32 super_crc(const struct super_disk *disk)
{
	struct super_disk copy = *disk;

	copy.crc = 0;
	return ~crc32c(~0U, &copy, sizeof(copy));
}

void rd_pool_super_pack(const struct rd_pool_super *super, void *block)
{
	struct super_disk disk = {
		.magic = cpu_to_le64(SUPER_MAGIC),
		.format = cpu_to_le32(RD_POOL_FORMAT),
		.nr_frames = cpu_to_le64(super->nr_frames),
		.seq = cpu_to_le64(super->seq),
		.journal_id = cpu_to_le64(super->journal_id),
		.journal_frame = cpu_to_le64(super->journal_frame),
		.compat = cpu_to_le64(super->compat),
		.compat_ro = cpu_to_le64(super->compat_ro),
		.incompat = cpu_to_le64(super->incompat),
		.codec = super->compression.codec,
		.level = super->compression.level,
		.dedup = super->rule.dedup,
		.pieces = cpu_to_le16(super->rule.pieces),
	};

	memcpy(disk.uuid, super->uuid, sizeof(disk.uuid));
	disk.crc = cpu_to_le32(super_crc(&disk));
	memcpy(block, &disk, sizeof(disk));
}

int rd_pool_super_unpack(struct rd_pool_super *super, const void *block)
{
	struct super_disk disk;

	memcpy(&disk, block, sizeof(disk));
	if (rd_is_zero(&disk, sizeof(disk)))
		return -ENODATA;
	if (le64_to_cpu(disk.magic) != SUPER_MAGIC)
		return -EMEDIUMTYPE;
	if (le32_to_cpu(disk.crc) != super_crc(&disk))
		return -EBADMSG;
	memset(super, 0, sizeof(*super));
	super->format = le32_to_cpu(disk.format);
	super->compat = le64_to_cpu(disk.compat);
	super->compat_ro = le64_to_cpu(disk.compat_ro);
	super->incompat = le64_to_cpu(disk.incompat);
	if (super->format != RD_POOL_FORMAT || super->incompat & ~RD_INCOMPAT_KNOWN)
		return -EOPNOTSUPP;
	memcpy(super->uuid, disk.uuid, sizeof(super->uuid));
	super->nr_frames = le64_to_cpu(disk.nr_frames);
	super->seq = le64_to_cpu(disk.seq);
	super->journal_id = le64_to_cpu(disk.journal_id);
	super->journal_frame = le64_to_cpu(disk.journal_frame);
	super->compression.codec = disk.codec;
	super->compression.level = disk.level;
	super->rule.dedup = disk.dedup;
	super->rule.pieces = rd_max(le16_to_cpu(disk.pieces), 1);
	if (super->rule.dedup > RD_DEDUP_INLINE || super->rule.pieces > RD_SEG_BLOCKS)
		return -EBADMSG;
	if (super->nr_frames > RD_MAX_FRAMES || super->journal_frame >= super->nr_frames)
		return -EBADMSG;
	return 0;
}

int rd_area_read(const struct rd_area *area, void *buf, size_t len, u64 offset)
{
	RD_FREE void *bounce = NULL;
	int r;

	r = rd_failpoint("area-read");
	if (r)
		return r;
	if (posix_memalign(&bounce, RD_BLOCK_SIZE, len))
		return -ENOMEM;
	r = rd_area_read_direct(area, bounce, len, offset);
	if (!r)
		memcpy(buf, bounce, len);
	return r;
}

int rd_area_read_direct(const struct rd_area *area, void *buf, size_t len, u64 offset)
{
	return area->store->ops->read(area->store, buf, len, offset);
}

static int write_how(const struct rd_area *area, const void *buf, size_t len, u64 offset,
		     unsigned int how)
{
	struct rd_store *store = area->store;
	RD_FREE void *bounce = NULL;
	size_t part;
	bool cut;
	u64 id;
	int r;

	r = rd_transfer_point("area-write", &cut);
	if (r)
		return r;
	if (posix_memalign(&bounce, RD_BLOCK_SIZE, len))
		return -ENOMEM;
	memcpy(bounce, buf, len);
	id = rd_trace_buffer(store->fd, buf, len, offset);
	part = cut ? rd_cut(len) : len;
	r = store->ops->write(store, bounce, part, offset, how);
	if (!r && part < len)
		r = store->ops->write(store, (u8 *)bounce + part, len - part, offset + part,
				      how);
	if (r)
		return r;
	rd_trace_written(id);
	return 0;
}

int rd_area_write(const struct rd_area *area, const void *buf, size_t len, u64 offset)
{
	return write_how(area, buf, len, offset, 0);
}

int rd_area_log(const struct rd_area *area, const void *buf, size_t len, u64 offset)
{
	return write_how(area, buf, len, offset, RD_WRITE_FULL | RD_WRITE_THERE);
}

int rd_area_sync(const struct rd_area *area)
{
	u64 id;
	int r;

	r = rd_failpoint("area-sync");
	if (r)
		return r;
	id = rd_trace_sync(area->store->fd);
	r = area->store->ops->sync(area->store);
	if (r)
		return rd_err(r, "cannot flush the data area");
	rd_trace_synced(id);
	return 0;
}

int rd_area_punch_ranges(const struct rd_area *area, const struct rd_range *ranges,
			 unsigned int nr)
{
	/* What is far away is asked once. */
	unsigned int now = rd_area_can(area, RD_STORE_FENCED) ? nr : 1;
	int r = 0;

	for (; nr && !r; nr -= now, ranges += now) {
		r = rd_failpoint("area-punch");
		if (r)
			break;
		rd_trace_punch(area->store->fd, ranges->offset, ranges->len);
		r = area->store->ops->punch(area->store, ranges, now);
	}
	return r;
}

int rd_area_punch(const struct rd_area *area, u64 offset, u64 len)
{
	return rd_area_punch_ranges(area, &(struct rd_range){ offset, len }, 1);
}

int rd_area_punch_frames(const struct rd_area *area, u64 frame, u64 nr)
{
	u64 end = frame + nr, now;
	int r = 0;

	for (; frame < end && !r; frame += now) {
		now = rd_min(end - frame, RD_GROUP_FRAMES - frame % RD_GROUP_FRAMES);
		r = rd_area_punch(area, rd_frame_offset(frame), now * RD_SEG_SIZE);
		if (!r)
			r = rd_area_punch(area, rd_frame_fps_offset(frame), now * RD_FPS_SIZE);
	}
	return r;
}

int rd_area_clear_frame(const struct rd_area *area, u64 frame)
{
	RD_FREE void *zeros = NULL;
	int r;

	if (rd_area_can(area, RD_STORE_ZEROS))
		return 0;
	zeros = calloc(1, RD_SEG_SIZE);
	r = zeros ? write_how(area, zeros, RD_SEG_SIZE, rd_frame_offset(frame), RD_WRITE_FULL) :
		-ENOMEM;
	return r ? r : rd_area_sync(area);
}

int rd_area_read_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps)
{
	return rd_area_read(area, fps, nr * RD_FPS_SIZE, rd_frame_fps_offset(frame));
}

void rd_area_get_fps(const struct rd_area *area, u64 frame, unsigned int nr,
		     struct rd_fp *fps)
{
	u64 offset = rd_frame_fps_offset(frame);
	size_t at;

	if (!rd_area_read_fps(area, frame, nr, fps))
		return;
	for (at = 0; at < nr * RD_FPS_SIZE; at += RD_BLOCK_SIZE)
		if (rd_area_read(area, (u8 *)fps + at, RD_BLOCK_SIZE, offset + at))
			memset((u8 *)fps + at, 0, RD_BLOCK_SIZE);
}

static int read_super(struct rd_area *area, u64 offset, struct rd_pool_super *super)
{
	u8 block[RD_BLOCK_SIZE];
	int r = rd_area_read(area, block, sizeof(block), offset);

	return r ? r : rd_pool_super_unpack(super, block);
}

static bool is_nothing(int r)
{
	return r == -ENODATA || r == -EMEDIUMTYPE;
}

static int refuse_features(const char *path, const char *what, u64 bits)
{
	rd_err(0, "'%s' has features that this program does not know (%s: %#llx)", path, what,
	       bits);
	rd_hint("nothing was changed; install a newer revdedup");
	return -EOPNOTSUPP;
}

static int refuse_super(const char *path, const struct rd_pool_super *super)
{
	return super->format == RD_POOL_FORMAT ?
		refuse_features(path, "incompatible", super->incompat & ~RD_INCOMPAT_KNOWN) :
		rd_err_format(path, super->format, RD_POOL_FORMAT);
}

/* Report why neither copy is good. @ra, @rb: results of rd_pool_super_unpack(). */
static int refuse_supers(const char *path, const struct rd_pool_super *a, int ra,
			 const struct rd_pool_super *b, int rb)
{
	if (ra == -EOPNOTSUPP || rb == -EOPNOTSUPP)
		return refuse_super(path, ra == -EOPNOTSUPP ? a : b);
	if (is_nothing(ra) && is_nothing(rb)) {
		rd_err(0, "'%s' is not the data area of a pool", path);
		rd_remedy(RD_REMEDY_REBUILD_SUPERS, NULL, "its superblocks may have been overwritten");
		return ra;
	}
	rd_err(-EUCLEAN, "both superblocks of '%s' are unreadable", path);
	rd_remedy(RD_REMEDY_REBUILD_SUPERS, NULL, NULL);
	return -EUCLEAN;
}

static int choose_super(struct rd_area *area, const char *path)
{
	struct rd_pool_super a, b;
	int ra = read_super(area, COPY_A, &a);
	int rb = read_super(area, COPY_B, &b);

	if ((ra && rb) || ra == -EOPNOTSUPP || rb == -EOPNOTSUPP)
		return refuse_supers(path, &a, ra, &b, rb);
	area->super = !ra && (rb || a.seq >= b.seq) ? a : b;
	return 0;
}

static bool is_super_bad(struct rd_area *area, u64 offset, bool stale)
{
	struct rd_pool_super super;

	return read_super(area, offset, &super) || (stale && super.seq != area->super.seq);
}

unsigned int rd_area_bad_supers(struct rd_area *area, bool stale)
{
	return is_super_bad(area, COPY_A, stale) + is_super_bad(area, COPY_B, stale);
}

/* A shard in RADOS says itself what is wrong. */
static int open_store(struct rd_store **ret, const char *path, int flags, const char *verb)
{
	char name[PATH_MAX];
	int r;

	if (rd_rados_name(path, name))
		return rd_rados_open(ret, name, flags);
	r = rd_store_open(ret, path, flags);
	return r ? rd_err(r, "cannot %s '%s'", r == -ENOTBLK ? "use" : verb, path) : 0;
}

static int open_area(struct rd_area *area, const char *path, bool writable)
{
	*area = (struct rd_area){ .writable = writable };
	return open_store(&area->store, path, writable ? O_RDWR : O_RDONLY, "open");
}

int rd_area_open(struct rd_area *area, const char *path, bool writable)
{
	int r;

	r = open_area(area, path, writable);
	if (!r)
		r = choose_super(area, path);
	if (!r && writable && area->super.compat_ro)
		r = refuse_features(path, "compatible for reading", area->super.compat_ro);
	if (!r && rd_frames_in(area->store->bytes) < area->super.nr_frames) {
		rd_warn("'%s' is cut off: it has %llu bytes, but its last frame ends at %llu", path,
			area->store->bytes,
			rd_frame_offset(area->super.nr_frames - 1) + RD_SEG_SIZE);
		rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
	}
	if (r)
		rd_area_close(area);
	return r;
}

int rd_area_open_lost(struct rd_area *area, const char *path)
{
	struct rd_pool_super a, b;
	int r, ra, rb;

	r = open_area(area, path, true);
	if (!r) {
		ra = read_super(area, COPY_A, &a);
		rb = read_super(area, COPY_B, &b);
		if (!ra || !rb)
			r = -EEXIST;
		else if (ra == -EOPNOTSUPP || rb == -EOPNOTSUPP)
			r = refuse_supers(path, &a, ra, &b, rb);
	}
	if (r)
		rd_area_close(area);
	return r;
}

void rd_area_close(struct rd_area *area)
{
	rd_store_close(area->store);
	area->store = NULL;
}

int rd_area_reread_super(struct rd_area *area)
{
	return choose_super(area, "data");
}

int rd_area_cannot_write(const struct rd_area *area, int r, const char *what)
{
	/* Another host has the pool, which the store has said. */
	if (r == -ESTALE && rd_area_can(area, RD_STORE_FENCED))
		return r;
	return rd_err(r, "cannot write %s", what);
}

int rd_area_write_super(struct rd_area *area)
{
	u8 block[RD_BLOCK_SIZE];
	int r;

	area->super.seq++;
	rd_pool_super_pack(&area->super, block);
	r = rd_area_log(area, block, sizeof(block), COPY_A);
	if (!r)
		r = rd_area_sync(area);
	if (!r)
		r = rd_area_log(area, block, sizeof(block), COPY_B);
	if (!r)
		r = rd_area_sync(area);
	return r ? rd_area_cannot_write(area, r, "the superblock of the data area") : 0;
}

int rd_area_extend(struct rd_area *area, u64 bytes)
{
	int r;

	r = rd_failpoint("area-extend");
	return r ? r : area->store->ops->resize(area->store, bytes);
}

int rd_area_has_super(struct rd_store *store, bool both)
{
	u8 block[RD_BLOCK_SIZE] __attribute__((aligned(RD_BLOCK_SIZE)));
	struct rd_pool_super super;
	int r;

	r = store->ops->read(store, block, sizeof(block), COPY_A);
	/* Behind other content it would belong to the first partition. */
	if (!r && both && rd_pool_super_unpack(&super, block) == -ENODATA)
		r = store->ops->read(store, block, sizeof(block), COPY_B);
	return r ? r : !is_nothing(rd_pool_super_unpack(&super, block));
}

/* LVM zeros only the beginning of a new logical volume, so look at the first block alone. */
static int has_content(const struct rd_area *area)
{
	u8 block[RD_BLOCK_SIZE];
	int r;

	if (rd_area_can(area, RD_STORE_HOLES))
		return rd_store_seek(area->store, 0, SEEK_DATA) >= 0 || errno != ENXIO;
	r = rd_area_read(area, block, sizeof(block), 0);
	return r ? r : !rd_is_zero(block, sizeof(block));
}

static int check_is_empty(const struct rd_area *area, const char *path)
{
	int r, is_pool = rd_area_has_super(area->store, true);

	r = is_pool < 0 ? is_pool : has_content(area);
	if (r < 0)
		return rd_err(r, "cannot read '%s'", path);
	if (!r && !is_pool)
		return 0;
	rd_err(0, is_pool ? "'%s' is the data area of a pool already" : "'%s' is not empty",
	       path);
	rd_remedy(RD_REMEDY_OVERWRITE, NULL, "nothing was changed");
	return -EEXIST;
}

/* Clear the first frame, or all where that is easy, so that no old content is seen. */
static int clear_area(const struct rd_area *area, u64 bytes, const char *path)
{
	struct rd_store *store = area->store;
	int r;

	/* All of a file goes. */
	r = rd_area_can(area, RD_STORE_GROWS) ? store->ops->resize(store, 0) : 0;
	if (!r && rd_area_can(area, RD_STORE_GROWS))
		r = store->ops->resize(store, bytes);
	if (!r)
		r = rd_area_clear_frame(area, 0);
	return r ? rd_err(r, "cannot write to '%s'", path) : 0;
}

static int too_small(const char *path, const struct rd_area *area)
{
	rd_err(0, "'%s' is too small: a pool needs at least 40 MiB", path);
	if (rd_area_can(area, RD_STORE_GROWS))
		rd_remedy(RD_REMEDY_NAME_SIZE, NULL, NULL);
	return -EINVAL;
}

int rd_area_format(const char *path, u64 bytes, bool force, const u8 uuid[16],
		   u64 journal_id, struct rd_compression compression, struct rd_rule rule)
{
	struct rd_area area = { .writable = true };
	int r;

	r = open_store(&area.store, path, O_RDWR | O_CREAT, "create");
	if (r)
		return r;
	if (area.store->bytes || !rd_area_can(&area, RD_STORE_GROWS))
		bytes = area.store->bytes;
	if (area.store->bytes && !force)
		r = check_is_empty(&area, path);
	if (!r && rd_frames_in(bytes) < 16)
		r = too_small(path, &area);
	if (!r)
		r = clear_area(&area, bytes, path);
	if (!r) {
		memcpy(area.super.uuid, uuid, sizeof(area.super.uuid));
		area.super.nr_frames = rd_frames_in(bytes);
		area.super.journal_id = journal_id;
		area.super.compression = compression;
		area.super.rule = rule.pieces ? rule : RD_RULE_FIRST;
		area.super.incompat = (compression.codec ? RD_INCOMPAT_PACKS : 0) |
			(rd_rule_is_chosen(area.super.rule) ? RD_INCOMPAT_PIECES : 0);
		r = rd_area_write_super(&area);
	}
	rd_area_close(&area);
	return r;
}
