/* SPDX-License-Identifier: GPL-2.0 */
/* Progress of long work: a line on a terminal, or lines of JSON. */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include <stdbool.h>

#include "pool/pool.h"

struct rd_wire;

struct ctl_progress {
	struct rd_progress progress;	/* the engine's: first */
	struct rd_wire *wire;	/* its other end waits for this one; or NULL */
	void (*look)(void *ctx);	/* or NULL: about twice a second, while there is work */
	void *ctx;
	u64 looked;		/* ms */
	bool shows, json;
	bool every;		/* print the end of short work, too */
	const char *subject;	/* a version or volume, or NULL */
	const char *what;	/* the present work */
	u64 begun, told;	/* ms */
	u64 first;		/* done when it began */
	u64 before, all;	/* bytes of the parts before this one, and of all; 0: one part */
	bool ended;		/* its end was printed */
	bool on_screen;
};

/* @every: as in --progress=always. Nothing is printed before ctl_progress_show(). */
void ctl_progress_init(struct ctl_progress *progress, bool json, bool every,
		       volatile int *stop);
void ctl_progress_show(struct ctl_progress *progress);

/* From now on work is about @subject, which must last. */
void ctl_progress_begin(struct ctl_progress *progress, const char *subject);

/* The same for a part of longer work: @before bytes of @all are done. */
void ctl_progress_part(struct ctl_progress *progress, const char *subject, u64 before, u64 all);

/* Remove the line from the screen, before something else is printed there. */
void ctl_progress_clear(struct ctl_progress *progress);

#endif
