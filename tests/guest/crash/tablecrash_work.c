// SPDX-License-Identifier: GPL-2.0
/*
 * What tablecrash's threads do to the volume until it crashes.
 *
 * Writers write, discard, flush, and read and compare. They crowd in a window of a few
 * blocks, so that parts of one block are written at the same time, while it is copied up,
 * moved or watched.
 *
 * One thread does to the table what a controller of a live volume would do. It gives blocks
 * that it frees in the pool to new owners at once: from then on the block has another
 * content, so that a late read of it, now or after a crash, shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/dm.h"
#include "tablecrash.h"

#define WINDOW		12U		/* blocks */
#define MAX_WATCH	16U

/*
 * ---- writers ----
 */

static uint64_t nr_blocks(void)
{
	return t.pool.nr_places;
}

/* Blocks from @block on, at most @max, that do not cross the oracle's half. */
static uint64_t blocks_left(uint64_t block, uint64_t max)
{
	uint64_t half = c.oracle.half / BLOCK_SECTORS;
	uint64_t left = (block < half ? half : nr_blocks()) - block;

	return left < max ? left : max;
}

static void choose_range(struct worker *w, struct op *op)
{
	static const unsigned int limits[] = {
		1, 1, 3, 8, 8, 8, 8, 20, 20, 64, 128, 600, 2048,
	};
	/* On a debug kernel large ones would take all the time, and in a log the room. */
	bool small = (t.log || c.tick_us > SLOW_US) && !one_in(&w->random, 8);
	unsigned int limit = limits[below(&w->random, small ? 9 : 13)];
	uint64_t hot = atomic_load(&t.hot), left;

	op->sectors = limit > 8 ? 1 + below(&w->random, limit) : limit;
	if (one_in(&w->random, 8))
		op->first = below(&w->random, c.oracle.sectors);
	else if (one_in(&w->random, 4))
		op->first = hot / SEG_BLOCKS * SEG_SECTORS + below(&w->random, SEG_SECTORS);
	else
		op->first = (hot + below(&w->random, WINDOW)) * BLOCK_SECTORS +
			    below(&w->random, BLOCK_SECTORS);
	if (limit == 8 || one_in(&w->random, 8))
		op->first -= op->first % BLOCK_SECTORS;
	if (op->first >= c.oracle.sectors)
		op->first = c.oracle.sectors - 1;
	left = (op->first < c.oracle.half ? c.oracle.half : c.oracle.sectors) - op->first;
	if (op->sectors > left)
		op->sectors = left;
}

static off_t op_place(const struct op *op)
{
	return oracle_place(&c.oracle, op->first) * SECTOR;
}

static bool read_op(struct worker *w, const struct op *op)
{
	size_t len = op->sectors * SECTOR;

	return pread(w->fd, w->buf, len, op_place(op)) == (ssize_t)len;
}

static void miss_sector(const struct worker *w, const char *what, uint64_t sector,
			const struct op *op)
{
	uint32_t word = parse_sector(w->buf + (sector - op->first) * SECTOR, sector);

	/* The pool can still be read, and may be what a write that failed left. */
	if (atomic_load(&c.crashing))
		return;
	miss("%s: sector %" PRIu64 " holds %s, not %s", what, sector, word_text(word),
	     word_text(c.oracle.content[sector]));
}

/* See what is there after a write that was done or not. */
static bool look(struct worker *w, const struct op *op, const char *what)
{
	uint64_t bad;

	if (!read_op(w, op)) {
		oracle_end(&c.oracle, w->nr, false, false);
		return false;
	}
	if (!oracle_end_unsure(&c.oracle, w->nr, w->buf, &bad))
		miss_sector(w, what, bad, op);
	return true;
}

static bool write_some(struct worker *w)
{
	/* In the log one is before what was written earlier and not flushed yet. */
	bool sync = !t.log && one_in(&w->random, 4);
	struct op op = { .kind = OP_WRITE };
	struct iovec iov = { .iov_base = w->buf };

	choose_range(w, &op);
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	op_fill(&op, w->buf);
	iov.iov_len = op.sectors * SECTOR;
	count.writes++;
	if (sync)
		reached(AT_FLUSH, &w->random);
	if (pwritev2(w->fd, &iov, 1, op_place(&op), sync ? RWF_DSYNC : 0) ==
	    (ssize_t)iov.iov_len) {
		oracle_end(&c.oracle, w->nr, true, sync);
		return true;
	}
	if (sync && may_fail(-errno) && !atomic_load(&c.crashing)) {
		count.failed_syncs++;
		return look(w, &op, "after a write that failed");
	}
	oracle_end(&c.oracle, w->nr, false, false);
	return false;
}

