// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl diff: what differs between two versions, or a version and a disk, in blocks.
 *
 * A segment of which both name the same recipe is the same. Of any other the
 * fingerprints are compared that the pool keeps beside its blocks, so no content
 * is read. They are read without a lock: where they are not what the recipe
 * says, the blocks may have moved, and are looked up again. A disk is read whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "host/sys/dm.h"
#include "host/volume/device/attachment.h"
#include "pool/catalog/segments.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/read/source.h"
#include "cli.h"

#define WINDOW		1024
#define MAX_TRIES	5

struct diff {
	struct ctl *ctl;
	struct ctl_version a, b;
	const char *path;		/* of a disk instead of @b, or NULL */
	struct rd_source disk;
	struct rd_ring *ring;
	u8 *data;
	u64 size;			/* of the larger one */
	struct rd_resolver *resolver;
	struct rd_hasher *hasher;
	u64 start, end;			/* the range that is not printed yet */
	u64 nr_ranges, nr_bytes, nr_damaged;
};

/* --- ranges */

static void print_range(struct diff *diff)
{
	struct ctl *ctl = diff->ctl;
	u64 len;

	if (diff->start == diff->end)
		return;
	/* The last block of an image may be shorter. */
	len = rd_min(diff->end, diff->size) - diff->start;
	diff->nr_ranges++;
	diff->nr_bytes += len;
	if (ctl->json)
		ctl_json(ctl, "range", "offset=%llu length=%llu", diff->start, len);
	else
		printf("%llu %llu\n", diff->start, len);
}

static void add_block(struct diff *diff, u64 offset)
{
	if (diff->end != offset || diff->start == diff->end) {
		print_range(diff);
		diff->start = offset;
	}
	diff->end = offset + RD_BLOCK_SIZE;
}

/* --- fingerprints */

static int find_blocks(struct diff *diff, const struct rd_version *version, u64 segment,
		       struct rd_map *map, struct rd_seg_fp *fp, i64 *recipe)
{
	struct rd_sql *sql = diff->ctl->pool->sql;
	int r;

	r = rd_sql_begin_read(sql);
	if (r)
		return r;
	rd_resolver_forget(diff->resolver);
	r = rd_segments_read(sql, version->volume, version->number, segment, 1, recipe);
	if (!r && *recipe)
		r = rd_resolve(diff->resolver, *recipe, map, fp);
	rd_sql_end_read(sql);
	return r;
}

/* Read the fingerprints of a segment. -EUCLEAN: they are damaged. */
static int read_fps(struct diff *diff, const struct rd_version *version, u64 segment,
		    struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct rd_seg_fp want;
	struct rd_map map;
	unsigned int tries;
	i64 recipe;
	int r;

	for (tries = 0; tries < MAX_TRIES; tries++) {
		r = find_blocks(diff, version, segment, &map, &want, &recipe);
		if (r)
			return r == -ENOENT ? -EUCLEAN : r;
		if (!recipe) {
			memset(fps, 0, RD_FPS_SIZE);
			return 0;
		}
		rd_read_map_fps(&diff->ctl->pool->area, &map, fps);
		if (rd_fps_are_of(diff->hasher, fps, &want))
			return 0;
	}
	return -EUCLEAN;
}

/* Of the disk; where it has ended, zeros. */
static int read_disk(struct diff *diff, u64 segment, struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct rd_seg_fp fp;
	int r;

	if (segment >= diff->disk.nr_segs || rd_source_is_hole(&diff->disk, segment)) {
		memset(fps, 0, RD_FPS_SIZE);
		return 0;
	}
	r = rd_source_read_now(&diff->disk, diff->ring, diff->data, RD_SEG_SIZE,
			       segment << RD_SEG_SHIFT);
	if (r)
		return rd_err(r, "cannot read '%s'", diff->path);
	rd_fp_segment(diff->hasher, diff->data, RD_SEG_SIZE, fps, &fp);
	return 0;
}

