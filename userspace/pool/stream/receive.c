// SPDX-License-Identifier: GPL-2.0
/* Which versions are received, one after the other: see receive.h. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/engine/snapshot/snapshot.h"
#include "receiver.h"

/*
 * What the pool had may go while a version arrives, and a block of it may turn out to be damaged:
 * then the sender is asked again, the last time for all.
 */
#define MAX_TRIES	4

/* --- what is there */

static int find_volume(struct rd_receiver *receiver, const char *name)
{
	int r = rd_volume_find(receiver->pool->sql, name, &receiver->volume_id);

	if (r == -ENOENT)
		receiver->volume_id = 0;
	return r == -ENOENT ? 0 : r;
}

static bool may_write(const struct rd_receiver *receiver, const char *name)
{
	const struct rd_receive_options *options = receiver->options;

	return options->is_volume(name) &&
		(!options->may_write || options->may_write(options->ctx, name));
}

/* Append the newest versions of the volume, the newest first. */
static int list_known(struct rd_receiver *receiver, struct rd_buffer *to)
{
	struct rd_version version = { .number = INT64_MAX };
	unsigned int nr;
	int r = 0;

	for (nr = 0; nr < RD_HAS_MAX && receiver->volume_id && !r; nr++) {
		r = rd_version_before(receiver->pool->sql, receiver->volume_id, version.number,
				      &version);
		if (!r)
			rd_known_put(to, &(struct rd_known){
				.uid = version.uid,
				.number = version.number,
				.pin = version.sum,
			});
	}
	return r == -ENOENT ? 0 : r;
}

/* A volume that the sender may not write to is one that is not there. */
static int answer_volume(struct rd_receiver *receiver, const struct rd_record *record)
{
	RD_BUFFER struct rd_buffer payload = { 0 };
	const char *name = rd_text_get(record);
	int r = 0;

	if (!name)
		return rd_wire_refuse(receiver->wire, "the name of a volume that cannot be read");
	if (receiver->options->as)
		name = receiver->options->as;
	if (may_write(receiver, name)) {
		r = find_volume(receiver, name);
		if (!r)
			r = list_known(receiver, &payload);
	}
	return r ? r : rd_wire_put_buffer(receiver->wire, RD_REC_HAS, &payload);
}

/* --- refusing a version */

static const char there_already[] = "it is there already";

static int skip(struct rd_receiver *receiver, const char *why)
{
	struct rd_record record;
	int r = 0;

	if (why != there_already) {
		rd_warn("a version of '%s' is not taken: %s", receiver->volume, why);
		receiver->report->skipped++;
	}
	if (!receiver->is_file) {
		r = rd_wire_put(receiver->wire, RD_REC_SKIP, why, strlen(why) + 1);
		return r ? r : rd_wire_flush(receiver->wire);
	}
	do {
		r = rd_wire_get(receiver->wire, &record, true);
	} while (!r && record.type != RD_REC_END);
	return r;
}

static int check_limit(struct rd_receiver *receiver, bool *ret_full)
{
	u64 frames = receiver->pool->area.super.nr_frames, nr_free;
	int r = rd_frames_nr_free(receiver->pool->sql, &nr_free);

	*ret_full = !r && ((frames - nr_free) << RD_SEG_SHIFT) > receiver->options->limit;
	return r;
}

/* Why not: NULL if the version is to be taken. */
static int judge(struct rd_receiver *receiver, const struct rd_offer *offer, const char *volume,
		 const char **ret_why)
{
	bool full = false;
	int r;

	*ret_why = NULL;
	if (!may_write(receiver, volume)) {
		*ret_why = "it may not write to that volume";
		return 0;
	}
	if (offer->known.uid <= 0 || offer->known.number <= 0 || offer->size > RD_VERSION_MAX ||
	    offer->time < 0 || strlen(offer->comment) >= sizeof(receiver->base.comment)) {
		*ret_why = "it cannot be";
		return 0;
	}
	r = find_volume(receiver, volume);
	if (!r && receiver->volume_id)
		r = rd_version_is_there(receiver->pool->sql, receiver->volume_id,
					offer->known.uid, offer->known.pin);
	if (r > 0)
		*ret_why = there_already;
	if (!r)
		r = check_limit(receiver, &full);
	if (full)
		*ret_why = "the limit of the pool is reached";
	return r < 0 ? r : 0;
}

/* --- taking one */

/* Keep tags that are tags. */
static int choose_tags(struct rd_receiver *receiver, const struct rd_offer *offer,
		       struct rd_buffer *ret)
{
	const char *tag = offer->tags, *end = tag + offer->tags_len;

	for (; tag < end; tag += strlen(tag) + 1)
		if (receiver->options->is_tag(tag))
			rd_buffer_put(ret, tag, strlen(tag) + 1);
	return rd_buffer_put_u8(ret, '\0');
}

