// SPDX-License-Identifier: GPL-2.0
/*
 * Tables as user space writes, reads and finishes them, against an array with a place for
 * each block, and a reader that knows no runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <linux/kernel.h>

/* Both ways, whichever the processor has. */
#include "base/crc32c.c"
#include "meta/copy_home.h"
#include "meta/check.h"
#include "meta/table_write.h"
#include "pool/data/pack.h"
#include "meta_image.h"

#define BASE	((struct dmr_entry){ DMR_BASE, 0 })
#define ZERO	((struct dmr_entry){ DMR_ZERO, 0 })
#define POOL(n)	((struct dmr_entry){ DMR_POOL, (n) })

/* Where the pools have packs. */
static const u64 heads[] = { 3000, 3600, 4500 };

static u64 below(u64 n)
{
	return (((u64)rand() << 31) ^ rand()) % n;
}

/* CRC-32C */

static void crc_is_one(void **state)
{
	u8 data[600];
	size_t i, from, len;

	(void)state;
	assert_int_equal(~crc32c(~0U, "123456789", 9), 0xe3069283U);
	assert_int_equal(~by_table(~0U, "123456789", 9), 0xe3069283U);
	if (!has_instruction())
		skip();
	for (i = 0; i < sizeof(data); i++)
		data[i] = rand();
	for (from = 0; from < 9; from++)
		for (len = 0; from + len <= sizeof(data); len++)
			assert_int_equal(by_table(len, data + from, len),
					 by_instruction(len, data + from, len));
}

/* A volume in an array, and its image in memory */

struct volume {
	u64 sectors;
	u64 nr_blocks;
	struct dmr_entry *places;
	int fd;
	struct rd_meta_source source;
	struct rd_meta meta;
};

static int new_file(u64 bytes)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	return fd;
}

static void new_volume(struct volume *volume, u64 sectors)
{
	u64 i;

	volume->sectors = sectors;
	volume->nr_blocks = dmr_nr_blocks(sectors);
	volume->places = calloc(volume->nr_blocks, sizeof(*volume->places));
	assert_non_null(volume->places);
	for (i = 0; i < volume->nr_blocks; i++)
		volume->places[i] = BASE;
	volume->fd = -1;
}

static void free_volume(struct volume *volume)
{
	free(volume->places);
	if (volume->fd >= 0)
		close(volume->fd);
}

static void put(struct volume *volume, u64 first, u64 len, struct dmr_entry place)
{
	u64 i;

	for (i = 0; i < len && first + i < volume->nr_blocks; i++) {
		volume->places[first + i] = place;
		if (place.kind == DMR_POOL || place.kind == DMR_PACK)
			place.block++;
	}
}

static struct dmr_entry random_place(u64 len, u64 pool_blocks)
{
	if (!below(4))
		return below(2) ? ZERO : BASE;
	if (len > 512 || below(2))
		return POOL(below(pool_blocks - len));
	return dmr_pack_entry(heads[below(ARRAY_SIZE(heads))], below(512 - len + 1));
}

/* Whole segments, pieces of them, and single blocks. */
static void put_randomly(struct volume *volume, u64 pool_blocks)
{
	unsigned int n = 1 + below(60);

	while (n--) {
		u64 len = below(3) ? 1 + below(3) : below(2) ? 512 : 1 + below(2000);
		u64 first = below(volume->nr_blocks);
		struct dmr_entry place = random_place(len, pool_blocks);

		if (len >= 512 && below(2))
			first -= first % 512;
		put(volume, first, len, place);
	}
}

static bool goes_on(const struct dmr_entry *a, const struct dmr_entry *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == DMR_PACK && b->block % 512 == 0)
		return false;
	return (a->kind != DMR_POOL && a->kind != DMR_PACK) || b->block == a->block + 1;
}

static u64 run_len(const struct volume *volume, u64 first)
{
	u64 i = first + 1;

	while (i < volume->nr_blocks &&
	       goes_on(&volume->places[i - 1], &volume->places[i]))
		i++;
	return i - first;
}

static struct dmr_super super_of(const struct volume *volume, unsigned int more)
{
	struct dmr_super super = { .volume_sectors = volume->sectors };

	memset(super.meta_uuid, 7, DMR_UUID_SIZE);
	memset(super.volume_uuid, 8, DMR_UUID_SIZE);
	memset(super.pool_uuid, 9, DMR_UUID_SIZE);
	super.meta_blocks = more +
		dmr_meta_blocks_needed(dmr_nr_segs(volume->sectors), DMR_FLAG_TABLE);
	return super;
}

