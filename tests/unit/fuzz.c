// SPDX-License-Identifier: GPL-2.0
/*
 * Random damage to metadata devices and to runs of the index, random text to the parsers of
 * messages.
 *
 *   fuzz [seed [rounds]]
 *
 * Prints its seed; a failure prints the round, and `fuzz SEED` repeats it. It runs under
 * sanitizers, which find reads out of bounds as well. Whatever the damage, the answer must
 * have all dirty segments, or the device must be refused. (Except for a forgery: old blocks
 * put back with a right checksum.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <linux/crc32c.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "meta/check.h"
#include "meta/table_read.h"
#include "meta_image.h"
#include "pool/index/run.h"

#define MAX_SEGS	100000U

/* xorshift64*: the same numbers everywhere, and 64 bits of them. */
static u64 state;

static u64 rnd(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ULL;
}

static u64 below(u64 n)
{
	return rnd() % n;
}

static const char *failed;

static void expect(bool ok, const char *what)
{
	if (!ok && !failed)
		failed = what;
}

/* Devices */

struct device {
	struct image image;
	u64 nr_segs;
	u64 first[8];		/* dirty: ranges of the current epoch */
	u64 len[8];
	bool forged;
	/* Where the blocks are: word, or PAGE and its entries; NULL: all BASE. */
	struct dmr_entry *words;
	struct dmr_entry (*pages)[DMR_SEG_BLOCKS];
};

static void random_super(struct dmr_super *super, u64 nr_segs)
{
	image_default_super(super);
	super->volume_sectors = nr_segs * DMR_SEG_SECTORS - below(4096);
	super->flags = 0;
	if (nr_segs < 200 && below(2))
		super->flags |= DMR_FLAG_TABLE;
	if (!(super->flags & DMR_FLAG_TABLE) || below(2))
		super->flags |= DMR_FLAG_LINEAR_OK;
	super->epoch = 1 + below(100);
	super->committed = below(super->epoch);
	if (below(2))
		super->flags |= DMR_FLAG_FROZEN;
	super->meta_blocks = dmr_meta_blocks_needed(nr_segs, super->flags) +
			     below(3);
}

/* Copy B as a crash in the middle of checkpoint `epoch` leaves it. */
static void age_copy_b(struct image *image)
{
	struct dmr_super super = image->super;

	super.seq--;
	super.epoch--;
	super.flags &= ~DMR_FLAG_FROZEN;
	image_put_super(image, super.meta_blocks - 1, &super);
}

static struct dmr_entry random_place(void)
{
	struct dmr_entry place = { .kind = DMR_BASE + below(4) };

	if (place.kind == DMR_POOL)
		place.block = below(2) ? below(10) : rnd() >> (below(20) + 20);
	else if (place.kind == DMR_PACK)
		place = dmr_pack_entry(below(2) ? below(10) : below(DMR_HEAD_MAX), 0);
	return place;
}

static void make_page(struct device *device, u64 seg)
{
	struct dmr_entry *page = device->pages[seg];
	unsigned int i;

	for (i = 0; i < DMR_SEG_BLOCKS; i++) {
		page[i] = below(20) && i ? page[i - 1] : random_place();
		page[i].block += dmr_entry_in_pool(page[i]);
		image_put_entry(&device->image, seg * DMR_SEG_BLOCKS + i, page[i]);
	}
}

/* Each segment at random, with any hints. */
static void make_table(struct device *device)
{
	u64 seg;

	device->words = calloc(device->nr_segs, sizeof(*device->words));
	device->pages = calloc(device->nr_segs, sizeof(*device->pages));
	if (!device->words || !device->pages)
		abort();
	for (seg = 0; seg < device->nr_segs; seg++) {
		device->words[seg] = random_place();
		if (!below(4)) {
			device->words[seg] = (struct dmr_entry){ DMR_PAGE, below(513) };
			make_page(device, seg);
		}
		image_put_word(&device->image, seg, device->words[seg]);
	}
}

static struct dmr_entry place_of(const struct device *device, u64 block)
{
	u64 seg = block / DMR_SEG_BLOCKS, i = block % DMR_SEG_BLOCKS;
	struct dmr_entry place = { .kind = DMR_BASE };

	if (!device->words)
		return place;
	place = device->words[seg];
	if (place.kind == DMR_PAGE)
		return device->pages[seg][i];
	return dmr_entry_plus(place, i);
}

