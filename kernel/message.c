// SPDX-License-Identifier: GPL-2.0
/*
 * Messages, a row each in the table at the end. One at a time for a target, all
 * of a message checked before anything changes. A message with a result has no
 * side effect, because libdevmapper sends it again when the result did not fit.
 */
#include <linux/bitops.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "rdd.h"

struct message {
	struct rdd_meta *meta;
	struct block_device *base;
	char **argv;		/* after the verb */
	char *result;
	unsigned int maxlen;
};

static int parse_number(struct message *m, unsigned int i, u64 *ret)
{
	int r = rdd_parse_u64(m->argv[i], ret);

	if (r)
		DMERR("%s: '%s' is not a decimal number",
		      rdd_meta_name(m->meta), m->argv[i]);
	return r;
}

static int msg_checkpoint(struct message *m)
{
	u64 epoch;
	int r = parse_number(m, 0, &epoch);

	return r ? r : rdd_checkpoint(m->meta, m->base, epoch);
}

static int msg_commit(struct message *m)
{
	u64 epoch, version;
	int r = parse_number(m, 0, &epoch);

	if (!r)
		r = parse_number(m, 1, &version);
	return r ? r : rdd_commit(m->meta, epoch, version);
}

static int msg_abort(struct message *m)
{
	u64 epoch;
	int r = parse_number(m, 0, &epoch);

	return r ? r : rdd_abort(m->meta, epoch);
}

static int msg_mark(struct message *m)
{
	return rdd_mark(m->meta, m->argv[0]);
}

static int msg_lost_noted(struct message *m)
{
	if (m->meta->outage) {
		m->meta->outage_is_noted = true;
		rdd_track_kick(m->meta);
	}
	return 0;
}

/*
 * "<ranges|-> <next>": the dirty ranges of [@first, @end), and the first
 * segment that did not fit any more (@end when all did).
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
	struct rdd_meta *meta = m->meta;
	const unsigned long *bits;
	u64 first, count;

	if (!strcasecmp(m->argv[0], "current")) {
		bits = meta->want;
	} else if (!strcasecmp(m->argv[0], "frozen")) {
		bits = meta->frozen;
		if (!(meta->super.flags & RDD_FLAG_FROZEN)) {
			DMERR("%s: dirty frozen: no checkpoint waits",
			      rdd_meta_name(meta));
			return -ENODATA;
		}
	} else {
		DMERR("%s: dirty: say current or frozen, not '%s'",
		      rdd_meta_name(meta), m->argv[0]);
		return -EINVAL;
	}
	if (parse_number(m, 1, &first) || parse_number(m, 2, &count))
		return -EINVAL;
	if (first > meta->nr_segs) {
		DMERR("%s: dirty: the volume has %llu segments only",
		      rdd_meta_name(meta), meta->nr_segs);
		return -EINVAL;
	}
	return emit_dirty(m, bits, first,
			  first + min(count, meta->nr_segs - first));
}

static const struct verb {
	const char *name;
	unsigned int nr_args;
	int (*run)(struct message *m);
} verbs[] = {
	{ "checkpoint",	1, msg_checkpoint },	/* E */
	{ "commit",	2, msg_commit },	/* E N */
	{ "abort",	1, msg_abort },		/* E */
	{ "dirty",	3, msg_dirty },		/* current|frozen first count */
	{ "mark",	1, msg_mark },		/* ranges */
	{ "lost-noted",	0, msg_lost_noted },
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

int rdd_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen)
{
	struct rdd_target *rt = ti->private;
	struct message m = {
		.meta = rt->meta,
		.base = rt->base->bdev,
		.argv = argv + 1,
		.result = result,
		.maxlen = maxlen,
	};
	const struct verb *verb = find_verb(argv[0]);
	unsigned int noio;
	int r;

	if (!verb) {
		DMERR("%s: unknown message '%s'", rdd_meta_name(rt->meta),
		      argv[0]);
		return -EINVAL;
	}
	if (argc - 1 != verb->nr_args) {
		DMERR("%s: %s takes %u arguments, not %u",
		      rdd_meta_name(rt->meta), verb->name, verb->nr_args,
		      argc - 1);
		return -EINVAL;
	}

	/* The device may be suspended: reclaim must not write to it. */
	noio = memalloc_noio_save();
	mutex_lock(&rt->meta->lock);
	/* Live tables only, but preresume may have failed. */
	r = rt->meta->loaded ? verb->run(&m) : -ENXIO;
	mutex_unlock(&rt->meta->lock);
	memalloc_noio_restore(noio);
	return r;
}
