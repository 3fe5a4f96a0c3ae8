// SPDX-License-Identifier: GPL-2.0
/*
 * What the rule of reverse deduplication leaves of a series of disk images, by
 * a program that shares nothing with the engine. It keeps no data, only which
 * block of which segment would still be there.
 *
 *	rule [--packs] ORDERFILE [STAYING]	(images.h says what ORDERFILE is)
 *
 * The rule. A recipe is the content of one segment, whichever versions have it.
 * A snapshot first takes the recipe of each of its segments, which makes it whole
 * (new, or with the blocks again that it had given up). Then each segment that
 * changed lets go of the recipe that it had. A recipe that no newest version
 * names any more gives up each block whose content the new version has, anywhere.
 *
 * The engine stores less in one case: a recipe that comes back stays as it is if all its blocks
 * lie in another one, in one piece, as that is one read, too. Which do is a matter of where the
 * engine has found them, so STAYING says it: a line "FILE SEGMENT" for each segment of a newest
 * version that had no block of its own after the snapshot of FILE.
 *
 * After each snapshot it prints "after VOLUME FILE BYTES CHANGED", the bytes that
 * are present and the number of segments that changed, and at the end
 *
 *	logical BYTES		all versions
 *	nonzero BYTES		their blocks that are not all zeros
 *	distinct BYTES		each content of a block once: no rule leaves less
 *	distinct-segments BYTES	the blocks of each content of a segment once
 *	rule BYTES		what the rule leaves
 *	closed BYTES		what a pass over the pool leaves then: newest versions as they
 *				are, and of what none of them has, each content once
 *
 * and with --packs, for some levels of zstd and sizes of groups, "pack LEVEL KIB NEWEST OLD",
 * what that would take compressed: the segments of newest versions, and what else is left.
 * A pack has up to 512 blocks, cut into groups that are compressed one by one; of a segment
 * whose blocks are in their slots, of others as they come. A group that does not become an
 * eighth smaller stays as it is. A pack has a head, and ends with a block.
 *
 * Exits 1 where it cannot read something, or where its own sums are wrong.
 */
#define _GNU_SOURCE
#include <zstd.h>

#include "images.h"

#define PACK_HEAD	512

/* The content of a block. */
struct content {
	uint8_t fp[BLOCK_FP];
	uint32_t seen;		/* the last snapshot that has it */
};

/* The content of a segment. */
struct recipe {
	uint8_t fp[SEG_FP];
	uint32_t latest;	/* places in newest versions that name it */
	uint32_t file, segment;	/* that has it */
	uint32_t blocks[SEG_BLOCKS];
	bool present[SEG_BLOCKS];
	bool stays;		/* newest, and all of it is in another one */
};

/* A line of STAYING. */
struct staying {
	char *file;
	size_t segment;
};

struct volume {
	struct volume *next;
	const char *name;
	uint32_t *recipes;	/* of the newest version */
	size_t nr_segs;
};

static struct table contents = { sizeof(struct content), BLOCK_FP, 0, 0, NULL, NULL };
static struct table recipes = { sizeof(struct recipe), SEG_FP, 0, 0, NULL, NULL };

static char **files;
static size_t nr_files;
static struct volume *volumes;
static struct staying *staying;
static size_t nr_staying;
static uint32_t snapshot_nr;
static size_t logical, nonzero_blocks, distinct_seg_blocks, present_blocks;

static struct content *content(uint32_t nr)
{
	return (struct content *)contents.items + nr;
}

static struct recipe *recipe(uint32_t nr)
{
	return (struct recipe *)recipes.items + nr;
}

/* Notes that this snapshot has it. */
static uint32_t block_content(const uint8_t *data, uint8_t *ret_fp)
{
	bool is_new;
	uint32_t nr;

	block_fp(data, ret_fp);
	nr = table_get(&contents, ret_fp, &is_new);
	content(nr)->seen = snapshot_nr;
	return nr;
}

static void read_staying(const char *path)
{
	FILE *f = fopen(path, "re");
	struct staying one;
	int nr;

	if (!f)
		err(1, "cannot open '%s'", path);
	while ((nr = fscanf(f, "%ms %zu\n", &one.file, &one.segment)) == 2) {
		staying = resize(staying, nr_staying + 1, sizeof(*staying));
		staying[nr_staying++] = one;
	}
	if (nr != EOF)
		errx(1, "line %zu: not FILE SEGMENT", nr_staying + 1);
	fclose(f);
}

static bool stays(uint32_t segment)
{
	size_t i;

	for (i = 0; i < nr_staying; i++)
		if (staying[i].segment == segment &&
		    !strcmp(staying[i].file, files[nr_files - 1]))
			return true;
	return false;
}

