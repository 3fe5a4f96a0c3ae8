// SPDX-License-Identifier: GPL-2.0
/* Runs of the index: one file, read and written; see run.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/sort.h"
#include "run.h"

#define MAGIC		"RDINDEX1"
#define VERSION		1
#define PLACE_BITS	46
#define LINE		64
#define BLOCK_LINES	63
#define VECTOR_BITS	8
/* Entries of a page of a new run: three quarters, so that few pages overflow. */
#define FILL		191
/* Entries a line, and up to how many entries a run is small. */
#define LINE_ENTRIES	21
#define SMALL_ENTRIES	16
#define SMALL		(1U << 18)
/* Blocks that are read or written at once. */
#define CHUNK		16
/* Keys after which a vector that is not in memory is read ahead. */
#define READ_AHEAD	64

struct head_disk {
	u8 magic[8];
	__le32 crc;
	__le32 version;
	u8 uuid[16];
	__le64 generation;
	__le64 nr_entries;
	__le64 nr_buckets;
	__le64 nr_pages;
	__le64 nr_lines;
	__le32 sample;
	u8 zeros[RD_BLOCK_SIZE - 76];
} __attribute__((packed));

struct entry_disk {
	__le64 key;
	__le64 place;
};

struct page_disk {
	struct entry_disk entries[RD_INDEX_RUN_PAGE_ENTRIES];
	__le32 nr;
	__le32 zero;
	__le32 number;
	__le32 crc;
};

_Static_assert(sizeof(struct head_disk) == RD_BLOCK_SIZE, "head of a run");
_Static_assert(sizeof(struct page_disk) == RD_BLOCK_SIZE, "page of a run");

static u32 block_crc(const struct page_disk *block)
{
	return ~crc32c(~0U, block, offsetof(struct page_disk, crc));
}

static u32 head_crc(const struct head_disk *disk)
{
	struct head_disk copy = *disk;

	copy.crc = 0;
	return ~crc32c(~0U, &copy, sizeof(copy));
}

static void seal(void *to, u64 number)
{
	struct page_disk *block = to;

	block->number = cpu_to_le32((u32)number);
	block->crc = cpu_to_le32(block_crc(block));
}

static bool is_good(const void *from, u64 number)
{
	const struct page_disk *block = from;

	return le32_to_cpu(block->number) == (u32)number &&
		le32_to_cpu(block->crc) == block_crc(block) &&
		le32_to_cpu(block->nr) <= RD_INDEX_RUN_PAGE_ENTRIES;
}

static u64 vector_blocks(const struct rd_index_run_head *head)
{
	return (head->nr_lines + BLOCK_LINES - 1) / BLOCK_LINES;
}

static u64 first_page(const struct rd_index_run_head *head)
{
	return 1 + vector_blocks(head);
}

u64 rd_index_run_vector_bytes(const struct rd_index_run *run)
{
	return vector_blocks(&run->head) * RD_BLOCK_SIZE;
}

/*
 * The bits of @key in its line. Keys of a line have the same high bits, so all bits of the key
 * are mixed.
 */
static void bits_of(u64 key, u16 bits[VECTOR_BITS])
{
	unsigned int i;

	key = (key ^ key >> 32) * 0x9e3779b97f4a7c15ULL;
	key = (key ^ key >> 29) * 0xd6e8feb86659fd93ULL;
	key ^= key >> 32;
	for (i = 0; i < VECTOR_BITS; i++) {
		bits[i] = key >> 55;
		key = i == VECTOR_BITS - 2 ? (key ^ key >> 31) * 0x94d049bb133111ebULL : key << 9;
	}
}

/* --- reading */

