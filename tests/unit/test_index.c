// SPDX-License-Identifier: GPL-2.0
/*
 * The index of blocks: what was added is found, by other processes, too; what is damaged is
 * dropped, and nothing fails. Lookups: runs grow as long as content agrees, and short ones
 * are not given.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/sql.h"
#include "pool/catalog/owners.h"
#include "pool/index/fp_cache.h"
#include "pool/index/gather.h"
#include "pool/index/lookup.h"
#include "pool/index/files.h"

#define PACKED		(1ULL << 36)

static const u8 uuid[16] = "the pool's uuid.";
static const u8 other[16] = "another's uuid..";
static char dir[30] = "/tmp/test-index-XXXXXX";
static unsigned int nr_warnings;

static void print(enum rd_log_kind kind, const char *text)
{
	(void)text;
	nr_warnings += kind == RD_LOG_WARNING;
}

static const struct rd_log_printer printer = { .print = print };

/* --- fingerprints: each number has one, the same in each run */

static u64 mix(u64 n)
{
	n = (n ^ n >> 31) * 0x9e3779b97f4a7c15ULL;
	n = (n ^ n >> 29) * 0xbf58476d1ce4e5b9ULL;
	return n ^ n >> 32;
}

static struct rd_fp fp_of(u64 n)
{
	u64 words[2] = { mix(n * 2 + 1), mix(n * 2 + 2) };
	struct rd_fp fp;

	memcpy(fp.b, words, sizeof(fp.b));
	return fp;
}

/* The same, of those that the index has. */
static struct rd_fp sampled(u64 n)
{
	struct rd_fp fp = fp_of(n);

	fp.b[15] &= 0xf0;
	return fp;
}

static rd_place place_of(u64 n)
{
	return rd_place_make(RD_OWN, n % 2 ? PACKED + n : n, n % RD_SEG_BLOCKS);
}

/* --- files */

static const char *path_of(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int remove_all(void **state)
{
	char command[200];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s/*", dir);
	nr_warnings = 0;
	return system(command) != 0;
}

static int set_up(void **state)
{
	(void)state;
	rd_log_to(&printer);
	return !mkdtemp(dir);
}

static int tear_down(void **state)
{
	remove_all(state);
	return rmdir(dir);
}

static struct rd_index *open_index(void)
{
	struct rd_index *index;

	assert_int_equal(rd_index_open(&index, dir, uuid), 0);
	return index;
}

static rd_place find(struct rd_index *index, u64 n)
{
	struct rd_fp fp = sampled(n);
	rd_place place;

	rd_index_find(index, &fp, 1, &place);
	return place;
}

static void add(struct rd_index *index, u64 first, u64 nr)
{
	u64 n;

	for (n = first; n < first + nr; n++) {
		struct rd_fp fp = sampled(n);

		rd_index_add(index, &fp, place_of(n));
	}
}

/* A run of the numbers @first.. in the file "index/@number". */
static void make_run(u64 number, u64 first, u64 nr)
{
	struct rd_index *index = open_index();
	char name[50];

	add(index, first, nr);
	rd_index_flush(index);
	rd_index_close(index);
	snprintf(name, sizeof(name), "index/%llu", (unsigned long long)number);
	assert_int_equal(access(path_of(name), F_OK), 0);
}

static unsigned int count_found(struct rd_index *index, u64 first, u64 nr)
{
	unsigned int found = 0;
	u64 n;

	for (n = first; n < first + nr; n++) {
		rd_place place = find(index, n);

		assert_true(!place || place == place_of(n));
		found += place != 0;
	}
	return found;
}

/* --- runs */

static void sizes_round_trip(u64 nr)
{
	struct rd_index *index;
	u64 n;

	remove_all(NULL);
	make_run(1, 0, nr);
	index = open_index();
	assert_int_equal(count_found(index, 0, nr), nr);
	for (n = nr; n < nr + 1000; n++)
		assert_int_equal(find(index, n), 0);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 0);
}

static void test_round_trip(void **state)
{
	static const u64 sizes[] = { 1, 2, 190, 191, 192, 255, 256, 5000, 100000 };
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		sizes_round_trip(sizes[i]);
}

/* Keys that are all in one bucket overflow, to the end of the file and behind it. */
static void test_overflow(void **state)
{
	static const u64 bases[] = { 0, 1ULL << 63, ~0ULL - 5000 };
	struct rd_index_run_writer writer;
	struct rd_index_run run;
	unsigned int i;
	u64 n, place;
	int fd;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bases); i++) {
		fd = open(path_of("run"), O_RDWR | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(rd_index_run_begin(&writer, fd, uuid, 7, 1000), 0);
		for (n = 0; n < 1000; n++) {
			struct rd_index_run_entry entry = { bases[i] + n * 5, n };

			assert_int_equal(rd_index_run_put(&writer, &entry), 0);
		}
		assert_int_equal(rd_index_run_end(&writer), 0);
		rd_index_run_writer_free(&writer);
		assert_int_equal(rd_index_run_open(&run, fd, uuid), 0);
		assert_int_equal(run.head.generation, 7);
		for (n = 0; n < 1000; n++) {
			assert_int_equal(rd_index_run_may_have(&run, bases[i] + n * 5), 1);
			assert_int_equal(rd_index_run_find(&run, bases[i] + n * 5, &place), 1);
			assert_int_equal(place, n);
			assert_int_equal(rd_index_run_find(&run, bases[i] + n * 5 + 1, &place), 0);
		}
		rd_index_run_close(&run);
	}
}

static void flip(const char *name, off_t at, u8 bits)
{
	int fd = open(path_of(name), O_RDWR);
	u8 byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= bits;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static off_t size_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(path_of(name), &st), 0);
	return st.st_size;
}

