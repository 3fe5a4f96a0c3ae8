// SPDX-License-Identifier: GPL-2.0
/*
 * The device that the model tests, and the messages that it gets. See model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model_steps.h"

/*
 * ---- messages ----
 */

struct message message;

void begin_message(const char *verb)
{
	message.verb = verb;
	message.nr = 0;
}

bool has_room(void)
{
	return message.nr < MAX_RANGES;
}

struct place nth(struct place first, uint64_t n)
{
	if (is_in_pool(first))
		first.block += n;
	return first;
}

bool is_in_pool(struct place place)
{
	return place.kind == 'p' || place.kind == 'k';
}

bool is_same(struct place a, struct place b)
{
	return a.kind == b.kind && a.block == b.block;
}

/* Places that are no kind at all are left out. */
void add_range(struct range range)
{
	struct range *last = &message.ranges[message.nr - 1];

	if (range.to.kind == 'k')
		name_pack(range.to);
	if (message.nr && last->first + last->len == range.first && !one_in(&rng, 8) &&
	    is_same(nth(last->from, last->len), range.from) &&
	    is_same(nth(last->to, last->len), range.to))
		last->len += range.len;
	else
		message.ranges[message.nr++] = range;
}

bool has_range(uint64_t first, uint64_t len)
{
	unsigned int i;

	for (i = 0; i < message.nr; i++) {
		const struct range *range = &message.ranges[i];

		if (first < range->first + range->len && range->first < first + len)
			return true;
	}
	return false;
}

void send_message(void)
{
	size_t size = sizeof(message.text);
	size_t len = snprintf(message.text, size, "%s", message.verb);
	unsigned int i;
	int r;

	for (i = 0; i < message.nr; i++) {
		const struct range *range = &message.ranges[i];
		char from[32] = "", to[32] = "";

		if (range->from.kind)
			place_to_text(range->from, from, sizeof(from));
		if (range->to.kind)
			place_to_text(range->to, to, sizeof(to));
		len += snprintf(message.text + len, size - len, "%c%" PRIx64 ",%" PRIx64
				"%s%s%s%s", i ? ';' : ' ', range->first, range->len,
				*from ? "," : "", from, *to ? "," : "", to);
		if (len >= size)
			die("a message is too long");
	}
	r = dm_message(VOL, "%s", message.text);
	if (r)
		die("MISS: '%.300s' failed: %s", message.text, strerror(-r));
}

void send_text(const char *text)
{
	int r = dm_message(VOL, "%s", text);

	if (r)
		die("MISS: '%s' failed: %s", text, strerror(-r));
}

void refused(int error, const char *text)
{
	int r = dm_message(VOL, "%s", text);

	if (r != error)
		die("MISS: the result of '%s' is %d (%s), and must be %d (%s)", text, r,
		    strerror(-r), error, strerror(-error));
}

void hydration_may_run(void)
{
	blocks_set_going_home(&c.b, hydrating && !frozen);
}

/*
 * ---- the device ----
 */

void load_table(void)
{
	/* Of packs 16 groups are kept, or more than half of what there is. */
	int r = dm_load(VOL, c.b.sectors, "revdedup", "%s %s %s 4 cache_mib %u pack_mib %u",
			c.base_path, c.meta_path, c.pool_path, 1 + (unsigned int)one_in(&rng, 8),
			one_in(&rng, 2) ? 1 : 8);

	if (r)
		die("MISS: cannot load the table: %s", strerror(-r));
}

void resume(void)
{
	int r = dm_resume(VOL);

	if (r)
		die("MISS: cannot resume: %s", strerror(-r));
}

void suspend(void)
{
	bool noflush = one_in(&rng, 3), nolockfs = one_in(&rng, 2);
	int r;

	while (atomic_load(&dying))
		pause();
	r = dm_suspend(VOL, (noflush ? DM_NOFLUSH : 0) | (nolockfs ? DM_NOLOCKFS : 0));
	if (r)
		die("MISS: cannot suspend: %s", strerror(-r));
	came_up(noflush ? H_NOFLUSH : H_SUSPEND);
}

static void open_volume(void)
{
	must(dm_node(VOL, VOL_NODE), "make a device node");
	c.fd = open(VOL_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (c.fd < 0)
		die("cannot open %s: %s", VOL_NODE, strerror(errno));
}

void make_volume(void)
{
	must(dm_create(VOL), "create the volume");
	load_table();
	resume();
	open_volume();
}

void remove_volume(void)
{
	close(c.fd);
	must(dm_remove(VOL), "remove the volume");
}
