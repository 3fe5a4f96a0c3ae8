// SPDX-License-Identifier: GPL-2.0
/*
 * What each sector of a volume may hold. See oracle.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc.h"
#include "oracle.h"

#define WORDS_A_SECTOR	(SECTOR / sizeof(uint64_t))
#define BLOCK_SECTORS	8U

void oracle_init(struct oracle *o, uint64_t sectors)
{
	memset(o, 0, sizeof(*o));
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->changed, NULL);
	o->sectors = sectors;
	o->segs = (sectors + SEG_SECTORS - 1) / SEG_SECTORS;
	o->half = o->segs / 2 * SEG_SECTORS;
	o->content = zalloc(sectors, sizeof(*o->content));
	o->flushed = zalloc(sectors, sizeof(*o->flushed));
	o->zeroed = zalloc(sectors, sizeof(*o->zeroed));
	o->placed = zalloc(sectors, sizeof(*o->placed));
	o->placed_at = zalloc(sectors, sizeof(*o->placed_at));
	o->touched = zalloc(o->segs, sizeof(*o->touched));
}

uint64_t oracle_place(const struct oracle *o, uint64_t sector)
{
	return sector < o->half ? sector : sector + o->gap;
}

/*
 * ---- words ----
 */

static void fill_sector(uint64_t *p, uint64_t value)
{
	size_t i;

	for (i = 0; i < WORDS_A_SECTOR; i++)
		p[i] = value;
}

void op_fill(const struct op *op, void *buf)
{
	uint64_t *p = buf, s;

	for (s = op->first; s < op->first + op->sectors; s++, p += WORDS_A_SECTOR)
		fill_sector(p, (uint64_t)op->stamp << 32 | s);
}

void pool_fill(uint32_t word, void *buf)
{
	uint64_t *p = buf, s;

	for (s = 0; s < BLOCK_SECTORS; s++, p += WORDS_A_SECTOR)
		fill_sector(p, word & WORD_ZERO ? 0 : (uint64_t)word << 32 | s);
}

/*
 * Every byte of the sector is looked at, as it may be torn. Not in vectors: an
 * emulator, and most of our guests run on one, takes twice as long for them.
 */
__attribute__((optimize("no-tree-vectorize", "unroll-loops")))
uint32_t parse_sector(const void *buf, uint64_t sector)
{
	const uint64_t *p = buf;
	uint64_t diff = 0;
	uint32_t word;
	size_t i;

	for (i = 1; i < WORDS_A_SECTOR; i++)
		diff |= p[i] ^ p[0];
	if (diff)
		return WORD_GARBAGE;
	if (!p[0])
		return WORD_ZERO;
	word = p[0] >> 32;
	if (word & WORD_POOL)
		sector %= BLOCK_SECTORS;
	if ((uint32_t)p[0] != (uint32_t)sector || word >= WORD_NOTHING)
		return WORD_GARBAGE;
	return word;
}

bool same_content(uint32_t a, uint32_t b)
{
	return a == b || (a & b & WORD_ZERO);
}

const char *word_text(uint32_t word)
{
	static __thread char texts[4][40];
	static __thread unsigned int next;
	char *text = texts[next++ % 4];

	if (word & WORD_ZERO)
		return "zeros";
	if (word == WORD_GARBAGE)
		return "garbage";
	if (word == WORD_NOTHING)
		return "something else";
	snprintf(text, sizeof(texts[0]), "%s %u", word & WORD_POOL ? "pool content" : "write",
		 word & ~WORD_POOL);
	return text;
}

/*
 * ---- the journal ----
 */

/* Under the lock. */
__attribute__((format(printf, 2, 3)))
static void note(struct oracle *o, const char *format, ...)
{
	va_list args;

	if (!o->journal)
		return;
	va_start(args, format);
	vfprintf(o->journal, format, args);
	va_end(args);
	o->nr_events++;
}

void oracle_note(struct oracle *o, const char *format, ...)
{
	char line[256];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	pthread_mutex_lock(&o->lock);
	note(o, "%s", line);
	pthread_mutex_unlock(&o->lock);
}

