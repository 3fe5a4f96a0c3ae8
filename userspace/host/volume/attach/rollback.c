// SPDX-License-Identifier: GPL-2.0
/* Turn an attached volume into an earlier version, at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/device/target.h"
#include "host/volume/device/version_table.h"
#include "host/volume/freeze/pause.h"
#include "pool/catalog/segments.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/version/version.h"
#include "dedup_lease.h"
#include "rollback.h"
#include "tenants.h"

#define MESSAGE_MAX	16384
#define WINDOW		1024

struct rollback {
	struct rd_pool *pool;
	struct rd_attachment *at;
	const struct rd_version *version;
	const struct rd_rollback_options *options;
	struct rd_rollback_report *report;
	const struct rd_version *base;	/* what the volume has, but for what is dirty; or NULL */
	struct rd_target_devices devices;	/* of the volume, */
	u64 nr_segs, nr_blocks;	/* and its size */
	u8 *wanted;		/* a bit for each segment that is to be set */
	/* Messages, each with its zero; as many as possible are made before the suspend. */
	struct rd_buffer messages;
	size_t begin;		/* start of the message that is being made */
};

/* --- which segments */

static void want(struct rollback *rb, u64 segment)
{
	if (segment < rb->nr_segs)
		rb->wanted[segment / 8] |= 1 << segment % 8;
}

static bool is_wanted(const struct rollback *rb, u64 segment)
{
	return rb->wanted[segment / 8] >> segment % 8 & 1;
}

/* Prove both versions: the volume keeps its blocks where both name the same segment. */
static int prove(struct rollback *rb)
{
	int r = rd_version_prove(rb->pool, rb->version);

	return r || !rb->base ? r : rd_version_prove(rb->pool, rb->base);
}

static int want_different(struct rollback *rb)
{
	const struct rd_version *base = rb->base, *to = rb->version;
	i64 then[WINDOW], now[WINDOW];
	u64 first, i;
	int r = 0;

	for (first = 0; first < rb->nr_segs && !r; first += WINDOW) {
		if (base)
			r = rd_segments_read(rb->pool->sql, base->volume, base->number, first,
					     WINDOW, then);
		if (!r && base)
			r = rd_segments_read(rb->pool->sql, to->volume, to->number, first, WINDOW,
					     now);
		for (i = 0; i < WINDOW && !r; i++)
			if (!base || then[i] != now[i])
				want(rb, first + i);
	}
	return r;
}

static int want_dirty(struct rollback *rb)
{
	RD_BUFFER struct rd_buffer ranges = { 0 };
	const struct rd_changed_range *range;
	u64 segment;
	int r;

	if (!rb->base)
		return 0;
	r = rd_target_dirty(rb->at->device, "current", rb->nr_segs, &ranges);
	rd_each(range, &ranges)
		for (segment = 0; !r && segment < range->len >> RD_SEG_SHIFT; segment++)
			want(rb, (range->offset >> RD_SEG_SHIFT) + segment);
	return r;
}

/* --- messages */

static void end_message(struct rollback *rb)
{
	if (rb->messages.len == rb->begin)
		return;
	rd_buffer_put_u8(&rb->messages, '\0');
	rb->begin = rb->messages.len;
}

static int add_range(void *ctx, const struct dmr_range *range)
{
	struct rollback *rb = ctx;
	bool is_first = rb->messages.len == rb->begin;
	char text[64 + DMR_PLACE_TEXT];
	int n, r = 0;
	u64 len;

	/* A version that had none when that was checked may have some by now. */
	if (range->place[0].kind == DMR_PACK)
		r = rd_target_require_packs();
	/* The volume may be smaller than the version was. */
	if (r || range->first >= rb->nr_blocks)
		return r;
	len = rd_min(range->len, rb->nr_blocks - range->first);
	n = snprintf(text, sizeof(text), "%s%llx,%llx,", is_first ? "set " : ";", range->first,
		     len);
	n += dmr_place_print(text + n, range->place[0]);
	rd_buffer_put(&rb->messages, text, n);
	if (rb->messages.len - rb->begin > MESSAGE_MAX)
		end_message(rb);
	return rb->messages.failed ? -ENOMEM : 0;
}

