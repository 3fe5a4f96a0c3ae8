/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The devices of an attached volume:
 *
 *	revdedup-vg-vm1		what guests use
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

#include "host/volume/device/attachment.h"
#include "pool/data/area.h"

enum rd_stack_state {
	RD_STACK_DOWN,		/* there is no device */
	RD_STACK_LINEAR,	/* there is, and it does not track */
	RD_STACK_UP,
};

/* -EEXIST, and says so: a device of that name is not ours. */
int rd_stack_state(const struct rd_attachment *at, enum rd_stack_state *ret);

/*
 * Make the devices, as far as they do not exist. *@ret_state: LINEAR where the module
 * cannot be had; then the metadata record that tracking was lost. A device whose volume
 * was resized gets the new size; one whose blocks have all come home drops the pool, or the
 * table without one, from its table line. -EUCLEAN: an interrupted roll-back must be
 * finished, see rollback.h.
 */
int rd_stack_up(struct rd_attachment *at, enum rd_stack_state *ret_state);

/*
 * Give a volume whose blocks are all home a remap table, though it has no pool: its blocks can
 * be zeros then. rd_stack_up() takes it away when all are home again. -ENOSPC, and says so:
 * the metadata device is too small.
 */
int rd_stack_add_table(const struct rd_attachment *at);

/*
 * Give it the pool in the directory @path, whose data area is @area, unless its table has that
 * already. -EXDEV, and says so: the table or the metadata have another one.
 */
int rd_stack_add_pool(const struct rd_attachment *at, const struct rd_area *area,
		      const char *path);

/* Has the target recorded that all blocks are home, so that no table is needed? */
int rd_stack_is_linear(const struct rd_attachment *at, bool *ret);

/*
 * Remove the devices. A device that is open stays, as a linear one: *@ret_open. -EBUSY,
 * and says so: blocks of the volume lie in the pool. Before that the file of @at is made to say
 * that the next snapshot reads everything; rd_stack_abandon() does the same.
 */
int rd_stack_down(struct rd_attachment *at, bool *ret_open);

/*
 * Are all blocks on the base? Asks the device, or reads the metadata where there is none, or where
 * it is suspended.
 */
int rd_stack_is_home(const struct rd_attachment *at, bool *ret);

/*
 * Remove the devices, and lose the blocks that are not home. -EBUSY, and says so: a
 * program has the device open.
 */
int rd_stack_abandon(struct rd_attachment *at);

/*
 * Clear the end of a new metadata device. LVM clears only the beginning, and metadata of
 * an older volume at the same place are recognized by their end.
 */
int rd_stack_clear_meta_end(const char *path);

/* The size of metadata with a remap table, for a volume that may grow to twice its size. */
u64 rd_stack_meta_bytes(u64 sectors);

#endif
