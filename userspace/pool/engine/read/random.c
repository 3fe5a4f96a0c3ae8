// SPDX-License-Identifier: GPL-2.0
/*
 * Read a version here and there; see random.h.
 *
 * A request is cut into pieces, each within one segment. A piece is read from the places that
 * are known, in as few reads as they allow, all at once (packs: random_packs.c); then its
 * blocks are compared with their fingerprints. If one differs, all is looked up anew and read
 * again: MAX_MOVES times, which is more often than a block moves during a read. Then it is
 * damaged, or so it seems, and random_damage.c decides.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inject.h"
#include "random_parts.h"

#define MAX_MOVES	3
#define RING_DEPTH	64

/* --- where it is */

int rd_random_learn(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		    struct rd_hasher *hasher)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct looked_up found;
	int r;

	r = rd_random_look_up(random, disk, segment, &found);
	if (r)
		return r;
	if (found.recipe) {
		rd_read_map_fps(&random->pool->area, &found.map, fps);
		if (!rd_fps_are_of(hasher, fps, &found.fp))
			return -EUCLEAN;
		rd_random_put_packs(random, found.packs, found.nr_packs);
	} else {
		/* A place of zeros is ZERO, and so is the fingerprint. */
		memset(&found.map, 0, sizeof(found.map));
		memset(fps, 0, sizeof(fps));
	}
	rd_random_put_known(random, disk->version.id, segment, &found.map, fps);
	return 0;
}

/* --- reading it */

static void read_ended(struct rd_op *op, int r)
{
	struct buffer *buffer = op->ctx;

	if (r && !buffer->r)
		buffer->r = r;
}

static bool is_raw(rd_place place)
{
	return rd_place_kind(place) == RD_OWN && !rd_random_is_packed(place);
}

/* How many blocks from @i on are neighbours in the pool, as they are in the version. */
static unsigned int run_length(const struct known *known, unsigned int i, unsigned int nr)
{
	unsigned int end = i + 1;

	while (end < nr && is_raw(known->at[end]) &&
	       rd_place_offset(known->at[end]) ==
	       rd_place_offset(known->at[i]) + (u64)(end - i) * RD_BLOCK_SIZE)
		end++;
	return end - i;
}

void rd_random_submit(struct rd_random *random, struct buffer *buffer, struct rd_op *op,
		      u8 *to, size_t len, u64 offset)
{
	*op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = random->pool->area.store,
		.offset = offset,
		.own = { to, len },
		.done = read_ended,
		.ctx = buffer,
	};
	rd_ring_submit(buffer->ring, op);
}

/* Read @nr blocks from where they are known to be. */
static int read_places(struct rd_random *random, struct buffer *buffer, unsigned int nr)
{
	const struct known *known = &buffer->known;
	unsigned int i, len;
	int r;

	buffer->r = rd_failpoint("random-read");
	for (i = 0; i < nr; i += len) {
		u8 *to = buffer->data + (size_t)i * RD_BLOCK_SIZE;

		len = 1;
		if (!is_raw(known->at[i])) {
			memset(to, 0, RD_BLOCK_SIZE);
			continue;
		}
		len = run_length(known, i, nr);
		/* The ring is for what is in several pieces. */
		if (len == nr)
			return buffer->r ? buffer->r :
				rd_area_read_direct(&random->pool->area, to,
						    (size_t)len * RD_BLOCK_SIZE,
						    rd_place_offset(known->at[i]));
		rd_random_submit(random, buffer, &buffer->ops[i], to, (size_t)len * RD_BLOCK_SIZE,
				 rd_place_offset(known->at[i]));
	}
	r = rd_random_read_packs(random, buffer, nr);
	return r ? r : buffer->r;
}

static bool is_right(struct buffer *buffer, unsigned int nr)
{
	unsigned int i;

	rd_fp_blocks(buffer->hasher, buffer->data, nr, buffer->found);
	for (i = 0; i < nr; i++)
		if (!rd_fp_equal(&buffer->found[i], &buffer->known.fps[i]))
			return false;
	return true;
}

static int read_piece(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		      unsigned int first, unsigned int nr, struct buffer *buffer)
{
	i64 id = disk->version.id;
	unsigned int moves;
	int r = 0;

	for (moves = 0; moves < MAX_MOVES; moves++) {
		if (moves || !rd_random_get_known(random, id, segment, first, nr, &buffer->known)) {
			r = rd_random_learn(random, disk, segment, buffer->hasher);
			if (!r && !rd_random_get_known(random, id, segment, first, nr,
						       &buffer->known))
				continue;
		}
		if (r == -ENOENT)
			return rd_random_tell_gone(random, disk);
		if (r == -EUCLEAN)
			continue;
		if (r)
			return r;
		if (!read_places(random, buffer, nr) && is_right(buffer, nr))
			return 0;
		rd_random_forget_packs(random, &buffer->known, nr);
	}
	return rd_random_read_damaged(random, disk, segment, first, nr, buffer);
}

/* --- buffers */

static void free_buffer(struct buffer *buffer)
{
	if (!buffer)
		return;
	rd_ring_free(buffer->ring);
	rd_random_unpacker_free(buffer->unpacker);
	rd_hasher_free(buffer->hasher);
	free(buffer->data);
	free(buffer);
}

