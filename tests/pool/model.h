/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the model share. See model.c for what it does.
 *
 *   model.c           the command line; which step comes next
 *   model_images.c    disks: what is in them, and how they change
 *   model_pool.c      the pool, opened, counted and compared with the model
 *   model_group.c     versions of two volumes at once
 *   model_steps.c     steps that succeed: snapshots, deletes, devices
 *   model_coverage.c  which of the hard cases came up
 *   model_plants.c    errors planted in the catalog, and files from before
 *   model_index.c     an index that is lost, damaged or old
 *   model_pass.c     passes over the whole pool, and copies
 *   model_rot.c       blocks that rot, and spread no further
 *   model_fail.c      steps that fail
 *   model_twins.c     a pool with devices, and its twin without
 *   model_power.c     steps that lose power
 */
#ifndef POOL_MODEL_H
#define POOL_MODEL_H

#include <stdbool.h>

#include "pool/engine/dedup/pass.h"
#include "pool/engine/snapshot/snapshot.h"
#include "devices.h"
#include "lies.h"
#include "power.h"

#define NR_VOLUMES	3
#define MAX_VERSIONS	12
#define MAX_SEGS	5
#define MAX_BLOCKS	(MAX_SEGS * RD_SEG_BLOCKS)
#define NR_CONTENTS	50
#define NR_RARE		150		/* more, which only do_return() uses */

struct model_version {
	i64 number;
	u64 size;		/* bytes */
	u64 epoch;		/* and the tracker is all bytes of this; 0: none */
	u8 blocks[MAX_BLOCKS];	/* 0: zeros */
};

struct model_volume {
	char name[16];
	unsigned int nr;
	struct model_version *versions[MAX_VERSIONS + 1];
};

enum coverage {
	HIT_HOLED,
	TWICE_IN_VERSION,
	SHARED_FIRST,
	SHARED_SECOND,
	AT_ACROSS,
	CHAIN,
	DELETE_NEWEST,
	DELETE_MIDDLE,
	DELETE_POINTED_AT,
	UNIQUE_SOME,
	UNIQUE_NONE,
	REUSED_FRAME,
	HELD_NEWEST,
	HELD_OTHER,
	LEFT,
	UNREACHABLE,
	KEPT,
	GONE,
	RACING_DEVICE,
	PACKED,
	PACKED_LEFT,
	STUCK,
	LIE_ROW,
	LIE_FREE,
	LIE_TAIL,
	OLD_CATALOG,
	OLD_DATA,
	STORED_RAW,
	PACK_WRITTEN,
	RAW_GROUP,
	PACK_ACROSS,
	TAIL_CONTINUED,
	DEAD_SLOTS,
	PACK_REMOVED,
	NUMBER_AGAIN,
	PACKS_REBUILT,
	STORED_PART,
	READ_PART,
	FOUND_ELSEWHERE,
	PIECES_AGAIN,
	REF_IN_NEWEST,
	ADOPTED,
	SWAPPED,
	HIT_REFUSED,
	INDEX_REMOVED,
	INDEX_DAMAGED,
	INDEX_OLD,
	INDEX_ANEW,
	RECOMPRESSED,
	PASS_CHANGED,
	PASS_IN_NEWEST,
	PASS_IN_OLD,
	PASS_CAPPED,
	PASS_TOO_NEW,
	LEFT_TO_PASS,
	PASS_FRESH,
	COPIES_MADE,
	COPIES_DROPPED,
	NR_COVERAGE,
};

extern unsigned int step, nr_steps;
extern unsigned int nr_segs;		/* of a disk, at most */
extern unsigned int nr_cuts;		/* of power; 0: none */
extern bool keep_versions;		/* that were deleted */
extern struct rd_pool *pool;
extern struct model_volume volumes[NR_VOLUMES];
extern u8 contents[NR_CONTENTS + NR_RARE + 1][RD_BLOCK_SIZE];

/* Print what is wrong, with the seed and the step, and end. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
u64 rnd(void);
/* A number from 0 to @limit - 1. */
u64 below(u64 limit);
/* A path in the directory of the run, good until the fourth call after this one. */
const char *path_of(const char *name);

/* --- disks */

void make_contents(void);
void write_image(const char *path, const struct model_version *version);
void compare_image(const char *path, const struct model_volume *volume,
		   const struct model_version *version);
struct model_volume *any_volume(void);
unsigned int any_seg(const struct model_version *version);
/* Give a whole segment new content: perhaps others had the old one, too. */
void fill_seg(struct model_version *version, unsigned int seg);
bool has_twice(const struct model_version *version);
/* List the ranges that changed, and some that did not. */
void list_changes(const struct model_version *old, const struct model_version *new,
		  struct rd_changed *changed);
