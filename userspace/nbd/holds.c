// SPDX-License-Identifier: GPL-2.0
/* The thread that holds versions, and ends that; see nbd.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/engine/hold.h"
#include "nbd.h"

#define WAIT_S	1

/* --- the thread */

/* Only this thread frees an export, so the one that it works on stays without the lock. */
static struct nbd_export *find_wanting(const struct nbd_server *server)
{
	struct nbd_export *export;

	for (export = server->exports; export; export = export->next)
		if (export->wants_hold)
			break;
	return export;
}

static void add_hold(struct nbd_server *server, struct nbd_export *export)
{
	i64 hold = 0;
	int r;

	pthread_mutex_unlock(&server->lock);
	r = rd_hold_add(server->holder, &export->disk.version, &hold);
	/* A version that is gone is an error when it is read. */
	if (r && r != -ENOENT)
		rd_warn("%s is not held: it becomes unreadable if it is deleted", export->name);
	pthread_mutex_lock(&server->lock);
	export->hold = r ? 0 : hold;
	export->wants_hold = false;
	pthread_cond_broadcast(&server->changed);
}

static void end_one(struct nbd_server *server)
{
	struct nbd_export *export = server->ended;

	server->ended = export->next;
	pthread_mutex_unlock(&server->lock);
	if (export->hold)
		rd_hold_drop(server->holder, export->hold);
	free(export);
	pthread_mutex_lock(&server->lock);
}

static void *hold_all(void *ctx)
{
	struct nbd_server *server = ctx;
	struct nbd_export *export;

	pthread_mutex_lock(&server->lock);
	while ((export = find_wanting(server)) || server->ended || !server->stop) {
		if (export)
			add_hold(server, export);
		else if (server->ended)
			end_one(server);
		else
			pthread_cond_wait(&server->changed, &server->lock);
	}
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

/* --- starting and ending it */

/* The same pool and session, with a catalog for this thread. */
static int open_holder(struct nbd_server *server)
{
	RD_FREE char *path = rd_path_in(server->path, "catalog.db");
	struct rd_pool *holder = malloc(sizeof(*holder));
	int r = path && holder ? 0 : -ENOMEM;

	if (!r) {
		*holder = *server->pool;
		r = rd_catalog_open(&holder->sql, path, true);
	}
	if (r)
		free(holder);
	else
		server->holder = holder;
	return r;
}

static void close_holder(struct nbd_server *server)
{
	rd_sql_close(server->holder->sql);
	free(server->holder);
	server->holder = NULL;
}

int nbd_start_holding(struct nbd_server *server)
{
	int r;

	if (!server->pool->session)
		return 0;
	r = open_holder(server);
	if (r)
		return r;
	r = -pthread_create(&server->thread, NULL, hold_all, server);
	if (r)
		close_holder(server);
	return r;
}

void nbd_stop_holding(struct nbd_server *server)
{
	if (!server->holder)
		return;
	pthread_mutex_lock(&server->lock);
	server->stop = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	pthread_join(server->thread, NULL);
	close_holder(server);
}

/* --- for others */

void nbd_hold(struct nbd_server *server, struct nbd_export *export)
{
	struct timespec end;

	if (!server->holder || export->hold)
		return;
	export->wants_hold = true;
	pthread_cond_broadcast(&server->changed);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	while (export->wants_hold &&
	       !pthread_cond_timedwait(&server->changed, &server->lock, &end))
		;
}

void nbd_end_hold(struct nbd_server *server, struct nbd_export *export)
{
	if (!server->holder) {
		free(export);
		return;
	}
	export->next = server->ended;
	server->ended = export;
	pthread_cond_broadcast(&server->changed);
}
