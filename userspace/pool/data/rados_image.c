// SPDX-License-Identifier: GPL-2.0
/* A shard in RADOS as an image of RBD, which the kernel can read: see rados.h. */
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "area.h"
#include "base/log.h"
#include "rados_parts.h"

#define CLASS		"rbd"
#define OBJECT_ID	"rbd_id." RD_SHARD_IMAGE
#define LAYERING	1
#define ORDER		21
/* The area has fingerprints and superblocks beside the frames, and far less of them. */
#define BYTES		(2 * RD_MAX_FRAMES * RD_SEG_SIZE)

_Static_assert(1 << ORDER == RD_SEG_SIZE, "an object of the image is a frame");

/* --- the image: as the tools of RBD make one, by the methods of the OSDs */

static void put_number(struct rd_buffer *buffer, u64 number, size_t bytes)
{
	u64 disk = htole64(number);

	rd_buffer_put(buffer, &disk, bytes);
}

static void put_text(struct rd_buffer *buffer, const char *text)
{
	put_number(buffer, strlen(text), 4);
	rd_buffer_put(buffer, text, strlen(text));
}

/* Make an object that is not there yet, by one call. */
static int make_object(struct rd_rados *rados, const char *object, const char *method,
		       const struct rd_buffer *in)
{
	const struct rd_librados *lib = rados->ceph.lib;
	rados_write_op_t op;
	int r;

	if (in->failed)
		return -ENOMEM;
	op = lib->create_write_op();
	lib->write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	lib->write_op_exec(op, CLASS, method, (const char *)in->data, in->len, NULL);
	r = rd_rados_write_head(rados, object, op);
	return r == -EEXIST ? 0 : r;
}

static int make_header(struct rd_rados *rados)
{
	char object[RD_RADOS_OBJECT], prefix[RD_RADOS_OBJECT];
	struct rd_buffer in = { 0 };
	int r;

	snprintf(object, sizeof(object), "rbd_header.%s", rados->image);
	snprintf(prefix, sizeof(prefix), "rbd_data.%s", rados->image);
	put_number(&in, BYTES, 8);
	put_number(&in, ORDER, 1);
	put_number(&in, LAYERING, 8);
	put_text(&in, prefix);
	r = make_object(rados, object, "create", &in);
	rd_buffer_free(&in);
	return r;
}

/*
 * What leads to the header, after it: so whoever finds the image can use it. -EEXIST: it leads to
 * another one.
 */
static int make_name(struct rd_rados *rados)
{
	struct rd_buffer in = { 0 };
	char is[sizeof(rados->image) + 4];
	int r, len;

	put_text(&in, rados->image);
	r = make_object(rados, OBJECT_ID, "set_id", &in);
	if (!r) {
		len = rd_rados_read_head(rados, OBJECT_ID, is, sizeof(is));
		r = len < 0 ? len :
			(size_t)len == in.len && !memcmp(is, in.data, len) ? 0 : -EEXIST;
	}
	rd_buffer_free(&in);
	return r;
}

static int make_image(struct rd_rados *rados)
{
	int r = make_header(rados);

	return r ? r : make_name(rados);
}

bool rd_shard_has_image(struct rd_store *store)
{
	return !make_image(rd_rados_of(store));
}

static int require_image(struct rd_rados *rados)
{
	int r = make_image(rados);

	if (!r)
		return 0;
	rd_err(r, "cannot make an RBD image of '%s', which the kernel could read",
	       rados->ceph.name);
	/* Such a pool has no omap, which the header needs. */
	if (r == -EOPNOTSUPP)
		rd_hint("nothing was changed; the pool '%s' is erasure coded, or its OSDs lack the class rbd",
			rados->ceph.pool);
	if (r == -EEXIST)
		rd_hint("nothing was changed; the object '" OBJECT_ID "' there is of another image");
	return r;
}

/* --- how to reach it */

/* Append the addresses of a kind that the map of the monitors has, and count them. */
static unsigned int add_monitors(const char *map, const char *kind, char *ret, size_t size)
{
	unsigned int nr = 0;
	char before[32];
	size_t len = 0;
	const char *at;

	snprintf(before, sizeof(before), "\"type\":\"%s\",\"addr\":\"", kind);
	for (at = map; (at = strstr(at, before)) && len < size; nr++) {
		at += strlen(before);
		len += snprintf(ret + len, size - len, "%s%.*s", nr ? "," : "",
				(int)strcspn(at, "\""), at);
	}
	return len < size ? nr : 0;
}

