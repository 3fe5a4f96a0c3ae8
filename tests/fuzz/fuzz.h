/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the targets share. A target is one parser: it is given bytes, and what it
 * makes of them must hold what must() says.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define must(what)							\
	do {								\
		if (!(what)) {						\
			fprintf(stderr, "%s:%d: not so: %s\n",		\
				__FILE__, __LINE__, #what);		\
			abort();					\
		}							\
	} while (0)

/* An example to begin with, made by the code that writes what is parsed here. */
void fuzz_seed(const void *data, size_t len);
void fuzz_seed_texts(const char *const *texts, unsigned int nr);

/* The next bytes of the input, zeros behind its end. */
struct fuzz_input {
	const u8 *at;
	size_t len;
};

static inline u64 fuzz_take(struct fuzz_input *input, unsigned int bytes)
{
	u64 value = 0;

	for (; bytes && input->len; bytes--, input->len--)
		value = value << 8 | *input->at++;
	return value;
}

/* A string of its own, so that a read beyond its end is seen. */
static inline char *fuzz_text(const u8 *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* A file in memory. */
int fuzz_file(size_t size);

#endif
