// SPDX-License-Identifier: GPL-2.0
/*
 * Copy blocks home, window after window; see copy_home.h. The blocks of a window that
 * lie in the pool are read in the order of the pool, by several threads, because an
 * old version is scattered there in small pieces, and because packs are to be decoded.
 * Then they are written in the order of the volume, and zeros between them along with
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "base/sort.h"
#include "copy_home.h"
#include "pack_read.h"
#include "write.h"

#define WINDOW_BLOCKS	16384U		/* 64 MiB */
#define READ_BLOCKS	1024U		/* IOV_MAX pieces at most */
#define WRITE_BLOCKS	2048U
/* Fewer zeros than these are written: to cut a write in three would be slower. */
#define PUNCH_BLOCKS	256U
#define NR_THREADS	16U

/* The plan */

/* Does @run, which is in the pool, name more than the pool has? Of a pack it names the head. */
static bool is_outside(const struct rd_copy_home *home, const struct rd_run *run)
{
	u64 block = dmr_entry_pool_block(run->place);

	return block >= home->pool_blocks ||
		(run->place.kind == DMR_POOL && run->len > home->pool_blocks - block);
}

static void count_run(struct rd_copy_home *home, const struct rd_run *run)
{
	bool outside = false;

	if (run->state == RD_RUN_DAMAGED) {
		home->nr_damaged += run->len;
	} else if (run->state == RD_RUN_UNREADABLE) {
		home->nr_unreadable += run->len;
	} else if (run->place.kind == DMR_ZERO) {
		home->nr_zero += run->len;
	} else if (dmr_entry_in_pool(run->place)) {
		outside = is_outside(home, run);
		home->nr_pool += run->len;
		home->nr_outside += outside ? run->len : 0;
	}
	if ((outside || run->state != RD_RUN_KNOWN) && home->bad)
		home->bad(home, run);
}

int rd_copy_home_plan(struct rd_copy_home *home)
{
	struct rd_table_walk walk;
	struct rd_run run;

	home->nr_pool = 0;
	home->nr_zero = 0;
	home->nr_damaged = 0;
	home->nr_unreadable = 0;
	home->nr_outside = 0;
	rd_table_walk_init(&walk, home->meta, 0, U64_MAX);
	while (rd_table_walk_next(&walk, &run))
		count_run(home, &run);
	if (home->nr_damaged)
		return -EBADMSG;
	if (home->nr_unreadable)
		return -EIO;
	return home->nr_outside ? -ERANGE : 0;
}

/* Transfers */

struct piece {
	u64 pool_block;
	unsigned int at;	/* in the window */
};

struct job {
	u64 offset;
	struct iovec *iov;	/* used up */
	unsigned int nr_iov;
	const struct rd_pack_want *wants;	/* NULL: it is no pack */
	unsigned int nr_wants;
};

/* What one thread has. */
struct thread {
	pthread_t id;
	struct window *window;
	struct rd_pack_reader *reader;		/* NULL: it has met no pack yet */
};

struct window {
	struct rd_copy_home *home;
	u8 *data;
	u64 first;		/* block of the volume */
	unsigned int nr_blocks;	/* up to the last that is not BASE */
	enum dmr_kind kinds[WINDOW_BLOCKS];
	struct piece pieces[WINDOW_BLOCKS];
	unsigned int nr_pieces;
	struct rd_pack_want wants[WINDOW_BLOCKS];
	unsigned int nr_wants;
	u64 done;		/* blocks that are home, and those of this window */
	bool lost;		/* a part of the table that was readable no longer is */

	struct iovec iov[WINDOW_BLOCKS];
	struct job jobs[WINDOW_BLOCKS];
	unsigned int nr_jobs;
	struct thread threads[1 + NR_THREADS];

	/* While threads run: */
	int fd;
	rd_transfer_fn *how;
	unsigned int next_job;
	int r;			/* the first error */
};

static int read_pack(struct thread *thread, const struct job *job)
{
	const struct rd_copy_home *home = thread->window->home;

	if (!thread->reader)
		thread->reader = rd_pack_reader_new(home->pool_fd, home->pool_blocks,
						    home->meta->super.pool_uuid);
	return thread->reader ? rd_pack_read(thread->reader, job->wants, job->nr_wants) : -ENOMEM;
}

