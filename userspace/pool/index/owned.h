/* SPDX-License-Identifier: GPL-2.0 */
/* The frames, ordinary and packed, that recipes have slots of: a bit each, in memory. */
#ifndef RD_OWNED_H
#define RD_OWNED_H

#include <stdbool.h>

#include "pool/catalog/db.h"

struct rd_owned {
	struct rd_owned_part **parts;	/* by number; only those that have any frame */
	unsigned int nr;
};

/* The caller is in no transaction. On an error there is nothing to free. */
int rd_owned_load(struct rd_owned *ret, struct rd_sql *sql);
bool rd_owned_has(const struct rd_owned *owned, u64 frame);
void rd_owned_free(struct rd_owned *owned);

#endif