/* Ranges of any cut, BASE told or left out, onto what was there before. */
static void write_volume(struct volume *volume)
{
	struct dmr_super super = super_of(volume, below(3));
	struct rd_table_writer table;
	u64 first, len;

	volume->fd = new_file(super.meta_blocks << DMR_BLOCK_SHIFT);
	assert_int_equal(rd_table_begin(&table, volume->fd, &super), 0);
	for (first = 0; first < volume->nr_blocks; first += len) {
		struct dmr_range range = { .first = first };

		len = run_len(volume, first);
		if (!below(4))
			len = 1 + below(len);
		range.len = len;
		range.place[0] = volume->places[first];
		if (range.place[0].kind == DMR_BASE && below(2))
			continue;
		assert_int_equal(rd_table_add(&table, &range), 0);
	}
	assert_int_equal(rd_table_end(&table), 0);
	rd_table_free(&table);
}

static void open_volume(struct volume *volume)
{
	assert_int_equal(rd_meta_source_fd(&volume->source, volume->fd), 0);
	assert_int_equal(rd_meta_open(&volume->meta, &volume->source), 0);
}

static bool has_kind(const struct volume *volume, enum dmr_kind kind)
{
	u64 i;

	for (i = 0; i < volume->nr_blocks; i++)
		if (volume->places[i].kind == kind)
			return true;
	return false;
}

static bool is_away(const struct volume *volume)
{
	u64 i;

	for (i = 0; i < volume->nr_blocks; i++)
		if (volume->places[i].kind != DMR_BASE)
			return true;
	return false;
}

/* A reader that looks at one block at a time, and only at what format.h says. */
static u64 entry_at(struct volume *volume, u64 block, u64 index)
{
	__le64 entry;

	assert_int_equal(pread(volume->fd, &entry, sizeof(entry),
			       (block << DMR_BLOCK_SHIFT) + index % 512 * 8),
			 sizeof(entry));
	return le64_to_cpu(entry);
}

static struct dmr_entry naive_place(struct volume *volume, u64 block)
{
	u32 seed = dmr_seed(volume->meta.super.meta_uuid);
	struct dmr_entry entry;
	u64 seg = block / 512;

	assert_true(dmr_entry_unpack(seed, true, seg,
				     entry_at(volume, dmr_word_block(seg), seg), &entry));
	if (entry.kind == DMR_POOL || entry.kind == DMR_PACK)
		entry.block += block % 512;
	if (entry.kind != DMR_PAGE)
		return entry;
	assert_true(dmr_entry_unpack(seed, false, block,
				     entry_at(volume, dmr_page_block(seg), block), &entry));
	return entry;
}

static void expect_places(struct volume *volume)
{
	u64 i;

	for (i = 0; i < volume->nr_blocks; i++) {
		struct dmr_entry found = naive_place(volume, i);

		assert_int_equal(found.kind, volume->places[i].kind);
		assert_int_equal(found.block, volume->places[i].block);
	}
	for (; i % 512; i++)
		assert_int_equal(naive_place(volume, i).kind, DMR_BASE);
}

static void expect_walk(struct volume *volume, u64 first, u64 len)
{
	struct rd_table_walk walk;
	struct rd_run run;
	u64 end = len < volume->nr_blocks - first ? first + len : volume->nr_blocks;

	rd_table_walk_init(&walk, &volume->meta, first, len);
	while (rd_table_walk_next(&walk, &run)) {
		u64 longest = run_len(volume, first);

		assert_int_equal(run.state, RD_RUN_KNOWN);
		assert_int_equal(run.first, first);
		assert_int_equal(run.len, longest < end - first ? longest : end - first);
		assert_int_equal(run.place.kind, volume->places[first].kind);
		assert_int_equal(run.place.block, volume->places[first].block);
		first += run.len;
	}
	assert_int_equal(first, end);
}

static void print_finding(struct rd_check *check, const struct rd_finding *finding)
{
	(void)check;
	print_message("%s\n", finding->what);
}

static void ignore(struct rd_check *check, const struct rd_finding *finding)
{
	(void)check;
	(void)finding;
}

