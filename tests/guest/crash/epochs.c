// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs: messages, what is known of them, and what is clean. See epochs.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/dm.h"
#include "crashlib.h"
#include "epochs.h"

#define OK_WITHIN_MS	120000		/* after an outage, on the busiest machine */

struct epochs epochs;

void epochs_begin_life(void)
{
	memset(&epochs.now, 0, sizeof(epochs.now));
	epochs.nr_maybe = 0;
	epochs.distrust = 0;
	epochs.lost_until = 0;
	epochs.may_commit = false;
}

/*
 * ---- status ----
 */

int get_status(struct state *state, bool *lost, uint64_t *dirty)
{
	char line[256], frozen[32], tracking[16];
	uint64_t total;
	int r = dm_status(VOL, line, sizeof(line));

	if (r)
		return r;
	if (sscanf(line, "1 %" SCNu64 " %31s %" SCNu64 " %" SCNu64 "/%" SCNu64
		   " %*u %*u %*u %*u %15s", &state->epoch, frozen, &state->version, dirty,
		   &total, tracking) != 6)
		die("cannot understand the status line '%s'", line);
	state->frozen = strcmp(frozen, "-");
	*lost = !strcmp(tracking, "lost");
	if (state->frozen && strtoull(frozen, NULL, 10) != state->epoch)
		miss("frozen checkpoint %s in epoch %" PRIu64, frozen, state->epoch);
	if (total != c.segs)
		miss("%" PRIu64 " segments, not %" PRIu64, total, c.segs);
	if (!*lost && strcmp(tracking, "ok"))
		miss("tracking is '%s'", tracking);
	return 0;
}

static bool same_state(const struct state *a, const struct state *b)
{
	return a->epoch == b->epoch && a->frozen == b->frozen && a->version == b->version;
}

/* Take for true what the target says, if it can be. */
static void adopt_state(const struct state *said)
{
	unsigned int i;

	if (same_state(said, &epochs.now))
		return;
	for (i = 0; i < epochs.nr_maybe; i++) {
		if (same_state(said, &epochs.maybe[i])) {
			struct state old = epochs.now;

			epochs.now = epochs.maybe[i];
			epochs.maybe[i] = old;
			return;
		}
	}
	miss("state is epoch %" PRIu64 "%s, version %" PRIu64 "; should be epoch %" PRIu64
	     "%s, version %" PRIu64 ", or one of %u others", said->epoch,
	     said->frozen ? " frozen" : "", said->version, epochs.now.epoch,
	     epochs.now.frozen ? " frozen" : "", epochs.now.version, epochs.nr_maybe);
}

/*
 * ---- messages ----
 */

static struct copy *find_copy(uint64_t epoch)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (epochs.copies[i].content && epochs.copies[i].epoch == epoch)
			return &epochs.copies[i];
	return NULL;
}

/* Three are enough: of the committed epoch, the frozen one, and this one. */
static void add_copy(uint64_t epoch, uint32_t *content)
{
	struct copy *copy = find_copy(epoch);
	unsigned int i;

	for (i = 0; !copy && i < 3; i++) {
		uint64_t e = epochs.copies[i].epoch;

		if (!epochs.copies[i].content ||
		    (e != epochs.now.committed && e != epochs.now.epoch))
			copy = &epochs.copies[i];
	}
	if (!copy)
		die("no place for another copy");
	free(copy->content);
	copy->epoch = epoch;
	copy->content = content;
}

static void add_maybe(const struct state *state)
{
	unsigned int i;

	for (i = 0; i < epochs.nr_maybe; i++)
		if (same_state(state, &epochs.maybe[i]))
			return;
	if (i == sizeof(epochs.maybe) / sizeof(epochs.maybe[0]))
		die("too many messages failed in a row");
	epochs.maybe[epochs.nr_maybe++] = *state;
}

/*
 * Send what takes the target from epochs.now to @next, in one step or through
 * @between. After an error it may have been done or not.
 */
static bool change_state(const struct state *next, const struct state *between,
			 const char *message)
{
	int r;

	if (between)
		add_maybe(between);
	add_maybe(next);
	r = dm_message(VOL, "%s", message);
	if (!r) {
		epochs.now = *next;
		epochs.nr_maybe = 0;
		return true;
	}
	if (!may_fail(r))
		miss("'%s' failed: %s", message, strerror(-r));
	return false;
}

/* Send what must be refused or, with @r = 0, do nothing. */
void try_message(int want, const char *format, ...)
{
	char message[128];
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	r = dm_message(VOL, "%s", message);
	if (r == want)
		epochs.refused++;
	else if (!may_fail(r))
		miss("'%s' in epoch %" PRIu64 "%s gave %d (%s), not %d", message,
		     epochs.now.epoch, epochs.now.frozen ? " frozen" : "", r, strerror(-r),
		     want);
	else if (!r)
		miss("'%s' was taken", message);
}

