// SPDX-License-Identifier: GPL-2.0
/* Choices in the superblock: see choices.h. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/rules.h"
#include "choices.h"

/* Add @incompat to the features, and take the choices that are not NULL. */
static int change_super(struct rd_pool *pool, u64 incompat,
			const struct rd_compression *compression, const struct rd_rule *rule)
{
	struct rd_pool_super *super = &pool->area.super, old;
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = rd_area_reread_super(&pool->area);
	old = *super;
	super->incompat |= incompat;
	if (compression)
		super->compression = *compression;
	if (rule)
		super->rule = *rule;
	if (!r && memcmp(&old, super, sizeof(old)))
		r = rd_area_write_super(&pool->area);
	rd_lock_drop(&lock);
	return r;
}

static int announce(struct rd_pool *pool, u64 features)
{
	return (pool->area.super.incompat & features) == features ? 0 :
		change_super(pool, features, NULL, NULL);
}

int rd_partial_announce(struct rd_pool *pool)
{
	return announce(pool, RD_INCOMPAT_PARTIAL);
}

/* --- packs */

int rd_packs_announce(struct rd_pool *pool)
{
	return announce(pool, RD_INCOMPAT_PACKS);
}

int rd_packs_choose(struct rd_pool *pool, struct rd_compression compression)
{
	return change_super(pool, compression.codec ? RD_INCOMPAT_PACKS : 0, &compression, NULL);
}

/* --- rules */

int rd_rule_of(struct rd_pool *pool, i64 volume, struct rd_rule *ret, bool *ret_own)
{
	int r = rd_rule_read(pool->sql, volume, ret);

	if (ret_own)
		*ret_own = !r;
	if (r == -EUCLEAN)
		rd_err(r, "the rule of a volume is damaged in the catalog");
	if (r != -ENOENT)
		return r;
	*ret = pool->area.super.rule;
	return 0;
}

static u64 features_of(struct rd_rule rule)
{
	return rd_rule_is_chosen(rule) ? RD_INCOMPAT_PIECES : 0;
}

int rd_rule_announce(struct rd_pool *pool, struct rd_rule rule)
{
	return announce(pool, features_of(rule));
}

int rd_rule_choose(struct rd_pool *pool, struct rd_rule rule)
{
	return change_super(pool, features_of(rule), NULL, &rule);
}

int rd_rule_choose_for(struct rd_pool *pool, i64 volume, const struct rd_rule *rule)
{
	int r = 0;

	/* Programs that know no rules take a row in the journal for damage, whatever it says. */
	if (rule)
		r = announce(pool, RD_INCOMPAT_PIECES);
	if (r)
		return r;
	return rd_catalog_do(pool->sql, rule ? rd_rule_set(pool->sql, volume, rule) :
			     rd_rule_remove(pool->sql, volume));
}