/* As a target formats: epoch 0, everything dirty, nothing to say against it. */
static void expect_fresh(struct volume *volume)
{
	struct rd_check check = { .report = print_finding };
	const struct dmr_super *super = &volume->meta.super;
	struct rd_meta_walk walk;
	struct dmr_range range;

	assert_int_equal(super->flags, is_away(volume) ? DMR_FLAG_TABLE :
			 DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK);
	assert_int_equal(super->incompat, has_kind(volume, DMR_PACK) ? DMR_INCOMPAT_PACK : 0);
	assert_int_equal(super->epoch, 0);
	assert_int_equal(super->seq, 1);
	assert_int_equal(super->committed, 0);
	assert_int_equal(super->volume_uuid[3], 8);
	assert_int_equal(super->pool_uuid[3], 9);
	rd_meta_walk_init(&walk, &volume->meta, RD_META_CURRENT);
	assert_true(rd_meta_walk_next(&walk, &range));
	assert_int_equal(range.first, 0);
	assert_int_equal(range.len, volume->meta.nr_segs);
	rd_meta_check(&volume->meta, &check);
	assert_int_equal(check.nr[RD_DAMAGE] + check.nr[RD_UNREADABLE], 0);
	assert_int_equal(check.nr[RD_NOTE], 0);
}

static void expect_volume(struct volume *volume)
{
	u64 first = below(volume->nr_blocks);

	open_volume(volume);
	expect_fresh(volume);
	expect_places(volume);
	expect_walk(volume, 0, U64_MAX);
	expect_walk(volume, first, 1 + below(volume->nr_blocks));
}

static void random_tables(void **state)
{
	unsigned int round;

	(void)state;
	for (round = 0; round < 60; round++) {
		struct volume volume;

		new_volume(&volume, 1 + below(6 * DMR_SEG_SECTORS));
		if (round % 10)
			put_randomly(&volume, 1 << 20);
		write_volume(&volume);
		expect_volume(&volume);
		free_volume(&volume);
	}
}

/* The last segment of a group and the first of the next, and a gap before. */
static void two_groups(void **state)
{
	static const u64 segs[] = { DMR_GROUP_SEGS, DMR_GROUP_SEGS + 1, DMR_GROUP_SEGS + 40 };
	struct rd_table_walk walk;
	struct rd_run run;
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(segs); i++) {
		u64 at = (u64)DMR_GROUP_SEGS * 512;
		struct volume volume;

		new_volume(&volume, segs[i] * DMR_SEG_SECTORS);
		put(&volume, 5, 1, ZERO);
		put(&volume, at - 700, 1400, POOL(1ULL << 40));
		put(&volume, volume.nr_blocks - 1, 1, POOL(3));
		write_volume(&volume);
		open_volume(&volume);
		expect_fresh(&volume);
		expect_walk(&volume, 0, U64_MAX);
		rd_table_walk_init(&walk, &volume.meta, at - 700, 600);
		assert_true(rd_table_walk_next(&walk, &run));
		assert_int_equal(naive_place(&volume, at - 512).kind, DMR_POOL);
		free_volume(&volume);
	}
}

/* What is whole has no page, what is not has hints. */
static void words_and_pages(void **state)
{
	static const u64 kinds[] = { DMR_POOL, DMR_ZERO, DMR_BASE, DMR_PAGE, DMR_PACK, DMR_PAGE,
				     DMR_PAGE };
	struct dmr_entry entry;
	struct volume volume;
	u64 seg;

	(void)state;
	new_volume(&volume, 6 * DMR_SEG_SECTORS + 3 * 8);
	put(&volume, 0, 512, POOL(77));
	put(&volume, 512, 512, ZERO);
	put(&volume, 3 * 512 + 10, 20, ZERO);
	put(&volume, 3 * 512 + 100, 1, POOL(1));
	put(&volume, 4 * 512, 512, dmr_pack_entry(DMR_HEAD_MAX, 0));
	/* Two packs, each in part, whose numbers are in a row. */
	put(&volume, 5 * 512, 507, dmr_pack_entry(8, 5));
	put(&volume, 5 * 512 + 507, 5, dmr_pack_entry(9, 0));
	/* All there is of the last one; but the rest of it is BASE. */
	put(&volume, 6 * 512, 3, POOL(1000));
	write_volume(&volume);
	open_volume(&volume);
	for (seg = 0; seg < ARRAY_SIZE(kinds); seg++) {
		assert_true(dmr_word_unpack(volume.meta.seed, seg,
					    entry_at(&volume, dmr_word_block(seg), seg),
					    &entry));
		assert_int_equal(entry.kind, kinds[seg]);
		if (seg == 3)
			assert_int_equal(entry.block, dmr_page_hints(512 - 21, 20));
		if (seg == 4)
			assert_int_equal(entry.block, DMR_HEAD_MAX << 9);
		if (seg == 5)
			assert_int_equal(entry.block, dmr_page_hints(0, 0));
		if (seg == 6)
			assert_int_equal(entry.block, dmr_page_hints(509, 0));
	}
	expect_volume(&volume);
	free_volume(&volume);
}

