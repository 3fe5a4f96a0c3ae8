// SPDX-License-Identifier: GPL-2.0
/* A shard in RADOS: its name, the cluster, its objects. See rados.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sort.h"
#include "rados_parts.h"

#define SCHEME		"ceph:"
#define FORMAT		"1"

/* --- names */

bool rd_rados_name(const char *path, char ret[PATH_MAX])
{
	ssize_t len;

	if (!strncmp(path, SCHEME, strlen(SCHEME))) {
		snprintf(ret, PATH_MAX, "%s", path);
		return true;
	}
	len = readlink(path, ret, PATH_MAX - 1);
	if (len < 0)
		return false;
	ret[len] = '\0';
	return !strncmp(ret, SCHEME, strlen(SCHEME));
}

void rd_rados_object(const struct rd_rados *rados, u64 nr, char ret[RD_RADOS_OBJECT])
{
	snprintf(ret, RD_RADOS_OBJECT, "rbd_data.%s.%016llx", rados->image,
		 (unsigned long long)nr);
}

void rd_rados_print_epoch(char ret[RD_RADOS_EPOCH], u64 epoch)
{
	snprintf(ret, RD_RADOS_EPOCH, "%08u", (unsigned int)(epoch % 100000000));
}

static int misnamed(const struct rd_rados *rados, const char *why)
{
	rd_err(0, "'%s': %s", rados->ceph.name, why);
	rd_hint("a pool in RADOS is ceph:POOL/SHARD, with ':id=USER' and ':conf=FILE' behind it if need be");
	return -EINVAL;
}

static int parse(struct rd_rados *rados, const char *name)
{
	const char *why, *shard;
	int r;

	r = rd_ceph_parse(&rados->ceph, name, strlen(SCHEME), &why);
	if (r == -EINVAL)
		return misnamed(rados, why);
	if (r)
		return r;
	shard = rados->ceph.path;
	if (strchr(shard, '/'))
		return misnamed(rados, "the name of a shard has no '/'");
	if (*rados->ceph.pool == '.' || *shard == '.')
		return misnamed(rados, "a name begins with '.'");
	return 0;
}

/* One that is erasure coded takes only whole stripes at the end of an object, unless told. */
static int check_overwrites(const struct rd_ceph *ceph)
{
	int only_appends, r;

	r = ceph->lib->ioctx_pool_requires_alignment2(ceph->io, &only_appends);
	if (r || !only_appends)
		return r ? rd_err(r, "cannot look at the pool of '%s'", ceph->name) : 0;
	rd_err(0, "the pool '%s' is erasure coded, and does not allow overwrites", ceph->pool);
	rd_hint("'ceph osd pool set %s allow_ec_overwrites true' lets it, on BlueStore",
		ceph->pool);
	return -EOPNOTSUPP;
}

/*
 * Operations wait for OSDs without a limit of time: of a write that was given up it would not be
 * known whether it still arrives.
 */
static int connect_to(struct rd_rados *rados)
{
	int r = rd_ceph_configure(&rados->ceph);

	if (!r)
		r = rd_ceph_connect(&rados->ceph, rados->ceph.path);
	if (!r)
		r = check_overwrites(&rados->ceph);
	/* An error is better than to wait for room that this command may be about to make. */
	if (!r)
		rados->ceph.lib->set_pool_full_try(rados->ceph.io);
	return r;
}

/* --- the head */

/* A call that is waited for: the calls of librados that wait say nothing meanwhile. */
struct call {
	struct rd_rados *rados;
	rados_completion_t completion;
	pthread_cond_t done;
	bool is_done;
};

static void called(rados_completion_t completion, void *arg)
{
	struct call *call = arg;
	struct rd_rados *rados = call->rados;

	(void)completion;
	pthread_mutex_lock(&rados->lock);
	call->is_done = true;
	pthread_cond_signal(&call->done);
	pthread_mutex_unlock(&rados->lock);
}

static int begin_call(struct call *call, struct rd_rados *rados)
{
	*call = (struct call){ .rados = rados, .done = PTHREAD_COND_INITIALIZER };
	return rados->ceph.lib->aio_create_completion2(call, called, &call->completion);
}

/* @r: of what was to begin it. */
static int end_call(struct call *call, int r)
{
	const struct rd_librados *lib = call->rados->ceph.lib;

	if (!r) {
		rd_rados_wait(call->rados, &call->is_done, &call->done);
		r = lib->aio_get_return_value(call->completion);
	}
	lib->aio_release(call->completion);
	return r;
}

int rd_rados_attr(struct rd_rados *rados, const char *object, const char *name, char *ret,
		  size_t size)
{
	const struct rd_librados *lib = rados->ceph.lib;
	struct call call;
	int r = begin_call(&call, rados);

	if (!r)
		r = end_call(&call, lib->aio_getxattr(rados->ceph.io, object, call.completion, name,
						      ret, size - 1));
	if (r < 0)
		return r == -ERANGE ? -ENODATA : r;
	ret[r] = '\0';
	return 0;
}

