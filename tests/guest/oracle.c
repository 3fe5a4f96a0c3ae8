// SPDX-License-Identifier: GPL-2.0
/*
 * What each sector of a volume may hold. See oracle.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"

#define WORDS_A_SECTOR	(SECTOR / sizeof(uint64_t))

static void *zalloc(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p) {
		perror("calloc");
		exit(1);
	}
	return p;
}

void oracle_init(struct oracle *o, uint64_t sectors)
{
	memset(o, 0, sizeof(*o));
	pthread_mutex_init(&o->lock, NULL);
	o->sectors = sectors;
	o->segs = (sectors + SEG_SECTORS - 1) / SEG_SECTORS;
	o->half = o->segs / 2 * SEG_SECTORS;
	o->content = zalloc(sectors, sizeof(*o->content));
	o->flushed = zalloc(sectors, sizeof(*o->flushed));
	o->zeroed = zalloc(sectors, sizeof(*o->zeroed));
	o->touched = zalloc(o->segs, sizeof(*o->touched));
}

uint64_t oracle_place(const struct oracle *o, uint64_t sector)
{
	return sector < o->half ? sector : sector + o->gap;
}

/*
 * ---- writes ----
 */

static bool overlaps(const struct op *a, const struct op *b)
{
	return b->sectors && a->first < b->first + b->sectors &&
	       b->first < a->first + a->sectors;
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

bool oracle_begin(struct oracle *o, unsigned int thread, struct op *op)
{
	bool clear = true;
	unsigned int i;

	pthread_mutex_lock(&o->lock);
	for (i = 0; i < MAX_THREADS; i++)
		clear &= !overlaps(op, &o->pending[i]);
	if (clear) {
		op->stamp = ++o->last_stamp;
		o->pending[thread] = *op;
		touch(o, op);
		if (op->zeros)
			set_range(o->zeroed, op, op->stamp);
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

void oracle_end(struct oracle *o, unsigned int thread, bool good, bool stable)
{
	struct op *op = &o->pending[thread];

	pthread_mutex_lock(&o->lock);
	if (good) {
		set_range(o->content, op, op->stamp | (op->zeros ? WORD_ZERO : 0));
		add_done(o, op);
	}
	if (good && stable)
		set_range(o->flushed, op, op->stamp);
	op->sectors = 0;
	pthread_mutex_unlock(&o->lock);
}

void op_fill(const struct op *op, void *buf)
{
	uint64_t *p = buf, s;
	size_t i;

	for (s = op->first; s < op->first + op->sectors; s++)
		for (i = 0; i < WORDS_A_SECTOR; i++)
			*p++ = (uint64_t)op->stamp << 32 | s;
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
		uint64_t s;

		for (s = op->first; s < op->first + op->sectors; s++)
			if (o->flushed[s] < op->stamp)
				o->flushed[s] = op->stamp;
	}
	pthread_mutex_unlock(&o->lock);
}

/*
 * ---- what a device holds ----
 */

/*
 * Every byte of the sector is looked at, as it may be torn. Not in vectors: an
 * emulator, and most of our guests run on one, takes twice as long for them.
 */
__attribute__((optimize("no-tree-vectorize", "unroll-loops")))
static uint32_t parse_sector(const uint64_t *p, uint64_t sector)
{
	uint64_t diff = 0;
	size_t i;

	for (i = 1; i < WORDS_A_SECTOR; i++)
		diff |= p[i] ^ p[0];
	if (diff)
		return WORD_GARBAGE;
	if (!p[0])
		return WORD_ZERO;
	if ((uint32_t)p[0] != (uint32_t)sector || p[0] >> 32 >= WORD_NOTHING)
		return WORD_GARBAGE;
	return p[0] >> 32;
}

/* Read @sectors from @first on into @words. */
static bool read_words(struct oracle *o, int fd, uint64_t first, uint64_t sectors,
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
			words[done + i] = parse_sector((uint64_t *)buf + i * WORDS_A_SECTOR,
						       first + done + i);
	}
	return true;
}

uint32_t *oracle_copy(struct oracle *o, int fd)
{
	uint32_t *copy = zalloc(o->sectors, sizeof(*copy));
	bool good = true;
	unsigned int i;

	pthread_mutex_lock(&o->lock);
	memcpy(copy, o->content, o->sectors * sizeof(*copy));
	for (i = 0; i < MAX_THREADS; i++) {
		const struct op *op = &o->pending[i];

		good &= read_words(o, fd, op->first, op->sectors, copy + op->first);
	}
	pthread_mutex_unlock(&o->lock);
	if (good)
		return copy;
	free(copy);
	return NULL;
}

/*
 * Zeros carry no stamp. They are young enough if some write of zeros was issued
 * at or after the last that is known to be stable; which one it was does not
 * matter then, as the bound for the next crash may stay where it is.
 */
static bool recover_sector(struct oracle *o, uint64_t s, uint32_t word)
{
	uint32_t newest = word == WORD_ZERO ? o->zeroed[s] : word;
	bool possible = word != WORD_GARBAGE && newest >= o->flushed[s] &&
			newest <= o->last_stamp;

	if (!possible)
		printf("MISS: sector %ju holds %#x, but write %u was flushed, %u zeroed\n",
		       (uintmax_t)s, word, o->flushed[s], o->zeroed[s]);
	if (word != WORD_ZERO)
		o->flushed[s] = word;
	o->content[s] = word == WORD_ZERO ? WORD_ZERO | newest : word;
	return possible;
}

static uint64_t recover_seg(struct oracle *o, int fd, uint64_t seg)
{
	static uint32_t words[SEG_SECTORS];
	uint64_t first = seg * SEG_SECTORS, i, bad = 0;
	uint64_t n = o->sectors - first < SEG_SECTORS ? o->sectors - first : SEG_SECTORS;

	if (!read_words(o, fd, first, n, words)) {
		perror("cannot read the base");
		exit(1);
	}
	for (i = 0; i < n && bad < 3; i++)
		bad += !recover_sector(o, first + i, words[i]);
	return bad;
}

uint64_t oracle_recover(struct oracle *o, int fd, bool all)
{
	uint64_t seg, bad = 0;

	pthread_mutex_lock(&o->lock);
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

static bool same_content(uint32_t a, uint32_t b)
{
	return a == b || (a & b & WORD_ZERO);
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
