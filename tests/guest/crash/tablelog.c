// SPDX-License-Identifier: GPL-2.0
/*
 * Replay a log of dm-log-writes and see at each point (replay.h) that the table on
 * disk, the base and the pool give a volume that may be.
 *
 *   tablelog [--seed S] LOG JOURNAL
 *
 * JOURNAL is what `tablecrash --log` wrote: a line for each event, in the order in
 * which they happened.
 *
 *   V BASE_SECTORS META_SECTORS POOL_BLOCKS PACKS PACK_ROOM
 *   I FIRST N 0 WORD      sectors of the volume hold that, stable
 *   W FIRST N STAMP 0     a write to them begins
 *   Z FIRST N STAMP 0     a write of zeros, or a discard
 *   S FIRST N STAMP 0     what they hold is at least as new as this write
 *   P FIRST N STAMP WORD  they are to be replaced by something else (oracle_plan)
 *   R 0 0 STAMP 0         so they have been, and that is stable
 *   Q BLOCK WORD...       a block of the pool is written; a word for each sector
 *
 * Behind the blocks of the pool are packs, each in PACK_ROOM blocks. Their slots are counted as
 * blocks behind POOL_BLOCKS.
 *
 * Words and stamps are those of oracle.h. A mark "events=N" in the log says that N
 * lines had been written when it was made. So between two marks all that began
 * before the second may have happened, and what was stable at the first must be
 * there. Nobody writes to a block of the pool that a table on disk may name.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc.h"
#include "oracle.h"
#include "replay.h"

#define BLOCK_SECTORS	DMR_BLOCK_SECTORS

struct event {
	char kind;
	u64 first;
	u64 nr;
	u32 stamp;
	u32 word;
	u32 *words;			/* of a Q */
};

/* What came there by something else than a write, and when. */
struct placed {
	u32 word;
	u32 stamp;
};

struct pool_block {
	u32 words[DMR_BLOCK_SECTORS];
};

static struct {
	struct event *events;
	u64 nr_events;
	u64 max_events;
	u64 *marks;			/* how many events each of them knew */
	u64 nr_marks;
	u64 max_marks;
	u64 next_mark;
	u64 begun;			/* events that may have begun */
	u64 ended;			/* events that were over */

	/* The volume's sectors. */
	u32 *stable;			/* not older than this */
	u32 *zeroed;			/* stamp of the last write of zeros */
	struct placed *placed;
	struct placed *before;		/* what was placed before that */
	u32 last_plan;			/* its stamp */

	/* So that we need not look again at segments in which nothing has changed. */
	bool *touched;
	__le64 *checked_words;
	__le64 *checked_pages;
	u32 checked_flags;

	u64 pool_blocks;
	u64 nr_packs;
	u64 pack_room;
	struct pool_block *pool;
} t;

static struct {
	u64 sectors, away, packed, incomplete;
} count;

static void *grow(void *array, u64 *max, size_t size)
{
	*max = 2 * *max + 64;
	array = realloc(array, *max * size);
	if (!array)
		die("no memory");
	return array;
}

/*
 * ---- the journal ----
 */

static bool read_event(const char *line, struct event *e)
{
	u32 w[DMR_BLOCK_SECTORS];

	memset(e, 0, sizeof(*e));
	if (sscanf(line, "Q %llu %u %u %u %u %u %u %u %u", &e->first, &w[0], &w[1], &w[2],
		   &w[3], &w[4], &w[5], &w[6], &w[7]) == 9) {
		e->kind = 'Q';
		e->words = zalloc(1, sizeof(w));
		memcpy(e->words, w, sizeof(w));
		return e->first < t.pool_blocks + t.nr_packs * DMR_SEG_BLOCKS;
	}
	return sscanf(line, "%c %llu %llu %u %u", &e->kind, &e->first, &e->nr, &e->stamp,
		      &e->word) == 5 &&
	       e->first <= replay.base_sectors && e->nr <= replay.base_sectors - e->first;
}

static void read_journal(const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		die("cannot open '%s': %s", path, strerror(errno));
	if (getline(&line, &size, file) < 0 ||
	    sscanf(line, "V %llu %llu %llu %llu %llu", &replay.base_sectors,
		   &replay.meta_sectors, &t.pool_blocks, &t.nr_packs, &t.pack_room) != 5)
		die("'%s' is no journal", path);
	while (getline(&line, &size, file) > 0) {
		if (t.nr_events == t.max_events)
			t.events = grow(t.events, &t.max_events, sizeof(*t.events));
		if (!read_event(line, &t.events[t.nr_events++]))
			die("in '%s': %s", path, line);
	}
	free(line);
	fclose(file);
}

static void touch_all(void)
{
	memset(t.touched, true, dmr_nr_segs(replay.base_sectors));
}

static void has_changed(u64 sector, u64 old)
{
	(void)old;
	t.touched[sector >> DMR_SEG_SECTOR_SHIFT] = true;
}

