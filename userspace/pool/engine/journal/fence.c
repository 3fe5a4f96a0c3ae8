// SPDX-License-Identifier: GPL-2.0
/* Own a pool that several hosts can reach, and make its catalog of the journal: see fence.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "pool/catalog/outbox.h"
#include "pool/catalog/sessions.h"
#include "pool/catalog/state.h"
#include "pool/data/rados.h"
#include "fence.h"
#include "journal.h"
#include "journal_life.h"
#include "journal_read.h"
#include "rebuild.h"

#define MACHINE		"/etc/machine-id"
#define MACHINE_LEN	64

/* What POOL/shard has: who this directory is, and of which base its catalog is. */
struct note {
	char token[RD_SHARD_TOKEN + 1];
	u64 base;		/* 0: of none */
};

/* A directory that was copied to another machine is another owner. */
static void read_machine(char ret[MACHINE_LEN + 1])
{
	FILE *file = fopen(MACHINE, "re");

	if (!file || fscanf(file, "%64s", ret) != 1)
		snprintf(ret, MACHINE_LEN + 1, "-");
	if (file)
		fclose(file);
}

static int write_note(const struct rd_pool *pool, const struct note *note)
{
	RD_FREE char *path = rd_path_in(pool->path, "shard");
	RD_FREE char *new = rd_path_in(pool->path, "shard.new");
	char machine[MACHINE_LEN + 1], text[160];
	int len;

	RD_CLOSE int fd = -1;

	if (!path || !new)
		return -ENOMEM;
	read_machine(machine);
	len = snprintf(text, sizeof(text), "%s %llu %s\n", note->token, note->base, machine);
	fd = rd_open_plain(new, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return rd_err(fd, "cannot make '%s'", new);
	if (write(fd, text, len) != len || fsync(fd) || rename(new, path))
		return rd_err(-errno, "cannot write '%s'", path);
	return rd_sync_directory(pool->path);
}

static int make_note(const struct rd_pool *pool, struct note *note)
{
	u8 random[RD_SHARD_TOKEN / 2];
	unsigned int i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return rd_err(-errno, "no random number");
	for (i = 0; i < sizeof(random); i++)
		sprintf(note->token + 2 * i, "%02x", random[i]);
	note->base = 0;
	return write_note(pool, note);
}

/* Without one, it is made if @make. */
static int read_note(const struct rd_pool *pool, struct note *note, bool make)
{
	RD_FREE char *path = rd_path_in(pool->path, "shard");
	char here[MACHINE_LEN + 1], machine[MACHINE_LEN + 1] = "";
	unsigned long long base = 0;
	FILE *file;
	int nr = 0;

	if (!path)
		return -ENOMEM;
	memset(note, 0, sizeof(*note));
	read_machine(here);
	file = fopen(path, "re");
	if (file) {
		nr = fscanf(file, "%32s %llu %64s", note->token, &base, machine);
		fclose(file);
	}
	note->base = base;
	if (nr == 3 && !strcmp(machine, here))
		return 0;
	memset(note, 0, sizeof(*note));
	return make ? make_note(pool, note) : 0;
}

/* Whose it is, and who this host is. */
static int read_owner(const struct rd_pool *pool, bool make, struct note *note,
		      struct rd_shard *shard)
{
	int r = read_note(pool, note, make);

	return r ? r : rd_shard_read(pool->area.store, shard);
}

static bool is_owner(const struct note *note, const struct rd_shard *shard)
{
	return shard->token[0] && !strcmp(note->token, shard->token);
}

/* Is the catalog here the one that the commands of the owner write to? */
static bool is_current(const struct note *note, const struct rd_shard *shard)
{
	return is_owner(note, shard) && note->base == shard->base;
}

/* --- the journal */

static int note_frame(void *ctx, u64 frame)
{
	*(u64 *)ctx = frame;
	return 0;
}

static int seal_frame(struct rd_area *area, u64 epoch, u64 frame)
{
	int r = rd_shard_seal(area->store, epoch, rd_frame_offset(frame));

	/* Nothing can be appended to what is lost. */
	return r == -ENOENT ? 0 : r;
}

/*
 * Seal the frame that the journal goes on in, and then the one where it has gone on meanwhile. A
 * transaction of several parts that has not ended may reach into another frame than the last that
 * has.
 */
static int seal_frames(struct rd_area *area, u64 epoch, struct rd_journal_end *end)
{
	struct rd_journal_reader reader = { .frame = note_frame };
	u64 sealed = U64_MAX, last;
	int r;

	for (;;) {
		last = end->frame;
		reader.ctx = &last;
		r = rd_journal_read(area, end, &reader);
		if (r || last == sealed)
			return r;
		r = rd_failpoint("fence-seal");
		if (!r && end->frame != last)
			r = seal_frame(area, epoch, end->frame);
		if (!r)
			r = seal_frame(area, epoch, last);
		if (r)
			return r;
		sealed = last;
	}
}

/* Let the journal end: step 2 to 4. */
static int seal(struct rd_pool *pool, u64 epoch)
{
	struct rd_area *area = &pool->area;
	struct rd_journal_end end;
	int r;

	r = rd_shard_seal(area->store, epoch, 0);
	if (r == -ENOENT)
		return rd_err(-EUCLEAN, "'%s' has lost its first object", pool->path);
	if (!r)
		r = rd_failpoint("fence-super");
	if (!r)
		r = rd_area_reread_super(area);
	end = (struct rd_journal_end){ .frame = area->super.journal_frame };
	if (!r)
		r = seal_frames(area, epoch, &end);
	if (!r)
		r = rd_failpoint("fence-sealed");
	return r ? r : rd_shard_note_sealed(area->store, epoch);
}

/* Has the catalog all that the journal has, and no more? */
static int is_in_step(struct rd_pool *pool, bool *ret)
{
	const struct rd_journal_reader nothing = { .change = NULL };
	enum rd_life life = RD_LIFE_ONE;
	struct rd_journal_end end;
	struct rd_state state;
	u64 waiting;
	int r;

	r = rd_area_reread_super(&pool->area);
	if (!r)
		r = rd_state_read(pool->sql, &state);
	if (!r)
		r = rd_outbox_count(pool->sql, &waiting);
	end = state.end;
	*ret = !r && !waiting && state.journal == pool->area.super.journal_id &&
		state.generation == end.generation;
	if (!*ret)
		return r;
	r = rd_journal_read(&pool->area, &end, &nothing);
	/* Where the object is lost, there is nothing behind the end either. */
	if (!r)
		r = rd_journal_see_last(&pool->area, &state.end, &life);
	*ret = !r && end.seq == state.end.seq && life == RD_LIFE_ONE;
	return r;
}

/* --- the catalog */

static void close_catalog(struct rd_pool *pool)
{
	rd_sql_close(pool->sql);
	pool->sql = NULL;
}

/* -EUCLEAN: there is none that can be used. */
static int open_catalog(struct rd_pool *pool, bool writable)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	u8 uuid[16];
	int r;

	if (!path)
		return -ENOMEM;
	if (access(path, F_OK))
		return errno == ENOENT ? -EUCLEAN : -errno;
	r = rd_catalog_open(&pool->sql, path, writable);
	if (!r)
		r = rd_state_uuid(pool->sql, uuid);
	if (!r && memcmp(uuid, pool->area.super.uuid, sizeof(uuid)))
		r = -EUCLEAN;
	if (r)
		close_catalog(pool);
	return r == -ENOENT || r == -EBADMSG ? -EUCLEAN : r;
}