/* Wherever a run is damaged, what is found is right, and it is dropped, with one message. */
static void test_damage(void **state)
{
	struct rd_index *index;
	off_t at, size;

	(void)state;
	make_run(1, 0, 3000);
	size = size_of("index/1");
	for (at = 13; at < size; at += 1021) {
		remove_all(NULL);
		make_run(1, 0, 3000);
		make_run(2, 3000, 10);
		close(open(path_of("index/whole"), O_CREAT | O_WRONLY, 0600));
		assert_true(rd_index_exists(dir));
		flip("index/1", at, 1 << at % 8);
		index = open_index();
		count_found(index, 0, 3000);
		assert_int_equal(count_found(index, 0, 3000), 0);
		assert_int_equal(count_found(index, 3000, 10), 10);
		rd_index_close(index);
		assert_int_equal(nr_warnings, 1);
		assert_int_not_equal(access(path_of("index/1"), F_OK), 0);
		assert_false(rd_index_exists(dir));
	}
}

/* Each page is sound, and in the place of another. */
static void test_misplaced(void **state)
{
	u8 pages[2][RD_BLOCK_SIZE];
	struct rd_index *index;
	off_t at;
	int fd;

	(void)state;
	make_run(1, 0, 3000);
	at = size_of("index/1") - 5 * RD_BLOCK_SIZE;
	fd = open(path_of("index/1"), O_RDWR);
	assert_int_equal(pread(fd, pages, sizeof(pages), at), sizeof(pages));
	assert_int_equal(pwrite(fd, pages[1], RD_BLOCK_SIZE, at), RD_BLOCK_SIZE);
	assert_int_equal(pwrite(fd, pages[0], RD_BLOCK_SIZE, at + RD_BLOCK_SIZE), RD_BLOCK_SIZE);
	close(fd);
	index = open_index();
	count_found(index, 0, 3000);
	assert_int_equal(count_found(index, 0, 3000), 0);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 1);
}

static void test_short(void **state)
{
	static const off_t cut[] = { 1, 4096, 40960, 1 << 30 };
	struct rd_index *index;
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cut); i++) {
		remove_all(NULL);
		make_run(1, 0, 3000);
		assert_int_equal(truncate(path_of("index/1"),
					  cut[i] > size_of("index/1") ? 0 :
					  size_of("index/1") - cut[i]), 0);
		index = open_index();
		assert_int_equal(count_found(index, 0, 3000), 0);
		rd_index_close(index);
		assert_int_equal(nr_warnings, 1);
	}
}

static void test_other_pool(void **state)
{
	struct rd_index *index;

	(void)state;
	make_run(1, 0, 100);
	assert_int_equal(rd_index_open(&index, dir, other), 0);
	assert_int_equal(count_found(index, 0, 100), 0);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 1);
}

/* A folder that cannot be made: nothing fails, and who reads and who writes say it once each. */
static void test_no_room(void **state)
{
	struct rd_index *index;

	(void)state;
	close(open(path_of("index"), O_CREAT | O_WRONLY, 0600));
	index = open_index();
	add(index, 0, 100);
	assert_int_equal(count_found(index, 0, 100), 100);
	rd_index_flush(index);
	add(index, 0, 100);
	rd_index_flush(index);
	assert_int_equal(count_found(index, 0, 100), 0);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 2);
}

static void test_newer_wins(void **state)
{
	struct rd_fp fp = sampled(5);
	struct rd_index *index;
	unsigned int i;

	(void)state;
	make_run(1, 0, 10);
	for (i = 0; i < 10; i++) {
		index = open_index();
		rd_index_add(index, &fp, rd_place_make(RD_OWN, 1000 + i, 3));
		assert_int_equal(find(index, 5), rd_place_make(RD_OWN, 1000 + i, 3));
		rd_index_flush(index);
		assert_int_equal(find(index, 5), rd_place_make(RD_OWN, 1000 + i, 3));
		rd_index_close(index);
		index = open_index();
		assert_int_equal(find(index, 5), rd_place_make(RD_OWN, 1000 + i, 3));
		assert_int_equal(find(index, 6), place_of(6));
		rd_index_close(index);
	}
}

/* A run of another process, which was merged of old ones and is written behind a newer one. */
static void test_older_loses(void **state)
{
	struct rd_index_run_entry entry;
	struct rd_fp fp = sampled(5);
	struct rd_new_run run;
	struct rd_index *index;
	struct rd_files files;

	(void)state;
	make_run(1, 0, 1);
	make_run(2, 0, 10);
	entry = (struct rd_index_run_entry){ rd_index_run_key(&fp), 77 };
	assert_int_equal(rd_files_open(&files, dir, uuid), 0);
	assert_int_equal(rd_files_begin(&files, &run, 1, 1), 0);
	assert_int_equal(run.number, 3);
	assert_int_equal(rd_index_run_put(&run.writer, &entry), 0);
	assert_int_equal(rd_files_end(&files, &run, 0), 0);
	rd_files_close(&files);
	index = open_index();
	assert_int_equal(find(index, 5), place_of(5));
	rd_index_close(index);
}

/* One of four that are merged is newer than a large one, which is newer than the others. */
static void test_merged_wins(void **state)
{
	struct rd_fp fp = sampled(5);
	struct rd_index *index;
	unsigned int i;

	(void)state;
	make_run(1, 0, 10);
	make_run(2, 0, 6000);
	for (i = 3; i < 5; i++)
		make_run(i, i * 10000, 10);
	index = open_index();
	rd_index_add(index, &fp, rd_place_make(RD_OWN, 1000, 3));
	rd_index_flush(index);
	assert_int_equal(find(index, 5), rd_place_make(RD_OWN, 1000, 3));
	rd_index_close(index);
	assert_int_not_equal(access(path_of("index/1"), F_OK), 0);
	assert_int_equal(access(path_of("index/2"), F_OK), 0);
	index = open_index();
	assert_int_equal(find(index, 5), rd_place_make(RD_OWN, 1000, 3));
	rd_index_close(index);
}

/* --- the vector */

