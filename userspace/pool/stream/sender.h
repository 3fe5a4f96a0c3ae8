/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of a sender share: send.c (which versions, one after the other), send_version.c
 * (the conversation about one of them) and send_data.c (what its segments are).
 *
 * A segment that differs from the base is an entry of a queue, from the moment that it is named
 * to the receiver until all of it was sent. Each step is taken in the order of the queue:
 *
 *	head        work        need       blocks       asked       tail
 *	 |  READ or  |  NEEDED   |  TOLD    |  LACKING   |   NAMED   |
 *	 |  READY    |           |          |            |           |
 *
 * asked: HAVE was received. blocks: BLOCKS was sent, if it is lacking. need: NEED was received.
 * work: a thread reads and compresses it. An entry that needs no step any more is DONE, and is
 * passed by.
 */
#ifndef RD_SENDER_H
#define RD_SENDER_H

#include "pool/data/workers.h"
#include "pool/engine/read/random.h"
#include "send.h"

#define RD_SEND_QUEUE	8192	/* segments */
#define RD_SEND_WINDOW	1024	/* whose recipes are read at once */
#define RD_SEND_NAMES	256	/* that are named in one record */
/* Blocks that the receiver was told of, and that were not sent: 128 MiB of content. */
#define RD_SEND_BLOCKS	(64 * RD_SEG_BLOCKS)
#define RD_SEND_JOBS	6

enum rd_sending_state {
	RD_SENDING_NAMED,
	RD_SENDING_LACKING,
	RD_SENDING_TOLD,
	RD_SENDING_NEEDED,
	RD_SENDING_READ,
	RD_SENDING_READY,
	RD_SENDING_DONE,
};

struct rd_sending {
	struct rd_named named;
	enum rd_sending_state state;
	struct rd_need need;	/* at first: the blocks that BLOCKS had */
	unsigned int blocks;	/* that BLOCKS had */
	struct rd_send_job *job;
};

struct rd_send_job {
	struct rd_job job;
	struct rd_sender *sender;	/* NULL: free */
	struct rd_sending *sending;
	int r;
	u8 *data;			/* a segment, or a pack */
	u8 *out;			/* the record: its head, and what compresses to less */
	size_t len;			/* of it; 0: no content is needed */
	u8 proof[RD_PROOF_SIZE];
	void *compressor;
};

struct rd_sender {
	struct rd_pool *pool;
	struct rd_wire *wire;
	const struct rd_send_options *options;
	struct rd_send_report *report;
	bool is_file;
	struct rd_random *random;
	struct rd_workers *workers;
	struct rd_buffer payload;

	/* Of the version that is being sent. */
	char name[160];
	struct rd_disk disk, base;	/* base: version.id 0: none */
	struct rd_want want;
	bool is_asked_again;		/* the same version, after something was wrong with it */
	u64 next, end;			/* segments to be named */
	struct rd_sending_queue {
		u64 head, work, need, blocks, asked, tail;
		unsigned int told;	/* blocks of BLOCKS from head on */
	} at;
	struct rd_sending queue[RD_SEND_QUEUE];
	struct rd_send_job jobs[RD_SEND_JOBS];
};

static inline struct rd_sending *rd_sending_at(struct rd_sender *sender, u64 at)
{
	return &sender->queue[at % RD_SEND_QUEUE];
}

/* --- send_version.c */

/*
 * Send all of sender->disk that sender->want has not, and END. -ERESTART: something else is
 * wanted, which is in sender->want now.
 */
int rd_send_version(struct rd_sender *sender);
/* Read a wish. -EPROTO, after a message. */
int rd_send_take_want(struct rd_sender *sender, const struct rd_record *record);

/* --- send_data.c */

int rd_send_data_new(struct rd_sender *sender);
void rd_send_data_free(struct rd_sender *sender);

/* Append the next segments that differ from the base to the queue, which has room. */
int rd_send_list(struct rd_sender *sender);
/* Find the blocks of @sending that differ from the base, and their fingerprints. */
int rd_send_find_blocks(struct rd_sender *sender, struct rd_sending *sending,
			struct rd_fp fps[RD_SEG_BLOCKS]);
/* Give @sending to a thread. False: all are busy. */
bool rd_send_start(struct rd_sender *sender, struct rd_sending *sending);
/* Wait for all of them. */
void rd_send_wait_all(struct rd_sender *sender);

#endif