static int add(struct rd_table_writer *table, u64 first, u64 len, struct dmr_entry place)
{
	struct dmr_range range = { .first = first, .len = len, .place[0] = place };

	return rd_table_add(table, &range);
}

static void bad_ranges(void **state)
{
	u64 last = DMR_ENTRY_BLOCK_MAX;
	struct dmr_super super;
	struct volume volume;
	struct rd_table_writer table;

	(void)state;
	new_volume(&volume, 4000);
	super = super_of(&volume, 0);
	volume.fd = new_file(super.meta_blocks << DMR_BLOCK_SHIFT);
	assert_int_equal(rd_table_begin(&table, volume.fd, &super), 0);
	assert_int_equal(add(&table, 10, 0, ZERO), -EINVAL);
	assert_int_equal(add(&table, 500, 1, ZERO), -ERANGE);
	assert_int_equal(add(&table, 499, 2, ZERO), -ERANGE);
	assert_int_equal(add(&table, 0, U64_MAX, ZERO), -ERANGE);
	assert_int_equal(add(&table, U64_MAX, 1, ZERO), -ERANGE);
	assert_int_equal(add(&table, 0, 1, POOL(last + 1)), -EOVERFLOW);
	assert_int_equal(add(&table, 0, 2, POOL(last)), -EOVERFLOW);
	assert_int_equal(add(&table, 0, 2, POOL(U64_MAX)), -EOVERFLOW);
	assert_int_equal(add(&table, 0, 1, dmr_pack_entry(DMR_HEAD_MAX + 1, 0)), -EOVERFLOW);
	assert_int_equal(add(&table, 0, 2, dmr_pack_entry(5, 511)), -EOVERFLOW);
	assert_int_equal(add(&table, 0, 499, dmr_pack_entry(5, 14)), -EOVERFLOW);
	assert_int_equal(add(&table, 10, 2, POOL(last - 1)), 0);
	assert_int_equal(add(&table, 11, 1, ZERO), -EINVAL);
	assert_int_equal(add(&table, 9, 1, ZERO), -EINVAL);
	assert_int_equal(add(&table, 12, 1, ZERO), 0);
	assert_int_equal(add(&table, 499, 1, ZERO), 0);
	assert_int_equal(rd_table_end(&table), 0);
	rd_table_free(&table);
	put(&volume, 10, 2, POOL(last - 1));
	put(&volume, 12, 1, ZERO);
	put(&volume, 499, 1, ZERO);
	expect_volume(&volume);

	super.meta_blocks--;
	assert_int_equal(rd_table_begin(&table, volume.fd, &super), -ENOSPC);
	super.volume_sectors = 0;
	assert_int_equal(rd_table_begin(&table, volume.fd, &super), -EFBIG);
	super.volume_sectors = U64_MAX;
	assert_int_equal(rd_table_begin(&table, volume.fd, &super), -EFBIG);
	rd_table_free(&table);
	free_volume(&volume);
}

/* The order to bring all home is kept where there is something to bring. */
static void hydrated(void **state)
{
	struct rd_table_writer table;
	struct dmr_super super;
	struct volume volume;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		new_volume(&volume, 4000);
		super = super_of(&volume, 0);
		super.flags = DMR_FLAG_HYDRATE | DMR_FLAG_LOST;
		super.hydrate_mib = 7;
		volume.fd = new_file(super.meta_blocks << DMR_BLOCK_SHIFT);
		assert_int_equal(rd_table_begin(&table, volume.fd, &super), 0);
		if (i)
			assert_int_equal(add(&table, 10, 1, ZERO), 0);
		assert_int_equal(rd_table_end(&table), 0);
		rd_table_free(&table);
		open_volume(&volume);
		assert_int_equal(volume.meta.super.flags,
				 DMR_FLAG_TABLE | (i ? DMR_FLAG_HYDRATE : DMR_FLAG_LINEAR_OK));
		assert_int_equal(volume.meta.super.hydrate_mib, i ? 7 : 0);
		free_volume(&volume);
	}
}

