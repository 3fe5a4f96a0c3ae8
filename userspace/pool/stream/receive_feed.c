// SPDX-License-Identifier: GPL-2.0
/*
 * The conversation about one version, as the receiver has it: a feed of a snapshot.
 *
 * Whenever the snapshot asks for the next segment and that is not there yet, records are taken and
 * answered until it is. All content is of the first segment in the queue, so it is written where
 * the snapshot wants it, and memory does not depend on the version.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "receiver.h"

void rd_receive_forget(struct rd_receiver *receiver)
{
	for (; receiver->head < receiver->tail; receiver->head++)
		free(rd_arriving_at(receiver, receiver->head)->places);
	receiver->head = 0;
	receiver->told = 0;
	receiver->tail = 0;
	receiver->nr_told = 0;
}

/* --- beginning */

static int want(struct rd_receiver *receiver, u64 from)
{
	RD_BUFFER struct rd_buffer payload = { 0 };
	struct rd_want want = { .from = from };
	int r;

	if (receiver->base.id && !receiver->trust_nothing)
		want.base = (struct rd_known){
			.uid = receiver->base.uid,
			.number = receiver->base.number,
			.pin = receiver->base.sum,
		};
	if (getrandom(receiver->nonce, RD_NONCE, 0) != RD_NONCE)
		return rd_err(-errno, "no random number");
	memcpy(want.nonce, receiver->nonce, RD_NONCE);
	rd_want_put(&payload, &want);
	r = rd_wire_put_buffer(receiver->wire, RD_REC_WANT, &payload);
	return r ? r : rd_wire_flush(receiver->wire);
}

/* Find where it begins: of an earlier try, something may still be on its way. */
static int await_begin(struct rd_receiver *receiver, struct rd_record *ret)
{
	int r;

	do {
		r = rd_wire_get(receiver->wire, ret, true);
	} while (!r && ret->type != RD_REC_VERSION && receiver->has_begun);
	if (!r && ret->type != RD_REC_VERSION)
		return rd_wire_refuse(receiver->wire, "an unexpected record");
	receiver->has_begun = true;
	return r;
}

static int refuse_base(const struct rd_receiver *receiver, const struct rd_known *base)
{
	const struct rd_version *have = &receiver->base;

	rd_err(0, "'%s' holds what changed since version %lld (uid %016llx), and %s",
	       receiver->wire->peer, base->number, base->uid,
	       have->id ? "the newest version here is another" : "there is no version here");
	if (have->id)
		rd_hint("nothing was changed; here is '%s@%lld' (uid %016llx)", receiver->volume,
			have->number, have->uid);
	else
		rd_hint("nothing was changed; receive first what holds version %lld", base->number);
	return -ENOENT;
}

static int begin(struct rd_feed *feed, const struct rd_version *base, u64 from,
		 unsigned int pieces)
{
	struct rd_receiver *receiver = (struct rd_receiver *)feed;
	struct rd_record record;
	struct rd_begin begin;
	int r;

	rd_receive_forget(receiver);
	receiver->has_ended = false;
	receiver->base = *base;
	receiver->pieces = pieces;
	receiver->from = from;
	receiver->zeros = from;
	r = rd_receive_open_index(receiver);
	if (!r && !receiver->is_file)
		r = want(receiver, from);
	if (!r)
		r = await_begin(receiver, &record);
	if (r)
		return r;
	if (rd_begin_get(&record, &begin) || begin.from > from ||
	    (!receiver->is_file && begin.from != from))
		return rd_wire_refuse(receiver->wire, "the begin of a version that was not wanted");
	receiver->is_delta = begin.is_delta;
	receiver->next = begin.from;
	if (begin.is_delta && (!base->id || begin.base.uid != base->uid ||
			       begin.base.pin != base->sum))
		return refuse_base(receiver, &begin.base);
	return 0;
}

/* --- what the sender tells */

static u64 end_of(const struct rd_receiver *receiver)
{
	u64 end = rd_nr_segs(receiver->feed.size);

	return receiver->base.id ? rd_max(end, rd_nr_segs(receiver->base.size)) : end;
}

