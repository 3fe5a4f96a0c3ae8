// SPDX-License-Identifier: GPL-2.0
/*
 * Replay a log of dm-log-writes, and check after each write that the metadata on disk at that
 * moment calls everything dirty that has changed.
 *
 *   logcheck [--seed S] LOG BASE_SECTORS META_SECTORS
 *
 * The test puts marks into the log:
 *
 *   checkpoint=E   the volume is suspended, checkpoint E has been taken
 *   committed=E    commit E has been acknowledged
 *
 * At each point (replay.h) the superblocks and bitmaps, read with the code of the target
 * (kernel/format.c), must cover every sector that is not what it was at the last committed
 * checkpoint.
 *
 * Content is a hash a sector. For each checkpoint in sight the program counts the sectors of
 * each segment that differ, so a check costs little.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc.h"
#include "replay.h"

/* The base at a checkpoint, and how far it is from the base now. */
struct copy {
	u64 epoch;			/* 0: not in use */
	u64 *hashes;
	u32 *differ;			/* a segment: number of sectors */
};

#define NR_COPIES	6

static struct {
	u64 segs;
	struct copy copies[NR_COPIES];
	unsigned int next_copy;
	u64 committed;			/* acknowledged so */
} c;

static struct {
	u64 segs, checkpoints, commits;
} count;

/*
 * ---- the base ----
 */

static u64 hash_sector(const u8 *data, u64 sector)
{
	u64 h = 0, word;
	unsigned int i;

	(void)sector;

	for (i = 0; i < SECTOR; i += sizeof(word)) {
		memcpy(&word, data + i, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	return h;
}

/* A sector was @old. */
static void has_changed(u64 sector, u64 old)
{
	u64 hash = replay.words[sector];
	unsigned int i;

	for (i = 0; i < NR_COPIES; i++) {
		struct copy *copy = &c.copies[i];

		if (copy->epoch)
			copy->differ[sector >> DMR_SEG_SECTOR_SHIFT] +=
				(hash != copy->hashes[sector]) -
				(old != copy->hashes[sector]);
	}
}

static void take_copy(u64 epoch)
{
	struct copy *copy = &c.copies[c.next_copy++ % NR_COPIES];

	if (!copy->hashes) {
		copy->hashes = zalloc(replay.base_sectors, sizeof(*copy->hashes));
		copy->differ = zalloc(c.segs, sizeof(*copy->differ));
	}
	copy->epoch = epoch;
	memcpy(copy->hashes, replay.words, replay.base_sectors * sizeof(*replay.words));
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

/* Add to @dirty what the bitmap of @epoch says; @dirty has room for whole groups. */
static void add_bits(const struct dmr_super *super, u64 epoch, u64 *dirty)
{
	u32 seed = dmr_seed(super->meta_uuid);
	u64 bits[DMR_BITS_LONGS];
	u64 group;
	unsigned int i;

	for (group = 0; group < dmr_nr_groups(c.segs); group++) {
		u64 block = dmr_bits_block(group, epoch, super->flags);

		dmr_bits_unpack(seed, block, epoch, meta_block(block), bits);
		for (i = 0; i < DMR_BITS_LONGS; i++)
			dirty[group * DMR_BITS_LONGS + i] |= bits[i];
	}
}

/* How many sectors of @seg differ from what they were at the last commit? */
static u64 changed(const struct dmr_super *super, u64 seg)
{
	const struct copy *copy = find_copy(super->committed);

	if (!super->committed)
		return DMR_SEG_SECTORS;
	if (!copy)
		die("checkpoint %llu is committed, and not in sight", super->committed);
	return copy->differ[seg];
}

static void look(void)
{
	static u64 *dirty;
	struct dmr_super super;
	u64 seg;

	if (!read_super(&super))
		return;
	if (super.committed < c.committed)
		miss("commit %llu is forgotten, %llu is the last", c.committed,
		     super.committed);
	if (super.flags & DMR_FLAG_LOST)
		return;

	if (!dirty)
		dirty = zalloc(dmr_nr_groups(c.segs), DMR_BITS_LONGS * sizeof(u64));
	memset(dirty, 0, dmr_nr_groups(c.segs) * DMR_BITS_LONGS * sizeof(u64));
	add_bits(&super, super.epoch, dirty);
	if (super.flags & DMR_FLAG_FROZEN)
		add_bits(&super, super.epoch - 1, dirty);

	for (seg = 0; seg < c.segs; seg++) {
		if (dirty[seg / 64] >> seg % 64 & 1)
			continue;
		if (changed(&super, seg))
			miss("segment %llu is clean, but %llu sectors are not what they were at checkpoint %llu (epoch is %llu%s)",
			     seg, changed(&super, seg), super.committed, super.epoch,
			     super.flags & DMR_FLAG_FROZEN ? " frozen" : "");
		count.segs++;
	}
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

static const char *parse_args(int argc, char **argv)
{
	char **words = replay_args(argc, argv, 3, "LOG BASE_SECTORS META_SECTORS");

	replay.base_sectors = strtoull(words[1], NULL, 10);
	replay.meta_sectors = strtoull(words[2], NULL, 10);
	c.segs = dmr_nr_segs(replay.base_sectors);
	return words[0];
}

int main(int argc, char **argv)
{
	const char *path = parse_args(argc, argv);

	replay.parse = hash_sector;
	replay.changed = has_changed;
	replay.look = look;
	replay.mark = do_mark;
	replay.marks_acknowledge = true;
	replay.every = 1;
	replay_log(path);

	printf("%llu checkpoints, %llu commits\n", count.checkpoints, count.commits);
	printf("%llu segments checked clean\n", count.segs);
	if (!count.segs || !count.commits) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
