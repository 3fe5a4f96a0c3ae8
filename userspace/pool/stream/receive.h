/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive versions from a sender (send.h), or from a file.
 *
 * Nothing that comes is believed. Each segment is fingerprinted, and must be what the sender said;
 * the sum of all must be the pin of the version. Only then the version exists. What the pool has
 * anywhere is not sent; where that is another's, the sender proves that it has it too (enum
 * rd_share), since it could have come by a fingerprint alone.
 */
#ifndef RD_RECEIVE_H
#define RD_RECEIVE_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"
#include "wire.h"

/* For what is the sender told that the pool has it? */
enum rd_share {
	RD_SHARE_OWN,		/* content of its volumes */
	RD_SHARE_PROVEN,	/* all others as well, but it must prove that it has them */
	RD_SHARE_ALL,		/* all that is there */
};

struct rd_receive_options {
	enum rd_share share;
	/* Is it the name of a volume, or of a tag? And may the sender write to that volume? */
	bool (*is_volume)(const char *name);
	bool (*is_tag)(const char *name);
	bool (*may_write)(void *ctx, const char *volume);
	/* Is that volume the sender's as well, beside the one that it sends? NULL: none is. */
	bool (*owns)(void *ctx, const char *volume);
	const char *as;		/* the name of the volume here, or NULL: as there */
	bool append_only;	/* no tag is taken from another version */
	u64 limit;		/* bytes of the data area that may be in use */
	/* A version exists. @sent: bytes that came for it. */
	void (*tell)(void *ctx, const char *volume, const struct rd_version *version, u64 sent);
	void *ctx;
};

struct rd_receive_report {
	u64 versions;
	u64 skipped;
	u64 blocks_changed;	/* in these versions, with those that were here already */
};

/*
 * @pool is open for writing. Both ends of @wire are open, or, of a file, wire->in alone. Where both
 * are, pool->progress calls rd_wire_keep().
 */
int rd_receive(struct rd_pool *pool, struct rd_wire *wire,
	       const struct rd_receive_options *options, struct rd_receive_report *report);

#endif