static bool is_lacking(const struct rd_arriving *arriving)
{
	return arriving->state == RD_ARRIVING_LACKING;
}

static void pass_by_found(struct rd_receiver *receiver)
{
	while (receiver->told < receiver->tail &&
	       !is_lacking(rd_arriving_at(receiver, receiver->told)))
		receiver->told++;
}

static int take_name(struct rd_receiver *receiver, const u8 *bytes, u8 *ret_answer)
{
	struct rd_arriving *arriving;
	struct rd_named named;
	enum rd_have have;
	int r;

	rd_named_get(bytes, &named);
	if (named.segment < receiver->next || named.segment >= end_of(receiver) ||
	    (named.segment >= rd_nr_segs(receiver->feed.size) &&
	     !rd_is_zero(&named.fp, sizeof(named.fp))) ||
	    receiver->tail - receiver->head == RD_RECEIVE_QUEUE)
		return rd_wire_refuse(receiver->wire, "a segment that cannot be");
	receiver->next = named.segment + 1;
	arriving = rd_arriving_at(receiver, receiver->tail);
	memset(arriving, 0, sizeof(*arriving));
	arriving->named = named;
	r = rd_receive_find_segment(receiver, arriving, &have);
	if (r)
		return r;
	receiver->tail++;
	*ret_answer = have;
	return 0;
}

static int take_names(struct rd_receiver *receiver, const struct rd_record *record)
{
	u32 i, nr = record->len / RD_NAMED_SIZE;
	u8 answer[RD_SEND_NAMES];
	int r = 0;

	if (!nr || record->len % RD_NAMED_SIZE || nr > RD_SEND_NAMES)
		return rd_wire_refuse(receiver->wire, "segments that cannot be read");
	for (i = 0; i < nr && !r; i++)
		r = take_name(receiver, record->data + i * RD_NAMED_SIZE, &answer[i]);
	return r || receiver->is_file ? r :
		rd_wire_put(receiver->wire, RD_REC_HAVE, answer, nr);
}

static int answer_need(struct rd_receiver *receiver, const struct rd_need *need)
{
	RD_BUFFER struct rd_buffer payload = { 0 };

	rd_need_put(&payload, need);
	return rd_wire_put_buffer(receiver->wire, RD_REC_NEED, &payload);
}

static int take_blocks(struct rd_receiver *receiver, const struct rd_record *record)
{
	struct rd_arriving *arriving;
	struct rd_blocks_of blocks;
	int r;

	pass_by_found(receiver);
	if (receiver->told == receiver->tail || rd_blocks_of_get(record, &blocks) ||
	    receiver->nr_told + blocks.nr > RD_RECEIVE_BLOCKS)
		return rd_wire_refuse(receiver->wire, "blocks that nothing was asked of");
	arriving = rd_arriving_at(receiver, receiver->told);
	if (blocks.segment != arriving->named.segment)
		return rd_wire_refuse(receiver->wire, "blocks of another segment");
	r = rd_receive_find_blocks(receiver, arriving, &blocks);
	if (r)
		return r;
	receiver->nr_told += arriving->nr_told;
	receiver->told++;
	arriving->state = rd_slots_are_none(&arriving->need.need) &&
		rd_slots_are_none(&arriving->need.prove) ?
		RD_ARRIVING_THERE : RD_ARRIVING_TOLD;
	return receiver->is_file ? 0 : answer_need(receiver, &arriving->need);
}

/* The segment that all content is of. NULL: there is none. */
static struct rd_arriving *first_of(struct rd_receiver *receiver, u64 segment)
{
	struct rd_arriving *arriving = rd_arriving_at(receiver, receiver->head);

	return receiver->head < receiver->tail && arriving->named.segment == segment ?
		arriving : NULL;
}

