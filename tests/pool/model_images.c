// SPDX-License-Identifier: GPL-2.0
/*
 * Disks of the model: what is in them, and how they change. See model.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "model.h"

/* Every third one does not compress, one does by 3, and one by about 100. */
void make_contents(void)
{
	static const unsigned int random[3] = { RD_BLOCK_SIZE, RD_BLOCK_SIZE / 3, 8 };
	unsigned int i, j;

	for (i = 1; i <= NR_CONTENTS + NR_RARE; i++)
		for (j = 0; j < RD_BLOCK_SIZE; j++)
			contents[i][j] = j < 2 ? i : j < random[i % 3] ? rnd() : i;
}

void write_image(const char *path, const struct model_version *version)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	unsigned int i;

	if (fd < 0 || ftruncate(fd, version->size))
		fail("cannot make '%s': %s", path, strerror(errno));
	for (i = 0; (u64)i * RD_BLOCK_SIZE < version->size; i++) {
		size_t len = rd_min(version->size - (u64)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);

		if (version->blocks[i] &&
		    pwrite(fd, contents[version->blocks[i]], len, (off_t)i * RD_BLOCK_SIZE) !=
		    (ssize_t)len)
			fail("cannot write '%s': %s", path, strerror(errno));
	}
	close(fd);
}

