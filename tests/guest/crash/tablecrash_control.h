/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private to the controller of tablecrash:
 *
 *   tablecrash.c          lives and cycles; what a crash left
 *   tablecrash_control.c  checkpoints, reloads, roll-backs and outages until the crash
 *   tablecrash_batch.c    the batch of a roll-back
 */
#ifndef RDT_TABLECRASH_CONTROL_H
#define RDT_TABLECRASH_CONTROL_H

#include "tablecrash.h"

#define SEGS		12U

/* A roll-back: what is to be, and whether it is known to be. */
struct batch {
	bool is_open;			/* a crash may have come between */
	uint32_t *words;		/* see oracle_plan() */
	struct place *places;		/* NOWHERE: not in the batch */
	bool segs[SEGS];
	uint32_t stamp;
};

extern struct own {
	struct ground pool;
	const char *journal_path;
	unsigned int writes;		/* into a log */
	enum event at;			/* NR_EVENTS: any */
	bool no_cache;
	int vol_fd;
	struct place *places;		/* as the target says after a crash */
	struct batch batch;
} own;

/* Choose what the next batch does: to all segments, or to a few. */
void plan_batch(bool all);
/* Note what @block will hold; false: the base cannot be read. */
bool plan_words(uint64_t block);
int send_batch(void);
/* Take the batch for done. */
void adopt_batch(void);
/* Keep the places of a batch that a crash cut short: it will be repeated. */
void pin_batch(void);

void roll_back(bool all);
/* Do one thing at random, then let the crowd move. */
void work(void);

#endif