static bool read_some(struct worker *w)
{
	struct op op = { .kind = OP_READ };
	uint64_t bad;

	choose_range(w, &op);
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	count.reads++;
	if (!read_op(w, &op)) {
		oracle_end(&c.oracle, w->nr, false, false);
		return false;
	}
	if (!oracle_end_read(&c.oracle, w->nr, w->buf, &bad))
		miss_sector(w, "a read", bad, &op);
	return true;
}

static bool zero_some(struct worker *w)
{
	struct op op = { .kind = OP_ZEROS };
	uint64_t range[2];
	bool good;

	choose_range(w, &op);
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	range[0] = op_place(&op);
	range[1] = op.sectors * SECTOR;
	count.writes++;
	good = !ioctl(w->fd, BLKZEROOUT, range);
	oracle_end(&c.oracle, w->nr, good, false);
	return good;
}

static bool discard_some(struct worker *w)
{
	struct op op = { .kind = OP_DISCARD };
	uint64_t range[2];

	choose_range(w, &op);
	if (!oracle_begin(&c.oracle, w->nr, &op))
		return true;
	range[0] = op_place(&op);
	range[1] = op.sectors * SECTOR;
	count.discards++;
	if (!ioctl(w->fd, BLKDISCARD, range))
		return look(w, &op, "after a discard");
	oracle_end(&c.oracle, w->nr, false, false);
	return false;
}

static bool flush_all(struct worker *w)
{
	size_t mark = oracle_flush_begin(&c.oracle);

	reached(AT_FLUSH, &w->random);
	count.flushes++;
	if (!fsync(w->fd)) {
		oracle_flush_end(&c.oracle, mark);
		return true;
	}
	if (!may_fail(-errno) || atomic_load(&c.crashing))
		return false;
	count.failed_syncs++;
	return true;
}

bool write_step(struct worker *w)
{
	if (one_in(&w->random, 3))
		usleep(below(&w->random, c.flush_us / 2 + 2 * c.tick_us));
	switch (below(&w->random, 32)) {
	case 0 ... 15:
		return write_some(w);
	case 16 ... 22:
		return read_some(w);
	case 23:
	case 24:
		return zero_some(w);
	case 25 ... 28:
		return discard_some(w);
	default:
		return flush_all(w);
	}
}

/*
 * ---- messages ----
 */

/* The controller suspends at any time: then marks are gone, and a shed ends. */
static bool is_overtaken(enum event event, int r)
{
	return (event == AT_ALIAS && r == -ESTALE) || (event == AT_SHED && r == -EBUSY);
}

int change(enum event event, uint64_t *random, const char *format, ...)
{
	static __thread char message[16300];
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	reached(event, random);
	/* A message that ended because a suspend came is sent again, until it is done. */
	while ((r = dm_message(VOL, "%s", message)) == -EBUSY && event != AT_SHED && !may_fail(r))
		usleep(100);
	if (r && !is_overtaken(event, r) && !may_fail(r))
		miss("'%.200s' failed: %s", message, strerror(-r));
	return r;
}

void mark_log(void)
{
	if (!t.log)
		return;
	/* Nothing begins between counting and the mark. */
	pthread_mutex_lock(&c.oracle.lock);
	must(dm_message(t.log, "mark events=%" PRIu64, c.oracle.nr_events), "mark the log");
	pthread_mutex_unlock(&c.oracle.lock);
}

/*
 * ---- the table ----
 */

/*
 * The pool's owner gives these blocks to somebody else. From the mark on no table on
 * disk may name them.
 */
static void give_away(uint64_t first, uint64_t nr)
{
	/* A pack has one owner; see renew_packs(). */
	if (first >= t.pool.nr)
		return;
	mark_log();
	pool_renew(&t.pool, first, nr);
}

/* The same for what is free and about to be written. */
static uint64_t find_free(struct worker *w, uint64_t first, uint64_t end, uint64_t nr)
{
	mark_log();
	return pool_find_free(&t.pool, &w->random, first, end, nr);
}

