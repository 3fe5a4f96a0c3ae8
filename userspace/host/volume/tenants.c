// SPDX-License-Identifier: GPL-2.0
/* Reach the devices that read the pool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/segments.h"
#include "pool/engine/inflate.h"
#include "pool/engine/journal.h"
#include "pool/engine/lease_drop.h"
#include "pool/engine/proof.h"
#include "mapped.h"
#include "poolblocks.h"
#include "target.h"
#include "tenants.h"
#include "version_table.h"
#include "view_pool.h"

#define MESSAGE_MAX	8192

struct leaving {
	struct rd_pool *pool;
	const char *name;
	const struct rd_doomed *doomed;
	struct rd_version version;
	bool names_pool;	/* does the table name any block of the pool? */
	char device[32];	/* the device that the table reads them from */
	struct rd_buffer runs;	/* struct dmr_range: those that must move */
	struct rd_buffer message;
};

/* --- what it names */

/* Add each block of @range that is doomed, as a range of its own. */
static void take_range(struct leaving *leaving, const struct dmr_range *range)
{
	const struct rd_doomed *doomed = leaving->doomed;
	u64 i, place = range->place[0].block;

	if (range->place[0].kind != DMR_POOL)
		return;
	leaving->names_pool = true;
	if (place > doomed->last || place + range->len <= doomed->first)
		return;
	for (i = 0; i < range->len; i++) {
		struct dmr_range one = { .first = range->first + i, .len = 1 };

		if (!rd_doomed_has(doomed, place + i))
			continue;
		one.place[0] = (struct dmr_entry){ .kind = DMR_POOL, .block = place + i };
		rd_buffer_put(&leaving->runs, &one, sizeof(one));
	}
}

/* Parse "<first>,<len>,<place>;... <next>" */
static int take_answer(struct leaving *leaving, char *answer, u64 *ret_next)
{
	static const struct dmr_range_rules rules = {
		.limit = U64_MAX, .nr_places = 1, .pool_blocks = U64_MAX,
	};
	char *blank = strrchr(answer, ' ');
	const char *at = answer;
	struct dmr_range range;
	int r = 0;

	if (!blank || sscanf(blank, " %llu", ret_next) != 1)
		return -EPROTO;
	*blank = '\0';
	while (strcmp(at, "-") && (r = dmr_range_next(&at, &rules, &range)) > 0)
		take_range(leaving, &range);
	return r;
}

/*
 * Read the table. The message settles: a place that the answer does not name is named nowhere.
 */
static int read_table(struct leaving *leaving)
{
	struct rd_target_devices devices;
	u64 next = 0, end;
	char text[80];
	int r;

	r = rd_target_devices(leaving->name, &devices);
	if (r || !strcmp(devices.pool, "-"))
		return r;
	memcpy(leaving->device, devices.pool, sizeof(leaving->device));
	end = rd_round_up(devices.sectors, 8) / 8;
	while (!r && next < end) {
		RD_FREE char *answer = NULL;
		u64 before = next;

		snprintf(text, sizeof(text), "table %llu %llu", next, end - next);
		r = rd_dm_try_message(leaving->name, text, &answer);
		if (!r)
			r = answer ? take_answer(leaving, answer, &next) : -EPROTO;
		if (!r && next <= before)
			r = -EPROTO;
	}
	return !r && leaving->runs.failed ? -ENOMEM : r;
}

int rd_device_names_pool(const char *name, bool *ret)
{
	static const struct rd_doomed nothing = { .first = 1 };
	struct leaving leaving = { .name = name, .doomed = &nothing };
	int r = read_table(&leaving);

	*ret = leaving.names_pool;
	rd_buffer_free(&leaving.runs);
	return r ? rd_err(r, "cannot read the table of '%s'", name) : 0;
}

/* --- sending it elsewhere */

static int send(struct leaving *leaving)
{
	int r;

	if (!leaving->message.len)
		return 0;
	rd_buffer_put_u8(&leaving->message, '\0');
	if (leaving->message.failed)
		return -ENOMEM;
	r = rd_dm_try_message(leaving->name, (char *)leaving->message.data, NULL);
	leaving->message.len = 0;
	return r;
}

static int add_remap(struct leaving *leaving, u64 block, u64 old, u64 new)
{
	char text[80];
	int len;

	len = snprintf(text, sizeof(text), "%s%llx,1,p%llx,p%llx",
		       leaving->message.len ? ";" : "remap ", block, old, new);
	rd_buffer_put(&leaving->message, text, len);
	return leaving->message.len > MESSAGE_MAX ? send(leaving) : 0;
}