static void *work(void *arg)
{
	struct thread *thread = arg;
	struct window *window = thread->window;

	while (!__atomic_load_n(&window->r, __ATOMIC_RELAXED)) {
		unsigned int i = __atomic_fetch_add(&window->next_job, 1, __ATOMIC_RELAXED);
		struct job *job;
		int none = 0, r;

		if (i >= window->nr_jobs)
			break;
		job = &window->jobs[i];
		if (job->wants)
			r = read_pack(thread, job);
		else
			r = rd_transfer_direct(window->fd, job->iov, job->nr_iov, job->offset,
					       window->how);
		if (r && __atomic_compare_exchange_n(&window->r, &none, r, false,
						     __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		    job->wants && thread->reader)
			snprintf(window->home->text, sizeof(window->home->text), "%s",
				 rd_pack_read_what(thread->reader));
	}
	return NULL;
}

/* Run all jobs on this thread and on as many others as can be created. */
static int run_jobs(struct window *window)
{
	struct thread *threads = window->threads;
	unsigned int nr = 0;

	window->next_job = 0;
	window->r = 0;
	while (nr < NR_THREADS && nr + 1 < window->nr_jobs &&
	       !pthread_create(&threads[nr + 1].id, NULL, work, &threads[nr + 1]))
		nr++;
	work(&threads[0]);
	for (; nr; nr--)
		pthread_join(threads[nr].id, NULL);
	return window->r;
}

/* Reading */

static u8 *block_data(struct window *window, unsigned int at)
{
	return window->data + (u64)at * DMR_BLOCK_SIZE;
}

/* Add one read of the pieces from @i on that are adjacent in the pool; return the next one. */
static unsigned int add_read(struct window *window, unsigned int i)
{
	struct job *job = &window->jobs[window->nr_jobs++];
	unsigned int first = i;

	job->wants = NULL;
	job->offset = window->pieces[first].pool_block << DMR_BLOCK_SHIFT;
	job->iov = &window->iov[first];
	do {
		window->iov[i].iov_base = block_data(window, window->pieces[i].at);
		window->iov[i].iov_len = DMR_BLOCK_SIZE;
		i++;
	} while (i < window->nr_pieces && i - first < READ_BLOCKS &&
		 window->pieces[i].pool_block ==
		 window->pieces[first].pool_block + (i - first));
	job->nr_iov = i - first;
	return i;
}

static int compare_wants(const void *a, const void *b)
{
	const struct rd_pack_want *left = a, *right = b;

	return rd_order(left->head, right->head) ? : rd_order(left->slot, right->slot);
}

/* Add one job for all that is wanted of the pack of want @i; return the next one. */
static unsigned int add_pack(struct window *window, unsigned int i)
{
	struct job *job = &window->jobs[window->nr_jobs++];
	unsigned int end = i + 1;

	while (end < window->nr_wants && window->wants[end].head == window->wants[i].head)
		end++;
	*job = (struct job){ .wants = &window->wants[i], .nr_wants = end - i };
	return end;
}

static int read_pool(struct window *window)
{
	unsigned int i;
	int r;

	rd_sort(window->pieces, window->nr_pieces, pool_block);
	qsort(window->wants, window->nr_wants, sizeof(*window->wants), compare_wants);
	window->nr_jobs = 0;
	for (i = 0; i < window->nr_wants;)
		i = add_pack(window, i);
	for (i = 0; i < window->nr_pieces;)
		i = add_read(window, i);
	window->fd = window->home->pool_fd;
	window->how = preadv;
	window->home->text[0] = '\0';
	r = run_jobs(window);
	if (r)
		window->home->what = window->home->text[0] ? window->home->text :
							     "cannot read the pool";
	return r;
}

/* Writing */

/* Find the first block behind @at that is of another kind. */
static unsigned int kind_ends(const struct window *window, unsigned int at)
{
	unsigned int end = at;

	while (end < window->nr_blocks && window->kinds[end] == window->kinds[at])
		end++;
	return end;
}

/* Count the bytes up to block @end: the last block of volume and base may be partial. */
static u64 bytes_of(const struct window *window, unsigned int at, unsigned int end)
{
	u64 offset = (window->first + at) << DMR_BLOCK_SHIFT;
	u64 volume = window->home->meta->super.volume_sectors << 9;
	u64 len = (u64)(end - at) << DMR_BLOCK_SHIFT;

	return len < volume - offset ? len : volume - offset;
}

static bool punch(struct window *window, unsigned int at, unsigned int end)
{
	return !fallocate(window->home->base_fd,
			  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (window->first + at) << DMR_BLOCK_SHIFT,
			  bytes_of(window, at, end));
}

static void add_write(struct window *window, unsigned int at, unsigned int end)
{
	struct iovec *iov = &window->iov[window->nr_jobs];
	struct job *job = &window->jobs[window->nr_jobs++];

	iov->iov_base = block_data(window, at);
	iov->iov_len = bytes_of(window, at, end);
	job->wants = NULL;
	job->iov = iov;
	job->nr_iov = 1;
	job->offset = (window->first + at) << DMR_BLOCK_SHIFT;
}

/* Punch the zeros at @at, if they are worth it: return where they end, or @at. */
static unsigned int skip_zeros(struct window *window, unsigned int at)
{
	unsigned int end = at;

	if (window->kinds[at] == DMR_ZERO)
		end = kind_ends(window, at);
	return end - at >= PUNCH_BLOCKS && punch(window, at, end) ? end : at;
}

/* Add one write from @at on, which is not BASE; return where it ends. */
static unsigned int take_write(struct window *window, unsigned int at)
{
	unsigned int end = at;

	while (end < window->nr_blocks && end - at < WRITE_BLOCKS &&
	       window->kinds[end] != DMR_BASE) {
		if (window->kinds[end] == DMR_ZERO)
			memset(block_data(window, end), 0, DMR_BLOCK_SIZE);
		end++;
	}
	add_write(window, at, end);
	return end;
}

static int write_window(struct window *window)
{
	unsigned int at = 0, end;
	int r;

	window->nr_jobs = 0;
	while (at < window->nr_blocks) {
		end = window->kinds[at] == DMR_BASE ? kind_ends(window, at) :
						      skip_zeros(window, at);
		at = end > at ? end : take_write(window, at);
	}
	window->fd = window->home->base_fd;
	window->how = pwritev;
	r = run_jobs(window);
	if (r)
		window->home->what = "cannot write the base";
	return r;
}

/* Windows */

/* Take as much of @run as there is room for, and leave the rest in @run. */
static void take_run(struct window *window, struct rd_run *run)
{
	unsigned int at = run->first - window->first, i;
	u64 nr = WINDOW_BLOCKS - at;

	if (nr > run->len)
		nr = run->len;
	for (i = 0; i < nr; i++)
		window->kinds[at + i] = run->place.kind;
	for (i = 0; i < nr && run->place.kind == DMR_POOL; i++)
		window->pieces[window->nr_pieces++] =
			(struct piece){ run->place.block + i, at + i };
	for (i = 0; i < nr && run->place.kind == DMR_PACK; i++)
		window->wants[window->nr_wants++] = (struct rd_pack_want){
			.head = dmr_entry_pool_block(run->place),
			.slot = dmr_entry_slot(run->place) + i,
			.to = block_data(window, at + i),
		};
	if (run->place.kind != DMR_BASE) {
		window->nr_blocks = at + nr;
		window->done += nr;
	}
	run->place = dmr_entry_plus(run->place, nr);
	run->first += nr;
	run->len -= nr;
}

static bool next_run(struct window *window, struct rd_table_walk *walk,
		     struct rd_run *run)
{
	if (window->lost || !rd_table_walk_next(walk, run))
		return false;
	window->lost = run->state != RD_RUN_KNOWN;
	return !window->lost;
}

/* Step to a run that is not BASE, unless @run is one. False at the end. */
static bool next_away(struct window *window, struct rd_table_walk *walk,
		      struct rd_run *run)
{
	while (!run->len || run->place.kind == DMR_BASE)
		if (!next_run(window, walk, run))
			return false;
	return !window->lost;
}

/* Fill the window from @run on, which is not BASE. */
static void fill_window(struct window *window, struct rd_table_walk *walk,
			struct rd_run *run)
{
	window->first = run->first;
	window->nr_blocks = 0;
	window->nr_pieces = 0;
	window->nr_wants = 0;
	do {
		take_run(window, run);
	} while (!run->len && next_run(window, walk, run) &&
		 run->first - window->first < WINDOW_BLOCKS);
}

static int copy_windows(struct window *window)
{
	struct rd_copy_home *home = window->home;
	struct rd_run run = { .len = 0 };
	struct rd_table_walk walk;
	int r = 0;

	rd_table_walk_init(&walk, home->meta, 0, U64_MAX);
	while (!r && next_away(window, &walk, &run)) {
		fill_window(window, &walk, &run);
		r = read_pool(window);
		if (!r)
			r = write_window(window);
		if (!r && home->progress)
			home->progress(home, window->done);
	}
	if (!r && window->lost) {
		home->what = "cannot read the table again";
		r = -EIO;
	}
	return r;
}

int rd_copy_home_copy(struct rd_copy_home *home)
{
	struct window *window = calloc(1, sizeof(*window));
	unsigned int i;
	int r = -ENOMEM;

	home->what = "cannot begin";
	if (window) {
		window->home = home;
		for (i = 0; i <= NR_THREADS; i++)
			window->threads[i].window = window;
		window->data = rd_alloc_direct((size_t)WINDOW_BLOCKS << DMR_BLOCK_SHIFT);
		if (window->data)
			r = copy_windows(window);
		for (i = 0; i <= NR_THREADS; i++)
			rd_pack_reader_free(window->threads[i].reader);
		free(window->data);
		free(window);
	}
	if (!r && fsync(home->base_fd)) {
		home->what = "cannot flush the base";
		r = -errno;
	}
	return r;
}

int rd_copy_home_seal(struct rd_copy_home *home)
{
	struct dmr_super super = home->meta->super;

	super.flags |= DMR_FLAG_LINEAR_OK;
	/* There is nothing left to copy. */
	super.flags &= ~DMR_FLAG_HYDRATE;
	super.hydrate_mib = 0;
	super.incompat &= ~DMR_INCOMPAT_PACK;
	super.seq++;
	home->what = "cannot write the superblock";
	return rd_meta_super_write(home->meta_fd, &super);
}
