// SPDX-License-Identifier: GPL-2.0
/* Open a disk on RBD: see rbd.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/catalog/versions.h"
#include "rbd_disk.h"

#define SCHEME		"rbd:"
/* So many requests about objects are in flight while ranges are listed. */
#define LISTED		"64"

bool rd_rbd_is_spec(const char *text)
{
	return !strncmp(text, SCHEME, strlen(SCHEME));
}

/* A cluster that does not answer for so many seconds has failed. */
static const char *patience(void)
{
#ifdef RD_TEST
	if (getenv("REVDEDUP_RBD_SECONDS"))
		return getenv("REVDEDUP_RBD_SECONDS");
#endif
	return "60";
}

/* --- the name */

static int misnamed(const struct rd_rbd *rbd, const char *why)
{
	rd_err(0, "'%s': %s", rbd->spec, why);
	rd_hint("a disk on RBD is rbd:POOL/IMAGE or rbd:POOL/NAMESPACE/IMAGE, with ':id=USER' and ':conf=FILE' behind it if need be");
	return -EINVAL;
}

static int parse_options(struct rd_rbd *rbd, char *option)
{
	char *next;

	for (; option; option = next) {
		next = strchr(option, ':');
		if (next)
			*next++ = '\0';
		if (!strncmp(option, "id=", 3) && option[3])
			rbd->user = option + 3;
		else if (!strncmp(option, "conf=", 5) && option[5])
			rbd->conf = option + 5;
		else
			return misnamed(rbd, "only the options id= and conf= are known");
	}
	return 0;
}

static int parse(struct rd_rbd *rbd)
{
	char *slash, *more, *options;

	rbd->text = strdup(rbd->spec + strlen(SCHEME));
	if (!rbd->text)
		return -ENOMEM;
	rbd->user = "admin";
	options = strchr(rbd->text, ':');
	if (options)
		*options++ = '\0';
	rbd->pool = rbd->text;
	slash = strchr(rbd->text, '/');
	if (!slash)
		return misnamed(rbd, "it names no image");
	*slash++ = '\0';
	more = strchr(slash, '/');
	if (more) {
		*more++ = '\0';
		rbd->space = slash;
		slash = more;
	}
	rbd->image = slash;
	if (strpbrk(slash, "/@"))
		return misnamed(rbd, "a name has no '/', and the snapshot is made by this command: leave out '@'");
	if (!*rbd->pool || !*rbd->image || (rbd->space && !*rbd->space))
		return misnamed(rbd, "a name is empty");
	return parse_options(rbd, options);
}

/* --- the cluster */

static int refused(const struct rd_rbd *rbd, int r)
{
	switch (r) {
	case -ETIMEDOUT:
		rd_err(0, "no monitor of the cluster of '%s' has answered for %s seconds",
		       rbd->spec, rbd->patience);
		break;
	/* Which of these it is depends on the version. */
	case -ENOENT:
	case -EPERM:
	case -EACCES:
		rd_err(0, "the cluster of '%s' refuses client.%s: it has no key, or not the right one",
		       rbd->spec, rbd->user);
		rd_hint("Ceph looks for it in /etc/ceph/ceph.client.%s.keyring; ':id=USER' names another user",
			rbd->user);
		break;
	default:
		rd_err(r, "cannot connect to the cluster of '%s'", rbd->spec);
	}
	return r;
}

static int configure(struct rd_rbd *rbd)
{
	const struct rd_librbd *lib = rbd->lib;
	int r = lib->rados_create(&rbd->cluster, rbd->user);

	if (r) {
		rbd->cluster = NULL;
		return rd_err(r, "cannot use Ceph");
	}
	r = lib->rados_conf_read_file(rbd->cluster, rbd->conf);
	if (r) {
		rd_err(r, "cannot read the settings of the cluster of '%s'", rbd->spec);
		rd_hint("they are in /etc/ceph/ceph.conf, unless CEPH_CONF or ':conf=FILE' names another file");
		return r;
	}
	/* CEPH_ARGS. Then ours: a cluster that is gone must not hold up all that comes after. */
	lib->rados_conf_parse_env(rbd->cluster, NULL);
	lib->rados_conf_set(rbd->cluster, "client_mount_timeout", rbd->patience);
	lib->rados_conf_set(rbd->cluster, "rados_mon_op_timeout", rbd->patience);
	lib->rados_conf_set(rbd->cluster, "rados_osd_op_timeout", rbd->patience);
	lib->rados_conf_set(rbd->cluster, "rbd_concurrent_management_ops", LISTED);
	/* Nothing is read twice, and what was written is to be there. */
	lib->rados_conf_set(rbd->cluster, "rbd_cache", "false");
	return 0;
}

static int connect_to(struct rd_rbd *rbd)
{
	const struct rd_librbd *lib = rbd->lib;
	int r = configure(rbd);

	if (r)
		return r;
	r = lib->rados_connect(rbd->cluster);
	if (r)
		return refused(rbd, r);
	r = lib->rados_ioctx_create(rbd->cluster, rbd->pool, &rbd->io);
	if (r == -ENOENT)
		return rd_err(0, "the cluster has no pool '%s'", rbd->pool), r;
	if (r)
		return rd_rbd_failed(rbd, r, "find the pool of");
	if (rbd->space)
		lib->rados_ioctx_set_namespace(rbd->io, rbd->space);
	return 0;
}

/* --- the image */

static int make_image(struct rd_rbd *rbd, u64 size)
{
	rbd_image_options_t options;
	int r;

	rbd->lib->rbd_image_options_create(&options);
	r = rbd->lib->rbd_create4(rbd->io, rbd->image, size, options);
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
	int r = rbd->lib->rbd_open(rbd->io, rbd->image, &rbd->disk, NULL);

	if (r == -ENOENT && size) {
		r = make_image(rbd, size);
		if (r)
			return r;
		*ret_new = true;
		r = rbd->lib->rbd_open(rbd->io, rbd->image, &rbd->disk, NULL);
	}
	if (r)
		rbd->disk = NULL;
	if (r == -ENOENT)
		return rd_err(0, "there is no image '%s' in the pool '%s'%s%s", rbd->image,
			      rbd->pool, rbd->space ? ", namespace " : "",
			      rbd->space ? : ""), r;
	if (!r)
		r = rd_rbd_read_size(rbd);
	if (r)
		return rd_rbd_failed(rbd, r, "open");
	if (rbd->store.bytes > RD_VERSION_MAX)
		return rd_err(-EFBIG, "'%s' has %llu bytes", rbd->spec, rbd->store.bytes);
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
	rbd->spec = spec;
	rbd->patience = patience();
	r = parse(rbd);
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
	if (rbd->io)
		rbd->lib->rados_ioctx_destroy(rbd->io);
	if (rbd->cluster)
		rbd->lib->rados_shutdown(rbd->cluster);
	pthread_cond_destroy(&rbd->idle);
	pthread_mutex_destroy(&rbd->lock);
	rd_buffer_free(&rbd->data);
	free(rbd->text);
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