static void false_positives(u64 nr, double limit)
{
	struct rd_index_counts counts;
	struct rd_index *index;
	u64 n;

	remove_all(NULL);
	make_run(1, 0, nr);
	index = open_index();
	for (n = 0; n < 200000; n++)
		find(index, nr + n);
	rd_index_counts(index, &counts);
	assert_int_equal(counts.asked + counts.vector_no, 200000);
	assert_int_equal(counts.found, 0);
	print_message("# %llu entries: %.3f %% false positives\n", (unsigned long long)nr,
		      counts.asked / 2000.0);
	assert_true(counts.asked < limit * 200000);
	rd_index_close(index);
}

static void test_false_positives(void **state)
{
	(void)state;
	false_positives(10000, 0.001);
	false_positives(500000, 0.002);
}

/* A vector that is not in memory says the same. */
static void test_vector_read(void **state)
{
	struct rd_index_run run;
	u8 *vector;
	u64 n, no = 0;
	int fd;

	(void)state;
	make_run(1, 0, 20000);
	fd = open(path_of("index/1"), O_RDONLY);
	assert_int_equal(rd_index_run_open(&run, fd, uuid), 0);
	assert_int_equal(rd_index_run_load_vector(&run), 0);
	vector = run.vector;
	for (n = 0; n < 40000; n++) {
		struct rd_fp fp = sampled(n);
		int in_memory = rd_index_run_may_have(&run, rd_index_run_key(&fp));

		run.vector = NULL;
		assert_int_equal(rd_index_run_may_have(&run, rd_index_run_key(&fp)), in_memory);
		run.vector = vector;
		no += !in_memory;
		assert_true(in_memory || n >= 20000);
	}
	assert_true(no > 19900);
	rd_index_run_close(&run);
}

/* Who only adds reads no vector, so a damaged one is found by who asks. */
static void test_vector_unread(void **state)
{
	struct rd_index *index;

	(void)state;
	make_run(1, 0, 1000);
	flip("index/1", 4096 + 100, 1);
	index = open_index();
	add(index, 1000, 10);
	rd_index_flush(index);
	assert_int_equal(nr_warnings, 0);
	assert_int_equal(access(path_of("index/1"), F_OK), 0);
	assert_int_equal(count_found(index, 1000, 10), 10);
	assert_int_equal(nr_warnings, 1);
	assert_int_not_equal(access(path_of("index/1"), F_OK), 0);
	rd_index_close(index);
}

static void test_without_vector(void **state)
{
	struct rd_index_counts counts;
	struct rd_index *index;

	(void)state;
	make_run(1, 0, 1000);
	index = open_index();
	rd_index_without_vector(index);
	assert_int_equal(count_found(index, 0, 2000), 1000);
	rd_index_counts(index, &counts);
	assert_int_equal(counts.asked, 2000);
	assert_int_equal(counts.vector_no, 0);
	rd_index_close(index);
}

/* Many at a time, in any order, some in memory and some in several runs. */
static void test_batch(void **state)
{
	enum { NR = 4000 };
	static struct rd_fp fps[NR];
	static rd_place places[NR];
	struct rd_index *index;
	unsigned int i;

	(void)state;
	make_run(1, 0, 1000);
	make_run(2, 1000, 1000);
	index = open_index();
	add(index, 2000, 1000);
	for (i = 0; i < NR; i++)
		fps[i] = sampled(i * 1999 % NR);
	rd_index_find(index, fps, NR, places);
	for (i = 0; i < NR; i++)
		assert_int_equal(places[i], i * 1999 % NR < 3000 ? place_of(i * 1999 % NR) : 0);
	rd_index_close(index);
}

static void test_sampling(void **state)
{
	unsigned int n, nr = 0;

	(void)state;
	for (n = 0; n < 160000; n++) {
		struct rd_fp fp = fp_of(n);

		nr += rd_index_is_sampled(&fp);
	}
	assert_in_range(nr, 9500, 10500);
}

/* --- gathering */

static void test_gather(void **state)
{
	struct rd_gather gather = { 0 };
	u64 n, place;

	(void)state;
	/* At both ends of the table, and the same again. */
	for (n = 0; n < 20000; n++) {
		assert_int_equal(rd_gather_add(&gather, mix(n % 10000 + 1), n), 0);
		if (n < 2000) {
			assert_int_equal(rd_gather_add(&gather, ~n, n), 0);
			assert_int_equal(rd_gather_add(&gather, n, n), 0);
		}
	}
	assert_int_equal(gather.nr, 14000);
	for (n = 0; n < 10000; n++) {
		assert_true(rd_gather_find(&gather, mix(n + 1), &place));
		assert_int_equal(place, n + 10000);
	}
	assert_false(rd_gather_find(&gather, mix(20001), &place));
	rd_gather_sort(&gather);
	for (n = 1; n < gather.nr; n++)
		assert_true(gather.entries[n - 1].key < gather.entries[n].key);
	rd_gather_clear(&gather);
}

/* --- merging */

static unsigned int count_runs(void)
{
	struct rd_files files;
	unsigned int nr;

	assert_int_equal(rd_files_open(&files, dir, uuid), 0);
	nr = files.nr;
	rd_files_close(&files);
	return nr;
}

static void test_merge(void **state)
{
	struct rd_index *index = open_index(), *reader;
	unsigned int i;

	(void)state;
	for (i = 0; i < 40; i++) {
		/* Half of them are there already. */
		add(index, i * 500, 1000);
		rd_index_flush(index);
		assert_in_range(count_runs(), 1, 6);
		reader = open_index();
		assert_int_equal(count_found(reader, 0, i * 500 + 1000), i * 500 + 1000);
		rd_index_close(reader);
	}
	assert_int_equal(count_found(index, 0, 20500), 20500);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 0);
}

