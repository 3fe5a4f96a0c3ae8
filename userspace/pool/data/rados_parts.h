/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the store in RADOS share: see rados.h. */
#ifndef RD_RADOS_PARTS_H
#define RD_RADOS_PARTS_H

#include <pthread.h>
#include <string.h>

#include "base/buffer.h"
#include "ceph.h"
#include "rados.h"

#define RD_RADOS_HEAD	"head"
#define RD_RADOS_EPOCH	9	/* as text */
#define RD_RADOS_OWNER	192
#define RD_RADOS_OBJECT	64
/* Attributes of the head, and that of an object. */
#define RD_RADOS_ATTR_EPOCH	"epoch"
#define RD_RADOS_ATTR_OWNER	"owner"
#define RD_RADOS_ATTR_E		"e"

struct part;			/* rados.c */

struct rd_rados {
	struct rd_store store;
	struct rd_ceph ceph;
	char image[17];
	bool has_watch, has_watcher;
	uint64_t watch;			/* the watcher's, while there is one */
	pthread_t watcher;
	pthread_cond_t closing;

	pthread_mutex_t lock;		/* of all that follows */
	bool is_closing;
	bool can_write;
	u64 epoch, base;		/* in which we write */
	char token[RD_SHARD_TOKEN + 1];
	bool told_fenced, told_silent;
	struct rd_buffer objects;	/* u64: those that are there, in order */
	bool has_objects;
	struct part *shared;		/* writes that others wait for */
};

static inline struct rd_rados *rd_rados_of(const struct rd_store *store)
{
	return (struct rd_rados *)((char *)store - offsetof(struct rd_rados, store));
}

extern const struct rd_store_ops rd_rados_ops;

void rd_rados_close(struct rd_store *store);
/* Undo rd_shard_watch(), if it was done. */
void rd_rados_end_watch(struct rd_rados *rados);

void rd_rados_object(const struct rd_rados *rados, u64 nr, char ret[RD_RADOS_OBJECT]);
void rd_rados_print_epoch(char ret[RD_RADOS_EPOCH], u64 epoch);
/* Read the attribute owner. False: it is not one. */
bool rd_rados_parse_owner(const char *text, struct rd_shard *ret);

/* Is it this command's host that has it, in the life in which the command began? Under the lock. */
static inline bool rd_rados_is_ours(const struct rd_rados *rados, const struct rd_shard *owner)
{
	return !strcmp(owner->token, rados->token) && owner->base == rados->base;
}

/* Wait until *@is_done, under rados->lock, and @done is signalled. Says what holds it up. */
void rd_rados_wait(struct rd_rados *rados, const bool *is_done, pthread_cond_t *done);

/* Do one operation, also in a pool that is full. */
int rd_rados_write_head(struct rd_rados *rados, const char *object, rados_write_op_t op);
/* Read the beginning of an object. Returns how many bytes, or -errno. */
int rd_rados_read_head(struct rd_rados *rados, const char *object, char *ret, size_t size);
/* Read an attribute as text. -ENODATA: there is none, or it is too long. */
int rd_rados_attr(struct rd_rados *rados, const char *object, const char *name, char *ret,
		  size_t size);

/* List the objects of the data area that are there. */
int rd_rados_list(struct rd_rados *rados);

#endif
