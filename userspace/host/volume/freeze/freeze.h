/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hold the content of volumes still while they are copied and written to: of all of them what it
 * is at one moment. For that time the devices of each are:
 *
 *	revdedup-vg-vm1		revdedup: the base is now ...
 *	  +-- :origin		snapshot-origin over /dev/vg/vm1
 *	  +-- :meta		linear; snapshot-origin where a block is not home
 *	:snap			snapshot of /dev/vg/vm1, what is copied
 *	:metasnap, :view	where a block is not home: snapshot of the metadata, and
 *				the target over both, which is what is copied then
 *
 * All tables are loaded before hooks and file systems are asked to hold still (quiesce.h)
 * and before the volumes are suspended, so that the pause is short. All are suspended, in their
 * order, before the first one is frozen, and none is resumed before the last one is: of two
 * writes, the second of which begins when the first has ended, no freeze has only the second.
 */
#ifndef RD_FREEZE_H
#define RD_FREEZE_H

#include "host/volume/device/attachment.h"
#include "cow.h"
#include "quiesce.h"

struct rd_freeze {
	const struct rd_attachment *at;
	u64 last_epoch;		/* of the checkpoint before */
	u64 epoch;		/* of its checkpoint; 0: there is none */
	bool has_view;
	char source[RD_DM_PATH_MAX];	/* what to copy */
	u64 pause_us;		/* that writes waited */
	bool undo_failed;	/* see rd_quiesce_end(); the rest is fine */
};

struct rd_freeze_options {
	const char *dir;	/* of the pool, see cow.h */
	u64 cow_bytes;		/* 0: by what is dirty */
	unsigned int hook_seconds;	/* see quiesce.h */
};

/*
 * Freeze @nr volumes: ->at of each is set. On failure all of them go on, and what was dirty is
 * dirty again.
 */
int rd_freeze_begin(struct rd_freeze *const *freezes, unsigned int nr,
		    const struct rd_freeze_options *options);

/* Fail if the copy is incomplete: the store for overwritten data was full. */
int rd_freeze_check(const struct rd_freeze *freeze);

/* Restore the volume, also after an interrupted command; do nothing where all is as before. */
int rd_freeze_end(const struct rd_attachment *at);
/* Remove only the devices of a freeze, where the volume has none itself. */
int rd_freeze_abandon(const struct rd_attachment *at);
/* Does a device of a freeze exist? */
bool rd_freeze_is_there(const struct rd_attachment *at);

#endif