/* Runs cover all blocks, in order; those that are known are right. */
static void check_table(const struct device *device, const struct rd_meta *meta,
			u64 first, u64 len)
{
	u64 nr = dmr_nr_blocks(meta->super.volume_sectors), i;
	bool linear = meta->super.flags & DMR_FLAG_LINEAR_OK;
	struct rd_table_walk walk;
	struct rd_run run;

	rd_table_walk_init(&walk, meta, first, len);
	while (rd_table_walk_next(&walk, &run)) {
		expect(run.first == first && run.len, "runs do not follow each other");
		first += run.len;
		if (device->forged || run.state != RD_RUN_KNOWN)
			continue;
		for (i = 0; i < run.len; i++) {
			struct dmr_entry place = place_of(device, run.first + i);

			if (linear)
				place = (struct dmr_entry){ .kind = DMR_BASE };
			expect(run.place.kind == place.kind, "a place of another kind");
			expect(!dmr_entry_in_pool(run.place) ||
			       run.place.block + i == place.block, "another pool block");
			expect(run.place.kind != DMR_PACK ||
			       dmr_entry_slot(run.place) + i < DMR_SEG_BLOCKS,
			       "a run beyond the last slot");
		}
	}
	expect(first == nr || len < nr, "runs end before the volume");
}

static void make_device(struct device *device)
{
	struct dmr_super super;
	int i;

	memset(device, 0, sizeof(*device));
	device->nr_segs = 1 + below(below(4) ? 190 : MAX_SEGS);
	random_super(&super, device->nr_segs);
	image_init(&device->image, &super);
	if (below(2))
		age_copy_b(&device->image);
	for (i = 0; i < 8; i++) {
		device->first[i] = below(device->nr_segs);
		device->len[i] = 1 + below(device->nr_segs - device->first[i]);
		if (below(2))
			device->len[i] = 1;
		image_mark(&device->image, super.epoch, device->first[i],
			   device->len[i]);
	}
	if ((super.flags & DMR_FLAG_TABLE) && !below(4))
		make_table(device);
}

/* A number somewhere in a superblock, with a good checksum. */
static void forge_super(struct device *device)
{
	struct dmr_super super = device->image.super;
	u64 *fields[] = { &super.seq, &super.volume_sectors, &super.meta_blocks,
			  &super.epoch, &super.committed, &super.lost_epoch };
	u64 value = below(2) ? below(200) : rnd() >> below(64);

	if (below(3))
		*fields[below(ARRAY_SIZE(fields))] = value;
	else
		super.flags = value;
	device->forged = true;
	image_put_super(&device->image,
			below(2) ? 0 : device->image.super.meta_blocks - 1,
			&super);
}

static void damage(struct device *device)
{
	struct image *image = &device->image;
	u64 blocks = image->super.meta_blocks, block = below(blocks);
	u8 *bytes = image_block(image, block);

	switch (below(8)) {
	case 0:
		bytes[below(DMR_BLOCK_SIZE)] ^= 1 << below(8);
		return;
	case 1:		/* where a superblock is, if any */
		bytes[below(sizeof(struct dmr_super_disk))] = rnd();
		return;
	case 2:
		memset(bytes, below(2) ? 0 : rnd(), DMR_BLOCK_SIZE);
		return;
	case 3:		/* a write that went elsewhere */
		memcpy(bytes, image_block(image, below(blocks)), DMR_BLOCK_SIZE);
		return;
	case 4:		/* a torn write */
		memset(bytes + 512 * below(8), rnd(), 512);
		return;
	case 5:
		image->nr_blocks = below(blocks + 1);
		return;
	case 6:
		image->unreadable = block;
		return;
	case 7:
		forge_super(device);
		return;
	}
}

static bool is_in_answer(const struct device *device, const struct rd_meta *meta)
{
	static bool dirty[MAX_SEGS];
	struct rd_meta_walk walk;
	struct dmr_range range;
	int i;

	memset(dirty, 0, device->nr_segs);
	rd_meta_walk_init(&walk, meta, RD_META_CURRENT);
	while (rd_meta_walk_next(&walk, &range))
		memset(dirty + range.first, 1, range.len);
	for (i = 0; i < 8; i++)
		if (memchr_inv(dirty + device->first[i], 1, device->len[i]))
			return false;
	return true;
}

static void ignore(struct rd_check *check, const struct rd_finding *finding)
{
	(void)check;
	expect(strlen(finding->what) > 10, "a finding says nothing");
	expect(strlen(finding->effect) > 5, "a finding has no effect");
}

