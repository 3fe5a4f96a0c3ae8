/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Take versions of several volumes that begin to exist together, and have a name: a tag that
 * each of them has, and no other version in the pool.
 *
 *	1. rd_snapshot_group_copy(), volume by volume: the version has all its content, and
 *	   its state is WRITING. The lock of its volume stays with the group
 *	2. rd_snapshot_group_bear(): one transaction makes all of them NEW and gives the tag
 *	3. rd_snapshot_group_settle(): reverse deduplication, volume by volume
 *
 * A crash before 2 leaves versions that do not exist. The locks of their volumes are free then,
 * and the next command that writes to the pool undoes them, as it does with one. After 2 all
 * exist, and that command finishes them.
 */
#ifndef RD_SNAPSHOT_GROUP_H
#define RD_SNAPSHOT_GROUP_H

#include "snapshot.h"

struct rd_snapshot_group;

/*
 * Begin one of at most @max versions, which is called @name. -EEXIST, and says so: a version in
 * the pool has that tag.
 */
int rd_snapshot_group_new(struct rd_snapshot_group **ret, struct rd_pool *pool, const char *name,
			  unsigned int max);
/* As rd_snapshot(), but see 1. Both pointers stay until the end of the group. */
int rd_snapshot_group_copy(struct rd_snapshot_group *group,
			   const struct rd_snapshot_options *options,
			   struct rd_snapshot_report *report);
/* Make all of them exist, or none. -EEXIST as above. */
int rd_snapshot_group_bear(struct rd_snapshot_group *group);
/* Once all exist: reverse deduplication of each, unless @r is an error. @r, or the first one. */
int rd_snapshot_group_settle(struct rd_snapshot_group *group, int r);
/* End it: versions that do not exist are undone. */
void rd_snapshot_group_free(struct rd_snapshot_group *group);

#endif