/* What is cut off anywhere before the end is not ours, whatever was there. */
static void unfinished(void **state)
{
	struct volume volume;
	struct dmr_super super;
	struct rd_table_writer table;

	(void)state;
	new_volume(&volume, 4000);
	write_volume(&volume);
	open_volume(&volume);
	super = volume.meta.super;
	assert_int_equal(rd_table_begin(&table, volume.fd, &super), 0);
	assert_int_equal(rd_meta_open(&volume.meta, &volume.source), -ENODATA);
	assert_int_equal(add(&table, 0, 500, ZERO), 0);
	assert_int_equal(rd_meta_open(&volume.meta, &volume.source), -ENODATA);
	rd_table_free(&table);
	free_volume(&volume);
}

/* What cannot be known is in the walk, and no more than that. */
static void damaged_tables(void **state)
{
	static const struct {
		u64 first, len;
		enum rd_run_state state;
	} wanted[] = {
		{ 0, 512, RD_RUN_DAMAGED }, { 512, 600, RD_RUN_KNOWN },
		{ 1112, 2, RD_RUN_DAMAGED }, { 1114, 422, RD_RUN_KNOWN },
		{ 1536, 512, RD_RUN_UNREADABLE }, { 2048, 512, RD_RUN_KNOWN },
	};
	struct rd_check check = { .report = ignore };
	struct rd_meta_source source;
	struct rd_table_walk walk;
	struct dmr_super super;
	struct rd_meta meta;
	struct image image;
	struct rd_run run;
	unsigned int i;

	(void)state;
	image_default_super(&super);
	super.volume_sectors = 5 * DMR_SEG_SECTORS;
	super.meta_blocks = 80;
	super.flags = DMR_FLAG_TABLE;
	image_init(&image, &super);
	image_put_word(&image, 2, (struct dmr_entry){ DMR_PAGE, 510 });
	image_put_word(&image, 3, (struct dmr_entry){ DMR_PAGE, 512 });
	for (i = 1024; i < 1536; i++)
		image_put_entry(&image, i, BASE);
	((u8 *)image_block(&image, dmr_word_block(0)))[0] ^= 4;
	((u8 *)image_block(&image, dmr_page_block(2)))[88 * 8 + 7] ^= 1;
	((u8 *)image_block(&image, dmr_page_block(2)))[89 * 8] ^= 2;
	image.unreadable = dmr_page_block(3);
	image_source(&image, &source);
	assert_int_equal(rd_meta_open(&meta, &source), 0);
	rd_table_walk_init(&walk, &meta, 0, U64_MAX);
	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		assert_true(rd_table_walk_next(&walk, &run));
		assert_int_equal(run.first, wanted[i].first);
		assert_int_equal(run.len, wanted[i].len);
		assert_int_equal(run.state, wanted[i].state);
		if (run.state == RD_RUN_KNOWN)
			assert_int_equal(run.place.kind, DMR_BASE);
	}
	assert_false(rd_table_walk_next(&walk, &run));
	rd_meta_check(&meta, &check);
	assert_int_equal(check.nr[RD_DAMAGE], 2);
	assert_int_equal(check.nr[RD_UNREADABLE], 1);
	image.unreadable = dmr_word_block(0);
	rd_table_walk_init(&walk, &meta, 100, 1000);
	assert_true(rd_table_walk_next(&walk, &run));
	assert_int_equal(run.len, 1000);
	assert_int_equal(run.state, RD_RUN_UNREADABLE);
	image_free(&image);
}

/* Home */

static void fill(int fd, u64 bytes)
{
	u8 data[DMR_BLOCK_SIZE];
	u64 at, n;

	for (at = 0; at < bytes; at += n) {
		n = bytes - at < sizeof(data) ? bytes - at : sizeof(data);
		memset(data, rand(), sizeof(data));
		memcpy(data, &at, sizeof(at));
		assert_int_equal(pwrite(fd, data, n, at), n);
	}
}

/* What is in the packs: in each of these slots a block. */
static u8 packed[ARRAY_SIZE(heads)][DMR_SEG_BLOCKS * DMR_BLOCK_SIZE];

/* Some groups are noise, and stored as they are. */
static void put_pack(int fd, unsigned int nr, const struct rd_slots *slots, u8 uuid)
{
	static u8 pack[RD_PACK_MAX];
	struct rd_packer *packer = rd_packer_new();
	struct dmr_pack_head head;
	size_t i, len;

	assert_non_null(packer);
	memset(&head, 0, sizeof(head));
	memset(head.uuid, uuid, sizeof(head.uuid));
	head.frame = 7 + nr;
	rd_pack_set_slots(&head, slots);
	for (i = 0; i < sizeof(packed[nr]); i++)
		packed[nr][i] = i / DMR_PACK_GROUP_SIZE % 5 == 1 ? (u8)rand() :
				(u8)(i / 1000 + nr + rand() % 2);
	len = rd_pack_make(packer, &head, packed[nr], 1, pack);
	assert_true(len);
	assert_int_equal(pwrite(fd, pack, len, heads[nr] << DMR_BLOCK_SHIFT), len);
	rd_packer_free(packer);
}