void compare_image(const char *path, const struct model_volume *volume,
		   const struct model_version *version)
{
	static const u8 zeros[RD_BLOCK_SIZE];
	int fd = open(path, O_RDONLY);
	u8 block[RD_BLOCK_SIZE];
	struct stat st;
	unsigned int i;

	if (fd < 0 || fstat(fd, &st) || (u64)st.st_size != version->size)
		fail("%s@%lld: the restored file has %lld bytes, wanted %llu", volume->name,
		     version->number, (long long)st.st_size, version->size);
	for (i = 0; (u64)i * RD_BLOCK_SIZE < version->size; i++) {
		size_t len = rd_min(version->size - (u64)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		const u8 *want = version->blocks[i] ? contents[version->blocks[i]] : zeros;

		if (pread(fd, block, len, (off_t)i * RD_BLOCK_SIZE) != (ssize_t)len)
			fail("cannot read '%s'", path);
		if (memcmp(block, want, len))
			fail("%s@%lld: block %u (segment %u) is wrong: wanted content %u, found one that begins with %02x%02x",
			     volume->name, version->number, i, i / RD_SEG_BLOCKS,
			     version->blocks[i], block[0], block[1]);
	}
	close(fd);
}

struct model_volume *any_volume(void)
{
	return &volumes[below(NR_VOLUMES)];
}

/* Most changes stay in a segment, so that the others may be shared for a while. */
static void change_blocks(struct model_version *version, unsigned int nr)
{
	bool is_wide = !below(4);
	unsigned int first = is_wide ? 0 : below(nr) / RD_SEG_BLOCKS * RD_SEG_BLOCKS;
	unsigned int span = is_wide ? nr : rd_min(nr - first, RD_SEG_BLOCKS);
	unsigned int i = first + below(span), n = 1 + below(below(3) ? 8 : 600);

	switch (below(6)) {
	case 0:		/* a run of one content */
		memset(&version->blocks[i], below(NR_CONTENTS + 1), rd_min(n, nr - i));
		break;
	case 1: {	/* blocks move */
		unsigned int to = below(nr);

		n = rd_min(n, rd_min(nr - i, nr - to));
		memmove(&version->blocks[to], &version->blocks[i], n);
		break;
	}
	default:
		while (n--)
			version->blocks[first + below(span)] = below(NR_CONTENTS + 1);
	}
}

/* More often a newest one. */
static const struct model_version *any_version(void)
{
	const struct model_volume *volume = any_volume();

	if (!volume->nr)
		return NULL;
	return volume->versions[below(2) ? volume->nr - 1 : below(volume->nr)];
}

unsigned int any_seg(const struct model_version *version)
{
	return below(rd_nr_segs(version->size));
}

/* A segment from somewhere, or the same one twice. */
static void copy_seg(struct model_version *version)
{
	const struct model_version *other = below(3) ? any_version() : version;

	if (other && other->size)
		memcpy(&version->blocks[any_seg(version) * RD_SEG_BLOCKS],
		       &other->blocks[any_seg(other) * RD_SEG_BLOCKS], RD_SEG_BLOCKS);
}

/*
 * New content for a whole segment: perhaps others had the old one, too. Sometimes all of it, or
 * the first half, does not compress; none of it is twice in a group of a pack then.
 */
void fill_seg(struct model_version *version, unsigned int seg)
{
	unsigned int i = seg * RD_SEG_BLOCKS, random = i + below(3) * RD_SEG_BLOCKS / 2;
	unsigned int end = rd_min(i + RD_SEG_BLOCKS, version->size / RD_BLOCK_SIZE);
	unsigned int first = below(NR_CONTENTS / 3);

	for (; i < end; i++)
		version->blocks[i] = i < random ? 3 * (1 + (first + i) % (NR_CONTENTS / 3)) :
			below(NR_CONTENTS + 1);
}

static void change_image(struct model_version *version)
{
	unsigned int nr, times = 1 + below(4);
	const struct model_version *other;

	if (!version->size || !below(8))
		version->size = (1 + rd_max(below(nr_segs * RD_SEG_BLOCKS),
					    below(nr_segs * RD_SEG_BLOCKS))) *
			RD_BLOCK_SIZE + (below(3) ? 0 : 512 * below(8));
	version->size = rd_min(version->size, (u64)nr_segs * RD_SEG_SIZE);
	nr = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	while (times--) {
		other = any_version();
		switch (below(8)) {
		case 0:
		case 1:
		case 2:
			copy_seg(version);
			break;
		case 3:
		case 4:
			fill_seg(version, any_seg(version));
			break;
		case 5:		/* all of another image */
			if (other && !below(4))
				*version = *other;
			nr = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
			break;
		default:
			change_blocks(version, nr);
		}
	}
	/* Little, so that the rest of a segment is what it was. */
	for (times = below(2) ? 0 : 1 + below(4); nr && times; times--)
		version->blocks[below(nr)] = below(NR_CONTENTS + 1);
	/* Beyond the end there is nothing; of the last block there may be a part. */
	memset(&version->blocks[nr], 0, MAX_BLOCKS - nr);
}

bool has_twice(const struct model_version *version)
{
	unsigned int a, b;

	for (a = 0; a < MAX_SEGS; a++)
		for (b = a + 1; b < MAX_SEGS; b++)
			if (!rd_is_zero(&version->blocks[a * RD_SEG_BLOCKS], RD_SEG_BLOCKS) &&
			    !memcmp(&version->blocks[a * RD_SEG_BLOCKS],
				    &version->blocks[b * RD_SEG_BLOCKS], RD_SEG_BLOCKS))
				return true;
	return false;
}

/* The ranges that changed, and some that did not. */
void list_changes(const struct model_version *old, const struct model_version *new,
		  struct rd_changed *changed)
{
	static struct rd_changed_range ranges[MAX_BLOCKS];
	unsigned int i;

	changed->base = old->number;
	changed->ranges = ranges;
	changed->nr = 0;
	for (i = 0; i < MAX_BLOCKS; i++)
		if (old->blocks[i] != new->blocks[i] || !below(2000))
			ranges[changed->nr++] = (struct rd_changed_range){
				.offset = (u64)i * RD_BLOCK_SIZE,
				.len = RD_BLOCK_SIZE,
			};
}

struct model_version *newest(const struct model_volume *volume)
{
	return volume->nr ? volume->versions[volume->nr - 1] : NULL;
}

struct model_version *copy_newest(const struct model_volume *volume)
{
	struct model_version *version = calloc(1, sizeof(*version));

	if (!version)
		fail("no memory");
	if (volume->nr)
		*version = *newest(volume);
	return version;
}

struct model_version *prepare_snapshot(struct model_volume *volume)
{
	struct model_version *version = copy_newest(volume);

	change_image(version);
	version->epoch = below(3);
	return version;
}
