// SPDX-License-Identifier: GPL-2.0
/* Who owns a shard in RADOS: its head, and whether the owner lives. See rados.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "rados_parts.h"

/* How long we wait for the answer of a client. */
#define ANSWER_MS	2000
/* How often a command looks whether it is still seen. */
#define LOOK_SECONDS	3

bool rd_rados_parse_owner(const char *text, struct rd_shard *ret)
{
	unsigned long long epoch, base;
	long long since;

	if (sscanf(text, "%llu %lld %llu %32s %64s", &epoch, &since, &base, ret->token,
		   ret->host) != 5)
		return false;
	ret->epoch = epoch;
	ret->base = base;
	ret->since = since;
	return true;
}

static int fail(const struct rd_rados *rados, int r, const char *what)
{
	return rd_err(r, "cannot %s '%s'", what, rados->ceph.name);
}

int rd_shard_read(struct rd_store *store, struct rd_shard *ret)
{
	struct rd_rados *rados = rd_rados_of(store);
	char epoch[16], sealed[16], owner[RD_RADOS_OWNER];
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_rados_attr(rados, RD_RADOS_HEAD, RD_RADOS_ATTR_EPOCH, epoch, sizeof(epoch));
	if (!r)
		r = rd_rados_attr(rados, RD_RADOS_HEAD, "sealed", sealed, sizeof(sealed));
	if (r)
		return fail(rados, r, "read the head of");
	r = rd_rados_attr(rados, RD_RADOS_HEAD, RD_RADOS_ATTR_OWNER, owner, sizeof(owner));
	/* It has had none yet. */
	if (r && r != -ENODATA)
		return fail(rados, r, "read the owner of");
	if (!r && !rd_rados_parse_owner(owner, ret))
		return fail(rados, -EBADMSG, "read the owner of");
	ret->sealed = strtoull(sealed, NULL, 10);
	/* Of several attributes, read one after the other, the owner's is the newest. */
	if (r)
		ret->epoch = strtoull(epoch, NULL, 10);
	return 0;
}

static void name_host(char ret[RD_SHARD_HOST + 1])
{
	char *c;

	if (gethostname(ret, RD_SHARD_HOST) || !ret[0])
		snprintf(ret, RD_SHARD_HOST, "unknown");
	ret[RD_SHARD_HOST] = '\0';
	for (c = ret; *c; c++)
		if (*c <= ' ')
			*c = '_';
}

int rd_shard_take(struct rd_store *store, struct rd_shard *shard, const char *token, bool is_new)
{
	struct rd_rados *rados = rd_rados_of(store);
	const struct rd_librados *lib = rados->ceph.lib;
	char before[RD_RADOS_EPOCH], after[RD_RADOS_EPOCH], owner[RD_RADOS_OWNER];
	rados_write_op_t op = lib->create_write_op();
	struct rd_shard new = *shard;
	int r;

	new.epoch++;
	if (is_new) {
		new.base = new.epoch;
		new.since = time(NULL);
		name_host(new.host);
		snprintf(new.token, sizeof(new.token), "%s", token);
	}
	rd_rados_print_epoch(before, shard->epoch);
	rd_rados_print_epoch(after, new.epoch);
	snprintf(owner, sizeof(owner), "%llu %lld %llu %s %s", (unsigned long long)new.epoch,
		 (long long)new.since, (unsigned long long)new.base, new.token, new.host);
	lib->write_op_cmpxattr(op, RD_RADOS_ATTR_EPOCH, LIBRADOS_CMPXATTR_OP_EQ, before,
			       RD_RADOS_EPOCH - 1);
	lib->write_op_setxattr(op, RD_RADOS_ATTR_EPOCH, after, RD_RADOS_EPOCH - 1);
	lib->write_op_setxattr(op, RD_RADOS_ATTR_OWNER, owner, strlen(owner));
	r = rd_rados_write_head(rados, RD_RADOS_HEAD, op);
	if (r == -ECANCELED)
		return -EAGAIN;
	if (r)
		return fail(rados, r, "take over");
	*shard = new;
	return 0;
}