/* A damaged run among those that are merged is dropped, and the others are merged. */
static void test_merge_damaged(void **state)
{
	struct rd_index *index;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		make_run(i + 1, i * 1000, 1000);
	index = open_index();
	flip("index/2", size_of("index/2") - 5000, 1);
	add(index, 3000, 1000);
	rd_index_flush(index);
	add(index, 4000, 1000);
	rd_index_flush(index);
	assert_int_equal(count_runs(), 1);
	assert_int_equal(count_found(index, 0, 5000), 4000);
	assert_int_equal(count_found(index, 1000, 1000), 0);
	rd_index_close(index);
	assert_int_equal(nr_warnings, 1);
}

/* Several at once: each has names of its own, and what they merge the others still find. */
static void test_at_once(void **state)
{
	struct rd_index *index[3];
	unsigned int i, j;

	(void)state;
	for (i = 0; i < 3; i++)
		index[i] = open_index();
	for (j = 0; j < 10; j++)
		for (i = 0; i < 3; i++) {
			add(index[i], (j * 3 + i) * 100, 100);
			rd_index_flush(index[i]);
			assert_int_equal(count_found(index[i], (j * 3 + i) * 100, 100), 100);
		}
	for (i = 0; i < 3; i++)
		rd_index_close(index[i]);
	index[0] = open_index();
	assert_int_equal(count_found(index[0], 0, 3000), 3000);
	rd_index_close(index[0]);
	assert_int_equal(nr_warnings, 0);
}

/* What a writer that died has left goes; what one writes that lives, stays. */
static void test_left_over(void **state)
{
	struct rd_files a, b;
	struct rd_new_run run;

	(void)state;
	make_run(1, 0, 10);
	close(open(path_of("index/7.new"), O_CREAT | O_WRONLY, 0600));
	assert_int_equal(rd_files_open(&a, dir, uuid), 0);
	assert_int_equal(rd_files_begin(&a, &run, 1, 0), 0);
	assert_int_equal(run.number, 8);
	assert_int_not_equal(access(path_of("index/7.new"), F_OK), 0);
	assert_int_equal(rd_files_open(&b, dir, uuid), 0);
	make_run(9, 20, 10);
	assert_int_equal(access(path_of("index/8.new"), F_OK), 0);
	assert_int_equal(rd_files_end(&a, &run, 0), 0);
	rd_files_refresh(&b);
	assert_int_equal(b.nr, 3);
	rd_files_close(&a);
	rd_files_close(&b);
}

/* --- a pool: an area with fingerprints, and a catalog */

struct pool {
	struct rd_area area;
	struct rd_sql *sql;
	struct rd_index *index;
};

static void make_pool(struct pool *pool)
{
	struct rd_rule rule = { .pieces = 1 };
	struct rd_compression none = { 0 };
	char data[200];

	snprintf(data, sizeof(data), "%s", path_of("data"));
	assert_int_equal(rd_area_format(data, 2ULL << 30, true, uuid, 1, none, rule), 0);
	assert_int_equal(rd_area_open(&pool->area, data, true), 0);
	assert_int_equal(rd_catalog_create(path_of("catalog.db"), uuid,
					   pool->area.super.nr_frames, 1), 0);
	assert_int_equal(rd_catalog_open(&pool->sql, path_of("catalog.db"), true), 0);
	pool->index = open_index();
}

static void close_pool(struct pool *pool)
{
	rd_index_close(pool->index);
	rd_sql_close(pool->sql);
	rd_area_close(&pool->area);
}

static void write_fps(struct pool *pool, u64 frame, const struct rd_fp *fps)
{
	assert_int_equal(rd_area_write(&pool->area, fps, RD_FPS_SIZE,
				       rd_frame_fps_offset(frame)), 0);
}

/* A recipe that has each @nth slot of @frame. */
static void add_recipe(struct pool *pool, u64 frame, unsigned int nth)
{
	struct rd_map map = { 0 };
	u8 blob[RD_MAP_MAX], fp[32];
	unsigned int i;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i += nth)
		map.at[i] = rd_place_make(RD_OWN, frame, i);
	memset(fp, 0, sizeof(fp));
	memcpy(fp, &frame, sizeof(frame));
	r = rd_catalog_begin(pool->sql);
	if (!r)
		r = rd_sql_run(pool->sql, "INSERT INTO recipe(fp, frame, map) VALUES(?, ?, ?)",
			       "bib", fp, sizeof(fp), (i64)frame, blob,
			       rd_map_pack(&map, 0, frame, blob));
	if (!r)
		r = rd_owners_change(pool->sql, rd_sql_last_id(pool->sql), NULL, &map);
	assert_int_equal(rd_catalog_end(pool->sql, r), 0);
}

static void fill_fps(struct rd_fp fps[RD_SEG_BLOCKS], u64 first)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		fps[i] = sampled(first + i);
}

/* Is slot @slot of @frame, whose blocks are the numbers from @first on, in the index? */
static bool has(struct pool *pool, u64 frame, unsigned int slot, u64 first)
{
	rd_place place = find(pool->index, first + slot);

	assert_true(!place || place == rd_place_make(RD_OWN, frame, slot));
	return place;
}

static void test_build(void **state)
{
	static const u64 frames[] = { 2, 5, 260, 700, PACKED + 300 * 256 + 9 };
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct pool pool;
	unsigned int i, slot;

	(void)state;
	make_pool(&pool);
	assert_false(rd_index_exists(dir));
	/* Of frame 5 and the packed one each third slot is owned, of frame 700 none. */
	for (i = 0; i < ARRAY_SIZE(frames); i++) {
		fill_fps(fps, 10000 * i);
		write_fps(&pool, frames[i], fps);
		if (frames[i] != 700)
			add_recipe(&pool, frames[i], frames[i] % 3 == 2 && i != 1 ? 1 : 3);
	}
	/* What is there goes. */
	add(pool.index, 90000, 10);
	rd_index_flush(pool.index);
	assert_int_equal(rd_index_build(pool.index, pool.sql, &pool.area, NULL, NULL), 0);
	assert_true(rd_index_exists(dir));
	assert_int_equal(count_found(pool.index, 90000, 10), 0);
	for (i = 0; i < ARRAY_SIZE(frames); i++)
		for (slot = 0; slot < RD_SEG_BLOCKS; slot++) {
			unsigned int nth = frames[i] % 3 == 2 && i != 1 ? 1 : 3;

			assert_int_equal(has(&pool, frames[i], slot, 10000 * i),
					 frames[i] != 700 && slot % nth == 0);
		}
	rd_index_clear(pool.index);
	assert_false(rd_index_exists(dir));
	assert_false(has(&pool, 2, 0, 0));
	close_pool(&pool);
}

