// SPDX-License-Identifier: GPL-2.0
/*
 * Let a volume read cold blocks from the pool, where its newest version N has them, and give
 * their chunks of the thin base back. A window is 64 MiB; its steps, and what a crash or a kill
 * leaves behind each:
 *
 *	0. rd_lease_shut(), and the lease (device, N): added, stable, if it is not there. In each
 *	   window: a free may have found that the device names no block, and forgotten it.
 *	   -> a lease without blocks does no harm
 *	1. the places of the window, by the catalog; the table still has this pool
 *	2. watch, with a token. -> marks, which the next watch or suspend drops
 *	3. read the volume through the target, and the pool through the device that the table
 *	   has, both past the page cache. What differs is left alone: it was written, or, in a
 *	   segment that is clean, one of the two is damaged
 *	4. alias: stable, and no I/O uses the base there any more. An error may mean that it
 *	   happened. -> each block is home or in the pool, with the same content; the base has
 *	   all of them
 *	5. let the pool free again. Ask the target which blocks are in the pool
 *	6. shed. -> the base has lost what nobody reads there
 *	7. drop the marks, move the cursor
 *
 * The cursor in the file of the attachment is that of the window that has begun. The first
 * window of the next run gives back all that is away already, which 6 may have left.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/volume/attach/dedup_home.h"
#include "host/volume/attach/dedup_lease.h"
#include "host/volume/attach/stack.h"
#include "host/volume/device/poolblocks.h"
#include "pool/engine/journal/journal.h"
#include "dedup_read.h"
#include "dedup_run.h"

/* --- 0. the lease */

static int hold_version(struct rd_dedup_run *run)
{
	struct rd_version *version = &run->source.version;
	char device[RD_DM_NAME_MAX];
	bool has;
	i64 id;
	int r = rd_has_lease(run->pool, run->at, version, &has);

	if (r || has)
		return r;
	r = rd_lease_add(run->pool, version, rd_part_uuid(device, run->at, NULL), &id);
	if (r == -ENOENT)
		rd_err(0, "%s@%lld was deleted meanwhile", run->at->volume, version->number);
	return r ? r : rd_failpoint("dedup-leased");
}

/* --- 1. what there is */

static int check_table(const struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(run->at->device, &devices);

	if (!r)
		r = rd_poolblocks_compare(&run->pool->area, devices.pool);
	return r ? rd_err(r, "'%s' does not read the pool '%s'", run->at->device,
			  run->pool->path) : 0;
}

/* What is away already is not read again: damage there does not hold up what is not. */
static void leave_away(struct rd_dedup_window *window)
{
	u64 i;

	for (i = 0; i < window->nr; i++)
		if (window->away[i])
			rd_dedup_place(window, i)->kind = DMR_BASE;
}

/* A segment may have become dirty since: that is for the comparison to find. */
static int begin(struct rd_dedup_run *run)
{
	int r = rd_dedup_source_look(&run->source);

	return r ? r : rd_lease_shut(run->pool, &run->shut);
}

static int find(struct rd_dedup_window *window)
{
	struct rd_dedup_run *run = window->run;
	int r = hold_version(run);

	if (!r)
		r = check_table(run);
	if (!r)
		r = rd_dedup_find_away(window);
	if (!r)
		r = rd_dedup_source_read(&run->source, window->first_seg, window->nr_segs,
					 window->places);
	if (!r) {
		leave_away(window);
		r = rd_dedup_choose_chunks(window);
	}
	/*
	 * A compaction may just have moved them: a catalog that is made anew must know where
	 * they are before the device does.
	 */
	return r || !window->chunks.len ? r : rd_journal_flush(run->pool);
}

/* --- 3. comparing */

static void read_both(struct rd_dedup_run *run, u64 first, u64 nr, struct dmr_entry *places)
{
	rd_dedup_reader_start(run->reader, first, nr, places);
}

/*
 * A block differs. A write makes its segment dirty before it changes anything, and nothing makes
 * that clean while the attachment is locked: if it was dirty, there is no need to ask again, and
 * if it is clean even now, nobody has written there.
 */
static int check_written(const struct rd_dedup_window *window, u64 block)
{
	struct rd_dedup_run *run = window->run;
	u64 segment = block / RD_SEG_BLOCKS;
	int r = 0;

	if (!rd_dedup_source_is_dirty(&run->source, segment))
		r = rd_dedup_source_look(&run->source);
	if (r || rd_dedup_source_is_dirty(&run->source, segment))
		return r;
	rd_err(0, "the volume '%s' and %s@%lld differ at offset %llu, and nothing was written there: one of them is damaged",
	       run->at->volume, run->at->volume, run->source.version.number,
	       block * RD_BLOCK_SIZE);
	rd_remedy(RD_REMEDY_SCRUB, NULL, "nothing more of this volume was given back");
	return -EUCLEAN;
}

static const struct rd_dedup_mode mode_pool = {
	.begin = begin,
	.find = find,
	.read = read_both,
	.differs = check_written,
};

/* --- before the first window */

static int open_pool_device(struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	char path[PATH_MAX];
	u64 bytes;
	int r = rd_target_devices(run->at->device, &devices);

	if (!r)
		r = rd_block_path(path, devices.pool);
	if (r)
		return r;
	run->pool_fd = rd_open_direct(path, O_RDONLY, 0);
	if (run->pool_fd < 0)
		return rd_err(run->pool_fd, "cannot open '%s'", path);
	/* A pool that has grown since is larger than the device that the table has. */
	if (ioctl(run->pool_fd, BLKGETSIZE64, &bytes))
		return rd_err(-errno, "cannot get the size of '%s'", path);
	run->source.nr_places = bytes / RD_BLOCK_SIZE;
	return 0;
}

/*
 * Note the pool before the first block: after a crash the volume is brought up with it. But
 * after the table, as the target may refuse the pool.
 */
static int note_pool(struct rd_dedup_run *run)
{
	struct rd_attachment *at = run->at;
	int r = rd_attachment_path(at->pool, run->pool);

	if (r)
		return r;
	at->is_zeros = false;
	at->dedup_pool = true;
	rd_dedup_note_cold(run);
	return rd_attachment_save(at);
}

int rd_dedup_pool(struct rd_dedup_run *run)
{
	int r;

	/*
	 * What an interrupted snapshot has not moved on, or nothing that the device still reads:
	 * rd_dedup_pool_check() has seen to that.
	 */
	r = rd_lease_move(run->pool, run->at, &run->source.version);
	if (!r)
		r = rd_stack_add_pool(run->at, &run->pool->area, run->pool->path);
	if (!r)
		r = note_pool(run);
	if (!r)
		r = rd_failpoint("dedup-table");
	if (!r)
		r = rd_dedup_tag(run->at);
	if (!r)
		r = open_pool_device(run);
	return r ? r : rd_dedup_windows(run, &mode_pool);
}
