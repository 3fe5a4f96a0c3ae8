// SPDX-License-Identifier: GPL-2.0
/*
 * The two copies of the superblock.
 *
 * Copy A (first block) is written and flushed before copy B (last block): a
 * crash leaves at least one of them whole, and the one with the greater
 * sequence number is the state. A state that one copy holds is therefore the
 * state after any crash, and the write that brought it there has succeeded; the
 * other copy is refreshed later.
 *
 * A write that failed may have reached the disk all the same. So if neither copy
 * could be written, the disk holds the old state or the new one: memory keeps the
 * old state, and writes it with a greater sequence number than the failed one, until
 * that succeeds. No bit counts as stable while the disk may be in another epoch.
 *
 * Copy A tells where copy B is. After a failed attempt to make it point to a new
 * place, copy B at the old one may not be found: only copy A will do. So that is
 * tried only after a write of copy A has succeeded.
 */
#include <linux/err.h>

#include "flush.h"
#include "outage.h"
#include "queue.h"
#include "super.h"

static void read_copy(struct dmr_meta *meta, struct dmr_super_copy *copy)
{
	struct dm_buffer *buf;
	void *data;

	if (copy->block >= dmr_device_blocks(meta)) {
		dmr_super_copy_cut_off(copy);
		return;
	}
	/* dm-bufio may still have what an earlier constructor read. */
	dm_bufio_forget(meta->bufio, copy->block);
	data = dm_bufio_read(meta->bufio, copy->block, &buf);
	if (IS_ERR(data)) {
		dmr_super_copy_unreadable(copy);
		return;
	}
	dmr_super_copy_unpack(copy, data);
	dm_bufio_release(buf);
}

int dmr_super_check_writable(struct dmr_meta *meta, const char *verb)
{
	if (!meta->read_only)
		return 0;
	DMERR("%s: %s: the device is read-only", dmr_name(meta), verb);
	return -EROFS;
}

int dmr_super_read(struct dmr_meta *meta, struct dmr_super *super,
		   const char **why)
{
	struct dmr_super_copy a = { .block = 0 }, b;
	struct dmr_super_state state;
	int r;

	read_copy(meta, &a);
	b.block = dmr_super_b_block(&a, dmr_device_blocks(meta));
	read_copy(meta, &b);
	r = dmr_super_decide(&a, &b, &state);
	if (r) {
		*why = state.why;
		return r;
	}
	*super = state.super;
	if (state.missing)
		DMWARN("%s: superblock copy %c: %s; using the other, tracking counts as lost",
		       dmr_name(meta), state.missing, state.why);
	meta->super_is_stale = state.missing || a.super.seq != b.super.seq;
	/* A state that was made of a single copy is in memory only. */
	meta->epoch_is_unsure = state.missing;
	return 0;
}

static int write_copy(struct dmr_meta *meta, const struct dmr_super *super,
		      u64 block_nr)
{
	unsigned int errors = dmr_flush_errors(meta);
	struct dm_buffer *buf;
	void *data = dm_bufio_new(meta->bufio, block_nr, &buf);

	if (IS_ERR(data))
		return PTR_ERR(data);
	memset(data, 0, DMR_BLOCK_SIZE);
	dmr_super_pack(super, block_nr, data);
	dm_bufio_mark_buffer_dirty(buf);
	dm_bufio_release(buf);
	return dmr_flush_buffers(meta, errors);
}

/*
 * Write copy B at the new end of a device that has grown: it must be there before
 * copy A points to it.
 */
static int prepare_move(struct dmr_meta *meta, struct dmr_super *next)
{
	struct dmr_super same = meta->super;
	int r;

	same.seq = ++meta->last_seq;
	next->seq = ++meta->last_seq;
	r = write_copy(meta, &same, 0);
	if (!r)
		r = write_copy(meta, next, next->meta_blocks - 1);
	if (r) {
		DMWARN("%s: cannot write the superblock: error %d; the new size of the metadata device is not recorded",
		       dmr_name(meta), r);
		meta->super_is_stale = true;
		return r;
	}
	meta->super_needs_a = true;
	return 0;
}

int dmr_super_write(struct dmr_meta *meta, const struct dmr_super *next)
{
	struct dmr_super super = *next;
	bool first = !meta->super.seq;
	int ra, rb = 0;

	if (super.meta_blocks != meta->super.meta_blocks) {
		rb = prepare_move(meta, &super);
		if (rb)
			return rb;
		ra = write_copy(meta, &super, 0);
	} else {
		super.seq = ++meta->last_seq;
		ra = write_copy(meta, &super, 0);
		/* Copy B of a new format, without a copy A, would look like foreign data. */
		rb = ra && first ? ra :
		     write_copy(meta, &super, super.meta_blocks - 1);
	}

	if (ra && (rb || meta->super_needs_a)) {
		meta->super_is_stale = true;
		if (super.epoch != meta->super.epoch)
			meta->epoch_is_unsure = true;
		dmr_outage_begin(meta, "writing the superblock", ra);
		return ra;
	}

	meta->super = super;
	if ((ra || rb) && !meta->super_is_stale) {
		DMWARN("%s: cannot write superblock copy %c: error %d; the other holds the state, will try again",
		       dmr_name(meta), ra ? 'A' : 'B', ra ? ra : rb);
		meta->next_retry = jiffies;
		dmr_queue_tracker(meta);
	}
	meta->super_is_stale = ra || rb;
	meta->epoch_is_unsure = false;
	if (!ra)
		meta->super_needs_a = false;
	return 0;
}

int dmr_super_refresh(struct dmr_meta *meta)
{
	struct dmr_super super = meta->super;

	return meta->super_is_stale ? dmr_super_write(meta, &super) : 0;
}
