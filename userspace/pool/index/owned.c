// SPDX-License-Identifier: GPL-2.0
/*
 * The frames that are owned; see owned.h. They are read some at a time, so that no transaction
 * is long: a frame that comes or goes meanwhile may be missed, or be there still.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/sort.h"
#include "pool/catalog/owners.h"
#include "owned.h"

#define PART_FRAMES	65536
#define AT_ONCE		100000

struct rd_owned_part {
	u64 number;		/* frame / PART_FRAMES */
	u64 bits[PART_FRAMES / 64];
};

/* Frames come in order, so a part that is not the last is a new one. */
static struct rd_owned_part *part_of(struct rd_owned *owned, u64 number)
{
	struct rd_owned_part **parts, *part;

	if (owned->nr && owned->parts[owned->nr - 1]->number == number)
		return owned->parts[owned->nr - 1];
	parts = realloc(owned->parts, (owned->nr + 1) * sizeof(*parts));
	if (!parts)
		return NULL;
	owned->parts = parts;
	part = calloc(1, sizeof(*part));
	if (!part)
		return NULL;
	part->number = number;
	parts[owned->nr++] = part;
	return part;
}

static int add(struct rd_owned *owned, u64 frame)
{
	struct rd_owned_part *part = part_of(owned, frame / PART_FRAMES);

	if (!part)
		return -ENOMEM;
	part->bits[frame % PART_FRAMES / 64] |= 1ULL << frame % 64;
	return 0;
}

static int load_some(struct rd_owned *owned, struct rd_sql *sql, u64 *first)
{
	RD_ROW struct rd_row *rows = NULL;
	unsigned int nr = 0;
	u64 frame, slots;
	int r;

	r = rd_frames_filled(sql, &rows, *first, AT_ONCE);
	while (!r && (r = rd_next_filled(rows, &frame, &slots)) > 0) {
		r = add(owned, frame);
		*first = frame + 1;
		nr++;
	}
	if (!r && nr < AT_ONCE)
		*first = U64_MAX;
	return r;
}

int rd_owned_load(struct rd_owned *ret, struct rd_sql *sql)
{
	u64 first = 0;
	int r = 0;

	*ret = (struct rd_owned){ 0 };
	while (!r && first != U64_MAX)
		r = load_some(ret, sql, &first);
	if (r)
		rd_owned_free(ret);
	return r;
}

bool rd_owned_has(const struct rd_owned *owned, u64 frame)
{
	u64 number = frame / PART_FRAMES;
	unsigned int low = rd_count_below(owned->nr, i, owned->parts[i]->number < number);

	return low < owned->nr && owned->parts[low]->number == number &&
		owned->parts[low]->bits[frame % PART_FRAMES / 64] >> frame % 64 & 1;
}

void rd_owned_free(struct rd_owned *owned)
{
	while (owned->nr)
		free(owned->parts[--owned->nr]);
	free(owned->parts);
	owned->parts = NULL;
}