int rd_shard_seal(struct rd_store *store, u64 epoch, u64 offset)
{
	struct rd_rados *rados = rd_rados_of(store);
	const struct rd_librados *lib = rados->ceph.lib;
	rados_write_op_t op = lib->create_write_op();
	char text[RD_RADOS_EPOCH], object[RD_RADOS_OBJECT];
	int r;

	rd_rados_print_epoch(text, epoch);
	rd_rados_object(rados, offset / RD_SEG_SIZE, object);
	lib->write_op_cmpxattr(op, RD_RADOS_ATTR_E, LIBRADOS_CMPXATTR_OP_GTE, text,
			       RD_RADOS_EPOCH - 1);
	lib->write_op_setxattr(op, RD_RADOS_ATTR_E, text, RD_RADOS_EPOCH - 1);
	r = rd_rados_write_head(rados, object, op);
	if (r == -ECANCELED) {
		rd_err(0, "'%s' was taken over once more meanwhile", rados->ceph.name);
		return -ESTALE;
	}
	return r && r != -ENOENT ? fail(rados, r, "seal the journal of") : r;
}

int rd_shard_is_lost(struct rd_store *store, u64 offset, bool *ret)
{
	struct rd_rados *rados = rd_rados_of(store);
	char object[RD_RADOS_OBJECT], epoch[16];
	int r;

	rd_rados_object(rados, offset / RD_SEG_SIZE, object);
	r = rd_rados_attr(rados, object, RD_RADOS_ATTR_E, epoch, sizeof(epoch));
	*ret = r == -ENOENT;
	return r && !*ret ? fail(rados, r, "look for the journal of") : 0;
}

int rd_shard_note_sealed(struct rd_store *store, u64 epoch)
{
	struct rd_rados *rados = rd_rados_of(store);
	const struct rd_librados *lib = rados->ceph.lib;
	rados_write_op_t op = lib->create_write_op();
	char text[RD_RADOS_EPOCH];
	int r;

	rd_rados_print_epoch(text, epoch);
	lib->write_op_cmpxattr(op, RD_RADOS_ATTR_EPOCH, LIBRADOS_CMPXATTR_OP_EQ, text,
			       RD_RADOS_EPOCH - 1);
	lib->write_op_setxattr(op, "sealed", text, RD_RADOS_EPOCH - 1);
	r = rd_rados_write_head(rados, RD_RADOS_HEAD, op);
	if (r == -ECANCELED) {
		rd_err(0, "'%s' was taken over once more meanwhile", rados->ceph.name);
		return -ESTALE;
	}
	return r ? fail(rados, r, "write the head of") : 0;
}

void rd_shard_own(struct rd_store *store, const struct rd_shard *shard)
{
	struct rd_rados *rados = rd_rados_of(store);

	pthread_mutex_lock(&rados->lock);
	rados->can_write = true;
	rados->epoch = rd_max(rados->epoch, shard->epoch);
	rados->base = shard->base;
	snprintf(rados->token, sizeof(rados->token), "%s", shard->token);
	pthread_mutex_unlock(&rados->lock);
}

bool rd_shard_is_ours(struct rd_store *store, const struct rd_shard *shard)
{
	struct rd_rados *rados = rd_rados_of(store);
	bool is_ours;

	pthread_mutex_lock(&rados->lock);
	is_ours = rados->can_write && rd_rados_is_ours(rados, shard);
	pthread_mutex_unlock(&rados->lock);
	return is_ours;
}

/* --- does the owner live? */

static void asked(void *ctx, uint64_t notify_id, uint64_t handle, uint64_t notifier_id, void *data,
		  size_t len)
{
	struct rd_rados *rados = ctx;

	(void)notifier_id;
	(void)data;
	(void)len;
	rados->ceph.lib->notify_ack(rados->ceph.io, RD_RADOS_HEAD, notify_id, handle, NULL, 0);
}

/* How long the cluster waits for a client that is gone. */
static unsigned int patience(void)
{
#ifdef RD_TEST
	if (getenv("REVDEDUP_RADOS_WATCH"))
		return atoi(getenv("REVDEDUP_RADOS_WATCH"));
#endif
	return 10;
}

