// SPDX-License-Identifier: GPL-2.0
/*
 * Content of volumes that have much in common, which follows from their numbers alone: so what
 * a volume must hold is known without a copy of it. Blocks of 4 KiB, which cannot be compressed.
 *
 * fleet write KIND NUMBER MIB PERCENT DEVICE [PRESENT]
 *	Write volume NUMBER, from 1 on, but for its zeros. With the number PRESENT of the volume
 *	that DEVICE holds, write only what differs.
 * fleet compare KIND NUMBER MIB PERCENT DEVICE
 *	Does the device hold just that, zeros too?
 * fleet count KIND VOLUMES MIB PERCENT
 *	Print how many blocks without zeros the volumes 1 to VOLUMES have together, and how many
 *	different ones.
 *
 * KIND is one of
 *	clone	an image that fills three quarters of the volume, of which PERCENT have drifted:
 *		runs of 1 to 256 blocks, short ones as often as long ones, anywhere, are the
 *		volume's own. Volume 0 is the image
 *	install	the same packages, in another order for each volume and at other offsets, with
 *		runs of the volume's own between them, PERCENT of what it holds. A package is some
 *		files in a row, with a block of metadata here and there. Three of four files are
 *		under 64 KiB, with 15 % of the blocks; in /usr of a Debian these are 19 %
 *	nurand	as many writes of one block as would fill PERCENT of the volume, by the NURand
 *		function of TPC-C and DEDISbench: most go to few places. A quarter of the contents
 *		are one of 256 that all volumes have
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/places.h"
#include "lib/random.h"

#define MIB_BLOCKS	256
#define AT_ONCE		256		/* blocks of a write or a read */
#define LONGEST		256
#define MAX_PACKAGES	65536

/* What a block is of: its content is that of one number. 0: zeros */
enum class { IMAGE = 1, OWN, PACKAGE, COMMON };

struct volume {
	uint64_t nr, filled, own;	/* blocks; of those that are filled, the volume's own */
	uint64_t *ids;
	uint64_t number, next_own, at;
	uint64_t state;			/* of the numbers that it is made by */
};

static uint64_t id_of(enum class class, uint64_t a, uint64_t b)
{
	return places_mix(places_mix(places_mix(class) ^ a) ^ b) | 1;
}

static uint64_t own_id(struct volume *v)
{
	return id_of(OWN, v->number, v->next_own++);
}

/* From @least to twice, four times ... @most: short ones as often as long ones. */
static uint64_t length(uint64_t *state, uint64_t least, unsigned int doublings)
{
	uint64_t len = least << below(state, doublings);

	return len + below(state, len);
}

/* --- clones */

static void make_image(struct volume *v)
{
	uint64_t i;

	/* A gap in each MiB. */
	for (i = 0; i < v->nr; i++)
		if (i % MIB_BLOCKS < MIB_BLOCKS * 3 / 4)
			v->ids[i] = id_of(IMAGE, 0, i);
}

static void make_clone(struct volume *v)
{
	uint64_t first, len, drifted = 0;

	make_image(v);
	while (v->number && drifted < v->own) {
		first = below(&v->state, v->nr);
		len = length(&v->state, 1, 8);
		for (; len-- && first < v->nr && drifted < v->own; first++, drifted++)
			v->ids[first] = own_id(v);
	}
}

/* --- installations */

static void put(struct volume *v, uint64_t id)
{
	if (v->at == v->nr)
		errx(1, "the volume is too small");
	v->ids[v->at++] = id;
}

/* Go on with @len blocks of the volume's own, if it is to have so many. */
static void put_own(struct volume *v, uint64_t len)
{
	while (len-- && v->next_own < v->own)
		put(v, own_id(v));
}

/* The files of a package, or how many blocks they have, for no volume. */
static uint64_t put_package(struct volume *v, uint64_t package)
{
	uint64_t state = id_of(PACKAGE, package, 0), file, len, i, all = 0;
	uint64_t nr_files = 1 + below(&state, 32);

	for (file = 0; file < nr_files; file++) {
		len = below(&state, 4) ? length(&state, 1, 4) : length(&state, 16, 4);
		for (i = 0; v && i < len; i++)
			put(v, id_of(PACKAGE, package, file << 32 | i));
		if (v && !below(&v->state, 4))
			put_own(v, 1);
		all += len;
	}
	return all;
}

static void make_install(struct volume *v)
{
	uint64_t packages[MAX_PACKAGES], nr = 0, shared = 0, i, other, package;

	while (shared < v->filled - v->own && nr < MAX_PACKAGES) {
		packages[nr] = nr;
		shared += put_package(NULL, nr++);
	}
	for (i = 0; i < nr; i++) {
		other = i + below(&v->state, nr - i);
		package = packages[other];
		packages[other] = packages[i];
		/* Blocks that are free. */
		v->at += below(&v->state, 8);
		/* In all this is more than there is to be, so the last packages have none. */
		put_own(v, 2 * v->own / nr + length(&v->state, 1, 6));
		put_package(v, package);
	}
	put_own(v, v->own);
}

/* --- random writes */

static void make_nurand(struct volume *v)
{
	uint64_t constant = places_mix(v->number) % v->nr, nr = v->own, at;

	while (nr--) {
		at = (below(&v->state, v->nr / 10) | below(&v->state, v->nr)) + constant;
		v->ids[at % v->nr] = below(&v->state, 4) ? own_id(v) :
			id_of(COMMON, 0, below(&v->state, 256));
	}
}

