// SPDX-License-Identifier: GPL-2.0
/*
 * The conversation about one version, as the sender has it: see sender.h for the queue.
 *
 * Questions are sent ahead of their answers, so that a line with a long way is full: up to
 * RD_SEND_QUEUE segments are named, and RD_SEND_BLOCKS blocks told, before the first content is
 * asked for. Nothing waits for an answer while there is something else to send.
 */
#include <errno.h>

#include "sender.h"

/* --- what the receiver answers */

static int take_have(struct rd_sender *sender, const struct rd_record *record)
{
	struct rd_sending *sending;
	u32 i;

	if (record->len > sender->at.tail - sender->at.asked)
		return rd_wire_refuse(sender->wire, "an answer without a question");
	for (i = 0; i < record->len; i++) {
		sending = rd_sending_at(sender, sender->at.asked++);
		sender->report->segments++;
		if (rd_is_zero(&sending->named.fp, sizeof(sending->named.fp)) ||
		    record->data[i] == RD_HAVE) {
			sender->report->segments_there++;
			sending->state = RD_SENDING_DONE;
		} else if (record->data[i] == RD_HAVE_PROVE) {
			sender->report->segments_there++;
			memset(&sending->need.prove, 0xff, sizeof(sending->need.prove));
			sending->state = RD_SENDING_NEEDED;
		} else {
			sending->state = RD_SENDING_LACKING;
		}
		if (sending->state != RD_SENDING_LACKING &&
		    !rd_is_zero(&sending->named.fp, sizeof(sending->named.fp)))
			sender->report->blocks_there += RD_SEG_BLOCKS;
	}
	return 0;
}

/* Only blocks that it was told of can be asked for. */
static bool is_within(const struct rd_need *need, const struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		if ((need->need.bits[i] | need->prove.bits[i]) & ~slots->bits[i])
			return false;
	return true;
}

/* Pass by entries up to @end that are not in @state. */
static u64 next_in(struct rd_sender *sender, u64 at, u64 end, enum rd_sending_state state)
{
	while (at < end && rd_sending_at(sender, at)->state != state)
		at++;
	return at;
}

static int take_need(struct rd_sender *sender, const struct rd_record *record)
{
	struct rd_sending *sending;
	struct rd_need need;

	sender->at.need = next_in(sender, sender->at.need, sender->at.blocks, RD_SENDING_TOLD);
	if (sender->at.need == sender->at.blocks || rd_need_get(record, &need))
		return rd_wire_refuse(sender->wire, "an answer without a question");
	sending = rd_sending_at(sender, sender->at.need++);
	if (need.segment != sending->named.segment || !is_within(&need, &sending->need.need))
		return rd_wire_refuse(sender->wire, "a wish for what it was not told of");
	sending->need = need;
	sending->state = RD_SENDING_NEEDED;
	sender->report->blocks_there += sending->blocks - rd_slots_count(&need.need);
	return 0;
}

int rd_send_take_want(struct rd_sender *sender, const struct rd_record *record)
{
	if (rd_want_get(record, &sender->want) || sender->want.from > rd_nr_segs(RD_VERSION_MAX))
		return rd_wire_refuse(sender->wire, "a wish that cannot be read");
	return 0;
}

/* What the receiver had is gone, or it had to stop: it begins anew, from where it is. */
static int begin_anew(struct rd_sender *sender, const struct rd_record *record)
{
	int r;

	/* Threads read the nonce of the wish before. */
	rd_send_wait_all(sender);
	sender->is_asked_again = true;
	r = rd_send_take_want(sender, record);
	return r ? r : -ERESTART;
}

static int take_answers(struct rd_sender *sender, bool *ret_any)
{
	struct rd_record record;
	int r = 0;

	while (!r && !sender->is_file) {
		r = rd_wire_get(sender->wire, &record, false);
		if (r || !record.type)
			return r;
		*ret_any = true;
		if (record.type == RD_REC_HAVE)
			r = take_have(sender, &record);
		else if (record.type == RD_REC_NEED)
			r = take_need(sender, &record);
		else if (record.type == RD_REC_WANT)
			r = begin_anew(sender, &record);
		else
			r = rd_wire_refuse(sender->wire, "an unexpected record");
	}
	return r;
}

/* --- what is told and sent */

static int name_segments(struct rd_sender *sender, bool *ret_any)
{
	u64 at = sender->at.tail;
	unsigned int nr;
	int r;

	if (sender->next >= sender->end ||
	    sender->at.tail - sender->at.head > RD_SEND_QUEUE - RD_SEND_WINDOW)
		return 0;
	*ret_any = true;
	r = rd_send_list(sender);
	while (!r && at < sender->at.tail) {
		for (nr = 0; nr < RD_SEND_NAMES && at < sender->at.tail; nr++)
			rd_named_put(&sender->payload, &rd_sending_at(sender, at++)->named);
		r = rd_wire_put_buffer(sender->wire, RD_REC_SEGMENTS, &sender->payload);
	}
	/* A file cannot answer: it lacks all. */
	for (; !r && sender->is_file && sender->at.asked < sender->at.tail; sender->at.asked++) {
		struct rd_sending *sending = rd_sending_at(sender, sender->at.asked);

		sender->report->segments++;
		sending->state = rd_is_zero(&sending->named.fp, sizeof(sending->named.fp)) ?
			RD_SENDING_DONE : RD_SENDING_LACKING;
	}
	return r;
}