/*
 * Before the catalog of this host's commands is made anew: one that runs would go on in the one
 * that was there, and both in the same places.
 */
static int be_alone(struct rd_pool *pool)
{
	int r = rd_lock_take(&pool->lock, pool->lock_fd, RD_LOCK_POOL, 0, true, 0);

	if (r != -EAGAIN)
		return r;
	rd_err(0, "the catalog of '%s' cannot be used, and other commands run that use it",
	       pool->path);
	rd_hint("nothing was changed; when they have ended, the next one makes it from the journal");
	return -EBUSY;
}

static int make_catalog(struct rd_pool *pool)
{
	int r;

	close_catalog(pool);
	rd_info("making the catalog from the journal of '%s'", pool->path);
	r = rd_failpoint("fence-catalog");
	if (!r)
		r = rd_area_reread_super(&pool->area);
	return r ? r : rd_rebuild_cache(pool);
}

/*
 * For a command that only reads, where another host writes: what the journal has now. Another
 * command may do the same.
 */
static int follow(struct rd_pool *pool, const struct note *note, const struct rd_shard *shard)
{
	struct note no_owner = *note;
	bool in_step = false;
	int r = 0;

	r = open_catalog(pool, false);
	if (!r)
		r = is_in_step(pool, &in_step);
	else if (r == -EUCLEAN)
		r = 0;
	if (r || in_step)
		return r;
	/* If this host was the owner, it had a catalog that may have more. */
	no_owner.base = 0;
	r = note->base ? write_note(pool, &no_owner) : 0;
	if (!r)
		r = make_catalog(pool);
	if (r == -EUCLEAN && !is_owner(note, shard))
		rd_remedy(RD_REMEDY_REPAIR_THERE, NULL, "the host '%s' may have the rest",
			  shard->host);
	return r ? r : open_catalog(pool, false);
}

