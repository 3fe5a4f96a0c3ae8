/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the superblock says about how new content is stored, and which features the pool has
 * because of that: see area.h. A feature is announced, and stable, before the catalog has
 * anything of it.
 */
#ifndef RD_CHOICES_H
#define RD_CHOICES_H

#include "pool/pool.h"

/* Announce packs. */
int rd_packs_announce(struct rd_pool *pool);

/* Announce a version that arrives. */
int rd_partial_announce(struct rd_pool *pool);

/* Store what is new in this way, from now on. */
int rd_packs_choose(struct rd_pool *pool, struct rd_compression compression);

/* Find the rule of @volume: its own or the pool's. *@ret_own may be NULL. */
int rd_rule_of(struct rd_pool *pool, i64 volume, struct rd_rule *ret, bool *ret_own);

/* Announce @rule, if it is another one than that of a pool in which nothing was chosen. */
int rd_rule_announce(struct rd_pool *pool, struct rd_rule rule);

/*
 * Choose the rule of the pool, or of @volume; NULL: it has none of its own any more. One of a
 * volume is announced whatever it says: the catalog has a row of it.
 */
int rd_rule_choose(struct rd_pool *pool, struct rd_rule rule);
int rd_rule_choose_for(struct rd_pool *pool, i64 volume, const struct rd_rule *rule);

#endif
