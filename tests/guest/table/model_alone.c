// SPDX-License-Identifier: GPL-2.0
/*
 * Steps for which the threads are stopped. See model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model_steps.h"

static void touch(uint64_t first, uint64_t nr)
{
	uint64_t seg;

	for (seg = first / SEG_BLOCKS; nr && seg <= (first + nr - 1) / SEG_BLOCKS; seg++)
		atomic_store(&c.touched[seg], true);
}

/* What is on the base there is what the volume holds. */
static void adopt_base(uint64_t first, uint64_t nr)
{
	const struct place base = { .kind = 'b' };
	uint64_t at = first * BLOCK_SECTORS, end = (first + nr) * BLOCK_SECTORS, n;

	for (; first < at / BLOCK_SECTORS + nr; first++)
		may_pin(&c.b, first, base);
	if (end > c.b.sectors)
		end = c.b.sectors;
	for (; at < end; at += n) {
		n = end - at < SEG_SECTORS ? end - at : SEG_SECTORS;
		must(read_words(c.base_fd, at, n, c.b.word + at), "read the base");
	}
}

static void set_place(uint64_t first, uint64_t nr, struct place place)
{
	uint64_t i, s;

	touch(first, nr);
	if (place.kind == 'b') {
		adopt_base(first, nr);
		return;
	}
	for (i = 0; i < nr; i++) {
		uint64_t content = blocks_content(&c.b, nth(place, i));

		may_pin(&c.b, first + i, nth(place, i));
		for (s = 0; s < block_sectors(&c.b, first + i); s++)
			c.b.word[(first + i) * BLOCK_SECTORS + s] = word_of_content(content, s);
	}
}

/* Some blocks that are in use, from @at on. */
static uint64_t next_used(uint64_t at, uint64_t *len)
{
	uint64_t half = c.window / 2, offset;

	if (c.window < SEG_BLOCKS) {
		/* A window is around the beginning of a segment: take the next. */
		at = ((at + half - 1) / SEG_BLOCKS + 1 + below(&rng, 2)) * SEG_BLOCKS;
		offset = below(&rng, c.window);
		*len = 1 + below(&rng, c.window - offset);
		return at - half + offset;
	}
	*len = 1 + below(&rng, one_in(&rng, 4) ? 200 : 8);
	return at + below(&rng, one_in(&rng, 2) ? 40 : 4);
}

/* The next range of a `set`: where, and where to. False: that was all. */
static bool choose_set(uint64_t *at, struct range *range)
{
	unsigned int dice = below(&rng, 8);
	uint64_t seg;

	range->first = next_used(*at, &range->len);
	seg = (range->first + SEG_BLOCKS - 1) / SEG_BLOCKS;
	if (seg < SMALL_SEGS && one_in(&rng, 10)) {
		range->first = seg * SEG_BLOCKS;
		range->len = SEG_BLOCKS * (1 + below(&rng, 3));
	}
	if (range->first >= c.b.nr)
		return false;
	if (range->len > c.b.nr - range->first)
		range->len = c.b.nr - range->first;
	range->to = (struct place){ .kind = dice < 5 ? 'p' : dice < 7 ? 'z' : 'b' };
	if (range->to.kind == 'p')
		range->to.block = below(&rng, c.b.pool_nr - range->len + 1);
	if (range->to.kind == 'p' && one_in(&rng, 2))
		choose_packed(&range->len, &range->to);
	if (range->len >= SEG_BLOCKS)
		came_up(range->to.kind == 'k' ? H_PACK_WHOLE : H_SET_SEG);
	*at = range->first + range->len;
	return true;
}

static void send_set(void)
{
	if (!message.nr)
		return;
	send_message();
	/* The same again is what a controller does that knows no better. */
	if (one_in(&rng, 8))
		send_message();
	begin_message("set");
}

void do_epoch(void)
{
	char text[64];
	uint64_t seg;

	if (!frozen) {
		suspend();
		snprintf(text, sizeof(text), "checkpoint %" PRIu64, ++epoch);
		send_text(text);
		frozen = true;
		for (seg = 0; seg < c.b.segs; seg++) {
			frozen_touched[seg] = c.touched[seg] | c.may_be_touched[seg];
			c.touched[seg] = false;
			c.may_be_touched[seg] = false;
		}
		resume();
	} else {
		bool commit = !one_in(&rng, 3);

		snprintf(text, sizeof(text), commit ? "commit %" PRIu64 " %" PRIu64 :
			 "abort %" PRIu64, epoch, epoch);
		frozen = false;
		hydration_may_run();
		send_text(text);
		for (seg = 0; !commit && seg < c.b.segs; seg++)
			if (frozen_touched[seg])
				c.may_be_touched[seg] = true;
	}
	hydration_may_run();
	check_dirty();
	came_up(H_EPOCH);
}