/* --- whose it is */

static int refuse(const struct rd_pool *pool, const struct rd_shard *shard,
		  enum rd_shard_life life)
{
	rd_err(0, "'%s' belongs to the host '%s', %s", pool->path, shard->host,
	       life == RD_SHARD_BUSY ? "where a command is writing to it" :
	       "where a command was writing to it a moment ago, and does not answer");
	rd_remedy(RD_REMEDY_TAKE_OVER, NULL, "nothing was changed; repeat it when that has ended");
	return -EBUSY;
}

static int refuse_busy(struct rd_pool *pool, const struct rd_shard *shard)
{
	enum rd_shard_life life = RD_SHARD_IDLE;
	int r = shard->token[0] ? rd_shard_ask(pool->area.store, &life) : 0;

	return r || life == RD_SHARD_IDLE ? r : refuse(pool, shard, life);
}

/*
 * Where the journal is damaged, the owner's catalog may be all that has the rest, and it would not
 * count any more.
 */
static int refuse_cut(struct rd_pool *pool, const struct rd_shard *shard)
{
	const struct rd_journal_reader nothing = { .change = NULL };
	struct rd_journal_end end;
	bool cut;
	u64 id;
	int r;

	do {
		id = pool->area.super.journal_id;
		end = (struct rd_journal_end){ .frame = pool->area.super.journal_frame };
		r = rd_journal_read(&pool->area, &end, &nothing);
		if (!r)
			r = rd_journal_is_cut(&pool->area, &end, &cut);
		if (!r)
			r = rd_area_reread_super(&pool->area);
	} while (!r && pool->area.super.journal_id != id);
	if (r || !cut)
		return r;
	rd_err(0, "the journal of '%s' is damaged, and the host '%s' may have what it lacks",
	       pool->path, shard->host);
	rd_remedy(RD_REMEDY_REPAIR_THERE, NULL, "nothing was changed");
	return -EUCLEAN;
}

static int may_take(struct rd_pool *pool, const struct rd_shard *shard, enum rd_pool_mode mode)
{
	int r = 0;

	if (mode != RD_POOL_TAKE && mode != RD_POOL_TAKE_CUT)
		r = refuse_busy(pool, shard);
	return r || mode == RD_POOL_TAKE_CUT ? r : refuse_cut(pool, shard);
}

/* Own it, sealed; @shard is as it was read. */
static int own(struct rd_pool *pool, struct note *note, struct rd_shard *shard,
	       enum rd_pool_mode mode)
{
	struct rd_store *store = pool->area.store;
	struct rd_shard before = *shard;
	bool takes = !is_owner(note, shard);
	int r = takes ? may_take(pool, shard, mode) : 0;

	/* Before it owns the shard: whoever finds that it does, sees that it lives. */
	if (!r)
		r = rd_shard_watch(store);
	if (!r && takes) {
		r = rd_shard_take(store, shard, note->token, true);
		if (r == -EAGAIN) {
			rd_err(0, "another host took over '%s' at the same moment", pool->path);
			return -EBUSY;
		}
		if (!r && before.token[0])
			rd_warn("'%s' belonged to the host '%s', and was taken over", pool->path,
				before.host);
	}
	if (!r)
		r = rd_failpoint("fence-taken");
	if (!r && shard->sealed != shard->epoch)
		r = seal(pool, shard->epoch);
	if (!r)
		rd_shard_own(store, shard);
	return r;
}

/* The catalog that all commands of the owner use is made anew only where it is lost. */
static int open_current(struct rd_pool *pool, bool writes, bool *ret_lost)
{
	int r = open_catalog(pool, writes);

	*ret_lost = r == -EUCLEAN;
	if (!*ret_lost)
		return r;
	if (writes)
		return be_alone(pool);
	rd_err(0, "the catalog of '%s' cannot be used", pool->path);
	rd_hint("the next command that writes makes it from the journal");
	return r;
}

/* Who only reads what another host owns must not take it over, nor refuse it to that host. */
static void leave_to_owner(struct rd_pool *pool, enum rd_pool_mode *mode)
{
	pool->is_of_another = true;
	pool->area.writable = false;
	*mode = RD_POOL_READ;
}