/* Epochs that are not the frozen one. */
void try_wrong_epochs(void)
{
	uint64_t version = epochs.next_version + 1000000;

	try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, epochs.now.epoch + 1, version);
	if (epochs.now.epoch)
		try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, epochs.now.epoch - 1,
			    version);
	try_message(-EINVAL, "abort %" PRIu64, epochs.now.epoch + 1);
}

void commit(void)
{
	struct state next = epochs.now;
	char message[64];

	if (one_in(&c.random, 4))
		try_wrong_epochs();
	next.frozen = false;
	next.committed = next.epoch;
	next.version = ++epochs.next_version;
	snprintf(message, sizeof(message), "commit %" PRIu64 " %" PRIu64, next.epoch,
		 next.version);
	reached(AT_COMMIT, &c.random);
	if (!change_state(&next, NULL, message))
		return;
	epochs.commits++;
	if (one_in(&c.random, 4)) {
		try_message(0, "%s", message);
		try_message(-EINVAL, "%s1", message);
		try_message(-EINVAL, "abort %" PRIu64, epochs.now.epoch);
	}
}

void abort_checkpoint(void)
{
	struct state next = epochs.now;
	char message[64];

	next.frozen = false;
	snprintf(message, sizeof(message), "abort %" PRIu64, next.epoch);
	reached(AT_ABORT, &c.random);
	if (!change_state(&next, NULL, message))
		return;
	epochs.aborts++;
	if (one_in(&c.random, 4)) {
		try_message(0, "%s", message);
		try_message(-EINVAL, "commit %" PRIu64 " %" PRIu64, epochs.now.epoch,
			    epochs.next_version + 1000000);
	}
}

bool checkpoint(oracle_reader read)
{
	struct state between = epochs.now, next = epochs.now;
	uint32_t *content = oracle_copy(&c.oracle, read);
	bool over = epochs.now.frozen;
	char message[64];

	if (!content) {
		if (!may_fail(-EIO))
			die("cannot read what the volume holds");
		return false;
	}

	if (one_in(&c.random, 4)) {
		try_message(-EINVAL, "checkpoint %" PRIu64, epochs.now.epoch);
		try_message(-EINVAL, "checkpoint %" PRIu64, epochs.now.epoch + 2);
	}
	between.frozen = false;
	next.epoch++;
	next.frozen = true;
	epochs.may_commit = false;
	add_copy(next.epoch, content);
	snprintf(message, sizeof(message), "checkpoint %" PRIu64, next.epoch);
	reached(over ? AT_OVER_CHECKPOINT : AT_CHECKPOINT, &c.random);
	if (!change_state(&next, over ? &between : NULL, message))
		return false;
	epochs.may_commit = true;
	epochs.checkpoints++;
	epochs.over += over;
	if (one_in(&c.random, 4))
		try_message(0, "%s", message);
	return true;
}

uint64_t place_seg(uint64_t seg)
{
	return oracle_place(&c.oracle, seg * SEG_SECTORS) / SEG_SECTORS;
}

void turn_epoch(void (*take)(void))
{
	unsigned int dice = below(&c.random, 10);

	if (!epochs.now.frozen || dice < 2)
		take();
	else if (dice < 4)
		abort_checkpoint();
	else if (epochs.may_commit)
		commit();
}

/*
 * From here on the segments count as changed: their content differs from what
 * it was at every checkpoint that there was.
 */
void mark(void)
{
	uint64_t seg = below(&c.random, c.oracle.segs), i;
	uint64_t half = c.oracle.half / SEG_SECTORS;
	uint64_t left = (seg < half ? half : c.oracle.segs) - seg;
	uint64_t n = 1 + below(&c.random, left < 4 ? left : 4);
	struct copy *copy;
	int r;

	reached(AT_MARK, &c.random);
	r = dm_message(VOL, "mark %" PRIx64 ",%" PRIx64, place_seg(seg), n);
	if (r && !may_fail(r))
		miss("mark failed: %s", strerror(-r));
	if (r)
		return;
	epochs.marks++;
	for (copy = epochs.copies; copy < epochs.copies + 3; copy++)
		for (i = 0; copy->content && i < n; i++)
			copy->content[(seg + i) * SEG_SECTORS] = WORD_NOTHING;
	try_message(-EINVAL, "mark %" PRIx64 ",1", c.segs);
}

/*
 * ---- outages ----
 */

