/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the last pass over the pool (pass.h) has not seen: the tables fresh and pass of the
 * catalog. A recipe is fresh when
 *
 *	- it is new
 *	- no newest version names it any more: it may give blocks up now
 *	- it has a block of its own that it referred to before: as the heir of one that was deleted,
 *	  as one that adopted, or because a snapshot has written it whole
 *	- a block of its own has moved while a pass read where blocks are
 *	- a pass has left what it found for it
 *
 * So whenever two blocks have the same content and one of them is to be given up, the recipe of
 * one of them is fresh. That it is fresh says no more: there may be nothing to be found.
 *
 * A pass takes a number, and only when all is done it forgets recipes that are fresh since before
 * that. The tables are not in the journal: in a catalog that was made anew they are empty, and an
 * empty table pass says that all is fresh. Nothing is noted then.
 *
 * The caller is in a transaction, but for rd_fresh_count() and rd_fresh_pass().
 */
#ifndef RD_FRESH_H
#define RD_FRESH_H

#include "db.h"

/* The row of the table pass. */
struct rd_fresh_pass {
	i64 number;		/* of the pass that runs, or was the last one */
	/* What is not fresh has no runs of this length left; 0: no pass has ended yet. */
	unsigned int closed;
	/* Of a pass that looks at all, and has not ended: its least run, and the next slice. */
	unsigned int least_run;
	unsigned int slices, slice;
	bool reads_places;
};

/* Note that @recipe is fresh; with @moved only if a pass reads places. */
int rd_fresh_mark(struct rd_sql *sql, i64 recipe, bool moved);
/* @recipe is deleted. */
int rd_fresh_remove(struct rd_sql *sql, i64 recipe);

/* Read the row. -ENOENT: there is none. */
int rd_fresh_pass(struct rd_sql *sql, struct rd_fresh_pass *ret);
int rd_fresh_set_pass(struct rd_sql *sql, const struct rd_fresh_pass *pass);
/* Write the row again. -ENOENT: it is that of another pass, or gone, so all is fresh. */
int rd_fresh_update_pass(struct rd_sql *sql, const struct rd_fresh_pass *pass);
int rd_fresh_set_reads_places(struct rd_sql *sql, bool reads_places);

/* All is fresh. */
int rd_fresh_forget(struct rd_sql *sql);

/* How many recipes are fresh, and how many there are. */
int rd_fresh_count(struct rd_sql *sql, u64 *ret_fresh, u64 *ret_all);

/* Ask for recipes that are fresh, in the order of their frames: rd_next_id(). */
int rd_fresh_recipes(struct rd_sql *sql, struct rd_row **ret);

/*
 * Forget the recipes that are fresh since before pass @number: of the @max that come behind *@last,
 * which becomes the last one of these. -ENOENT: none comes there.
 */
int rd_fresh_clear(struct rd_sql *sql, i64 number, unsigned int max, i64 *last);

#endif
