// SPDX-License-Identifier: GPL-2.0
/*
 * Replay a log of dm-log-writes. See replay.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc.h"
#include "lib/random.h"
#include "replay.h"

#define SUBSETS		8

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
	u64 *words;			/* to the base */
	u8 *data;			/* to the metadata device */
};

struct replay replay;

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nentry %llu of the log, seed %llu\n", replay.entry, replay.seed);
	exit(1);
}

char **replay_args(int argc, char **argv, int nr, const char *usage)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (getentropy(&replay.seed, 4))
		die("no random number");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) == 's')
		replay.seed = strtoull(optarg, NULL, 10);
	if (opt != -1 || argc - optind != nr) {
		fprintf(stderr, "usage: %s [--seed S] %s\n", program_invocation_short_name,
			usage);
		exit(2);
	}
	return argv + optind;
}

/*
 * ---- the disks ----
 */

static void set_word(u64 sector, u64 word)
{
	u64 old = replay.words[sector];

	replay.words[sector] = word;
	if (replay.changed && old != word)
		replay.changed(sector, old);
}

static bool is_meta(const struct write *w)
{
	return w->sector >= replay.base_sectors;
}

static void apply(const struct write *w)
{
	u64 i;

	if (is_meta(w))
		memcpy(replay.meta + (w->sector - replay.base_sectors) * SECTOR, w->data,
		       w->sectors * SECTOR);
	else
		for (i = 0; i < w->sectors; i++)
			set_word(w->sector + i, w->words[i]);
}

const void *meta_block(u64 nr)
{
	return replay.meta + nr * DMR_BLOCK_SIZE;
}

bool read_super(struct dmr_super *super)
{
	u64 last = replay.meta_sectors / DMR_BLOCK_SECTORS - 1;
	struct dmr_super a, b;
	const char *why = "";
	int ra = dmr_super_unpack(meta_block(0), 0, &a, &why);
	int rb = dmr_super_unpack(meta_block(last), last, &b, &why);
	int r;

	/* Not formatted yet. */
	if (ra == -ENODATA && rb == -ENODATA)
		return false;
	r = dmr_super_choose(&a, ra, &b, rb, super);
	if (r)
		miss("the metadata would be refused: %s (error %d)", why, r);
	return true;
}

/*
 * ---- points ----
 */

static void look(void)
{
	replay.points++;
	replay.look();
}

struct undo {
	u64 *words;
	u8 *meta;
};

static void save(struct undo *undo)
{
	if (!undo->words) {
		undo->words = zalloc(replay.base_sectors, sizeof(*undo->words));
		undo->meta = zalloc(replay.meta_sectors, SECTOR);
	}
	memcpy(undo->words, replay.words, replay.base_sectors * sizeof(*replay.words));
	memcpy(undo->meta, replay.meta, replay.meta_sectors * SECTOR);
}

/* Only what @group can have changed. */
static void restore(const struct undo *undo)
{
	size_t i;
	u64 s;

	memcpy(replay.meta, undo->meta, replay.meta_sectors * SECTOR);
	for (i = 0; i < replay.nr_group; i++) {
		const struct write *w = &replay.group[i];

		for (s = w->sector; !is_meta(w) && s < w->sector + w->sectors; s++)
			set_word(s, undo->words[s]);
	}
}

/*
 * Any of the writes since the last flush, or none, may be there. Half of the
 * time one device lost all of them, which coins for each would hardly ever do.
 */
static void look_at_subset(const struct undo *undo)
{
	u64 dice = rnd(&replay.random);
	size_t i;

	for (i = 0; i < replay.nr_group; i++) {
		const struct write *w = &replay.group[i];
		bool keep = rnd(&replay.random) & 1;

		if (!(dice & 3))
			keep = is_meta(w);
		else if ((dice & 3) == 1)
			keep = !is_meta(w);
		if (keep)
			apply(w);
	}
	look();
	replay.subsets++;
	restore(undo);
}

