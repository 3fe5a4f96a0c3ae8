// SPDX-License-Identifier: GPL-2.0
/*
 * What the target and the disks say of a volume, compared with the model. The code of the
 * target (kernel/format.c), which has tests of its own, reads the disks.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/fs.h>

#include <linux/kernel.h>
#include <linux/types.h>

#include "kernel/format.h"

#include "model.h"

/*
 * ---- the target ----
 */

static bool follows(struct place a, uint64_t len, struct place b)
{
	if (a.kind != 'p' && a.kind != 'k')
		return a.kind == b.kind;
	/* What is behind the last slot of a pack is in no run. */
	return a.kind == b.kind && a.block + len == b.block &&
	       (a.kind == 'p' || b.block % SEG_BLOCKS);
}

static bool parse_place(const char **text, struct place *place)
{
	char *end;

	place->kind = *(*text)++;
	place->block = 0;
	if (place->kind == 'b' || place->kind == 'z')
		return true;
	if (place->kind != 'p' && place->kind != 'k')
		return false;
	place->block = strtoull(*text, &end, 16);
	if (end == *text)
		return false;
	if (place->kind == 'k') {
		uint64_t slot;

		if (*end != '.')
			return false;
		slot = strtoull(end + 1, &end, 16);
		if (slot >= SEG_BLOCKS)
			return false;
		place->block = place->block * SEG_BLOCKS + slot;
	}
	*text = end;
	return true;
}

struct range {
	uint64_t first;
	uint64_t len;
	struct place place;
};

/* The next range of @text, which must begin at block @at. */
static bool parse_range(const char **text, uint64_t at, struct range *range)
{
	char *end;

	range->first = strtoull(*text, &end, 16);
	if (end == *text || *end != ',' || range->first != at)
		return false;
	*text = end + 1;
	range->len = strtoull(*text, &end, 16);
	if (end == *text || *end != ',' || !range->len)
		return false;
	*text = end + 1;
	return parse_place(text, &range->place);
}

/* One answer, for blocks from @first to @end: returns the next block. */
static uint64_t parse_table(const char *text, uint64_t first, uint64_t end,
			    struct place *places)
{
	const char *reply = text;
	struct range range, before = { 0 };
	uint64_t at = first, i;

	do {
		if (text > reply && *text++ != ';')
			die("'table' gave '%.200s'", reply);
		if (!parse_range(&text, at, &range) || range.len > end - at)
			die("'table' for blocks %#" PRIx64 " to %#" PRIx64 " gave '%.200s'",
			    first, end, reply);
		if (before.len && follows(before.place, before.len, range.place))
			die("'table' gave two ranges for one at %#" PRIx64 ": '%.200s'", at,
			    reply);
		for (i = 0; i < range.len; i++)
			places[i] = nth(range.place, i);
		places += range.len;
		at += range.len;
		before = range;
	} while (*text == ';');
	if (*text != ' ' || strtoull(text + 1, NULL, 10) != at)
		die("'table' ends at block %" PRIu64 " with '%.200s'", at, text);
	return at;
}

void ask_table(uint64_t first, uint64_t nr, struct place *places)
{
	uint64_t at = first, end = first + nr;
	char reply[16384];

	while (at < end) {
		must(dm_ask(VOL, reply, sizeof(reply), "table %" PRIu64 " %" PRIu64, at,
			    end - at), "ask for the table");
		at = parse_table(reply, at, end, places + (at - first));
	}
}

/* One answer of places in the pool only: mark their blocks. Returns the next block. */
static uint64_t parse_filtered(const char *text, uint64_t first, uint64_t end,
			       struct place *places)
{
	const char *reply = text;
	uint64_t at = first, i;
	struct range range;