/* A block that may lie at @kind, mostly in the window; nr_blocks() if none was found. */
static uint64_t choose_block(struct worker *w, enum place_kind kind)
{
	uint64_t from = one_in(&w->random, 3) ? below(&w->random, nr_blocks()) :
			atomic_load(&t.hot) + below(&w->random, WINDOW);
	uint64_t block;

	for (block = from; block < nr_blocks() && block < from + 64; block++)
		if (t.pool.places[block].kind == kind)
			return block;
	return nr_blocks();
}

/* How many blocks from @block on lie in a row, at most @max. */
static uint64_t run_length(uint64_t block, uint64_t max)
{
	struct place first = t.pool.places[block];
	uint64_t nr;

	max = blocks_left(block, max);
	for (nr = 1; nr < max; nr++)
		if (!place_follows(first, nr, t.pool.places[block + nr]))
			break;
	return nr;
}

/* Is @place one of the @nr from @first on? */
static bool is_among(struct place place, struct place first, uint64_t nr)
{
	return place.kind == IN_POOL && place.block >= first.block &&
	       place.block < first.block + nr;
}

struct move {
	struct place old;
	struct place new;		/* NOWHERE: none */
	uint64_t nr;
};

static struct place moved_place(const struct move *move, struct place place)
{
	return place_plus(move->new, place.block - move->old.block);
}

/*
 * Add to @ranges every block that may lie at what is moved. False: there are too
 * many of them.
 */
static bool add_all(struct ranges *ranges, const struct move *move)
{
	uint64_t block, nr;

	for (block = 0; block < nr_blocks(); block += nr) {
		struct place old = t.pool.places[block], new;

		nr = 1;
		if (!is_among(old, move->old, move->nr))
			continue;
		nr = run_length(block, move->old.block + move->nr - old.block);
		new = moved_place(move, old);
		if (!ranges_add(ranges, block, nr, &old, &new))
			return false;
	}
	return true;
}

static void set_all(const struct move *move)
{
	uint64_t block;

	for (block = 0; block < nr_blocks(); block++) {
		struct place place = t.pool.places[block];

		if (is_among(place, move->old, move->nr))
			pool_set_place(&t.pool, block, moved_place(move, place));
	}
}

/* None of @nr blocks from @block on lies there any more, says the target. */
static void check_moved(uint64_t block, uint64_t nr, const struct move *move)
{
	struct place places[SEG_BLOCKS];
	uint64_t i;
	int r = ask_places(block, nr, places);

	if (r && !may_fail(r))
		miss("'table' failed: %s", strerror(-r));
	for (i = 0; !r && i < nr; i++) {
		if (is_among(places[i], move->old, move->nr))
			miss("block %" PRIu64 " is still at %s after its remap", block + i,
			     place_text(places[i]));
		count.remapped += is_among(places[i], move->new, move->nr);
	}
}

/* Somebody may name what is at either end of the move. */
static void pin_both(const struct move *move)
{
	if (move->old.kind == IN_POOL)
		pool_pin(&t.pool, move->old.block, move->nr);
	if (move->new.kind == IN_POOL)
		pool_pin(&t.pool, move->new.block, move->nr);
}

/* No table on disk names these blocks of the pool any more. False: that is not known. */
static bool settle(struct worker *w, uint64_t first, uint64_t nr)
{
	struct place place;
	int r;

	if (first >= t.pool.nr)
		return false;
	reached(AT_TABLE, &w->random);
	r = ask_places(0, 1, &place);
	if (r && !may_fail(r))
		miss("'table' failed: %s", strerror(-r));
	if (r) {
		pool_pin(&t.pool, first, nr);
		return false;
	}
	count.settles++;
	return true;
}

/* Remap all that lies at what is moved. False: that is not done. */
static bool remap_all(struct worker *w, const struct move *move)
{
	static struct ranges ranges;

	ranges.len = 0;
	if (!add_all(&ranges, move))
		return false;
	if (change(AT_REMAP, &w->random, "remap %s", ranges.text)) {
		pin_both(move);
		return false;
	}
	count.remaps++;
	set_all(move);
	return true;
}

/* Where nobody names a pack any more there is another one now. */
static void renew_packs(struct worker *w)
{
	uint64_t i, first;

	for (i = 0; i < POOL_PACKS; i++) {
		first = pool_pack(&t.pool, i);
		if (!one_in(&w->random, 2) || !pool_is_free(&t.pool, first, SEG_BLOCKS))
			continue;
		mark_log();
		pool_renew_pack(&t.pool, first, &w->random);
		count.pack_renewals++;
	}
}

