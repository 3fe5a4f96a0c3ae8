/* SPDX-License-Identifier: GPL-2.0 */
/* Places of the pool as the target knows them, from those of the catalog. */
#ifndef RD_TARGET_PLACE_H
#define RD_TARGET_PLACE_H

#include "kernel/format.h"
#include "pool/data/map.h"
#include "pool/engine/space/lease.h"

/* Packs that were found last: neighbours mostly are in the same ones. */
struct rd_target_places {
	struct rd_sql *sql;
	struct rd_pack packs[4];	/* frame 0: none */
	unsigned int next;		/* to be replaced */
};

/*
 * Find where the block at @place, which is ZERO or OWN, is for the target; *@ret_end (may be NULL):
 * how many blocks the pool must have for that. -EUCLEAN: its pack is nowhere.
 *
 * The caller is in the read transaction that @place is from, and @places was zeros when that
 * began, but for @sql: packs move.
 */
int rd_target_place(struct rd_target_places *places, rd_place place, struct dmr_entry *ret,
		    u64 *ret_end);

/*
 * rd_doomed_has(), and rd_doomed_keep() of @nr blocks in a row, for what a table has, which may be
 * in no pool at all.
 */
bool rd_place_is_doomed(struct rd_doomed *doomed, struct dmr_entry place);
void rd_place_keep(struct rd_doomed *doomed, struct dmr_entry place, u64 nr);

#endif