static int read_head(struct rd_index_run_head *head, int fd, const u8 uuid[16])
{
	struct head_disk disk;
	struct stat st;
	int r;

	r = fstat(fd, &st) ? -errno : rd_read_direct(fd, &disk, sizeof(disk), 0);
	if (r)
		return r;
	if (memcmp(disk.magic, MAGIC, sizeof(disk.magic)) ||
	    le32_to_cpu(disk.crc) != head_crc(&disk) || le32_to_cpu(disk.version) != VERSION ||
	    le32_to_cpu(disk.sample) != RD_INDEX_SAMPLE || memcmp(disk.uuid, uuid, 16))
		return -EBADMSG;
	memcpy(head->uuid, disk.uuid, sizeof(head->uuid));
	head->generation = le64_to_cpu(disk.generation);
	head->nr_entries = le64_to_cpu(disk.nr_entries);
	head->nr_buckets = le64_to_cpu(disk.nr_buckets);
	head->nr_pages = le64_to_cpu(disk.nr_pages);
	head->nr_lines = le64_to_cpu(disk.nr_lines);
	/* Numbers that the file cannot have are no numbers to compute with. */
	if (head->nr_lines > (u64)st.st_size || head->nr_pages > (u64)st.st_size ||
	    !head->nr_lines || !head->nr_buckets || head->nr_buckets > head->nr_pages ||
	    head->nr_entries > head->nr_pages * RD_INDEX_RUN_PAGE_ENTRIES)
		return -EBADMSG;
	return (first_page(head) + head->nr_pages) * RD_BLOCK_SIZE == (u64)st.st_size ?
		0 : -EBADMSG;
}

int rd_index_run_open(struct rd_index_run *run, int fd, const u8 uuid[16])
{
	int r;

	*run = (struct rd_index_run){ .fd = fd };
	r = read_head(&run->head, fd, uuid);
	if (r)
		rd_index_run_close(run);
	return r;
}

void rd_index_run_close(struct rd_index_run *run)
{
	if (run->fd >= 0)
		close(run->fd);
	run->fd = -1;
	free(run->vector);
	run->vector = NULL;
}

static int read_blocks(const struct rd_index_run *run, u8 *to, u64 first, unsigned int nr)
{
	unsigned int i;
	int r;

	r = rd_failpoint("index-read");
	if (!r)
		r = rd_read_direct(run->fd, to, (size_t)nr * RD_BLOCK_SIZE, first * RD_BLOCK_SIZE);
	for (i = 0; i < nr && !r; i++)
		if (!is_good(to + (size_t)i * RD_BLOCK_SIZE, first + i))
			r = -EBADMSG;
	return r;
}

/* Have block @number in run->block: keys are mostly asked in order. */
static int get_block(struct rd_index_run *run, u64 number)
{
	int r;

	if (run->at == number)
		return 0;
	run->at = 0;
	r = read_blocks(run, run->block, number, 1);
	if (!r)
		run->at = number;
	return r;
}

int rd_index_run_load_vector(struct rd_index_run *run)
{
	u64 nr = vector_blocks(&run->head), i;
	u8 *vector = malloc(nr * RD_BLOCK_SIZE);
	int r = vector ? 0 : -ENOMEM;

	for (i = 0; i < nr && !r; i += CHUNK)
		r = read_blocks(run, vector + i * RD_BLOCK_SIZE, 1 + i,
				rd_min(nr - i, CHUNK));
	if (r)
		free(vector);
	else
		run->vector = vector;
	return r;
}

/*
 * A vector that has no room in our memory is read once, in sequence, into that of the kernel:
 * each key would wait for the disk without this. It does no harm if it does not stay there. For
 * few keys it is not worth it.
 */
static void read_ahead(struct rd_index_run *run)
{
	if (++run->nr_asked == READ_AHEAD)
		posix_fadvise(run->fd, RD_BLOCK_SIZE, rd_index_run_vector_bytes(run),
			      POSIX_FADV_WILLNEED);
}

int rd_index_run_may_have(struct rd_index_run *run, u64 key)
{
	u64 line = rd_index_spread(key, run->head.nr_lines), number = line / BLOCK_LINES;
	const u8 *block = run->block;
	unsigned int i;
	u16 bits[VECTOR_BITS];
	int r;

	if (run->vector) {
		block = run->vector + number * RD_BLOCK_SIZE;
	} else {
		read_ahead(run);
		r = get_block(run, 1 + number);
		if (r)
			return r;
	}
	bits_of(key, bits);
	block += line % BLOCK_LINES * LINE;
	for (i = 0; i < VECTOR_BITS; i++)
		if (!(block[bits[i] / 8] & 1 << bits[i] % 8))
			return 0;
	return 1;
}

/* The first entry of @page that is not below @key. */
static unsigned int search(const struct page_disk *page, u64 key)
{
	return rd_count_below(le32_to_cpu(page->nr), i,
			      le64_to_cpu(page->entries[i].key) < key);
}

