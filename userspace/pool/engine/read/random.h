/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read versions here and there, as disks are read, by several threads at a time, for as long
 * as a server runs, while other commands make and delete versions and move blocks.
 *
 * The fingerprints of a segment's blocks are looked up once, and are believed after they
 * were found to have the segment's fingerprint, which the catalog keeps. From then on they
 * are the truth, whatever happens to the pool: the content of a version never changes. The
 * places of the blocks are a hint, and so is all that is known of packs. A block that is not
 * what its fingerprint says is looked up again, since it may have moved, and its old place may
 * hold anything by now. So no command waits for a reader before it frees a place, and no
 * reader waits for a command.
 *
 * A block that is still wrong is looked at once more with the lock that keeps commands from
 * freeing (rd_lease_shut()), together with all of its segment: then nothing moves, and what
 * is wrong is damaged. What is good in spite of that, by the rule of a restore (blame.h), is
 * read. The rest is -EIO, and a message with the version, the offset and a remedy.
 *
 * A version that is deleted, and not held (hold.h), cannot be looked up any more: its rows
 * may be half gone. Each look-up sees first whether the version is still there.
 *
 * Memory: struct rd_random, some MiB for each of NR_BUFFERS reads at a time, and a bounded
 * number of segments whose places are known, of heads of packs and of groups that are decoded;
 * whatever the size of pool and version.
 */
#ifndef RD_RANDOM_H
#define RD_RANDOM_H

#include "pool/catalog/versions.h"
#include "pool/data/slots.h"
#include "pool/pool.h"

struct rd_random;

/*
 * Make a reader of @pool, which is open and stays so. From now on the catalog is used only
 * within rd_random_ask().
 */
int rd_random_new(struct rd_random **ret, struct rd_pool *pool);
void rd_random_free(struct rd_random *random);

struct rd_resolver;

/*
 * Call @ask within one transaction of the catalog that reads, alone among the threads. Where
 * the catalog turned out to change beneath (see random_ask.c) it is called again. Returns
 * what it returned.
 */
typedef int rd_ask_fn(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx);
int rd_random_ask(struct rd_random *random, rd_ask_fn *ask, void *ctx);

struct rd_disk {
	struct rd_version version;
	const char *name;	/* for messages */
};

/*
 * Prove that the segments which the catalog names are those of the version (proof.h), before the
 * first read of it. Others read on meanwhile. -EUCLEAN, after a message: they are not. -EIO,
 * after a message: the version is gone.
 */
int rd_random_prove(struct rd_random *random, const struct rd_disk *disk);

/*
 * Read @len bytes at @offset, which end within the version. -EIO, after a message: they are
 * damaged, or the version is gone.
 */
int rd_random_read(struct rd_random *random, const struct rd_disk *disk, void *buf, size_t len,
		   u64 offset);

/*
 * Read the fingerprints of all blocks of a segment. They are proven: together they have the
 * fingerprint that the catalog has. Where those beside the blocks are lost, the blocks are read.
 */
int rd_random_fps(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		  struct rd_fp fps[RD_SEG_BLOCKS]);

struct dmr_pack_head;

/*
 * Read the pack that has the blocks @slots of a segment, each in the slot of the same number, and
 * no others, as it lies: @pack has RD_PACK_MAX bytes for direct I/O. It is the one that the segment
 * has, and its groups have their checksums; whether its blocks have their fingerprints is seen when
 * they are decoded. -ENOENT: there is no such pack, or it is damaged, or moved just now.
 */
int rd_random_read_pack(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			const struct rd_slots *slots, struct dmr_pack_head *head, u8 *pack);

/*
 * Find which parts of the version, from @offset on, are zeros that no place holds.
 * Calls @take with one range after the other, until it returns not 0, @len bytes were told,
 * or enough was looked up for once. The first range begins at @offset.
 */
typedef int rd_take_fn(void *ctx, u64 offset, u64 len, bool is_zero);
int rd_random_extents(struct rd_random *random, const struct rd_disk *disk, u64 len, u64 offset,
		      rd_take_fn *take, void *ctx);

#endif