/* What was begun and not ended is begun again. */
static void begin_again(void)
{
	int r = dm_resume(VOL);

	if (r != -EUCLEAN)
		die("MISS: an incomplete table resumes, error %d (%s)", r, strerror(-r));
	send_text("begin");
	came_up(H_SET_AGAIN);
}

/* A part of the volume, or all of it, is now what we say. */
void do_set(void)
{
	uint64_t at = one_in(&rng, 2) ? 0 : pick_block(&rng);
	struct range range = { 0 };

	if (one_in(&rng, 8))
		refused(-EBUSY, "begin");
	/* After a checkpoint nothing else makes segments dirty. */
	if (!frozen && one_in(&rng, 3))
		do_epoch();
	suspend();
	if (one_in(&rng, 8))
		refused(-EINVAL, "set 0,1,z");
	send_text("begin");
	begin_message("set");
	while (choose_set(&at, &range)) {
		add_range(range);
		set_place(range.first, range.len, range.to);
		if (!has_room() || one_in(&rng, 200))
			send_set();
	}
	if (one_in(&rng, 2))
		begin_again();
	send_set();
	send_text("end");
	resume();
	came_up(H_SET);
	check_dirty();
}

static uint64_t choose_size(void)
{
	uint64_t max = c.b.max_sectors, size = max - below(&rng, max / 3);

	switch (below(&rng, 5)) {
	case 0:
		return max;
	case 1:
		return size;
	case 2:
		return size - size % BLOCK_SECTORS;
	case 3:
		return size - size % SEG_SECTORS;
	default:
		return size - size % SEG_SECTORS + 1 + below(&rng, 16);
	}
}

/*
 * The last block, if it ended within, has its rest now: from wherever it lies, or
 * from the base if it was copied there meanwhile.
 */
static void grow_last_block(uint64_t old_sectors, uint64_t old_nr)
{
	uint64_t n = old_nr * BLOCK_SECTORS - old_sectors, i;

	if (n > c.b.sectors - old_sectors)
		n = c.b.sectors - old_sectors;
	if (!n)
		return;
	must(read_words(c.fd, old_sectors, n, c.b.word + old_sectors), "read the volume");
	for (i = 0; i < n; i++)
		if (c.b.word[old_sectors + i] == WORD_GARBAGE)
			die("MISS: sector %" PRIu64 " is garbage", old_sectors + i);
}

void do_resize(void)
{
	uint64_t old = c.b.sectors, old_nr = c.b.nr, size = choose_size();
	uint64_t least = size < old ? size : old, seg;

	/* Where nothing is left, hydration ends, and a new size changes nothing. */
	atomic_store(&c.hot, 0);
	blocks_set_size(&c.b, size);
	load_table();
	suspend();
	resume();
	if (size > old) {
		grow_last_block(old, old_nr);
		if (c.b.nr > old_nr)
			adopt_base(old_nr, c.b.nr - old_nr);
		came_up(H_GROW);
	} else {
		came_up(H_SHRINK);
	}
	for (seg = (least + SEG_SECTORS - 1) / SEG_SECTORS; seg < c.b.segs; seg++) {
		atomic_store(&c.touched[seg], true);
		frozen_touched[seg] = false;
	}
	/* And one that now ends elsewhere. */
	if (least % SEG_SECTORS && size != old)
		atomic_store(&c.touched[least / SEG_SECTORS], true);
	check_dirty();
	check_segs(least / SEG_SECTORS, 2);
	if (c.b.segs > 2)
		check_segs(c.b.segs - 2, 2);
}

static void check_hydrate(void)
{
	struct status status;
	bool on;

	ask_status(&status);
	on = strcmp(status.hydrate, "off");
	if (on && !hydrating)
		die("MISS: it hydrates, and nobody said so");
	if (on && strcmp(status.hydrate, frozen ? "paused" : "on"))
		die("MISS: hydration is '%s'", status.hydrate);
	if (!on && hydrating) {
		/* It is over because there was nothing left. */
		hydrating = false;
		hydration_may_run();
	}
}

void do_anew(void)
{
	remove_volume();
	make_volume();
	came_up(H_ANEW);
	check_hydrate();
	check_table(&rng, atomic_load(&c.b.going_home));
	check_dirty();
}

void do_all_home(void)
{
	uint64_t end = now_us() + 120 * 1000000ULL, i;
	struct status status;

	if (frozen)
		do_epoch();
	hydrating = true;
	hydration_may_run();
	send_text("hydrate start");
	do {
		usleep(5000);
		ask_status(&status);
		if (now_us() > end)
			die("MISS: hydration does not end, %" PRIu64 " blocks are left",
			    status.left);
	} while (strcmp(status.hydrate, "off"));
	hydrating = false;
	hydration_may_run();
	check_table(&rng, false);
	for (i = 0; i < c.b.nr; i++)
		if (may_get(&c.b, i) != MAY_BASE)
			die("MISS: hydration is over, and block %#" PRIx64 " is not home", i);
	came_up(H_ALL_HOME);
}

