// SPDX-License-Identifier: GPL-2.0
/* Reach the devices that read the pool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sort.h"
#include "host/sys/block.h"
#include "host/volume/device/down.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/device/target.h"
#include "host/volume/device/target_place.h"
#include "host/volume/device/version_table.h"
#include "host/volume/map/mapped.h"
#include "pool/catalog/segments.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/version/version.h"
#include "tenants.h"
#include "view_pool.h"

#define MESSAGE_MAX	8192

/* The least buffer that libdevmapper gives has room for more ranges than that. */
#define LONG_ANSWER	256

struct leaving {
	struct rd_pool *pool;
	const char *name;
	struct rd_doomed *doomed;
	struct rd_version version;
	char device[32];	/* the device that the table reads the pool from, */
	u64 pool_blocks;	/* which may be smaller than the pool is by now */
	u64 nr_blocks;		/* of the volume; 0: its table has no pool */
	struct rd_buffer runs;	/* struct dmr_range: those that must move */
	struct rd_buffer messages;	/* each with its zero byte */
	size_t message;			/* where the last one begins */
	struct dmr_range remap;	/* the next one of it; len 0: none */
};

/* --- what it names */

/* How many blocks from @place on, at most @max, are doomed? Of a pack all are, or none. */
static u64 count_doomed(struct leaving *leaving, struct dmr_entry place, u64 max)
{
	u64 nr = 0;

	while (nr < max && rd_place_is_doomed(leaving->doomed, dmr_entry_plus(place, nr)))
		nr = place.kind == DMR_PACK ? max : nr + 1;
	return nr;
}

/* Add the runs of @range that are doomed, each within a segment. */
static void take_range(struct leaving *leaving, const struct dmr_range *range)
{
	u64 at, nr, max;

	for (at = 0; at < range->len; at += nr) {
		struct dmr_range run = {
			.first = range->first + at,
			.place[0] = dmr_entry_plus(range->place[0], at),
		};

		max = rd_min(range->len - at, RD_SEG_BLOCKS - run.first % RD_SEG_BLOCKS);
		run.len = count_doomed(leaving, run.place[0], max);
		if (run.len)
			rd_buffer_put(&leaving->runs, &run, sizeof(run));
		nr = run.len ? run.len : run.place[0].kind == DMR_PACK ? max : 1;
	}
}

static int find_devices(struct leaving *leaving)
{
	struct rd_target_devices devices;
	char path[PATH_MAX];
	u64 sectors;
	int r = rd_target_devices(leaving->name, &devices);

	if (r || !strcmp(devices.pool, "-"))
		return r;
	memcpy(leaving->device, devices.pool, sizeof(leaving->device));
	leaving->nr_blocks = rd_round_up(devices.sectors, 8) / 8;
	r = rd_block_path(path, devices.pool);
	if (!r)
		r = rd_block_sectors(path, &sectors);
	if (!r)
		leaving->pool_blocks = sectors / 8;
	return r;
}

/*
 * Ask which blocks from @*next on lie in @len blocks of the pool from @first on, and append them
 * to @places; @*next is then the first that the answer does not cover, for want of room or because
 * a suspend came. The message settles: a place that the answers do not name is named nowhere.
 */
static int ask(struct leaving *leaving, u64 first, u64 len, u64 *next, struct rd_buffer *places)
{
	RD_FREE char *answer = NULL;
	u64 before = *next;
	char text[112];
	int r;

	snprintf(text, sizeof(text), "table %llu %llu %llu %llu", before,
		 leaving->nr_blocks - before, first, len);
	r = rd_dm_try_message(leaving->name, text, &answer);
	if (!r)
		r = answer ? rd_target_take_places(answer, next, places) : -EPROTO;
	if (!r && *next <= before)
		r = -EPROTO;
	return !r && places->failed ? -ENOMEM : r;
}

/*
 * Ask for the pool from @first to @last, and for packs that may reach into that, and take what is
 * doomed. *@is_long: that filled the room.
 */
static int take(struct leaving *leaving, u64 first, u64 last, u64 *next, bool *is_long)
{
	RD_BUFFER struct rd_buffer places = { 0 };
	int r = ask(leaving, first, last - first + 1, next, &places);
	const struct dmr_range *range = (const struct dmr_range *)places.data;
	size_t i, nr = r ? 0 : places.len / sizeof(*range);

	for (i = 0; i < nr; i++)
		take_range(leaving, &range[i]);
	*is_long = nr >= LONG_ANSWER;
	return !r && leaving->runs.failed ? -ENOMEM : r;
}

