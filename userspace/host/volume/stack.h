/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The devices of an attached volume:
 *
 *	revdedup-vg-vm1		what those above use
 *	  |  revdedup: base, metadata, pool if a block lies there
 *	  +-- /dev/vg/vm1
 *	  +-- revdedup-vg-vm1:meta	so that it can be snapshot under the target
 *	  |     +-- /dev/vg/vm1_rdmeta
 *	  +-- the pool's data area
 *
 * Without the module the device is linear, as long as all blocks are home.
 */
#ifndef RD_STACK_H
#define RD_STACK_H

#include "attachment.h"

enum rd_stack_state {
	RD_STACK_DOWN,		/* there is no device */
	RD_STACK_LINEAR,	/* there is, and it does not track */
	RD_STACK_UP,
};

/* -EEXIST, and that is said: a device of that name is not ours. */
int rd_stack_state(const struct rd_attachment *at, enum rd_stack_state *ret);

/*
 * Make the devices, as far as they are not there. *@ret_state: LINEAR where the
 * module cannot be had, and then the metadata say that tracking was lost. Where the
 * volume has another size than it had, its device follows; where all blocks have come
 * home, the pool leaves its table.
 */
int rd_stack_up(struct rd_attachment *at, enum rd_stack_state *ret_state);

/*
 * Take the target off. Where the device is open it stays, linear: *@ret_open. All
 * blocks must be home: -EBUSY, and that is said.
 */
int rd_stack_down(const struct rd_attachment *at, bool *ret_open);

/* Is all of it on the base? By the device, or where there is none by the metadata. */
int rd_stack_is_home(const struct rd_attachment *at, bool *ret);

/*
 * The devices go, whatever of the volume is not home: that is lost to it. -EBUSY, and
 * that is said: somebody has it open.
 */
int rd_stack_abandon(const struct rd_attachment *at);

/*
 * A new logical volume has zeros at its beginning only, and what was there before may
 * have been our metadata, whose end says so.
 */
int rd_stack_clear_meta_end(const char *path);

/* For the metadata of a volume with a remap table, which may grow to twice the size. */
u64 rd_stack_meta_bytes(u64 sectors);

#endif