/* A line for each run of sectors that have the same word. */
static void note_words(struct oracle *o, char event, uint32_t stamp, const uint32_t *words)
{
	uint64_t s, end;

	for (s = 0; s < o->sectors; s = end) {
		for (end = s + 1; end < o->sectors && words[end] == words[s]; end++)
			;
		if (words[s] != WORD_NOTHING)
			note(o, "%c %" PRIu64 " %" PRIu64 " %u %u\n", event, s, end - s,
			     stamp, words[s]);
	}
}

void oracle_journal(struct oracle *o, FILE *journal)
{
	pthread_mutex_lock(&o->lock);
	o->journal = journal;
	note_words(o, 'I', 0, o->content);
	pthread_mutex_unlock(&o->lock);
}

/*
 * ---- writes ----
 */

static bool is_zeros(const struct op *op)
{
	return op->kind == OP_ZEROS || op->kind == OP_DISCARD;
}

/* What its sectors become. */
static uint32_t op_word(const struct op *op)
{
	return op->stamp | (is_zeros(op) ? WORD_ZERO : 0);
}

static bool collide(const struct op *a, const struct op *b)
{
	return b->sectors && a->first < b->first + b->sectors &&
	       b->first < a->first + a->sectors &&
	       !(a->kind == OP_READ && b->kind == OP_READ);
}

static void touch(struct oracle *o, const struct op *op)
{
	uint64_t seg;

	for (seg = op->first / SEG_SECTORS;
	     seg <= (op->first + op->sectors - 1) / SEG_SECTORS; seg++)
		o->touched[seg] = true;
}

static void set_range(uint32_t *words, const struct op *op, uint32_t word)
{
	uint64_t i;

	for (i = 0; i < op->sectors; i++)
		words[op->first + i] = word;
}

static void announce(struct oracle *o, struct op *op)
{
	op->stamp = ++o->last_stamp;
	touch(o, op);
	if (is_zeros(op))
		set_range(o->zeroed, op, op->stamp);
	note(o, "%c %" PRIu64 " %" PRIu64 " %u 0\n", is_zeros(op) ? 'Z' : 'W', op->first,
	     op->sectors, op->stamp);
}

bool oracle_begin(struct oracle *o, unsigned int thread, struct op *op)
{
	bool clear = true;
	unsigned int i;

	pthread_mutex_lock(&o->lock);
	while (o->closed)
		pthread_cond_wait(&o->changed, &o->lock);
	for (i = 0; i < MAX_THREADS; i++)
		clear &= !collide(op, &o->pending[i]);
	if (clear) {
		op->unsure = false;
		if (op->kind != OP_READ)
			announce(o, op);
		o->pending[thread] = *op;
	}
	pthread_mutex_unlock(&o->lock);
	return clear;
}

static void add_done(struct oracle *o, const struct op *op)
{
	if (o->nr_done == o->max_done) {
		o->max_done = 2 * o->max_done + 64;
		o->done = realloc(o->done, o->max_done * sizeof(*o->done));
		if (!o->done) {
			perror("realloc");
			exit(1);
		}
	}
	o->done[o->nr_done++] = *op;
}

static void end(struct oracle *o, struct op *op)
{
	op->sectors = 0;
	if (o->closed)
		pthread_cond_broadcast(&o->changed);
}

/* Sectors @first to @last - 1 of @op are stable. */
static void make_stable(struct oracle *o, const struct op *op, uint64_t first, uint64_t last)
{
	uint64_t s;

	for (s = first; s < last; s++)
		if (o->flushed[s] < op->stamp)
			o->flushed[s] = op->stamp;
	note(o, "S %" PRIu64 " %" PRIu64 " %u 0\n", first, last - first, op->stamp);
}

/* Of an op that was not done everywhere, what can still be seen. */
static void make_seen_stable(struct oracle *o, const struct op *op)
{
	uint64_t s = op->first, last = op->first + op->sectors, next;

	for (; s < last; s = next) {
		bool seen = o->content[s] == op_word(op);

		for (next = s + 1; next < last; next++) {
			bool same = o->content[next] == op_word(op);

			if (same != seen)
				break;
		}
		if (seen)
			make_stable(o, op, s, next);
	}
}