static struct buffer *new_buffer(void)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));

	if (!buffer)
		return NULL;
	buffer->hasher = rd_hasher_new();
	if (posix_memalign((void **)&buffer->data, RD_BLOCK_SIZE, RANDOM_PIECE))
		buffer->data = NULL;
	buffer->unpacker = rd_random_unpacker_new();
	if (buffer->hasher && buffer->data && buffer->unpacker &&
	    !rd_ring_new(&buffer->ring, RING_DEPTH))
		return buffer;
	free_buffer(buffer);
	return NULL;
}

/* Take a buffer; make one while there are few; or wait for one. NULL: no memory for any. */
static struct buffer *take_buffer(struct rd_random *random)
{
	struct buffer *buffer;

	pthread_mutex_lock(&random->lock);
	while (!random->buffers) {
		if (random->nr_buffers < NR_BUFFERS) {
			buffer = new_buffer();
			if (buffer || !random->nr_buffers) {
				random->nr_buffers += !!buffer;
				pthread_mutex_unlock(&random->lock);
				return buffer;
			}
		}
		pthread_cond_wait(&random->has_buffer, &random->lock);
	}
	buffer = random->buffers;
	random->buffers = buffer->next;
	pthread_mutex_unlock(&random->lock);
	return buffer;
}

static void give_buffer(struct rd_random *random, struct buffer *buffer)
{
	pthread_mutex_lock(&random->lock);
	buffer->next = random->buffers;
	random->buffers = buffer;
	pthread_cond_signal(&random->has_buffer);
	pthread_mutex_unlock(&random->lock);
}

/* --- */

int rd_random_read(struct rd_random *random, const struct rd_disk *disk, void *buf, size_t len,
		   u64 offset)
{
	struct buffer *buffer = take_buffer(random);
	u8 *to = buf;
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	while (len && !r) {
		unsigned int skip = offset % RD_BLOCK_SIZE;
		unsigned int first = offset % RD_SEG_SIZE / RD_BLOCK_SIZE;
		unsigned int nr = rd_min(PIECE_BLOCKS, RD_SEG_BLOCKS - first);
		size_t part;

		nr = rd_min(nr, (skip + len + RD_BLOCK_SIZE - 1) / RD_BLOCK_SIZE);
		part = rd_min(len, (size_t)nr * RD_BLOCK_SIZE - skip);
		r = read_piece(random, disk, offset >> RD_SEG_SHIFT, first, nr, buffer);
		if (!r)
			memcpy(to, buffer->data + skip, part);
		to += part;
		offset += part;
		len -= part;
	}
	give_buffer(random, buffer);
	return r;
}

/* Hash all blocks: those of a version that are wrong are errors. */
static int fps_of_content(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			  struct rd_fp fps[RD_SEG_BLOCKS])
{
	u64 offset = segment << RD_SEG_SHIFT;
	struct rd_hasher *hasher = rd_hasher_new();
	u8 *data = calloc(1, RD_SEG_SIZE);
	int r = hasher && data ? 0 : -ENOMEM;

	if (!r)
		r = rd_random_read(random, disk, data,
				   rd_min(RD_SEG_SIZE, disk->version.size - offset), offset);
	if (!r)
		rd_fp_blocks(hasher, data, RD_SEG_BLOCKS, fps);
	free(data);
	rd_hasher_free(hasher);
	return r;
}

static int known_fps(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		     struct buffer *buffer, struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct known *known = &buffer->known;
	unsigned int i, tries;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i += PIECE_BLOCKS) {
		for (tries = 0; !rd_random_get_known(random, disk->version.id, segment, i,
						     PIECE_BLOCKS, known); tries++) {
			r = rd_random_learn(random, disk, segment, buffer->hasher);
			if (r == -ENOENT)
				return rd_random_tell_gone(random, disk);
			if (r && (r != -EUCLEAN || tries == MAX_MOVES))
				return r;
		}
		memcpy(&fps[i], known->fps, PIECE_BLOCKS * sizeof(*fps));
	}
	return 0;
}

int rd_random_fps(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		  struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct buffer *buffer = take_buffer(random);
	int r = buffer ? known_fps(random, disk, segment, buffer, fps) : -ENOMEM;

	if (buffer)
		give_buffer(random, buffer);
	return r == -EUCLEAN ? fps_of_content(random, disk, segment, fps) : r;
}

int rd_random_new(struct rd_random **ret, struct rd_pool *pool)
{
	struct rd_random *random = calloc(1, sizeof(*random));
	int r;

	if (!random)
		return -ENOMEM;
	random->pool = pool;
	pthread_mutex_init(&random->catalog, NULL);
	pthread_mutex_init(&random->lock, NULL);
	pthread_mutex_init(&random->shut, NULL);
	pthread_mutex_init(&random->searching, NULL);
	pthread_cond_init(&random->has_buffer, NULL);
	r = rd_random_make_known(random);
	if (!r)
		r = rd_random_make_packs(random);
	if (!r)
		r = rd_random_open_catalog(random);
	random->has_copies = !r && !rd_copies_open(&random->copies, pool->path,
						   pool->area.super.uuid, false);
	if (r)
		rd_random_free(random);
	else
		*ret = random;
	return r;
}

void rd_random_free(struct rd_random *random)
{
	struct buffer *buffer;

	if (!random)
		return;
	while (random->buffers) {
		buffer = random->buffers;
		random->buffers = buffer->next;
		free_buffer(buffer);
	}
	if (random->has_copies)
		rd_copies_close(&random->copies);
	rd_random_close_catalog(random);
	rd_random_free_packs(random);
	rd_random_free_known(random);
	free(random);
}