/* --- */

static void make(struct volume *v, const char *kind, uint64_t number, uint64_t mib,
		 uint64_t percent)
{
	memset(v, 0, sizeof(*v));
	v->nr = mib * MIB_BLOCKS;
	v->filled = v->nr * 3 / 4;
	v->own = v->filled * percent / 100;
	v->ids = calloc(v->nr, sizeof(*v->ids));
	if (!v->ids || percent > 100 || !v->nr)
		errx(1, "no memory, or no such size or percentage");
	v->number = number;
	v->state = id_of(OWN, number, UINT64_MAX);
	if (!strcmp(kind, "clone")) {
		make_clone(v);
	} else if (!strcmp(kind, "install")) {
		make_install(v);
	} else if (!strcmp(kind, "nurand")) {
		v->own = v->nr * percent / 100;
		make_nurand(v);
	} else {
		errx(1, "no such kind: '%s'", kind);
	}
}

static void fill(uint8_t *block, uint64_t id)
{
	uint64_t words[BLOCK / sizeof(uint64_t)], i;

	for (i = 0; i < BLOCK / sizeof(uint64_t); i++) {
		/* xorshift64 */
		id ^= id << 13;
		id ^= id >> 7;
		id ^= id << 17;
		words[i] = id;
	}
	memcpy(block, words, BLOCK);
}

/* --- devices */

static uint8_t *buffer(void)
{
	uint8_t *buf = aligned_alloc(BLOCK, AT_ONCE * BLOCK);

	if (!buf)
		err(1, "no memory");
	return buf;
}

/* Write what is neither zeros nor the same in @present. */
static void write_volume(const struct volume *v, const struct volume *present, int fd)
{
	uint8_t *buf = buffer();
	uint64_t i, nr;

	for (i = 0; i < v->nr; i += nr) {
		for (nr = 0; nr < AT_ONCE && i + nr < v->nr; nr++) {
			uint64_t id = v->ids[i + nr];

			if (!id || id == present->ids[i + nr])
				break;
			fill(buf + nr * BLOCK, id);
		}
		if (nr && pwrite(fd, buf, nr * BLOCK, i * BLOCK) != (ssize_t)(nr * BLOCK))
			err(1, "cannot write block %" PRIu64, i);
		nr += nr < AT_ONCE;
	}
	free(buf);
	if (fsync(fd))
		err(1, "cannot flush");
}

static void compare_volume(const struct volume *v, int fd)
{
	static const uint8_t zeros[BLOCK];
	uint8_t *buf = buffer(), block[BLOCK];
	uint64_t i, k, nr;

	for (i = 0; i < v->nr; i += nr) {
		nr = v->nr - i < AT_ONCE ? v->nr - i : AT_ONCE;
		if (pread(fd, buf, nr * BLOCK, i * BLOCK) != (ssize_t)(nr * BLOCK))
			err(1, "cannot read at block %" PRIu64, i);
		for (k = 0; k < nr; k++) {
			if (v->ids[i + k])
				fill(block, v->ids[i + k]);
			if (memcmp(buf + k * BLOCK, v->ids[i + k] ? block : zeros, BLOCK))
				errx(1, "block %" PRIu64 " is wrong", i + k);
		}
	}
	free(buf);
}

/* --- counting */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void count(const char *kind, uint64_t volumes, uint64_t mib, uint64_t percent)
{
	uint64_t *all = calloc(volumes * mib * MIB_BLOCKS, sizeof(*all));
	uint64_t number, i, nr = 0, different = 0;
	struct volume v;

	if (!all)
		err(1, "no memory");
	for (number = 1; number <= volumes; number++) {
		make(&v, kind, number, mib, percent);
		for (i = 0; i < v.nr; i++)
			if (v.ids[i])
				all[nr++] = v.ids[i];
		free(v.ids);
	}
	qsort(all, nr, sizeof(*all), compare_ids);
	for (i = 0; i < nr; i++)
		different += !i || all[i] != all[i - 1];
	free(all);
	printf("%" PRIu64 " %" PRIu64 "\n", nr, different);
}

static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, 10);
}

static void on_device(bool writes, char **argv, const char *present_number)
{
	uint64_t mib = number_of(argv[2]), percent = number_of(argv[3]);
	struct volume v, present = { 0 };
	int fd;

	make(&v, argv[0], number_of(argv[1]), mib, percent);
	if (present_number)
		make(&present, argv[0], number_of(present_number), mib, percent);
	else
		present.ids = calloc(v.nr, sizeof(*present.ids));
	fd = open(argv[4], (writes ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (fd < 0 || !present.ids)
		err(1, "cannot open '%s'", argv[4]);
	if (writes)
		write_volume(&v, &present, fd);
	else
		compare_volume(&v, fd);
	close(fd);
	free(present.ids);
	free(v.ids);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (!strcmp(verb, "count") && argc == 6)
		count(argv[2], number_of(argv[3]), number_of(argv[4]), number_of(argv[5]));
	else if (!strcmp(verb, "compare") && argc == 7)
		on_device(false, argv + 2, NULL);
	else if (!strcmp(verb, "write") && (argc == 7 || argc == 8))
		on_device(true, argv + 2, argv[7]);
	else
		errx(2, "see the comment in fleet.c");
	return 0;
}
