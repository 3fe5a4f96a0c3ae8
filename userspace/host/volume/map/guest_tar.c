// SPDX-License-Identifier: GPL-2.0
/* Leave out the first member of a tar: see guest_tar.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "guest_tar.h"

/* Where they are in a block, and how long. */
#define MODE_AT		100
#define SIZE_AT		124
#define SIZE_LEN	12
#define TIME_AT		136
#define SUM_AT		148
#define SUM_LEN		8
#define TYPE_AT		156
#define MAGIC_AT	257
/* What describes a member is not longer. */
#define SIZE_LIMIT	(16 << 20)

static int write_all(struct rd_guest_tar *tar, const u8 *data, size_t len)
{
	while (len) {
		ssize_t nr = write(tar->out, data, len);

		if (nr < 0 && errno == EINTR && !*tar->stop)
			continue;
		if (nr < 0 && (errno == EINTR || errno == EPIPE))
			return -errno;
		if (nr < 0)
			return rd_err(-errno, "cannot write the tar");
		data += nr;
		len -= nr;
	}
	return 0;
}

static int pass(struct rd_guest_tar *tar, const u8 *data, size_t len)
{
	size_t zeros = 0;

	while (zeros < len && !data[len - 1 - zeros])
		zeros++;
	tar->zeros = zeros < len ? zeros : tar->zeros + len;
	tar->passed += len;
	return write_all(tar, data, len);
}

/* Of all bytes, with spaces where it is itself. */
static unsigned int sum_of(const u8 *block)
{
	unsigned int i, sum = SUM_LEN * ' ';

	for (i = 0; i < RD_TAR_BLOCK; i++)
		sum += i < SUM_AT || i >= SUM_AT + SUM_LEN ? block[i] : 0;
	return sum;
}

static u64 number_at(const u8 *block, size_t at, size_t len)
{
	char text[SIZE_LEN + 1] = "";

	memcpy(text, block + at, len);
	return strtoull(text, NULL, 8);
}

static bool is_header(const u8 *block)
{
	return !memcmp(block, "./", 2) && !memcmp(block + MAGIC_AT, "ustar", 5) &&
		number_at(block, SUM_AT, SUM_LEN) == sum_of(block);
}

static int refuse(void)
{
	rd_err(0, "the guest's files do not come as a tar");
	return -EBADMSG;
}

/* A comment about what follows, as 'git archive' makes one. */
static int pass_comment(struct rd_guest_tar *tar)
{
	static const char comment[] = "20 comment=revdedup\n";
	u8 data[2 * RD_TAR_BLOCK] = "pax_global_header";
	char *block = (char *)data;

	/* Mode, user, group, size and time. */
	memcpy(block + MODE_AT, "0000644\0000000000\0000000000", 24);
	snprintf(block + SIZE_AT, SIZE_LEN, "%011zo", sizeof(comment) - 1);
	snprintf(block + TIME_AT, SIZE_LEN, "%011o", 0);
	block[TYPE_AT] = 'g';
	memcpy(block + MAGIC_AT, "ustar\00000", 8);
	snprintf(block + SUM_AT, SUM_LEN, "%06o", sum_of(data));
	block[SUM_AT + SUM_LEN - 1] = ' ';
	memcpy(data + RD_TAR_BLOCK, comment, sizeof(comment));
	return write_all(tar, data, sizeof(data));
}

/* The first block behind the first member. */
static int begin(struct rd_guest_tar *tar)
{
	int r;

	if (!is_header(tar->block))
		return refuse();
	tar->passes = true;
	r = pass_comment(tar);
	return r ? r : pass(tar, tar->block, sizeof(tar->block));
}

/* A block that describes a member, or says that more about it follows. */
static int take_block(struct rd_guest_tar *tar)
{
	char type = tar->block[TYPE_AT];

	tar->len = 0;
	if (tar->is_inside)
		return begin(tar);
	tar->skip = number_at(tar->block, SIZE_AT, SIZE_LEN);
	if (type == '5' && !strcmp((char *)tar->block, "./")) {
		tar->is_inside = true;
		tar->skip = 0;
		return 0;
	}
	if ((type != 'x' && type != 'g') || tar->skip > SIZE_LIMIT)
		return refuse();
	tar->skip = rd_round_up(tar->skip, RD_TAR_BLOCK);
	return 0;
}

int rd_guest_tar_put(struct rd_guest_tar *tar, const u8 *data, size_t len)
{
	int r = 0;

	while (len && !tar->passes && !r) {
		size_t nr = rd_min(len, tar->skip ? tar->skip : RD_TAR_BLOCK - tar->len);

		if (tar->skip) {
			tar->skip -= nr;
		} else {
			memcpy(tar->block + tar->len, data, nr);
			tar->len += nr;
			if (tar->len == RD_TAR_BLOCK)
				r = take_block(tar);
		}
		data += nr;
		len -= nr;
	}
	return r ? r : pass(tar, data, len);
}

int rd_guest_tar_end(const struct rd_guest_tar *tar)
{
	if (!tar->passes)
		return refuse();
	if (tar->zeros >= 2 * RD_TAR_BLOCK && tar->passed % RD_TAR_BLOCK == 0)
		return 0;
	rd_err(0, "the tar of the guest's files has no end");
	return -EBADMSG;
}
