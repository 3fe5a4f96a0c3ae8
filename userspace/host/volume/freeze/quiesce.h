/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prepare the users of volumes before these are suspended, and let them go on after they were
 * resumed:
 *
 *	the user's hooks say pre	hooks.h, volume by volume
 *	file systems are frozen		fsfreeze.h
 *	  (the volumes are suspended and resumed)
 *	file systems are thawed
 *	each hook that was begun says post
 *
 * No hook runs while a file system of any of the volumes is frozen: it may want to write there.
 *
 * A guard does the last two, so that they happen exactly once: also if the command is
 * killed, a hook fails, or all of it takes too long.
 */
#ifndef RD_QUIESCE_H
#define RD_QUIESCE_H

#include "host/sys/guard.h"
#include "hooks.h"

#define RD_QUIESCE_SECONDS	60

struct rd_quiesce {
	const struct rd_attachment *const *ats;
	unsigned int nr;
	unsigned int seconds;		/* for each hook */
	struct rd_hooks hooks;
	dev_t *devices;			/* of the volumes */
	struct rd_buffer fss;		/* struct rd_fs */
	struct rd_quiesce_shared *shared;
	struct rd_guard guard;
	u64 began;			/* to freeze */
	u64 usec;			/* that file systems were frozen; 0: none was */
};

/* Prepare @nr volumes; @ats stays until the end. After an error everything is undone. */
int rd_quiesce_begin(struct rd_quiesce *quiesce, const struct rd_attachment *const *ats,
		     unsigned int nr, unsigned int seconds);
/* Is a file system that is mounted from volume @nr itself frozen? */
bool rd_quiesce_has_frozen(const struct rd_quiesce *quiesce, unsigned int nr);

/*
 * 0; -EIO: something could not be undone; -ETIME: it was undone before its time, so the
 * volumes were not prepared when they were suspended. Says so.
 */
int rd_quiesce_end(struct rd_quiesce *quiesce);

#endif
