// SPDX-License-Identifier: GPL-2.0
/*
 * The cache of the judge: versions of sectors, which of them a crash keeps, and
 * writing them to the device.
 */
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "judge.h"

/*
 * ---- Versions ----
 */

static void version_free(struct version *v)
{
	if (v->page)
		__free_page(v->page);
	kfree(v);
}

void cache_free_versions(struct version *v)
{
	while (v) {
		struct version *older = v->older;

		version_free(v);
		v = older;
	}
}

static struct version *version_alloc(u8 mask, bool zeros, gfp_t gfp)
{
	struct version *v = kmalloc(sizeof(*v), gfp);

	if (!v)
		return NULL;
	v->older = NULL;
	v->mask = mask;
	v->page = zeros ? NULL : alloc_page(gfp);
	if (!zeros && !v->page) {
		kfree(v);
		return NULL;
	}
	return v;
}

/* Return the sectors of @block that lie in [@first, @first + @count). */
static u8 block_mask(unsigned long block, sector_t first, sector_t count)
{
	sector_t start = (sector_t)block * BLOCK_SECTORS;
	unsigned int from = first > start ? first - start : 0;
	sector_t end = first + count - start;
	unsigned int to = min_t(sector_t, end, BLOCK_SECTORS);

	return (ALL_SECTORS << from) & (ALL_SECTORS >> (BLOCK_SECTORS - to));
}

/* Copy a bio's data into its versions, which are linked in order of address. */
static void copy_from_bio(struct bio *bio, struct version *v)
{
	size_t pos = (bio_first(bio) % BLOCK_SECTORS) << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		unsigned int done = 0;

		while (done < bv.bv_len) {
			unsigned int len = min_t(size_t, bv.bv_len - done,
						 BLOCK_SIZE_BYTES - pos);

			memcpy_page(v->page, pos, bv.bv_page,
				    bv.bv_offset + done, len);
			done += len;
			pos += len;
			if (pos == BLOCK_SIZE_BYTES) {
				pos = 0;
				v = v->older;
			}
		}
	}
}

/*
 * Make one version for each block of @bio, linked in order of address through
 * ->older until they are inserted. May sleep.
 */
struct version *cache_make_versions(struct bio *bio)
{
	bool zeros = bio_op(bio) != REQ_OP_WRITE;
	struct version *first = NULL, **link = &first;
	unsigned long b;

	for (b = bio_first_block(bio); b <= bio_last_block(bio); b++) {
		u8 mask = block_mask(b, bio_first(bio), bio_sectors(bio));
		struct version *v = version_alloc(mask, zeros, GFP_NOIO);

		if (!v) {
			cache_free_versions(first);
			return NULL;
		}
		*link = v;
		link = &v->older;
	}
	if (!zeros)
		copy_from_bio(bio, first);
	return first;
}

static void __count_version(struct judge *j, struct version *v, int sign)
{
	lockdep_assert_held(&j->group->lock);
	j->cached_blocks += sign;
	j->cached_sectors += sign * (int)hweight8(v->mask);
}

/* Under group->lock. */
void __cache_insert(struct judge *j, struct bio *bio, struct version *v)
{
	unsigned long b = bio_first_block(bio);

	lockdep_assert_held(&j->group->lock);
	j->seq++;
	while (v) {
		struct version *next = v->older;

		v->seq = j->seq;
		v->older = j->newest[b];
		j->newest[b] = v;
		__set_bit(b, j->cached);
		__count_version(j, v, 1);
		v = next;
		b++;
	}
}

struct version *cache_newest(struct judge *j, unsigned long block)
{
	struct version *v;

	spin_lock(&j->group->lock);
	v = j->newest[block];
	spin_unlock(&j->group->lock);
	return v;
}

/* Forget the versions of @block up to @seq. Under io_mutex. */
static void remove_versions(struct judge *j, unsigned long block, u64 seq)
{
	struct version **link, *v, *gone;

	lockdep_assert_held(&j->io_mutex);
	spin_lock(&j->group->lock);
	link = &j->newest[block];
	while (*link && (*link)->seq > seq)
		link = &(*link)->older;
	gone = *link;
	*link = NULL;
	if (!j->newest[block])
		__clear_bit(block, j->cached);
	for (v = gone; v; v = v->older)
		__count_version(j, v, -1);
	spin_unlock(&j->group->lock);
	cache_free_versions(gone);
}

