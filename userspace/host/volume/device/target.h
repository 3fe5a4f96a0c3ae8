/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The target revdedup: its table line, its status line and its messages, see
 * Documentation/dm-revdedup.rst. All of these say what went wrong, once.
 */
#ifndef RD_TARGET_H
#define RD_TARGET_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/uuid.h"
#include "host/sys/dm.h"
#include "pool/engine/snapshot/snapshot.h"

#define RD_TARGET	"revdedup"

struct rd_target_table {
	u64 sectors;
	const char *base;	/* NULL: none */
	const char *meta;
	const char *pool;	/* NULL: none */
	const u8 *volume_uuid;	/* NULL: any */
	const u8 *pool_uuid;	/* NULL: any */
	bool zeros;		/* without a pool: blocks may be zeros, see below */
};

bool rd_target_exists(void);

/* Is there such a target, also after loading the module? 0, or -ENOPKG. */
int rd_target_require(void);

/*
 * Does the module read packs, as 1.1.0 does? Without that no table can have a place in one, and
 * nothing else is amiss. 0, or -ENOPKG and says so. Cheap where it does: it is asked once.
 */
bool rd_target_reads_packs(void);
int rd_target_require_packs(void);

int rd_target_load(const char *name, const struct rd_target_table *table, unsigned int flags);

/* The devices in its table line, as the kernel prints them: "253:4" or "-". */
struct rd_target_devices {
	u64 sectors;
	char base[32];
	char meta[32];
	char pool[32];
	char options[128];
};

/* -ENODATA, without a word: its live table is none of this target. */
int rd_target_devices(const char *name, struct rd_target_devices *ret);
/*
 * Has it the option "zeros": a remap table without a pool, where blocks are home or zeros? A
 * table with a pool needs no such option.
 */
bool rd_target_has_zeros(const struct rd_target_devices *devices);
void rd_target_set_zeros(struct rd_target_devices *devices, bool zeros);
/* Load its present table with these devices; the next resume makes it live. */
int rd_target_reload(const char *name, const struct rd_target_devices *devices);

struct rd_target_status {
	u64 epoch;
	bool has_checkpoint;
	u64 checkpoint;		/* which is neither committed nor aborted */
	u64 version;		/* of the last commit */
	u64 nr_dirty, nr_segs;
	u64 nr_base, nr_zero, nr_pool;
	u64 hydration_left;
	bool is_lost;
	char mode[8];
	char hydration[8];
};

/* -ENODATA, without a word: it has no such table, or was never resumed. */
int rd_target_status(const char *name, struct rd_target_status *ret);

static inline bool rd_target_is_home(const struct rd_target_status *status)
{
	return !status->nr_zero && !status->nr_pool;
}

/*
 * Parse the answer of the message table, "<first>,<len>,<place>;... <next>", which is changed:
 * append its ranges as struct dmr_range. -ENOMEM shows in ret->failed.
 */
int rd_target_take_places(char *answer, u64 *ret_next, struct rd_buffer *ret);

/*
 * A message that changes or marks many blocks ends with -EBUSY when a suspend or a resume waits
 * for it. With that as @r: is it to be sent again? After a pause, and not for ever.
 */
bool rd_target_again(int r, unsigned int *tries);

int rd_target_checkpoint(const char *name, u64 epoch);
int rd_target_commit(const char *name, u64 epoch, u64 version);
int rd_target_abort(const char *name, u64 epoch);

/*
 * Append a struct rd_changed_range for each range of dirty segments, ascending;
 * @which is "frozen" or "current".
 */
int rd_target_dirty(const char *name, const char *which, u64 nr_segs, struct rd_buffer *ret);

#endif
