// SPDX-License-Identifier: GPL-2.0
/* The callbacks of nbdkit; see nbd.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/become.h"
#include "base/log.h"
#include "nbd.h"

#define THREAD_MODEL	NBDKIT_THREAD_MODEL_PARALLEL

/* nbdkit keeps a buffer of the largest request in each of its threads. */
#define LARGEST_READ	(1U << 20)

static struct nbd_server server;

/* --- configuration */

static int add_name(const char *name)
{
	char **names = reallocarray(server.names, server.nr_names + 1, sizeof(*names));

	if (!names)
		return -1;
	server.names = names;
	names[server.nr_names] = strdup(name);
	return names[server.nr_names++] ? 0 : -1;
}

static int config(const char *key, const char *value)
{
	if (!strcmp(key, "pool")) {
		free(server.path);
		server.path = nbdkit_realpath(value);
		return server.path ? 0 : -1;
	}
	if (!strcmp(key, "version"))
		return add_name(value);
	if (!strcmp(key, "user")) {
		server.user = value;
		return 0;
	}
	if (!strcmp(key, "clients"))
		return nbdkit_parse_unsigned(key, value, &server.nr_clients);
	nbdkit_error("unknown parameter '%s'", key);
	return -1;
}

static int config_complete(void)
{
	const char *path = getenv("REVDEDUP_POOL");

	if (!server.path && path && path[0])
		server.path = nbdkit_realpath(path);
	if (server.path)
		return 0;
	nbdkit_error("no pool given: name one with pool=DIR, or set REVDEDUP_POOL");
	return -1;
}

/*
 * nbdkit before 1.34 loses count of a connection whose client goes away while several threads
 * answer it: it is aborted, or sends an answer to whichever client has got the number of the
 * socket since. With one request of a connection at a time there is one thread; where there is
 * one client, no other is harmed. A later nbdkit is known by a function that it has.
 */
static int thread_model(void)
{
	if (server.nr_clients == 1 || dlsym(RTLD_DEFAULT, "nbdkit_disconnect"))
		return NBDKIT_THREAD_MODEL_PARALLEL;
	return NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS;
}

/* nbdkit may fork after this, and what SQLite has open must not be open in two processes. */
static int get_ready(void)
{
	nbd_print_messages(server.path);
	return nbd_check(server.path) ? -1 : 0;
}

static int after_fork(void)
{
	uid_t uid;
	gid_t gid;

	if (nbd_start(&server))
		return -1;
	if (server.user && (rd_find_user(server.user, &uid, &gid) || rd_become(uid, gid, 0)))
		return -1;
	return 0;
}

static void cleanup(void)
{
	nbd_stop(&server);
}

static void unload(void)
{
	while (server.nr_names)
		free(server.names[--server.nr_names]);
	free(server.names);
	free(server.path);
}

/* --- exports */

static int list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct nbd_listed *listed;
	int r = nbd_list(&server, &all);

	(void)readonly;
	(void)is_tls;
	rd_each(listed, &all)
		r = r ? r : nbdkit_add_export(exports, listed->name, listed->about);
	return r ? -1 : 0;
}

static const char *default_export(int readonly, int is_tls)
{
	char name[NBD_NAME_MAX];

	(void)readonly;
	(void)is_tls;
	return nbd_default_name(&server, name) ? NULL : nbdkit_strdup_intern(name);
}

static void *open_export(int readonly)
{
	const char *name = nbdkit_export_name();
	struct nbd_export *export;

	(void)readonly;
	if (!name || !name[0]) {
		nbdkit_error("name an export: there is more than one volume");
		return NULL;
	}
	export = nbd_get(&server, name);
	if (!export)
		nbdkit_set_error(ENOENT);
	return export;
}

static void close_export(void *handle)
{
	nbd_put(&server, handle);
}

static const char *describe(void *handle)
{
	return ((struct nbd_export *)handle)->name;
}

/* --- one of them */

static int64_t get_size(void *handle)
{
	return ((struct nbd_export *)handle)->disk.version.size;
}

static int yes(void *handle)
{
	(void)handle;
	return 1;
}

static int no(void *handle)
{
	(void)handle;
	return 0;
}

static int block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)handle;
	*minimum = 1;
	*preferred = RD_BLOCK_SIZE;
	*maximum = LARGEST_READ;
	return 0;
}

static int fail(int r)
{
	nbdkit_set_error(r == -ENOMEM ? ENOMEM : EIO);
	return -1;
}

static int pread_export(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct nbd_export *export = handle;
	int r = nbd_use(&server, export);

	(void)flags;
	if (!r)
		r = rd_random_read(server.random, &export->disk, buf, count, offset);
	return r ? fail(r) : 0;
}

struct taking {
	struct nbdkit_extents *extents;
	bool only_one;
};

static int take(void *ctx, u64 offset, u64 len, bool is_zero)
{
	struct taking *taking = ctx;

	if (nbdkit_add_extent(taking->extents, offset, len,
			      is_zero ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0))
		return -EIO;
	return taking->only_one;
}

static int extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
		   struct nbdkit_extents *extents)
{
	struct taking taking = { extents, flags & NBDKIT_FLAG_REQ_ONE };
	struct nbd_export *export = handle;
	int r = nbd_use(&server, export);

	if (!r)
		r = rd_random_extents(server.random, &export->disk, count, offset, take, &taking);
	return r ? fail(r) : 0;
}

static struct nbdkit_plugin plugin = {
	.name = "revdedup",
	.longname = "versions of a revdedup pool",
	.version = RD_VERSION,
	.config = config,
	.config_complete = config_complete,
	.config_help = "pool=<DIR>       (required) the pool, or REVDEDUP_POOL\n"
		"version=<VOL@N>  only this version, and hold it; may be repeated\n"
		"user=<NAME>      become this user when all that is needed is open\n"
		"clients=1        one connects, and it matters to no other if that ends the server",
	.magic_config_key = "pool",
	.thread_model = thread_model,
	.get_ready = get_ready,
	.after_fork = after_fork,
	.cleanup = cleanup,
	.unload = unload,
	.list_exports = list_exports,
	.default_export = default_export,
	.export_description = describe,
	.open = open_export,
	.close = close_export,
	.get_size = get_size,
	.can_write = no,
	.can_multi_conn = yes,
	.can_extents = yes,
	.is_rotational = no,
	.block_size = block_size,
	.pread = pread_export,
	.extents = extents,
};

NBDKIT_REGISTER_PLUGIN(plugin)