	while (*text != '-' && *text != ' ') {
		at = strtoull(text, NULL, 16);
		if (at < first || !parse_range(&text, at, &range) ||
		    !is_in_pool(range.place) || at + range.len > end ||
		    (*text != ';' && *text != ' '))
			die("'table' of the pool gave '%.200s'", reply);
		for (i = 0; i < range.len; i++)
			places[at + i] = nth(range.place, i);
		first = at + range.len;
		text += *text == ';';
	}
	text += *text == '-';
	at = strtoull(text, NULL, 10);
	if (*text != ' ' || at < first || at > end)
		die("'table' of the pool ends with '%.200s'", text);
	return at;
}

/*
 * Ask for the blocks in a part of the pool. They must be those that the whole table has there;
 * if blocks are going home, these without some.
 */
static void check_filtered(const struct place *places, uint64_t *rng, bool hydrating)
{
	uint64_t end = c.b.pool_nr + c.b.nr_packs * PACK_ROOM;
	/* Often it begins or ends among the packs. */
	uint64_t from = one_in(rng, 3) ? c.b.pool_nr : below(rng, end);
	uint64_t len = below(rng, end - from + 1);
	struct place *found = calloc(c.b.nr + 1, sizeof(*found));
	uint64_t at = 0, i;
	char reply[16384];

	if (!found)
		die("no memory");
	do {
		must(dm_ask(VOL, reply, sizeof(reply), "table %" PRIu64 " %" PRIu64 " %" PRIu64
			    " %" PRIu64, at, c.b.nr - at, from, len),
		     "ask for the places in a part of the pool");
		at = parse_filtered(reply, at, c.b.nr, found);
	} while (at < c.b.nr);
	for (i = 0; i < c.b.nr; i++) {
		/* All that is known of a pack is where it begins, and how long it may be. */
		bool packed = places[i].kind == 'k';
		uint64_t at = places[i].block / (packed ? SEG_BLOCKS : 1);
		bool want = is_in_pool(places[i]) && at < from + len &&
			at + (packed ? SEG_BLOCKS : 1) > from;

		if (found[i].kind ? want && is_same(found[i], places[i]) :
		    !want || hydrating)
			continue;
		die("MISS: 'table' of %" PRIu64 " blocks of the pool from %#" PRIx64
		    " has block %#" PRIx64 " at '%c%" PRIx64 "', the whole table at '%c%" PRIx64
		    "'", len, from, i, found[i].kind ? found[i].kind : '-', found[i].block,
		    places[i].kind, places[i].block);
	}
	free(found);
}

void place_to_text(struct place place, char *text, size_t size)
{
	if (place.kind == 'p')
		snprintf(text, size, "p%" PRIx64, place.block);
	else if (place.kind == 'k')
		snprintf(text, size, "k%" PRIx64 ".%x", place.block / SEG_BLOCKS,
			 (unsigned int)(place.block % SEG_BLOCKS));
	else
		snprintf(text, size, "%c", place.kind);
}

void ask_status(struct status *s)
{
	char line[256], frozen[32];
	uint64_t segs;

	must(dm_status(VOL, line, sizeof(line)), "get the status");
	if (sscanf(line, "1 %" SCNu64 " %31s %*u %" SCNu64 "/%" SCNu64 " %" SCNu64 " %" SCNu64
		   " %" SCNu64 " %" SCNu64 " %15s %15s %15s %" SCNu64 " %" SCNu64
		   " %*u %" SCNu64, &s->epoch,
		   frozen, &s->dirty, &segs, &s->base, &s->zero, &s->pool, &s->left, s->tracking,
		   s->mode, s->hydrate, &s->waiting, &s->page_reads,
		   &s->groups_read) != 14)
		die("cannot understand the status line '%s'", line);
	s->frozen = strcmp(frozen, "-");
	if (segs != c.b.segs || strcmp(s->tracking, "ok") || strcmp(s->mode, "rw") ||
	    s->base + s->zero + s->pool != c.b.nr)
		die("MISS: %" PRIu64 " segments, %" PRIu64 " blocks, and the status is '%s'",
		    c.b.segs, c.b.nr, line);
}

