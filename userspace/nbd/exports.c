// SPDX-License-Identifier: GPL-2.0
/* The versions that are exported: by which names, who has them, what holds them. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "pool/engine/version/session.h"
#include "nbd.h"

/* --- the pool */

int nbd_check(const char *path)
{
	struct rd_pool *pool;
	int r = rd_session_open(&pool, path, RD_POOL_READ, "export", 0, NULL);

	if (r)
		return r;
	return rd_session_close(pool, 0);
}

static int hold_named(struct nbd_server *server)
{
	struct nbd_export *export;
	unsigned int i;

	for (i = 0; i < server->nr_names; i++) {
		export = nbd_get(server, server->names[i]);
		if (!export)
			return -ENOENT;
		pthread_mutex_lock(&server->lock);
		nbd_hold(server, export);
		/* Who starts it relies on that, and no client waits yet. */
		while (export->wants_hold)
			pthread_cond_wait(&server->changed, &server->lock);
		pthread_mutex_unlock(&server->lock);
	}
	return 0;
}

int nbd_start(struct nbd_server *server)
{
	pthread_condattr_t attr;
	int r;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&server->changed, &attr);
	pthread_mutex_init(&server->lock, NULL);
	/* First, since it finishes what commands that died have left. */
	r = nbd_start_holding(server);
	if (!r)
		r = rd_session_open(&server->pool, server->path, RD_POOL_READ, "export", 0, NULL);
	if (!r)
		r = rd_random_new(&server->random, server->pool);
	return r ? r : hold_named(server);
}

void nbd_stop(struct nbd_server *server)
{
	while (server->exports) {
		server->exports->refs = 1;
		nbd_put(server, server->exports);
	}
	nbd_stop_holding(server);
	rd_random_free(server->random);
	if (server->pool)
		rd_session_close(server->pool, 0);
	server->pool = NULL;
}

/* --- names */

struct find {
	const char *name;
	struct rd_version version;
	char volume[NBD_NAME_MAX];
};

/* "3", "latest" or a tag */
static int find_number(struct rd_sql *sql, i64 volume, const char *which, i64 *ret)
{
	char *end;

	if (!which || !strcmp(which, "latest"))
		return rd_version_by_age(sql, volume, 0, ret);
	*ret = strtoll(which, &end, 10);
	if (which[0] >= '1' && which[0] <= '9' && !*end)
		return 0;
	return rd_version_by_tag(sql, volume, which, ret);
}

static int find(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct find *find = ctx;
	char *which;
	i64 volume, number;
	int r;

	(void)resolver;
	snprintf(find->volume, sizeof(find->volume), "%s", find->name);
	which = strrchr(find->volume, '@');
	if (which)
		*which++ = '\0';
	r = rd_volume_find(pool->sql, find->volume, &volume);
	if (!r)
		r = find_number(pool->sql, volume, which, &number);
	if (!r)
		r = rd_version_load(pool->sql, volume, number, &find->version);
	return r;
}

static bool is_named(const struct nbd_server *server, const char *name)
{
	unsigned int i;

	for (i = 0; i < server->nr_names; i++)
		if (!strcmp(server->names[i], name))
			return true;
	return !server->nr_names;
}

/* --- those in use */

static struct nbd_export *new_export(const struct find *found)
{
	struct nbd_export *export = calloc(1, sizeof(*export));

	if (!export)
		return NULL;
	export->disk.version = found->version;
	export->disk.name = export->name;
	snprintf(export->name, sizeof(export->name), "%.*s@%lld", NBD_NAME_MAX - 24, found->volume,
		 found->version.number);
	return export;
}

/* A version that was deleted, and is held, has its name still. */
static struct nbd_export *get_by_name(struct nbd_server *server, const char *name)
{
	struct nbd_export *export;

	pthread_mutex_lock(&server->lock);
	for (export = server->exports; export; export = export->next)
		if (!strcmp(export->name, name))
			break;
	if (export)
		export->refs++;
	pthread_mutex_unlock(&server->lock);
	return export;
}

static struct nbd_export *get_found(struct nbd_server *server, const struct find *found)
{
	struct nbd_export *export;

	pthread_mutex_lock(&server->lock);
	for (export = server->exports; export; export = export->next)
		if (export->disk.version.id == found->version.id)
			break;
	if (!export) {
		export = new_export(found);
		if (export) {
			export->next = server->exports;
			server->exports = export;
		}
	}
	if (export)
		export->refs++;
	pthread_mutex_unlock(&server->lock);
	return export;
}

struct nbd_export *nbd_get(struct nbd_server *server, const char *name)
{
	struct nbd_export *export = get_by_name(server, name);
	struct find found = { .name = name };
	int r;