static void place(const struct event *e, u64 s)
{
	t.before[s] = t.placed[s];
	t.placed[s] = (struct placed){ e->word, e->stamp };
}

/* It may have happened. */
static void begin_event(const struct event *e)
{
	u64 s;

	if (e->kind == 'Q') {
		memcpy(&t.pool[e->first], e->words, sizeof(t.pool[0]));
		touch_all();
	}
	if (e->kind == 'P')
		t.last_plan = e->stamp;
	for (s = e->first; s < e->first + e->nr; s++) {
		if (e->kind == 'P')
			place(e, s);
		else if (e->kind == 'Z')
			t.zeroed[s] = e->stamp;
	}
}

/* It is over. */
static void end_event(const struct event *e)
{
	u64 s;

	if (e->kind == 'R')
		touch_all();
	for (s = e->first; s < e->first + e->nr; s++) {
		t.touched[s >> DMR_SEG_SECTOR_SHIFT] = true;
		if (e->kind == 'I')
			t.stable[s] = e->word;
		else if (e->kind == 'S' && t.stable[s] < e->stamp)
			t.stable[s] = e->stamp;
	}
	for (s = 0; e->kind == 'R' && s < replay.base_sectors; s++)
		if (t.placed[s].stamp == e->stamp)
			t.stable[s] = e->stamp;
}

/* False: it is none of ours. */
static bool read_mark(const char *text, u64 *nr)
{
	if (sscanf(text, "events=%llu", nr) != 1)
		return false;
	if (*nr > t.nr_events)
		die("a mark that the journal does not know: '%s'", text);
	return true;
}

static void scan_mark(const char *text)
{
	u64 nr;

	if (!read_mark(text, &nr))
		return;
	if (t.nr_marks == t.max_marks)
		t.marks = grow(t.marks, &t.max_marks, sizeof(*t.marks));
	t.marks[t.nr_marks++] = nr;
}

static void begin_until(u64 nr)
{
	for (; t.begun < nr; t.begun++)
		begin_event(&t.events[t.begun]);
}

static void do_mark(const char *text)
{
	u64 nr;

	if (!read_mark(text, &nr))
		return;
	t.next_mark++;
	begin_until(t.next_mark < t.nr_marks ? t.marks[t.next_mark] : t.nr_events);
	for (; t.ended < nr; t.ended++)
		end_event(&t.events[t.ended]);
}

/*
 * ---- the volume ----
 */

static bool was_placed(struct placed placed, u64 s, u32 word)
{
	return placed.stamp && placed.stamp >= t.stable[s] && same_content(placed.word, word);
}

static bool is_possible(u64 s, u32 word)
{
	if (word == WORD_GARBAGE)
		return false;
	if (was_placed(t.placed[s], s, word) || was_placed(t.before[s], s, word))
		return true;
	if (word & WORD_ZERO)
		return t.zeroed[s] >= t.stable[s];
	return !(word & WORD_POOL) && word >= t.stable[s];
}

/* The number of what is at @place, if the pool has that. */
static u64 pool_index(struct dmr_entry place)
{
	u64 head = dmr_entry_pool_block(place) - t.pool_blocks;

	if (place.kind == DMR_POOL)
		return place.block;
	if (dmr_entry_pool_block(place) < t.pool_blocks || head % t.pack_room)
		return U64_MAX;
	return t.pool_blocks + head / t.pack_room * DMR_SEG_BLOCKS + dmr_entry_slot(place);
}

static bool is_there(struct dmr_entry place)
{
	u64 end = t.pool_blocks + (place.kind == DMR_PACK ? t.nr_packs * DMR_SEG_BLOCKS : 0);

	return !dmr_entry_in_pool(place) || pool_index(place) < end;
}

static u32 word_at(struct dmr_entry place, u64 s)
{
	if (place.kind == DMR_BASE)
		return replay.words[s];
	if (place.kind == DMR_ZERO)
		return WORD_ZERO;
	return t.pool[pool_index(place)].words[s % BLOCK_SECTORS];
}

static const char *kind_text(struct dmr_entry place)
{
	return place.kind == DMR_BASE ? "the base" : place.kind == DMR_ZERO ? "zeros" :
	       place.kind == DMR_PACK ? "a pack" : "the pool";
}

static void check_block(const struct dmr_super *super, u64 block, struct dmr_entry place)
{
	u64 s = block * BLOCK_SECTORS, end = s + BLOCK_SECTORS;

	if (!is_there(place))
		miss("block %llu is in %s at %llu, where nothing is", block, kind_text(place),
		     place.block);
	count.away += place.kind != DMR_BASE;
	count.packed += place.kind == DMR_PACK;
	for (; s < end && s < replay.base_sectors; s++) {
		/* What the batch that is not over has to say of it. */
		if ((super->flags & DMR_FLAG_INCOMPLETE) && t.placed[s].stamp == t.last_plan)
			continue;
		if (!is_possible(s, word_at(place, s)))
			miss("block %llu is at %s (%llu), where sector %llu is %s; stable is write %u or later, zeroed by %u, placed was %s by %u",
			     block, kind_text(place), place.block, s,
			     word_text(word_at(place, s)), t.stable[s], t.zeroed[s],
			     word_text(t.placed[s].word), t.placed[s].stamp);
		count.sectors++;
	}
}

