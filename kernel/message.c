// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: each has a row in the table at the end. A device runs one at a time, and
 * checks all of a message before anything changes. A message with an answer has no side
 * effect, because libdevmapper sends it again when the answer did not fit.
 */
#include <linux/bitops.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "alias.h"
#include "checkpoint.h"
#include "edit.h"
#include "hydrate.h"
#include "message.h"
#include "print.h"
#include "queue.h"
#include "ranges.h"
#include "shed.h"
#include "super.h"
#include "table.h"
#include "writeback.h"

struct message {
	struct dmr_meta *meta;
#ifndef DMR_NO_TABLE
	struct dmr_table *table;
#endif
	struct block_device *base;
	char **argv;		/* after the verb */
	unsigned int argc;
	char *result;
	unsigned int maxlen;
};

static int parse_number(struct message *m, unsigned int i, u64 *ret)
{
	int r = dmr_parse_u64(m->argv[i], ret);

	if (r)
		DMERR("%s: '%s' is not a decimal number",
		      dmr_name(m->meta), m->argv[i]);
	return r;
}

static int msg_checkpoint(struct message *m)
{
	u64 epoch;
	int r = parse_number(m, 0, &epoch);

#ifndef DMR_NO_TABLE
	/* The suspend has written back, but that may have failed. */
	if (!r && m->table)
		r = dmr_writeback(m->table);
#endif
	return r ? r : dmr_checkpoint(m->meta, m->base, epoch);
}

#ifndef DMR_NO_TABLE
/* Resume hydration, which stops while a checkpoint waits. */
static void resume_hydration(struct message *m)
{
	if (m->table)
		dmr_hydrate_kick(m->table);
}
#endif

static int msg_commit(struct message *m)
{
	u64 epoch, version;
	int r = parse_number(m, 0, &epoch);

	if (!r)
		r = parse_number(m, 1, &version);
	if (!r)
		r = dmr_commit(m->meta, epoch, version);
#ifndef DMR_NO_TABLE
	if (!r)
		resume_hydration(m);
#endif
	return r;
}

static int msg_abort(struct message *m)
{
	u64 epoch;
	int r = parse_number(m, 0, &epoch);

	if (!r)
		r = dmr_abort(m->meta, epoch);
#ifndef DMR_NO_TABLE
	if (!r)
		resume_hydration(m);
#endif
	return r;
}

static int msg_mark(struct message *m)
{
	return dmr_mark(m->meta, m->argv[0]);
}

static int msg_lost_noted(struct message *m)
{
	if (m->meta->outage) {
		m->meta->outage_is_noted = true;
		dmr_queue_tracker(m->meta);
	}
	return 0;
}

/*
 * Answer "<ranges|-> <next>": the dirty ranges of [@first, @end), and the first
 * segment that did not fit any more (@end if all did).
 */
static int emit_dirty(struct message *m, const unsigned long *bits,
		      u64 first, u64 end)
{
	/* The longest range, and " <next>" with its zero byte. */
	const unsigned int room = sizeof(";ffffffff,100000000") +
				  sizeof(" 4294967296");
	unsigned int maxlen = m->maxlen;
	char *result = m->result;
	unsigned int sz = 0;
	u64 seg = first;

	while (seg < end) {
		u64 start = find_next_bit(bits, end, seg);

		if (start >= end || (sz && sz + room >= maxlen)) {
			seg = min(start, end);
			break;
		}
		seg = find_next_zero_bit(bits, end, start);
		DMEMIT("%s%llx,%llx", sz ? ";" : "", start, seg - start);
	}
	if (!sz)
		DMEMIT("-");
	DMEMIT(" %llu", seg);
	return 1;
}

static int msg_dirty(struct message *m)
{
	struct dmr_meta *meta = m->meta;
	const unsigned long *bits;
	u64 first, count;

	if (!strcasecmp(m->argv[0], "current")) {
		bits = meta->want;
	} else if (!strcasecmp(m->argv[0], "frozen")) {
		bits = meta->frozen;
		if (!(meta->super.flags & DMR_FLAG_FROZEN)) {
			DMERR("%s: dirty frozen: no checkpoint waits",
			      dmr_name(meta));
			return -ENODATA;
		}
	} else {
		DMERR("%s: dirty: use current or frozen, not '%s'",
		      dmr_name(meta), m->argv[0]);
		return -EINVAL;
	}
	if (parse_number(m, 1, &first) || parse_number(m, 2, &count))
		return -EINVAL;
	if (first > meta->nr_segs) {
		DMERR("%s: dirty: the volume has %llu segments only",
		      dmr_name(meta), meta->nr_segs);
		return -EINVAL;
	}
	return emit_dirty(m, bits, first,
			  first + min(count, meta->nr_segs - first));
}

