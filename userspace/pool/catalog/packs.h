/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packs: the table pack of the catalog. A pack has the blocks of a packed frame (see
 * data/pack.h), and lies in slots of ordinary frames, one after the other; where it comes to
 * the end of a frame it goes on in the next, which is behind it on the disk. It also has the
 * two slots that the fingerprints of its blocks are in.
 *
 * A recipe has slots of the packed frame; the pack has those of ordinary frames. Its place
 * may change, and no recipe changes with it. It is removed when no recipe has a slot of it.
 *
 * The caller is in a transaction.
 */
#ifndef RD_PACKS_H
#define RD_PACKS_H

#include "pool/data/pack.h"
#include "db.h"

/* Find where the pack of @frame is. -ENOENT: it has none. -EUCLEAN: its row is damaged. */
int rd_pack_find(struct rd_sql *sql, u64 frame, struct rd_pack *ret);

int rd_pack_insert(struct rd_sql *sql, const struct rd_pack *pack);

/* Remove a pack that no recipe has a slot of, and queue what it had. */
int rd_pack_remove(struct rd_sql *sql, u64 frame);

/* The pack is at @place now: queue what it had before. */
int rd_pack_move(struct rd_sql *sql, u64 frame, u64 place);

/*
 * Are the packs where they are counted? -EUCLEAN, after a message: a row is not what it was, or
 * recipes have slots of a packed frame that has no row.
 */
int rd_packs_are_there(struct rd_sql *sql);

/* Count the slots of all packs, of a rebuilt catalog. */
int rd_packs_count_slots(struct rd_sql *sql);

/* Add the slots of ordinary frame @in that the pack of @frame has. */
int rd_pack_slots_in(struct rd_sql *sql, u64 frame, u64 in, struct rd_slots *slots);

/* Ask for all packs, by number, from @first on: rd_next_pack(). */
int rd_packs(struct rd_sql *sql, struct rd_row **ret, u64 first);
int rd_next_pack(struct rd_row *rows, struct rd_pack *ret);

/*
 * What all packs take and have, in blocks; how many of these recipes have; and how many bytes
 * of packs the others are, in proportion: @dead.
 */
struct rd_packs_total {
	u64 packs, blocks, slots, live, dead;
};

int rd_packs_total(struct rd_sql *sql, struct rd_packs_total *ret);

/*
 * List up to @max packs with up to @slots blocks that no recipe is whole in: they were made of
 * what others had left.
 */
int rd_packs_small(struct rd_sql *sql, unsigned int slots, u64 *frames, unsigned int max,
		   unsigned int *ret_nr);

#endif
