// SPDX-License-Identifier: GPL-2.0
/*
 * What "VM-Centric Snapshot Deduplication for Converged Cloud Architectures" (Zhang et al., 2014)
 * would store of a series of disk images, by a program that shares nothing with the engine.
 *
 *	vmcentric [--similar N] ORDERFILE	(tests/pool/images.h says what that is)
 *
 * Of each block that is not all zeros it asks, in this order:
 *
 *	clean		is its segment the same in the parent, the version before of the same VM?
 *	offset		does the parent's segment at the same offset have it?
 *	similar		does one of up to N (10) other segments of the parent have it, of those
 *			with the same signature, the least fingerprint in a segment?
 *	itself		does its own segment have it further up?
 *
 * and otherwise the VM's store gets a copy. Popular content, the PDS, is in a store of its own
 * once: these are the given share of all contents, those of which the VMs' stores have most
 * copies.
 *
 * It is as good as that scheme can get, which makes it a hard peer: the bits that say what was
 * written never lie; the PDS is known before the first version, and chosen from all that the
 * series ever stores; a lookup in it never misses; and "itself" is a gift. Left out is what the
 * paper does for bytes only: variable chunks, compression.
 *
 * It prints
 *
 *	nonzero BYTES, distinct BYTES	as tests/pool/rule.c does
 *	clean BYTES, offset BYTES, similar BYTES, itself BYTES
 *					what each step finds
 *	pds PERCENT FOUND STORED EFFICIENCY
 *					with so many percent of all contents in the PDS: the bytes
 *					that it finds, the bytes that are stored in the end, and
 *					the share of all duplicate blocks that is not stored, in
 *					percent
 */
#define _GNU_SOURCE
#include "../pool/images.h"

static const unsigned int pds_percents[] = { 0, 2, 4, 25, 100 };

enum found { BY_OFFSET, BY_SIMILAR, BY_ITSELF, NR_FOUND };

struct content {
	uint8_t fp[BLOCK_FP];
	uint32_t copies;	/* in the stores of VMs */
	uint32_t known_in;	/* the last dirty segment that can refer to it, */
	enum found known_by;	/* and by what */
};

struct segment {
	uint32_t signature;
	uint32_t blocks[SEG_BLOCKS];
};

struct volume {
	struct volume *next;
	const char *name;
	struct segment *segments;	/* of the newest version */
	size_t nr_segs;
};

static struct table contents = { sizeof(struct content), BLOCK_FP, 0, 0, NULL, NULL };
static struct volume *volumes;
static size_t max_similar = 10;
static uint32_t nr_dirty;
static size_t nonzero, clean, found[NR_FOUND];

static struct content *content(uint32_t nr)
{
	return (struct content *)contents.items + nr;
}

static void read_blocks(const uint8_t *data, struct segment *seg)
{
	uint8_t fp[BLOCK_FP];
	bool is_new;
	size_t i;

	seg->signature = ZERO;
	for (i = 0; i < SEG_BLOCKS; i++) {
		uint32_t nr;

		block_fp(data + i * BLOCK, fp);
		nr = table_get(&contents, fp, &is_new);
		seg->blocks[i] = nr;
		/* With those of zeros, nearly all segments would have the same signature. */
		if (nr == ZERO)
			continue;
		nonzero++;
		if (seg->signature == ZERO ||
		    memcmp(fp, content(seg->signature)->fp, BLOCK_FP) < 0)
			seg->signature = nr;
	}
}

/* The segment that is looked at can refer to what @parent has. */
static void know(const struct segment *parent, enum found by)
{
	size_t i;

	for (i = 0; i < SEG_BLOCKS; i++) {
		struct content *c = content(parent->blocks[i]);

		if (c->known_in == nr_dirty)
			continue;
		c->known_in = nr_dirty;
		c->known_by = by;
	}
}

static void know_parent(const struct volume *v, size_t nr, const struct segment *seg)
{
	size_t i, similar = 0;

	know(&v->segments[nr], BY_OFFSET);
	for (i = 0; i < v->nr_segs && similar < max_similar; i++) {
		if (i == nr || v->segments[i].signature != seg->signature)
			continue;
		know(&v->segments[i], BY_SIMILAR);
		similar++;
	}
}

static void store_dirty(const struct volume *v, size_t nr, const struct segment *seg)
{
	size_t i;

	nr_dirty++;
	know_parent(v, nr, seg);
	for (i = 0; i < SEG_BLOCKS; i++) {
		struct content *c = content(seg->blocks[i]);

		if (seg->blocks[i] == ZERO)
			continue;
		if (c->known_in == nr_dirty) {
			found[c->known_by]++;
			continue;
		}
		c->copies++;
		c->known_in = nr_dirty;
		c->known_by = BY_ITSELF;
	}
}

