// SPDX-License-Identifier: GPL-2.0
/*
 * Make the index anew. Fingerprints are read group by group, in the order in which they are on
 * the disk, one group while the one before is added. The catalog says how many slots of a frame
 * recipes have; where as many fingerprints are not zeros, it need not say which.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/data/ring.h"
#include "index_parts.h"

struct frame {
	u64 nr;
	u64 slots;
};

/* Frames of a group, and their fingerprints. */
struct group {
	unsigned int nr;
	struct frame frames[RD_GROUP_FRAMES];
	struct rd_fp *fps;			/* from the first of the frames to the last */
	bool busy;
	struct rd_op op;
};

struct build {
	struct rd_index *index;
	struct rd_sql *sql;
	const struct rd_area *area;
	struct rd_ring *ring;
	u64 next;				/* frame; U64_MAX: there is none */
	u64 done;
	struct group groups[2];			/* one is read while the other is added */
};

/* --- reading */

/* Frames from build->next on, of one group. */
static int ask_frames(struct build *build, struct group *group)
{
	RD_ROW struct rd_row *rows = NULL;
	struct frame frame;
	int r;

	group->nr = 0;
	if (build->next == U64_MAX)
		return 0;
	r = rd_frames_filled(build->sql, &rows, build->next, RD_GROUP_FRAMES);
	while (!r && (r = rd_next_filled(rows, &frame.nr, &frame.slots)) > 0) {
		r = 0;
		if (group->nr && frame.nr / RD_GROUP_FRAMES !=
		    group->frames[0].nr / RD_GROUP_FRAMES)
			break;
		group->frames[group->nr++] = frame;
	}
	build->next = group->nr ? group->frames[group->nr - 1].nr + 1 : U64_MAX;
	return r;
}

/* How many frames there are from the first to the last. */
static unsigned int span_of(const struct group *group)
{
	return group->frames[group->nr - 1].nr - group->frames[0].nr + 1;
}

static void read_ended(struct rd_op *op, int r)
{
	struct build *build = op->ctx;
	struct group *group = op == &build->groups[0].op ? &build->groups[0] : &build->groups[1];

	group->busy = false;
	/* Frame by frame, so that one that cannot be read takes no other with it. */
	if (r)
		rd_area_get_fps(build->area, group->frames[0].nr, span_of(group), group->fps);
}

static int begin_group(struct build *build, struct group *group)
{
	int r = ask_frames(build, group);

	if (r || !group->nr)
		return r;
	/* A frame beyond the end is of no use; nothing but a damaged catalog has one. */
	if (!rd_area_has_frame(build->area, group->frames[0].nr)) {
		memset(group->fps, 0, RD_GROUP_FRAMES * RD_FPS_SIZE);
		return 0;
	}
	group->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = build->area->store,
		.offset = rd_frame_fps_offset(group->frames[0].nr),
		.own = { group->fps, span_of(group) * RD_FPS_SIZE },
		.done = read_ended,
		.ctx = build,
	};
	group->busy = true;
	rd_ring_submit(build->ring, &group->op);
	return 0;
}

/* --- adding */

static void add_slots(struct build *build, u64 frame, const struct rd_fp *fps,
		      const struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_index_is_sampled(&fps[i]) && !rd_fp_is_zero(&fps[i]) &&
		    (!slots || rd_slots_test(slots, i)))
			rd_index_add(build->index, &fps[i], rd_place_make(RD_OWN, frame, i));
}

static unsigned int count_fps(const struct rd_fp *fps)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += !rd_fp_is_zero(&fps[i]);
	return nr;
}

static int add_frame(struct build *build, const struct frame *frame, const struct rd_fp *fps)
{
	struct rd_slots slots = { 0 };
	int r;

	if (count_fps(fps) == frame->slots) {
		add_slots(build, frame->nr, fps, NULL);
		return 0;
	}
	r = rd_sql_look(build->sql, rd_frame_slots(build->sql, frame->nr, &slots));
	/* Of a recipe that cannot be read nothing is found. */
	if (r == -EUCLEAN || r == -ENOENT)
		return 0;
	if (!r)
		add_slots(build, frame->nr, fps, &slots);
	return r;
}

static int add_group(struct build *build, struct group *group)
{
	unsigned int i;
	int r = 0;

	while (!r && group->busy)
		r = rd_ring_wait(build->ring);
	for (i = 0; i < group->nr && !r; i++)
		r = add_frame(build, &group->frames[i], group->fps +
			      (group->frames[i].nr - group->frames[0].nr) * RD_SEG_BLOCKS);
	build->done += group->nr;
	return r;
}

static int build_all(struct build *build, rd_index_tell_fn *tell, void *ctx)
{
	struct group *group = &build->groups[0], *next = &build->groups[1], *swap;
	u64 all;
	int r;

	r = rd_frames_with_fps(build->sql, &all);
	if (!r)
		r = begin_group(build, group);
	while (!r && group->nr) {
		r = begin_group(build, next);
		if (!r)
			r = add_group(build, group);
		if (!r && tell)
			r = tell(ctx, build->done, rd_max(all, build->done));
		swap = group;
		group = next;
		next = swap;
	}
	return r;
}

static int set_up(struct build *build)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		build->groups[i].fps = rd_alloc_direct(RD_GROUP_FRAMES * RD_FPS_SIZE);
		if (!build->groups[i].fps)
			return -ENOMEM;
	}
	return rd_ring_new(&build->ring, 2);
}

/* The ring first: it waits for what is read. */
static void tear_down(struct build *build)
{
	rd_ring_free(build->ring);
	free(build->groups[0].fps);
	free(build->groups[1].fps);
}

int rd_index_build(struct rd_index *index, struct rd_sql *sql, const struct rd_area *area,
		   rd_index_tell_fn *tell, void *ctx)
{
	RD_FREE struct build *build = calloc(1, sizeof(*build));
	int r;

	if (!build)
		return -ENOMEM;
	build->index = index;
	build->sql = sql;
	build->area = area;
	rd_index_clear(index);
	index->lost = false;
	index->fan = RD_MERGE_WIDE;
	/* Most runs are soon merged, and need never reach the disk. */
	index->files.lazy = true;
	r = set_up(build);
	if (!r)
		r = build_all(build, tell, ctx);
	tear_down(build);
	rd_index_flush(index);
	index->fan = RD_MERGE_FAN;
	if (!r)
		rd_merge_all(&index->files);
	index->files.lazy = false;
	if (!r && !index->lost)
		rd_files_set_whole(&index->files);
	return r;
}