void oracle_end(struct oracle *o, unsigned int thread, bool good, bool stable)
{
	struct op *op = &o->pending[thread];

	pthread_mutex_lock(&o->lock);
	if (good && op->kind != OP_READ) {
		set_range(o->content, op, op_word(op));
		add_done(o, op);
	}
	if (good && stable)
		make_stable(o, op, op->first, op->first + op->sectors);
	end(o, op);
	pthread_mutex_unlock(&o->lock);
}

bool oracle_end_unsure(struct oracle *o, unsigned int thread, const void *buf, uint64_t *bad)
{
	struct op *op = &o->pending[thread];
	bool possible = true;
	uint64_t i;

	pthread_mutex_lock(&o->lock);
	for (i = 0; i < op->sectors && possible; i++) {
		uint64_t s = op->first + i;
		uint32_t word = parse_sector((char *)buf + i * SECTOR, s);

		if (same_content(word, op_word(op)))
			o->content[s] = op_word(op);
		else
			possible = same_content(word, o->content[s]);
		*bad = s;
	}
	op->unsure = true;
	add_done(o, op);
	end(o, op);
	pthread_mutex_unlock(&o->lock);
	return possible;
}

bool oracle_end_read(struct oracle *o, unsigned int thread, const void *buf, uint64_t *bad)
{
	struct op *op = &o->pending[thread];
	bool same = true;
	uint64_t i;

	for (i = 0; i < op->sectors && same; i++) {
		*bad = op->first + i;
		same = same_content(parse_sector((char *)buf + i * SECTOR, *bad),
				    o->content[*bad]);
	}
	pthread_mutex_lock(&o->lock);
	end(o, op);
	pthread_mutex_unlock(&o->lock);
	return same;
}

size_t oracle_flush_begin(struct oracle *o)
{
	size_t mark;

	pthread_mutex_lock(&o->lock);
	mark = o->nr_done;
	pthread_mutex_unlock(&o->lock);
	return mark;
}

/* In the order in which they were acknowledged, so later ones win. */
void oracle_flush_end(struct oracle *o, size_t mark)
{
	pthread_mutex_lock(&o->lock);
	for (; o->nr_flushed < mark; o->nr_flushed++) {
		const struct op *op = &o->done[o->nr_flushed];

		if (op->unsure)
			make_seen_stable(o, op);
		else
			make_stable(o, op, op->first, op->first + op->sectors);
	}
	pthread_mutex_unlock(&o->lock);
}

/*
 * ---- something else than a write ----
 */

static bool is_idle(const struct oracle *o)
{
	unsigned int i;

	for (i = 0; i < MAX_THREADS; i++)
		if (o->pending[i].sectors)
			return false;
	return true;
}

void oracle_close(struct oracle *o)
{
	pthread_mutex_lock(&o->lock);
	o->closed = true;
	while (!is_idle(o))
		pthread_cond_wait(&o->changed, &o->lock);
	pthread_mutex_unlock(&o->lock);
}

void oracle_open(struct oracle *o)
{
	pthread_mutex_lock(&o->lock);
	o->closed = false;
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
}

uint32_t oracle_plan(struct oracle *o, const uint32_t *words)
{
	uint32_t stamp;

	pthread_mutex_lock(&o->lock);
	stamp = ++o->last_stamp;
	note_words(o, 'P', stamp, words);
	pthread_mutex_unlock(&o->lock);
	return stamp;
}

/* Nothing but @word can be there, until something is written. */
static void place(struct oracle *o, uint64_t s, uint32_t word, uint32_t stamp)
{
	o->content[s] = word;
	o->placed[s] = word;
	o->placed_at[s] = stamp;
	o->flushed[s] = stamp;
}

void oracle_replace(struct oracle *o, const uint32_t *words, uint32_t stamp)
{
	uint64_t s;

	pthread_mutex_lock(&o->lock);
	for (s = 0; s < o->sectors; s++) {
		if (words[s] == WORD_NOTHING)
			continue;
		place(o, s, words[s], stamp);
		o->touched[s / SEG_SECTORS] = true;
	}
	note(o, "R 0 0 %u 0\n", stamp);
	pthread_mutex_unlock(&o->lock);
}

/*
 * ---- what a device holds ----
 */