static u64 frame_block(const struct rd_doomed_frame *frame, unsigned int slot)
{
	return rd_slot_offset(frame->frame, slot) / RD_BLOCK_SIZE;
}

/* Find the end of the frames from @i on that have no wide gap between them. */
static unsigned int cluster_end(const struct rd_doomed *doomed, unsigned int i)
{
	const struct rd_doomed_frame *frames = doomed->frames;
	u64 wide = (doomed->last - doomed->first) / 8 + RD_SEG_BLOCKS + RD_DOOMED_BEFORE;

	do
		i++;
	while (i < doomed->nr &&
	       frame_block(&frames[i], 0) - frame_block(&frames[i - 1], 0) <= wide);
	return i;
}

/*
 * Find the blocks that lie in places that are doomed. Ask for all between the first and the
 * last: as a rule that is one short answer, and each question costs the device a look at its
 * whole table. Only where the answer is long, ask for the rest without the widest gaps.
 */
static int find_runs(struct leaving *leaving)
{
	const struct rd_doomed *doomed = leaving->doomed;
	unsigned int i, end;
	bool is_long = false;
	u64 begin = 0;
	int r = 0;

	while (!r && !is_long && begin < leaving->nr_blocks)
		r = take(leaving, doomed->first, doomed->last, &begin, &is_long);
	for (i = 0; !r && begin < leaving->nr_blocks && i < doomed->nr; i = end) {
		u64 next = begin;

		end = cluster_end(doomed, i);
		while (!r && next < leaving->nr_blocks)
			r = take(leaving, frame_block(&doomed->frames[i], 0),
				 frame_block(&doomed->frames[end - 1], RD_SEG_BLOCKS - 1), &next,
				 &is_long);
	}
	/* So that a segment is looked up once. */
	rd_sort((struct dmr_range *)leaving->runs.data,
		leaving->runs.len / sizeof(struct dmr_range), first);
	return r;
}

/* Does the table name any block of the pool? Look at all of it, as numbers may be off. */
static int names_pool(struct leaving *leaving, bool *ret)
{
	RD_BUFFER struct rd_buffer places = { 0 };
	u64 next = 0;
	int r = 0;

	while (!r && !places.len && next < leaving->nr_blocks)
		r = ask(leaving, 0, U64_MAX, &next, &places);
	*ret = !r && places.len;
	return r;
}

int rd_device_names_pool(const char *name, bool *ret)
{
	struct leaving leaving = { .name = name };
	int r = find_devices(&leaving);

	*ret = false;
	if (!r)
		r = names_pool(&leaving, ret);
	return r ? rd_err(r, "cannot read the table of '%s'", name) : 0;
}

/*
 * Are all blocks of the volume home, for good? Most are not, and the numbers of the status
 * line say so: a number that a crash left wrong only keeps the lease for longer. That they
 * are, the table must say, behind a settle.
 */
static int is_home(struct leaving *leaving, bool *ret)
{
	struct rd_target_status status;
	struct rd_dm_info info;
	bool names = false;
	int r;

	*ret = false;
	/* A roll-back that was cut off after its begin is to be repeated, by this lease. */
	r = rd_dm_info(leaving->name, &info);
	if (r || (info.suspended && leaving->nr_blocks))
		return r;
	r = rd_target_status(leaving->name, &status);
	if (r || status.nr_pool)
		return r;
	r = names_pool(leaving, &names);
	*ret = !r && !names;
	return r;
}

/* --- sending it elsewhere */

static void end_message(struct leaving *leaving)
{
	if (leaving->messages.len == leaving->message)
		return;
	rd_buffer_put_u8(&leaving->messages, '\0');
	leaving->message = leaving->messages.len;
}

static int send(const struct leaving *leaving, const char *text)
{
	unsigned int tries = 0;
	int r;

	do
		r = rd_dm_try_message(leaving->name, text, NULL);
	while (rd_target_again(r, &tries));
	return r;
}