static int take_proof(struct rd_receiver *receiver, const struct rd_record *record)
{
	struct rd_arriving *arriving;
	int r;

	if (record->len != RD_PROOF_SIZE)
		return rd_wire_refuse(receiver->wire, "a proof that cannot be read");
	arriving = first_of(receiver, rd_get_u64(record->data));
	if (!arriving || arriving->is_proven || rd_slots_are_none(&arriving->need.prove))
		return rd_wire_refuse(receiver->wire, "a proof that nothing was asked of");
	r = rd_receive_is_proven(receiver, arriving, record->data + 8);
	if (r < 0)
		return r;
	/* A block that is damaged here, has moved, or that the sender does not have. */
	if (!r)
		return -EBADMSG;
	arriving->is_proven = true;
	if (arriving->state == RD_ARRIVING_PROVE)
		arriving->state = RD_ARRIVING_SHARED;
	else if (rd_slots_are_none(&arriving->need.need))
		arriving->state = RD_ARRIVING_THERE;
	return 0;
}

/* Keep a pack as it comes: a thread decodes it. */
static void keep_pack(struct rd_arriving *arriving, const struct rd_data *from,
		      const struct rd_feed_to *to)
{
	arriving->is_packed = true;
	*to->head = from->head;
	memcpy(to->pack + RD_PACK_HEAD, from->bytes, from->len);
}

/* Put the blocks of a record where they belong in the segment @data. */
static int unpack(struct rd_receiver *receiver, const struct rd_data *from, u8 *data)
{
	struct rd_slots slots = rd_pack_slots(&from->head);
	size_t len = (size_t)rd_slots_count(&slots) * RD_BLOCK_SIZE, found = from->len;
	const u8 *bytes = from->bytes;
	unsigned int i;

	if (from->codec == RD_DATA_ZSTD) {
		found = ZSTD_decompressDCtx(receiver->decoder, receiver->data, RD_SEG_SIZE,
					    from->bytes, from->len);
		bytes = receiver->data;
	}
	if (ZSTD_isError(found) || found != len)
		return rd_wire_refuse(receiver->wire, "content that cannot be decoded");
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!rd_slots_test(&slots, i))
			continue;
		memcpy(data + (size_t)i * RD_BLOCK_SIZE, bytes, RD_BLOCK_SIZE);
		bytes += RD_BLOCK_SIZE;
	}
	return 0;
}

static int take_data(struct rd_receiver *receiver, const struct rd_record *record,
		     const struct rd_feed_to *to)
{
	struct rd_arriving *arriving;
	struct rd_data content = { 0 };

	if (rd_data_get(record, &content))
		return rd_wire_refuse(receiver->wire, "content that cannot be read");
	arriving = first_of(receiver, content.segment);
	if (!arriving || arriving->state != RD_ARRIVING_TOLD ||
	    (!rd_slots_are_none(&arriving->need.prove) && !arriving->is_proven) ||
	    memcmp(content.head.slots, &arriving->need.need, sizeof(arriving->need.need)))
		return rd_wire_refuse(receiver->wire, "content that nothing was asked of");
	arriving->state = RD_ARRIVING_THERE;
	if (content.codec != RD_DATA_PACK)
		return unpack(receiver, &content, to->data);
	keep_pack(arriving, &content, to);
	return 0;
}

static int take_end(struct rd_receiver *receiver)
{
	pass_by_found(receiver);
	if (receiver->told < receiver->tail)
		return rd_wire_refuse(receiver->wire, "the end of a version that it is not");
	receiver->has_ended = true;
	return 0;
}

static int take_record(struct rd_receiver *receiver, const struct rd_feed_to *to)
{
	u64 before = receiver->wire->taken;
	struct rd_record record;
	int r;

	/* Answers go out before this side waits for more. */
	r = rd_wire_get(receiver->wire, &record, false);
	if (!r && !record.type) {
		r = receiver->is_file ? 0 : rd_wire_flush(receiver->wire);
		if (!r)
			r = rd_wire_get(receiver->wire, &record, true);
	}
	receiver->feed.bytes += receiver->wire->taken - before;
	if (r)
		return r;
	switch (record.type) {
	case RD_REC_SEGMENTS:
		return take_names(receiver, &record);
	case RD_REC_BLOCKS:
		return take_blocks(receiver, &record);
	case RD_REC_PROOF:
		return take_proof(receiver, &record);
	case RD_REC_DATA:
		return take_data(receiver, &record, to);
	case RD_REC_END:
		return take_end(receiver);
	}
	return rd_wire_refuse(receiver->wire, "an unexpected record");
}