/* Move the runs of one segment, from @i on. *@ret_next: the first of the next segment. */
static int move_segment(struct leaving *leaving, struct rd_resolver *resolver, size_t i,
			size_t *ret_next)
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
	for (; !r && i < nr && runs[i].first / RD_SEG_BLOCKS == segment; i++) {
		rd_place place = map.at[runs[i].first % RD_SEG_BLOCKS];
		u64 new;

		if (rd_place_kind(place) != RD_OWN)
			return -EUCLEAN;
		/* It has got there since inflate(). */
		if (rd_frame_is_packed(rd_place_id(place)))
			return -EAGAIN;
		new = rd_place_offset(place) / RD_BLOCK_SIZE;
		/* The catalog gives the place that it calls free: it is damaged. */
		if (rd_doomed_has(leaving->doomed, new))
			return -EUCLEAN;
		r = add_remap(leaving, runs[i].first, runs[i].place[0].block, new);
	}
	*ret_next = i;
	return r;
}

/*
 * Store raw what the version has in packs instead of the places that are doomed. A catalog that
 * is made anew must know that before the device does.
 */
static int inflate(struct leaving *leaving)
{
	const struct dmr_range *runs = (const struct dmr_range *)leaving->runs.data;
	RD_FREE u8 *wanted = calloc(1, rd_nr_segs(leaving->version.size) / 8 + 1);
	const struct rd_inflate what = { .wanted = wanted, .may_fill_up = true };
	size_t i, nr = leaving->runs.len / sizeof(*runs);
	u64 segment, bytes;
	int r;

	if (!wanted)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		segment = runs[i].first / RD_SEG_BLOCKS;
		if (segment < rd_nr_segs(leaving->version.size))
			wanted[segment / 8] |= 1 << segment % 8;
	}
	r = rd_inflate(leaving->pool, &leaving->version, &what, &bytes);
	return r || !bytes ? r : rd_journal_flush(leaving->pool);
}

static int move_all(struct leaving *leaving)
{
	size_t i = 0, nr = leaving->runs.len / sizeof(struct dmr_range);
	struct rd_resolver *resolver = rd_resolver_new(leaving->pool->sql);
	int r = resolver ? rd_version_prove(leaving->pool, &leaving->version) : -ENOMEM;

	if (!r)
		r = inflate(leaving);
	if (!r)
		r = rd_sql_begin_read(leaving->pool->sql);
	if (!r) {
		while (!r && i < nr)
			r = move_segment(leaving, resolver, i, &i);
		rd_sql_end_read(leaving->pool->sql);
	}
	if (!r)
		r = send(leaving);
	rd_resolver_free(resolver);
	return r;
}

/* A view is copied as it was, from where it was. */
static int move_off(struct leaving *leaving, const char *device)
{
	if (rd_is_view(device))
		return -ETXTBSY;
	return rd_is_mapped(device) ?
		rd_mapped_refresh(leaving->pool, &leaving->version, leaving->name) :
		move_all(leaving);
}

static int vacate(struct rd_lease_ops *ops, struct rd_pool *pool, const struct rd_lease *lease,
		  const struct rd_doomed *doomed)
{
	struct leaving leaving = { .pool = pool, .doomed = doomed };
	char name[RD_DM_NAME_MAX];
	int r;

	(void)ops;
	r = rd_dm_find(lease->device, name);
	if (r == -ENODEV)
		return rd_is_mapped_here(lease->device) || rd_is_view_here(lease->device) ? 1 : r;
	leaving.name = name;
	if (!r)
		r = rd_lease_version(pool->sql, lease, &leaving.version);
	if (!r)
		r = read_table(&leaving);
	/* All blocks of the volume are home. */
	if (!r && !leaving.names_pool)
		r = 1;
	/* A copy of a pool has the same leases, but other blocks at the same numbers. */
	if (!r)
		r = rd_poolblocks_compare(&pool->area, leaving.device);
	if (!r && leaving.runs.len)
		r = move_off(&leaving, lease->device);
	if (r == -EXDEV)
		rd_info("'%s' reads another copy of this pool", name);
	else if (r == -ETXTBSY)
		rd_info("'%s' is being copied: blocks that it reads are freed later", name);
	else if (r < 0)
		rd_info("'%s' cannot be moved off blocks about to be freed: %s", name,
			strerror(-r));
	rd_buffer_free(&leaving.runs);
	rd_buffer_free(&leaving.message);
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

struct rd_lease_ops rd_host_lease_ops = { .vacate = vacate };