/*
 * ---- the metadata on disk ----
 */

static void read_meta(uint64_t nr, void *block)
{
	static void *buf;

	if (!buf)
		buf = xalloc(DMR_BLOCK_SIZE);
	if (pread(c.meta_fd, buf, DMR_BLOCK_SIZE, nr * DMR_BLOCK_SIZE) != DMR_BLOCK_SIZE)
		die("cannot read the metadata");
	memcpy(block, buf, DMR_BLOCK_SIZE);
}

static void read_super(struct dmr_super *super)
{
	union {
		struct dmr_super_disk disk;
		char block[DMR_BLOCK_SIZE];
	} a, b;
	struct dmr_super sa, sb;
	uint64_t bytes, last;
	const char *why;
	int ra, rb;

	if (ioctl(c.meta_fd, BLKGETSIZE64, &bytes))
		die("cannot get the size of the metadata device");
	last = bytes / DMR_BLOCK_SIZE - 1;
	read_meta(0, &a);
	read_meta(last, &b);
	ra = dmr_super_unpack(&a.disk, 0, &sa, &why);
	rb = dmr_super_unpack(&b.disk, last, &sb, &why);
	if (ra || rb || dmr_super_choose(&sa, ra, &sb, rb, super))
		die("MISS: a superblock is damaged");
}

static struct place entry_place(struct dmr_entry entry)
{
	static const char kinds[DMR_NR_KINDS] = { '?', 'b', 'z', 'p', 'k' };
	struct place place = { .kind = kinds[entry.kind], .block = entry.block };

	if (!dmr_entry_in_pool(entry))
		place.block = 0;
	return place;
}

/*
 * Read block @nr, until all of its entries are valid. Somebody may be writing the
 * same again just now, and a memory that is read meanwhile gives a part of each.
 */
static void read_entries(const struct dmr_super *super, bool word, uint64_t nr, uint64_t index,
			 unsigned int count, struct dmr_entry *entries)
{
	u32 seed = dmr_seed(super->meta_uuid);
	__le64 values[DMR_SEG_BLOCKS];
	unsigned int tries, i;

	for (tries = 0; tries < 100; tries++) {
		read_meta(nr, values);
		for (i = 0; i < count; i++)
			if (!dmr_entry_unpack(seed, word, index + i, le64_to_cpu(values[i]),
					      &entries[i]))
				break;
		if (i == count)
			return;
		usleep(1000);
	}
	die("MISS: on disk the %s %#" PRIx64 " is damaged: %#" PRIx64,
	    word ? "word of segment" : "entry of block", index + i,
	    (uint64_t)le64_to_cpu(values[i]));
}

/* What a crash would leave of the segment. */
static void read_disk_seg(const struct dmr_super *super, uint64_t seg, struct place *places)
{
	uint64_t first = seg / SEG_BLOCKS * SEG_BLOCKS, i;
	struct dmr_entry entries[DMR_SEG_BLOCKS], entry;

	read_entries(super, true, dmr_word_block(seg), first, seg - first + 1, entries);
	entry = entries[seg - first];
	if (entry.kind == DMR_PAGE) {
		read_entries(super, false, dmr_page_block(seg), seg * SEG_BLOCKS, SEG_BLOCKS,
			     entries);
		for (i = 0; i < SEG_BLOCKS; i++)
			places[i] = entry_place(entries[i]);
		return;
	}
	for (i = 0; i < SEG_BLOCKS; i++)
		places[i] = entry_place(dmr_entry_plus(entry, i));
}

static uint64_t seg_blocks(uint64_t seg)
{
	uint64_t left = c.b.nr - seg * SEG_BLOCKS;

	return left < SEG_BLOCKS ? left : SEG_BLOCKS;
}

