// SPDX-License-Identifier: GPL-2.0
/* Read the data area in sequence and at random: see measure.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/data/ring.h"
#include "measure.h"

#define MAX_FRAMES	128U
#define MIN_FRAMES	(RD_MEASURE_ROOM / RD_SEG_SIZE)
#define DEPTH		32
#define SEQUENCE	(1U << 20)	/* bytes of a read in sequence */
#define ROUNDS		16
#define ROUND_US	10000
/* A slow disk gets less to read, and fewer rounds. */
#define FILL_US		200000
#define ALL_US		300000
#define DOUBT_US	600000		/* while one piece is all that it seems to bear */

/* --- measuring */

struct measuring;

struct reading {
	struct measuring *measuring;
	struct rd_op op;
	u8 *data;
};

struct measuring {
	struct rd_pool *pool;
	struct rd_ring *ring;
	u64 start, len;			/* bytes of the data area */
	u32 size;
	bool in_sequence;
	u64 next;			/* byte, in sequence */
	u64 random;
	u64 until;			/* us */
	u64 done;			/* reads */
	int r;
	u8 *data;
	struct reading readings[DEPTH];
};

/* Only to spread reads: xorshift. */
static u64 draw(struct measuring *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static void submit(struct reading *reading);

static void read_done(struct rd_op *op, int r)
{
	struct reading *reading = op->ctx;
	struct measuring *m = reading->measuring;

	m->done++;
	if (r && !m->r)
		m->r = r;
	if (!m->r && rd_now_us() < m->until)
		submit(reading);
}

static void submit(struct reading *reading)
{
	struct measuring *m = reading->measuring;
	u64 at = m->in_sequence ? m->next % m->len : draw(m) % (m->len / m->size) * m->size;

	m->next += m->size;
	reading->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = m->pool->area.store,
		.offset = m->start + at,
		.own = { reading->data, m->size },
		.done = read_done,
		.ctx = reading,
	};
	rd_ring_submit(m->ring, &reading->op);
}

/* Read for a while; *@ret: microseconds a read. */
static int read_round(struct measuring *m, u32 size, bool in_sequence, double *ret)
{
	u64 began = rd_now_us();
	unsigned int i;
	int r = 0;

	m->size = size;
	m->in_sequence = in_sequence;
	m->next = 0;
	m->done = 0;
	m->until = began + ROUND_US;
	for (i = 0; i < (in_sequence ? DEPTH / 8 : DEPTH); i++)
		submit(&m->readings[i]);
	while (!r && rd_ring_busy(m->ring))
		r = rd_ring_wait(m->ring);
	*ret = (double)(rd_now_us() - began) / m->done;
	r = r ? r : m->r;
	return r ? rd_err(r, "cannot read the data area to measure the disk") : 0;
}

static int read_size(struct measuring *m, unsigned int i, double *least)
{
	bool in_sequence = i == RD_MEASURE_SIZES - 1;
	double us;
	int r = read_round(m, in_sequence ? SEQUENCE : rd_measure_sizes[i], in_sequence, &us);

	if (in_sequence)
		us *= RD_SEG_SIZE / SEQUENCE;
	if (us < *least)
		*least = us;
	return r ? r : rd_pool_progress(m->pool, "measure", 0, 0);
}

/*
 * The best of some rounds: what else the machine does makes reads slower, and never faster. If
 * reads in sequence alone were slow, more pieces would be chosen than the disk bears, so these
 * get two turns for one of each other size. Reads that are far too slow say all of smaller ones.
 */
static int read_all(struct measuring *m, struct rd_measure_report *report)
{
	const unsigned int last = RD_MEASURE_SIZES - 1;
	double *us = report->times.us;
	u64 began = rd_now_us(), most;
	unsigned int round, i;
	int r = 0;

	for (i = 0; i < RD_MEASURE_SIZES; i++)
		us[i] = RD_MEASURE_NONE;
	for (round = 0; round < ROUNDS && !r; round++) {
		rd_measure_choose(report);
		most = report->pieces == 1 ? DOUBT_US : ALL_US;
		if (round && rd_now_us() - began > most)
			break;
		for (i = last; i-- && rd_measure_matters(report, i) && !r; ) {
			r = read_size(m, last, &us[last]);
			if (!r)
				r = read_size(m, i, &us[i]);
		}
	}
	return r;
}

