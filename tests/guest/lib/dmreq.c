// SPDX-License-Identifier: GPL-2.0
/*
 * Device-mapper requests byte by byte. See dmreq.h.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmreq.h"

static int control = -1;
static struct dm_ioctl *buffer;

void dmreq_open(void)
{
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	buffer = aligned_alloc(4096, DMREQ_MAX);
	if (control < 0 || !buffer)
		err(1, "/dev/mapper/control");
}

void dmreq_begin(struct dmreq *rq, const char *name)
{
	rq->head = buffer;
	rq->data = (char *)(buffer + 1);
	rq->used = 0;
	memset(rq->head, 0, sizeof(*rq->head));
	rq->head->version[0] = DM_VERSION_MAJOR;
	rq->head->data_start = sizeof(*rq->head);
	snprintf(rq->head->name, sizeof(rq->head->name), "%s", name);
}

static size_t room(const struct dmreq *rq)
{
	return DMREQ_MAX - sizeof(*rq->head) - rq->used;
}

int dmreq_add_target(struct dmreq *rq, uint64_t start, uint64_t sectors,
		     const char *type, const char *params)
{
	struct dm_target_spec *spec = (void *)(rq->data + rq->used);
	size_t len = strlen(params) + 1;
	size_t size = (sizeof(*spec) + len + 7) & ~(size_t)7;

	if (size > room(rq))
		return -ENOSPC;
	memset(spec, 0, size);
	spec->sector_start = start;
	spec->length = sectors;
	spec->next = size;
	snprintf(spec->target_type, sizeof(spec->target_type), "%s", type);
	memcpy(spec + 1, params, len);
	rq->used += size;
	rq->head->target_count++;
	return 0;
}

int dmreq_set_message(struct dmreq *rq, uint64_t sector, const char *text, size_t len)
{
	struct dm_target_msg *msg = (void *)rq->data;

	if (sizeof(*msg) + len > room(rq))
		return -ENOSPC;
	msg->sector = sector;
	memcpy(msg->message, text, len);
	rq->used = sizeof(*msg) + len;
	return 0;
}

int dmreq_send(struct dmreq *rq, unsigned long cmd, size_t size)
{
	size_t least = sizeof(*rq->head) + rq->used;

	if (!size) {
		size = DMREQ_MAX;
		memset((char *)rq->head + least, 0, size - least);
	}
	rq->head->data_size = size > least ? size : least;
	return ioctl(control, cmd, rq->head) ? -errno : 0;
}

const char *dmreq_text(const struct dmreq *rq)
{
	if (!(rq->head->flags & DM_DATA_OUT_FLAG) ||
	    rq->head->flags & DM_BUFFER_FULL_FLAG)
		return NULL;
	return (char *)rq->head + rq->head->data_start;
}

const struct dm_target_spec *dmreq_target(const struct dmreq *rq, unsigned int n)
{
	char *data = (char *)rq->head + rq->head->data_start;
	struct dm_target_spec *spec = (void *)data;

	if (n >= rq->head->target_count || rq->head->flags & DM_BUFFER_FULL_FLAG)
		return NULL;
	/* In replies, next counts from the begin of the data. */
	while (n--)
		spec = (void *)(data + spec->next);
	return spec;
}

int dmreq_simple(const char *name, unsigned long cmd, uint32_t flags)
{
	struct dmreq rq;

	dmreq_begin(&rq, name);
	rq.head->flags = flags;
	return dmreq_send(&rq, cmd, sizeof(*rq.head));
}
