/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the list of changes since a version begins with, where no target of ours tracks them: the
 * name of a dirty bitmap, or of a snapshot of RBD. The version keeps a hash of it in the place of
 * the tracker, and a list is believed only if the newest version has the hash of where it begins.
 */
#ifndef RD_TRACKER_H
#define RD_TRACKER_H

#include "pool/catalog/versions.h"

/* @kind: of names, in which @name means one thing. */
void rd_tracker_hash(u8 ret[RD_TRACKER_SIZE], const char *kind, const char *name);
/* Did the list that begins with it begin at the moment of @version, which may be none (id 0)? */
bool rd_tracker_is_of(const struct rd_version *version, const char *kind, const char *name);

#endif