/* What a file needs: all blocks that are not zeros now. */
static void need_all(struct rd_sending *sending, const struct rd_fp fps[RD_SEG_BLOCKS])
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_fp_is_zero(&fps[i]))
			rd_slots_clear(&sending->need.need, i);
	sending->state = RD_SENDING_NEEDED;
}

static int tell_blocks(struct rd_sender *sender, bool *ret_any)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct rd_sending *sending;
	int r = 0;

	while (!r && sender->at.told < RD_SEND_BLOCKS) {
		sender->at.blocks = next_in(sender, sender->at.blocks, sender->at.asked,
					    RD_SENDING_LACKING);
		if (sender->at.blocks == sender->at.asked)
			break;
		*ret_any = true;
		sending = rd_sending_at(sender, sender->at.blocks);
		r = rd_send_find_blocks(sender, sending, fps);
		if (r)
			break;
		sender->at.blocks++;
		sender->at.told += sending->blocks;
		sending->state = RD_SENDING_TOLD;
		rd_blocks_of_put(&sender->payload, sending->named.segment, &sending->need.need,
				 fps);
		r = rd_wire_put_buffer(sender->wire, RD_REC_BLOCKS, &sender->payload);
		if (!r && sender->is_file) {
			need_all(sending, fps);
			sender->at.need = sender->at.blocks;
			/* Its content is to follow soon, for a reader with little memory. */
			break;
		}
	}
	return r;
}

static void start_reading(struct rd_sender *sender, bool *ret_any)
{
	u64 end = sender->is_file ? sender->at.blocks : sender->at.asked;

	for (;;) {
		struct rd_sending *sending = rd_sending_at(sender, sender->at.work);

		if (sender->at.work == end)
			return;
		if (sending->state < RD_SENDING_NEEDED)
			return;
		if (sending->state == RD_SENDING_NEEDED && !rd_send_start(sender, sending))
			return;
		sender->at.work++;
		*ret_any = true;
	}
}

static int send_ready(struct rd_sender *sender, struct rd_sending *sending)
{
	struct rd_send_job *job = sending->job;
	int r = job->r;

	job->sender = NULL;
	if (!r && !rd_slots_are_none(&sending->need.prove))
		r = rd_wire_put(sender->wire, RD_REC_PROOF, job->proof, sizeof(job->proof));
	if (!r && job->len)
		r = rd_wire_put(sender->wire, RD_REC_DATA, job->out, job->len);
	sender->report->blocks += rd_slots_count(&sending->need.need);
	sender->at.told -= sending->blocks;
	sending->state = RD_SENDING_DONE;
	return r;
}

/* An empty NEED is answered by nothing: what it was told of is there. */
static int send_data(struct rd_sender *sender, bool *ret_any)
{
	int r = 0;

	while (!r && sender->at.head < sender->at.work) {
		struct rd_sending *sending = rd_sending_at(sender, sender->at.head);

		if (sending->state == RD_SENDING_READY)
			r = send_ready(sender, sending);
		if (sending->state != RD_SENDING_DONE)
			break;
		sender->at.head++;
		*ret_any = true;
	}
	return r;
}

/* --- */

static int tell(struct rd_sender *sender)
{
	u64 at = sender->at.head < sender->at.tail ?
		rd_sending_at(sender, sender->at.head)->named.segment : sender->next;

	return rd_pool_progress(sender->pool, "send", rd_min(at, sender->end) << RD_SEG_SHIFT,
				sender->end << RD_SEG_SHIFT);
}

static int turn(struct rd_sender *sender)
{
	bool any = false;
	int r;

	rd_workers_reap(sender->workers);
	r = take_answers(sender, &any);
	if (!r)
		r = send_data(sender, &any);
	if (!r)
		r = name_segments(sender, &any);
	if (!r)
		r = tell_blocks(sender, &any);
	if (!r)
		start_reading(sender, &any);
	if (!r && !any)
		r = rd_wire_flush(sender->wire);
	if (!r && !any)
		r = rd_wire_wait(sender->wire, rd_workers_fd(sender->workers));
	return r ? r : tell(sender);
}

void rd_send_wait_all(struct rd_sender *sender)
{
	unsigned int i;

	for (i = 0; i < RD_SEND_JOBS; i++)
		while (sender->jobs[i].sender &&
		       sender->jobs[i].sending->state == RD_SENDING_READ) {
			struct timespec moment = { .tv_nsec = 1000000 };

			rd_workers_reap(sender->workers);
			nanosleep(&moment, NULL);
		}
	for (i = 0; i < RD_SEND_JOBS; i++)
		sender->jobs[i].sender = NULL;
}

int rd_send_version(struct rd_sender *sender)
{
	u64 end = rd_nr_segs(sender->disk.version.size);
	int r = 0;

	memset(&sender->at, 0, sizeof(sender->at));
	sender->next = sender->want.from;
	sender->end = rd_max(end, sender->base.version.id ?
			     rd_nr_segs(sender->base.version.size) : 0);
	while (!r && (sender->next < sender->end || sender->at.head < sender->at.tail))
		r = turn(sender);
	/* Their entries, and the catalog, are needed for what comes next. */
	rd_send_wait_all(sender);
	return r ? r : rd_wire_put(sender->wire, RD_REC_END, NULL, 0);
}