static int diff_segment(struct diff *diff, u64 segment)
{
	struct rd_fp a[RD_SEG_BLOCKS], b[RD_SEG_BLOCKS];
	u64 offset = segment << RD_SEG_SHIFT;
	unsigned int i, nr = rd_round_up(rd_min(diff->size - offset, RD_SEG_SIZE),
					 RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	bool damaged;
	int r;

	r = read_fps(diff, &diff->a.version, segment, a);
	if (!r)
		r = diff->path ? read_disk(diff, segment, b) :
			read_fps(diff, &diff->b.version, segment, b);
	damaged = r == -EUCLEAN;
	if (r && !damaged)
		return r;
	if (damaged) {
		rd_err(0, "the fingerprints of segment %llu are damaged: its whole range may differ",
		       segment);
		diff->nr_damaged++;
	}
	for (i = 0; i < nr; i++)
		if (damaged || !rd_fp_equal(&a[i], &b[i]))
			add_block(diff, offset + (u64)i * RD_BLOCK_SIZE);
	return 0;
}

/* --- */

static int read_recipes(struct diff *diff, u64 first, unsigned int nr, i64 *a, i64 *b)
{
	struct rd_sql *sql = diff->ctl->pool->sql;
	int r;

	r = rd_segments_read(sql, diff->a.version.volume, diff->a.version.number, first, nr, a);
	return r || diff->path ? r : rd_segments_read(sql, diff->b.version.volume,
						      diff->b.version.number, first, nr, b);
}

static int diff_all(struct diff *diff)
{
	u64 first, nr = rd_nr_segs(diff->size);
	i64 a[WINDOW], b[WINDOW];
	unsigned int i, len;
	int r = 0;

	for (first = 0; first < nr && !r; first += len) {
		len = rd_min(WINDOW, nr - first);
		r = read_recipes(diff, first, len, a, b);
		for (i = 0; i < len && !r; i++) {
			if (!diff->path && a[i] == b[i])
				continue;
			r = diff_segment(diff, first + i);
			if (!r)
				r = rd_pool_progress(diff->ctl->pool, "diff",
						     (first + i) << RD_SEG_SHIFT,
						     nr << RD_SEG_SHIFT);
		}
	}
	if (!r)
		print_range(diff);
	return r;
}

/* --- what is compared */

static int find_version(struct ctl *ctl, int nr, struct ctl_version *ret)
{
	int r = ctl_find_operand(ctl, nr, ret);

	if (!r)
		r = ctl_lock_version(ctl, ret);
	return r ? r : rd_version_prove(ctl->pool, &ret->version);
}

static int open_disk(struct diff *diff)
{
	int r = rd_source_open(&diff->disk, diff->path, false);

	if (!r)
		r = rd_ring_new(&diff->ring, 1);
	diff->data = rd_alloc_direct(RD_SEG_SIZE);
	if (!r && !diff->data)
		r = -ENOMEM;
	diff->size = diff->disk.size;
	return r;
}

static int find_both(struct diff *diff)
{
	int r = find_version(diff->ctl, 0, &diff->a);

	if (!r)
		r = diff->path ? open_disk(diff) : find_version(diff->ctl, 1, &diff->b);
	if (!diff->path)
		diff->size = diff->b.version.size;
	diff->size = rd_max(diff->size, diff->a.version.size);
	return r;
}

static int warn_of_writes(struct diff *diff)
{
	bool has_changed = false;
	int r = rd_source_has_changed(&diff->disk, &has_changed);

	if (!r && has_changed)
		rd_warn("'%s' was written to while it was read: a range may have its old or its new content",
			diff->path);
	return r;
}

static void free_diff(struct diff *diff)
{
	if (diff->disk.store)
		rd_source_close(&diff->disk);
	rd_ring_free(diff->ring);
	rd_resolver_free(diff->resolver);
	rd_hasher_free(diff->hasher);
	free(diff->data);
}

/* @path: a disk that version is compared with, NULL: the other version. */
static int diff_with(struct ctl *ctl, const char *path)
{
	struct diff diff = { .ctl = ctl, .path = path };
	int r = find_both(&diff);

	diff.resolver = rd_resolver_new(ctl->pool->sql);
	diff.hasher = rd_hasher_new();
	if (!r)
		r = diff.resolver && diff.hasher ? diff_all(&diff) : -ENOMEM;
	if (!r && path)
		r = warn_of_writes(&diff);
	if (!r && ctl->json)
		ctl_json(ctl, "diff", "from=%s to=%s ranges=%llu bytes=%llu segments_damaged=%llu",
			 diff.a.name, path ? path : diff.b.name, diff.nr_ranges, diff.nr_bytes,
			 diff.nr_damaged);
	free_diff(&diff);
	return r ? r : diff.nr_damaged ? CTL_DAMAGE : 0;
}

/* The device of the volume, as it is now. */
static int find_device(struct ctl *ctl, const char *volume, char path[RD_DM_PATH_MAX])
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	int r = at ? rd_attachment_load(at, volume) : -ENOMEM;

	if (r == -ENOENT)
		return ctl_usage(ctl, "'%s' is not attached: name another version, or an image or device with --from",
				 volume);
	if (!r)
		rd_dm_path(path, at->device);
	return r;
}

int cmd_diff(struct ctl *ctl)
{
	const char *path = ctl_value(ctl, CTL_OPT_FROM);
	char device[RD_DM_PATH_MAX];
	struct ctl_name name;
	int r;

	if (path && ctl->nr_operands == 2)
		return ctl_usage(ctl, "--from takes the place of the second version");
	r = ctl_version_operand(ctl, 0, false, &name);
	if (!r && ctl->nr_operands == 1 && !path) {
		r = find_device(ctl, name.volume, device);
		path = device;
	} else if (!r && !path) {
		r = ctl_version_operand(ctl, 1, false, &name);
	}
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	return r ? r : diff_with(ctl, path);
}