#ifndef DMR_NO_TABLE
/* ------------------------------------------------------------------
 * The remap table
 */

static int msg_remap(struct message *m)
{
	return dmr_edit_remap(m->table, m->argv[0]);
}

static int msg_begin(struct message *m)
{
	return dmr_edit_begin(m->table);
}

static int msg_set(struct message *m)
{
	return dmr_edit_set(m->table, m->argv[0]);
}

static int msg_end(struct message *m)
{
	return dmr_edit_end(m->table);
}

#ifndef DMR_NO_ALIAS
/* Parse the token of the program that sends @m: any number but 0. */
static int parse_token(struct message *m, u64 *ret)
{
	int r = parse_number(m, 0, ret);

	if (!r && !*ret) {
		DMERR("%s: a token cannot be 0", dmr_name(m->meta));
		r = -EINVAL;
	}
	return r;
}

static int msg_watch(struct message *m)
{
	u64 token;
	int r;

	if (m->argc == 1) {
		if (strcmp(m->argv[0], "-")) {
			DMERR("%s: watch: use <token> <ranges> or -", dmr_name(m->meta));
			return -EINVAL;
		}
		dmr_unwatch(m->table);
		return 0;
	}
	r = parse_token(m, &token);
	return r ? r : dmr_watch(m->table, token, m->argv[1]);
}

static int msg_alias(struct message *m)
{
	u64 token;
	int r = parse_token(m, &token);

	return r ? r : dmr_alias(m->table, token, m->argv[1]);
}

static int msg_shed(struct message *m)
{
	bool zeroed = m->argc == 2;

	if (zeroed && strcasecmp(m->argv[1], "zeroed")) {
		DMERR("%s: shed: use <ranges> or <ranges> zeroed", dmr_name(m->meta));
		return -EINVAL;
	}
	return dmr_shed(m->table, m->argv[0], zeroed);
}
#endif

static int msg_table(struct message *m)
{
	struct dmr_pool_range only;
	u64 first, count;

	if (m->argc == 3) {
		DMERR("%s: table takes 2 or 4 arguments, not 3", dmr_name(m->meta));
		return -EINVAL;
	}
	if (parse_number(m, 0, &first) || parse_number(m, 1, &count))
		return -EINVAL;
	if (m->argc == 2)
		return dmr_print(m->table, first, count, NULL, m->result, m->maxlen);
	if (parse_number(m, 2, &only.first) || parse_number(m, 3, &only.len))
		return -EINVAL;
	only.len = min(only.len, U64_MAX - only.first);
	return dmr_print(m->table, first, count, &only, m->result, m->maxlen);
}

static int set_hydration(struct message *m, bool on, u64 mib)
{
	int r;

	mutex_lock(&m->meta->lock);
	if (m->meta->read_only)
		r = -EROFS;
	else
		r = on ? dmr_hydrate_start(m->table, mib) :
			 dmr_hydrate_stop(m->table);
	mutex_unlock(&m->meta->lock);
	return r;
}

static int msg_hydrate(struct message *m)
{
	u64 mib = 0;

	if (m->argc == 1 && !strcasecmp(m->argv[0], "stop"))
		return set_hydration(m, false, 0);
	if (strcasecmp(m->argv[0], "start")) {
		DMERR("%s: hydrate: use start, start <MiB/s> or stop",
		      dmr_name(m->meta));
		return -EINVAL;
	}
	if (m->argc == 2 && parse_number(m, 1, &mib))
		return -EINVAL;
	if (mib > U32_MAX || (m->argc == 2 && !mib)) {
		DMERR("%s: hydrate: the limit is 1 to %u MiB/s",
		      dmr_name(m->meta), U32_MAX);
		return -EINVAL;
	}
	return set_hydration(m, true, mib);
}
#endif

/* ------------------------------------------------------------------
 * All of them
 */