static void fuzz_device(void)
{
	struct rd_check check = { .report = ignore };
	struct rd_meta_source source;
	struct device device;
	struct rd_meta meta;
	u64 n;

	make_device(&device);
	for (n = below(4); n; n--)
		damage(&device);
	image_source(&device.image, &source);
	rd_meta_open(&meta, &source);
	expect(meta.r || device.forged || is_in_answer(&device, &meta),
	       "a dirty segment is missing");
	expect(strlen(rd_meta_advice(&meta)) > 10, "no advice");
	if (!meta.r && !(meta.nr_segs >> 10)) {
		u64 first = below(dmr_nr_blocks(meta.super.volume_sectors));

		check_table(&device, &meta, 0, U64_MAX);
		check_table(&device, &meta, first, below(2000));
	}
	if (!meta.r || rd_meta_is_damaged(&meta)) {
		rd_meta_check(&meta, &check);
		expect(!meta.r || check.nr[RD_DAMAGE], "damage, and no finding");
	}
	free(device.words);
	free(device.pages);
	image_free(&device.image);
}

/* Text */

static void random_text(char *text, size_t size, const char *alphabet)
{
	size_t len = below(size), i;

	for (i = 0; i < len; i++)
		text[i] = below(50) ? alphabet[below(strlen(alphabet))] :
				      (char)(1 + below(255));
	text[len] = 0;
}

/* A second opinion by way of the C library. */
static int naive_number(const char *text, u64 *ret)
{
	size_t len = strlen(text);

	if (!len || strspn(text, "0123456789") != len)
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	return errno ? -EINVAL : 0;
}

static bool naive_hex(char **text, u64 *ret)
{
	size_t len = strspn(*text, "0123456789abcdef");
	char digits[17] = "";

	if (!len || len > 16)
		return false;
	/* By themselves: strtoull() would step over an 0x. */
	*ret = strtoull(memcpy(digits, *text, len), NULL, 16);
	*text += len;
	return true;
}

static bool naive_place(char **text, u64 len, u64 pool_blocks, int *r)
{
	u64 block;

	if (*(*text)++ != ',')
		return false;
	switch (*(*text)++) {
	case 'b':
	case 'z':
		return true;
	case 'p':
		if (!naive_hex(text, &block))
			return false;
		if (block + len < block || block + len > pool_blocks)
			*r = -ERANGE;
		return true;
	}
	return false;
}

static int naive_ranges(char *text, const struct dmr_range_rules *rules)
{
	unsigned int i;
	u64 first, len;
	int r;

	do {
		r = 0;
		if (!naive_hex(&text, &first) || *text++ != ',' ||
		    !naive_hex(&text, &len) || !len)
			return -EINVAL;
		for (i = 0; i < rules->nr_places; i++) {
			if (!naive_place(&text, len, rules->pool_blocks, &r))
				return -EINVAL;
		}
		if (*text && (*text != ';' || !text[1]))
			return -EINVAL;
		if (first + len < first || first + len > rules->limit)
			return -EINVAL;
		if (r)
			return r;
	} while (*text++ == ';');
	return 0;
}

static void fuzz_number(void)
{
	char text[32];
	u64 a = 0, b = 0;

	random_text(text, below(2) ? 4 : sizeof(text), "0123456789");
	expect(dmr_parse_u64(text, &a) == naive_number(text, &b),
	       "a number is read in one way only");
	expect(a == b || naive_number(text, &b), "two values of a number");
}

static void fuzz_ranges(void)
{
	static const char *const places[] = { "", ",b", ",z", ",p3", ",pffff" };
	char text[64];
	struct dmr_range_rules rules = {
		.limit = below(2) ? below(1000) : rnd() >> below(64),
		.nr_places = below(3),
		.pool_blocks = below(100),
	};

	if (below(2))
		random_text(text, sizeof(text), "0123456789abcdef,;,;,pzb");
	else if (below(2))
		sprintf(text, "%llx,%llx%s%s;%llx,%llx%s", rnd() >> below(64),
			rnd() >> below(64), places[below(5)],
			places[below(5)], below(100), below(100),
			places[below(5)]);
	else
		sprintf(text, "%llx,%llx%s;%llx,%llx%s", below(100), below(9),
			places[1 + below(4)], below(100), below(9),
			places[1 + below(4)]);
	expect(dmr_ranges_check(text, &rules) == naive_ranges(text, &rules),
	       "ranges are read in one way only");
}

/* Runs of the index */

static const u8 uuid[16] = "the pool's uuid.";

#define MAX_ENTRIES	3000

static u64 keys[MAX_ENTRIES];

