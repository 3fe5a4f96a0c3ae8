/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replay a log of dm-log-writes, and look at what a power cut could have left. The logged
 * device is a base device, and after it a metadata device.
 *
 * A power cut could have come after each entry, so each is a point to look at. And as the
 * writes between two flushes may reach a disk in any order, the replay also looks, at each
 * flush, at random subsets of the entries after the flush before.
 *
 * There is one replay a process, and its state is in `replay`.
 */
#ifndef RDT_REPLAY_H
#define RDT_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/kernel.h>
#include <linux/types.h>

#include "kernel/format.h"

#define SECTOR		512U

struct write;

struct replay {
	u64 seed;
	uint64_t random;		/* see random.h */
	u64 base_sectors;
	u64 meta_sectors;

	/* Set by the program. */
	u64 (*parse)(const u8 *data, u64 sector);	/* a sector's word */
	void (*changed)(u64 sector, u64 old);		/* it has another word; or NULL */
	void (*look)(void);				/* at a point */
	void (*mark)(const char *text);
	bool marks_acknowledge;		/* what was written before a mark has been */
	unsigned int every;		/* writes between two looks, about */

	u64 *words;			/* of the base's sectors */
	u8 *meta;
	u64 entry;			/* of the log, for messages */
	u64 points, subsets, flushes;

	int log;
	u64 next_sector;		/* of the log */
	struct write *group;		/* since the last flush */
	size_t nr_group;
	size_t max_group;
};

extern struct replay replay;

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define miss(format, ...) die("MISS: " format, ##__VA_ARGS__)

/*
 * Take --seed, and return the @nr words that come after it. What they are called is
 * in @usage.
 */
char **replay_args(int argc, char **argv, int nr, const char *usage);

/* Call @mark for each mark of the log, and do nothing else. */
void replay_scan(const char *path, void (*mark)(const char *text));
void replay_log(const char *path);

/* Block @nr of the metadata device. */
const void *meta_block(u64 nr);
/* What the target would take for the superblock; false: not formatted yet. */
bool read_super(struct dmr_super *super);

#endif