/* Find the first block with versions at or after @block; nr_blocks if there is none. */
static unsigned long next_cached(struct judge *j, unsigned long block)
{
	spin_lock(&j->group->lock);
	block = find_next_bit(j->cached, j->nr_blocks, block);
	spin_unlock(&j->group->lock);
	return block;
}

/*
 * ---- Which version a sector gets. All of this is under io_mutex. ----
 */

struct version *version_upto(struct version *v, unsigned int sector, u64 seq)
{
	while (v && (v->seq > seq || !(v->mask & (1U << sector))))
		v = v->older;
	return v;
}

/*
 * Policies. Dropping everything, keeping the newest of everything, and keeping
 * what was written up to some moment, as a disk that writes back in order, are
 * all UP_TO_SEQ.
 */
enum policy {
	UP_TO_SEQ,		/* newest version up to chooser->seq */
	BY_BLOCK,		/* UP_TO_SEQ, with another seq for each block */
	BY_SECTOR,		/* any version, or none, for each sector */
};

struct chooser {
	enum policy policy;
	u64 seq;
	struct rnd_state *rnd;
};

static u64 random_upto(struct rnd_state *rnd, u64 limit)
{
	u64 r = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);

	return r % (limit + 1);
}

/* Pick any version that touches @mask, or NULL, which is the stable content. */
static struct version *random_version(struct rnd_state *rnd, struct version *v, u8 mask)
{
	struct version *pick = NULL;
	unsigned int nr = 0;

	for (; v; v = v->older)
		if ((v->mask & mask) && !random_upto(rnd, ++nr))
			pick = v;
	return pick;
}

/* Pick a version for each sector of a block; NULL: leave the device as it is. */
static void choose(struct chooser *c, struct version *newest, struct version **picks)
{
	u64 seq = c->seq;
	unsigned int s;

	if (c->policy == BY_BLOCK) {
		struct version *last = random_version(c->rnd, newest, ALL_SECTORS);

		seq = last ? last->seq : 0;
	}
	for (s = 0; s < BLOCK_SECTORS; s++) {
		if (c->policy == BY_SECTOR)
			picks[s] = random_version(c->rnd, newest, 1U << s);
		else
			picks[s] = version_upto(newest, s, seq);
	}
}

/*
 * ---- Writing to the device. All of this is under io_mutex. ----
 */

/* Gathers pages for adjacent sectors into bios. */
struct writer {
	struct judge *j;
	struct bio *bio;
	int r;
};

static void writer_submit(struct writer *w)
{
	int r;

	if (!w->bio)
		return;
	r = submit_bio_wait(w->bio);
	if (r && !w->r)
		w->r = r;
	bio_put(w->bio);
	w->bio = NULL;
}

static void writer_add(struct writer *w, sector_t sector, struct page *page,
		       unsigned int from, unsigned int nr)
{
	unsigned int len = nr << SECTOR_SHIFT, offset = from << SECTOR_SHIFT;

	if (w->bio && bio_end_sector(w->bio) == sector &&
	    bio_add_page(w->bio, page, len, offset) == len)
		return;

	writer_submit(w);
	w->bio = bio_alloc(w->j->dev->bdev, BIO_MAX_VECS, REQ_OP_WRITE, GFP_NOIO);
	w->bio->bi_iter.bi_sector = sector;
	__bio_add_page(w->bio, page, len, offset);
}

/* Write @picks, one for each sector of @block: runs of one version at a time. */
static void writer_block(struct writer *w, unsigned long block, struct version **picks)
{
	sector_t start = (sector_t)block * BLOCK_SECTORS;
	unsigned int from, to;

	for (from = 0; from < BLOCK_SECTORS; from = to) {
		struct version *v = picks[from];

		for (to = from + 1; to < BLOCK_SECTORS && picks[to] == v; to++)
			;
		if (v)
			writer_add(w, start + from, v->page ? v->page : ZERO_PAGE(0),
				   from, to - from);
	}
}

static u64 count_dropped(struct version *newest, struct version **picks)
{
	unsigned int s;
	u64 nr = 0;

	for (s = 0; s < BLOCK_SECTORS; s++)
		nr += version_upto(newest, s, NEVER) != picks[s];
	return nr;
}

/*
 * Make stable what @c chooses in blocks @first to @last. Adds the sectors whose
 * newest version was not chosen to @dropped. Versions stay in the cache.
 */