static bool find_free_pack(struct worker *w, uint64_t *first)
{
	uint64_t start = below(&w->random, POOL_PACKS), i;

	for (i = 0; i < POOL_PACKS; i++) {
		*first = pool_pack(&t.pool, (start + i) % POOL_PACKS);
		if (pool_is_free(&t.pool, *first, SEG_BLOCKS))
			return true;
	}
	return false;
}

/* Move a pack as it is, and all that lies in it. */
static void move_pack(struct worker *w, uint64_t block)
{
	struct move move = { .old = { .kind = IN_POOL }, .new = { .kind = IN_POOL } };

	move.nr = SEG_BLOCKS;
	move.old.block = pool_pack_of(&t.pool, t.pool.places[block].block);
	if (!find_free_pack(w, &move.new.block))
		return;
	mark_log();
	pool_copy_pack(&t.pool, move.old.block, move.new.block);
	if (!remap_all(w, &move))
		return;
	count.pack_moves++;
	if (one_in(&w->random, 2))
		check_moved(block, blocks_left(block, 16), &move);
}

/*
 * Move pool blocks and all that lies at them, then give them away. What a pack has as well is
 * moved there.
 */
static void move_pool_blocks(struct worker *w, uint64_t block, bool large)
{
	struct move move = { .old = t.pool.places[block] };
	uint64_t first = large ? POOL_SINGLE : 0;

	if (move.old.kind != IN_POOL)
		return;
	move.nr = run_length(block, large ? SEG_BLOCKS : 16);
	move.new.kind = IN_POOL;
	move.new.block = t.pool.nr_all;
	if (move.old.block < t.pool.nr)
		move.new.block = pool_find_packed(&t.pool, move.old.block, &move.nr);
	if (move.new.block == t.pool.nr_all) {
		move.new.block = find_free(w, first, large ? POOL_BLOCKS : POOL_SINGLE, move.nr);
		if (move.new.block == t.pool.nr)
			return;
		pool_copy(&t.pool, move.old.block, move.new.block, move.nr);
	}
	if (!remap_all(w, &move))
		return;
	if (one_in(&w->random, 2))
		check_moved(block, move.nr, &move);
	if (pool_is_free(&t.pool, move.old.block, move.nr))
		give_away(move.old.block, move.nr);
}

/* From zeros to pool blocks that hold zeros, or back. */
static void move_zeros(struct worker *w, uint64_t block)
{
	struct move move = { .old = t.pool.places[block] };
	static struct ranges ranges;
	uint64_t i;

	move.nr = run_length(block, 16);
	if (move.old.kind == IN_POOL) {
		for (i = 0; i < move.nr && pool_holds_zeros(&t.pool, move.old.block + i); i++)
			;
		move.nr = i;
		move.new.kind = IN_ZERO;
	} else {
		move.new.kind = IN_POOL;
		move.new.block = find_free(w, 0, POOL_SINGLE, move.nr);
	}
	if (!move.nr || move.new.block == t.pool.nr)
		return;
	if (move.new.kind == IN_POOL)
		pool_store_zeros(&t.pool, move.new.block, move.nr);
	ranges.len = 0;
	ranges_add(&ranges, block, move.nr, &move.old, &move.new);
	if (change(AT_REMAP, &w->random, "remap %s", ranges.text)) {
		pin_both(&move);
		return;
	}
	count.remaps++;
	for (i = 0; i < move.nr; i++)
		pool_set_place(&t.pool, block + i, place_plus(move.new, i));
}

static void remap_some(struct worker *w)
{
	bool large = one_in(&w->random, 4);
	uint64_t block;

	pthread_mutex_lock(&t.lock);
	block = choose_block(w, one_in(&w->random, 4) ? IN_ZERO : IN_POOL);
	if (block == nr_blocks())
		;
	else if (t.pool.places[block].kind == IN_ZERO ||
		 pool_holds_zeros(&t.pool, t.pool.places[block].block))
		move_zeros(w, block);
	else if (t.pool.places[block].block >= t.pool.nr && one_in(&w->random, 2))
		move_pack(w, block);
	else
		move_pool_blocks(w, large ? block - block % SEG_BLOCKS : block, large);
	renew_packs(w);
	pthread_mutex_unlock(&t.lock);
}