static const struct verb {
	const char *name;
	unsigned int min_args;
	unsigned int max_args;
	int (*run)(struct message *m);
#ifndef DMR_NO_TABLE
	bool table;		/* needs a remap table, and takes meta->lock itself */
#endif
} verbs[] = {
	{ "checkpoint",	1, 1, msg_checkpoint },		/* E */
	{ "commit",	2, 2, msg_commit },		/* E N */
	{ "abort",	1, 1, msg_abort },		/* E */
	{ "dirty",	3, 3, msg_dirty },		/* current|frozen first count */
	{ "mark",	1, 1, msg_mark },		/* ranges */
	{ "lost-noted",	0, 0, msg_lost_noted },
#ifndef DMR_NO_TABLE
	{ "remap",	1, 1, msg_remap, true },	/* ranges with old and new */
	{ "begin",	0, 0, msg_begin, true },
	{ "set",	1, 1, msg_set, true },		/* ranges with a place */
	{ "end",	0, 0, msg_end, true },
	{ "table",	2, 4, msg_table, true },	/* first count [pool first, length] */
	{ "hydrate",	1, 2, msg_hydrate, true },	/* start [MiB/s] | stop */
#ifndef DMR_NO_ALIAS
	{ "watch",	1, 2, msg_watch, true },	/* token ranges, or - */
	{ "alias",	2, 2, msg_alias, true },	/* token, ranges with a place */
	{ "shed",	1, 2, msg_shed, true },		/* ranges [zeroed] */
#endif
#endif
};

static const struct verb *find_verb(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (!strcasecmp(name, verbs[i].name))
			return &verbs[i];
	}
	return NULL;
}

#ifndef DMR_NO_TABLE
/* With a pool, blocks may get a place there: it cannot be left out any more. */
static int note_pool(struct message *m)
{
	struct dmr_super super;
	int r = 0;

	mutex_lock(&m->meta->lock);
	super = m->meta->super;
	if (dmr_table_has_pool(m->table) && (super.flags & DMR_FLAG_NO_POOL) &&
	    !m->meta->read_only) {
		super.flags &= ~DMR_FLAG_NO_POOL;
		r = dmr_super_write(m->meta, &super);
	}
	mutex_unlock(&m->meta->lock);
	return r;
}

static int run_on_table(struct message *m, const struct verb *verb)
{
	int r;

	/* The remap table outlives a table line that wants one. */
	if (!m->table || !dmr_table_is_used(m->table)) {
		DMERR("%s: %s: there is no remap table: it needs a pool device (or zeros in the table line), and room on the metadata device",
		      dmr_name(m->meta), verb->name);
		return -EOPNOTSUPP;
	}
	r = note_pool(m);
	if (r)
		return r;
	dmr_writeback_begin_settle(m->table);
	return verb->run(m);
}
#endif

static int run_verb(struct message *m, const struct verb *verb)
{
	bool loaded;
	int r = -ENXIO;

	mutex_lock(&m->meta->lock);
	/* Device-mapper asks live table lines only, but preresume may have failed. */
	loaded = m->meta->loaded;
#ifndef DMR_NO_TABLE
	m->table = m->meta->table;
	if (verb->table) {
		mutex_unlock(&m->meta->lock);
		return loaded ? run_on_table(m, verb) : r;
	}
#endif
	if (loaded)
		r = verb->run(m);
	mutex_unlock(&m->meta->lock);
	return r;
}

int dmr_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen)
{
	struct dmr_target *rt = ti->private;
	struct message m = {
		.meta = rt->meta,
		.base = rt->base ? rt->base->bdev : NULL,
		.argv = argv + 1,
		.argc = argc - 1,
		.result = result,
		.maxlen = maxlen,
	};
	const struct verb *verb = find_verb(argv[0]);
	unsigned int noio;
	int r;

	if (!verb) {
		DMERR("%s: unknown message '%s'", dmr_name(rt->meta),
		      argv[0]);
		return -EINVAL;
	}
	if (m.argc < verb->min_args || m.argc > verb->max_args) {
		DMERR("%s: %s takes %u arguments, not %u",
		      dmr_name(rt->meta), verb->name,
		      m.argc < verb->min_args ? verb->min_args : verb->max_args,
		      m.argc);
		return -EINVAL;
	}

	/* The device may be suspended: reclaim must not write to it. */
	noio = memalloc_noio_save();
	mutex_lock(&rt->meta->message_lock);
	r = run_verb(&m, verb);
	mutex_unlock(&rt->meta->message_lock);
	memalloc_noio_restore(noio);
	return r;
}
