/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pools in RADOS by their name, ceph:POOL/SHARD. On each host that uses one it has a directory, as
 * any pool, whose "data" is a link to that name. All else in there is made of the shard, or for
 * this host, and can be removed while no command runs.
 */
#ifndef RD_SHARD_H
#define RD_SHARD_H

#include <limits.h>
#include <stdbool.h>

/* Is @pool the name of one, and no directory? */
bool rd_shard_is_name(const char *pool);

/* Find the directory of a shard on this host; pure. */
void rd_shard_directory(const char *name, char ret[PATH_MAX]);

/* Make the directories above it, with @join all of it, if they are not there. */
int rd_shard_prepare(const char *name, bool join);

#endif
