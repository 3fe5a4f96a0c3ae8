/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of a reader share: random.c (which block is where, and is it good),
 * random_ask.c (the catalog), random_known.c (what was looked up before),
 * random_packs.c (blocks of packs), random_whole.c (packs as they lie), random_damage.c (what is
 * still wrong) and random_extents.c.
 */
#ifndef RD_RANDOM_PARTS_H
#define RD_RANDOM_PARTS_H

#include <pthread.h>

#include "pool/data/copies.h"
#include "pool/data/fp.h"
#include "pool/data/ring.h"
#include "random.h"
#include "resolve.h"

/* Bytes that are read at a time; a request is cut into such pieces. */
#define RANDOM_PIECE	(512U << 10)
#define PIECE_BLOCKS	(RANDOM_PIECE / RD_BLOCK_SIZE)
/* Requests that are read at a time; others wait. */
#define NR_BUFFERS	16
#define NR_TOLD		64

/* Where blocks are, and their fingerprints, of a piece within a segment. */
struct known {
	rd_place at[PIECE_BLOCKS];
	struct rd_fp fps[PIECE_BLOCKS];
};

struct unpacker;

/* What a request needs while it is read. */
struct buffer {
	struct buffer *next;
	u8 *data;		/* RANDOM_PIECE */
	struct rd_hasher *hasher;
	struct rd_ring *ring;
	struct unpacker *unpacker;
	struct known known;
	struct rd_fp found[PIECE_BLOCKS];
	struct rd_op ops[PIECE_BLOCKS];
	int r;			/* of the reads */
};

struct segment;
struct random_packs;

struct rd_random {
	struct rd_pool *pool;
	pthread_mutex_t catalog;	/* who has it uses pool->sql */
	struct rd_resolver *resolver;
	char *path;			/* of a catalog that is opened for each look-up */

	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t has_buffer;
	struct buffer *buffers;
	unsigned int nr_buffers;	/* that were made */
	struct segment *segments;	/* that are known */
	u64 clock;
	struct random_packs *packs;	/* has its own lock */

	/* Damage that was told: a client may ask for the same block again and again. */
	struct told {
		i64 version;
		u64 offset;
	} told[NR_TOLD];
	unsigned int nr_told;

	pthread_mutex_t shut;		/* one thread at a time looks at damage */

	/*
	 * On another disk; open from the start, as a server may not open anything later. The
	 * lock is for one search at a time, which may be slow.
	 */
	pthread_mutex_t searching;
	bool has_copies;
	struct rd_copies copies;
};

/* --- random_ask.c */

int rd_random_open_catalog(struct rd_random *random);
void rd_random_close_catalog(struct rd_random *random);

/* What the catalog says of a segment, at one time. */
struct looked_up {
	i64 recipe;			/* 0: it is zeros */
	struct rd_map map;
	struct rd_seg_fp fp;
	/* Where the packs of its packed frames are, by frame. One that is missing is damaged. */
	unsigned int nr_packs;
	struct rd_pack packs[RD_SEG_BLOCKS];
};

/*
 * Look @segment of @disk up. -ENOENT: the version is gone. -EUCLEAN: its places are not known.
 */
int rd_random_look_up(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		      struct looked_up *ret);

/* Within rd_random_ask(): does the engine still keep the version? -ENOENT. */
int rd_random_is_there(struct rd_pool *pool, const struct rd_disk *disk);

/* --- random.c */

/*
 * Look @segment up, and make it known. -ENOENT: the version is gone. -EUCLEAN: it moved just
 * now, or is damaged.
 */
int rd_random_learn(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		    struct rd_hasher *hasher);

/* Submit a read for the buffer, whose first error goes to buffer->r. */
void rd_random_submit(struct rd_random *random, struct buffer *buffer, struct rd_op *op,
		      u8 *to, size_t len, u64 offset);

/* --- random_known.c */

int rd_random_make_known(struct rd_random *random);
void rd_random_free_known(struct rd_random *random);
/* Copy what is known of @nr blocks from @first on. False: nothing. */
bool rd_random_get_known(struct rd_random *random, i64 version, u64 segment, unsigned int first,
			 unsigned int nr, struct known *ret);
void rd_random_put_known(struct rd_random *random, i64 version, u64 segment,
			 const struct rd_map *map, const struct rd_fp fps[RD_SEG_BLOCKS]);

/* --- random_packs.c */

int rd_random_make_packs(struct rd_random *random);
void rd_random_free_packs(struct rd_random *random);
/* What a buffer needs for packs. NULL: out of memory. */
struct unpacker *rd_random_unpacker_new(void);
void rd_random_unpacker_free(struct unpacker *unpack);

/* Is the block in a packed frame? */
bool rd_random_is_packed(rd_place place);

/*
 * Read those of the @nr blocks of the buffer that are in packs, and wait for all that its ring
 * has. -EBADMSG: a pack is not there, or is damaged.
 */
int rd_random_read_packs(struct rd_random *random, struct buffer *buffer, unsigned int nr);

/* Remember where these packs are. */
void rd_random_put_packs(struct rd_random *random, const struct rd_pack *packs, unsigned int nr);
/* Forget all that is known of the packs of these @nr blocks. */
void rd_random_forget_packs(struct rd_random *random, const struct known *known,
			    unsigned int nr);

/* --- random_damage.c */

/* Read a piece whose blocks, or their fingerprints, are not what they should be. */
int rd_random_read_damaged(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			   unsigned int first, unsigned int nr, struct buffer *buffer);

/*
 * Is that to be told, for the first time? @offset is of a block, or above all of them for what is
 * wrong with the whole version.
 */
#define RANDOM_GONE		U64_MAX
#define RANDOM_DISPROVED	(U64_MAX - 1)

bool rd_random_is_new(struct rd_random *random, i64 version, u64 offset);

/* Say that @disk is gone. Returns -EIO. */
int rd_random_tell_gone(struct rd_random *random, const struct rd_disk *disk);

#endif
