// SPDX-License-Identifier: GPL-2.0
/*
 * metaedit DEVICE a|b FIELD=VALUE...: change a copy of the superblock of a
 * metadata device and make its checksum right again, so that tests can show the
 * target what no version of ours ever wrote: a future one, for example.
 *
 * metaedit DEVICE a|b damage: one bit of it changes, the checksum does not.
 * metaedit DEVICE word SEGMENT, metaedit DEVICE entry BLOCK: the same of an entry of
 * the remap table.
 *
 * Numbers are as strtoull() has them. Fields: version compat compat_ro incompat
 * flags seq volume_sectors meta_blocks epoch committed version_nr lost_epoch.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/fs.h>

#include <linux/crc32c.h>

#include "kernel/format.h"

static const struct field {
	const char *name;
	size_t offset;
	size_t size;
} fields[] = {
	{ "version", offsetof(struct dmr_super_disk, version), 4 },
	{ "compat", offsetof(struct dmr_super_disk, compat), 4 },
	{ "compat_ro", offsetof(struct dmr_super_disk, compat_ro), 4 },
	{ "incompat", offsetof(struct dmr_super_disk, incompat), 4 },
	{ "flags", offsetof(struct dmr_super_disk, flags), 4 },
	{ "seq", offsetof(struct dmr_super_disk, seq), 8 },
	{ "volume_sectors", offsetof(struct dmr_super_disk, volume_sectors), 8 },
	{ "meta_blocks", offsetof(struct dmr_super_disk, meta_blocks), 8 },
	{ "epoch", offsetof(struct dmr_super_disk, epoch), 8 },
	{ "committed", offsetof(struct dmr_super_disk, committed), 8 },
	{ "version_nr", offsetof(struct dmr_super_disk, version_nr), 8 },
	{ "lost_epoch", offsetof(struct dmr_super_disk, lost_epoch), 8 },
};

static const struct field *find_field(const char *assignment)
{
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t len = strlen(fields[i].name);

		if (!strncmp(assignment, fields[i].name, len) &&
		    assignment[len] == '=')
			return &fields[i];
	}
	errx(2, "no such field: '%s'", assignment);
}

static void set_field(struct dmr_super_disk *super, const char *assignment)
{
	const struct field *field = find_field(assignment);
	const char *text = strchr(assignment, '=') + 1;
	unsigned long long value;
	char *end;

	value = strtoull(text, &end, 0);
	if (end == text || *end)
		errx(2, "no number: '%s'", assignment);
	value = htole64(value);
	memcpy((char *)super + field->offset, &value, field->size);
}

static void fix_checksum(struct dmr_super_disk *super, uint64_t block)
{
	uint64_t nr = htole64(block);
	uint32_t sum = crc32c(~0U, &nr, sizeof(nr));

	sum = crc32c(sum, &super->version, sizeof(*super) - sizeof(super->csum));
	super->csum = htole32(sum);
}

static int damage_entry(int fd, const char *what, uint64_t index)
{
	uint64_t *block = aligned_alloc(DMR_BLOCK_SIZE, DMR_BLOCK_SIZE);
	bool word = !strcmp(what, "word");
	off_t at = (word ? dmr_word_block(index) : dmr_page_block(index / DMR_SEG_BLOCKS)) *
		   DMR_BLOCK_SIZE;

	if (word)
		index %= DMR_GROUP_SEGS;
	if (pread(fd, block, DMR_BLOCK_SIZE, at) != DMR_BLOCK_SIZE)
		err(1, "read");
	block[index % DMR_SEG_BLOCKS] ^= 4;
	if (pwrite(fd, block, DMR_BLOCK_SIZE, at) != DMR_BLOCK_SIZE || fsync(fd))
		err(1, "write");
	return 0;
}

int main(int argc, char **argv)
{
	union {
		struct dmr_super_disk super;
		char block[DMR_BLOCK_SIZE];
	} *buf = aligned_alloc(DMR_BLOCK_SIZE, DMR_BLOCK_SIZE);
	uint64_t block = 0, bytes;
	int fd, i;

	if (argc < 4 || (strcmp(argv[2], "a") && strcmp(argv[2], "b") &&
			 strcmp(argv[2], "word") && strcmp(argv[2], "entry")))
		errx(2, "usage: metaedit DEVICE a|b damage|FIELD=VALUE...");
	fd = open(argv[1], O_RDWR | O_DIRECT);
	if (fd < 0)
		err(1, "%s", argv[1]);
	if (strlen(argv[2]) > 1)
		return damage_entry(fd, argv[2], strtoull(argv[3], NULL, 0));
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		err(1, "%s: size", argv[1]);
	if (*argv[2] == 'b')
		block = bytes / DMR_BLOCK_SIZE - 1;
	if (pread(fd, buf, sizeof(*buf), block * DMR_BLOCK_SIZE) != sizeof(*buf))
		err(1, "%s: read", argv[1]);
	if (memcmp(buf->super.magic, DMR_MAGIC, sizeof(buf->super.magic)))
		errx(1, "%s: no superblock in block %llu", argv[1],
		     (unsigned long long)block);

	if (!strcmp(argv[3], "damage")) {
		buf->super.reserved[0] ^= 1;
	} else {
		for (i = 3; i < argc; i++)
			set_field(&buf->super, argv[i]);
		fix_checksum(&buf->super, block);
	}
	if (pwrite(fd, buf, sizeof(*buf), block * DMR_BLOCK_SIZE) != sizeof(*buf) ||
	    fsync(fd))
		err(1, "%s: write", argv[1]);
	return 0;
}
