/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hold a volume's content still while it is copied, with those above writing on. For
 * that time its devices are:
 *
 *	revdedup-vg-vm1		revdedup: the base is now ...
 *	  +-- :origin		snapshot-origin over /dev/vg/vm1
 *	  +-- :meta		linear; snapshot-origin where a block is not home
 *	:snap			snapshot of /dev/vg/vm1, what is copied
 *	:metasnap, :view	where a block is not home: snapshot of the metadata, and
 *				the target over both, which is what is copied then
 *
 * All tables are loaded before the volume is suspended, and before anybody is asked to
 * hold still (hold.h), so that in between there is next to nothing to do.
 */
#ifndef RD_FREEZE_H
#define RD_FREEZE_H

#include "attachment.h"
#include "cow.h"
#include "hold.h"

struct rd_freeze {
	const struct rd_attachment *at;
	u64 epoch;		/* of its checkpoint */
	bool has_view;
	char source[RD_DM_PATH_MAX];	/* what to copy */
	u64 pause_us;		/* that those above felt */
	bool undo_failed;	/* something of hold.h; the rest is fine */
};

struct rd_freeze_options {
	const char *dir;	/* for what is overwritten, see cow.h */
	u64 cow_bytes;		/* 0: by what is dirty */
	unsigned int hook_seconds;	/* see hold.h */
};

/* After it the volume goes on, also where it fails, and its bits are as they were. */
int rd_freeze_begin(struct rd_freeze *freeze, const struct rd_attachment *at,
		    const struct rd_freeze_options *options);

/* What is copied is whole: no write came that there was no room for. */
int rd_freeze_check(const struct rd_freeze *freeze);

/* The volume is as before; also of a command that died, and where there is nothing. */
int rd_freeze_end(const struct rd_attachment *at);
/* Only its devices, of a volume that has none any more. */
int rd_freeze_abandon(const struct rd_attachment *at);
/* Is there anything to end? */
bool rd_freeze_is_there(const struct rd_attachment *at);

#endif