static int give_up(void *ctx, u64 done, u64 total)
{
	(void)ctx;
	assert_true(done <= total);
	return -EINTR;
}

/* An index that is half made is not taken for a whole one. */
static void test_build_stopped(void **state)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct pool pool;

	(void)state;
	make_pool(&pool);
	fill_fps(fps, 0);
	write_fps(&pool, 3, fps);
	add_recipe(&pool, 3, 1);
	assert_int_equal(rd_index_build(pool.index, pool.sql, &pool.area, give_up, NULL), -EINTR);
	assert_false(rd_index_exists(dir));
	close_pool(&pool);
}

/* Nor is one of which a part has found no room: files of 40 KiB are the largest here. */
static void test_build_no_room(void **state)
{
	const struct rlimit small = { 40960, RLIM_INFINITY };
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct rlimit before;
	struct pool pool;
	u64 frame;

	(void)state;
	make_pool(&pool);
	for (frame = 3; frame < 13; frame++) {
		fill_fps(fps, frame * RD_SEG_BLOCKS);
		write_fps(&pool, frame, fps);
		add_recipe(&pool, frame, 1);
	}
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(rd_index_build(pool.index, pool.sql, &pool.area, NULL, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(nr_warnings, 1);
	assert_false(rd_index_exists(dir));
	assert_int_equal(rd_index_build(pool.index, pool.sql, &pool.area, NULL, NULL), 0);
	assert_true(rd_index_exists(dir));
	assert_true(has(&pool, 12, 0, 12 * RD_SEG_BLOCKS));
	close_pool(&pool);
}

/* Merging forgets places in frames that nobody has, if there are enough to be worth it. */
static void test_prune(void **state)
{
	struct pool pool;
	unsigned int i;
	u64 n;

	(void)state;
	make_pool(&pool);
	add_recipe(&pool, 3, 1);
	add_recipe(&pool, PACKED + 70000, 1);
	rd_index_prune_by(pool.index, pool.sql);
	for (i = 0; i < 4; i++) {
		for (n = i * 20000ULL; n < (i + 1) * 20000ULL; n++) {
			static const u64 frames[] = { 3, 4, PACKED + 70000, PACKED + 70001 };
			struct rd_fp fp = sampled(n);

			rd_index_add(pool.index, &fp, rd_place_make(RD_OWN, frames[n % 4], 0));
		}
		rd_index_flush(pool.index);
	}
	assert_int_equal(count_runs(), 1);
	for (n = 0; n < 80000; n++)
		assert_int_equal(find(pool.index, n) != 0, n % 2 == 0);
	close_pool(&pool);
}

/* --- lookups */

static struct rd_slots all_slots(void)
{
	struct rd_slots slots;

	memset(&slots, 0xff, sizeof(slots));
	return slots;
}

/* Frame @frame has the blocks @first.., of which the index knows @known. */
static void stock(struct pool *pool, u64 frame, u64 first, unsigned int known)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		fps[i] = fp_of(first + i);
		/* By value only @known would be asked for. */
		fps[i].b[15] = fps[i].b[15] | 1;
	}
	fps[known].b[15] &= 0xf0;
	write_fps(pool, frame, fps);
	rd_index_add(pool->index, &fps[known], rd_place_make(RD_OWN, frame, known));
}

/* Block @n of those, as stock() made it. */
static struct rd_fp stocked(u64 n, u64 known)
{
	struct rd_fp fp = fp_of(n);

	fp.b[15] |= 1;
	if (n == known)
		fp.b[15] &= 0xf0;
	return fp;
}

static void check_counts(const struct rd_lookup_counts *counts)
{
	assert_int_equal(counts->asked, counts->cache + counts->unsampled + counts->vector_no +
			 counts->index_asked);
	assert_int_equal(counts->index_asked, counts->index_found + counts->false_positive);
	assert_true(counts->cache_sampled <= counts->cache);
}

/* @len blocks from @from of the frame on are at block 100 of the segment; the rest is new. */
static unsigned int look_up_run(struct pool *pool, unsigned int from, unsigned int len,
				unsigned int known)
{
	struct rd_lookup *lookup = rd_lookup_new(&pool->area, pool->index);
	struct rd_lookup_counts counts = { 0 };
	struct rd_slots slots = all_slots();
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	unsigned int i, found = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		fps[i] = i >= 100 && i < 100 + len ? stocked(from + i - 100, known) :
			stocked(50000 + i, 0);
	rd_lookup(lookup, fps, &slots, places, &counts);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!places[i])
			continue;
		assert_in_range(i, 100, 99 + len);
		assert_int_equal(places[i], rd_place_make(RD_OWN, 9, from + i - 100));
		found++;
	}
	check_counts(&counts);
	assert_int_equal(counts.asked, RD_SEG_BLOCKS);
	assert_int_equal(counts.found, found);
	assert_true(counts.pages_read <= 1);
	rd_lookup_free(lookup);
	return found;
}

