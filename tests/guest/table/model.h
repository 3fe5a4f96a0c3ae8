/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the program `table-model` share. See model.c.
 */
#ifndef RDT_MODEL_H
#define RDT_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/dm.h"
#include "lib/random.h"
#include "blocks.h"

#define VOL		"rdt-table"
#define VOL_NODE	"/dev/mapper/" VOL
#define MAX_TEXT	15000U		/* of a message; dm.c takes little more */

/* Cases that are hard, and how often they came up. */
enum hard {
	H_READ, H_READ_MOVED, H_READ_RACED,
	H_WRITE, H_PART, H_PART_TWICE, H_WHOLE, H_ACROSS, H_ACROSS_SEGS, H_FUA, H_FLUSH,
	H_DISCARD, H_DISCARD_TOOK, H_ZEROOUT,
	H_REMAP, H_REMAP_WRONG, H_ALIAS, H_ALIAS_RACED, H_ALIAS_QUIET, H_ALIAS_SEG,
	H_ALIAS_STALE, H_SHED, H_SHED_UNIT, H_SHED_HOME,
	H_HYDRATE, H_HYDRATED, H_ALL_HOME, H_PAUSED,
	H_GARBAGE, H_EVACUATE,
	H_SUSPEND, H_NOFLUSH, H_RELOAD, H_ANEW, H_GROW, H_SHRINK,
	H_SET, H_SET_SEG, H_SET_AGAIN, H_EPOCH, H_CHECK, H_DISK, H_PAGE_READ,
	H_PACK_READ, H_PACK_PART, H_PACK_WHOLE, H_PACK_TO, H_PACK_FROM, H_PACK_ALIAS,
	H_PACK_MOVED, H_PACK_REUSED, H_GROUP_READ,
	NR_HARD,
};

extern struct run {
	/* The command line. */
	uint64_t max_ops;
	uint64_t seed;
	unsigned int nr_workers;
	bool sheds;			/* the base can give space back, and must */
	const char *base_path;
	const char *meta_path;
	const char *pool_path;

	int base_fd;
	int meta_fd;
	int pool_fd;
	int fd;				/* of the volume; while nobody is stopped */

	struct blocks b;
	uint64_t nr_contents;		/* that are in the pool from the beginning on */
	/*
	 * So many blocks around the beginning of each segment are used, which is all
	 * of them in a small volume: a large one has to have many pages, and
	 * not more data than there is memory for.
	 */
	uint64_t window;
	uint64_t chunk;			/* blocks in a row that one worker has */
	atomic_bool *touched;		/* a segment: must be dirty */
	atomic_bool *may_be_touched;	/* may be dirty, too */

	_Atomic uint64_t ops;
	_Atomic uint64_t allowed;	/* workers wait when there are more */
	_Atomic uint64_t hard[NR_HARD];
	_Atomic uint64_t hot;		/* first block << 8 | blocks: write here */
	_Atomic uint32_t last_stamp;
} c;

/* Print what is wrong, and end. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* @r is 0. */
void must(int r, const char *what);

void *xalloc(size_t size);		/* aligned */
uint64_t now_us(void);

static inline void came_up(enum hard what)
{
	atomic_fetch_add_explicit(&c.hard[what], 1, memory_order_relaxed);
}

/* The content that block @block of the pool has at the beginning. */
uint64_t first_content(uint64_t block);
/* A block that is in use, by chance. */
uint64_t pick_block(uint64_t *random);

/* Read or write whole sectors, as words. */
int read_words(int fd, uint64_t first, uint64_t sectors, uint64_t *words);
int write_words(int fd, uint64_t first, uint64_t sectors, const uint64_t *words);

/*
 * model_io.c: threads that read and write. Each block belongs to one of them.
 */
void workers_start(void);
/* All of them are between two batches, until told to go on. */
void workers_stop(void);
void workers_go_on(void);
/* For good. */
void workers_end(void);
unsigned int worker_of(uint64_t block);

/*
 * model_check.c: what the target and the disks say.
 */

/* The place of the @n-th block, when the blocks lie in a row from @first on. */
struct place nth(struct place first, uint64_t n);
bool is_same(struct place a, struct place b);
bool is_in_pool(struct place place);

/* The table of [@first, @first + @nr) as the target tells it. */
void ask_table(uint64_t first, uint64_t nr, struct place *places);
/* The same in short, for messages. */
void place_to_text(struct place place, char *text, size_t size);

struct status {
	uint64_t epoch, dirty, base, zero, pool, left, waiting, page_reads, groups_read;
	bool frozen;
	char tracking[16], mode[16], hydrate[16];
};

void ask_status(struct status *status);

/* Nobody writes: are these segments what they must be? From now on we know. */
void check_segs(uint64_t first, uint64_t nr);
/* The whole table: the numbers of the status line, dirty bits, the disk. */
void check_table(uint64_t *rng, bool hydrating);
void check_dirty(void);

#endif