/* The version exists: what follows may take a while. */
static int tell_done(void *ctx, const struct rd_version *version)
{
	struct rd_receiver *receiver = ctx;
	u8 number[8];
	int r;

	receiver->report->versions++;
	if (receiver->is_file)
		return 0;
	rd_put_u64(number, version->number);
	r = rd_wire_put(receiver->wire, RD_REC_DONE, number, sizeof(number));
	return r ? r : rd_wire_flush(receiver->wire);
}

static int take(struct rd_receiver *receiver, const struct rd_offer *offer,
		const struct rd_snapshot_options *options)
{
	u64 before = receiver->wire->taken, versions = receiver->report->versions;
	struct rd_snapshot_report report;
	unsigned int tries;
	int r = -EAGAIN;

	rd_receive_feed(receiver, offer);
	for (tries = 0; tries < MAX_TRIES && (r == -EAGAIN || r == -EBADMSG); tries++) {
		receiver->trust_nothing = tries == MAX_TRIES - 1 || r == -EBADMSG;
		r = rd_snapshot(receiver->pool, options, &report);
		if (r == -EBADMSG && (receiver->trust_nothing || receiver->is_file))
			break;
		if (receiver->is_file || receiver->report->versions > versions)
			break;
	}
	rd_receive_forget(receiver);
	if (r == -EEXIST)
		return skip(receiver, there_already);
	if (r == -EBUSY && !receiver->has_begun)
		return skip(receiver, "another command works on the volume");
	if (r == -EAGAIN)
		r = rd_err(-EIO, "'%s': the pool changes too fast", options->volume);
	else if (r == -EBADMSG)
		rd_err(0, "'%s': what has arrived is not the version that was announced",
		       options->volume);
	receiver->report->blocks_changed += r ? 0 : report.version.blocks_changed;
	if (!r && receiver->options->tell)
		receiver->options->tell(receiver->options->ctx, options->volume, &report.version,
					receiver->wire->taken - before);
	return r;
}

static int take_offer(struct rd_receiver *receiver, const struct rd_record *record)
{
	RD_BUFFER struct rd_buffer copy = { 0 }, tags = { 0 };
	struct rd_record own = *record;
	struct rd_snapshot_options options = {
		.feed = &receiver->feed,
		.keep_tags = receiver->options->append_only,
		.copied = tell_done,
		.ctx = receiver,
	};
	struct rd_offer offer;
	const char *why;
	int r;

	/* It is needed for longer than the record. */
	rd_buffer_put(&copy, record->data, record->len);
	own.data = copy.data;
	r = copy.failed ? -ENOMEM : 0;
	if (!r && rd_offer_get(&own, &offer))
		r = rd_wire_refuse(receiver->wire, "a version that cannot be read");
	if (!r) {
		receiver->volume = receiver->options->as ? receiver->options->as : offer.volume;
		receiver->offered = offer.known;
		r = judge(receiver, &offer, receiver->volume, &why);
	}
	if (!r && why) {
		r = skip(receiver, why);
	} else if (!r) {
		options.volume = receiver->volume;
		options.comment = offer.comment;
		r = choose_tags(receiver, &offer, &tags);
		options.tags = (const char *)tags.data;
		if (!r)
			r = take(receiver, &offer, &options);
	}
	return r;
}

/* --- all of them */

static int take_all(struct rd_receiver *receiver)
{
	struct rd_record record;
	int r = 0;

	while (!r) {
		if (!receiver->is_file)
			r = rd_wire_flush(receiver->wire);
		if (!r)
			r = rd_wire_get(receiver->wire, &record, true);
		if (r || record.type == RD_REC_BYE)
			return r;
		if (record.type == RD_REC_VOLUME && !receiver->is_file)
			r = answer_volume(receiver, &record);
		else if (record.type == RD_REC_OFFER)
			r = take_offer(receiver, &record);
		else
			r = rd_wire_refuse(receiver->wire, "an unexpected record");
	}
	return r;
}

int rd_receive(struct rd_pool *pool, struct rd_wire *wire,
	       const struct rd_receive_options *options, struct rd_receive_report *report)
{
	RD_FREE struct rd_receiver *receiver = calloc(1, sizeof(*receiver));
	int r;

	memset(report, 0, sizeof(*report));
	if (!receiver)
		return -ENOMEM;
	receiver->pool = pool;
	receiver->wire = wire;
	receiver->options = options;
	receiver->report = report;
	receiver->is_file = wire->out < 0;
	r = rd_receive_find_new(receiver);
	if (!r)
		r = take_all(receiver);
	rd_receive_forget(receiver);
	rd_receive_find_free(receiver);
	return r;
}