/* Of @nr blocks from @block on: @places is what the target says. */
static void take_places(uint64_t block, uint64_t nr, const struct place *places)
{
	uint64_t i;

	for (i = 0; i < nr; i++) {
		struct place old = t.pool.places[block + i];

		if (old.kind == places[i].kind && old.block == places[i].block)
			continue;
		/* A remap that failed may have been done. */
		if (places[i].kind == IN_POOL && !t.pool.blocks[places[i].block].pinned)
			miss("'table' says that block %" PRIu64 " is at %s, and not at %s",
			     block + i, place_text(places[i]), place_text(old));
		pool_set_place(&t.pool, block + i, places[i]);
		if (old.kind == IN_POOL && pool_is_free(&t.pool, old.block, 1)) {
			count.came_home++;
			give_away(old.block, 1);
		}
	}
}

/* Ask where blocks are that others write to, and give away what they have left. */
static void collect(struct worker *w)
{
	uint64_t block = atomic_load(&t.hot), nr = blocks_left(block, 2 * WINDOW);
	struct place places[2 * WINDOW];
	int r;

	(void)w;
	pthread_mutex_lock(&t.lock);
	r = ask_places(block, nr, places);
	if (r && !may_fail(r))
		miss("'table' failed: %s", strerror(-r));
	if (!r)
		take_places(block, nr, places);
	pthread_mutex_unlock(&t.lock);
}

/* Write to a block; so its old place is free, once that is settled. */
static bool bring_home(struct worker *w)
{
	struct op op = { .kind = OP_WRITE, .sectors = 1 };
	struct place place = { .kind = NOWHERE };
	unsigned int rollbacks;
	uint64_t block;

	pthread_mutex_lock(&t.lock);
	block = choose_block(w, IN_POOL);
	rollbacks = t.rollbacks;
	if (block < nr_blocks())
		place = t.pool.places[block];
	pthread_mutex_unlock(&t.lock);
	op.first = block * BLOCK_SECTORS + below(&w->random, BLOCK_SECTORS);
	if (op.first >= c.oracle.sectors || !oracle_begin(&c.oracle, w->nr, &op))
		return true;

	op_fill(&op, w->buf);
	if (pwrite(w->fd, w->buf, SECTOR, op_place(&op)) != SECTOR) {
		oracle_end(&c.oracle, w->nr, false, false);
		return false;
	}
	oracle_end(&c.oracle, w->nr, true, false);

	pthread_mutex_lock(&t.lock);
	if (rollbacks == t.rollbacks && t.pool.places[block].kind == IN_POOL &&
	    t.pool.places[block].block == place.block &&
	    t.pool.blocks[place.block].refs == 1 && !t.pool.blocks[place.block].pinned &&
	    settle(w, place.block, 1)) {
		pool_set_place(&t.pool, block, (struct place){ .kind = IN_BASE });
		give_away(place.block, 1);
	}
	pthread_mutex_unlock(&t.lock);
	return true;
}

/* If a pack has the block as well, let it be there. */
static void take_packed(struct place *place)
{
	uint64_t nr = 1, slot = pool_find_packed(&t.pool, place->block, &nr);

	if (slot == t.pool.nr_all)
		return;
	place->block = slot;
	pool_pin(&t.pool, slot, 1);
}

/* Copy blocks that were read into the pool, and have them lie there. */
static void alias_blocks(struct worker *w, uint64_t block, uint64_t nr)
{
	uint64_t to = find_free(w, 0, POOL_SINGLE, nr), i;
	struct place places[MAX_WATCH];
	static struct ranges ranges;

	if (to == t.pool.nr)
		return;
	ranges.len = 0;
	for (i = 0; i < nr; i++) {
		places[i].kind = IN_POOL;
		places[i].block = to + i;
		pool_store(&t.pool, to + i, block + i, w->buf + i * BLOCK);
		if (pool_holds_zeros(&t.pool, to + i) && one_in(&w->random, 2))
			places[i].kind = IN_ZERO;
		else if (one_in(&w->random, 2))
			take_packed(&places[i]);
		ranges_add(&ranges, block + i, 1, NULL, &places[i]);
	}
	if (change(AT_ALIAS, &w->random, "alias 1 %s", ranges.text)) {
		pool_pin(&t.pool, to, nr);
		return;
	}
	count.aliases++;
	/* Where the mark did not survive, it lies where it lay. */
	if (ask_places(block, nr, places)) {
		pool_pin(&t.pool, to, nr);
		return;
	}
	for (i = 0; i < nr; i++)
		count.aliased += places[i].kind == IN_POOL && places[i].block == to + i;
	pool_pin(&t.pool, to, nr);
	take_places(block, nr, places);
}

