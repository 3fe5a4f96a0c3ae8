// SPDX-License-Identifier: GPL-2.0
/*
 * Replay a log of dm-log-writes and see after each write that the metadata on
 * disk at that moment calls all dirty that has changed.
 *
 *   logcheck [--seed S] LOG BASE_SECTORS META_SECTORS
 *
 * The logged device is the base, and after it the metadata device. In the log
 * are marks of the test:
 *
 *   checkpoint=E   the volume is suspended, checkpoint E has been taken
 *   committed=E    commit E has been acknowledged
 *
 * A power cut could have come after each entry, so each is a point to look at:
 * what the superblocks and bitmaps say at that point (with the code of the
 * target, kernel/format.c) must cover every sector that is not what it was at
 * the last committed checkpoint. And as the writes between two flushes may reach
 * a disk in any order, at each flush the same is asked of random subsets of
 * those after the flush before, too.
 *
 * Content is a hash a sector. For each checkpoint in sight we keep count of the
 * sectors of each segment that differ, so a look costs little.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/types.h>

#include "../../kernel/format.h"

#define SECTOR		512U

/* drivers/md/dm-log-writes.c */
#define LOG_FLUSH	(1 << 0)
#define LOG_FUA		(1 << 1)
#define LOG_DISCARD	(1 << 2)
#define LOG_MARK	(1 << 3)
#define LOG_MAGIC	0x6a736677736872ULL
#define LOG_VERSION	1

struct log_super {
	__le64 magic;
	__le64 version;
	__le64 nr_entries;
	__le32 sectorsize;
};

struct log_entry {
	__le64 sector;
	__le64 nr_sectors;
	__le64 flags;
	__le64 data_len;
};

/* A write; a discard counts as zeros. */
struct write {
	u64 sector;
	u64 sectors;
	u64 *hashes;			/* to the base */
	u8 *data;			/* to the metadata device */
};

/* The base at a checkpoint, and how far it is from the base now. */
struct copy {
	u64 epoch;			/* 0: not in use */
	u64 *hashes;
	u32 *differ;			/* a segment: number of sectors */
};

#define NR_COPIES	6
#define SUBSETS		8

static struct {
	u64 seed;
	u64 random;
	u64 base_sectors;
	u64 meta_sectors;
	u64 segs;

	int log;
	u64 next_sector;		/* of the log */
	u64 entry;			/* number of it, for messages */

	u64 *hashes;			/* of the base */
	u8 *meta;
	struct copy copies[NR_COPIES];
	unsigned int next_copy;
	u64 committed;			/* acknowledged so */

	struct write *group;		/* since the last flush */
	size_t nr_group;
	size_t max_group;
} c;

static struct {
	u64 points, subsets, segs, flushes, checkpoints, commits;
} count;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nentry %llu of the log, seed %llu\n", c.entry, c.seed);
	exit(1);
}

#define miss(format, ...) die("MISS: " format, ##__VA_ARGS__)

static void *zalloc(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p)
		die("no memory");
	return p;
}

