/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attach a volume, bring it up again, and detach it. Each of these takes the lock of the
 * attachment, which lasts as in attachment.h, and says what went wrong.
 *
 * A crash while a volume is attached for the first time leaves a metadata device, which
 * stands in the way of the next attempt, and is to be removed by hand; or, once the file
 * of the attachment is saved, all that brings the rest back.
 *
 * A device that was in use when it was detached stays, as a linear one. The next attach of that
 * volume takes it over, also while it is in use.
 *
 * Detach notes in the file that the next snapshot reads everything, then removes the devices,
 * then what the pool keeps for them, then the file, which says whose they are: after a crash it is
 * repeated, or the volume attached again. If blocks of it are lost the file goes before what the
 * pool keeps.
 */
#ifndef RD_ATTACH_H
#define RD_ATTACH_H

#include "host/volume/device/attachment.h"
#include "pool/pool.h"
#include "stack.h"

/* For whom devices of volumes are changed. */
struct rd_caller {
	const char *verb;	/* told to others who meet its locks, see rd_session_open() */
	unsigned int wait_ms;	/* for locks of others */
	struct rd_pool *pool;	/* that it has open for writing, or NULL */
};

struct rd_attach_options {
	const char *volume;
	const char *base;	/* NULL: /dev/VOLUME */
	const char *meta;	/* NULL: a new logical volume beside the base */
};

/*
 * Attach a volume that is not attached. -ENOPKG: the module cannot be had. On failure
 * nothing is left of it.
 */
int rd_attach(const struct rd_caller *caller, const struct rd_attach_options *options,
	      struct rd_attachment *at);

/*
 * Lock the volume, and make its devices as far as they are not there: see rd_stack_up().
 * Finishes a roll-back or a deduplication that was cut short. -EINVAL: it is an unfinished clone.
 */
int rd_volume_up(const struct rd_caller *caller, struct rd_attachment *at,
		 enum rd_stack_state *ret_state);

/* The same for a volume that must be tracked. -ENOPKG: the module cannot be had. */
int rd_volume_track(const struct rd_caller *caller, struct rd_attachment *at);

/*
 * Warn if LVM of this host finds a guest's physical volume on a device of ours: it may activate
 * what lies there, which the guest has active, too.
 */
int rd_warn_of_lvm(void);

/*
 * Remove what an interrupted clone has left: see clone.h. 1: @at was such a clone, and
 * there is no such volume now; 0: it is none, or is whole by now. @force: also if the
 * clone's pool cannot be opened.
 */
int rd_clear_unfinished(const struct rd_caller *caller, struct rd_attachment *at, bool force);

enum rd_detach_loss {
	RD_LOSE_POOL_BLOCKS,	/* what of the volume only the pool has */
	RD_LOSE_BASE,		/* the base, which is worth nothing without these */
};

struct rd_detach_options {
	/*
	 * Detach it even if its devices are not there, it is in use, blocks of it lie in
	 * the pool, or the pool cannot be opened.
	 */
	bool force;
	/* Asked, with @force, before something is lost: 0, or what rd_detach() returns. */
	int (*confirm)(void *ctx, const struct rd_attachment *at, enum rd_detach_loss loss);
	void *ctx;
};

struct rd_detach_report {
	bool was_unfinished;	/* it was an unfinished clone, and is gone */
	bool stays;		/* the device is in use, and is linear now */
	bool meta_is_lost;	/* the metadata device was not found, or could not be removed */
};

int rd_detach(const struct rd_caller *caller, struct rd_attachment *at,
	      const struct rd_detach_options *options, struct rd_detach_report *report);

/* Is @pool the one that blocks of the volume lie in? */
bool rd_is_pool_of(const struct rd_pool *pool, const struct rd_attachment *at);

#endif
