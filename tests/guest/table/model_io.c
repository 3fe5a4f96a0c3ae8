// SPDX-License-Identifier: GPL-2.0
/*
 * The threads of table-model that read and write. A worker sends batches of requests to
 * blocks of its own, which are in flight together, several of them to the same block, and
 * then checks that each read returned what it must. The writes of a batch never overlap,
 * except for discards, whose result is open: the worker looks it up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model.h"

#define MAX_WORKERS	8
#define MAX_BATCH	32
#define ARENA_SECTORS	8192U		/* of data, in a batch */

enum kind {
	READ,
	WRITE,
	WRITE_CONTENT,			/* of the pool, so that there is some to alias */
	ZEROOUT,
	DISCARD,
	FLUSH,
};

struct op {
	enum kind kind;
	bool fua;
	uint64_t first;
	uint64_t sectors;
	uint32_t stamp;
	uint64_t content;		/* of the first block; others follow it */
	void *buf;
	struct iocb iocb;
};

struct worker {
	unsigned int nr;
	uint64_t random;
	pthread_t thread;
	aio_context_t ctx;
	char *arena;
	uint64_t *words;		/* as many */
	uint64_t used;			/* sectors of the arena */
	uint64_t focus;			/* a block where much happens */
	unsigned int nr_ops;
	struct op ops[MAX_BATCH];
};

static struct worker workers[MAX_WORKERS];

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
static bool stop, end;			/* under gate_lock */
static unsigned int nr_running;

/*
 * ---- what a batch is made of ----
 */

/* Chunks begin in the middle, so that those at a segment's border are on both sides. */
static uint64_t chunk_of(uint64_t block)
{
	return (block + c.chunk / 2) / c.chunk;
}

unsigned int worker_of(uint64_t block)
{
	return chunk_of(block) % c.nr_workers;
}

static uint64_t own_block(struct worker *w)
{
	uint64_t hot = atomic_load(&c.hot), block;

	if (hot && one_in(&w->random, 3)) {
		block = (hot >> 8) + below(&w->random, hot & 0xff);
		if (block < c.b.nr && worker_of(block) == w->nr)
			return block;
	}
	if (one_in(&w->random, 2)) {
		block = w->focus + below(&w->random, 4);
		if (block < c.b.nr && worker_of(block) == w->nr)
			return block;
	}
	do {
		block = pick_block(&w->random);
	} while (worker_of(block) != w->nr);
	if (one_in(&w->random, 16))
		w->focus = block;
	return block;
}

static void choose_range(struct worker *w, struct op *op)
{
	uint64_t *random = &w->random, block = own_block(w), end;
	unsigned int offset = 0, dice = below(random, 32);

	if (dice < 10) {
		offset = below(random, BLOCK_SECTORS);
		op->sectors = 1 + below(random, one_in(random, 4) ? 12 : BLOCK_SECTORS - offset);
	} else if (dice < 24) {
		op->sectors = BLOCK_SECTORS;
	} else if (dice < 28) {
		offset = below(random, BLOCK_SECTORS);
		op->sectors = 1 + below(random, 40);
	} else {
		op->sectors = BLOCK_SECTORS * (1 + below(random, dice < 31 ? 8 : 32));
		if (dice == 31 && one_in(random, 16))
			op->sectors = BLOCK_SECTORS * c.chunk;
	}
	op->first = block * BLOCK_SECTORS + offset;
	/* Neither beyond what is ours nor beyond the volume. */
	end = (chunk_of(block) * c.chunk + (c.chunk + 1) / 2) * BLOCK_SECTORS;
	if (end > c.b.sectors)
		end = c.b.sectors;
	if (op->first >= end)
		op->first = end - 1;
	if (op->sectors > end - op->first)
		op->sectors = end - op->first;
}

static enum kind choose_kind(struct worker *w)
{
	unsigned int dice = below(&w->random, 256);

	return dice < 100 ? READ : dice < 200 ? WRITE : dice < 244 ? WRITE_CONTENT :
	       dice < 248 ? ZEROOUT : dice < 254 ? DISCARD : FLUSH;
}

static bool is_write(const struct op *op)
{
	return op->kind == WRITE || op->kind == WRITE_CONTENT;
}

static bool is_change(const struct op *op)
{
	return op->kind != READ && op->kind != FLUSH;
}

static bool overlaps(const struct op *a, const struct op *b)
{
	return a->first < b->first + b->sectors && b->first < a->first + a->sectors;
}

static bool collides(const struct worker *w, const struct op *op)
{
	unsigned int i;

	if (!is_change(op))
		return false;
	for (i = 0; i < w->nr_ops; i++) {
		const struct op *other = &w->ops[i];

		if (is_change(other) && overlaps(op, other) &&
		    (op->kind == ZEROOUT || other->kind == ZEROOUT ||
		     (is_write(op) && is_write(other))))
			return true;
	}
	return false;
}