/* --- the feed */

static int pop(struct rd_receiver *receiver, struct rd_arriving *arriving, u8 *data,
	       struct rd_feed_segment *ret)
{
	int r = 0;

	ret->is_packed = false;
	ret->segment = arriving->named.segment;
	ret->end = ret->segment + 1;
	ret->fp = arriving->named.fp;
	switch (arriving->state) {
	case RD_ARRIVING_ZEROS:
		ret->kind = RD_FEED_ZEROS;
		break;
	case RD_ARRIVING_SHARED:
		ret->kind = RD_FEED_SHARED;
		break;
	default:
		ret->kind = RD_FEED_CONTENT;
		ret->is_packed = arriving->is_packed;
		r = rd_receive_fill(receiver, arriving, data);
		/* It has moved, or is damaged: the sender has it. */
		if (r && r != -ENOMEM)
			r = -EBADMSG;
	}
	receiver->nr_told -= arriving->nr_told;
	free(arriving->places);
	receiver->head++;
	receiver->told = rd_max(receiver->told, receiver->head);
	return r;
}

static bool is_there(const struct rd_arriving *arriving)
{
	return arriving->state == RD_ARRIVING_ZEROS || arriving->state == RD_ARRIVING_SHARED ||
		arriving->state == RD_ARRIVING_THERE;
}

/*
 * What no segment was named of is zeros, unless only what has changed is told; behind the end of
 * the version all is.
 */
static bool take_gap(struct rd_receiver *receiver, u64 end, struct rd_feed_segment *ret)
{
	if (receiver->is_delta)
		receiver->zeros = rd_max(receiver->zeros, rd_nr_segs(receiver->feed.size));
	if (receiver->zeros >= end)
		return false;
	*ret = (struct rd_feed_segment){
		.kind = RD_FEED_ZEROS,
		.segment = receiver->zeros,
		.end = end,
	};
	receiver->zeros = end;
	return true;
}

/* Of a file that is read from its beginning again, what has arrived is passed by. */
static bool is_old(const struct rd_receiver *receiver, const struct rd_feed_segment *fed)
{
	return receiver->is_file && fed->segment < receiver->from;
}

static int next(struct rd_feed *feed, const struct rd_feed_to *to, struct rd_feed_segment *ret)
{
	struct rd_receiver *receiver = (struct rd_receiver *)feed;
	struct rd_arriving *arriving;
	int r = 0;

	for (;;) {
		arriving = rd_arriving_at(receiver, receiver->head);
		/* Before any content of it has come, which goes to @to of the same call. */
		if (receiver->head < receiver->tail &&
		    take_gap(receiver, arriving->named.segment, ret))
			return 0;
		if (receiver->head < receiver->tail && is_there(arriving)) {
			receiver->zeros = rd_max(receiver->zeros, arriving->named.segment + 1);
			r = pop(receiver, arriving, to->data, ret);
			if (r || !is_old(receiver, ret))
				return r;
			continue;
		}
		if (receiver->has_ended && receiver->head < receiver->tail)
			return rd_wire_refuse(receiver->wire, "the end of a version that it is not");
		if (receiver->has_ended) {
			ret->kind = RD_FEED_END;
			take_gap(receiver, end_of(receiver), ret);
			return 0;
		}
		r = take_record(receiver, to);
		if (!r)
			r = rd_pool_progress(receiver->pool, "receive",
					     receiver->zeros << RD_SEG_SHIFT, feed->size);
		if (r)
			return r;
	}
}

void rd_receive_feed(struct rd_receiver *receiver, const struct rd_offer *offer)
{
	receiver->feed = (struct rd_feed){
		.size = offer->size,
		.uid = offer->known.uid,
		.number = offer->known.number < 1LL << 40 ? offer->known.number : 0,
		.time = offer->time,
		.sum = offer->known.pin,
		.is_consistent = offer->is_consistent,
		.begin = begin,
		.next = next,
	};
	receiver->has_begun = false;
	receiver->trust_nothing = false;
}