static int write_back(struct judge *j, unsigned long first, unsigned long last,
		      struct chooser *c, u64 *dropped)
{
	struct writer w = { .j = j };
	unsigned long b;

	lockdep_assert_held(&j->io_mutex);
	for (b = next_cached(j, first); b <= last; b = next_cached(j, b + 1)) {
		struct version *newest = cache_newest(j, b);
		struct version *picks[BLOCK_SECTORS];

		if (b == j->nr_blocks)
			break;
		choose(c, newest, picks);
		writer_block(&w, b, picks);
		if (dropped)
			*dropped += count_dropped(newest, picks);
	}
	writer_submit(&w);
	return w.r;
}

static void forget(struct judge *j, unsigned long first, unsigned long last, u64 seq)
{
	unsigned long b;

	for (b = next_cached(j, first); b <= last && b < j->nr_blocks;
	     b = next_cached(j, b + 1))
		remove_versions(j, b, seq);
	wake_up_all(&j->room);
}

int cache_write_back(struct judge *j, unsigned long first, unsigned long last, u64 seq)
{
	struct chooser c = { .policy = UP_TO_SEQ, .seq = seq };
	int r = write_back(j, first, last, &c, NULL);

	if (!r)
		forget(j, first, last, seq);
	return r;
}

int cache_write_back_all(struct judge *j)
{
	int r;

	mutex_lock(&j->io_mutex);
	r = cache_write_back(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);
	return r;
}

/* Fail a flush: drop a random part of what it should have made stable. */
void cache_lose_some(struct judge *j, u64 seq)
{
	struct rnd_state rnd;
	unsigned long b;

	prandom_seed_state(&rnd, seq);
	mutex_lock(&j->io_mutex);
	for (b = next_cached(j, 0); b < j->nr_blocks; b = next_cached(j, b + 1))
		if (random_upto(&rnd, 1))
			remove_versions(j, b, seq);
	mutex_unlock(&j->io_mutex);
	wake_up_all(&j->room);
}

/*
 * ---- Crash ----
 */

static void choose_policy(struct judge *j, struct rnd_state *rnd, struct chooser *c)
{
	c->rnd = rnd;
	c->policy = UP_TO_SEQ;
	c->seq = 0;
	if (!rnd)
		return;

	switch (random_upto(rnd, 4)) {
	case 0:
		break;
	case 1:
		c->seq = NEVER;
		break;
	case 2:
		c->seq = random_upto(rnd, j->seq);
		break;
	case 3:
		c->policy = BY_BLOCK;
		break;
	case 4:
		c->policy = BY_SECTOR;
		break;
	}
}

void cache_crash(struct judge *j, struct rnd_state *rnd)
{
	struct chooser c;
	u64 dropped = 0;

	choose_policy(j, rnd, &c);
	mutex_lock(&j->io_mutex);
	if (write_back(j, 0, j->nr_blocks - 1, &c, &dropped))
		DMERR("%s: the crash itself failed to write", j->dev->name);
	forget(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);

	spin_lock(&j->group->lock);
	j->dropped_sectors += dropped;
	spin_unlock(&j->group->lock);
}

static u64 last_seq(struct judge *j)
{
	u64 seq;

	spin_lock(&j->group->lock);
	seq = j->seq;
	spin_unlock(&j->group->lock);
	return seq;
}

/*
 * Write back part of an address space that is cut at a random place. A version that
 * comes meanwhile stays in the cache: its block may have been written already.
 */
void cache_shrink(struct judge *j)
{
	unsigned long cut, last = j->nr_blocks - 1;
	struct rnd_state rnd;
	int r = 0;

	prandom_seed_state(&rnd, last_seq(j));
	while (!r && READ_ONCE(j->cached_blocks) > j->cache_limit) {
		u64 seq = last_seq(j);

		cut = random_upto(&rnd, last);
		mutex_lock(&j->io_mutex);
		if (random_upto(&rnd, 1))
			r = cache_write_back(j, 0, cut, seq);
		else
			r = cache_write_back(j, cut, last, seq);
		mutex_unlock(&j->io_mutex);
	}
}

void cache_forget_all(struct judge *j)
{
	mutex_lock(&j->io_mutex);
	forget(j, 0, j->nr_blocks - 1, NEVER);
	mutex_unlock(&j->io_mutex);
}