void expect_ok(void)
{
	uint64_t end = now_us() + OK_WITHIN_MS * 1000;
	struct state said;
	uint64_t dirty;
	bool lost;

	/* Where it was lost before the last crash, the target stays so. */
	if (epochs.now.committed < epochs.lost_until)
		return;
	do {
		pause_us(10000);
		if (atomic_load(&c.crashing))
			return;
		must(get_status(&said, &lost, &dirty), "get the status");
		if (!lost) {
			adopt_state(&said);
			epochs.nr_maybe = 0;
			return;
		}
	} while (now_us() < end);
	miss("tracking is still lost %d ms after the outage", OK_WITHIN_MS);
}

/* Once tracking is ok again all bits are stable, and the note is void. */
void *listener(void *arg)
{
	struct state said;
	uint64_t dirty;
	bool lost;

	(void)arg;
	for (;;) {
		usleep(1000);
		if (!atomic_load(&c.running) || atomic_load(&c.crashing) || !epochs.listen)
			continue;
		if (get_status(&said, &lost, &dirty) || atomic_load(&c.crashing))
			continue;
		__atomic_store_n(&epochs.noted, lost, __ATOMIC_SEQ_CST);
		if (lost)
			dm_message(VOL, "lost-noted");
	}
	return NULL;
}

/*
 * ---- after a crash ----
 */

/* Ask for the dirty segments of @set, page by page. */
static uint64_t get_dirty(const char *set, bool *dirty)
{
	uint64_t first = 0, next, start, len, total = 0;
	char reply[8192], *p, *q;

	while (first < c.segs) {
		int r = dm_ask(VOL, reply, sizeof(reply), "dirty %s %" PRIu64 " 100000", set,
			       first);

		if (r)
			miss("'dirty %s' failed: %s", set, strerror(-r));
		p = strchr(reply, ' ');
		if (!p || sscanf(p, " %" SCNu64, &next) != 1 || next <= first)
			miss("'dirty %s' gave '%s'", set, reply);
		*p = '\0';
		for (p = strtok_r(reply, ";", &q); p && *p != '-'; p = strtok_r(NULL, ";", &q)) {
			if (sscanf(p, "%" SCNx64 ",%" SCNx64, &start, &len) != 2)
				miss("'dirty %s' gave '%s'", set, p);
			for (; len--; total++)
				dirty[start++] = true;
		}
		first = next;
	}
	return total;
}

static void check_clean(const bool *dirty)
{
	struct copy *copy = find_copy(epochs.now.committed);
	uint64_t seg, sector;

	for (seg = 0; seg < c.oracle.segs; seg++) {
		if (dirty[place_seg(seg)])
			continue;
		if (!epochs.now.committed || !copy)
			miss("segment %" PRIu64 " is clean, and nothing is committed", seg);
		if (!oracle_equals(&c.oracle, copy->content, seg, &sector))
			miss("segment %" PRIu64 " is clean, but sector %" PRIu64
			     " holds write %#x, and at checkpoint %" PRIu64
			     " it was %#x (epoch is %" PRIu64 "%s)", seg, sector,
			     c.oracle.content[sector], copy->epoch, copy->content[sector],
			     epochs.now.epoch, epochs.now.frozen ? " frozen" : "");
		epochs.clean++;
	}
}

bool *check_recovery(int fd, bool all)
{
	bool *dirty = calloc(c.segs, sizeof(*dirty));
	uint64_t nr_dirty, nr;
	struct state said;
	bool lost;

	must(get_status(&said, &lost, &nr_dirty), "get the status");
	adopt_state(&said);
	epochs.nr_maybe = 0;
	/* A checkpoint without an answer has no snapshot that could be committed. */
	if (epochs.now.frozen && !(find_copy(epochs.now.epoch)))
		epochs.may_commit = false;

	if (oracle_recover(&c.oracle, fd, all))
		miss("the volume lost what was flushed");
	nr = get_dirty("current", dirty);
	if (nr != nr_dirty)
		miss("%" PRIu64 " segments are dirty, the status says %" PRIu64, nr, nr_dirty);
	if (lost && nr != c.segs)
		miss("tracking is lost, and %" PRIu64 " segments are clean", c.segs - nr);
	if (epochs.now.frozen)
		get_dirty("frozen", dirty);
	if (epochs.noted)
		epochs.distrust = epochs.now.epoch + 1;
	if (lost)
		epochs.lost_until = epochs.now.epoch + 1;
	if (lost || epochs.now.committed < epochs.distrust)
		epochs.lost++;
	if (epochs.now.committed >= epochs.distrust)
		check_clean(dirty);
	epochs.noted = false;
	return dirty;
}

