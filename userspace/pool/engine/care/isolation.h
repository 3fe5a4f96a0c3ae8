/* SPDX-License-Identifier: GPL-2.0 */
/* What a lost frame hurts, of all frames together: see dependents.h. */
#ifndef RD_ISOLATION_H
#define RD_ISOLATION_H

#include "dependents.h"

struct rd_hurt {
	struct rd_dependents worst;	/* of the frames that most need */
	u64 volumes, versions;		/* added up over all frames */
};

struct rd_isolation {
	u64 volumes, versions;		/* that exist */
	u64 frames;			/* that one of them needs */
	struct rd_hurt hurt;
	/* The same, if a frame hurts nobody of which there are up-to-date copies elsewhere. */
	bool has_copies;
	struct rd_hurt with_copies;
};

int rd_isolation(struct rd_pool *pool, struct rd_isolation *ret);

#endif
