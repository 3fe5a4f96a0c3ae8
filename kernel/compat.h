/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differences between the kernels that the target builds for. No other file asks for
 * a version. README.md says which of them tests run on; the others are only known to build.
 */
#ifndef DMR_COMPAT_H
#define DMR_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/dm-io.h>
#include <linux/ioprio.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#if BITS_PER_LONG != 64
#error "dm-revdedup needs a 64-bit kernel"
#endif

static inline bool dmr_table_is_writable(struct dm_target *ti)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	return dm_table_get_mode(ti->table) & BLK_OPEN_WRITE;
#else
	return dm_table_get_mode(ti->table) & FMODE_WRITE;
#endif
}

/* Support discards even if the device below does not: it may do so later. */
static inline void dmr_limits_want_discard(struct queue_limits *limits)
{
	limits->discard_granularity = max(limits->discard_granularity,
					  limits->logical_block_size);
	if (limits->max_hw_discard_sectors)
		return;
	limits->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	limits->max_discard_sectors = limits->max_hw_discard_sectors;
#endif
}

/* Limit the length of a bio, and how its memory lies, to what @bdev can read. */
static inline void dmr_limits_add_reads(struct queue_limits *limits,
					struct block_device *bdev)
{
	struct queue_limits both = *limits;

	blk_stack_limits(&both, &bdev_get_queue(bdev)->limits, 0);
	limits->max_sectors = both.max_sectors;
	limits->max_hw_sectors = both.max_hw_sectors;
	limits->max_dev_sectors = both.max_dev_sectors;
	limits->max_segments = both.max_segments;
	limits->max_segment_size = both.max_segment_size;
	limits->seg_boundary_mask = both.seg_boundary_mask;
	limits->virt_boundary_mask = both.virt_boundary_mask;
	limits->dma_alignment = both.dma_alignment;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	/* Do not promise polled I/O that it cannot do. */
	limits->features &= both.features | ~BLK_FEAT_POLL;
	/*
	 * Nowait is promised if one of both can: map refuses a bio for the other one with
	 * BLK_STS_AGAIN. A base like dm-thin cannot, and without the promise io_uring hands
	 * also each read of the pool to a thread that may wait.
	 */
	if (bdev_nowait(bdev))
		limits->features |= BLK_FEAT_NOWAIT;
#endif
}

/*
 * The errors that a callback of dm_io() gets. Since 7.2 the error of a device that does
 * not support a request comes in a value of its own, and must not be taken for success.
 */
#ifdef DMR_DM_IO_HAS_UNSUP
#define DMR_DM_IO_ERRORS	unsigned long error, unsigned long unsup
#define DMR_DM_IO_FAILED	(error || unsup)
#else
#define DMR_DM_IO_ERRORS	unsigned long error
#define DMR_DM_IO_FAILED	(error)
#endif

/* The priority came with 6.9 and some stable kernels: kernel/Kbuild looks for it. */
static inline int dmr_dm_io(struct dm_io_request *req, unsigned int nr,
			    struct dm_io_region *where, unsigned long *errors)
{
#ifdef DMR_DM_IO_HAS_IOPRIO
#ifdef DMR_DM_IO_HAS_UNSUP
	return dm_io(req, nr, where, errors, NULL, IOPRIO_DEFAULT);
#else
	return dm_io(req, nr, where, errors, IOPRIO_DEFAULT);
#endif
#else
	return dm_io(req, nr, where, errors);
#endif
}

/* What alloc_workqueue() takes: later kernels warn where it is not said that work is per CPU. */
#ifdef DMR_HAS_WQ_PERCPU
#define DMR_WQ_FLAGS		(WQ_MEM_RECLAIM | WQ_PERCPU)
#else
#define DMR_WQ_FLAGS		WQ_MEM_RECLAIM
#endif

#ifndef DMR_BIO_HAS_LIST_MERGE_INIT
static inline void bio_list_merge_init(struct bio_list *to,
				       struct bio_list *from)
{
	bio_list_merge(to, from);
	bio_list_init(from);
}
#endif

#endif
