/* SPDX-License-Identifier: GPL-2.0 */
/* Take a version of a volume from an image. */
#ifndef RD_SNAPSHOT_H
#define RD_SNAPSHOT_H

#include "pool/catalog/versions.h"
#include "pool/index/lookup.h"
#include "pool/pool.h"

struct rd_feed;
struct rd_store;

/* The ranges that have changed since version @base: nothing else has. */
struct rd_changed {
	i64 base;
	unsigned int nr;
	struct rd_changed_range {
		u64 offset;
		u64 len;
	} *ranges;
};

struct rd_snapshot_options {
	const char *volume;
	const char *from;
	struct rd_store *store;	/* that @from names, or NULL: see pool/data/store.h */
	struct rd_feed *feed;		/* instead of @from, or NULL: see feed.h */
	const struct rd_changed *changed;	/* NULL: compare everything */
	const char *comment;
	const char *tags;		/* or NULL: each ends with a NUL, and all with another */
	bool keep_tags;			/* that other versions have */
	/* Of a moment that is shared with others, see snapshot_group.h; 0: now. */
	i64 time;
	/* Copy it and let it wait: rd_snapshot_group_bear() makes it exist. */
	bool waits;
	/* The tracker whose next list begins here, and the epoch; NULL and 0 for images. */
	const u8 *tracker;
	u64 epoch;
	/*
	 * @from is a block device that a freeze made: nothing can write to it. For all
	 * others it is checked whether a write came meanwhile.
	 */
	bool is_frozen;
	/* @from may be written meanwhile, as @check may find: the version is not consistent. */
	bool is_in_use;
	/* Make it even if @from turns out to have been written, and mark it as well. */
	bool may_change;
	/* How new content is stored; NULL: as the pool says. */
	const struct rd_compression *compression;
	/* How much of it is stored: as the volume says, but for this. */
	struct rd_rule_change rule;
	/* Compare what the pool seems to have elsewhere, byte by byte. */
	bool verify_hits;
	/* Why @changed is NULL, if the caller has a reason. */
	const char *why_full;
	/* May be NULL: is what was read the content of one moment? Nothing more is read. */
	int (*check)(void *ctx);
	/*
	 * May be NULL: called once the version exists and nothing more is read from
	 * @from, before the index is written and reverse deduplication, which can take longer.
	 */
	int (*copied)(void *ctx, const struct rd_version *version);
	void *ctx;
};

struct rd_snapshot_report {
	struct rd_version version;
	const char *mode;	/* "full", "changed" or "received" */
	bool list_was_wrong;	/* "full" since an audit found that */
	const char *reason;	/* why full, or NULL */
	u64 segments_audited;	/* read though no list says that they changed */
	u64 segments_changed;
	u64 segments_shared;	/* of these, the ones that the pool had */
	u64 segments_pieces;	/* unchanged, and written again as one piece */
	u64 segments_in_part;	/* changed, and written only where they were */
	u64 blocks_waiting;	/* of older versions: only the pass looks for them */
	struct rd_lookup_counts lookups;	/* of blocks in segments that the pool had not */
	/* How long it took, in microseconds. */
	u64 usec_copy;		/* until the version existed */
	u64 usec_reverse;
	u64 usec_free;
};

/*
 * Make the index, if a snapshot of @volume with this rule needs one and there is none, so that it
 * is not made while others wait for the snapshot. If it is gone again by then, it is.
 */
int rd_snapshot_prepare(struct rd_pool *pool, const char *volume,
			const struct rd_rule_change *change);
/*
 * The same, and lock the volume, where the content of one moment lasts only as long as others make
 * room for it: the wait comes before the moment. rd_snapshot() then has the lock at once, and
 * drops it; without that it is kept until the pool is closed.
 */
int rd_snapshot_lock(struct rd_pool *pool, const char *volume,
		     const struct rd_rule_change *change);

int rd_snapshot(struct rd_pool *pool, const struct rd_snapshot_options *options,
		struct rd_snapshot_report *report);

#endif
