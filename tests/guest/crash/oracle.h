/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each sector of a volume may hold, for programs that write to it from several threads,
 * crash it, and compare.
 *
 * Each write has a number, its stamp, and fills each of its sectors with stamp and sector
 * number, so that a sector on disk tells its write. The content of a pool block is marked as
 * well, with its number and the sector of the block. Content is then a word a sector in
 * memory, and a copy of the volume at some moment is a small array. Writes that overlap are
 * never in flight at the same time, so the stamps of a sector's versions grow, and after a
 * crash a sector may hold what was last known to be stable, or any version with a greater
 * stamp.
 */
#ifndef RDT_ORACLE_H
#define RDT_ORACLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SECTOR		512U
#define SEG_SECTORS	4096U
#define MAX_THREADS	16

/*
 * Content of a sector: the stamp of the write it comes from; with WORD_ZERO, zeros
 * (and the stamp of the write that left them, if we know it); with WORD_POOL, the
 * number of a pool's content. The last two are never the content of a sector that
 * is whole.
 */
#define WORD_ZERO	0x80000000U
#define WORD_POOL	0x40000000U
#define WORD_GARBAGE	0x7fffffffU	/* nothing of these */
#define WORD_NOTHING	0x7ffffffeU	/* in a copy: differs from everything */

enum op_kind {
	OP_WRITE,
	OP_ZEROS,
	OP_DISCARD,			/* zeros or not, as the device likes */
	OP_READ,
};

struct op {
	uint64_t first;			/* sector */
	uint64_t sectors;		/* 0: none */
	uint32_t stamp;
	enum op_kind kind;
	bool unsure;			/* done to some sectors, not to others */
};

struct oracle {
	uint64_t sectors;
	uint64_t segs;
	/*
	 * On the device the second half lies further back, so that what is kept
	 * of its segments is far from what is kept of the first.
	 */
	uint64_t half;			/* a multiple of SEG_SECTORS */
	uint64_t gap;

	pthread_mutex_t lock;		/* what follows */
	pthread_cond_t changed;		/* closed, or an op has ended while it is */
	bool closed;
	uint32_t last_stamp;
	uint32_t *content;		/* as acknowledged */
	uint32_t *flushed;		/* not older than this after a crash */
	uint32_t *zeroed;		/* stamp of the last write of zeros issued */
	/* Words that came by something else than a write, and their stamps. */
	uint32_t *placed;
	uint32_t *placed_at;
	bool *touched;			/* a segment: since the last recovery */
	struct op pending[MAX_THREADS];
	struct op *done;		/* acknowledged, since the last recovery */
	size_t nr_done;
	size_t max_done;
	size_t nr_flushed;		/* of done */

	/* Says more about a sector that is not what it must be. */
	void (*explain)(uint64_t sector);

	/* All that can matter to a crash goes there, see tablelog.c. */
	FILE *journal;
	uint64_t nr_events;		/* in the journal */
};

void oracle_init(struct oracle *o, uint64_t sectors);

/* Where @sector is on the device. Nothing that is read or written crosses the half. */
uint64_t oracle_place(const struct oracle *o, uint64_t sector);

/*
 * Announce what @thread is about to do where op->first and op->sectors say. False:
 * it would overlap another that is in flight. Fills in the stamp of a write.
 */
bool oracle_begin(struct oracle *o, unsigned int thread, struct op *op);
/* @good: it was acknowledged; @stable: and will survive a crash. */
void oracle_end(struct oracle *o, unsigned int thread, bool good, bool stable);
/*
 * The end of an op that may have been done in part: a discard, or one that failed.
 * @buf is what was read there after it, and that is what it is now. False, and
 * *@bad, where a sector is neither what it was nor what the op makes it.
 */
bool oracle_end_unsure(struct oracle *o, unsigned int thread, const void *buf, uint64_t *bad);
/* The end of a read. False, and *@bad, where a sector is not what it should be. */
bool oracle_end_read(struct oracle *o, unsigned int thread, const void *buf, uint64_t *bad);

/* What the write @op must write; @buf has room for op->sectors. */
void op_fill(const struct op *op, void *buf);
/* The same for a block of a pool's content. */
void pool_fill(uint32_t word, void *buf);
/* What the sector @p says it is, if it lies in @sector of the volume. */
uint32_t parse_sector(const void *p, uint64_t sector);
/* The same content? */
bool same_content(uint32_t a, uint32_t b);
/* In words; the text is good for a while. */
const char *word_text(uint32_t word);

/* Around a flush: what was acknowledged before it began is stable afterwards. */
size_t oracle_flush_begin(struct oracle *o);
void oracle_flush_end(struct oracle *o, size_t mark);

/* Wait until nothing is in flight, and let nothing begin until it is opened. */
void oracle_close(struct oracle *o);
void oracle_open(struct oracle *o);

/*
 * The volume's content is to be replaced by @words, one for each sector, but
 * WORD_NOTHING where it stays. First the plan, which returns a stamp; then it is
 * so, and stable. The oracle is closed all the time.
 */
uint32_t oracle_plan(struct oracle *o, const uint32_t *words);
void oracle_replace(struct oracle *o, const uint32_t *words, uint32_t stamp);

/* Tells the words of @sectors from @first on; false if it cannot. */
typedef bool (*oracle_reader)(uint64_t first, uint64_t sectors, uint32_t *words);
/* That, from a device. */
bool oracle_read(struct oracle *o, int fd, uint64_t first, uint64_t sectors,
		 uint32_t *words);

/*
 * A copy of the content at this moment, at which no write is on its way below:
 * where one was and has not been told us yet, @read is asked. To be freed. NULL
 * if it cannot tell.
 */
uint32_t *oracle_copy(struct oracle *o, oracle_reader read);

/* May @sector hold @word after a crash? */
bool oracle_allows(const struct oracle *o, uint64_t sector, uint32_t word);
/*
 * After a crash: read what @fd holds, all of it or only the segments touched
 * since the last time, and take it for what is. Returns the number of sectors
 * that are impossible: torn, or older than what was flushed. No write may be
 * in flight.
 */
uint64_t oracle_recover(struct oracle *o, int fd, bool all);

/*
 * Does the volume hold in segment @seg what @copy says? Else *@ret_sector is
 * the first that differs.
 */
bool oracle_equals(struct oracle *o, const uint32_t *copy, uint64_t seg,
		   uint64_t *ret_sector);

/* Begin the journal, with what the volume holds now. */
void oracle_journal(struct oracle *o, FILE *journal);
/* A line of somebody else for it. */
void oracle_note(struct oracle *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