struct model_version *newest(const struct model_volume *volume);
struct model_version *copy_newest(const struct model_volume *volume);
/* Copy the newest version, and change it. */
struct model_version *prepare_snapshot(struct model_volume *volume);

/* --- the pool */

extern const char *pool_name;		/* in the directory of the run */

void copy(const char *from, const char *to);
void open_pool(void);
void close_pool(void);
int try_rebuild(bool force);
void check_pool(void);
void check_restore(struct model_volume *volume, const struct model_version *version);
/* Return the number that the statement @text asks for. */
i64 number(const char *text);

/* --- coverage */

extern u64 *covered;		/* of a case each; processes that are forked share it */
extern const char *const coverage_names[NR_COVERAGE];

void begin_coverage(void);
void see_maps(void);
/* Note who has which place, and, after a snapshot, look for those that newest recipes took. */
void note_owners(void);
void see_takers(void);
/* Look at what @new supersedes: the version before it. */
void see_superseded(const struct model_volume *volume, const struct model_version *new);
/* Look for frames that had been in use, then were not, and now are. */
void see_frames(void);
/* Look for packs that are new, have lost blocks, or are gone. */
void see_packs(void);
void print_coverage(void);
bool are_covered(u64 wanted);

/* --- steps */

struct rd_compression any_compression(void);
/* Choose how much the next snapshots store. */
void choose_rule(void);
/* The same: any block that the pool has is used where it is. */
void choose_inline(void);
int take_snapshot(struct model_volume *volume, struct model_version *version);
void add_version(struct model_volume *volume, struct model_version *version);
int delete_version(struct model_volume *volume, unsigned int nr);
void forget_version(struct model_volume *volume, unsigned int nr);
void load_version(const struct model_volume *volume, unsigned int nr,
		  struct rd_version *version);
bool wants_delete(const struct model_volume *volume);
unsigned int any_to_delete(const struct model_volume *volume);
i64 newest_number(const struct model_volume *volume);

void do_snapshot(struct model_volume *volume);
/* Have two volumes share a segment, and let go of it one after the other. */
void do_share(struct model_volume *a, struct model_volume *b);
/* Have what only an old version of @a has, or had, come back in @b. */
void do_return(struct model_volume *a, struct model_volume *b);
/* Take versions of both that begin to exist together. */
bool can_group(const struct model_volume *a, const struct model_volume *b);
int take_group(struct model_volume *const of[2], struct model_version *const versions[2]);
/* Add them, and check that they are what they should be, and have one name. */
void check_group(struct model_volume *const of[2], struct model_version *const versions[2]);
void do_group(struct model_volume *a, struct model_volume *b);
/* Store all of the pool in another way. */
void do_recompress(void);
/* Let old versions give up what the pool has twice. */
struct rd_pass_options any_pass(void);
void do_pass(void);
void do_delete(struct model_volume *volume, unsigned int nr);
/* Delete a version of another volume, often one that the snapshot shares segments with. */
void do_racing_snapshot(struct model_volume *volume);
void delete_all(void);

struct device *any_device(void);
int make_device(struct device *device, struct model_volume *volume, unsigned int nr);
/* Let some devices be out of reach, and one be gone, now and then. */
void shake_devices(void);
void do_device(struct device *device, struct model_volume *volume);
void check_devices(void);
/* Check that nothing moves that could not be freed while a device is out of reach. */
void check_stuck(void);
void check_kept(void);
/* Drop all devices, and what is held for any. */
void drop_devices(void);
/* Check the counts, what devices read, and one version. */
void check_some(void);

/* --- errors and old files */

/* Make a change that no command makes, and undo it after the recount. */
void plant_error(void);
void plant_circle(void);
void plant_double(void);
u64 nr_planted(void);
void tell_lies(void);
/* Put old files back: the pool is open, and is again after it. */
void travel(void);

/* Keep the index, remove it, damage it, or put back what was kept. */
void spoil_index(void);
bool has_index(void);

/* --- steps that fail */

bool exists(const struct model_volume *volume, i64 wanted);
void do_failing_step(void);
void print_hits(void);
bool are_hit(u64 wanted);

/* --- the rest */

/* So many times: let a block rot in a copy of the pool, take snapshots of it, and heal it. */
void do_rot(unsigned int nr);

void compare_twins(void);
void restore_all(void);
void do_power(void);

#endif
