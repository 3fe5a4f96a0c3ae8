/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The epochs of the volume that crashlib.h has: what the target says of them,
 * what it should, and the oracle of the dirty bits: every 512-byte sector of a
 * segment that the target calls clean must be what it was at the last committed
 * checkpoint.
 */
#ifndef RDT_EPOCHS_H
#define RDT_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "oracle.h"

/* What the target says of itself, or should. */
struct state {
	uint64_t epoch;
	bool frozen;
	uint64_t version;
	uint64_t committed;		/* not in the status line, but we know */
};

struct copy {
	uint64_t epoch;
	uint32_t *content;
};

struct epochs {
	struct state now;		/* by the last answer */
	struct state maybe[8];		/* where messages failed: also possible */
	unsigned int nr_maybe;
	struct copy copies[3];		/* committed, and what may become it */
	bool may_commit;		/* the frozen checkpoint was acknowledged */
	uint64_t next_version;
	bool listen;			/* a listener is there, in this cycle */
	bool noted;			/* the listener's note: tracking is lost */
	uint64_t distrust;		/* by that note: commits before this epoch */
	uint64_t lost_until;		/* ok again when this epoch is committed */

	uint64_t checkpoints, over, commits, aborts, marks, refused, lost, clean;
};

extern struct epochs epochs;

/* New metadata. */
void epochs_begin_life(void);

int get_status(struct state *state, bool *lost, uint64_t *dirty);

/* Send what must be refused with @want or, with @want = 0, do nothing. */
void try_message(int want, const char *format, ...) __attribute__((format(printf, 2, 3)));

void try_wrong_epochs(void);
void commit(void);
void abort_checkpoint(void);
/* The device is suspended; @read tells what it holds. True: it was taken. */
bool checkpoint(oracle_reader read);
/* Take a checkpoint by @take, or end the one that waits, or leave it waiting. */
void turn_epoch(void (*take)(void));
/* Mark some segments dirty by hand. */
void mark(void);

/* The metadata can be written again: the target must find out by itself. */
void expect_ok(void);
/*
 * A thread that, while epochs.listen, notes the loss first and tells the target
 * then, as the controller would.
 */
void *listener(void *arg);

/*
 * After a crash: take what the volume holds on @fd (all of it, or what was
 * touched) for the truth, if it can be; the same for its epochs; and compare each
 * clean segment. Returns for each of the volume's segments whether it is dirty, to
 * be freed.
 */
bool *check_recovery(int fd, bool all);

/* Where segment @seg of the oracle is in the volume. */
uint64_t place_seg(uint64_t seg);

#endif