/* The recipe of a segment of the new version, whole from now on, or as it was. */
static uint32_t take_segment(const uint8_t *data, uint32_t segment)
{
	uint8_t fps[SEG_BLOCKS * BLOCK_FP], fp[SEG_FP];
	uint32_t blocks[SEG_BLOCKS], nr;
	struct recipe *r;
	bool is_new;
	size_t i;

	for (i = 0; i < SEG_BLOCKS; i++)
		blocks[i] = block_content(data + i * BLOCK, fps + i * BLOCK_FP);
	sha256(fps, sizeof(fps), fp);
	nr = table_get(&recipes, fp, &is_new);
	r = recipe(nr);
	if (is_new) {
		memcpy(r->blocks, blocks, sizeof(blocks));
		r->file = nr_files - 1;
		r->segment = segment;
	}
	r->stays = !is_new && stays(segment);
	for (i = 0; i < SEG_BLOCKS; i++) {
		if (blocks[i] == ZERO)
			continue;
		nonzero_blocks++;
		distinct_seg_blocks += is_new;
		if (r->stays)
			continue;
		present_blocks += !r->present[i];
		r->present[i] = true;
	}
	return nr;
}

static void give_up(struct recipe *r)
{
	size_t i;

	for (i = 0; i < SEG_BLOCKS; i++) {
		if (r->present[i] && content(r->blocks[i])->seen == snapshot_nr) {
			r->present[i] = false;
			present_blocks--;
		}
	}
}

/* Returns how many segments changed. */
static size_t supersede(const struct volume *v, const uint32_t *new)
{
	size_t i, changed = 0;

	for (i = 0; i < v->nr_segs; i++) {
		if (v->recipes[i] != new[i]) {
			changed++;
			recipe(new[i])->latest++;
		}
	}
	for (i = 0; i < v->nr_segs; i++) {
		struct recipe *old = recipe(v->recipes[i]);

		if (v->recipes[i] != new[i] && v->recipes[i] != ZERO &&
		    !--old->latest)
			give_up(old);
	}
	return changed;
}

static struct volume *find_volume(const char *name)
{
	struct volume *v = volumes;

	while (v && strcmp(v->name, name))
		v = v->next;
	if (!v) {
		v = resize(NULL, 1, sizeof(*v));
		*v = (struct volume){ .name = strdup(name), .next = volumes };
		if (!v->name)
			err(1, "out of memory");
		volumes = v;
	}
	return v;
}

static void take_snapshot(const char *name, const char *file)
{
	static uint8_t buf[SEGMENT];
	struct volume *v = find_volume(name);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	size_t i, nr_segs, changed;
	struct stat st;
	uint32_t *new;

	if (fd < 0 || fstat(fd, &st))
		err(1, "cannot open '%s'", file);
	snapshot_nr++;
	logical += st.st_size;
	files = resize(files, nr_files + 1, sizeof(*files));
	files[nr_files] = strdup(file);
	if (!files[nr_files++])
		err(1, "out of memory");

	/* What is beyond the end of either version is zeros. */
	nr_segs = (st.st_size + SEGMENT - 1) / SEGMENT;
	if (nr_segs < v->nr_segs)
		nr_segs = v->nr_segs;
	v->recipes = resize(v->recipes, nr_segs, sizeof(*v->recipes));
	while (v->nr_segs < nr_segs)
		v->recipes[v->nr_segs++] = ZERO;
	new = resize(NULL, nr_segs, sizeof(*new));
	for (i = 0; i < nr_segs; i++)
		new[i] = read_segment(fd, file, i * SEGMENT, buf) ?
			take_segment(buf, i) : ZERO;
	close(fd);

	changed = supersede(v, new);
	free(v->recipes);
	v->recipes = new;
	printf("after %s %s %zu %zu\n", name, file, present_blocks * BLOCK, changed);
}

/* Each content must still be somewhere, and the newest versions must be whole. */
static void check_present(void)
{
	size_t present = 0, i, j;

	for (i = 0; i < recipes.nr; i++) {
		const struct recipe *r = recipe(i);

		for (j = 0; j < SEG_BLOCKS; j++) {
			if (r->present[j])
				content(r->blocks[j])->seen = 0;
			else if (r->blocks[j] != ZERO && r->latest && !r->stays)
				errx(1, "a newest version has lost a block");
			present += r->present[j];
		}
	}
	for (i = 1; i < contents.nr; i++)
		if (content(i)->seen)
			errx(1, "the content of a block was lost");
	if (present != present_blocks)
		errx(1, "%zu blocks are present, not %zu", present, present_blocks);
}

/* After check_present(), @seen is of use again: newest recipes have the content. */
static size_t closed_blocks(void)
{
	size_t blocks = 0, i, j;

	for (i = 1; i < recipes.nr; i++) {
		const struct recipe *r = recipe(i);

		for (j = 0; j < SEG_BLOCKS && r->latest; j++) {
			blocks += r->present[j];
			content(r->blocks[j])->seen = 1;
		}
	}
	for (i = 1; i < contents.nr; i++)
		blocks += !content(i)->seen;
	return blocks;
}