void do_check(void)
{
	uint64_t seg = below(&rng, c.b.segs);

	check_hydrate();
	check_segs(seg, 1 + below(&rng, 12));
	if (one_in(&rng, 3))
		check_table(&rng, atomic_load(&c.b.going_home));
	check_dirty();
}

/* An alias that nobody disturbs is taken, and one that was written to is not. */
void do_quiet_alias(void)
{
	uint64_t block = pick_block(&rng), sectors = block_sectors(&c.b, block), i;
	uint64_t at = block * BLOCK_SECTORS, content = below(&rng, c.nr_contents);
	bool disturb = one_in(&rng, 2);
	struct place place;

	/* Home first. */
	for (i = 0; i < sectors; i++)
		c.b.word[at + i] = word_of_content(first_content(content), i);
	touch(block, 1);
	must(write_words(c.fd, at, sectors, c.b.word + at), "write");
	may_pin(&c.b, block, (struct place){ .kind = 'b' });
	watch(block, 1);
	find_aliases(block, 1);
	if (!message.nr)
		return;
	if (disturb) {
		i = below(&rng, sectors);
		c.b.word[at + i] = word_of_write(1, at + i);
		must(write_words(c.fd, at + i, 1, c.b.word + at + i), "write");
	} else {
		may_pin(&c.b, block, message.ranges[0].to);
	}
	send_message();
	ask_table(block, 1, &place);
	if (!may_be(&c.b, block, place))
		die("MISS: block %#" PRIx64 " %s, and is at %c after '%s'", block,
		    disturb ? "was written to" : "was left alone", place.kind, message.text);
	check_segs(block / SEG_BLOCKS, 1);
	came_up(H_ALIAS_QUIET);
}

/*
 * Make a segment what the pool has in a row, and alias it whole. With a block that was
 * written to meanwhile only the others move.
 */
void do_quiet_alias_seg(void)
{
	/* The last one may be short, and begin in the middle of a pack. */
	uint64_t seg = one_in(&rng, 4) ? c.b.segs - 1 : below(&rng, c.b.segs);
	uint64_t first = seg * SEG_BLOCKS, i;
	uint64_t nr = c.b.nr - first < SEG_BLOCKS ? c.b.nr - first : SEG_BLOCKS;
	struct place places[SEG_BLOCKS], to = { .kind = 'p' };
	uint64_t disturbed = one_in(&rng, 2) ? below(&rng, nr) : nr;

	/* A large volume would become larger than memory. */
	if (c.window < SEG_BLOCKS)
		return;
	to.block = below(&rng, c.b.pool_nr - nr + 1);
	if (one_in(&rng, 2)) {
		uint64_t len = nr;
		struct place packed;

		if (choose_packed(&len, &packed) && len == nr)
			to = packed;
	}
	touch(first, nr);
	for (i = 0; i < nr * BLOCK_SECTORS && first * BLOCK_SECTORS + i < c.b.sectors; i++)
		c.b.word[first * BLOCK_SECTORS + i] =
			word_of_content(blocks_content(&c.b, nth(to, i / BLOCK_SECTORS)), i);
	must(write_words(c.fd, first * BLOCK_SECTORS, i, c.b.word + first * BLOCK_SECTORS),
	     "write");
	for (i = 0; i < nr; i++)
		may_pin(&c.b, first + i, (struct place){ .kind = 'b' });
	/* It settles, so that the segment is BASE, all of it. */
	begin_message("watch " TOKEN);
	add_range((struct range){ .first = first, .len = nr });
	send_message();
	for (i = 0; i < nr; i++)
		if (i != disturbed)
			may_pin(&c.b, first + i, nth(to, i));
	if (disturbed < nr)
		must(write_words(c.fd, (first + disturbed) * BLOCK_SECTORS, 1,
				 c.b.word + (first + disturbed) * BLOCK_SECTORS), "write");
	begin_message("alias " TOKEN);
	add_range((struct range){ .first = first, .len = nr, .to = to });
	send_message();
	ask_table(first, nr, places);
	for (i = 0; i < nr; i++)
		if (!may_be(&c.b, first + i, places[i]))
			die("MISS: block %#" PRIx64 " is at %c after '%s', and block %#" PRIx64
			    " was written to", first + i, places[i].kind, message.text,
			    first + disturbed);
	check_segs(seg, 1);
	came_up(H_ALIAS_SEG);
}

/* Moving the same with nobody around: it must have moved. */
void do_quiet_remap(void)
{
	do_remap();
	if (message.nr)
		check_segs(message.ranges[0].first / SEG_BLOCKS, 1);
}

bool is_nearly_home(void)
{
	uint64_t i, used = 0, moved = 0;

	for (i = 0; i < 1000; i++) {
		used++;
		moved += !!(may_get(&c.b, pick_block(&rng)) & MAY_AWAY);
	}
	return moved * 5 < used;
}