static int find_monitors(struct rd_rados *rados, struct rd_shard_image *ret)
{
	const char *command = "{\"prefix\": \"mon dump\", \"format\": \"json\"}";
	const struct rd_librados *lib = rados->ceph.lib;
	char *map = NULL, *out = NULL, *status = NULL;
	size_t len = 0, status_len = 0;
	int r;

	r = lib->mon_command(rados->ceph.cluster, &command, 1, NULL, 0, &out, &len, &status,
			     &status_len);
	if (!r) {
		map = strndup(out, len);
		ret->monitors = malloc(len);
		if (!map || !ret->monitors)
			r = -ENOMEM;
	}
	lib->buffer_free(out);
	lib->buffer_free(status);
	if (!r) {
		ret->has_v2 = add_monitors(map, "v2", ret->monitors, len);
		if (!ret->has_v2 && !add_monitors(map, "v1", ret->monitors, len))
			r = -ENODATA;
	}
	free(map);
	return r ? rd_err(r, "cannot find the monitors of '%s'", rados->ceph.name) : 0;
}

/* Find the key of @user in a keyring. */
static char *key_in(const char *path, const char *user)
{
	char line[512], section[256] = "", key[256], *bare;
	FILE *file = fopen(path, "re");
	char *ret = NULL;

	while (file && !ret && fgets(line, sizeof(line), file)) {
		sscanf(line, " [%255[^]]]", section);
		if (!strncmp(section, "client.", 7) && !strcmp(section + 7, user) &&
		    sscanf(line, " key = %255s", key) == 1) {
			bare = key + strspn(key, "\"'");
			bare[strcspn(bare, "\"';#")] = '\0';
			ret = strdup(bare);
		}
	}
	if (file)
		fclose(file);
	return ret;
}

/* Read the key that is all that a file has. */
static char *key_alone(const char *path)
{
	FILE *file = fopen(path, "re");
	char *ret = NULL, key[256];

	if (file && fscanf(file, "%255s", key) == 1)
		ret = strdup(key);
	if (file)
		fclose(file);
	return ret;
}

static void setting(const struct rd_rados *rados, const char *name, char ret[PATH_MAX])
{
	if (rados->ceph.lib->conf_get(rados->ceph.cluster, name, ret, PATH_MAX))
		ret[0] = '\0';
}

/*
 * Where librados has found it, which does not tell: there is no call for a key. It looks in this
 * order. A cluster without cephx needs none.
 */
static void find_key(const struct rd_rados *rados, struct rd_shard_image *ret)
{
	char value[PATH_MAX], *next, *path;

	setting(rados, "key", value);
	if (value[0])
		ret->key = strdup(value);
	setting(rados, "keyfile", value);
	if (value[0] && !ret->key)
		ret->key = key_alone(value);
	setting(rados, "keyring", value);
	for (path = strtok_r(value, ",; ", &next); path && !ret->key;
	     path = strtok_r(NULL, ",; ", &next))
		ret->key = key_in(path, rados->ceph.user);
}

/* --- */

int rd_shard_image(struct rd_store *store, struct rd_shard_image *ret)
{
	struct rd_rados *rados = rd_rados_of(store);
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->pool = strdup(rados->ceph.pool);
	ret->space = strdup(rados->ceph.path);
	ret->user = strdup(rados->ceph.user);
	r = ret->pool && ret->space && ret->user ? rd_shard_image_id(store, &ret->id) : -ENOMEM;
	if (!r)
		r = require_image(rados);
	if (!r)
		r = find_monitors(rados, ret);
	if (r)
		rd_shard_image_free(ret);
	else
		find_key(rados, ret);
	return r;
}

void rd_shard_image_free(struct rd_shard_image *image)
{
	if (image->key)
		explicit_bzero(image->key, strlen(image->key));
	free(image->key);
	free(image->user);
	free(image->space);
	free(image->pool);
	free(image->monitors);
	memset(image, 0, sizeof(*image));
}

int rd_shard_image_id(const struct rd_store *store, struct rd_shard_image_id *ret)
{
	struct rd_rados *rados = rd_rados_of(store);
	int r;

	r = rados->ceph.lib->cluster_fsid(rados->ceph.cluster, ret->cluster, sizeof(ret->cluster));
	if (r < 0)
		return rd_err(r, "cannot identify the cluster of '%s'", rados->ceph.name);
	snprintf(ret->pool, sizeof(ret->pool), "%lld",
		 (long long)rados->ceph.lib->ioctx_get_id(rados->ceph.io));
	memcpy(ret->image, rados->image, sizeof(ret->image));
	snprintf(ret->space, sizeof(ret->space), "%s", rados->ceph.path);
	return 0;
}