static uint64_t op_word(const struct op *op, uint64_t sector)
{
	switch (op->kind) {
	case WRITE:
		return word_of_write(op->stamp, sector);
	case WRITE_CONTENT:
		return word_of_content(first_content(op->content + sector / BLOCK_SECTORS -
						     op->first / BLOCK_SECTORS), sector);
	default:
		return WORD_ZERO;
	}
}

static void fill(struct worker *w, struct op *op)
{
	uint64_t i;

	op->stamp = atomic_fetch_add(&c.last_stamp, 1);
	op->fua = one_in(&w->random, 12);
	op->content = below(&w->random, c.nr_contents);
	for (i = 0; i < op->sectors; i++)
		w->words[i] = op_word(op, op->first + i);
	fill_sectors(op->buf, w->words, op->sectors);
}

/* Whole blocks, also at the end of a volume that ends within one. */
static void make_whole(struct op *op)
{
	uint64_t end = op->first + op->sectors + BLOCK_SECTORS - 1;

	end -= end % BLOCK_SECTORS;
	op->first -= op->first % BLOCK_SECTORS;
	if (end > op->first + 8 * BLOCK_SECTORS)
		end = op->first + 8 * BLOCK_SECTORS;
	if (end > c.b.sectors)
		end = c.b.sectors;
	op->sectors = end - op->first;
}

static void add_op(struct worker *w)
{
	struct op *op = &w->ops[w->nr_ops];

	op->kind = choose_kind(w);
	choose_range(w, op);
	if (op->kind == WRITE_CONTENT)
		make_whole(op);
	if (w->used + op->sectors > ARENA_SECTORS || collides(w, op))
		return;
	op->buf = w->arena + w->used * SECTOR;
	if (op->kind == READ || is_write(op))
		w->used += op->sectors;
	if (is_write(op))
		fill(w, op);
	w->nr_ops++;
}

/*
 * ---- which of it is hard ----
 */

static uint64_t first_block(const struct op *op)
{
	return op->first / BLOCK_SECTORS;
}

static uint64_t last_block(const struct op *op)
{
	return (op->first + op->sectors - 1) / BLOCK_SECTORS;
}

static bool covers_block(const struct op *op, uint64_t block)
{
	return op->first <= block * BLOCK_SECTORS &&
	       op->first + op->sectors >= block * BLOCK_SECTORS + block_sectors(&c.b, block);
}

static bool is_moved(uint64_t block)
{
	return may_get(&c.b, block) & MAY_AWAY;
}

static void count_part(const struct worker *w, const struct op *op, uint64_t block)
{
	const struct op *other;

	came_up(H_PART);
	if (may_get(&c.b, block) & MAY_PACK)
		came_up(H_PACK_PART);
	for (other = w->ops; other < op; other++)
		if (is_write(other) && first_block(other) <= block && last_block(other) >= block)
			came_up(H_PART_TWICE);
}

static void count_hard(const struct worker *w, const struct op *op)
{
	static const enum hard kinds[] = {
		H_READ, H_WRITE, H_WRITE, H_ZEROOUT, H_DISCARD, H_FLUSH,
	};
	uint64_t block, moved = 0, last = last_block(op);

	came_up(kinds[op->kind]);
	for (block = first_block(op); block <= last; block++) {
		if (!is_moved(block))
			continue;
		moved++;
		if (op->kind == READ && may_get(&c.b, block) & MAY_PACK)
			came_up(H_PACK_READ);
		if (is_write(op) && !covers_block(op, block))
			count_part(w, op, block);
		else if (is_write(op))
			came_up(H_WHOLE);
	}
	if (op->kind == READ && moved)
		came_up(H_READ_MOVED);
	if (is_write(op) && op->fua)
		came_up(H_FUA);
	if (is_write(op) && moved && moved < last - first_block(op) + 1)
		came_up(H_ACROSS);
	if (is_write(op) && moved && op->first / SEG_SECTORS != last / SEG_BLOCKS)
		came_up(H_ACROSS_SEGS);
}

/*
 * ---- running it ----
 */

static void begin_change(const struct op *op)
{
	uint64_t block, seg;

	for (block = first_block(op); block <= last_block(op); block++)
		may_begin(&c.b, block);
	for (seg = op->first / SEG_SECTORS; seg <= last_block(op) / SEG_BLOCKS; seg++)
		atomic_store(op->kind == DISCARD ? &c.may_be_touched[seg] : &c.touched[seg], true);
}

