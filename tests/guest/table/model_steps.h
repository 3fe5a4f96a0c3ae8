/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the steps of the controlling thread share:
 *
 *   model_device.c  the device and its messages
 *   model_moves.c   blocks that move while the threads run
 *   model_pool.c    blocks of the pool that its owner takes
 *   model_packs.c   packs in the pool, and where they move
 *   model_shed.c    space of the base that is given back
 *   model_alone.c   what needs the threads to be stopped
 *
 * Only that thread uses what is declared here.
 */
#ifndef RDT_MODEL_STEPS_H
#define RDT_MODEL_STEPS_H

#include "model.h"

#define MAX_RANGES	350		/* of a message, so that it fits */
#define SMALL_SEGS	128		/* with more, only a part of the volume is used */
#define ZERO_CONTENTS	32		/* one of so many is zeros */

extern uint64_t rng;
extern bool alone;			/* the threads are stopped */
extern bool hydrating, frozen;
extern uint64_t epoch;
extern bool *frozen_touched;		/* what `touched` was at the checkpoint */
extern atomic_bool dying;		/* die() resumes the volume: no more suspends */

/* Let the threads do @nr operations more. */
void wait_for_ops(uint64_t nr);

/*
 * ---- messages ----
 */

/* A range of a message, and what the model makes of it. */
struct range {
	uint64_t first;
	uint64_t len;
	struct place from;
	struct place to;
};

/* The message that is being made, or that was sent last. */
extern struct message {
	const char *verb;
	struct range ranges[MAX_RANGES];
	unsigned int nr;
	char text[MAX_TEXT];
} message;

/* With @verb NULL: ranges that are not sent. */
void begin_message(const char *verb);
bool has_room(void);
/* Is one of these blocks in the message already? */
bool has_range(uint64_t first, uint64_t len);
void add_range(struct range range);
void send_message(void);
/* Send a message that must succeed, or one that must fail with @error. */
void send_text(const char *text);
void refused(int error, const char *text);

/*
 * ---- the device ----
 */

/* Tell the model whether blocks may come home by themselves. */
void hydration_may_run(void);
void load_table(void);
void resume(void);
void suspend(void);
void make_volume(void);
void remove_volume(void);

/*
 * ---- blocks that move ----
 */

/* Find the same contents elsewhere in the pool: @*len blocks, or as many as are there in a row. */
bool find_equal(struct place from, uint64_t *len, struct place *to);
/* Bring the model up to date with the `remap` that was sent. */
void remap_is_done(void);
void watch(uint64_t first, uint64_t nr);
/* The token of this program, and one that another program would have. */
#define TOKEN		"18446744073709551615"
#define OTHER_TOKEN	"7"

/* Make an `alias` of what the pool has already of these blocks. */
void find_aliases(uint64_t first, uint64_t nr);

void do_remap(void);
void do_remap_wrong(void);
void do_alias(void);
void do_hydrate(void);
void do_suspend(void);
void do_reload(void);

/*
 * ---- the pool ----
 */

/* [@block, @block + @nr) gets these contents: no more than fit into a segment. */
void write_pool(uint64_t block, uint64_t nr, uint64_t (*content)(uint64_t block));

/* Settle: reads of what nobody names any more are over then. */
void settle(void);
/* Whoever is at @first and the @len - 1 places behind it goes to @to. False: nobody may be. */
bool move_all(struct place first, uint64_t len, struct place to);

void do_reuse(void);
void do_reuse_fresh(void);
void do_evacuate(void);
void do_refill(void);

/*
 * ---- packs ----
 */

void fill_packs(void);
/* The number in first_content() of what is at @place, which is in a pack. */
uint64_t packed_content(struct place place);
/* A slot that has first_content(@nr), by chance. */
bool find_packed(uint64_t nr, struct place *place);
/* Some blocks in a pack, in a row: @*len, or less where it has no more. False: found none. */
bool choose_packed(uint64_t *len, struct place *place);
/* It is about to be named. */
void name_pack(struct place place);

void do_move_pack(void);

/*
 * ---- the base ----
 */

void do_shed(void);
void do_quiet_shed(void);

/*
 * ---- what needs the threads to be stopped ----
 */

/* Does nearly all of the volume lie on the base? */
bool is_nearly_home(void);

void do_epoch(void);
void do_set(void);
void do_resize(void);
void do_anew(void);
void do_all_home(void);
void do_check(void);
void do_quiet_alias(void);
void do_quiet_alias_seg(void);
void do_quiet_remap(void);

#endif
