/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leave the version before, when a version was made: each recipe that it had where the new one has
 * another is referred to by one newest version less. A recipe that no newest version refers to is
 * superseded. (In batches; version.cursor says how far that is.)
 */
#ifndef RD_LEAVE_H
#define RD_LEAVE_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

int rd_leave_before(struct rd_pool *pool, struct rd_version *version);

#endif