int rd_rados_write_head(struct rd_rados *rados, const char *object, rados_write_op_t op)
{
	const struct rd_librados *lib = rados->ceph.lib;
	int flags = LIBRADOS_OPERATION_FULL_FORCE, r;
	struct call call;

	r = begin_call(&call, rados);
	if (!r)
		r = end_call(&call, lib->aio_write_op_operate(op, rados->ceph.io, call.completion,
							      object, NULL, flags));
	lib->release_write_op(op);
	return r;
}

int rd_rados_read_head(struct rd_rados *rados, const char *object, char *ret, size_t size)
{
	const struct rd_librados *lib = rados->ceph.lib;
	rados_read_op_t op = lib->create_read_op();
	struct call call;
	size_t len = 0;
	int r, r_read = 0;

	lib->read_op_read(op, 0, size, ret, &len, &r_read);
	r = begin_call(&call, rados);
	if (!r)
		r = end_call(&call, lib->aio_read_op_operate(op, rados->ceph.io, call.completion,
							     object, 0));
	lib->release_read_op(op);
	return r < 0 ? r : r_read < 0 ? r_read : (int)len;
}

static int refuse_head(const struct rd_rados *rados, int r)
{
	if (r == -EPERM || r == -EACCES) {
		rd_err(0, "client.%s may not use '%s'", rados->ceph.user, rados->ceph.name);
		rd_hint("its caps must allow: mon 'profile rbd', osd 'profile rbd pool=%s namespace=%s'",
			rados->ceph.pool, rados->ceph.path);
		return r;
	}
	if (r == -ENODATA || r == -EBADMSG) {
		rd_err(0, "'%s' is no shard of revdedup: the object '%s' there is another program's",
		       rados->ceph.name, RD_RADOS_HEAD);
		rd_hint("nothing was changed; give the shard a name of its own");
		return -EMEDIUMTYPE;
	}
	return rd_err(r, "cannot read '%s'", rados->ceph.name);
}

static int read_head(struct rd_rados *rados)
{
	char format[8], bytes[24];
	int r;

	r = rd_rados_attr(rados, RD_RADOS_HEAD, "format", format, sizeof(format));
	if (r == -ENOENT)
		return r;
	if (!r && strcmp(format, FORMAT))
		return rd_err_format(rados->ceph.name, atoll(format), atoll(FORMAT));
	if (!r)
		r = rd_rados_attr(rados, RD_RADOS_HEAD, "image", rados->image,
				  sizeof(rados->image));
	if (!r)
		r = rd_rados_attr(rados, RD_RADOS_HEAD, "bytes", bytes, sizeof(bytes));
	if (r)
		return refuse_head(rados, r);
	rados->store.bytes = strtoull(bytes, NULL, 10);
	return 0;
}

/* --- making one */

/* Print the number of the object of the data area, if @name is one. */
static bool is_ours(const struct rd_rados *rados, const char *name, u64 *ret_nr)
{
	char object[RD_RADOS_OBJECT];
	unsigned long long nr;

	if (strlen(name) < 16)
		return false;
	nr = strtoull(name + strlen(name) - 16, NULL, 16);
	rd_rados_object(rados, nr, object);
	*ret_nr = nr;
	return !strcmp(object, name);
}

int rd_rados_list(struct rd_rados *rados)
{
	rados_list_ctx_t list;
	const char *name;
	u64 nr;
	int r;

	rados->objects.len = 0;
	r = rados->ceph.lib->nobjects_list_open(rados->ceph.io, &list);
	if (r)
		return r;
	while (!(r = rados->ceph.lib->nobjects_list_next(list, &name, NULL, NULL)))
		if (is_ours(rados, name, &nr))
			rd_buffer_put(&rados->objects, &nr, sizeof(nr));
	rados->ceph.lib->nobjects_list_close(list);
	if (r != -ENOENT || rados->objects.failed)
		return rados->objects.failed ? -ENOMEM : r;
	if (rados->objects.len)
		qsort(rados->objects.data, rados->objects.len / sizeof(nr), sizeof(nr),
		      rd_compare_u64);
	rados->has_objects = true;
	return 0;
}