/* The disk must say what the target said, as that comes after a settle. */
static void check_disk_seg(const struct dmr_super *super, uint64_t seg,
			   const struct place *places)
{
	struct place disk[SEG_BLOCKS];
	uint64_t i;

	for (i = 0; i < SEG_BLOCKS; i++)
		disk[i] = (struct place){ .kind = 'b' };
	if (!(super->flags & DMR_FLAG_LINEAR_OK))
		read_disk_seg(super, seg, disk);
	for (i = 0; i < seg_blocks(seg); i++) {
		char is[32], must_be[32];

		if (is_same(disk[i], places[i]))
			continue;
		place_to_text(disk[i], is, sizeof(is));
		place_to_text(places[i], must_be, sizeof(must_be));
		die("MISS: block %#" PRIx64 " is at %s on disk%s, and at %s says the target",
		    seg * SEG_BLOCKS + i, is,
		    super->flags & DMR_FLAG_LINEAR_OK ? " (which says that all are)" : "", must_be);
	}
	came_up(H_DISK);
}

/*
 * ---- content ----
 */

/* What is said by @places may be, and from now on we know. */
static void take_places(uint64_t first, uint64_t nr, const struct place *places)
{
	uint64_t i, block;
	char text[32];

	for (i = 0; i < nr; i++) {
		block = first + i;
		place_to_text(places[i], text, sizeof(text));
		if (places[i].kind != 'b' && blocks_content(&c.b, places[i]) == NO_BLOCK)
			die("MISS: block %#" PRIx64 " is at %s, where nothing is", block, text);
		if (!may_be(&c.b, block, places[i]))
			die("MISS: block %#" PRIx64 " is at %s; possible is %#" PRIx64
			    " (see MAY_BASE)", block, text, may_get(&c.b, block));
		if (places[i].kind != 'b' && !blocks_explains(&c.b, block, places[i]))
			die("MISS: block %#" PRIx64 " is at %s, which is not its content", block,
			    text);
		if (places[i].kind == 'b' && (may_get(&c.b, block) & MAY_AWAY) &&
		    atomic_load(&c.b.going_home))
			came_up(H_HYDRATED);
		may_pin(&c.b, block, places[i]);
	}
}

static void check_words(uint64_t first, uint64_t sectors, const uint64_t *words,
			const struct place *places, bool base)
{
	char text[32];
	uint64_t i;

	for (i = 0; i < sectors; i++) {
		struct place place = places[i / BLOCK_SECTORS];

		if ((base && place.kind != 'b') || words[i] == c.b.word[first + i])
			continue;
		place_to_text(place, text, sizeof(text));
		die("MISS: %s sector %" PRIu64 " (block %#" PRIx64 ", at %s) is %#" PRIx64
		    ", and must be %#" PRIx64, base ? "on the base," : "", first + i,
		    (first + i) / BLOCK_SECTORS, text, words[i], c.b.word[first + i]);
	}
}

static void check_seg(uint64_t seg, const struct dmr_super *super)
{
	static uint64_t words[SEG_SECTORS];
	static struct place places[SEG_BLOCKS];
	uint64_t first = seg * SEG_BLOCKS, nr = seg_blocks(seg);
	uint64_t sectors = c.b.sectors - seg * SEG_SECTORS;

	if (sectors > SEG_SECTORS)
		sectors = SEG_SECTORS;
	ask_table(first, nr, places);
	must(read_words(c.fd, seg * SEG_SECTORS, sectors, words), "read the volume");
	check_words(seg * SEG_SECTORS, sectors, words, places, false);
	must(read_words(c.base_fd, seg * SEG_SECTORS, sectors, words), "read the base");
	check_words(seg * SEG_SECTORS, sectors, words, places, true);
	take_places(first, nr, places);
	if (super)
		check_disk_seg(super, seg, places);
}

