// SPDX-License-Identifier: GPL-2.0
/*
 * Make metadata images, good ones and evil ones, for tests of programs.
 *
 *   mkmeta make FILE [FIELD=VALUE]... [dirty=FIRST,LEN]... [frozen=FIRST,LEN]...
 *          [word=SEG,KIND,BLOCK]... [entry=VOLUMEBLOCK,KIND,BLOCK]...
 *       A device with these fields in both superblocks, and these segments
 *       dirty. Fields: those of struct dmr_super, numbers decimal or 0x...; the
 *       uuids are one byte, repeated. KIND: page, base, zero, pool.
 *   mkmeta super FILE BLOCK [FIELD=VALUE]...
 *       Write one superblock anew with a good checksum: that of the first block
 *       with these changes; format_version and incompat can be changed, too.
 *   mkmeta flip FILE BYTE BIT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/crc32c.h>
#include <linux/kernel.h>

#include "meta_image.h"

static void die(const char *what, const char *arg)
{
	fprintf(stderr, "mkmeta: %s '%s'\n", what, arg);
	exit(2);
}

static u64 parse(const char *text)
{
	char *end;
	u64 value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || end == text)
		die("not a number", text);
	return value;
}

struct field {
	const char *name;
	size_t offset;
	size_t size;		/* DMR_UUID_SIZE: a uuid */
};

#define FIELD(name)							\
	{ #name, offsetof(struct dmr_super, name),			\
	  sizeof(((struct dmr_super *)NULL)->name) }

static const struct field fields[] = {
	FIELD(meta_uuid), FIELD(volume_uuid), FIELD(pool_uuid), FIELD(compat),
	FIELD(compat_ro), FIELD(flags), FIELD(seq), FIELD(volume_sectors),
	FIELD(meta_blocks), FIELD(epoch), FIELD(committed), FIELD(version_nr),
	FIELD(lost_epoch), FIELD(hydrate_mib),
};

/* False where @arg names no field. */
static bool set_field(struct dmr_super *super, const char *arg)
{
	size_t i, len = strcspn(arg, "=");

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *field = &fields[i];
		char *p = (char *)super + field->offset;
		u32 small;
		u64 value;

		if (strlen(field->name) != len || strncmp(field->name, arg, len))
			continue;
		value = parse(arg + len + 1);
		small = value;
		if (field->size == DMR_UUID_SIZE)
			memset(p, (int)value, DMR_UUID_SIZE);
		else
			memcpy(p, field->size == 4 ? (void *)&small :
			       (void *)&value, field->size);
		return true;
	}
	return false;
}

static const char *value_of(const char *arg, const char *name)
{
	size_t len = strlen(name);

	return strncmp(arg, name, len) || arg[len] != '=' ? NULL : arg + len + 1;
}

static bool set_u32(u32 *to, const char *arg, const char *name)
{
	const char *value = value_of(arg, name);

	if (value)
		*to = parse(value);
	return value;
}

static bool mark(struct image *image, const char *ranges, u64 epoch)
{
	const struct dmr_range_rules rules = { .limit = DMR_MAX_SEGS };
	struct dmr_range range;

	if (!ranges)
		return false;
	if (dmr_ranges_check(ranges, &rules))
		die("not ranges:", ranges);
	while (dmr_range_next(&ranges, &rules, &range) > 0)
		image_mark(image, epoch, range.first, range.len);
	return true;
}

static bool put_entry(struct image *image, const char *text,
		      void (*put)(struct image *image, u64 index,
				  struct dmr_entry entry))
{
	static const char *const kinds[] = { "page", "base", "zero", "pool" };
	char index[32], kind[8], block[32];
	struct dmr_entry entry;
	unsigned int i;

	if (!text)
		return false;
	if (sscanf(text, "%31[^,],%7[^,],%31s", index, kind, block) != 3)
		die("not INDEX,KIND,BLOCK:", text);
	for (i = 0; i < 4 && strcmp(kind, kinds[i]); i++)
		;
	if (i == 4)
		die("no such kind", kind);
	entry.kind = i;
	entry.block = parse(block);
	put(image, parse(index), entry);
	return true;
}

static void write_at(const char *path, int flags, const void *data, size_t len,
		     off_t offset)
{
	int fd = open(path, O_WRONLY | flags, 0666);

	if (fd < 0 || pwrite(fd, data, len, offset) != (ssize_t)len || close(fd))
		die("cannot write", path);
}

static void read_at(const char *path, void *data, size_t len, off_t offset)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0 || pread(fd, data, len, offset) != (ssize_t)len)
		die("cannot read", path);
	close(fd);
}

static void make(const char *path, char **args)
{
	struct dmr_super super;
	struct image image;
	char **arg;

	image_default_super(&super);
	for (arg = args; *arg; arg++)
		set_field(&super, *arg);
	image_init(&image, &super);
	for (arg = args; *arg; arg++) {
		if (!set_field(&super, *arg) &&
		    !mark(&image, value_of(*arg, "dirty"), super.epoch) &&
		    !mark(&image, value_of(*arg, "frozen"), super.epoch - 1) &&
		    !put_entry(&image, value_of(*arg, "word"), image_put_word) &&
		    !put_entry(&image, value_of(*arg, "entry"), image_put_entry))
			die("what is", *arg);
	}
	write_at(path, O_CREAT | O_TRUNC, image.blocks,
		 image.nr_blocks << DMR_BLOCK_SHIFT, 0);
	image_free(&image);
}

/* What dmr_super_pack() does not do: fields that no good superblock has. */
static void seal(struct dmr_super_disk *disk, u64 block)
{
	__le64 nr = cpu_to_le64(block);

	disk->csum = cpu_to_le32(crc32c(crc32c(~0U, &nr, sizeof(nr)),
					(u8 *)disk + 4, sizeof(*disk) - 4));
}

static void put_super(const char *path, u64 block, char **args)
{
	struct dmr_super_disk disk;
	struct dmr_super super;
	const char *why;
	u32 version = DMR_FORMAT_VERSION, incompat = 0;

	read_at(path, &disk, sizeof(disk), 0);
	if (dmr_super_unpack(&disk, 0, &super, &why))
		die(why, path);
	for (; *args; args++) {
		if (!set_field(&super, *args) &&
		    !set_u32(&version, *args, "format_version") &&
		    !set_u32(&incompat, *args, "incompat"))
			die("what is", *args);
	}
	dmr_super_pack(&super, block, &disk);
	disk.version = cpu_to_le32(version);
	disk.incompat = cpu_to_le32(incompat);
	seal(&disk, block);
	write_at(path, 0, &disk, sizeof(disk), block << DMR_BLOCK_SHIFT);
}

static void flip(const char *path, u64 byte, u64 bit)
{
	u8 c;

	read_at(path, &c, 1, byte);
	c ^= 1 << bit;
	write_at(path, 0, &c, 1, byte);
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "make"))
		make(argv[2], argv + 3);
	else if (argc > 3 && !strcmp(argv[1], "super"))
		put_super(argv[2], parse(argv[3]), argv + 4);
	else if (argc == 5 && !strcmp(argv[1], "flip"))
		flip(argv[2], parse(argv[3]), parse(argv[4]));
	else
		die("usage: see mkmeta.c, not", argc > 1 ? argv[1] : "");
	return 0;
}