/* What was written is on the base, and nowhere else. */
static void end_write(const struct op *op)
{
	uint64_t block;

	for (block = first_block(op); block <= last_block(op); block++)
		may_wrote(&c.b, block);
}

static void prepare(struct worker *w, struct op *op)
{
	memset(&op->iocb, 0, sizeof(op->iocb));
	op->iocb.aio_data = (uintptr_t)op;
	op->iocb.aio_fildes = c.fd;
	op->iocb.aio_lio_opcode = is_write(op) ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	op->iocb.aio_rw_flags = is_write(op) && op->fua ? RWF_DSYNC : 0;
	op->iocb.aio_buf = (uintptr_t)op->buf;
	op->iocb.aio_nbytes = op->sectors * SECTOR;
	op->iocb.aio_offset = op->first * SECTOR;
	count_hard(w, op);
	if (is_change(op))
		begin_change(op);
}

static void failed(const struct worker *w, const struct op *op, int r)
{
	static const char * const names[] = {
		"read", "write", "write", "write zeroes", "discard", "flush",
	};

	die("worker %u: %s of sectors %" PRIu64 " to %" PRIu64 " failed: %s", w->nr,
	    names[op->kind], op->first, op->first + op->sectors - 1, strerror(r));
}

static long submit(struct worker *w)
{
	struct iocb *list[MAX_BATCH];
	long nr = 0, done, r;
	unsigned int i;

	for (i = 0; i < w->nr_ops; i++)
		if (w->ops[i].kind == READ || is_write(&w->ops[i]))
			list[nr++] = &w->ops[i].iocb;
	for (done = 0; done < nr; done += r) {
		r = syscall(SYS_io_submit, w->ctx, nr - done, list + done);
		if (r <= 0)
			die("io_submit: %s", strerror(errno));
	}
	return nr;
}

/* There is no asynchronous kind of these. */
static void run_others(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < w->nr_ops; i++) {
		const struct op *op = &w->ops[i];
		uint64_t range[2] = { op->first * SECTOR, op->sectors * SECTOR };
		int r = 0;

		if (op->kind == FLUSH)
			r = one_in(&w->random, 2) ? fsync(c.fd) : fdatasync(c.fd);
		else if (op->kind == ZEROOUT)
			r = ioctl(c.fd, BLKZEROOUT, range);
		else if (op->kind == DISCARD)
			r = ioctl(c.fd, BLKDISCARD, range);
		if (r)
			failed(w, op, errno);
	}
}

