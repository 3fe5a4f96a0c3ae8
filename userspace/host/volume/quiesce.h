/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prepare the users of a volume before it is suspended, and let them go on after it was
 * resumed:
 *
 *	the user's hooks say pre	hooks.h
 *	file systems are frozen		fsfreeze.h
 *	  (the volume is suspended and resumed)
 *	file systems are thawed
 *	each hook that was begun says post
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
	const struct rd_attachment *at;
	unsigned int seconds;		/* for each hook */
	struct rd_hooks hooks;
	struct rd_buffer fss;		/* struct rd_fs */
	struct rd_quiesce_shared *shared;
	struct rd_guard guard;
	u64 began;			/* to freeze */
	u64 usec;			/* that file systems were frozen; 0: none was */
};

/* After an error everything is undone. */
int rd_quiesce_begin(struct rd_quiesce *quiesce, const struct rd_attachment *at,
		     unsigned int seconds);

/*
 * 0; -EIO: something could not be undone; -ETIME: it was undone before its time, so the
 * volume was not prepared when it was suspended. Says so.
 */
int rd_quiesce_end(struct rd_quiesce *quiesce);

#endif
