// SPDX-License-Identifier: GPL-2.0
/* Receive one version as a disk: see receive_disk.h. */
#include <errno.h>
#include <string.h>

#include "base/direct.h"
#include "base/log.h"
#include "receive_disk.h"
#include "receiver.h"

struct disk {
	struct rd_receiver receiver;
	const struct rd_receive_disk_options *options;
	struct rd_receive_disk_report *report;
	struct rd_receive_disk_target to;
	u8 *data, *zeros, *pack;	/* a segment each */
	struct dmr_pack_head head;
	struct rd_packer *packer;
	struct rd_fp fps[RD_SEG_BLOCKS];
	rd_sum sum;
};

/* --- writing */

/* The whole blocks of the version in @segment. */
static size_t len_of(const struct disk *disk, u64 segment)
{
	u64 size = rd_round_up(disk->report->size, RD_BLOCK_SIZE);

	return rd_min(RD_SEG_SIZE, size - (segment << RD_SEG_SHIFT));
}

static int put(struct disk *disk, const u8 *data, size_t len, u64 offset)
{
	int r;

	/* Behind the end is what is no business of ours. */
	if (disk->to.is_device)
		len = rd_min(len, disk->report->size - offset);
	r = rd_write_direct(disk->to.fd, data, len, offset);
	if (r)
		return rd_err(r, "cannot write at %llu", offset);
	disk->report->bytes_written += len;
	/* Zeros may be many, and nothing is read meanwhile. */
	rd_wire_keep(disk->receiver.wire);
	return rd_pool_progress(disk->receiver.pool, "receive", offset, disk->report->size);
}

/* In a target that is zeros, blocks of zeros stay holes. */
static int write_content(struct disk *disk, u64 segment)
{
	u64 start = segment << RD_SEG_SHIFT;
	unsigned int i, first, nr = len_of(disk, segment) / RD_BLOCK_SIZE;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		for (first = i; i < nr && !(disk->to.is_empty && rd_fp_is_zero(&disk->fps[i])); i++)
			;
		if (first < i)
			r = put(disk, disk->data + (size_t)first * RD_BLOCK_SIZE,
				(size_t)(i - first) * RD_BLOCK_SIZE,
				start + (u64)first * RD_BLOCK_SIZE);
	}
	return r;
}

static int write_zeros(struct disk *disk, u64 segment, u64 end)
{
	int r = 0;

	end = rd_min(end, rd_nr_segs(disk->report->size));
	for (; segment < end && !disk->to.is_empty && !r; segment++)
		r = put(disk, disk->zeros, len_of(disk, segment), segment << RD_SEG_SHIFT);
	return r;
}

static int take_content(struct disk *disk, const struct rd_feed_segment *fed)
{
	const struct rd_feed_to to = { disk->data, disk->pack, &disk->head };
	struct rd_hasher *hasher = disk->receiver.hasher;
	const u8 no_pool[16] = { 0 };
	struct rd_seg_fp fp;

	rd_feed_unpack(fed, &to, no_pool, disk->packer);
	rd_fp_segment(hasher, disk->data, RD_SEG_SIZE, disk->fps, &fp);
	if (rd_feed_check(&disk->receiver.feed, fed, &fp, disk->data)) {
		rd_err(0, "segment %llu is not what was announced", fed->segment);
		return -EBADMSG;
	}
	disk->sum += rd_fp_sum(hasher, fed->segment, &fp);
	return write_content(disk, fed->segment);
}

static int take_all(struct disk *disk)
{
	const struct rd_feed_to to = { disk->data, disk->pack, &disk->head };
	struct rd_feed *feed = &disk->receiver.feed;
	struct rd_feed_segment fed;
	int r;

	for (;;) {
		r = feed->next(feed, &to, &fed);
		if (r || fed.kind == RD_FEED_END)
			return r;
		r = fed.kind == RD_FEED_CONTENT ? take_content(disk, &fed) :
			write_zeros(disk, fed.segment, fed.end);
		if (r)
			return r;
	}
}

/* --- the version */

static int take_version(struct disk *disk, const struct rd_record *record)
{
	struct rd_receiver *receiver = &disk->receiver;
	struct rd_version none = { 0 };
	struct rd_offer offer;
	u8 number[8];
	int r;

	if (rd_offer_get(record, &offer) || offer.size > RD_VERSION_MAX ||
	    offer.known.number <= 0)
		return rd_wire_refuse(receiver->wire, "a version that cannot be read");
	disk->report->number = offer.known.number;
	disk->report->size = offer.size;
	disk->report->is_consistent = offer.is_consistent;
	rd_receive_feed(receiver, &offer);
	receiver->trust_nothing = true;
	r = disk->options->open(disk->options->ctx, offer.volume, offer.known.number, offer.size,
				&disk->to);
	if (!r)
		r = receiver->feed.begin(&receiver->feed, &none, 0, 1);
	if (!r)
		r = take_all(disk);
	if (!r && disk->sum != receiver->feed.sum) {
		rd_err(0, "what has arrived is not the version that was announced");
		r = -EBADMSG;
	}
	rd_put_u64(number, offer.known.number);
	return r ? r : rd_wire_put(receiver->wire, RD_REC_DONE, number, sizeof(number));
}

static int receive(struct disk *disk)
{
	struct rd_wire *wire = disk->receiver.wire;
	struct rd_record record;
	int r;

	do {
		r = rd_wire_flush(wire);
		if (!r)
			r = rd_wire_get(wire, &record, true);
		if (!r && record.type == RD_REC_VOLUME)
			r = rd_wire_put(wire, RD_REC_HAS, NULL, 0);
		else if (!r && record.type == RD_REC_OFFER && !disk->report->number)
			r = take_version(disk, &record);
		else if (!r && record.type != RD_REC_BYE)
			r = rd_wire_refuse(wire, "an unexpected record");
	} while (!r && record.type != RD_REC_BYE);
	return r || disk->report->number ? r : -ENOENT;
}

int rd_receive_disk(struct rd_wire *wire, const struct rd_receive_disk_options *options,
		    struct rd_receive_disk_report *report)
{
	/* Nothing is looked up: no version is before, and all is asked for. */
	const struct rd_receive_options nothing = { .share = RD_SHARE_OWN };
	struct rd_pool pool = { .progress = options->progress };
	struct disk *disk = calloc(1, sizeof(*disk));
	int r;

	memset(report, 0, sizeof(*report));
	if (!disk)
		return -ENOMEM;
	disk->options = options;
	disk->report = report;
	disk->receiver.pool = &pool;
	disk->receiver.wire = wire;
	disk->receiver.options = &nothing;
	disk->data = rd_alloc_direct(3 * RD_SEG_SIZE);
	disk->packer = rd_packer_new();
	r = disk->data && disk->packer ? rd_receive_find_new(&disk->receiver) : -ENOMEM;
	if (!r) {
		disk->pack = disk->data + 2 * RD_SEG_SIZE;
		disk->zeros = disk->data + RD_SEG_SIZE;
		memset(disk->zeros, 0, RD_SEG_SIZE);
		r = receive(disk);
	}
	rd_receive_forget(&disk->receiver);
	rd_receive_find_free(&disk->receiver);
	rd_packer_free(disk->packer);
	free(disk->data);
	free(disk);
	return r;
}
