/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A series of disk images, for programs that share nothing with the engine: which images there
 * are, what their segments hold, and each content by a number.
 *
 * Each line of an order file, "VOLUME FILE", is a snapshot of VOLUME, in the order in which they
 * were taken; FILE is relative to the directory of the order file.
 */
#ifndef IMAGES_H
#define IMAGES_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#define BLOCK		4096
#define SEG_BLOCKS	512
#define SEGMENT		((size_t)BLOCK * SEG_BLOCKS)
#define BLOCK_FP	16
#define SEG_FP		32

/* What is all zeros is the first item of each table, and never counted. */
#define ZERO		0

/* Items that begin with their key, found by it, and numbered as they come. */
struct table {
	const size_t item_size, key_size;
	size_t nr, nr_slots;	/* slots: a power of two, at least twice nr */
	uint8_t *items;
	uint32_t *slots;	/* number + 1, or 0 */
};

static void *resize(void *p, size_t nr, size_t size)
{
	p = reallocarray(p, nr + !nr, size);
	if (!p)
		err(1, "out of memory");
	return p;
}

/* Keys are hashes already. */
static uint32_t *find_slot(const struct table *t, const void *key)
{
	uint64_t i;

	memcpy(&i, key, sizeof(i));
	for (;; i++) {
		uint32_t *slot = &t->slots[i & (t->nr_slots - 1)];

		if (!*slot || !memcmp(t->items + (*slot - 1) * t->item_size,
				      key, t->key_size))
			return slot;
	}
}

static void table_grow(struct table *t)
{
	size_t i;

	t->nr_slots = t->nr_slots ? t->nr_slots * 2 : 1024;
	t->slots = resize(t->slots, t->nr_slots, sizeof(*t->slots));
	memset(t->slots, 0, t->nr_slots * sizeof(*t->slots));
	t->items = resize(t->items, t->nr_slots / 2, t->item_size);
	for (i = 0; i < t->nr; i++)
		*find_slot(t, t->items + i * t->item_size) = i + 1;
}

/* The number of the item with this key; a new one has zeros for all else. */
static uint32_t table_get(struct table *t, const void *key, bool *is_new)
{
	uint32_t *slot;

	if (t->nr >= t->nr_slots / 2)
		table_grow(t);
	slot = find_slot(t, key);
	*is_new = !*slot;
	if (*is_new) {
		memset(t->items + t->nr * t->item_size, 0, t->item_size);
		memcpy(t->items + t->nr * t->item_size, key, t->key_size);
		*slot = ++t->nr;
	}
	return *slot - 1;
}

static void sha256(const void *data, size_t len, uint8_t *digest)
{
	static EVP_MD_CTX *ctx;

	if (!ctx)
		ctx = EVP_MD_CTX_new();
	if (!ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) ||
	    !EVP_DigestUpdate(ctx, data, len) ||
	    !EVP_DigestFinal_ex(ctx, digest, NULL))
		errx(1, "cannot compute SHA-256");
}

/* A block of zeros has zeros for a fingerprint. */
static void block_fp(const uint8_t *data, uint8_t *ret_fp)
{
	static const uint8_t zeros[BLOCK];
	uint8_t digest[SEG_FP] = {0};

	if (memcmp(data, zeros, BLOCK))
		sha256(data, BLOCK, digest);
	memcpy(ret_fp, digest, BLOCK_FP);
}

/* False where the whole segment is a hole. */
static bool read_segment(int fd, const char *file, off_t offset, uint8_t *buf)
{
	off_t data = lseek(fd, offset, SEEK_DATA);
	size_t done;
	ssize_t r;

	if (data < 0 && errno != ENXIO)
		err(1, "cannot seek in '%s'", file);
	if (data < 0 || data >= offset + (off_t)SEGMENT)
		return false;
	memset(buf, 0, SEGMENT);
	for (done = 0; done < SEGMENT; done += r) {
		r = pread(fd, buf + done, SEGMENT - done, offset + done);
		if (r < 0)
			err(1, "cannot read '%s'", file);
		if (!r)
			break;
	}
	return true;
}

/* Call @take for each snapshot, in the directory of the images. */
static void read_order(char *order, void (*take)(const char *volume, const char *file))
{
	FILE *f = fopen(order, "re");
	size_t size = 0, nr = 0;
	char *line = NULL;

	if (!f)
		err(1, "cannot open '%s'", order);
	if (chdir(dirname(order)))
		err(1, "cannot enter '%s'", order);
	while (getline(&line, &size, f) > 0) {
		char *file;

		nr++;
		line[strcspn(line, "\n")] = '\0';
		file = strchr(line, ' ');
		if (!file || file == line || !file[1])
			errx(1, "line %zu: '%s' is not VOLUME FILE", nr, line);
		*file++ = '\0';
		take(line, file);
	}
	if (ferror(f))
		err(1, "cannot read the order of snapshots");
	free(line);
	fclose(f);
}

#endif
