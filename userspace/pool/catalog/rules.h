/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much is stored of what is new in a volume: the table rule, for volumes that have another
 * rule than the pool.
 */
#ifndef RD_RULES_H
#define RD_RULES_H

#include "pool/data/area.h"
#include "db.h"

/* Read the rule of @volume. -ENOENT: it has none of its own. -EUCLEAN: it makes no sense. */
int rd_rule_read(struct rd_sql *sql, i64 volume, struct rd_rule *ret);
int rd_rule_set(struct rd_sql *sql, i64 volume, const struct rd_rule *rule);
int rd_rule_remove(struct rd_sql *sql, i64 volume);

#endif
