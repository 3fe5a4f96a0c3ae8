// SPDX-License-Identifier: GPL-2.0
/*
 * Conventional deduplication, to compare with: units of 128 KiB, as in the paper on RevDedup,
 * each stored once, where the log ends when it first comes. Nothing is moved or freed.
 *
 *	forward add LOG INDEX IMAGE VERSION	take a version; print "BYTES-OF-LOG"
 *	forward read LOG VERSION TO		restore it
 *
 * LOG is a file or a device. INDEX has the SHA-256 of each unit of the log, in its order.
 * VERSION has where in the log each unit of the image is, as u64: its number, or HOLE. Units
 * that follow each other in the log are read together, up to 2 MiB, past the page cache.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT	(128 << 10)
#define HOLE	UINT64_MAX
#define READ	16			/* units */
#define NAME	32			/* bytes of a SHA-256 */
#define SLOTS	(1 << 22)

static uint8_t *names;			/* NAME bytes for each unit of the log */
static uint64_t nr_units;
static uint32_t *slots;			/* a hash table of 1 + units */
static uint8_t *data;

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags, 0600);

	if (fd < 0)
		err(1, "cannot open '%s'", path);
	return fd;
}

/* Where in the table is the unit of this name, or would be? */
static uint32_t *find(const uint8_t *name)
{
	uint64_t slot;

	memcpy(&slot, name, sizeof(slot));
	for (;; slot++) {
		uint32_t *found = &slots[slot % SLOTS];

		if (!*found || !memcmp(names + (*found - 1ULL) * NAME, name, NAME))
			return found;
	}
}

static void learn(const uint8_t *name)
{
	if (nr_units >= SLOTS / 2)
		errx(1, "the log has too many units");
	memcpy(names + nr_units * NAME, name, NAME);
	*find(name) = ++nr_units;
}

static void load_index(int fd)
{
	uint8_t name[NAME];
	ssize_t len;

	names = malloc((size_t)SLOTS / 2 * NAME);
	slots = calloc(SLOTS, sizeof(*slots));
	if (!names || !slots)
		err(1, "no memory");
	while ((len = read(fd, name, NAME)) == NAME)
		learn(name);
	if (len)
		errx(1, "the index ends within a name");
}

static uint64_t add_unit(int log, int index, size_t len)
{
	uint8_t name[NAME];
	uint32_t *found;

	if (!data[0] && !memcmp(data, data + 1, len - 1))
		return HOLE;
	memset(data + len, 0, UNIT - len);
	if (!EVP_Digest(data, UNIT, name, NULL, EVP_sha256(), NULL))
		errx(1, "cannot hash");
	found = find(name);
	if (*found)
		return *found - 1;
	if (pwrite(log, data, UNIT, nr_units * UNIT) != UNIT || write(index, name, NAME) != NAME)
		err(1, "cannot write");
	learn(name);
	return nr_units - 1;
}

static void add(char **args)
{
	int log = open_file(args[0], O_RDWR | O_CREAT);
	int index = open_file(args[1], O_RDWR | O_CREAT | O_APPEND);
	int image = open_file(args[2], O_RDONLY);
	FILE *version = fopen(args[3], "w");
	ssize_t len;

	if (!version)
		err(1, "cannot write '%s'", args[3]);
	load_index(index);
	while ((len = read(image, data, UNIT)) > 0) {
		uint64_t place = add_unit(log, index, len);

		fwrite(&place, sizeof(place), 1, version);
	}
	if (len < 0 || fclose(version) || fsync(log))
		err(1, "cannot take '%s'", args[2]);
	printf("%llu\n", (unsigned long long)nr_units * UNIT);
}

static void restore(char **args)
{
	int log = open_file(args[0], O_RDONLY | O_DIRECT);
	int version = open_file(args[1], O_RDONLY);
	int to = open_file(args[2], O_WRONLY | O_CREAT | O_TRUNC);
	uint64_t *places, nr, i, n;
	struct stat st;

	if (fstat(version, &st))
		err(1, "cannot read '%s'", args[1]);
	nr = st.st_size / sizeof(*places);
	places = malloc(st.st_size + 1);
	if (!places || read(version, places, st.st_size) != st.st_size)
		err(1, "cannot read '%s'", args[1]);
	for (i = 0; i < nr; i += n) {
		for (n = 1; places[i] != HOLE && n < READ && i + n < nr; n++)
			if (places[i + n] != places[i] + n)
				break;
		if (places[i] == HOLE)
			continue;
		if (pread(log, data, n * UNIT, places[i] * UNIT) != (ssize_t)(n * UNIT) ||
		    pwrite(to, data, n * UNIT, i * UNIT) != (ssize_t)(n * UNIT))
			err(1, "cannot restore '%s'", args[1]);
	}
	if (ftruncate(to, nr * UNIT) || fsync(to))
		err(1, "cannot write '%s'", args[2]);
	free(places);
}

int main(int argc, char **argv)
{
	/* In a huge page a read of it is as few requests as the device can take. */
	if (posix_memalign((void **)&data, READ * UNIT, READ * UNIT) ||
	    madvise(data, READ * UNIT, MADV_HUGEPAGE))
		err(1, "no memory");
	if (argc == 6 && !strcmp(argv[1], "add"))
		add(argv + 2);
	else if (argc == 5 && !strcmp(argv[1], "read"))
		restore(argv + 2);
	else
		errx(2, "see the head of forward.c");
	free(slots);
	free(names);
	free(data);
	return 0;
}
