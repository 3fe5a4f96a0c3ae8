// SPDX-License-Identifier: GPL-2.0
/* The thread that has versions held, and ends that; see nbd.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
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
	r = nbd_holder_add(&server->holder, export->disk.version.id, &hold);
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
		nbd_holder_drop(&server->holder, export->hold);
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

int nbd_start_holding(struct nbd_server *server)
{
	int r;

	if (access(server->path, W_OK))
		return 0;
	r = nbd_holder_start(&server->holder, server->path);
	/* A pool that is full can still be read. */
	if (r == -ENOSPC || r == -EROFS) {
		rd_warn("the pool is only read: a version that is deleted meanwhile becomes unreadable");
		return 0;
	}
	if (r)
		return r;
	r = -pthread_create(&server->thread, NULL, hold_all, server);
	if (r)
		nbd_holder_stop(&server->holder);
	return r;
}

void nbd_stop_holding(struct nbd_server *server)
{
	if (!server->holder.pid)
		return;
	pthread_mutex_lock(&server->lock);
	server->stop = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	pthread_join(server->thread, NULL);
	nbd_holder_stop(&server->holder);
}

/* --- for others */

void nbd_hold(struct nbd_server *server, struct nbd_export *export)
{
	struct timespec end;

	if (!server->holder.pid || export->hold)
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
	if (!server->holder.pid) {
		free(export);
		return;
	}
	export->next = server->ended;
	server->ended = export;
	pthread_cond_broadcast(&server->changed);
}