/* Of another program, or of a shard whose head is lost. */
static int refuse_objects(struct rd_rados *rados)
{
	rados_list_ctx_t list;
	const char *name;
	int r = rados->ceph.lib->nobjects_list_open(rados->ceph.io, &list);

	if (r)
		return refuse_head(rados, r);
	r = rados->ceph.lib->nobjects_list_next(list, &name, NULL, NULL);
	if (!r) {
		rd_err(0, "'%s' cannot become a shard: it has the object '%s'",
		       rados->ceph.name, name);
		rd_hint("nothing was changed; give the shard a name of its own, or remove what is in the namespace '%s' of the pool '%s'",
			rados->ceph.path, rados->ceph.pool);
	}
	rados->ceph.lib->nobjects_list_close(list);
	return !r ? -EEXIST : r == -ENOENT ? 0 : refuse_head(rados, r);
}

/* The superblocks are in object 0, and so the data area is never without it. */
static int make_first_object(struct rd_rados *rados)
{
	rados_write_op_t op = rados->ceph.lib->create_write_op();
	char object[RD_RADOS_OBJECT];
	int r;

	rd_rados_object(rados, 0, object);
	/* One that is there may be of a later epoch by now, and keeps that. */
	rados->ceph.lib->write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	rados->ceph.lib->write_op_setxattr(op, RD_RADOS_ATTR_E, "00000000", RD_RADOS_EPOCH - 1);
	r = rd_rados_write_head(rados, object, op);
	return r == -EEXIST ? 0 : r;
}

static int make(struct rd_rados *rados)
{
	rados_write_op_t op;
	u64 image;
	int r = refuse_objects(rados);

	if (r)
		return r;
	if (getrandom(&image, sizeof(image), 0) != sizeof(image))
		return rd_err(-errno, "no random number");
	snprintf(rados->image, sizeof(rados->image), "%016llx", (unsigned long long)image);
	op = rados->ceph.lib->create_write_op();
	rados->ceph.lib->write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	rados->ceph.lib->write_op_setxattr(op, "format", FORMAT, strlen(FORMAT));
	rados->ceph.lib->write_op_setxattr(op, "image", rados->image, strlen(rados->image));
	rados->ceph.lib->write_op_setxattr(op, "bytes", "0", 1);
	rados->ceph.lib->write_op_setxattr(op, RD_RADOS_ATTR_EPOCH, "00000000", RD_RADOS_EPOCH - 1);
	rados->ceph.lib->write_op_setxattr(op, "sealed", "00000000", RD_RADOS_EPOCH - 1);
	r = rd_rados_write_head(rados, RD_RADOS_HEAD, op);
	return r ? rd_err(r, "cannot make '%s'", rados->ceph.name) : 0;
}

static int open_to_format(struct rd_rados *rados, bool is_new)
{
	struct rd_shard shard;
	int r = is_new ? make(rados) : 0;

	if (!r)
		r = rd_shard_read(&rados->store, &shard);
	if (!r && shard.token[0]) {
		rd_err(0, "'%s' is a pool already, which '%s' has", rados->ceph.name, shard.host);
		rd_hint("nothing was changed; 'rados rm' of all that is in the namespace '%s' of the pool '%s' removes it",
			rados->ceph.path, rados->ceph.pool);
		return -EEXIST;
	}
	if (!r) {
		r = make_first_object(rados);
		if (r)
			rd_err(r, "cannot write to '%s'", rados->ceph.name);
	}
	if (!r)
		rd_shard_own(&rados->store, &shard);
	return r;
}

/* --- */

static int open_shard(struct rd_rados *rados, const char *name, int flags)
{
	int r;

	r = parse(rados, name);
	if (!r)
		r = connect_to(rados);
	if (r)
		return r;
	r = read_head(rados);
	if (r == -ENOENT && !(flags & O_CREAT)) {
		rd_err(0, "there is no shard '%s' in the pool '%s'", rados->ceph.path,
		       rados->ceph.pool);
		return -ENODEV;
	}
	if (r && r != -ENOENT)
		return r;
	return flags & O_CREAT ? open_to_format(rados, r) : 0;
}

int rd_rados_open(struct rd_store **ret, const char *name, int flags)
{
	struct rd_rados *rados = calloc(1, sizeof(*rados));
	int r;

	if (!rados)
		return -ENOMEM;
	pthread_mutex_init(&rados->lock, NULL);
	pthread_cond_init(&rados->closing, NULL);
	rados->store = (struct rd_store){
		.ops = &rd_rados_ops,
		.caps = RD_STORE_PUNCH | RD_STORE_GROWS | RD_STORE_FENCED,
		.fd = -1,
	};
	r = open_shard(rados, name, flags);
	if (r)
		rd_rados_close(&rados->store);
	else
		*ret = &rados->store;
	return r;
}

void rd_rados_close(struct rd_store *store)
{
	struct rd_rados *rados = rd_rados_of(store);

	rd_rados_end_watch(rados);
	rd_ceph_close(&rados->ceph);
	pthread_cond_destroy(&rados->closing);
	pthread_mutex_destroy(&rados->lock);
	rd_buffer_free(&rados->objects);
	free(rados);
}
