/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pool in which blocks of a volume lie, while a view of the volume is copied (freeze.h).
 * It need not be the pool that the copy goes to.
 *
 * The table of a view stands still, so the pool keeps the places that it names until the view
 * is gone:
 *
 *	1. rd_view_pool_open(): no command frees anything in that pool; and the view has a
 *	   lease, stable. A command that wants to free a place asks it (tenants.h), and
 *	   goes without what it names
 *	2. rd_freeze_begin() makes the view
 *	3. rd_view_pool_viewed(): the lease is enough, others free again
 *	4. rd_freeze_end() removes the view
 *	5. rd_view_pool_close(): the lease ends, and what it alone has kept is freed
 *
 * A crash before 2 leaves a lease without a device, which goes when it is asked. After a later
 * one the view keeps its places until the next command on the volume removes it.
 */
#ifndef RD_VIEW_POOL_H
#define RD_VIEW_POOL_H

#include "attach.h"

struct rd_view_pool {
	struct rd_pool *pool;		/* NULL: the volume reads none */
	bool is_own;			/* opened for this */
	bool has_lease;
	bool needs_shut;		/* instead of a lease, until the view is gone */
	struct rd_lock shut;
	char view[RD_DM_NAME_MAX];	/* the UUID of the view */
};

#define RD_VIEW_POOL_NONE	((struct rd_view_pool){ .shut = RD_LOCK_NONE })

/*
 * Find the pool in the table of @at: that of @caller, or another, which is opened. -EXDEV: it
 * is neither that nor the one which @at names. Says what went wrong.
 */
int rd_view_pool_open(struct rd_view_pool *reads, const struct rd_caller *caller,
		      const struct rd_attachment *at);
void rd_view_pool_viewed(struct rd_view_pool *reads);
/* The view is gone. Whoever frees next in the pool need not have called rd_view_pool_close(). */
void rd_view_pool_unviewed(struct rd_view_pool *reads);
/* The caller has no lock of the pool. */
int rd_view_pool_close(struct rd_view_pool *reads);

/* Is @uuid that of a view, and of a volume that is attached on this host? */
bool rd_is_view(const char *uuid);
bool rd_is_view_here(const char *uuid);

#endif