bool oracle_read(struct oracle *o, int fd, uint64_t first, uint64_t sectors,
		 uint32_t *words)
{
	static const size_t size = SEG_SECTORS * SECTOR;
	static void *buf;
	uint64_t i, done, n;

	if (!buf && posix_memalign(&buf, 4096, size)) {
		perror("posix_memalign");
		exit(1);
	}
	for (done = 0; done < sectors; done += n) {
		n = sectors - done < SEG_SECTORS ? sectors - done : SEG_SECTORS;
		if (pread(fd, buf, n * SECTOR, oracle_place(o, first + done) * SECTOR) !=
		    (ssize_t)(n * SECTOR))
			return false;
		for (i = 0; i < n; i++)
			words[done + i] = parse_sector((char *)buf + i * SECTOR,
						       first + done + i);
	}
	return true;
}

uint32_t *oracle_copy(struct oracle *o, oracle_reader read)
{
	uint32_t *copy = zalloc(o->sectors, sizeof(*copy));
	bool good = true;
	unsigned int i;

	pthread_mutex_lock(&o->lock);
	memcpy(copy, o->content, o->sectors * sizeof(*copy));
	for (i = 0; i < MAX_THREADS; i++) {
		const struct op *op = &o->pending[i];

		if (op->sectors && op->kind != OP_READ)
			good &= read(op->first, op->sectors, copy + op->first);
	}
	pthread_mutex_unlock(&o->lock);
	if (good)
		return copy;
	free(copy);
	return NULL;
}

/*
 * Zeros carry no stamp. They are young enough if some write of zeros was issued
 * at or after the last that is known to be stable.
 */
bool oracle_allows(const struct oracle *o, uint64_t s, uint32_t word)
{
	if (word == WORD_GARBAGE)
		return false;
	if (same_content(word, o->placed[s]) && o->placed_at[s] >= o->flushed[s])
		return true;
	if (word & WORD_ZERO)
		return o->zeroed[s] >= o->flushed[s];
	return word >= o->flushed[s] && word <= o->last_stamp;
}

static bool recover_sector(struct oracle *o, uint64_t s, uint32_t word)
{
	bool possible = oracle_allows(o, s, word);

	if (!possible)
		printf("MISS: sector %ju holds %s; it was %s, stable as of write %u, zeroed by %u, placed by %u (%s)\n",
		       (uintmax_t)s, word_text(word), word_text(o->content[s]), o->flushed[s],
		       o->zeroed[s], o->placed_at[s], word_text(o->placed[s]));
	if (!possible && o->explain)
		o->explain(s);
	place(o, s, word, o->last_stamp);
	return possible;
}

static uint64_t recover_seg(struct oracle *o, int fd, uint64_t seg)
{
	static uint32_t words[SEG_SECTORS];
	uint64_t first = seg * SEG_SECTORS, i, bad = 0;
	uint64_t n = o->sectors - first < SEG_SECTORS ? o->sectors - first : SEG_SECTORS;

	if (!oracle_read(o, fd, first, n, words)) {
		printf("MISS: cannot read segment %ju: %m\n", (uintmax_t)seg);
		return 1;
	}
	for (i = 0; i < n && bad < 3; i++)
		bad += !recover_sector(o, first + i, words[i]);
	return bad;
}

uint64_t oracle_recover(struct oracle *o, int fd, bool all)
{
	uint64_t seg, bad = 0;

	pthread_mutex_lock(&o->lock);
	o->last_stamp++;
	for (seg = 0; seg < o->segs; seg++) {
		if (all || o->touched[seg])
			bad += recover_seg(o, fd, seg);
		o->touched[seg] = false;
	}
	o->nr_done = 0;
	o->nr_flushed = 0;
	pthread_mutex_unlock(&o->lock);
	return bad;
}

bool oracle_equals(struct oracle *o, const uint32_t *copy, uint64_t seg,
		   uint64_t *ret_sector)
{
	uint64_t s = seg * SEG_SECTORS, end = s + SEG_SECTORS;

	for (; s < end && s < o->sectors; s++) {
		if (!same_content(o->content[s], copy[s])) {
			*ret_sector = s;
			return false;
		}
	}
	return true;
}