int rd_index_run_find(struct rd_index_run *run, u64 key, u64 *ret_place)
{
	const struct page_disk *page = (const void *)run->block;
	u64 i = rd_index_spread(key, run->head.nr_buckets);
	unsigned int at;
	int r;

	for (; i < run->head.nr_pages; i++) {
		r = get_block(run, first_page(&run->head) + i);
		if (r)
			return r;
		at = search(page, key);
		if (at == RD_INDEX_RUN_PAGE_ENTRIES)
			continue;
		if (at == le32_to_cpu(page->nr) || le64_to_cpu(page->entries[at].key) != key)
			return 0;
		*ret_place = le64_to_cpu(page->entries[at].place) & ((1ULL << PLACE_BITS) - 1);
		return 1;
	}
	return 0;
}

int rd_index_run_read(struct rd_index_run_reader *reader, struct rd_index_run *run)
{
	*reader = (struct rd_index_run_reader){ .run = run };
	reader->pages = malloc((size_t)CHUNK * RD_BLOCK_SIZE);
	return reader->pages ? 0 : -ENOMEM;
}

static int read_chunk(struct rd_index_run_reader *reader)
{
	const struct rd_index_run_head *head = &reader->run->head;
	int r;

	reader->page = 0;
	reader->nr = rd_min(head->nr_pages - reader->next_page, CHUNK);
	r = read_blocks(reader->run, reader->pages, first_page(head) + reader->next_page,
			reader->nr);
	reader->next_page += reader->nr;
	return r;
}

int rd_index_run_next(struct rd_index_run_reader *reader, struct rd_index_run_entry *ret)
{
	const struct page_disk *page;
	int r;

	for (;;) {
		if (reader->page == reader->nr) {
			if (reader->next_page == reader->run->head.nr_pages)
				return 0;
			r = read_chunk(reader);
			if (r)
				return r;
		}
		page = (const void *)(reader->pages + (size_t)reader->page * RD_BLOCK_SIZE);
		if (reader->entry < le32_to_cpu(page->nr))
			break;
		reader->page++;
		reader->entry = 0;
	}
	ret->key = le64_to_cpu(page->entries[reader->entry].key);
	ret->place = le64_to_cpu(page->entries[reader->entry].place) & ((1ULL << PLACE_BITS) - 1);
	reader->entry++;
	return 1;
}

void rd_index_run_reader_free(struct rd_index_run_reader *reader)
{
	free(reader->pages);
	reader->pages = NULL;
}

/* --- writing */

static u8 *stream_block(struct rd_index_run_stream *stream)
{
	return stream->blocks + (size_t)stream->nr * RD_BLOCK_SIZE;
}

static int stream_begin(struct rd_index_run_stream *stream, u64 first)
{
	stream->blocks = calloc(CHUNK, RD_BLOCK_SIZE);
	stream->first = first;
	stream->nr = 0;
	return stream->blocks ? 0 : -ENOMEM;
}

static int stream_write(struct rd_index_run_stream *stream, int fd)
{
	size_t len = (size_t)stream->nr * RD_BLOCK_SIZE, part;
	bool cut;
	int r;

	r = rd_transfer_point("index-write", &cut);
	if (r)
		return r;
	part = cut && len ? rd_cut(len) : len;
	r = rd_write_direct(fd, stream->blocks, part, stream->first * RD_BLOCK_SIZE);
	if (!r && part < len)
		r = rd_write_direct(fd, stream->blocks + part, len - part,
				    stream->first * RD_BLOCK_SIZE + part);
	memset(stream->blocks, 0, (size_t)CHUNK * RD_BLOCK_SIZE);
	stream->first += stream->nr;
	stream->nr = 0;
	return r;
}

/* Fill the next block. */
static int stream_step(struct rd_index_run_stream *stream, int fd)
{
	seal(stream_block(stream), stream->first + stream->nr);
	return ++stream->nr == CHUNK ? stream_write(stream, fd) : 0;
}

static int stream_step_to(struct rd_index_run_stream *stream, int fd, u64 number)
{
	int r = 0;

	while (!r && stream->first + stream->nr < number)
		r = stream_step(stream, fd);
	return r;
}