static void test_run_lengths(void **state)
{
	struct pool pool;
	unsigned int len, known;

	(void)state;
	make_pool(&pool);
	stock(&pool, 9, 0, 200);
	for (len = 1; len < 40; len++)
		for (known = 0; known < len; known += 7)
			assert_int_equal(look_up_run(&pool, 200 - known, len, 200),
					 len < RD_INLINE_RUN ? 0 : len);
	/* Up to the ends of the frame. */
	assert_int_equal(look_up_run(&pool, 0, 400, 200), 400);
	assert_int_equal(look_up_run(&pool, 112, 400, 200), 400);
	assert_int_equal(look_up_run(&pool, 0, 200, 200), 0);
	rd_index_flush(pool.index);
	for (len = 15; len <= 17; len++)
		assert_int_equal(look_up_run(&pool, 195, len, 200), len < 16 ? 0 : len);
	close_pool(&pool);
}

/* Zeros between blocks: stored as far apart as they were, or one after the other. */
static void test_zeros(void **state)
{
	struct rd_slots slots = all_slots();
	struct rd_lookup_counts counts = { 0 };
	struct rd_fp fps[RD_SEG_BLOCKS], stored[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int i, dense, slot;

	(void)state;
	make_pool(&pool);
	for (dense = 0; dense < 2; dense++) {
		lookup = rd_lookup_new(&pool.area, pool.index);
		memset(fps, 0, sizeof(fps));
		memset(stored, 0, sizeof(stored));
		/* 20 blocks, each followed by three of zeros. */
		for (i = 0; i < 20; i++) {
			slot = dense ? 30 + i : 30 + 4 * i;
			fps[40 + 4 * i] = stocked(1000 + i, 1000 + 11);
			stored[slot] = fps[40 + 4 * i];
			if (i == 11)
				rd_index_add(pool.index, &stored[slot],
					     rd_place_make(RD_OWN, 20 + dense, slot));
		}
		write_fps(&pool, 20 + dense, stored);
		rd_lookup(lookup, fps, &slots, places, &counts);
		for (i = 0; i < 20; i++)
			assert_int_equal(places[40 + 4 * i],
					 rd_place_make(RD_OWN, 20 + dense,
						       dense ? 30 + i : 30 + 4 * i));
		assert_int_equal(places[41], 0);
		assert_int_equal(counts.found, 20 * (dense + 1));
		rd_lookup_free(lookup);
	}
	check_counts(&counts);
	close_pool(&pool);
}

/* A run goes on in the next frame, and in that of the next group. */
static void test_across_frames(void **state)
{
	static const u64 frames[] = { 14, 15, 255, PACKED + 512 };
	struct rd_slots slots = all_slots();
	struct rd_lookup_counts counts = { 0 };
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int i, j;

	(void)state;
	make_pool(&pool);
	lookup = rd_lookup_new(&pool.area, pool.index);
	for (i = 0; i < ARRAY_SIZE(frames); i++) {
		u64 first = 5000 * (i + 1);

		stock(&pool, frames[i], first, 505);
		stock(&pool, frames[i] + 1, first + RD_SEG_BLOCKS, 511);
		rd_lookup_forget(lookup);
		for (j = 0; j < RD_SEG_BLOCKS; j++)
			fps[j] = j < 17 ? stocked(first + 500 + j, first + 505) :
				stocked(80000 + j, 0);
		rd_lookup(lookup, fps, &slots, places, &counts);
		for (j = 0; j < 17; j++)
			assert_int_equal(places[j],
					 rd_place_make(RD_OWN, frames[i], 0) + 500 + j);
		assert_int_equal(places[17], 0);
	}
	check_counts(&counts);
	rd_lookup_free(lookup);
	close_pool(&pool);
}

/* Only what is wanted is given, and what is not wanted ends a run. */
static void test_wanted(void **state)
{
	struct rd_lookup_counts counts = { 0 };
	struct rd_slots slots = { 0 };
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int i;

	(void)state;
	make_pool(&pool);
	stock(&pool, 9, 0, 200);
	lookup = rd_lookup_new(&pool.area, pool.index);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		fps[i] = stocked(i, 200);
		if (i >= 190 && i < 215 && i != 206)
			rd_slots_set(&slots, i);
	}
	rd_lookup(lookup, fps, &slots, places, &counts);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		assert_int_equal(places[i] != 0, i >= 190 && i < 206);
	assert_int_equal(counts.asked, 24);
	check_counts(&counts);
	rd_lookup_free(lookup);
	close_pool(&pool);
}

/* An index that says what is not so: behind, ahead, or of nowhere. */
static void test_stale(void **state)
{
	struct rd_lookup_counts counts = { 0 };
	struct rd_slots slots = all_slots();
	struct rd_fp fps[RD_SEG_BLOCKS], zeros[RD_SEG_BLOCKS] = { 0 };
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int i;

	(void)state;
	make_pool(&pool);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		fps[i] = stocked(i, 200);
	lookup = rd_lookup_new(&pool.area, pool.index);
	rd_index_add(pool.index, &fps[200], rd_place_make(RD_OWN, 1ULL << 27, 200));
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.stale, 1);
	assert_int_equal(counts.found, 0);
	rd_index_add(pool.index, &fps[200], rd_place_make(RD_OWN, PACKED + (1ULL << 35), 200));
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.stale, 2);
	rd_index_add(pool.index, &fps[200], rd_place_make(RD_OWN, 9, 200));
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.stale, 3);
	/* The cache has what was there before. */
	stock(&pool, 9, 0, 200);
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.stale, 3);
	assert_int_equal(counts.found, RD_SEG_BLOCKS);
	/* And now it has what is gone: only the caller sees that, or who forgets. */
	write_fps(&pool, 9, zeros);
	rd_lookup_forget(lookup);
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.stale, 4);
	assert_int_equal(counts.found, RD_SEG_BLOCKS);
	check_counts(&counts);
	rd_lookup_free(lookup);
	close_pool(&pool);
}