static int enter(struct rd_pool *pool, enum rd_pool_mode *ret_mode)
{
	enum rd_pool_mode mode = *ret_mode;
	bool needs = mode != RD_POOL_READ && mode != RD_POOL_HOLD && mode != RD_POOL_UNHOLD;
	struct rd_shard shard;
	bool lost = true, writes;
	struct note note;
	int r;

	r = read_owner(pool, needs, &note, &shard);
	if (!r && !needs && !is_owner(&note, &shard))
		leave_to_owner(pool, &mode);
	*ret_mode = mode;
	writes = mode != RD_POOL_READ;
	if (!r && !writes && !is_current(&note, &shard))
		return follow(pool, &note, &shard);
	if (!r && writes)
		r = own(pool, &note, &shard, mode);
	/* A repair must not take what only a catalog of an earlier owner has. */
	if (r || mode == RD_POOL_REPAIR)
		return r || is_current(&note, &shard) ? r : rd_rebuild_set_aside(pool);
	if (is_current(&note, &shard))
		r = open_current(pool, writes, &lost);
	if (r || !lost)
		return r;
	r = make_catalog(pool);
	if (!r)
		r = rd_failpoint("fence-made");
	if (!r && writes) {
		note.base = shard.base;
		r = write_note(pool, &note);
	}
	if (!r)
		r = open_catalog(pool, writes);
	/* From now on others may use it as well. */
	if (!r && mode < RD_POOL_ALONE)
		r = rd_lock_take(&pool->lock, pool->lock_fd, RD_LOCK_POOL, 0, false, 0);
	return r;
}

int rd_fence_enter(struct rd_pool *pool, enum rd_pool_mode *mode)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	if (*mode == RD_POOL_LOST) {
		rd_err(0, "both superblocks of '%s' are lost", pool->path);
		rd_hint("nothing was changed; bring the first object of its data back");
		return -EUCLEAN;
	}
	/* Of this host's commands one at a time takes over, or makes the catalog. */
	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = enter(pool, mode);
	rd_lock_drop(&lock);
	return r;
}

/* With the same base: what commands of this host that died had sent off does not arrive. */
static int begin_epoch(struct rd_pool *pool, struct rd_shard *shard)
{
	int r = rd_shard_take(pool->area.store, shard, NULL, false);

	if (!r)
		r = seal(pool, shard->epoch);
	if (!r)
		rd_shard_own(pool->area.store, shard);
	return r == -EAGAIN ? rd_err(-ESTALE, "'%s' was taken over meanwhile", pool->path) : r;
}

int rd_fence_rebuilt(struct rd_pool *pool)
{
	struct rd_shard shard;
	struct note note;
	int r;

	r = read_owner(pool, false, &note, &shard);
	if (!r && !is_owner(&note, &shard))
		r = rd_err(-ESTALE, "'%s' was taken over meanwhile", pool->path);
	if (!r)
		r = begin_epoch(pool, &shard);
	/* What is lost of the old one cannot be written to. */
	if (!r)
		r = rd_journal_renew(pool, 0);
	if (r)
		return r;
	note.base = shard.base;
	return write_note(pool, &note);
}

/* The caller's lock of the journal keeps the other commands of this host from appending. */
static int renew(struct rd_pool *pool)
{
	struct rd_shard shard;
	struct note note;
	int r;

	r = read_owner(pool, false, &note, &shard);
	/*
	 * The note may be of a later command of this host, which took the pool back; our catalog is
	 * of the base that we began in.
	 */
	if (!r && (!is_current(&note, &shard) ||
		   !rd_shard_is_ours(pool->area.store, &shard))) {
		rd_err(0, "'%s' was taken over by the host '%s' meanwhile", pool->path, shard.host);
		return -ESTALE;
	}
	return r ? r : begin_epoch(pool, &shard);
}

static bool is_fenced_off(const struct rd_pool *pool, i64 session)
{
	const i64 *one;

	rd_each(one, &pool->fenced_off)
		if (*one == session)
			return true;
	return false;
}

int rd_fence_look(struct rd_pool *pool)
{
	size_t before = pool->fenced_off.len;
	i64 id = 0;
	int r;

	if (!rd_area_can(&pool->area, RD_STORE_FENCED))
		return 0;
	/* All locks of a process go at once, so who had the lock that we have is seen as dead. */
	while (!(r = rd_session_next(pool->sql, pool->session, &id)))
		if (!is_fenced_off(pool, id) &&
		    !rd_lock_is_held(pool->lock_fd, RD_LOCK_SESSION, id))
			rd_buffer_put(&pool->fenced_off, &id, sizeof(id));
	if (r != -ENOENT)
		return r;
	r = pool->fenced_off.failed ? -ENOMEM : 0;
	if (!r && pool->fenced_off.len > before)
		r = renew(pool);
	if (r)
		pool->fenced_off.len = before;
	return r;
}

int rd_fence_renew(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	if (!rd_area_can(&pool->area, RD_STORE_FENCED))
		return 0;
	r = rd_pool_lock(pool, &lock, RD_LOCK_JOURNAL, 0, true, "the journal");
	if (r)
		return r;
	r = rd_fence_look(pool);
	rd_lock_drop(&lock);
	return r;
}
