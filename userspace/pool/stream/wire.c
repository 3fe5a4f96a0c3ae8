// SPDX-License-Identifier: GPL-2.0
/* Records that come and go: see wire.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/lock.h"
#include "base/log.h"
#include "wire.h"

#define TICK_MS		1000
#define KEEP_PART	12	/* of the patience of the other side */
#define WRITE_FROM	(256U << 10)	/* bytes that are worth a write */
#define READ_AT_ONCE	(256U << 10)
/* Of what was read and not returned yet; the rest waits on its way. */
#define QUEUE_MAX	(16U << 20)

/* --- the two ends */

static void dont_block(int fd, int *ret_flags)
{
	int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

	*ret_flags = flags + 1;
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static void block_again(int fd, int flags)
{
	if (fd >= 0 && flags)
		fcntl(fd, F_SETFL, flags - 1);
}

static int is_stopped(const struct rd_wire *wire)
{
	return wire->stop && *wire->stop ? -EINTR : 0;
}

static int tell_over(const struct rd_wire *wire)
{
	rd_err(0, "%s ended early", wire->peer);
	return -EPIPE;
}

static bool is_full(const struct rd_wire *wire)
{
	return wire->from.len - wire->from_start > QUEUE_MAX;
}

/* Read once what is there. */
static int take_in(struct rd_wire *wire)
{
	u8 *to;
	ssize_t n;

	if (wire->from_start && wire->from_start == wire->from.len) {
		wire->from.len = 0;
		wire->from_start = 0;
	} else if (wire->from_start > QUEUE_MAX / 4) {
		wire->from.len -= wire->from_start;
		memmove(wire->from.data, wire->from.data + wire->from_start, wire->from.len);
		wire->from_start = 0;
	}
	to = rd_buffer_grow(&wire->from, READ_AT_ONCE);
	if (!to)
		return -ENOMEM;
	n = read(wire->in, to, READ_AT_ONCE);
	wire->from.len -= READ_AT_ONCE - (n > 0 ? n : 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return rd_err(-errno, "cannot read from %s", wire->peer);
	if (n <= 0) {
		wire->is_over = true;
		return 0;
	}
	wire->received += n;
	wire->heard = rd_now_us();
	if (wire->receives)
		rd_pace(&wire->pace, n);
	return 0;
}

static int wait_to_read(struct rd_wire *wire)
{
	struct pollfd fd = { .fd = wire->in, .events = POLLIN };

	/* One that neither says more nor closes is over as well. */
	if (poll(&fd, 1, TICK_MS) <= 0)
		wire->is_over = true;
	return wire->is_over ? 0 : take_in(wire);
}

/* The other side has closed: it may have said why. */
static int hear_why(struct rd_wire *wire)
{
	struct rd_record record;
	int r = 0;

	while (!r && !wire->is_over && !is_full(wire))
		r = wait_to_read(wire);
	wire->is_over = true;
	while (!r)
		r = rd_wire_get(wire, &record, true);
	return r;
}

static int write_out(struct rd_wire *wire)
{
	size_t len = wire->to.len - wire->to_start;
	ssize_t n;

	if (!wire->receives)
		len = rd_pace_at_once(&wire->pace, len);
	n = write(wire->out, wire->to.data + wire->to_start, len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && wire->in >= 0 && (errno == EPIPE || errno == ECONNRESET))
		return hear_why(wire);
	if (n < 0)
		return rd_err(-errno, "cannot write to %s", wire->peer);
	wire->sent += n;
	wire->to_start += n;
	wire->spoken = rd_now_us();
	if (wire->to_start == wire->to.len) {
		wire->to.len = 0;
		wire->to_start = 0;
	}
	if (!wire->receives)
		rd_pace(&wire->pace, n);
	return rd_failpoint("wire-write");
}

/* Has the other side been silent for too long, or is it time to say something? */
static int look_at_clock(struct rd_wire *wire)
{
	u64 now = rd_now_us();

	if (wire->in >= 0 && now - wire->heard > wire->patience * 1000000ULL) {
		wire->is_given_up = true;
		rd_err(0, "nothing was heard from %s for %u seconds", wire->peer, wire->patience);
		return -ETIMEDOUT;
	}
	rd_wire_keep(wire);
	return is_stopped(wire);
}

/*
 * Wait until one of them has something: the other side, room for what is to be written, and @fd
 * (-1: none). @all: until all is written. Else until something was read.
 */
static int turn(struct rd_wire *wire, int fd)
{
	struct pollfd fds[3] = {
		{ .fd = wire->is_over || is_full(wire) ? -1 : wire->in, .events = POLLIN },
		{ .fd = wire->to.len ? wire->out : -1, .events = POLLOUT },
		{ .fd = fd, .events = POLLIN },
	};
	int r = poll(fds, 3, TICK_MS);

	if (r < 0 && errno != EINTR)
		return rd_err(-errno, "cannot wait for %s", wire->peer);
	if (r <= 0)
		return look_at_clock(wire);
	if (fds[0].revents)
		r = take_in(wire);
	else
		r = 0;
	if (!r && fds[1].revents)
		r = write_out(wire);
	return r ? r : is_stopped(wire);
}

int rd_wire_flush(struct rd_wire *wire)
{
	int r = wire->to.failed ? -ENOMEM : 0;

	while (!r && wire->to.len)
		r = turn(wire, -1);
	return r;
}

int rd_wire_wait(struct rd_wire *wire, int fd)
{
	u64 received = wire->received;
	struct pollfd other = { .fd = fd, .events = POLLIN };
	int r = 0;

	while (!r && wire->received == received && !wire->is_over && poll(&other, 1, 0) <= 0)
		r = turn(wire, fd);
	return r;
}

/* --- records */

static int put(struct rd_wire *wire, enum rd_record_type type, const void *data, size_t len)
{
	rd_record_put(&wire->to, type, data, len);
	return wire->to.failed ? -ENOMEM : 0;
}

int rd_wire_put(struct rd_wire *wire, enum rd_record_type type, const void *data, size_t len)
{
	int r = put(wire, type, data, len);

	wire->is_done |= type == RD_REC_BYE;
	return r || wire->to.len < WRITE_FROM ? r : rd_wire_flush(wire);
}

int rd_wire_put_buffer(struct rd_wire *wire, enum rd_record_type type, struct rd_buffer *payload)
{
	int r = payload->failed ? -ENOMEM : rd_wire_put(wire, type, payload->data, payload->len);

	payload->len = 0;
	return r;
}

void rd_wire_keep(struct rd_wire *wire)
{
	if (wire->in < 0 || wire->out < 0 ||
	    rd_now_us() - wire->spoken < wire->patience * 1000000ULL / KEEP_PART)
		return;
	/* What waits to be written says so as well. */
	if (wire->to.len || !put(wire, RD_REC_KEEP, NULL, 0))
		write_out(wire);
}

int rd_wire_refuse(const struct rd_wire *wire, const char *what)
{
	rd_err(0, "%s has sent what makes no sense: %s", wire->peer, what);
	return -EPROTO;
}

/* Find a whole record in what was read: 1, or 0: it is not all there. */
static int find_record(struct rd_wire *wire, struct rd_record *ret)
{
	const u8 *head = wire->from.data + wire->from_start;
	size_t len = wire->from.len - wire->from_start;

	if (len < RD_RECORD_HEAD)
		return 0;
	if (rd_record_head(head, ret))
		return rd_wire_refuse(wire, "no record");
	if (len < RD_RECORD_HEAD + (size_t)ret->len)
		return 0;
	ret->data = head + RD_RECORD_HEAD;
	if (!rd_record_is_sound(head, ret))
		return rd_wire_refuse(wire, "a record with another checksum");
	wire->from_start += RD_RECORD_HEAD + ret->len;
	wire->taken += RD_RECORD_HEAD + ret->len;
	return 1;
}

void rd_wire_safe(char to[RD_WIRE_TEXT], const char *text)
{
	size_t i;

	snprintf(to, RD_WIRE_TEXT, "%s", text ? text : "?");
	for (i = 0; to[i]; i++)
		if ((to[i] < ' ' || to[i] > '~') && to[i] != '\n')
			to[i] = '?';
}

static int tell_error(const struct rd_wire *wire, const struct rd_record *record)
{
	char safe[RD_WIRE_TEXT], *hint;

	rd_wire_safe(safe, rd_text_get(record));
	hint = strchr(safe, '\n');
	if (hint)
		*hint++ = '\0';
	rd_err(0, "%s: %s", wire->peer, safe);
	if (hint)
		rd_hint("%s: %s", wire->peer, hint);
	return -EREMOTEIO;
}

/* Find a record for the caller in what was read: 1, or 0: there is none. */
static int next_record(struct rd_wire *wire, struct rd_record *ret)
{
	int r;

	do {
		r = find_record(wire, ret);
	} while (r > 0 && ret->type == RD_REC_KEEP);
	return r > 0 && ret->type == RD_REC_ERROR ? tell_error(wire, ret) : r;
}

int rd_wire_get(struct rd_wire *wire, struct rd_record *ret, bool wait)
{
	int r = next_record(wire, ret);

	while (!r) {
		if (wire->is_over)
			return tell_over(wire);
		r = wait ? turn(wire, -1) : take_in(wire);
		if (!r)
			r = next_record(wire, ret);
		if (!r && !wait) {
			ret->type = 0;
			return 0;
		}
	}
	return r < 0 ? r : 0;
}

int rd_wire_expect(struct rd_wire *wire, enum rd_record_type type, struct rd_record *ret)
{
	int r = rd_wire_get(wire, ret, true);

	return r || ret->type == type ? r : rd_wire_refuse(wire, "an unexpected record");
}

/* --- begin and end */

static int read_preamble(struct rd_wire *wire, char *ret_who)
{
	int r = 0;

	while (!r && wire->from.len < RD_PREAMBLE && !wire->is_over)
		r = turn(wire, -1);
	if (r)
		return r;
	if (wire->from.len < RD_PREAMBLE)
		return tell_over(wire);
	r = rd_preamble_get(wire->from.data, ret_who);
	wire->from_start = RD_PREAMBLE;
	if (r == -EOPNOTSUPP || r == -EPROTONOSUPPORT) {
		rd_err(0, "%s uses %s that this program does not know", wire->peer,
		       r == -EOPNOTSUPP ? "features" : "a format");
		rd_hint("nothing was changed; a newer revdedup reads it");
	} else if (r) {
		rd_err(0, "what comes from %s is no stream of versions", wire->peer);
	}
	return r;
}

static int write_preamble(struct rd_wire *wire, char who)
{
	u8 preamble[RD_PREAMBLE];

	rd_preamble_put(preamble, who);
	rd_buffer_put(&wire->to, preamble, sizeof(preamble));
	return rd_wire_flush(wire);
}

int rd_wire_begin(struct rd_wire *wire, char who, char *ret_who)
{
	int r = 0;

	wire->spoken = rd_now_us();
	wire->heard = wire->spoken;
	if (!wire->patience)
		wire->patience = rd_patience_ms(RD_WIRE_PATIENCE * 1000) / 1000;
	if (wire->in >= 0 && wire->out >= 0) {
		dont_block(wire->in, &wire->flags[0]);
		dont_block(wire->out, &wire->flags[1]);
	}
	if (!who) {
		r = read_preamble(wire, ret_who);
		return r ? r : write_preamble(wire, *ret_who == 'S' ? 'R' : 'S');
	}
	if (wire->out >= 0)
		r = write_preamble(wire, who);
	if (!r && wire->in >= 0)
		r = read_preamble(wire, ret_who);
	return r;
}

const u8 *rd_wire_rest(const struct rd_wire *wire, size_t *ret_len)
{
	*ret_len = wire->from.len - wire->from_start;
	return wire->from.data + wire->from_start;
}

void rd_wire_end(struct rd_wire *wire)
{
	/* Where both are one file, what it was at first comes last. */
	block_again(wire->out, wire->flags[1]);
	block_again(wire->in, wire->flags[0]);
	rd_buffer_free(&wire->to);
	rd_buffer_free(&wire->from);
}

void rd_wire_fail(struct rd_wire *wire, const char *text)
{
	if (wire->out < 0 || wire->in < 0 || wire->is_over || wire->is_done)
		return;
	/* What was put before, of which a part may be written, comes first. */
	if (put(wire, RD_REC_ERROR, text, strlen(text) + 1))
		return;
	/* It is not waited for once more. */
	if (wire->is_given_up)
		write_out(wire);
	else
		rd_wire_flush(wire);
}