static u64 where_is(u64 key)
{
	return key >> 18;
}

/* Some keys are close to each other, so that pages overflow. */
static unsigned int make_run(int fd)
{
	unsigned int i, nr = below(MAX_ENTRIES + 1);
	u64 key = below(2) ? 0 : rnd();
	struct rd_index_run_writer writer;
	bool ok;

	ok = !rd_index_run_begin(&writer, fd, uuid, 1, nr);
	for (i = 0; ok && i < nr && key < U64_MAX - 2 * (U64_MAX / MAX_ENTRIES); i++) {
		key += 1 + (below(3) ? below(U64_MAX / MAX_ENTRIES) : below(5));
		keys[i] = key;
		ok = !rd_index_run_put(&writer, &(struct rd_index_run_entry){ key, where_is(key) });
	}
	ok = ok && !rd_index_run_end(&writer);
	rd_index_run_writer_free(&writer);
	expect(ok, "a run is written");
	return i;
}

/* Make the checksum of block @number of a run right. */
static void forge(u8 *block, u64 number)
{
	u8 *crc = block + (number ? RD_BLOCK_SIZE - 4 : 8);
	__le32 sum;

	memset(crc, 0, 4);
	sum = cpu_to_le32(~crc32c(~0U, block, number ? RD_BLOCK_SIZE - 4 : RD_BLOCK_SIZE));
	memcpy(crc, &sum, 4);
}

/* True: it is forged, and may say anything. */
static bool damage_run(int fd)
{
	u64 size = lseek(fd, 0, SEEK_END), number = below(4) ? below(size / RD_BLOCK_SIZE) : 0;
	unsigned int i, nr = 1 + below(4);
	bool forged = below(2);
	u8 block[RD_BLOCK_SIZE];

	if (!below(8))
		expect(!ftruncate(fd, below(size)), "a run is cut off");
	if (pread(fd, block, sizeof(block), number * RD_BLOCK_SIZE) != sizeof(block))
		return false;
	for (i = 0; i < nr; i++)
		block[below(2) ? below(100) : below(sizeof(block))] = below(2) ? rnd() : 0xff;
	if (forged)
		forge(block, number);
	expect(pwrite(fd, block, sizeof(block), number * RD_BLOCK_SIZE) == sizeof(block),
	       "a run is damaged");
	return forged;
}

static void read_all(struct rd_index_run *run)
{
	struct rd_index_run_reader reader;
	struct rd_index_run_entry entry;

	expect(!rd_index_run_read(&reader, run), "a run is read");
	while (rd_index_run_next(&reader, &entry) > 0)
		;
	rd_index_run_reader_free(&reader);
}

static void fuzz_run(void)
{
	int fd = memfd_create("run", 0), r;
	unsigned int i, nr = make_run(fd);
	bool damaged = below(4), forged = damaged && damage_run(fd);
	struct rd_index_run run;
	u64 place;

	/* It closes the file on an error, and else with the run. */
	r = rd_index_run_open(&run, fd, uuid);
	expect(damaged || !r, "a good run is opened");
	if (r)
		return;
	if (below(2))
		r = rd_index_run_load_vector(&run);
	expect(damaged || !r, "a good vector is read");
	for (i = 0; i < nr; i++) {
		r = rd_index_run_may_have(&run, keys[i]);
		expect(r == 1 || damaged, "a key is in the vector");
		r = rd_index_run_find(&run, keys[i], &place);
		expect(r == 1 || damaged, "a key is found");
		expect(r != 1 || forged || place == where_is(keys[i]), "a place is right");
		rd_index_run_find(&run, keys[i] + below(3), &place);
	}
	read_all(&run);
	rd_index_run_close(&run);
}

int main(int argc, char **argv)
{
	u64 seed = argc > 1 ? strtoull(argv[1], NULL, 0) :
			      (u64)time(NULL);
	u64 rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 4000;
	u64 i;

	printf("# fuzz: seed %llu, %llu rounds\n", seed, rounds);
	fflush(stdout);
	for (i = 0; i < rounds && !failed; i++) {
		state = (seed + i) * 0x9e3779b97f4a7c15ULL + 1;
		fuzz_number();
		fuzz_ranges();
		fuzz_device();
		if (i % 8 == 0)
			fuzz_run();
	}
	if (failed)
		printf("# %s: repeat with 'fuzz %llu 1'\n", failed, seed + i - 1);
	printf("%sok 1 - fuzz\n1..1\n", failed ? "not " : "");
	return !!failed;
}