/* The journal must have the new places before the device does: see rd_version_table_write(). */
static int send_all(const struct leaving *leaving)
{
	const char *text = (const char *)leaving->messages.data, *end;
	int r = leaving->messages.failed ? -ENOMEM : rd_journal_flush(leaving->pool);

	for (end = text + leaving->messages.len; !r && text < end; text += strlen(text) + 1)
		r = send(leaving, text);
	return r;
}

/* Put the range that was gathered into the message. */
static void put_remap(struct leaving *leaving)
{
	struct dmr_range *range = &leaving->remap;
	char text[40 + 2 * DMR_PLACE_TEXT];
	int len;

	if (!range->len)
		return;
	len = sprintf(text, "%s%llx,%llx,",
		      leaving->messages.len > leaving->message ? ";" : "remap ", range->first,
		      range->len);
	len += dmr_place_print(text + len, range->place[0]);
	text[len++] = ',';
	len += dmr_place_print(text + len, range->place[1]);
	range->len = 0;
	rd_buffer_put(&leaving->messages, text, len);
	if (leaving->messages.len - leaving->message > MESSAGE_MAX)
		end_message(leaving);
}

/* Blocks in a row are one range: of a pack that has moved they may be one word of the table. */
static void add_remap(struct leaving *leaving, u64 block, struct dmr_entry old,
		      struct dmr_entry new)
{
	struct dmr_range *range = &leaving->remap;

	if (range->len && range->first + range->len == block &&
	    dmr_entry_goes_on(range->place[0], range->len, old) &&
	    dmr_entry_goes_on(range->place[1], range->len, new)) {
		range->len++;
		return;
	}
	put_remap(leaving);
	*range = (struct dmr_range){ .first = block, .len = 1, .place = { old, new } };
}

/*
 * The catalog gives a place that it calls free: it is damaged. Of a pack its blocks are counted
 * by the row that gives the place.
 */
static bool is_freed(const struct leaving *leaving, struct dmr_entry place, u64 end)
{
	u64 block = dmr_entry_pool_block(place);

	for (; block < end; block++)
		if (rd_doomed_has(leaving->doomed, block))
			return true;
	return false;
}

static int move_run(struct leaving *leaving, struct rd_target_places *places,
		    const struct rd_map *map, const struct dmr_range *run)
{
	u64 i, end;
	int r = 0;

	for (i = 0; i < run->len && !r; i++) {
		u64 block = run->first + i;
		struct dmr_entry new;

		r = rd_target_place(places, map->at[block % RD_SEG_BLOCKS], &new, &end);
		if (!r && new.kind == DMR_PACK)
			r = rd_target_require_packs();
		if (!r && (new.kind == DMR_ZERO || is_freed(leaving, new, end)))
			r = -EUCLEAN;
		/* The target looks at the head only; the pool may have grown since it is up. */
		if (!r && end > leaving->pool_blocks)
			r = -ERANGE;
		if (!r)
			add_remap(leaving, block, dmr_entry_plus(run->place[0], i), new);
	}
	return r;
}

/* Move the runs of one segment, from @i on. *@ret_next: the first of the next segment. */
static int move_segment(struct leaving *leaving, struct rd_target_places *places,
			struct rd_resolver *resolver, size_t i, size_t *ret_next)
{
	const struct dmr_range *runs = (const struct dmr_range *)leaving->runs.data;
	size_t nr = leaving->runs.len / sizeof(*runs);
	u64 segment = runs[i].first / RD_SEG_BLOCKS;
	struct rd_seg_fp fp;
	struct rd_map map;
	i64 recipe;
	int r;

	r = rd_segments_read(leaving->pool->sql, leaving->version.volume,
			     leaving->version.number, segment, 1, &recipe);
	if (!r)
		r = recipe ? rd_resolve(resolver, recipe, &map, &fp) : -EUCLEAN;
	for (; !r && i < nr && runs[i].first / RD_SEG_BLOCKS == segment; i++)
		r = move_run(leaving, places, &map, &runs[i]);
	*ret_next = i;
	return r;
}

static int move_runs(struct leaving *leaving, struct rd_resolver *resolver)
{
	struct rd_target_places places = { .sql = leaving->pool->sql };
	size_t i = 0, nr = leaving->runs.len / sizeof(struct dmr_range);
	int r = rd_sql_begin_read(leaving->pool->sql);

	if (r)
		return r;
	while (!r && i < nr)
		r = move_segment(leaving, &places, resolver, i, &i);
	rd_sql_end_read(leaving->pool->sql);
	put_remap(leaving);
	end_message(leaving);
	return r ? r : send_all(leaving);
}

