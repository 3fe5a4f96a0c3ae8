// SPDX-License-Identifier: GPL-2.0
/*
 * The table of partitions.
 *
 *	MBR, sector 0	446	four entries of 16 bytes: state (0 or 0x80) at 0, type at 4, first
 *				sector at 8, number of sectors at 12
 *			510	55 aa
 *	logical		An entry of type 5, f or 85 is of an extended partition. Its first sector
 *			is like an MBR: its first entry is a logical partition, relative to this
 *			sector, and its second one, of such a type, the next such sector, relative
 *			to the extended partition
 *	GPT		The MBR has an entry of type ee. In sector 1, or, if that is damaged, in
 *			the last one:
 *			0	"EFI PART"
 *			72	first sector of the entries
 *			80	number of entries
 *			84	size of one: its type, a UUID, at 0, first sector at 32, last one
 *				at 40
 *
 * Numbers are little endian. Checksums are not looked at: what is wrong is found without.
 */
#include <errno.h>

#include "volume.h"

#define SECTOR		512
#define TABLE		446
#define ENTRY		16
#define GPT_TYPE	0xee
#define GPT_ENTRY	128
#define GPT_ENTRIES	1024

struct table {
	const struct rd_fs_disk *disk;
	struct rd_fs_part *parts;
	unsigned int nr;
	unsigned int logical;	/* the number of the next logical partition */
};

struct entry {
	u8 state, type;
	u64 first, nr;
};

static int read_disk(const struct table *table, void *buf, size_t len, u64 offset)
{
	const struct rd_fs_disk *disk = table->disk;

	if (offset > disk->size || len > disk->size - offset)
		return -EUCLEAN;
	return disk->read(disk->ctx, buf, len, offset);
}

/*
 * Add a partition. What is behind the end of the disk is cut off: the file system will show that
 * it is missing.
 */
static int add(struct table *table, unsigned int number, u64 first, u64 nr, unsigned int sector)
{
	u64 all = table->disk->size / sector;
	struct rd_fs_part *part = &table->parts[table->nr];
	unsigned int i;

	if (first >= all || !nr || table->nr == RD_FS_PARTS)
		return -EUCLEAN;
	*part = (struct rd_fs_part){
		.number = number,
		.offset = first * sector,
		.size = rd_min(nr, all - first) * sector,
	};
	for (i = 0; i < table->nr; i++)
		if (part->offset < table->parts[i].offset + table->parts[i].size &&
		    table->parts[i].offset < part->offset + part->size)
			return -EUCLEAN;
	table->nr++;
	return 0;
}

/* --- MBR */

static struct entry entry_of(const u8 *sector, unsigned int i)
{
	const u8 *at = sector + TABLE + i * ENTRY;
	struct entry entry = { at[0], at[4], rd_le32(at + 8), rd_le32(at + 12) };

	/* What has no sectors is none. */
	if (!entry.nr)
		entry.type = 0;
	return entry;
}

static bool is_extended(const struct entry *entry)
{
	return entry->type == 0x05 || entry->type == 0x0f || entry->type == 0x85;
}

static bool is_signed(const u8 *sector)
{
	return sector[510] == 0x55 && sector[511] == 0xaa;
}

/* The chain of an extended partition may have a circle, or many parts that are empty. */
static int add_logical(struct table *table, u64 base)
{
	unsigned int step;
	u64 at = base;
	int r;

	for (step = 0; step < RD_FS_PARTS; step++) {
		u8 sector[SECTOR];
		struct entry entry, next;

		r = read_disk(table, sector, sizeof(sector), at * SECTOR);
		if (r || !is_signed(sector))
			return r ? r : -EUCLEAN;
		entry = entry_of(sector, 0);
		next = entry_of(sector, 1);
		if (entry.type)
			r = add(table, table->logical++, at + entry.first, entry.nr, SECTOR);
		if (r || !is_extended(&next))
			return r;
		at = base + next.first;
	}
	return -EUCLEAN;
}

static int add_mbr(struct table *table, const u8 *sector)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < 4 && !r; i++) {
		struct entry entry = entry_of(sector, i);

		if (entry.type && !is_extended(&entry))
			r = add(table, i + 1, entry.first, entry.nr, SECTOR);
	}
	for (i = 0; i < 4 && !r; i++) {
		struct entry entry = entry_of(sector, i);

		if (is_extended(&entry))
			r = add_logical(table, entry.first);
	}
	return r;
}

/* Other boot sectors end with the same bytes, and have anything where the entries are. */
static bool is_mbr(const u8 *sector, bool *ret_gpt)
{
	unsigned int i, nr = 0;

	*ret_gpt = false;
	for (i = 0; i < 4; i++) {
		struct entry entry = entry_of(sector, i);

		if (entry.state && entry.state != 0x80)
			return false;
		nr += entry.type != 0;
		*ret_gpt |= entry.type == GPT_TYPE;
	}
	return is_signed(sector) && nr;
}

/* --- GPT */

static int add_entries(struct table *table, const u8 *header, unsigned int sector)
{
	static const u8 unused[16];
	u64 at = rd_le64(header + 72);
	u32 nr = rd_le32(header + 80), size = rd_le32(header + 84), i;
	int r = 0;

	if (at >= table->disk->size / sector || nr > GPT_ENTRIES || size < GPT_ENTRY ||
	    size > 4096)
		return -EUCLEAN;
	for (i = 0; i < nr && !r; i++) {
		u8 entry[GPT_ENTRY];
		u64 first, last;

		r = read_disk(table, entry, sizeof(entry), at * sector + (u64)i * size);
		if (r || !memcmp(entry, unused, sizeof(unused)))
			continue;
		first = rd_le64(entry + 32);
		last = rd_le64(entry + 40);
		r = first > last || last == U64_MAX ? -EUCLEAN :
			add(table, i + 1, first, last - first + 1, sector);
	}
	return r;
}

static int add_gpt(struct table *table)
{
	unsigned int sector;
	u8 header[92];
	int r;

	for (sector = SECTOR; sector <= 4096; sector *= 8) {
		u64 last = table->disk->size / sector;
		u64 places[] = { 1, last ? last - 1 : 0 };
		unsigned int i;

		for (i = 0; i < ARRAY_SIZE(places); i++) {
			r = read_disk(table, header, sizeof(header), places[i] * sector);
			if (r && r != -EUCLEAN)
				return r;
			if (!r && !memcmp(header, "EFI PART", 8))
				return add_entries(table, header, sector);
		}
	}
	return -EUCLEAN;
}

/* --- */

int rd_fs_partitions(const struct rd_fs_disk *disk, struct rd_fs_part parts[RD_FS_PARTS],
		     unsigned int *ret_nr)
{
	struct table table = { .disk = disk, .parts = parts, .logical = 5 };
	u8 sector[SECTOR];
	bool is_gpt;
	int r = 0;

	*ret_nr = 0;
	if (disk->size >= sizeof(sector))
		r = disk->read(disk->ctx, sector, sizeof(sector), 0);
	else
		memset(sector, 0, sizeof(sector));
	if (r)
		return r;
	if (!is_mbr(sector, &is_gpt)) {
		parts[0] = (struct rd_fs_part){ .size = disk->size };
		*ret_nr = 1;
		return 0;
	}
	r = is_gpt ? add_gpt(&table) : add_mbr(&table, sector);
	*ret_nr = r ? 0 : table.nr;
	return r;
}