static void reap(struct worker *w, long nr)
{
	struct io_event events[MAX_BATCH];

	while (nr > 0) {
		long i, r = syscall(SYS_io_getevents, w->ctx, 1, nr, events, NULL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			die("io_getevents: %s", strerror(errno));
		for (i = 0; i < r; i++) {
			struct op *op = (struct op *)(uintptr_t)events[i].data;

			if (events[i].res != (int64_t)(op->sectors * SECTOR))
				failed(w, op, -events[i].res);
			/* Others may still be reading where it was. */
			if (is_write(op))
				end_write(op);
		}
		nr -= r;
	}
}

/*
 * ---- what came of it ----
 */

/*
 * Somebody in this batch has written @word to @sector, or may have. (A memory that
 * is read while it is written to gives a part of each.)
 */
static bool is_in_batch(const struct worker *w, uint64_t sector, uint64_t word)
{
	unsigned int i;

	for (i = 0; i < w->nr_ops; i++) {
		const struct op *op = &w->ops[i];

		if (is_change(op) && sector >= op->first && sector < op->first + op->sectors &&
		    (word == op_word(op, sector) || word == WORD_GARBAGE))
			return true;
	}
	return false;
}

static void wrong(const struct worker *w, uint64_t sector, uint64_t word)
{
	die("MISS: worker %u read %#" PRIx64 " in sector %" PRIu64 " (block %#" PRIx64
	    "), which must be %#" PRIx64, w->nr, word, sector, sector / BLOCK_SECTORS,
	    c.b.word[sector]);
}

static void check_read(struct worker *w, const struct op *op)
{
	const uint64_t *must_be = c.b.word + op->first;
	bool raced = false;
	uint64_t i;

	parse_sectors(op->buf, w->words, op->sectors);
	for (i = 0; i < op->sectors; i++) {
		if (w->words[i] == must_be[i])
			continue;
		if (!is_in_batch(w, op->first + i, w->words[i]))
			wrong(w, op->first + i, w->words[i]);
		raced = true;
	}
	if (raced)
		came_up(H_READ_RACED);
}

static void set_words(const struct op *op)
{
	uint64_t i;

	for (i = 0; i < op->sectors; i++)
		c.b.word[op->first + i] = op_word(op, op->first + i);
}

static void end_zeroout(const struct op *op)
{
	uint64_t block;

	set_words(op);
	end_write(op);
	for (block = first_block(op); block <= last_block(op); block++)
		if (covers_block(op, block))
			may_discarded(&c.b, block);
}

/* Each sector is what it was, or zeros. */
static void end_discard(struct worker *w, const struct op *op)
{
	uint64_t i, block;
	int r = read_words(c.fd, op->first, op->sectors, w->words);
	bool took = false;

	if (r)
		failed(w, op, -r);
	for (i = 0; i < op->sectors; i++) {
		uint64_t *word = &c.b.word[op->first + i];

		if (w->words[i] == *word)
			continue;
		if (w->words[i] != WORD_ZERO)
			wrong(w, op->first + i, w->words[i]);
		*word = WORD_ZERO;
		atomic_store(&c.touched[(op->first + i) / SEG_SECTORS], true);
		took = true;
	}
	for (block = first_block(op); block <= last_block(op); block++)
		may_discarded(&c.b, block);
	if (took)
		came_up(H_DISCARD_TOOK);
}

static void for_each(struct worker *w, bool (*which)(const struct op *op),
		     void (*what)(const struct op *op))
{
	unsigned int i;

	for (i = 0; i < w->nr_ops; i++)
		if (which(&w->ops[i]))
			what(&w->ops[i]);
}

static bool is_zeroout(const struct op *op)
{
	return op->kind == ZEROOUT;
}

static void end_change(const struct op *op)
{
	uint64_t block;

	for (block = first_block(op); block <= last_block(op); block++)
		may_end(&c.b, block);
}

static void run_batch(struct worker *w)
{
	unsigned int i, n = 1 + below(&w->random, one_in(&w->random, 4) ? 4 : MAX_BATCH);
	long nr;

	w->nr_ops = 0;
	w->used = 0;
	while (n--)
		add_op(w);
	for (i = 0; i < w->nr_ops; i++)
		prepare(w, &w->ops[i]);
	nr = submit(w);
	run_others(w);
	reap(w, nr);
	for (i = 0; i < w->nr_ops; i++)
		if (w->ops[i].kind == READ)
			check_read(w, &w->ops[i]);
	for_each(w, is_write, set_words);
	for_each(w, is_zeroout, end_zeroout);
	for (i = 0; i < w->nr_ops; i++)
		if (w->ops[i].kind == DISCARD)
			end_discard(w, &w->ops[i]);
	for_each(w, is_change, end_change);
	atomic_fetch_add(&c.ops, w->nr_ops);
}

/*
 * ---- stop and go ----
 */

static void park(void)
{
	nr_running--;
	pthread_cond_broadcast(&gate);
	while (stop && !end)
		pthread_cond_wait(&gate, &gate_lock);
	nr_running++;
}

/* False: this is the end. */
static bool may_go_on(void)
{
	bool r;

	pthread_mutex_lock(&gate_lock);
	while (!end && (stop || atomic_load(&c.ops) >= atomic_load(&c.allowed))) {
		if (stop) {
			park();
			continue;
		}
		pthread_mutex_unlock(&gate_lock);
		usleep(500);
		pthread_mutex_lock(&gate_lock);
	}
	r = !end;
	pthread_mutex_unlock(&gate_lock);
	return r;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (may_go_on())
		run_batch(w);
	return NULL;
}

void workers_start(void)
{
	unsigned int i;

	if (c.nr_workers > MAX_WORKERS)
		die("no more than %u threads", MAX_WORKERS);
	nr_running = c.nr_workers;
	for (i = 0; i < c.nr_workers; i++) {
		struct worker *w = &workers[i];

		w->nr = i;
		w->random = c.seed * 1000 + i;
		w->arena = xalloc(ARENA_SECTORS * SECTOR);
		w->words = xalloc(ARENA_SECTORS * sizeof(*w->words));
		if (syscall(SYS_io_setup, MAX_BATCH, &w->ctx))
			die("io_setup: %s", strerror(errno));
		must(-pthread_create(&w->thread, NULL, work, w), "start a thread");
	}
}

void workers_stop(void)
{
	pthread_mutex_lock(&gate_lock);
	stop = true;
	while (nr_running)
		pthread_cond_wait(&gate, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
}

void workers_go_on(void)
{
	pthread_mutex_lock(&gate_lock);
	stop = false;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

void workers_end(void)
{
	unsigned int i;

	pthread_mutex_lock(&gate_lock);
	end = true;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
	for (i = 0; i < c.nr_workers; i++) {
		pthread_join(workers[i].thread, NULL);
		syscall(SYS_io_destroy, workers[i].ctx);
	}
}
