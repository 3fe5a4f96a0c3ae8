/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Send versions: to a receiver that answers (receive.h), or into a file. Only what the receiver
 * lacks of its whole pool goes over the wire; a file has all that its base does not have.
 *
 * Versions that are being sent are held (hold.h): they can be deleted meanwhile, and are sent.
 */
#ifndef RD_SEND_H
#define RD_SEND_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"
#include "wire.h"

/* What to send of a volume. */
struct rd_send_pick {
	i64 volume;
	const char *name;
	const char *as;		/* its name over there */
	i64 number;		/* only this version; 0: all that are newer than what is there */
};

enum rd_send_event {
	RD_SEND_BEGINS,
	RD_SEND_DONE,		/* @bytes were sent for it, and the receiver has it */
	/* The newest that the receiver has, and nothing is newer; dry_run: one that it has. */
	RD_SEND_THERE,
	RD_SEND_WOULD,		/* dry_run: it lacks this one; @bytes have changed since @base */
};

struct rd_send_options {
	const struct rd_send_pick *picks;
	size_t nr;
	u64 newest;		/* no more than so many versions of each volume; 0: all */
	i64 base;		/* only what is newer than this version; a file builds on it */
	bool force;		/* although the receiver has other versions of a volume */
	bool serves;		/* the receiver has asked for it: only an error reaches its user */
	bool dry_run;		/* ask what the receiver has, and only tell; not into a file */
	struct rd_compression compression;	/* of what goes over the wire */
	bool anew;		/* also of what is compressed in the pool */
	/* @base: of RD_SEND_WOULD, or NULL: all of the version goes. */
	void (*tell)(void *ctx, enum rd_send_event event, const struct rd_send_pick *pick,
		     const struct rd_version *version, const struct rd_version *base, u64 bytes);
	void *ctx;
};

struct rd_send_report {
	u64 versions;		/* that were sent, or would be */
	u64 there;		/* volumes of which nothing new was to be sent */
	u64 skipped;		/* versions that the receiver did not take, or would not */
	u64 blocks;		/* whose content was sent */
	u64 blocks_there;	/* that changed as well, and which the receiver had, or zeros */
	u64 segments, segments_there;	/* that changed; of these, what the receiver had */
};

/* @pool is open for writing, or no version is held. Both ends of @wire are open. */
int rd_send(struct rd_pool *pool, struct rd_wire *wire, const struct rd_send_options *options,
	    struct rd_send_report *report);
/* The same into wire->out alone. */
int rd_send_file(struct rd_pool *pool, struct rd_wire *wire,
		 const struct rd_send_options *options, struct rd_send_report *report);

#endif