static int begin_watch(struct rd_rados *rados)
{
	return rados->ceph.lib->watch3(rados->ceph.io, RD_RADOS_HEAD, &rados->watch, asked,
				       NULL, patience(), rados);
}

/* Does this command, once it owns the shard, do so no more? */
static bool is_taken(struct rd_rados *rados)
{
	char text[RD_RADOS_OWNER];
	struct rd_shard owner;
	bool is_taken;

	if (rd_rados_attr(rados, RD_RADOS_HEAD, RD_RADOS_ATTR_OWNER, text, sizeof(text)) ||
	    !rd_rados_parse_owner(text, &owner))
		return false;
	pthread_mutex_lock(&rados->lock);
	is_taken = rados->can_write && !rd_rados_is_ours(rados, &owner);
	pthread_mutex_unlock(&rados->lock);
	return is_taken;
}

/* A cluster that hangs for a while, or has not heard of this command for one, forgets it. */
static void renew_watch(struct rd_rados *rados)
{
	bool is_wanted = !is_taken(rados);

	if (is_wanted && rados->has_watch &&
	    rados->ceph.lib->watch_check(rados->ceph.io, rados->watch) >= 0)
		return;
	if (rados->has_watch)
		rados->ceph.lib->unwatch2(rados->ceph.io, rados->watch);
	/* Where this fails, writes tell why. */
	rados->has_watch = is_wanted && !begin_watch(rados);
}

static void *keep_watch(void *arg)
{
	struct rd_rados *rados = arg;
	struct timespec limit;

	pthread_mutex_lock(&rados->lock);
	while (!rados->is_closing) {
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += LOOK_SECONDS;
		if (pthread_cond_timedwait(&rados->closing, &rados->lock, &limit) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&rados->lock);
		renew_watch(rados);
		pthread_mutex_lock(&rados->lock);
	}
	pthread_mutex_unlock(&rados->lock);
	return NULL;
}

int rd_shard_watch(struct rd_store *store)
{
	struct rd_rados *rados = rd_rados_of(store);
	int r = begin_watch(rados);

	if (r)
		return fail(rados, r, "watch the head of");
	rados->has_watch = true;
	r = -pthread_create(&rados->watcher, NULL, keep_watch, rados);
	rados->has_watcher = !r;
	return r ? fail(rados, r, "watch the head of") : 0;
}

void rd_rados_end_watch(struct rd_rados *rados)
{
	if (rados->has_watcher) {
		pthread_mutex_lock(&rados->lock);
		rados->is_closing = true;
		pthread_cond_signal(&rados->closing);
		pthread_mutex_unlock(&rados->lock);
		pthread_join(rados->watcher, NULL);
	}
	if (!rados->has_watch)
		return;
	rados->ceph.lib->unwatch2(rados->ceph.io, rados->watch);
	rados->ceph.lib->watch_flush(rados->ceph.cluster);
}

int rd_shard_ask(struct rd_store *store, enum rd_shard_life *ret)
{
	struct rd_rados *rados = rd_rados_of(store);
	const struct rd_librados *lib = rados->ceph.lib;
	struct notify_timeout_t *silent = NULL;
	struct notify_ack_t *acks = NULL;
	size_t len = 0, nr_acks = 0, nr_silent = 0;
	char *reply = NULL;
	int r, error;

	r = lib->notify2(rados->ceph.io, RD_RADOS_HEAD, NULL, 0, ANSWER_MS, &reply, &len);
	if (r && r != -ETIMEDOUT)
		return fail(rados, r, "ask for the owner of");
	error = lib->decode_notify_response(reply, len, &acks, &nr_acks, &silent, &nr_silent);
	lib->buffer_free(reply);
	if (error)
		return fail(rados, error, "ask for the owner of");
	lib->free_notify_response(acks, nr_acks, silent);
	*ret = nr_acks ? RD_SHARD_BUSY : nr_silent || r ? RD_SHARD_SILENT : RD_SHARD_IDLE;
	return 0;
}