/* --- what is read */

static int reserve(struct rd_pool *pool, u64 *ret_start, u64 *ret_len)
{
	return rd_catalog_do(pool->sql, rd_frames_reserve(pool->sql, pool->session, MAX_FRAMES,
							  pool->area.super.nr_frames, ret_start,
							  ret_len));
}

static int give_back(struct rd_pool *pool)
{
	return rd_catalog_do(pool->sql, rd_filling_leave_all(pool->sql, pool->session));
}

/* Nothing that a disk could take for zeros, or for the same twice. Sets m->len. */
static int fill(struct measuring *m, u64 len)
{
	u64 at, block, until = rd_now_us() + FILL_US;
	int r = 0;

	for (at = 0; at < SEQUENCE; at += 256)
		if (getrandom(m->data + at, 256, 0) != 256)
			return rd_err(-errno, "no random number");
	for (at = 0; at < len && !r; at += SEQUENCE) {
		if (at >= MIN_FRAMES * RD_SEG_SIZE && rd_now_us() > until)
			break;
		for (block = 0; block < SEQUENCE; block += RD_BLOCK_SIZE) {
			u64 number = at + block;

			memcpy(m->data + block, &number, sizeof(number));
		}
		r = rd_area_write(&m->pool->area, m->data, SEQUENCE, m->start + at);
		if (r && r != -ENOSPC)
			rd_err(r, "cannot write to the data area to measure the disk");
	}
	m->len = at;
	return r ? r : rd_area_sync(&m->pool->area);
}

/* Others write to the file system of a sparse data area meanwhile, and so does the catalog. */
static u64 frames_to_fill(const struct rd_area *area)
{
	return area->store->ops->room(area->store) / 2 / RD_SEG_SIZE;
}

/* Frames of a group are in a row on the disk. */
static int use_frames(struct measuring *m, u64 start, u64 len)
{
	u64 in_group = RD_GROUP_FRAMES - start % RD_GROUP_FRAMES;
	u64 most = frames_to_fill(&m->pool->area);

	len = rd_min(rd_min(len, in_group), most);
	if (len < MIN_FRAMES)
		return -ENOSPC;
	m->start = rd_frame_offset(start);
	return fill(m, len * RD_SEG_SIZE);
}

static int set_up(struct measuring *m)
{
	unsigned int i;

	m->random = rd_now_us() | 1;
	m->data = rd_alloc_direct((size_t)DEPTH * SEQUENCE);
	if (!m->data)
		return -ENOMEM;
	for (i = 0; i < DEPTH; i++)
		m->readings[i] = (struct reading){
			.measuring = m,
			.data = m->data + (size_t)i * SEQUENCE,
		};
	return rd_ring_new(&m->ring, DEPTH);
}

/* What a test says about the disk: five numbers, as in struct rd_read_times. */
static bool is_told(struct rd_read_times *times)
{
	const char *text = getenv("REVDEDUP_MEASURED");
	double *us = times->us;

	return text && sscanf(text, "%lf,%lf,%lf,%lf,%lf", &us[0], &us[1], &us[2], &us[3],
			      &us[4]) == RD_MEASURE_SIZES;
}

static int measure(struct rd_pool *pool, struct rd_measure_report *report)
{
	struct measuring m = { .pool = pool };
	u64 start, len;
	int r, left;

	r = set_up(&m);
	if (!r)
		r = reserve(pool, &start, &len);
	if (!r) {
		r = use_frames(&m, start, len);
		if (!r)
			r = read_all(&m, report);
		left = give_back(pool);
		r = r ? r : left;
	}
	rd_ring_free(m.ring);
	free(m.data);
	return r;
}

int rd_measure(struct rd_pool *pool, bool by_default, struct rd_measure_report *report)
{
	int r = 0;

	report->by_default = by_default;
	if (!is_told(&report->times))
		r = measure(pool, report);
	if (!r)
		rd_measure_choose(report);
	return r;
}