static bool watch_some(struct worker *w)
{
	uint64_t block = atomic_load(&t.hot) + below(&w->random, WINDOW);
	static struct ranges ranges;
	unsigned int rollbacks;
	uint64_t nr;
	size_t len;
	int r;

	/* Where the crowd writes, few marks survive. */
	if (one_in(&w->random, 2))
		block = below(&w->random, nr_blocks());
	nr = blocks_left(block, 1 + below(&w->random, MAX_WATCH));
	len = nr * BLOCK;
	/* The last block may be a part of one. */
	if (block >= nr_blocks() || (block + nr) * BLOCK_SECTORS > c.oracle.sectors)
		return true;

	ranges.len = 0;
	ranges_add(&ranges, block, nr, NULL, NULL);
	pthread_mutex_lock(&t.lock);
	rollbacks = t.rollbacks;
	r = change(AT_WATCH, &w->random, "watch 1 %s", ranges.text);
	pthread_mutex_unlock(&t.lock);
	if (r)
		return true;
	count.watches++;
	if (one_in(&w->random, 2))
		usleep(below(&w->random, 2 * c.tick_us));
	if (pread(w->fd, w->buf, len, oracle_place(&c.oracle, block * BLOCK_SECTORS) *
		  SECTOR) != (ssize_t)len)
		return false;

	pthread_mutex_lock(&t.lock);
	if (rollbacks == t.rollbacks)
		alias_blocks(w, block, nr);
	if (one_in(&w->random, 4))
		change(AT_WATCH, &w->random, "watch -");
	pthread_mutex_unlock(&t.lock);
	return true;
}

/* Zeros of these blocks may have come home: see where they are. */
static void take_zeros(uint64_t block, uint64_t nr)
{
	struct place places[SEG_BLOCKS];

	if (!ask_places(block, nr, places))
		take_places(block, nr, places);
}

/*
 * Give back what the base has of blocks that lie elsewhere: what a crash leaves must not
 * read there. Mostly around the crowd, whose writes come home meanwhile.
 */
static void shed_some(struct worker *w)
{
	bool zeroed = one_in(&w->random, 2);
	uint64_t block = one_in(&w->random, 3) ? below(&w->random, nr_blocks()) :
			 atomic_load(&t.hot) / 16 * 16;
	uint64_t nr = blocks_left(block, one_in(&w->random, 2) ? SEG_BLOCKS : 32);
	static struct ranges ranges;

	/* Such a judge takes no discards. */
	if (t.no_cache)
		return;
	pthread_mutex_lock(&t.lock);
	ranges.len = 0;
	ranges_add(&ranges, block, nr, NULL, NULL);
	if (one_in(&w->random, 2))
		change(AT_HYDRATE, &w->random, "hydrate stop");
	count.sheds += !change(AT_SHED, &w->random, "shed %s%s", ranges.text,
			       zeroed ? " zeroed" : "");
	if (zeroed)
		take_zeros(block, nr);
	pthread_mutex_unlock(&t.lock);
}

static void hydrate(struct worker *w)
{
	static const unsigned int rates[] = { 1, 1, 8, 64 };

	count.hydrates++;
	pthread_mutex_lock(&t.lock);
	if (one_in(&w->random, 2))
		change(AT_HYDRATE, &w->random, "hydrate stop");
	else if (one_in(&w->random, 6))
		change(AT_HYDRATE, &w->random, "hydrate start");
	else
		change(AT_HYDRATE, &w->random, "hydrate start %u", rates[below(&w->random, 4)]);
	pthread_mutex_unlock(&t.lock);
}

bool table_step(struct worker *w)
{
	usleep(below(&w->random, c.flush_us / 2 + 2 * c.tick_us));
	/* After the crash all of these fail, and so does I/O. */
	if (atomic_load(&c.crashed))
		return false;
	switch (below(&w->random, 20)) {
	case 16 ... 19:
		shed_some(w);
		return true;
	case 0 ... 3:
		remap_some(w);
		return true;
	case 4 ... 6:
		collect(w);
		return true;
	case 7 ... 9:
		return bring_home(w);
	case 10:
		hydrate(w);
		return true;
	default:
		return watch_some(w);
	}
}