/* Add zeros for the blocks beyond the end of the version. */
static int add_beyond(struct rollback *rb, u64 first, u64 end)
{
	u64 had = rd_round_up(rb->version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	struct dmr_range range = {
		.first = rd_max(first * RD_SEG_BLOCKS, had),
		.place[0].kind = DMR_ZERO,
	};

	if (range.first >= end * RD_SEG_BLOCKS)
		return 0;
	range.len = end * RD_SEG_BLOCKS - range.first;
	return add_range(rb, &range);
}

static int add_segments(struct rollback *rb, u64 first, u64 end)
{
	int r;

	rb->report->nr_segs += end - first;
	r = rd_version_table_walk(rb->pool, rb->version, first, end - first, add_range, rb);
	return r ? r : add_beyond(rb, first, end);
}

/* Make messages for the wanted segments, and clear their bits. */
static int make_messages(struct rollback *rb)
{
	u64 first, end = 0;
	int r = 0;

	while (!r && end < rb->nr_segs) {
		for (first = end; first < rb->nr_segs && !is_wanted(rb, first); first++)
			;
		for (end = first; end < rb->nr_segs && is_wanted(rb, end); end++)
			;
		if (first < end)
			r = add_segments(rb, first, end);
	}
	end_message(rb);
	memset(rb->wanted, 0, rb->nr_segs / 8 + 1);
	return !r && rb->messages.failed ? -ENOMEM : r;
}

static int send_messages(const struct rollback *rb)
{
	size_t at = 0;
	int r = 0;

	while (!r && at < rb->messages.len) {
		const char *text = (const char *)rb->messages.data + at;

		r = rd_dm_message(rb->at->device, text, NULL);
		at += strlen(text) + 1;
	}
	return r;
}

/* --- doing it */

static int measure(struct rollback *rb)
{
	int r = rd_target_devices(rb->at->device, &rb->devices);

	if (r)
		return rd_err(r, "'%s' is not tracked", rb->at->volume);
	rb->nr_blocks = rd_round_up(rb->devices.sectors, 8) / 8;
	rb->nr_segs = rd_round_up(rb->nr_blocks, RD_SEG_BLOCKS) / RD_SEG_BLOCKS;
	rb->wanted = calloc(1, rb->nr_segs / 8 + 1);
	return rb->wanted ? 0 : -ENOMEM;
}

/* Load the table. The metadata may name another pool, which was given up. */
static int load_table(const struct rollback *rb, const struct rd_target_table *table)
{
	int r = rd_target_load(rb->at->device, table, 0);

	if (r == -EXDEV)
		rd_remedy(RD_REMEDY_REATTACH, rb->at->volume,
			  "nothing was changed; blocks of '%s' were copied from another pool",
			  rb->at->volume);
	return r;
}

/*
 * Give the table the pool. @keep: keep the pool that the table has, if it has one: it was
 * suspended while places were set. Otherwise all blocks are home, and the table may have the
 * pool of an earlier roll-back.
 */
static int load_with_pool(struct rollback *rb, bool keep)
{
	struct rd_poolblocks blocks = RD_POOLBLOCKS_NONE;
	const struct rd_target_devices *devices = &rb->devices;
	const struct rd_target_table table = {
		.sectors = devices->sectors,
		.base = devices->base,
		.meta = devices->meta,
		.pool = blocks.path,
		.volume_uuid = rb->at->uuid,
		.pool_uuid = rb->pool->area.super.uuid,
	};
	int r;

	if (keep && strcmp(devices->pool, "-")) {
		r = rd_poolblocks_compare(&rb->pool->area, devices->pool);
		return r ? rd_err(r, "'%s' was rolled back from another pool than '%s'",
				  rb->at->volume, rb->pool->path) : 0;
	}
	r = rd_poolblocks_open(&blocks, rb->pool->path, false);
	if (!r)
		r = load_table(rb, &table);
	/* The new table must take the messages. */
	if (!r)
		r = rd_dm_swap(rb->at->device, 0);
	rd_poolblocks_close(&blocks);
	return r;
}

static int hydrate(struct rollback *rb)
{
	char text[64] = "hydrate start";

	if (rb->options->rate_mib)
		snprintf(text, sizeof(text), "hydrate start %llu", rb->options->rate_mib);
	return rd_dm_message(rb->at->device, text, NULL);
}

/* Set all places, those of segments that were written since the messages were made last. */
static int set_all(struct rollback *rb)
{
	int r;

	r = want_dirty(rb);
	if (!r)
		r = make_messages(rb);
	if (!r)
		r = rd_dm_message(rb->at->device, "begin", NULL);
	if (!r)
		r = rd_failpoint("rollback-begun");
	if (!r)
		r = send_messages(rb);
	/* Whoever is killed from here on, it goes on by itself. */
	if (!r)
		r = hydrate(rb);
	if (!r)
		r = rd_failpoint("rollback-set");
	return r ? r : rd_dm_message(rb->at->device, "end", NULL);
}

static int while_suspended(void *ctx)
{
	int r = rd_failpoint("rollback-suspended");

	if (!r)
		r = set_all(ctx);
	return r ? r : rd_failpoint("rollback-ended");
}

static int pause_volume(struct rollback *rb)
{
	struct rd_paused device = { .inner = "" };
	struct rd_pause pause = {
		.devices = &device,
		.nr = 1,
		.repeat = rb->options->repeat,
		.work = while_suspended,
		.ctx = rb,
	};
	int resumed, r;

	memcpy(device.device, rb->at->device, sizeof(device.device));
	r = rd_pause(&pause, &resumed);
	if (resumed == -EUCLEAN) {
		rd_err(0, "'%s' is half rolled back and stays suspended", rb->at->volume);
		rd_remedy(RD_REMEDY_FINISH_ROLL_BACK, rb->at->volume, NULL);
	}
	rb->report->pause_us = pause.usec;
	return r;
}

static int roll_back(struct rollback *rb)
{
	int r;

	r = want_dirty(rb);
	if (!r)
		r = make_messages(rb);
	/* As in rd_version_table_write(). */
	if (!r)
		r = rd_journal_flush(rb->pool);
	return r ? r : pause_volume(rb);
}

/* --- leases */

static void refuse_away(const struct rd_attachment *at, const struct rd_target_status *status)
{
	u64 mib = (status->nr_pool + status->nr_zero) >> 8;

	if (strcmp(status->hydration, "off")) {
		rd_err(0, "'%s' is still being copied back from the pool '%s': %llu MiB left",
		       at->volume, at->pool, mib);
		rd_remedy(RD_REMEDY_SEE_STATUS, NULL, "nothing was changed");
		return;
	}
	rd_err(0, "blocks of '%s' lie in the pool '%s' and stay there: %llu MiB", at->volume,
	       at->pool, mib);
	rd_remedy(RD_REMEDY_RECALL, at->volume, "nothing was changed");
}

/*
 * Refuse a volume with blocks in the pool: they must all belong to one version, or the pool
 * could not tell where else they are when their place is about to be freed.
 */
int rd_rollback_check(const struct rd_attachment *at)
{
	struct rd_target_status status;
	bool is_away;
	int r = rd_target_status(at->device, &status);

	if (r)
		return rd_err(r, "'%s' is not tracked", at->volume);
	/* After a crash the numbers of the status may be off. */
	r = rd_device_names_pool(at->device, &is_away);
	if (r || !is_away)
		return r;
	refuse_away(at, &status);
	return -EBUSY;
}

/* Record the pool's path, which attach needs at boot if blocks still lie there. */
static int note_pool(struct rd_pool *pool, struct rd_attachment *at)
{
	int r = rd_attachment_path(at->pool, pool);

	at->is_zeros = false;
	return r ? r : rd_attachment_save(at);
}

static void tear_down(struct rollback *rb)
{
	rd_buffer_free(&rb->messages);
	free(rb->wanted);
}

int rd_rollback(struct rd_pool *pool, struct rd_attachment *at,
		const struct rd_version *version, const struct rd_rollback_options *options,
		struct rd_rollback_report *report)
{
	struct rollback rb = { pool, at, version, options, report, .base = options->base };
	struct rd_lock shut = RD_LOCK_NONE;
	char device[RD_DM_NAME_MAX];
	i64 lease;
	int r;

	memset(report, 0, sizeof(*report));
	rd_part_uuid(device, at, NULL);
	r = rd_rollback_check(at);
	if (!r)
		r = prove(&rb);
	if (!r)
		r = measure(&rb);
	/*
	 * The lease of a roll-back whose blocks are all home. It goes before the new one comes:
	 * nothing is read by it any more, and of two leases with different content the device
	 * could be asked to follow the wrong one.
	 */
	if (!r)
		r = rd_lease_drop_device(pool, device);
	if (!r)
		r = rd_lease_shut(pool, &shut);
	/* Who writes past the target may have come since the base was made: no bit says where. */
	if (!r && rd_block_is_open(at->base)) {
		rb.base = NULL;
		r = rd_attachment_bypassed(at);
	}
	if (!r)
		r = want_different(&rb);
	if (!r)
		r = load_with_pool(&rb, false);
	if (!r)
		r = note_pool(pool, at);
	if (!r)
		r = rd_lease_add(pool, version, device, &lease);
	if (!r)
		r = roll_back(&rb);
	rd_lock_drop(&shut);
	tear_down(&rb);
	if (!r)
		rd_free_queue_late(pool);
	return r;
}

/* --- again */

static int repeat(struct rollback *rb)
{
	int r = prove(rb);

	if (!r)
		r = rd_version_table_check(rb->pool, rb->version);
	if (!r)
		r = measure(rb);
	if (!r)
		r = load_with_pool(rb, true);
	if (!r)
		r = want_different(rb);
	if (!r)
		r = rd_journal_flush(rb->pool);
	if (!r)
		r = set_all(rb);
	return r ? r : rd_dm_resume(rb->at->device, 0);
}

static int version_of_device(struct rd_pool *pool, const struct rd_attachment *at,
			     struct rd_version *ret)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	int r;

	r = rd_leases_of(pool, at, &leases);
	if (!r && leases.len != sizeof(struct rd_lease))
		r = -ENOENT;
	if (!r)
		r = rd_lease_version(pool->sql, (struct rd_lease *)leases.data, ret);
	return r;
}

int rd_rollback_repeat(struct rd_pool *pool, struct rd_attachment *at)
{
	static const struct rd_rollback_options all;
	struct rd_rollback_report report = { 0 };
	struct rd_lock shut = RD_LOCK_NONE;
	struct rd_version version;
	struct rollback rb = { pool, at, &version, &all, &report, .begin = 0 };
	int r;

	r = version_of_device(pool, at, &version);
	if (!r)
		r = rd_lease_shut(pool, &shut);
	if (!r)
		r = repeat(&rb);
	rd_lock_drop(&shut);
	tear_down(&rb);
	return r;
}