static void put_packs(int fd)
{
	struct rd_slots all;
	unsigned int i;

	memset(&all, 0xff, sizeof(all));
	for (i = 0; i < ARRAY_SIZE(heads); i++)
		put_pack(fd, i, &all, 9);
}

static const u8 *packed_block(struct dmr_entry place)
{
	unsigned int i = 0;

	while (heads[i] != dmr_entry_pool_block(place))
		i++;
	return packed[i] + (size_t)dmr_entry_slot(place) * DMR_BLOCK_SIZE;
}

struct home {
	struct volume volume;
	struct rd_copy_home finish;
	int old_base;		/* a copy of the base before */
	u64 base_bytes;
};

static void new_home(struct home *home, u64 sectors, u64 pool_blocks, u64 more)
{
	memset(home, 0, sizeof(*home));
	new_volume(&home->volume, sectors);
	put_randomly(&home->volume, pool_blocks);
	write_volume(&home->volume);
	open_volume(&home->volume);
	home->base_bytes = (sectors << 9) + more;
	home->finish.meta = &home->volume.meta;
	home->finish.meta_fd = home->volume.fd;
	home->finish.pool_blocks = pool_blocks;
	home->finish.pool_fd = new_file(pool_blocks << DMR_BLOCK_SHIFT);
	fill(home->finish.pool_fd, pool_blocks << DMR_BLOCK_SHIFT);
	put_packs(home->finish.pool_fd);
	home->finish.base_fd = new_file(home->base_bytes);
	home->old_base = new_file(home->base_bytes);
	fill(home->finish.base_fd, home->base_bytes);
	assert_int_equal(lseek(home->finish.base_fd, 0, SEEK_END), home->base_bytes);
	assert_int_equal(copy_file_range(home->finish.base_fd, &(off_t){ 0 }, home->old_base,
					 &(off_t){ 0 }, home->base_bytes, 0),
			 home->base_bytes);
}

static void free_home(struct home *home)
{
	close(home->finish.pool_fd);
	close(home->finish.base_fd);
	close(home->old_base);
	free_volume(&home->volume);
}

static void get(int fd, u8 *data, u64 len, u64 offset)
{
	assert_int_equal(pread(fd, data, len, offset), len);
}

/* Byte for byte what the array says, and what is behind the volume untouched. */
static void expect_home(struct home *home)
{
	u64 at, end = home->volume.sectors << 9;
	u8 wanted[DMR_BLOCK_SIZE], found[DMR_BLOCK_SIZE];

	for (at = 0; at < home->base_bytes; at += sizeof(wanted)) {
		u64 len = home->base_bytes - at < sizeof(wanted) ?
			  home->base_bytes - at : sizeof(wanted);
		u64 ours = at >= end ? 0 : end - at < len ? end - at : len;
		const struct dmr_entry *place = &home->volume.places[at / DMR_BLOCK_SIZE];

		get(home->old_base, wanted, len, at);
		if (ours && place->kind == DMR_ZERO)
			memset(wanted, 0, ours);
		if (ours && place->kind == DMR_POOL)
			get(home->finish.pool_fd, wanted, ours,
			    place->block << DMR_BLOCK_SHIFT);
		if (ours && place->kind == DMR_PACK)
			memcpy(wanted, packed_block(*place), ours);
		get(home->finish.base_fd, found, len, at);
		assert_memory_equal(wanted, found, len);
	}
}

static void count_of(const struct home *home, u64 *pool, u64 *zero)
{
	u64 i;

	*pool = 0;
	*zero = 0;
	for (i = 0; i < home->volume.nr_blocks; i++) {
		*pool += dmr_entry_in_pool(home->volume.places[i]);
		*zero += home->volume.places[i].kind == DMR_ZERO;
	}
}