/* Blocks that are in three frames, in the one in the middle in a row: that is taken. */
static void test_longest(void **state)
{
	struct rd_lookup_counts counts = { 0 };
	struct rd_slots slots = all_slots();
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int i;
	u64 frame;

	(void)state;
	make_pool(&pool);
	for (frame = 1; frame < 4; frame++) {
		for (i = 0; i < RD_SEG_BLOCKS; i++)
			fps[i] = stocked(frame * 10000 + i, U64_MAX);
		for (i = 0; i < 32; i++)
			fps[frame == 2 ? 100 + i : 300 - i] = stocked(900 + i, U64_MAX);
		write_fps(&pool, frame, fps);
	}
	/* A block that the index knows has them read. */
	stock(&pool, 4, 5000, 200);
	lookup = rd_lookup_new(&pool.area, pool.index);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		fps[i] = stocked(5000 + i, 5200);
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.found, RD_SEG_BLOCKS);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		fps[i] = stocked(i >= 40 && i < 72 ? 860 + i : 70000 + i, U64_MAX);
	rd_lookup(lookup, fps, &slots, places, &counts);
	assert_int_equal(counts.found, RD_SEG_BLOCKS + 32);
	for (i = 0; i < 32; i++)
		assert_int_equal(places[40 + i], rd_place_make(RD_OWN, 2, 100 + i));
	rd_lookup_free(lookup);
	close_pool(&pool);
}

/* A stream that is there already: of eight frames one block leads to the index. */
static void test_locality(void **state)
{
	struct rd_lookup_counts counts[2] = { 0 };
	struct rd_slots slots = all_slots();
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_place places[RD_SEG_BLOCKS];
	struct rd_lookup *lookup;
	struct pool pool;
	unsigned int frame, i, without;

	(void)state;
	make_pool(&pool);
	for (frame = 8; frame < 40; frame++) {
		for (i = 0; i < RD_SEG_BLOCKS; i++) {
			fps[i] = fp_of(frame * 1000 + i);
			if (rd_index_is_sampled(&fps[i]))
				rd_index_add(pool.index, &fps[i],
					     rd_place_make(RD_OWN, frame, i));
		}
		write_fps(&pool, frame, fps);
	}
	rd_index_flush(pool.index);
	for (without = 0; without < 2; without++) {
		lookup = rd_lookup_new(&pool.area, pool.index);
		if (without)
			rd_lookup_without_cache(lookup);
		for (frame = 8; frame < 40; frame++) {
			for (i = 0; i < RD_SEG_BLOCKS; i++)
				fps[i] = fp_of(frame * 1000 + i);
			rd_lookup(lookup, fps, &slots, places, &counts[without]);
			for (i = 0; i < RD_SEG_BLOCKS; i++)
				assert_int_equal(places[i], rd_place_make(RD_OWN, frame, i));
		}
		check_counts(&counts[without]);
		rd_lookup_free(lookup);
	}
	assert_int_equal(counts[0].index_asked, 4);
	assert_int_equal(counts[0].pages_read, 4);
	assert_true(counts[1].index_asked > 900);
	assert_int_equal(counts[1].pages_read, counts[1].index_asked);
	assert_int_equal(counts[1].cache, 0);
	close_pool(&pool);
}

/* --- what would be read without a part of it */

#define STREAM_FRAMES	40
#define STREAM_SEGS	120

enum stream_kind {
	KNOWN,		/* in a frame that the index has */
	LOST,		/* in a frame beside it, of which the index has nothing */
	GATHERED,	/* in a frame that is written, and whose entries are in memory */
	NEW,
	STREAM_KINDS,
};

/* Block @n of what there is of a kind. */
static struct rd_fp stream_fp(enum stream_kind kind, u64 n)
{
	return fp_of(kind * 1000000ULL + n);
}

static enum stream_kind kind_of_frame(unsigned int frame)
{
	return frame >= STREAM_FRAMES ? GATHERED : frame % 8 == 5 ? LOST : KNOWN;
}

static void add_frames(struct pool *pool, unsigned int first, unsigned int nr, bool writes)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	unsigned int frame, i;

	for (frame = first; frame < first + nr; frame++) {
		enum stream_kind kind = kind_of_frame(frame);

		for (i = 0; i < RD_SEG_BLOCKS; i++) {
			fps[i] = stream_fp(kind, frame * RD_SEG_BLOCKS + i);
			if (rd_index_is_sampled(&fps[i]) && kind != LOST)
				rd_index_add(pool->index, &fps[i],
					     rd_place_make(RD_OWN, frame + 8, i));
		}
		if (writes)
			write_fps(pool, frame + 8, fps);
	}
}

/* What came of a stream: how many blocks were sampled, and of these lost. */
struct streamed {
	struct rd_lookup_counts counts;
	u64 sampled, lost;
	rd_place places[STREAM_SEGS][RD_SEG_BLOCKS];
};

/* Runs of all kinds, by turns, at any offset, and of lengths that are found and that are not. */
static void look_up_stream(struct rd_lookup *lookup, struct streamed *ret)
{
	struct rd_slots slots = all_slots();
	struct rd_fp fps[RD_SEG_BLOCKS];
	u64 n = 0, left = 0, at = 0;
	enum stream_kind kind = NEW;
	unsigned int seg, i;

	for (seg = 0; seg < STREAM_SEGS; seg++) {
		for (i = 0; i < RD_SEG_BLOCKS; i++, left--, at++) {
			if (!left) {
				unsigned int frame = mix(++n) % (STREAM_FRAMES + 2);

				kind = n % 4 == 3 ? NEW : kind_of_frame(frame);
				at = kind == NEW ? n * 2000 :
					frame * RD_SEG_BLOCKS + mix(n) % 100;
				left = 1 + mix(n + 7777) % (n % 5 ? 400 : 30);
			}
			fps[i] = stream_fp(kind, at);
			ret->sampled += rd_index_is_sampled(&fps[i]);
			ret->lost += rd_index_is_sampled(&fps[i]) && kind == LOST;
		}
		rd_lookup(lookup, fps, &slots, ret->places[seg], &ret->counts);
	}
	check_counts(&ret->counts);
}