static void store(const struct volume *v, size_t nr, const struct segment *seg)
{
	size_t i;

	/* Zeros are no content: there is nothing to refer to, and nothing to store. */
	if (seg->signature == ZERO)
		return;
	if (memcmp(&v->segments[nr], seg, sizeof(*seg))) {
		store_dirty(v, nr, seg);
		return;
	}
	for (i = 0; i < SEG_BLOCKS; i++)
		clean += seg->blocks[i] != ZERO;
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

/* A volume that was shorter has zeros there. */
static void lengthen(struct volume *v, size_t nr_segs)
{
	if (nr_segs <= v->nr_segs)
		return;
	v->segments = resize(v->segments, nr_segs, sizeof(*v->segments));
	memset(v->segments + v->nr_segs, 0, (nr_segs - v->nr_segs) * sizeof(*v->segments));
	v->nr_segs = nr_segs;
}

static void take_snapshot(const char *name, const char *file)
{
	static uint8_t buf[SEGMENT];
	struct volume *v = find_volume(name);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct segment *new;
	struct stat st;
	size_t i;

	if (fd < 0 || fstat(fd, &st))
		err(1, "cannot open '%s'", file);
	lengthen(v, (st.st_size + SEGMENT - 1) / SEGMENT);
	new = resize(NULL, v->nr_segs, sizeof(*new));
	memset(new, 0, v->nr_segs * sizeof(*new));
	for (i = 0; i < v->nr_segs; i++) {
		if (!read_segment(fd, file, i * SEGMENT, buf))
			continue;
		read_blocks(buf, &new[i]);
		store(v, i, &new[i]);
	}
	close(fd);
	free(v->segments);
	v->segments = new;
}

/* Most copies first. */
static int compare_copies(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

/* Each block was found, or stored, and what is stored lacks no content. */
static void check(size_t copies)
{
	size_t i, all = clean + copies;

	for (i = 0; i < NR_FOUND; i++)
		all += found[i];
	if (all != nonzero)
		errx(1, "%zu blocks were found or stored, not %zu", all, nonzero);
	for (i = 1; i < contents.nr; i++)
		if (!content(i)->copies)
			errx(1, "content was lost");
}

static void print_pds(void)
{
	size_t nr = contents.nr - 1, copies = 0, i, j;
	uint32_t *by_copies = resize(NULL, nr, sizeof(*by_copies));

	for (i = 0; i < nr; i++) {
		by_copies[i] = content(i + 1)->copies;
		copies += by_copies[i];
	}
	check(copies);
	qsort(by_copies, nr, sizeof(*by_copies), compare_copies);
	for (i = 0; i < sizeof(pds_percents) / sizeof(*pds_percents); i++) {
		size_t by_pds = 0, popular = nr * pds_percents[i] / 100;

		for (j = 0; j < popular; j++)
			by_pds += by_copies[j] - 1;
		printf("pds %u %zu %zu %.2f\n", pds_percents[i], by_pds * BLOCK,
		       (copies - by_pds) * BLOCK,
		       nonzero == nr ? 100. : 100. * (nonzero - copies + by_pds) / (nonzero - nr));
	}
	free(by_copies);
}

int main(int argc, char **argv)
{
	static const uint8_t zeros[SEGMENT];
	struct segment none;
	char junk;

	if (argc == 4 && !strcmp(argv[1], "--similar") &&
	    sscanf(argv[2], "%zu%c", &max_similar, &junk) == 1) {
		argc -= 2;
		argv += 2;
	}
	if (argc != 2 || argv[1][0] == '-') {
		fputs("Usage: vmcentric [--similar N] ORDERFILE\n", stderr);
		return 2;
	}
	/* So that ZERO is what it says. */
	read_blocks(zeros, &none);
	read_order(argv[1], take_snapshot);
	printf("nonzero %zu\n", nonzero * BLOCK);
	printf("distinct %zu\n", (contents.nr - 1) * BLOCK);
	printf("clean %zu\n", clean * BLOCK);
	printf("offset %zu\n", found[BY_OFFSET] * BLOCK);
	printf("similar %zu\n", found[BY_SIMILAR] * BLOCK);
	printf("itself %zu\n", found[BY_ITSELF] * BLOCK);
	print_pds();
	if (fclose(stdout))
		err(1, "cannot write");
	return 0;
}