static void forget_group(void)
{
	size_t i;

	for (i = 0; i < replay.nr_group; i++) {
		free(replay.group[i].words);
		free(replay.group[i].data);
	}
	replay.nr_group = 0;
}

/* A flush came: all writes of the group had been acknowledged before that. */
static void end_group(void)
{
	static struct undo undo;
	unsigned int i;

	if (replay.nr_group) {
		save(&undo);
		for (i = 0; i < SUBSETS; i++)
			look_at_subset(&undo);
		for (i = 0; i < replay.nr_group; i++) {
			apply(&replay.group[i]);
			if (rnd(&replay.random) % replay.every == 0)
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

	if (pread(replay.log, buf, len, replay.next_sector * SECTOR) != (ssize_t)len)
		die("cannot read the log: %s", strerror(errno));
	replay.next_sector += sectors;
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
	w->words = zalloc(w->sectors, sizeof(*w->words));
	for (i = 0; i < w->sectors; i++)
		w->words[i] = replay.parse(data + i * SECTOR, w->sector + i);
	free(data);
}

static void add_to_group(const struct log_entry *e)
{
	struct write w = {
		.sector = le64_to_cpu(e->sector),
		.sectors = le64_to_cpu(e->nr_sectors),
	};
	u64 end = w.sector + w.sectors;

	if (end > replay.base_sectors + replay.meta_sectors ||
	    (!is_meta(&w) && end > replay.base_sectors))
		die("a write to sectors %llu to %llu", w.sector, end);
	read_write(&w, le64_to_cpu(e->flags) & LOG_DISCARD);
	if (replay.nr_group == replay.max_group) {
		replay.max_group = 2 * replay.max_group + 64;
		replay.group = realloc(replay.group, replay.max_group * sizeof(*replay.group));
		if (!replay.group)
			die("no memory");
	}
	replay.group[replay.nr_group++] = w;
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
		if (replay.marks_acknowledge)
			end_group();
		replay.mark((char *)sector + sizeof(e));
		if (replay.marks_acknowledge)
			look();
		return;
	}
	/* FUA data is on the disk when it is acknowledged, as if flushed. */
	replay.flushes += !!(flags & LOG_FLUSH);
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

	replay.next_sector = 0;
	replay.log = open(path, O_RDONLY | O_CLOEXEC);
	if (replay.log < 0)
		die("cannot open '%s': %s", path, strerror(errno));
	read_log(sector, 1);
	memcpy(&super, sector, sizeof(super));
	if (le64_to_cpu(super.magic) != LOG_MAGIC ||
	    le64_to_cpu(super.version) != LOG_VERSION ||
	    le32_to_cpu(super.sectorsize) != SECTOR)
		die("'%s' holds no log that we know", path);
	return le64_to_cpu(super.nr_entries);
}

void replay_scan(const char *path, void (*mark)(const char *text))
{
	u64 entries = open_log(path), i;

	for (i = 0; i < entries; i++) {
		u8 sector[SECTOR + 1] = {};
		struct log_entry e;

		read_log(sector, 1);
		memcpy(&e, sector, sizeof(e));
		if (le64_to_cpu(e.flags) & LOG_MARK)
			mark((char *)sector + sizeof(e));
		else if (!(le64_to_cpu(e.flags) & LOG_DISCARD))
			replay.next_sector += le64_to_cpu(e.nr_sectors);
	}
	close(replay.log);
}

void replay_log(const char *path)
{
	u64 entries = open_log(path);

	printf("seed %llu, %llu entries\n", replay.seed, entries);
	replay.random = replay.seed;
	replay.words = zalloc(replay.base_sectors, sizeof(*replay.words));
	/* Whatever it was, it is no word of what is in the log. */
	memset(replay.words, 0xff, replay.base_sectors * sizeof(*replay.words));
	replay.meta = zalloc(replay.meta_sectors, SECTOR);
	for (replay.entry = 0; replay.entry < entries; replay.entry++)
		do_entry();
	end_group();
	printf("%llu points, %llu of them random subsets; %llu flushes\n", replay.points,
	       replay.subsets, replay.flushes);
}