static struct streamed *stream(struct pool *pool, bool has_vector, bool has_cache)
{
	struct streamed *ret = calloc(1, sizeof(*ret));
	struct rd_lookup *lookup;

	rd_index_close(pool->index);
	pool->index = open_index();
	add_frames(pool, STREAM_FRAMES, 2, false);
	if (!has_vector)
		rd_index_without_vector(pool->index);
	lookup = rd_lookup_new(&pool->area, pool->index);
	if (!has_cache)
		rd_lookup_without_cache(lookup);
	look_up_stream(lookup, ret);
	rd_lookup_free(lookup);
	print_message("# vector %d, cache %d: read for %llu of %llu sampled blocks\n", has_vector,
		      has_cache, (unsigned long long)ret->counts.index_asked,
		      (unsigned long long)ret->sampled);
	return ret;
}

/*
 * rd_lookup_reads() of a pass with vector and cache, against passes without. In these, blocks
 * whose entries are in memory cost no read, and the vectors know nothing of what is lost.
 */
static void test_reads(void **state)
{
	struct streamed *both, *cache, *vector, *neither;
	const struct rd_lookup_counts *counts;
	struct pool pool;

	(void)state;
	make_pool(&pool);
	add_frames(&pool, 0, STREAM_FRAMES, true);
	rd_index_flush(pool.index);
	add_frames(&pool, STREAM_FRAMES, 2, true);
	both = stream(&pool, true, true);
	cache = stream(&pool, false, true);
	vector = stream(&pool, true, false);
	neither = stream(&pool, false, false);
	counts = &both->counts;
	assert_true(counts->index_asked && counts->vector_no > 500 && both->lost > 50);
	assert_true(counts->cache_sampled > 500 && counts->false_positive <= 2);

	assert_int_equal(rd_lookup_reads(counts, true, true), counts->index_asked);
	assert_int_equal(rd_lookup_reads(counts, false, false), both->sampled);
	assert_int_equal(rd_lookup_reads(counts, false, true), cache->counts.index_asked);
	assert_memory_equal(both->places, cache->places, sizeof(both->places));

	/* Without a cache, "cache" is what was in memory. */
	assert_true(neither->counts.cache > 20);
	assert_int_equal(neither->counts.cache, vector->counts.cache);
	assert_int_equal(neither->counts.index_asked + neither->counts.cache, both->sampled);
	/* That the vectors say no to more is because of what the cache knew of what is lost. */
	assert_in_range(vector->counts.vector_no - counts->vector_no, 1, both->lost);
	assert_int_equal(rd_lookup_reads(counts, true, false),
			 vector->counts.index_asked + vector->counts.cache +
			 vector->counts.vector_no - counts->vector_no);
	free(both);
	free(cache);
	free(vector);
	free(neither);
	close_pool(&pool);
}

/* Without a file there is nothing to read, and what is counted is what there is to ask. */
static void test_reads_of_nothing(void **state)
{
	struct streamed *cache;
	struct pool pool;

	(void)state;
	make_pool(&pool);
	cache = stream(&pool, false, true);
	assert_int_equal(cache->counts.index_asked, 0);
	assert_int_equal(rd_lookup_reads(&cache->counts, false, false), cache->sampled);
	free(cache);
	close_pool(&pool);
}

/* More frames than the cache has: it forgets those that were not used, and chains are right. */
static void test_cache(void **state)
{
	struct rd_fp_cache *cache = rd_fp_cache_new(16);
	struct rd_fp fps[RD_SEG_BLOCKS];
	unsigned int round, i, j, nr;
	u64 places[64];

	(void)state;
	for (round = 0; round < 300; round++) {
		u64 frame = mix(round) % 40;

		for (i = 0; i < RD_SEG_BLOCKS; i++)
			fps[i] = fp_of(mix(round * RD_SEG_BLOCKS + i) % 3000 + (i % 50 == 0));
		memset(&fps[7], 0, sizeof(fps[7]));
		rd_fp_cache_put(cache, frame, fps);
		assert_non_null(rd_fp_cache_get(cache, frame));
		for (i = 0; i < 3001; i += 10) {
			struct rd_fp fp = fp_of(i);

			nr = rd_fp_cache_find(cache, &fp, places, 64);
			for (j = 0; j < nr; j++)
				assert_true(rd_fp_equal(&rd_fp_cache_get(cache, places[j] / 512)
							[places[j] % 512], &fp));
		}
	}
	for (nr = 0, i = 0; i < 40; i++)
		nr += !!rd_fp_cache_get(cache, i);
	assert_int_equal(nr, 16);
	rd_fp_cache_clear(cache);
	assert_null(rd_fp_cache_get(cache, 1));
	rd_fp_cache_free(cache);
}

#define TEST(name)	cmocka_unit_test_setup(name, remove_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_round_trip),
		TEST(test_overflow),
		TEST(test_damage),
		TEST(test_misplaced),
		TEST(test_short),
		TEST(test_other_pool),
		TEST(test_no_room),
		TEST(test_newer_wins),
		TEST(test_older_loses),
		TEST(test_merged_wins),
		TEST(test_false_positives),
		TEST(test_vector_read),
		TEST(test_vector_unread),
		TEST(test_without_vector),
		TEST(test_batch),
		TEST(test_sampling),
		TEST(test_gather),
		TEST(test_merge),
		TEST(test_merge_damaged),
		TEST(test_at_once),
		TEST(test_left_over),
		TEST(test_build),
		TEST(test_build_stopped),
		TEST(test_build_no_room),
		TEST(test_prune),
		TEST(test_run_lengths),
		TEST(test_zeros),
		TEST(test_across_frames),
		TEST(test_wanted),
		TEST(test_stale),
		TEST(test_longest),
		TEST(test_locality),
		TEST(test_reads),
		TEST(test_reads_of_nothing),
		TEST(test_cache),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