/* --- packs */

/* One way to pack, and what it takes. */
static struct pack {
	int level;
	size_t group;		/* blocks */
	size_t newest, old;	/* bytes */
} packs[] = {
	{ 1, 4, 0, 0 }, { 1, 16, 0, 0 }, { 1, 32, 0, 0 }, { 1, SEG_BLOCKS, 0, 0 },
	{ 3, 16, 0, 0 }, { 3, 32, 0, 0 }, { -1, 16, 0, 0 }, { 9, 16, 0, 0 },
};

static size_t pack_group(int level, const uint8_t *data, size_t len)
{
	static ZSTD_CCtx *ctx;
	static uint8_t to[SEGMENT];
	size_t r;

	if (!len)
		return 0;
	if (!ctx)
		ctx = ZSTD_createCCtx();
	if (!ctx)
		err(1, "out of memory");
	r = ZSTD_compressCCtx(ctx, to, len - len / 8, data, len, level);
	return ZSTD_isError(r) ? len : r;
}

/* Pack what is @present of @data. */
static size_t pack(const struct pack *p, const uint8_t *data, const bool *present)
{
	static uint8_t group[SEGMENT];
	size_t i, len = 0, all = 0, bytes = PACK_HEAD;

	for (i = 0; i < SEG_BLOCKS; i++) {
		if (present[i]) {
			memcpy(group + len, data + i * BLOCK, BLOCK);
			len += BLOCK;
		}
		if ((i + 1) % p->group)
			continue;
		bytes += pack_group(p->level, group, len);
		all += len;
		len = 0;
	}
	bytes = (bytes + BLOCK - 1) / BLOCK * BLOCK;
	return bytes < all - all / 8 ? bytes : all;
}

static void pack_newest(const uint8_t *data, const bool *present)
{
	size_t i;

	for (i = 0; i < sizeof(packs) / sizeof(*packs); i++)
		packs[i].newest += pack(&packs[i], data, present);
}

static void pack_old(const uint8_t *data, size_t nr)
{
	bool present[SEG_BLOCKS] = {0};
	size_t i;

	memset(present, 1, nr);
	for (i = 0; i < sizeof(packs) / sizeof(*packs); i++)
		packs[i].old += pack(&packs[i], data, present);
}

static void gather_old(const uint8_t *data, const bool *present)
{
	static uint8_t old[SEGMENT];
	static size_t nr;
	size_t i;

	/* The end. */
	if (!data) {
		pack_old(old, nr);
		return;
	}
	for (i = 0; i < SEG_BLOCKS; i++) {
		if (!present[i])
			continue;
		memcpy(old + nr++ * BLOCK, data + i * BLOCK, BLOCK);
		if (nr < SEG_BLOCKS)
			continue;
		pack_old(old, nr);
		nr = 0;
	}
}

static void pack_all(void)
{
	static uint8_t buf[SEGMENT];
	size_t i, file = SIZE_MAX;
	int fd = -1;

	for (i = 1; i < recipes.nr; i++) {
		const struct recipe *r = recipe(i);

		if (r->file != file) {
			close(fd);
			file = r->file;
			fd = open(files[file], O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				err(1, "cannot open '%s'", files[file]);
		}
		if (!read_segment(fd, files[file], (off_t)r->segment * SEGMENT, buf))
			errx(1, "'%s' has changed", files[file]);
		if (r->latest)
			pack_newest(buf, r->present);
		else
			gather_old(buf, r->present);
	}
	gather_old(NULL, NULL);
	for (i = 0; i < sizeof(packs) / sizeof(*packs); i++)
		printf("pack %d %zu %zu %zu\n", packs[i].level,
		       packs[i].group * BLOCK / 1024, packs[i].newest, packs[i].old);
}

int main(int argc, char **argv)
{
	static const uint8_t zeros[SEGMENT];
	bool with_packs = argc > 1 && !strcmp(argv[1], "--packs");

	argc -= with_packs;
	argv += with_packs;
	if (argc < 2 || argc > 3 || argv[1][0] == '-') {
		fputs("Usage: rule [--packs] ORDERFILE [STAYING]\n", stderr);
		return 2;
	}
	if (argc == 3)
		read_staying(argv[2]);
	setlinebuf(stdout);
	/* So that ZERO is what it says in both tables. */
	take_segment(zeros, 0);
	read_order(argv[1], take_snapshot);
	check_present();
	printf("logical %zu\n", logical);
	printf("nonzero %zu\n", nonzero_blocks * BLOCK);
	printf("distinct %zu\n", (contents.nr - 1) * BLOCK);
	printf("distinct-segments %zu\n", distinct_seg_blocks * BLOCK);
	printf("rule %zu\n", present_blocks * BLOCK);
	printf("closed %zu\n", closed_blocks() * BLOCK);
	if (with_packs)
		pack_all();
	if (fclose(stdout))
		err(1, "cannot write");
	return 0;
}