static struct dmr_entry unpack(u32 seed, bool is_word, u64 index, const __le64 *entries)
{
	struct dmr_entry entry;

	if (!dmr_entry_unpack(seed, is_word, index,
			      le64_to_cpu(entries[index % DMR_SEG_BLOCKS]), &entry))
		miss("%s %llu of the table is damaged", is_word ? "word" : "entry", index);
	return entry;
}

/* Did its entries change since the last look? Remember them. */
static bool entries_changed(u64 seg)
{
	const __le64 *words = meta_block(dmr_word_block(seg));
	const void *page = meta_block(dmr_page_block(seg));
	void *old_page = t.checked_pages + seg * DMR_SEG_BLOCKS;
	bool changed = t.checked_words[seg] != words[seg % DMR_SEG_BLOCKS] ||
		       memcmp(old_page, page, DMR_BLOCK_SIZE);

	t.checked_words[seg] = words[seg % DMR_SEG_BLOCKS];
	if (changed)
		memcpy(old_page, page, DMR_BLOCK_SIZE);
	return changed;
}

static void check_seg(const struct dmr_super *super, u64 seg)
{
	struct dmr_entry word = { .kind = DMR_BASE }, place;
	u32 seed = dmr_seed(super->meta_uuid);
	u64 nr_blocks = (replay.base_sectors + BLOCK_SECTORS - 1) / BLOCK_SECTORS, i;

	if (!(super->flags & DMR_FLAG_LINEAR_OK))
		word = unpack(seed, true, seg, meta_block(dmr_word_block(seg)));
	for (i = seg * DMR_SEG_BLOCKS; i < (seg + 1) * DMR_SEG_BLOCKS && i < nr_blocks; i++) {
		place = word;
		if (word.kind == DMR_PAGE)
			place = unpack(seed, false, i, meta_block(dmr_page_block(seg)));
		else
			place = dmr_entry_plus(word, i % DMR_SEG_BLOCKS);
		check_block(super, i, place);
	}
}

static void look(void)
{
	struct dmr_super super;
	u64 seg;

	/* From the first mark on we know what the base held before. */
	if (!t.next_mark || !read_super(&super))
		return;
	count.incomplete += !!(super.flags & DMR_FLAG_INCOMPLETE);
	if (super.flags != t.checked_flags)
		touch_all();
	t.checked_flags = super.flags;
	for (seg = 0; seg < dmr_nr_segs(replay.base_sectors); seg++) {
		if (entries_changed(seg) || t.touched[seg])
			check_seg(&super, seg);
		t.touched[seg] = false;
	}
}

static u64 parse(const u8 *data, u64 sector)
{
	return parse_sector(data, sector);
}

/*
 * ---- main ----
 */

static const char *parse_args(int argc, char **argv)
{
	char **words = replay_args(argc, argv, 2, "LOG JOURNAL");

	read_journal(words[1]);
	return words[0];
}

int main(int argc, char **argv)
{
	const char *path = parse_args(argc, argv);
	u64 nr_segs = dmr_nr_segs(replay.base_sectors);

	t.stable = zalloc(replay.base_sectors, sizeof(*t.stable));
	t.zeroed = zalloc(replay.base_sectors, sizeof(*t.zeroed));
	t.placed = zalloc(replay.base_sectors, sizeof(*t.placed));
	t.before = zalloc(replay.base_sectors, sizeof(*t.before));
	t.pool = zalloc(t.pool_blocks + t.nr_packs * DMR_SEG_BLOCKS, sizeof(*t.pool));
	t.touched = zalloc(nr_segs, sizeof(*t.touched));
	t.checked_words = zalloc(nr_segs, sizeof(*t.checked_words));
	t.checked_pages = zalloc(nr_segs, DMR_BLOCK_SIZE);
	replay_scan(path, scan_mark);
	if (t.nr_marks)
		begin_until(t.marks[0]);

	replay.parse = parse;
	replay.changed = has_changed;
	replay.look = look;
	replay.mark = do_mark;
	replay.every = 8;
	replay_log(path);

	printf("%llu marks, %llu events; %llu sectors checked, %llu blocks not on the base, %llu in packs, %llu points within a batch\n",
	       t.nr_marks, t.nr_events, count.sectors, count.away, count.packed,
	       count.incomplete);
	if (!count.sectors || !count.away || !count.packed) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