static int move_all(struct leaving *leaving)
{
	struct rd_resolver *resolver = rd_resolver_new(leaving->pool->sql);
	int r = resolver ? rd_version_prove(leaving->pool, &leaving->version) : -ENOMEM;

	if (!r)
		r = move_runs(leaving, resolver);
	rd_resolver_free(resolver);
	return r;
}

/* A view is copied as it was, from where it was; it is gone before long. */
static int keep_all(struct leaving *leaving)
{
	const struct dmr_range *run;

	rd_info("'%s' is being copied: blocks that it reads are freed later", leaving->name);
	rd_each(run, &leaving->runs)
		rd_place_keep(leaving->doomed, run->place[0], run->len);
	return 0;
}

/* Move a device that is up. 1: it has no block in the pool any more. */
static int move_off(struct leaving *leaving, const struct rd_lease *lease)
{
	struct rd_pool *pool = leaving->pool;
	bool home = false;
	int r;

	r = rd_lease_version(pool->sql, lease, &leaving->version);
	if (!r)
		r = find_runs(leaving);
	if (!r && !leaving->runs.len)
		r = is_home(leaving, &home);
	if (r || home)
		return r ? r : 1;
	/* A copy of a pool has the same leases, but other blocks at the same numbers. */
	r = rd_poolblocks_compare(&pool->area, leaving->device);
	if (r || !leaving->runs.len)
		return r;
	if (rd_is_view(lease->device))
		return keep_all(leaving);
	return rd_is_mapped(lease->device) ?
		rd_mapped_refresh(pool, &leaving->version, leaving->name) : move_all(leaving);
}

static int vacate(struct rd_lease_ops *ops, struct rd_pool *pool, const struct rd_lease *lease,
		  struct rd_doomed *doomed)
{
	struct leaving leaving = { .pool = pool, .doomed = doomed };
	char name[RD_DM_NAME_MAX];
	int r;

	(void)ops;
	r = rd_dm_find(lease->device, name);
	if (r == -ENODEV &&
	    (rd_is_mapped_here(lease->device) || rd_is_view_here(lease->device)))
		return 1;
	leaving.name = name;
	if (!r)
		r = find_devices(&leaving);
	/*
	 * A view or a mapped version that was killed before its table was live: who makes one
	 * keeps others from freeing until it is. What was loaded goes.
	 */
	if (r == -ENODATA && (rd_is_view_here(lease->device) || rd_is_mapped_here(lease->device))) {
		rd_dm_unload(name);
		return 1;
	}
	/* There is no such device, or none of the target. */
	if (r == -ENODEV || (r == -ENODATA && !rd_is_mapped(lease->device)))
		return rd_down_keep(lease->device, doomed, !pool->told_unreachable);
	if (!r)
		r = move_off(&leaving, lease);
	if (r == -EXDEV)
		rd_info("'%s' reads another copy of this pool", name);
	else if (r < 0)
		rd_info("'%s' cannot be moved off blocks about to be freed: %s", name,
			strerror(-r));
	rd_buffer_free(&leaving.runs);
	rd_buffer_free(&leaving.messages);
	return r;
}

int rd_tell_gone(struct rd_pool *pool, const struct rd_attachment *at)
{
	char device[RD_DM_NAME_MAX];
	int r;

	if (pool) {
		r = rd_lease_drop_device(pool, rd_part_uuid(device, at, "view"));
		return r ? r : rd_lease_drop_device(pool, rd_part_uuid(device, at, NULL));
	}
	rd_part_uuid(device, at, NULL);
	if (!at->pool[0])
		return 0;
	rd_warn("the pool '%s' does not know that the device '%s' is gone, and keeps everything that it could read",
		at->pool, device);
	rd_remedy(RD_REMEDY_TELL_POOL, device, "once '%s' can be opened again", at->pool);
	return 0;
}

static bool is_fixed(struct rd_lease_ops *ops, const struct rd_lease *lease)
{
	char name[RD_DM_NAME_MAX];

	(void)ops;
	return rd_is_view(lease->device) ||
		(!rd_is_mapped_here(lease->device) && rd_dm_find(lease->device, name) == -ENODEV);
}

struct rd_lease_ops rd_host_lease_ops = { .vacate = vacate, .is_fixed = is_fixed };
