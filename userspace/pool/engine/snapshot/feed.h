/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A version whose segments come from elsewhere, and not from an image: what a snapshot asks the
 * other side for, segment by segment, in order. See pool/stream/ for who answers.
 *
 * -EEXIST, without a message: the newest version of the volume is the same.
 *
 * What turns out not to be what the feed said is -EBADMSG, and what the pool had and has no more
 * -EAGAIN, both without a message: the feed may be asked again.
 *
 * Such a version is PARTIAL until all of it is there: what has arrived is committed every
 * RD_FEED_COMMIT bytes, and stays where the feed ends early or the command dies. The next
 * snapshot with a feed of the same version goes on behind it; any other of the volume undoes it.
 */
#ifndef RD_FEED_H
#define RD_FEED_H

#include "pool/catalog/versions.h"
#include "pool/data/pack.h"

#define RD_FEED_COMMIT	(16U << 20)

enum rd_feed_kind {
	RD_FEED_END,
	RD_FEED_ZEROS,		/* segments from @segment up to @end are zeros */
	RD_FEED_SHARED,		/* the pool has a segment with @fp */
	RD_FEED_CONTENT,	/* it is there, and should have @fp */
};

/* Where content goes. */
struct rd_feed_to {
	u8 *data;			/* a segment */
	/* What is compressed may stay so: a pack without its head, and which blocks it has. */
	u8 *pack;			/* RD_PACK_MAX */
	struct dmr_pack_head *head;	/* slots, and of each group length and codec */
};

struct rd_feed_segment {
	enum rd_feed_kind kind;
	bool is_packed;		/* the blocks of head->slots are in the pack, the others in @data */
	u64 segment, end;
	struct rd_seg_fp fp;
};

struct rd_feed {
	/* Of the version, as the other side says. */
	u64 size;
	i64 uid;
	i64 number;		/* that it would like to have; 0: any */
	i64 time;
	rd_sum sum;
	bool is_consistent;

	u64 bytes;		/* that have arrived so far */

	/*
	 * The volume is locked, and all before segment @from has arrived. @base: the version
	 * before, id 0: none. @pieces: what is shared may be in so many.
	 */
	int (*begin)(struct rd_feed *feed, const struct rd_version *base, u64 from,
		     unsigned int pieces);
	/* Find the next segment that is not as in the version before, and put it into @to. */
	int (*next)(struct rd_feed *feed, const struct rd_feed_to *to,
		    struct rd_feed_segment *ret);
};

/*
 * In a thread: decode what of @fed is packed in @to to its place in the segment; it becomes a pack
 * of the pool @uuid. Returns its length, 0: it is none. What cannot be decoded leaves zeros, and
 * so has not the fingerprint that was announced.
 */
size_t rd_feed_unpack(const struct rd_feed_segment *fed, const struct rd_feed_to *to,
		      const u8 uuid[16], struct rd_packer *packer);

/* Is @data, which has the fingerprint @fp, what the feed said of the segment? -EBADMSG. */
int rd_feed_check(const struct rd_feed *feed, const struct rd_feed_segment *fed,
		  const struct rd_seg_fp *fp, const u8 *data);

#endif
