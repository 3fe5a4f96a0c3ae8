// SPDX-License-Identifier: GPL-2.0
/* Messages by which blocks of a live volume change their place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/uuid.h"
#include "marks.h"

#define MESSAGE_MAX	8000

int rd_marks_token(u64 *ret)
{
	u8 random[16];
	int r = rd_uuid_make(random);

	memcpy(ret, random, sizeof(*ret));
	*ret |= 1;
	return r ? rd_err(r, "no random number") : 0;
}

/* --- sending ranges */

static int print_range(char *text, const struct dmr_range *range, bool places)
{
	int n = sprintf(text, "%llx,%llx", range->first, range->len);

	if (!places)
		return n;
	text[n++] = ',';
	return n + dmr_place_print(text + n, range->place[0]);
}

/* Send "@head RANGE;RANGE...@tail", in as many messages as it takes. */
static int send(const char *device, const char *head, const struct rd_buffer *ranges, bool places,
		const char *tail)
{
	RD_FREE char *text = malloc(MESSAGE_MAX + 128);
	const struct dmr_range *range;
	size_t len = 0;
	int r = text ? 0 : -ENOMEM;

	rd_each(range, ranges) {
		if (r)
			break;
		len += sprintf(text + len, "%s", len ? ";" : head);
		len += print_range(text + len, range, places);
		if (len < MESSAGE_MAX && (u8 *)(range + 1) < ranges->data + ranges->len)
			continue;
		sprintf(text + len, "%s", tail);
		r = rd_dm_try_message(device, text, NULL);
		len = 0;
	}
	return r;
}

/* The same, again where a suspend or a resume waits: nothing is done twice. */
static int insist(const char *device, const char *head, const struct rd_buffer *ranges,
		  bool places)
{
	unsigned int tries = 0;
	int r;

	do
		r = send(device, head, ranges, places, "");
	while (rd_target_again(r, &tries));
	return r;
}

/* The user knows that it was interrupted. */
static int complain(int r, const char *device, const char *message)
{
	return r && r != -EINTR ? rd_err(r, "'%s' refuses '%s'", device, message) : r;
}

int rd_marks_set(const char *device, u64 token, const struct rd_buffer *ranges)
{
	char head[40];

	snprintf(head, sizeof(head), "watch %llu ", token);
	return complain(insist(device, head, ranges, false), device, "watch");
}

int rd_marks_clear(const char *device)
{
	return rd_dm_message(device, "watch -", NULL);
}

int rd_marks_alias(const char *device, u64 token, const struct rd_buffer *ranges)
{
	char head[40];
	int r;

	snprintf(head, sizeof(head), "alias %llu ", token);
	r = insist(device, head, ranges, true);
	return r == -ESTALE ? r : complain(r, device, "alias");
}

int rd_marks_shed(const char *device, const struct rd_buffer *ranges, bool zeroed)
{
	int r = send(device, "shed ", ranges, false, zeroed ? " zeroed" : "");

	return r == -EINTR || r == -EBUSY ? r : complain(r, device, "shed");
}

/* --- asking for places */

int rd_marks_places(const char *device, u64 first, u64 nr, struct rd_buffer *ret)
{
	u64 before, end = first + nr;
	char text[80];
	int r = 0;

	while (!r && first < end) {
		RD_FREE char *answer = NULL;

		before = first;
		snprintf(text, sizeof(text), "table %llu %llu", first, end - first);
		r = rd_dm_try_message(device, text, &answer);
		if (!r)
			r = answer ? rd_target_take_places(answer, &first, ret) : -EPROTO;
		if (!r && first <= before)
			r = -EPROTO;
	}
	if (r)
		return rd_err(r, "cannot read the table of '%s'", device);
	return ret->failed ? -ENOMEM : 0;
}
