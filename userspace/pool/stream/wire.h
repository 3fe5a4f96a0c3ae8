/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records that come and go by two file descriptors, or one of them.
 *
 * Neither side waits for ever: while one writes, it also takes in what the other has sent
 * (rd_wire_get() returns that later), so both can write at the same time; a side that has had
 * nothing to say for a twelfth of wire->patience says that it is alive; and a side that has heard
 * nothing for wire->patience gives up.
 */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include "base/pace.h"
#include "record.h"

#define RD_WIRE_PATIENCE	120	/* seconds */

struct rd_wire {
	int in, out;			/* -1: there is none */
	const char *peer;		/* for messages */
	unsigned int patience;		/* seconds; 0: RD_WIRE_PATIENCE */
	volatile int *stop;		/* set by a signal, or NULL */
	struct rd_pace pace;		/* of what is written, or, @receives, of what is read */
	bool receives;
	u64 sent, received;		/* bytes */
	u64 taken;			/* of these, in records that were returned */

	/* These belong to the wire. */
	struct rd_buffer to;		/* to be written, from @to_start on */
	size_t to_start;
	struct rd_buffer from;		/* read, and not returned yet, from @from_start on */
	size_t from_start;
	u64 spoken, heard;		/* when, in us */
	bool is_over;			/* the other side has closed */
	bool is_done;			/* it was told so */
	bool is_given_up;		/* it was silent for as long as the patience */
	int flags[2];			/* of in and out, as they were, + 1; 0: not changed */
};

/*
 * Begin with @wire->in, out, peer and stop: write the preamble as @who, and read that of the other
 * side, if it has one, into *@ret_who. @who 0: be what the other side is not. Messages were
 * printed.
 */
int rd_wire_begin(struct rd_wire *wire, char who, char *ret_who);
/* What was read and is of no record: the other side has begun to speak something else. */
const u8 *rd_wire_rest(const struct rd_wire *wire, size_t *ret_len);
/* End it; what was put and not flushed is lost. */
void rd_wire_end(struct rd_wire *wire);

/* Put a record into the queue. It is written when there are many, or by rd_wire_flush(). */
int rd_wire_put(struct rd_wire *wire, enum rd_record_type type, const void *data, size_t len);
/* The same, of what @payload has, which is emptied. */
int rd_wire_put_buffer(struct rd_wire *wire, enum rd_record_type type, struct rd_buffer *payload);
int rd_wire_flush(struct rd_wire *wire);

/*
 * Get the next record, which lasts until the next call; KEEP is passed by. An ERROR of the other
 * side is printed, and -EREMOTEIO. @wait: else *@ret is of type 0 where none is there yet.
 * -EPIPE, after a message: it has ended. -ETIMEDOUT, the same: nothing was heard.
 */
int rd_wire_get(struct rd_wire *wire, struct rd_record *ret, bool wait);
/* Get one that must be of @type. -EPROTO, after a message. */
int rd_wire_expect(struct rd_wire *wire, enum rd_record_type type, struct rd_record *ret);
/* Wait until something is there to read, or @fd can be read. */
int rd_wire_wait(struct rd_wire *wire, int fd);

/*
 * Tell the other side, if it is time, that this one is alive: for long work, and while it waits for
 * another command, or for an answer.
 */
void rd_wire_keep(struct rd_wire *wire);

/* Copy what the other side says: printed, it must not move the cursor of a terminal. */
#define RD_WIRE_TEXT	1000
void rd_wire_safe(char to[RD_WIRE_TEXT], const char *text);

/* Say that the other side has sent what makes no sense. Returns -EPROTO. */
int rd_wire_refuse(const struct rd_wire *wire, const char *what);

/* Tell the other side why this one ends, as far as it listens. */
void rd_wire_fail(struct rd_wire *wire, const char *text);

#endif
