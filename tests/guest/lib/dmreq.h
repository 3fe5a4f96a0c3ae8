/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device-mapper requests byte by byte: for test programs that send what dm.h
 * does not (whole tables, huge replies and tiny ones) or what libdevmapper would
 * never send (garbage). One request at a time, from one thread.
 */
#ifndef RDT_DMREQ_H
#define RDT_DMREQ_H

#include <linux/dm-ioctl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>	/* DM_* requests */

#define DMREQ_MAX	1048576U

struct dmreq {
	struct dm_ioctl *head;	/* DMREQ_MAX bytes, and behind it: */
	char *data;
	size_t used;		/* of data */
};

/* Open the control device; exits where there is none. */
void dmreq_open(void);

/* A request for device @name, with nothing in it. */
void dmreq_begin(struct dmreq *rq, const char *name);

/* A line of a table: 0, or -ENOSPC. */
int dmreq_add_target(struct dmreq *rq, uint64_t start, uint64_t sectors,
		     const char *type, const char *params);

/* The message of @rq: @len bytes, which end with a zero byte or do not. */
int dmreq_set_message(struct dmreq *rq, uint64_t sector, const char *text, size_t len);

/*
 * Send it, with @size bytes for request and reply in all (0: as much as there
 * is, which zeroes the reply's room first). Returns 0 or -errno; the reply is
 * in @rq.
 */
int dmreq_send(struct dmreq *rq, unsigned long cmd, size_t size);

/* DM_DATA_OUT's text, or NULL where there is none or it did not fit. */
const char *dmreq_text(const struct dmreq *rq);

/* The n-th target of a status reply, or NULL; its text follows it. */
const struct dm_target_spec *dmreq_target(const struct dmreq *rq, unsigned int n);

/* The ones without data; @flags are the kernel's. */
int dmreq_simple(const char *name, unsigned long cmd, uint32_t flags);

#endif