int rd_index_run_begin(struct rd_index_run_writer *writer, int fd, const u8 uuid[16],
		       u64 generation, u64 nr)
{
	unsigned int line_entries = nr <= SMALL ? SMALL_ENTRIES : LINE_ENTRIES;
	int r;

	*writer = (struct rd_index_run_writer){ .fd = fd, .head.generation = generation };
	memcpy(writer->head.uuid, uuid, sizeof(writer->head.uuid));
	writer->head.nr_buckets = rd_max((nr + FILL - 1) / FILL, 1);
	writer->head.nr_lines = rd_max((nr + line_entries - 1) / line_entries, 1);
	r = stream_begin(&writer->vector, 1);
	return r ? r : stream_begin(&writer->pages, first_page(&writer->head));
}

static int put_line(struct rd_index_run_writer *writer, u64 key)
{
	u64 line = rd_index_spread(key, writer->head.nr_lines);
	unsigned int i;
	u16 bits[VECTOR_BITS];
	u8 *at;
	int r;

	r = stream_step_to(&writer->vector, writer->fd, 1 + line / BLOCK_LINES);
	if (r)
		return r;
	at = stream_block(&writer->vector) + line % BLOCK_LINES * LINE;
	bits_of(key, bits);
	for (i = 0; i < VECTOR_BITS; i++)
		at[bits[i] / 8] |= 1 << bits[i] % 8;
	return 0;
}

static int put_entry(struct rd_index_run_writer *writer, const struct rd_index_run_entry *entry)
{
	struct rd_index_run_stream *pages = &writer->pages;
	u64 now = pages->first + pages->nr;
	u64 number = first_page(&writer->head) +
		rd_index_spread(entry->key, writer->head.nr_buckets);
	struct page_disk *page;
	int r = 0;

	if (number <= now && writer->nr == RD_INDEX_RUN_PAGE_ENTRIES)
		number = now + 1;
	if (number > now) {
		r = stream_step_to(pages, writer->fd, number);
		writer->nr = 0;
	}
	if (r)
		return r;
	page = (void *)stream_block(pages);
	page->entries[writer->nr].key = cpu_to_le64(entry->key);
	page->entries[writer->nr].place = cpu_to_le64(entry->place);
	page->nr = cpu_to_le32(++writer->nr);
	return 0;
}

int rd_index_run_put(struct rd_index_run_writer *writer, const struct rd_index_run_entry *entry)
{
	int r = put_line(writer, entry->key);

	if (!r)
		r = put_entry(writer, entry);
	writer->head.nr_entries++;
	return r;
}

static int write_head(const struct rd_index_run_writer *writer)
{
	const struct rd_index_run_head *head = &writer->head;
	struct head_disk disk = {
		.version = cpu_to_le32(VERSION),
		.generation = cpu_to_le64(head->generation),
		.nr_entries = cpu_to_le64(head->nr_entries),
		.nr_buckets = cpu_to_le64(head->nr_buckets),
		.nr_pages = cpu_to_le64(head->nr_pages),
		.nr_lines = cpu_to_le64(head->nr_lines),
		.sample = cpu_to_le32(RD_INDEX_SAMPLE),
	};

	memcpy(disk.magic, MAGIC, sizeof(disk.magic));
	memcpy(disk.uuid, head->uuid, sizeof(disk.uuid));
	disk.crc = cpu_to_le32(head_crc(&disk));
	return rd_write_direct(writer->fd, &disk, sizeof(disk), 0);
}

int rd_index_run_end(struct rd_index_run_writer *writer)
{
	struct rd_index_run_stream *pages = &writer->pages, *vector = &writer->vector;
	u64 start = first_page(&writer->head), end;
	int r;

	end = rd_max(pages->first + pages->nr + 1, start + writer->head.nr_buckets);
	writer->head.nr_pages = end - start;
	r = stream_step_to(pages, writer->fd, end);
	if (!r)
		r = stream_write(pages, writer->fd);
	if (!r)
		r = stream_step_to(vector, writer->fd, start);
	if (!r)
		r = stream_write(vector, writer->fd);
	return r ? r : write_head(writer);
}

void rd_index_run_writer_free(struct rd_index_run_writer *writer)
{
	free(writer->pages.blocks);
	free(writer->vector.blocks);
	writer->pages.blocks = NULL;
	writer->vector.blocks = NULL;
}