	if (export)
		return export;
	r = is_named(server, name) ? rd_random_ask(server->random, find, &found) : -ENOENT;
	if (!r)
		return get_found(server, &found);
	if (r == -ENOENT)
		rd_err(0, "there is no export '%s'", name);
	return NULL;
}

/* One thread does it, and others wait for that. */
static void use_first(struct nbd_server *server, struct nbd_export *export)
{
	int r;

	export->use = NBD_PROVING;
	nbd_hold(server, export);
	pthread_mutex_unlock(&server->lock);
	r = rd_random_prove(server->random, &export->disk);
	pthread_mutex_lock(&server->lock);
	export->use = !r ? NBD_PROVEN : r == -EUCLEAN ? NBD_WRONG : NBD_UNUSED;
	pthread_cond_broadcast(&server->changed);
}

int nbd_use(struct nbd_server *server, struct nbd_export *export)
{
	int r;

	if (__atomic_load_n(&export->use, __ATOMIC_ACQUIRE) == NBD_PROVEN)
		return 0;
	pthread_mutex_lock(&server->lock);
	while (export->use == NBD_PROVING)
		pthread_cond_wait(&server->changed, &server->lock);
	if (export->use == NBD_UNUSED)
		use_first(server, export);
	r = export->use == NBD_PROVEN ? 0 : -EIO;
	pthread_mutex_unlock(&server->lock);
	return r;
}

void nbd_put(struct nbd_server *server, struct nbd_export *export)
{
	struct nbd_export **at;

	pthread_mutex_lock(&server->lock);
	if (!--export->refs) {
		for (at = &server->exports; *at != export; at = &(*at)->next)
			;
		*at = export->next;
		nbd_end_hold(server, export);
	}
	pthread_mutex_unlock(&server->lock);
}

/* --- all of them */

static int add_listed(struct rd_buffer *ret, const char *volume, const char *which,
		      const struct rd_version *version)
{
	struct nbd_listed listed;
	char when[32] = "";
	time_t time = version->time;
	struct tm tm;

	if (localtime_r(&time, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(listed.name, sizeof(listed.name), "%.*s@%s", NBD_NAME_MAX - 24, volume, which);
	snprintf(listed.about, sizeof(listed.about), "version %lld of %s", version->number, when);
	return rd_buffer_put(ret, &listed, sizeof(listed));
}

static int list_all(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	RD_ROW struct rd_row *rows = NULL;
	char volume[NBD_NAME_MAX] = "", number[24];
	struct rd_version version, newest;
	struct rd_buffer *ret = ctx;
	const char *name;
	int r;

	(void)resolver;
	ret->len = 0;
	r = rd_versions_kept(pool->sql, &rows);
	while (!r && (r = rd_next_kept(rows, &version, &name)) > 0) {
		r = 0;
		if (!rd_version_exists(&version))
			continue;
		if (volume[0] && strcmp(volume, name))
			r = add_listed(ret, volume, "latest", &newest);
		snprintf(volume, sizeof(volume), "%s", name);
		newest = version;
		snprintf(number, sizeof(number), "%lld", version.number);
		if (!r)
			r = add_listed(ret, volume, number, &version);
	}
	if (!r && volume[0])
		r = add_listed(ret, volume, "latest", &newest);
	return r;
}

int nbd_list(struct nbd_server *server, struct rd_buffer *ret)
{
	struct nbd_listed listed = { .about = "" };
	unsigned int i;

	if (!server->nr_names)
		return rd_random_ask(server->random, list_all, ret);
	for (i = 0; i < server->nr_names; i++) {
		snprintf(listed.name, sizeof(listed.name), "%s", server->names[i]);
		rd_buffer_put(ret, &listed, sizeof(listed));
	}
	return ret->failed ? -ENOMEM : 0;
}

/* Two volumes: none of them is the default. */
static int only_volume(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_volume_stats stats;
	unsigned int nr = 0;
	char *ret = ctx;
	int r;

	(void)resolver;
	r = rd_volume_stats(pool->sql, &rows);
	while (!r && (r = rd_next_volume_stats(rows, &stats)) > 0) {
		r = nr++ ? -ENOENT : 0;
		snprintf(ret, NBD_NAME_MAX, "%s@latest", stats.name);
	}
	return r || nr ? r : -ENOENT;
}

int nbd_default_name(struct nbd_server *server, char ret[NBD_NAME_MAX])
{
	if (!server->nr_names)
		return rd_random_ask(server->random, only_volume, ret);
	snprintf(ret, NBD_NAME_MAX, "%s", server->names[0]);
	return 0;
}