void check_segs(uint64_t first, uint64_t nr)
{
	bool going_home = atomic_load(&c.b.going_home);
	struct dmr_super super;

	if (!going_home)
		read_super(&super);
	for (; nr-- && first < c.b.segs; first++)
		check_seg(first, going_home ? NULL : &super);
	came_up(H_CHECK);
}

/*
 * ---- the whole ----
 */

/* Add what has come since the last look, which was *@before. It begins anew with each device. */
static void count_since(enum hard what, uint64_t now, uint64_t *before)
{
	if (now < *before)
		*before = 0;
	c.hard[what] += now - *before;
	*before = now;
}

static void check_counts(const struct place *places)
{
	static uint64_t page_reads, groups_read;
	uint64_t nr[128] = { 0 }, i, left, pool;
	struct status status;

	for (i = 0; i < c.b.nr; i++)
		nr[(unsigned char)places[i].kind]++;
	ask_status(&status);
	count_since(H_PAGE_READ, status.page_reads, &page_reads);
	count_since(H_GROUP_READ, status.groups_read, &groups_read);
	pool = nr['p'] + nr['k'];
	left = strcmp(status.hydrate, "off") ? nr['z'] + pool : 0;
	if (nr['b'] != status.base || nr['z'] != status.zero || pool != status.pool ||
	    left != status.left || status.waiting)
		die("MISS: %" PRIu64 " blocks are BASE, %" PRIu64 " ZERO, %" PRIu64
		    " in the pool, %" PRIu64 " left; the status says %" PRIu64 ", %" PRIu64
		    ", %" PRIu64 ", %" PRIu64 ", and %" PRIu64 " segments are waiting",
		    nr['b'], nr['z'], pool, left, status.base, status.zero, status.pool,
		    status.left, status.waiting);
}

void check_table(uint64_t *rng, bool hydrating)
{
	static struct place *places;

	if (!places)
		places = xalloc((c.b.max_sectors / BLOCK_SECTORS + 1) * sizeof(*places));
	ask_table(0, c.b.nr, places);
	take_places(0, c.b.nr, places);
	check_filtered(places, rng, hydrating);
	if (!hydrating)
		check_counts(places);
}

static void ask_dirty(bool *dirty)
{
	uint64_t first = 0, start, len, total = 0;
	char reply[16384], *p, *q;
	struct status status;

	while (first < c.b.segs) {
		must(dm_ask(VOL, reply, sizeof(reply), "dirty current %" PRIu64 " 100000",
			    first), "ask for dirty segments");
		p = strchr(reply, ' ');
		if (!p)
			die("'dirty' gave '%s'", reply);
		first = strtoull(p, NULL, 10);
		*p = '\0';
		for (p = strtok_r(reply, ";", &q); p && *p != '-'; p = strtok_r(NULL, ";", &q)) {
			if (sscanf(p, "%" SCNx64 ",%" SCNx64, &start, &len) != 2 ||
			    start + len > c.b.segs)
				die("'dirty' gave '%s'", p);
			for (; len--; total++)
				dirty[start++] = true;
		}
	}
	ask_status(&status);
	if (status.dirty != total)
		die("MISS: %" PRIu64 " segments are dirty, the status says %" PRIu64, total,
		    status.dirty);
}

/* Moving a block does not make it dirty, and changing it does. */
void check_dirty(void)
{
	bool *dirty = calloc(c.b.segs, sizeof(*dirty));
	uint64_t seg;

	if (!dirty)
		die("no memory");
	ask_dirty(dirty);
	for (seg = 0; seg < c.b.segs; seg++) {
		if (!dirty[seg] && atomic_load(&c.touched[seg]))
			die("MISS: segment %" PRIu64 " has changed and is not dirty", seg);
		if (dirty[seg] && !atomic_load(&c.touched[seg]) &&
		    !atomic_load(&c.may_be_touched[seg]))
			die("MISS: segment %" PRIu64 " is dirty, and nobody touched it", seg);
	}
	free(dirty);
}
