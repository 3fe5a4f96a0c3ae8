// SPDX-License-Identifier: GPL-2.0
/* Open a disk on RBD: see rbd.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pool/catalog/versions.h"
#include "pool/data/rados.h"
#include "rbd_disk.h"

#define SCHEME		"rbd:"
/* So many requests about objects are in flight while ranges are listed. */
#define LISTED		"64"

bool rd_rbd_is_spec(const char *text)
{
	return !strncmp(text, SCHEME, strlen(SCHEME));
}

/* --- the name */

static int misnamed(const struct rd_rbd *rbd, const char *why)
{
	rd_err(0, "'%s': %s", rbd->ceph.name, why);
	rd_hint("a disk on RBD is rbd:POOL/IMAGE or rbd:POOL/NAMESPACE/IMAGE, with ':id=USER' and ':conf=FILE' behind it if need be");
	return -EINVAL;
}

static int parse(struct rd_rbd *rbd, const char *spec)
{
	const char *why;
	char *slash;
	int r = rd_ceph_parse(&rbd->ceph, spec, strlen(SCHEME), &why);

	if (r)
		return r == -EINVAL ? misnamed(rbd, why) : r;
	rbd->image = rbd->ceph.path;
	slash = strchr(rbd->ceph.path, '/');
	if (slash) {
		*slash++ = '\0';
		rbd->space = rbd->ceph.path;
		rbd->image = slash;
	}
	if (strpbrk(rbd->image, "/@"))
		return misnamed(rbd, "a name has no '/', and the snapshot is made by this command: leave out '@'");
	if (!*rbd->image || (rbd->space && !*rbd->space))
		return misnamed(rbd, "a name is empty");
	if (!strcmp(rbd->image, RD_SHARD_IMAGE))
		return misnamed(rbd, "an image of that name is the data area of a pool");
	return 0;
}

/* --- the cluster */

static void set(struct rd_rbd *rbd, const char *name, const char *value)
{
	rbd->ceph.lib->conf_set(rbd->ceph.cluster, name, value);
}

static int connect_to(struct rd_rbd *rbd)
{
	int r = rd_ceph_configure(&rbd->ceph);

	if (r)
		return r;
	/* A cluster that is gone must not hold up all that comes after. */
	set(rbd, "rados_osd_op_timeout", rbd->ceph.patience);
	set(rbd, "rbd_concurrent_management_ops", LISTED);
	/* Nothing is read twice, and what was written is to be there. */
	set(rbd, "rbd_cache", "false");
	return rd_ceph_connect(&rbd->ceph, rbd->space);
}

/* --- the image */

static int make_image(struct rd_rbd *rbd, u64 size)
{
	rbd_image_options_t options;
	int r;

	rbd->lib->rbd_image_options_create(&options);
	r = rbd->lib->rbd_create4(rbd->ceph.io, rbd->image, size, options);
	rbd->lib->rbd_image_options_destroy(options);
	return r ? rd_rbd_failed(rbd, r, "make") : 0;
}

int rd_rbd_read_size(struct rd_rbd *rbd)
{
	uint64_t size;
	int r = rbd->lib->rbd_get_size(rbd->disk, &size);

	if (!r)
		rbd->store.bytes = size;
	return r;
}

static int open_image(struct rd_rbd *rbd, u64 size, bool *ret_new)
{
	int r = rbd->lib->rbd_open(rbd->ceph.io, rbd->image, &rbd->disk, NULL);

	if (r == -ENOENT && size) {
		r = make_image(rbd, size);
		if (r)
			return r;
		*ret_new = true;
		r = rbd->lib->rbd_open(rbd->ceph.io, rbd->image, &rbd->disk, NULL);
	}
	if (r)
		rbd->disk = NULL;
	if (r == -ENOENT)
		return rd_err(0, "there is no image '%s' in the pool '%s'%s%s", rbd->image,
			      rbd->ceph.pool, rbd->space ? ", namespace " : "",
			      rbd->space ? : ""), r;
	if (!r)
		r = rd_rbd_read_size(rbd);
	if (r)
		return rd_rbd_failed(rbd, r, "open");
	if (rbd->store.bytes > RD_VERSION_MAX)
		return rd_err(-EFBIG, "'%s' has %llu bytes", rbd->ceph.name, rbd->store.bytes);
	return 0;
}

int rd_rbd_open(struct rd_rbd **ret, const char *spec, u64 size, bool *ret_new)
{
	struct rd_rbd *rbd = calloc(1, sizeof(*rbd));
	int r;

	*ret = rbd;
	if (!rbd)
		return -ENOMEM;
	pthread_mutex_init(&rbd->lock, NULL);
	pthread_cond_init(&rbd->idle, NULL);
	r = parse(rbd, spec);
	if (!r)
		r = rd_librbd_load(&rbd->lib);
	if (!r)
		r = connect_to(rbd);
	return r ? r : open_image(rbd, size, ret_new);
}

void rd_rbd_close(struct rd_rbd *rbd)
{
	if (!rbd)
		return;
	if (rbd->disk)
		rbd->lib->rbd_close(rbd->disk);
	rd_ceph_close(&rbd->ceph);
	pthread_cond_destroy(&rbd->idle);
	pthread_mutex_destroy(&rbd->lock);
	rd_buffer_free(&rbd->data);
	free(rbd);
}

int rd_rbd_users(struct rd_rbd *rbd)
{
	rbd_image_watcher_t watchers[64];
	size_t nr = 64;
	int r = rbd->lib->rbd_watchers_list(rbd->disk, watchers, &nr);

	if (r == -ERANGE)
		return nr - 1;
	if (r)
		return rd_rbd_failed(rbd, r, "list who uses");
	rbd->lib->rbd_watchers_list_cleanup(watchers, nr);
	/* One of them is ours. */
	return nr ? nr - 1 : 0;
}