static void come_home(u64 sectors, u64 more)
{
	u64 pool, zero;
	struct home home;
	u32 flags;

	new_home(&home, sectors, 5000, more);
	flags = home.volume.meta.super.flags;
	count_of(&home, &pool, &zero);
	assert_int_equal(rd_copy_home_plan(&home.finish), 0);
	assert_int_equal(home.finish.nr_pool, pool);
	assert_int_equal(home.finish.nr_zero, zero);
	assert_int_equal(rd_copy_home_copy(&home.finish), 0);
	expect_home(&home);
	/* The table stands as it was until the end, and it may all be repeated. */
	open_volume(&home.volume);
	assert_int_equal(home.volume.meta.super.flags, flags);
	assert_int_equal(rd_copy_home_copy(&home.finish), 0);
	assert_int_equal(rd_copy_home_seal(&home.finish), 0);
	expect_home(&home);
	open_volume(&home.volume);
	assert_int_equal(home.volume.meta.super.flags, DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK);
	assert_int_equal(home.volume.meta.super.incompat, 0);
	assert_int_equal(home.volume.meta.super.seq, 2);
	assert_int_equal(home.volume.meta.a.super.seq, 2);
	assert_int_equal(home.volume.meta.b.super.seq, 2);
	free_home(&home);
}

static void all_come_home(void **state)
{
	unsigned int round;

	(void)state;
	for (round = 0; round < 15; round++)
		come_home(1 + below(6 * DMR_SEG_SECTORS), below(2) * below(10000));
	/* More than one window. */
	come_home(40 * DMR_SEG_SECTORS + 3, 512);
	come_home(33 * DMR_SEG_SECTORS, 0);
}

/* One block in three, over windows and their ends; and zeros in between. */
static void in_pieces(void **state)
{
	struct home home;
	u64 i;

	(void)state;
	new_home(&home, 70 * DMR_SEG_SECTORS, 9000, 0);
	for (i = 0; i < home.volume.nr_blocks; i++)
		home.volume.places[i] = i % 3 ? BASE : i % 2 ? ZERO : random_place(1, 9000);
	for (i = 16300; i < 16384 + 600; i++)
		home.volume.places[i] = ZERO;
	close(home.volume.fd);
	write_volume(&home.volume);
	open_volume(&home.volume);
	home.finish.meta_fd = home.volume.fd;
	assert_int_equal(rd_copy_home_plan(&home.finish), 0);
	assert_int_equal(rd_copy_home_copy(&home.finish), 0);
	expect_home(&home);
	free_home(&home);
}

static unsigned int nr_bad;

static void count_bad(struct rd_copy_home *finish, const struct rd_run *run)
{
	(void)finish;
	(void)run;
	nr_bad++;
}

static void refused_plans(void **state)
{
	struct home home;
	__le64 nothing = 0;

	(void)state;
	new_home(&home, 3 * DMR_SEG_SECTORS, 5000, 0);
	put(&home.volume, 0, 3 * 512, BASE);
	put(&home.volume, 100, 50, POOL(4950));
	put(&home.volume, 700, 1, POOL(4999));
	put(&home.volume, 800, 3, dmr_pack_entry(4500, 509));
	close(home.volume.fd);
	write_volume(&home.volume);
	open_volume(&home.volume);
	home.finish.bad = count_bad;
	assert_int_equal(rd_copy_home_plan(&home.finish), 0);
	home.finish.pool_blocks = 4999;
	nr_bad = 0;
	assert_int_equal(rd_copy_home_plan(&home.finish), -ERANGE);
	assert_int_equal(nr_bad, 2);
	assert_int_equal(home.finish.nr_outside, 51);
	home.finish.pool_blocks = 4500;
	nr_bad = 0;
	assert_int_equal(rd_copy_home_plan(&home.finish), -ERANGE);
	assert_int_equal(nr_bad, 3);
	assert_int_equal(home.finish.nr_outside, 54);
	home.finish.pool_blocks = 5000;
	assert_int_equal(pwrite(home.volume.fd, &nothing, 8,
				(dmr_page_block(1) << DMR_BLOCK_SHIFT) + 88), 8);
	assert_int_equal(rd_copy_home_plan(&home.finish), -EBADMSG);
	assert_int_equal(home.finish.nr_damaged, 1);
	/* What was right in the plan may be gone when it is read again. */
	assert_int_equal(rd_copy_home_copy(&home.finish), -EIO);
	assert_string_equal(home.finish.what, "cannot read the table again");
	free_home(&home);
}