static u64 rnd(void)
{
	/* splitmix64 */
	u64 z = (c.random += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/*
 * ---- the disk ----
 */

static u64 hash_sector(const u8 *data)
{
	u64 h = 0, word;
	unsigned int i;

	for (i = 0; i < SECTOR; i += sizeof(word)) {
		memcpy(&word, data + i, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	return h;
}

static void set_hash(u64 sector, u64 hash)
{
	u64 old = c.hashes[sector];
	unsigned int i;

	c.hashes[sector] = hash;
	for (i = 0; i < NR_COPIES; i++) {
		struct copy *copy = &c.copies[i];

		if (copy->epoch)
			copy->differ[sector >> RDD_SEG_SECTOR_SHIFT] +=
				(hash != copy->hashes[sector]) -
				(old != copy->hashes[sector]);
	}
}

static bool is_meta(const struct write *w)
{
	return w->sector >= c.base_sectors;
}

static void apply(const struct write *w)
{
	u64 i;

	if (is_meta(w))
		memcpy(c.meta + (w->sector - c.base_sectors) * SECTOR, w->data,
		       w->sectors * SECTOR);
	else
		for (i = 0; i < w->sectors; i++)
			set_hash(w->sector + i, w->hashes[i]);
}

static void take_copy(u64 epoch)
{
	struct copy *copy = &c.copies[c.next_copy++ % NR_COPIES];

	if (!copy->hashes) {
		copy->hashes = zalloc(c.base_sectors, sizeof(*copy->hashes));
		copy->differ = zalloc(c.segs, sizeof(*copy->differ));
	}
	copy->epoch = epoch;
	memcpy(copy->hashes, c.hashes, c.base_sectors * sizeof(*c.hashes));
	memset(copy->differ, 0, c.segs * sizeof(*copy->differ));
}

static struct copy *find_copy(u64 epoch)
{
	unsigned int i;

	for (i = 0; i < NR_COPIES; i++)
		if (c.copies[i].epoch == epoch)
			return &c.copies[i];
	return NULL;
}

/*
 * ---- what the target would say ----
 */

static const void *meta_block(u64 nr)
{
	return c.meta + nr * RDD_BLOCK_SIZE;
}

static bool read_super(struct rdd_super *super)
{
	u64 last = c.meta_sectors / RDD_BLOCK_SECTORS - 1;
	struct rdd_super a, b;
	const char *why = "";
	int ra = rdd_super_unpack(meta_block(0), 0, &a, &why);
	int rb = rdd_super_unpack(meta_block(last), last, &b, &why);
	int r;

	/* Not formatted yet. */
	if (ra == -ENODATA && rb == -ENODATA)
		return false;
	r = rdd_super_choose(&a, ra, &b, rb, super);
	if (r)
		miss("the metadata would be refused: %s (error %d)", why, r);
	return true;
}

/* Add to @dirty what the bitmap of @epoch says; @dirty has room for whole groups. */
static void add_bits(const struct rdd_super *super, u64 epoch, u64 *dirty)
{
	u32 seed = rdd_seed(super->meta_uuid);
	u64 bits[RDD_BITS_LONGS];
	u64 group;
	unsigned int i;

	for (group = 0; group < rdd_nr_groups(c.segs); group++) {
		u64 block = rdd_bits_block(group, epoch, super->flags);

		rdd_bits_unpack(seed, block, epoch, meta_block(block), bits);
		for (i = 0; i < RDD_BITS_LONGS; i++)
			dirty[group * RDD_BITS_LONGS + i] |= bits[i];
	}
}

/* How many sectors of @seg differ from what they were at the last commit? */
static u64 changed(const struct rdd_super *super, u64 seg)
{
	const struct copy *copy = find_copy(super->committed);

	if (!super->committed)
		return RDD_SEG_SECTORS;
	if (!copy)
		die("checkpoint %llu is committed, and not in sight", super->committed);
	return copy->differ[seg];
}

static void look(void)
{
	static u64 *dirty;
	struct rdd_super super;
	u64 seg;

	count.points++;
	if (!read_super(&super))
		return;
	if (super.committed < c.committed)
		miss("commit %llu is forgotten, %llu is the last", c.committed,
		     super.committed);
	if (super.flags & RDD_FLAG_LOST)
		return;

	if (!dirty)
		dirty = zalloc(rdd_nr_groups(c.segs), RDD_BITS_LONGS * sizeof(u64));
	memset(dirty, 0, rdd_nr_groups(c.segs) * RDD_BITS_LONGS * sizeof(u64));
	add_bits(&super, super.epoch, dirty);
	if (super.flags & RDD_FLAG_FROZEN)
		add_bits(&super, super.epoch - 1, dirty);

	for (seg = 0; seg < c.segs; seg++) {
		if (dirty[seg / 64] >> seg % 64 & 1)
			continue;
		if (changed(&super, seg))
			miss("segment %llu is clean, but %llu sectors are not what they were at checkpoint %llu (epoch is %llu%s)",
			     seg, changed(&super, seg), super.committed, super.epoch,
			     super.flags & RDD_FLAG_FROZEN ? " frozen" : "");
		count.segs++;
	}
}

/*
 * ---- subsets ----
 */

struct undo {
	u64 *hashes;
	u8 *meta;
};

static void save(struct undo *undo)
{
	if (!undo->hashes) {
		undo->hashes = zalloc(c.base_sectors, sizeof(*undo->hashes));
		undo->meta = zalloc(c.meta_sectors, SECTOR);
	}
	memcpy(undo->hashes, c.hashes, c.base_sectors * sizeof(*c.hashes));
	memcpy(undo->meta, c.meta, c.meta_sectors * SECTOR);
}

/* Only what @group can have changed. */
static void restore(const struct undo *undo)
{
	size_t i;
	u64 s;

	memcpy(c.meta, undo->meta, c.meta_sectors * SECTOR);
	for (i = 0; i < c.nr_group; i++) {
		const struct write *w = &c.group[i];

		for (s = w->sector; !is_meta(w) && s < w->sector + w->sectors; s++)
			set_hash(s, undo->hashes[s]);
	}
}

/*
 * Any of the writes since the last flush, or none, may be there. Half of the
 * time one device lost all of them, which coins for each would hardly ever do.
 */
static void look_at_subset(const struct undo *undo)
{
	u64 dice = rnd();
	size_t i;

	for (i = 0; i < c.nr_group; i++) {
		const struct write *w = &c.group[i];
		bool keep = rnd() & 1;

		if (!(dice & 3))
			keep = is_meta(w);
		else if ((dice & 3) == 1)
			keep = !is_meta(w);
		if (keep)
			apply(w);
	}
	look();
	count.subsets++;
	restore(undo);
}

static void forget_group(void)
{
	size_t i;

	for (i = 0; i < c.nr_group; i++) {
		free(c.group[i].hashes);
		free(c.group[i].data);
	}
	c.nr_group = 0;
}

/*
 * A flush came, or a mark, which tells what was acknowledged. All writes of the
 * group had been acknowledged before that.
 */
static void end_group(void)
{
	static struct undo undo;
	unsigned int i;

	if (c.nr_group) {
		save(&undo);
		for (i = 0; i < SUBSETS; i++)
			look_at_subset(&undo);
		for (i = 0; i < c.nr_group; i++) {
			apply(&c.group[i]);
			look();
		}
	}
	forget_group();
	look();
}

/*
 * ---- the log ----
 */

static void read_log(void *buf, u64 sectors)
{
	size_t len = sectors * SECTOR;

	if (pread(c.log, buf, len, c.next_sector * SECTOR) != (ssize_t)len)
		die("cannot read the log: %s", strerror(errno));
	c.next_sector += sectors;
}

static void read_write(struct write *w, bool zeros)
{
	u8 *data = zalloc(w->sectors, SECTOR);
	u64 i;

	if (!zeros)
		read_log(data, w->sectors);
	if (is_meta(w)) {
		w->data = data;
		return;
	}
	w->hashes = zalloc(w->sectors, sizeof(*w->hashes));
	for (i = 0; i < w->sectors; i++)
		w->hashes[i] = hash_sector(data + i * SECTOR);
	free(data);
}

static void add_to_group(const struct log_entry *e)
{
	struct write w = {
		.sector = le64_to_cpu(e->sector),
		.sectors = le64_to_cpu(e->nr_sectors),
	};
	u64 end = w.sector + w.sectors;

	if (end > c.base_sectors + c.meta_sectors ||
	    (!is_meta(&w) && end > c.base_sectors))
		die("a write to sectors %llu to %llu", w.sector, end);
	read_write(&w, le64_to_cpu(e->flags) & LOG_DISCARD);
	if (c.nr_group == c.max_group) {
		c.max_group = 2 * c.max_group + 64;
		c.group = realloc(c.group, c.max_group * sizeof(*c.group));
		if (!c.group)
			die("no memory");
	}
	c.group[c.nr_group++] = w;
}

static void do_mark(const char *text)
{
	u64 epoch;

	if (sscanf(text, "checkpoint=%llu", &epoch) == 1) {
		take_copy(epoch);
		count.checkpoints++;
	} else if (sscanf(text, "committed=%llu", &epoch) == 1) {
		c.committed = epoch;
		count.commits++;
	}
}

static void do_entry(void)
{
	u8 sector[SECTOR + 1] = {};
	struct log_entry e;
	u64 flags;

	read_log(sector, 1);
	memcpy(&e, sector, sizeof(e));
	flags = le64_to_cpu(e.flags);

	if (flags & LOG_MARK) {
		end_group();
		do_mark((char *)sector + sizeof(e));
		look();
		return;
	}
	/* FUA data is on the disk when it is acknowledged, as if flushed. */
	count.flushes += !!(flags & LOG_FLUSH);
	if (flags & (LOG_FLUSH | LOG_FUA))
		end_group();
	if (le64_to_cpu(e.nr_sectors))
		add_to_group(&e);
	if (flags & LOG_FUA)
		end_group();
}

static u64 open_log(const char *path)
{
	u8 sector[SECTOR];
	struct log_super super;

	c.log = open(path, O_RDONLY | O_CLOEXEC);
	if (c.log < 0)
		die("cannot open '%s': %s", path, strerror(errno));
	read_log(sector, 1);
	memcpy(&super, sector, sizeof(super));
	if (le64_to_cpu(super.magic) != LOG_MAGIC ||
	    le64_to_cpu(super.version) != LOG_VERSION ||
	    le32_to_cpu(super.sectorsize) != SECTOR)
		die("'%s' holds no log that we know", path);
	return le64_to_cpu(super.nr_entries);
}

static u64 parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (getentropy(&c.seed, 4))
		die("no random number");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) == 's')
		c.seed = strtoull(optarg, NULL, 10);
	if (opt != -1 || argc - optind != 3) {
		fprintf(stderr, "usage: logcheck [--seed S] LOG BASE_SECTORS META_SECTORS\n");
		exit(2);
	}
	c.base_sectors = strtoull(argv[optind + 1], NULL, 10);
	c.meta_sectors = strtoull(argv[optind + 2], NULL, 10);
	c.segs = rdd_nr_segs(c.base_sectors);
	return open_log(argv[optind]);
}

int main(int argc, char **argv)
{
	u64 entries = parse_args(argc, argv);

	printf("seed %llu, %llu entries\n", c.seed, entries);
	c.random = c.seed;
	c.hashes = zalloc(c.base_sectors, sizeof(*c.hashes));
	/* Whatever it was, it is no hash of what is in the log. */
	memset(c.hashes, 0xff, c.base_sectors * sizeof(*c.hashes));
	c.meta = zalloc(c.meta_sectors, SECTOR);
	for (c.entry = 0; c.entry < entries; c.entry++)
		do_entry();
	end_group();

	printf("%llu points, %llu of them random subsets; %llu flushes, %llu checkpoints, %llu commits\n",
	       count.points, count.subsets, count.flushes, count.checkpoints, count.commits);
	printf("%llu segments checked clean\n", count.segs);
	if (!count.segs || !count.commits) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
