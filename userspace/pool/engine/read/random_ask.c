// SPDX-License-Identifier: GPL-2.0
/*
 * The catalog of a reader.
 *
 * A user who may only read the pool's directory cannot be seen by processes that write. SQLite
 * then reads the catalog as a file that never changes (see sql.c), which is true of a command
 * that ends soon, and not of a server. So such a reader opens the catalog for each look-up,
 * and believes the answer only if the catalog is the same file as before, and there was no
 * log either time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sort.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/segments.h"
#include "proof.h"
#include "random_parts.h"

/* A catalog that changes each time that it is read is not read without a log for long. */
#define MAX_TRIES	50
#define PAUSE_US	10000

int rd_random_open_catalog(struct rd_random *random)
{
	struct rd_pool *pool = random->pool;

	if (access(pool->path, W_OK)) {
		random->path = rd_path_in(pool->path, "catalog.db");
		if (!random->path)
			return -ENOMEM;
		rd_sql_close(pool->sql);
		pool->sql = NULL;
		return 0;
	}
	random->resolver = rd_resolver_new(pool->sql);
	return random->resolver ? 0 : -ENOMEM;
}

void rd_random_close_catalog(struct rd_random *random)
{
	rd_resolver_free(random->resolver);
	free(random->path);
}

static int ask_once(struct rd_random *random, rd_ask_fn *ask, void *ctx)
{
	struct rd_pool *pool = random->pool;
	int r = rd_sql_begin_read(pool->sql);

	if (r)
		return r;
	rd_resolver_forget(random->resolver);
	r = ask(pool, random->resolver, ctx);
	rd_sql_end_read(pool->sql);
	return r;
}

/* --- a catalog whose writers do not see this process */

/* Note what the catalog is. False: it has a log, by which SQLite sees writers itself. */
static bool note_file(const struct rd_random *random, struct stat *ret)
{
	if (rd_is_in(random->pool->path, "catalog.db-wal"))
		return false;
	memset(ret, 0, sizeof(*ret));
	return !stat(random->path, ret);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* -EAGAIN: the catalog may have changed meanwhile. */
static int ask_anew(struct rd_random *random, rd_ask_fn *ask, void *ctx)
{
	struct stat before, after;
	bool alone = note_file(random, &before);
	int r;

	r = rd_catalog_open(&random->pool->sql, random->path, false);
	if (!r) {
		random->resolver = rd_resolver_new(random->pool->sql);
		r = random->resolver ? ask_once(random, ask, ctx) : -ENOMEM;
	}
	rd_resolver_free(random->resolver);
	random->resolver = NULL;
	rd_sql_close(random->pool->sql);
	random->pool->sql = NULL;
	if (alone && (!note_file(random, &after) || !is_same(&before, &after)))
		return -EAGAIN;
	return r;
}

/* --- */

int rd_random_ask(struct rd_random *random, rd_ask_fn *ask, void *ctx)
{
	unsigned int tries;
	int r = -EAGAIN;

	pthread_mutex_lock(&random->catalog);
	for (tries = 0; tries < MAX_TRIES && r == -EAGAIN; tries++) {
		if (tries)
			usleep(PAUSE_US);
		r = random->path ? ask_anew(random, ask, ctx) : ask_once(random, ask, ctx);
	}
	pthread_mutex_unlock(&random->catalog);
	return r == -EAGAIN ? rd_err(-EIO, "the catalog changes each time that it is read") : r;
}

int rd_random_is_there(struct rd_pool *pool, const struct rd_disk *disk)
{
	struct rd_version now;
	int r = rd_version_by_id(pool->sql, disk->version.id, &now);

	return !r && !rd_version_exists(&now) && now.state != RD_VERSION_HELD ? -ENOENT : r;
}

/* --- segments */

/* Find the packs now: later they may be elsewhere, or their numbers be those of others. */
static int find_packs(struct rd_sql *sql, struct looked_up *found)
{
	unsigned int i, nr = 0;
	u64 last = 0;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = found->map.at[i];

		if (!rd_random_is_packed(place) || rd_place_id(place) == last)
			continue;
		last = rd_place_id(place);
		found->packs[nr++].frame = last;
	}
	rd_sort(found->packs, nr, frame);
	for (i = 0, last = 0; i < nr; i++) {
		u64 frame = found->packs[i].frame;

		if (frame == last)
			continue;
		last = frame;
		r = rd_pack_find(sql, frame, &found->packs[found->nr_packs]);
		if (!r)
			found->nr_packs++;
		else if (r != -ENOENT && r != -EUCLEAN)
			return r;
	}
	return 0;
}

struct look_up {
	const struct rd_disk *disk;
	u64 segment;
	struct looked_up *found;
};

static int look_up(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct look_up *look = ctx;
	const struct rd_version *version = &look->disk->version;
	struct looked_up *found = look->found;
	int r = rd_random_is_there(pool, look->disk);

	found->nr_packs = 0;
	if (r)
		return r;
	r = rd_segments_read(pool->sql, version->volume, version->number, look->segment, 1,
			     &found->recipe);
	if (r || !found->recipe)
		return r;
	r = rd_resolve(resolver, found->recipe, &found->map, &found->fp);
	/* The version is there, so its recipe must be. */
	if (r == -ENOENT)
		return -EUCLEAN;
	return r ? r : find_packs(pool->sql, found);
}

int rd_random_look_up(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		      struct looked_up *ret)
{
	struct look_up look = { .disk = disk, .segment = segment, .found = ret };

	return rd_random_ask(random, look_up, &look);
}

/* --- proof */

struct prove {
	const struct rd_disk *disk;
	struct rd_proof before, after;
};

static int prove_part(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct prove *prove = ctx;
	int r = rd_random_is_there(pool, prove->disk);

	(void)resolver;
	prove->after = prove->before;
	return r ? r : rd_proof_add(pool->sql, &prove->after);
}

static int disprove(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	(void)resolver;
	return rd_version_disproved(pool, &((struct prove *)ctx)->disk->version);
}

int rd_random_prove(struct rd_random *random, const struct rd_disk *disk)
{
	struct prove prove = {
		.disk = disk,
		.before = { .version = &disk->version, .hasher = rd_hasher_new() },
	};
	int r = prove.before.hasher ? 1 : -ENOMEM;

	while (r > 0) {
		r = rd_random_ask(random, prove_part, &prove);
		prove.before = prove.after;
	}
	rd_hasher_free(prove.before.hasher);
	if (r == -ENOENT)
		return rd_random_tell_gone(random, disk);
	if (r || rd_proof_holds(&prove.after))
		return r;
	return rd_random_is_new(random, disk->version.id, RANDOM_DISPROVED) ?
		rd_random_ask(random, disprove, &prove) : -EUCLEAN;
}