static void failing_devices(void **state)
{
	struct home home;

	(void)state;
	new_home(&home, 3 * DMR_SEG_SECTORS, 5000, 0);
	put(&home.volume, 0, 3 * 512, BASE);
	put(&home.volume, 0, 2 * 512, POOL(3000));
	close(home.volume.fd);
	write_volume(&home.volume);
	open_volume(&home.volume);
	assert_int_equal(ftruncate(home.finish.pool_fd, 3500 << 12), 0);
	assert_int_equal(rd_copy_home_copy(&home.finish), -EIO);
	assert_string_equal(home.finish.what, "cannot read the pool");
	assert_int_equal(ftruncate(home.finish.pool_fd, 5000 << 12), 0);
	assert_int_equal(fcntl(home.finish.base_fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(rd_copy_home_copy(&home.finish), -EPERM);
	assert_string_equal(home.finish.what, "cannot write the base");
	free_home(&home);
}

static void expect_refusal(struct home *home, int r, const char *what)
{
	assert_int_equal(rd_copy_home_copy(&home->finish), r);
	assert_string_equal(home->finish.what, what);
}

static void flip(struct home *home, u64 at, u8 bits)
{
	u8 byte;

	get(home->finish.pool_fd, &byte, 1, at);
	byte ^= bits;
	assert_int_equal(pwrite(home->finish.pool_fd, &byte, 1, at), 1);
}

/* A pack that is not what it says: not a block of it comes home. */
static void damaged_packs(void **state)
{
	u64 at = heads[0] << DMR_BLOCK_SHIFT, group;
	struct dmr_pack_head head;
	struct dmr_pack_disk disk;
	struct rd_slots slots;
	struct home home;

	(void)state;
	new_home(&home, 2 * DMR_SEG_SECTORS, 5000, 0);
	put(&home.volume, 0, 2 * 512, BASE);
	put(&home.volume, 40, 60, dmr_pack_entry(heads[0], 200));
	close(home.volume.fd);
	write_volume(&home.volume);
	open_volume(&home.volume);
	get(home.finish.pool_fd, (u8 *)&disk, sizeof(disk), at);
	assert_int_equal(dmr_pack_head_unpack(&disk, RD_PACK_MAX, &head), 0);
	group = at + dmr_pack_offset(&head, 13);
	flip(&home, group + 9, 4);
	expect_refusal(&home, -EBADMSG, "the pack at block bb8 of the pool is damaged in its group 13");
	flip(&home, group + 9, 4);
	/* Of a group that nothing is read from nothing is known. */
	group = at + dmr_pack_offset(&head, 11);
	flip(&home, group, 1);
	assert_int_equal(rd_copy_home_copy(&home.finish), 0);
	expect_home(&home);
	flip(&home, group, 1);
	flip(&home, at + 100, 128);
	expect_refusal(&home, -EBADMSG,
		       "the pack at block bb8 of the pool has no head, or a damaged one");
	put_packs(home.finish.pool_fd);
	/* It ends behind the pool. */
	home.finish.pool_blocks = heads[0] + 1;
	expect_refusal(&home, -EBADMSG,
		       "the pack at block bb8 of the pool has no head, or a damaged one");
	home.finish.pool_blocks = 5000;
	memset(&slots, 0xff, sizeof(slots));
	put_pack(home.finish.pool_fd, 0, &slots, 8);
	expect_refusal(&home, -EBADMSG, "the pack at block bb8 of the pool is one of another pool");
	rd_slots_clear(&slots, 230);
	put_pack(home.finish.pool_fd, 0, &slots, 9);
	expect_refusal(&home, -EBADMSG, "the pack at block bb8 of the pool has no block in slot e6");
	/* How a later program may store a group. */
	put_packs(home.finish.pool_fd);
	get(home.finish.pool_fd, (u8 *)&disk, sizeof(disk), at);
	assert_int_equal(dmr_pack_head_unpack(&disk, RD_PACK_MAX, &head), 0);
	head.groups[14].codec = 9;
	dmr_pack_head_pack(&head, &disk);
	assert_int_equal(pwrite(home.finish.pool_fd, &disk, sizeof(disk), at), sizeof(disk));
	expect_refusal(&home, -EOPNOTSUPP,
		       "the pack at block bb8 of the pool cannot be decoded in its group 14");
	free_home(&home);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_is_one),
		cmocka_unit_test(random_tables),
		cmocka_unit_test(two_groups),
		cmocka_unit_test(words_and_pages),
		cmocka_unit_test(bad_ranges),
		cmocka_unit_test(unfinished),
		cmocka_unit_test(hydrated),
		cmocka_unit_test(damaged_tables),
		cmocka_unit_test(all_come_home),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(refused_plans),
		cmocka_unit_test(failing_devices),
		cmocka_unit_test(damaged_packs),
	};
	const char *wish = getenv("SEED");
	unsigned int seed = wish ? atoi(wish) : getpid();

	print_message("# test_table: SEED=%u\n", seed);
	srand(seed);
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
