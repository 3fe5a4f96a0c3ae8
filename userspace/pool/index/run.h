/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A run of the index: a sorted file that says where blocks of the pool are. It is only a hint:
 * all that it says is looked at again where the block is.
 *
 *	block 0		head
 *	blocks 1..v	the summary vector
 *	blocks v+1..	pages of entries
 *
 * All is little endian, and a block has 4 KiB. The head:
 *
 *	 0  8  magic "RDINDEX1"
 *	 8  4  CRC-32C of the block with this field zero
 *	12  4  version, 1
 *	16 16  UUID of the pool
 *	32  8  generation: of two runs that have a block the greater one holds
 *	40  8  number of entries
 *	48  8  number of buckets
 *	56  8  number of pages: the buckets, and what did not fit into the last one
 *	64  8  number of lines of the vector
 *	72  4  sample: of how many blocks one is in the index
 *	76     zeros
 *
 * Any other block ends with its number (4 bytes) and the CRC-32C of what is before that CRC.
 *
 * A page has up to 255 entries of 16 bytes, and at byte 4080 how many (4 bytes). An entry is
 * a key, the first 8 bytes of the fingerprint as a big-endian number, and a place, frame << 9 |
 * slot, in the lower 46 bits of 8 bytes; the upper ones are zeros. Entries are in the order of
 * keys. The high bits of a key say in which page it is, its bucket; where that one is full, it
 * is in the next. So a key is found by one read.
 *
 * The vector is a Bloom filter: a key sets 8 bits of one line of 64 bytes, and a block has 63
 * lines. The high bits of a key choose the line, so that the vector is written from front to
 * back like the pages, in little memory. A key has 24 bits of the vector, in small runs 32:
 * there may be some of each, and each adds its own false positives.
 *
 * A table of SQLite, sorted by key, is too slow. To put 4 million entries into it, which
 * are a quarter of what 1 TiB has, takes 22 s of a processor or more, and 5.4 s if they come in
 * order; runs take 1.8 s at most. With a cache of 32 MiB each second lookup of what the table lacks
 * reads a page of it, with vectors each hundredth. The table has 72 MiB, the runs 94 MiB.
 * "tests/bench/pool/run.sh --series sqlite index" prints what SQLite takes.
 */
#ifndef RD_INDEX_RUN_H
#define RD_INDEX_RUN_H

#include "pool/data/fp.h"

/* One of so many fingerprints is in the index. */
#define RD_INDEX_SAMPLE		16
#define RD_INDEX_RUN_PAGE_ENTRIES	255
#define RD_INDEX_RUN_NAME		24

struct rd_index_run_entry {
	u64 key;
	u64 place;		/* frame << 9 | slot */
};

struct rd_index_run_head {
	u8 uuid[16];
	u64 generation;
	u64 nr_entries;
	u64 nr_buckets, nr_pages, nr_lines;
};

struct rd_index_run {
	int fd;
	u64 number;		/* its name */
	struct rd_index_run_head head;
	u8 *vector;		/* its blocks, or NULL: it is read */
	u64 nr_asked;		/* keys that it was read for */
	u64 at;			/* the number of the block that is in @block; 0: none */
	u8 block[RD_BLOCK_SIZE];
};

static inline u64 rd_index_run_key(const struct rd_fp *fp)
{
	u64 key = 0;
	unsigned int i;

	for (i = 0; i < 8; i++)
		key = key << 8 | fp->b[i];
	return key;
}

/* Spread keys over @nr buckets, in their order. */
typedef unsigned __int128 rd_index_product;

static inline u64 rd_index_spread(u64 key, u64 nr)
{
	return (rd_index_product)key * nr >> 64;
}

/* Count the bytes of the vector of @run. */
u64 rd_index_run_vector_bytes(const struct rd_index_run *run);

/*
 * Open the run that is in the file @fd, which belongs to @run then; on an error it is closed.
 * -EBADMSG: it is damaged, or of another pool or program.
 */
int rd_index_run_open(struct rd_index_run *run, int fd, const u8 uuid[16]);
void rd_index_run_close(struct rd_index_run *run);

/* Read the vector into memory. -EBADMSG: it is damaged. */
int rd_index_run_load_vector(struct rd_index_run *run);

/* May @key be in the run? 1, 0, or -errno: -EBADMSG, it is damaged. */
int rd_index_run_may_have(struct rd_index_run *run, u64 key);

/* Find @key: 1, 0, or -errno as before. */
int rd_index_run_find(struct rd_index_run *run, u64 key, u64 *ret_place);

/* Read all entries, in order. */
struct rd_index_run_reader {
	struct rd_index_run *run;
	u8 *pages;
	u64 next_page;			/* to be read */
	unsigned int nr, page, entry;	/* pages there are, and the next entry */
};

int rd_index_run_read(struct rd_index_run_reader *reader, struct rd_index_run *run);
/* 1, 0: there is no more, or -errno as before. */
int rd_index_run_next(struct rd_index_run_reader *reader, struct rd_index_run_entry *ret);
void rd_index_run_reader_free(struct rd_index_run_reader *reader);

/* Write blocks one after the other, from the start of the vector or of the pages on. */
struct rd_index_run_stream {
	u8 *blocks;
	u64 first;		/* the number of the first of @blocks */
	unsigned int nr;	/* the block that is being filled */
};

struct rd_index_run_writer {
	int fd;
	struct rd_index_run_head head;
	struct rd_index_run_stream pages, vector;
	unsigned int nr;	/* entries of the page */
};

/* Write a run of @nr entries, or fewer, to the empty file @fd. */
int rd_index_run_begin(struct rd_index_run_writer *writer, int fd, const u8 uuid[16],
		       u64 generation, u64 nr);
/* Keys become greater. */
int rd_index_run_put(struct rd_index_run_writer *writer, const struct rd_index_run_entry *entry);
/* Write the head. */
int rd_index_run_end(struct rd_index_run_writer *writer);
void rd_index_run_writer_free(struct rd_index_run_writer *writer);

#endif
