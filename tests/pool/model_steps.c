// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that succeed: snapshots, deletes, and devices that come and go. See model.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/log.h"
#include "pool/catalog/sql.h"
#include "pool/engine/care/recompress.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/snapshot/snapshot.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/version.h"
#include "model.h"

#define RUN	64		/* blocks: one of 16 is in the index */

/* Users may have deleted what the next version is based on. */
static bool is_base(const struct model_volume *volume, const struct model_version *version)
{
	struct rd_version base;
	i64 id;

	return !rd_volume_find(pool->sql, volume->name, &id) &&
		!rd_version_before(pool->sql, id, INT64_MAX, &base) &&
		base.number == version->number;
}

/* How the last snapshot stored what was new. */
static bool was_compressed;

struct rd_compression any_compression(void)
{
	static const struct rd_compression choices[] = {
		{ .codec = DMR_CODEC_RAW }, { DMR_CODEC_ZSTD, 1 }, { DMR_CODEC_ZSTD, -3 },
		{ DMR_CODEC_ZSTD, 6 },
	};

	return choices[below(4)];
}

/* How much the last snapshot stored of what was new, and what it says about that. */
static struct rd_rule_change rule = { .pieces = 1, .has_dedup = true };
static struct rd_snapshot_report last_report;

void choose_rule(void)
{
	static const u16 pieces[] = { 1, 1, 2, 8, 64, RD_SEG_BLOCKS };

	rule.pieces = pieces[below(6)];
	rule.dedup = below(2) ? RD_DEDUP_INLINE : RD_DEDUP_REVERSE;
}

void choose_inline(void)
{
	rule.pieces = RD_SEG_BLOCKS;
	rule.dedup = RD_DEDUP_INLINE;
}

/* Only what was read in part is stored without a quick sum, or comes from a rebuilt catalog. */
static i64 unknown_sums(void)
{
	i64 nr;

	if (rd_sql_number(pool->sql, &nr, "SELECT count(*) FROM uses WHERE quick IS NULL", ""))
		fail("cannot count quick sums");
	return nr;
}

int take_snapshot(struct model_volume *volume, struct model_version *version)
{
	struct model_version *last = newest(volume);
	struct rd_compression compression = any_compression();
	struct rd_snapshot_options options = {
		.volume = volume->name,
		.from = path_of(volume->name),
		.compression = &compression,
		.rule = rule,
		.verify_hits = !below(4),
	};
	struct rd_snapshot_report report;
	struct rd_changed changed;
	u8 tracker[RD_TRACKER_SIZE];
	bool based = last && is_base(volume, last), had_index = has_index();
	i64 unknown = unknown_sums();
	int r;

	was_compressed = compression.codec;
	write_image(path_of(volume->name), version);
	memset(tracker, version->epoch, sizeof(tracker));
	options.tracker = version->epoch ? tracker : NULL;
	options.epoch = version->epoch;
	if (last && last->size == version->size && below(2)) {
		list_changes(last, version, &changed);
		options.changed = &changed;
	}
	r = rd_snapshot(pool, &options, &report);
	if (r)
		return r;
	version->number = report.version.number;
	last_report = report;
	covered[HIT_REFUSED] += report.lookups.refused;
	covered[READ_PART] += unknown_sums() > unknown;
	covered[INDEX_ANEW] += !had_index && has_index();
	if (options.changed && based && strcmp(report.mode, "changed"))
		fail("a list of changes was not believed: %s", report.reason);
	return 0;
}

void add_version(struct model_volume *volume, struct model_version *version)
{
	volume->versions[volume->nr++] = version;
}

/*
 * The recipes in pieces that the newest version of a volume names, and the sum of their
 * places.
 */
struct in_pieces {
	i64 recipe, frame;
	u64 places;
};

static void find_pieces(const struct model_volume *volume, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *row = NULL;
	struct in_pieces one;
	size_t len;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_sql_ask(pool->sql, &row, "SELECT s.recipe, r.frame, r.map FROM segment AS s"
		       " JOIN uses USING(recipe) JOIN recipe AS r ON r.id = s.recipe"
		       " WHERE pieces > ? AND volume = ? AND NOT EXISTS (SELECT 1 FROM segment AS t"
		       " WHERE t.volume = s.volume AND t.segment = s.segment AND t.born > s.born)",
		       "ii", (i64)rule.pieces, id))
		fail("cannot look for segments in pieces");
	while (rd_row_next(row) > 0) {
		const void *map = rd_row_blob(row, 2, &len);

		one.recipe = rd_row_i64(row, 0);
		one.frame = rd_row_i64(row, 1);
		one.places = XXH3_64bits(map, len);
		rd_buffer_put(ret, &one, sizeof(one));
	}
}

/*
 * A snapshot writes each segment again that the version before has in too many pieces. What it
 * freed may have had it compact a frame afterwards, which leaves pieces elsewhere.
 */
static void check_pieces(const struct model_volume *volume, const struct rd_buffer *before)
{
	const struct in_pieces *old = (const struct in_pieces *)before->data, *now;
	struct rd_buffer after = { 0 };
	size_t i, j;

	find_pieces(volume, &after);
	now = (const struct in_pieces *)after.data;
	for (i = 0; i < after.len / sizeof(*now); i++)
		for (j = 0; j < before->len / sizeof(*old); j++)
			if (!memcmp(&now[i], &old[j], sizeof(*now)))
				fail("the newest version of %s names recipe %lld, which is in pieces as before",
				     volume->name, now[i].recipe);
	rd_buffer_free(&after);
}

/* New segments that are in an ordinary frame. */
static i64 nr_raw_since(i64 recipe)
{
	i64 nr;

	if (rd_sql_number(pool->sql, &nr, "SELECT count(DISTINCT id) FROM recipe JOIN slot_owner"
			  " ON slot_owner.recipe = id AND slot_owner.frame = recipe.frame"
			  " WHERE id > ? AND recipe.frame < ?", "ii", recipe,
			  (i64)RD_PACKED_FRAMES))
		fail("cannot count");
	return nr;
}

static void make_version_by_rule(struct model_volume *volume, struct model_version *version)
{
	i64 pieces = number("SELECT count(*) FROM uses WHERE pieces > 1"), now;
	i64 last = number("SELECT coalesce(max(id), 0) FROM recipe");
	struct rd_buffer before = { 0 };

	if (volume->nr)
		find_pieces(volume, &before);
	note_owners();
	if (take_snapshot(volume, version))
		fail("snapshot of %s failed", volume->name);
	see_takers();
	check_pieces(volume, &before);
	rd_buffer_free(&before);
	see_superseded(volume, version);
	add_version(volume, version);
	if (was_compressed)
		covered[STORED_RAW] += nr_raw_since(last);
	covered[STORED_PART] += last_report.segments_in_part;
	covered[FOUND_ELSEWHERE] += last_report.lookups.found;
	covered[LEFT_TO_PASS] += last_report.blocks_waiting;
	covered[PIECES_AGAIN] += last_report.segments_pieces;
	covered[REF_IN_NEWEST] += number("SELECT count(*) > 0 FROM recipe_ref"
					 " JOIN uses ON source = recipe WHERE latest_refs > 0");
	covered[TWICE_IN_VERSION] += has_twice(version);
	now = number("SELECT count(*) FROM uses WHERE pieces > 1");
	covered[HIT_HOLED] += now < pieces ? pieces - now : 0;
}

static void make_version(struct model_volume *volume, struct model_version *version)
{
	choose_rule();
	make_version_by_rule(volume, version);
}

void do_snapshot(struct model_volume *volume)
{
	make_version(volume, prepare_snapshot(volume));
}

/* Two volumes come to share a segment, and let go of it one after the other. */
void do_share(struct model_volume *a, struct model_volume *b)
{
	struct model_version *version = copy_newest(a);
	const struct model_version *other = newest(b);
	unsigned int seg = any_seg(other);

	memcpy(&version->blocks[seg * RD_SEG_BLOCKS], &other->blocks[seg * RD_SEG_BLOCKS],
	       RD_SEG_BLOCKS);
	version->size = rd_max(version->size, other->size);
	make_version(a, version);
	version = copy_newest(a);
	fill_seg(version, seg);
	make_version(a, version);
	version = copy_newest(b);
	fill_seg(version, seg);
	make_version(b, version);
}

/* Put a run of rare contents anywhere; @first 0: zeros. */
static void put_run(struct model_version *version, unsigned int at, unsigned int first)
{
	unsigned int i;

	version->size = rd_max(version->size, RD_SEG_SIZE);
	for (i = 0; i < RUN; i++)
		version->blocks[at + i] = first ? first + i : 0;
}

void do_return(struct model_volume *a, struct model_volume *b)
{
	unsigned int first = NR_CONTENTS + 1 + below(NR_RARE - RUN + 1);
	unsigned int at = below(RD_SEG_BLOCKS - RUN);
	struct model_version *version = copy_newest(a);

	put_run(version, at, first);
	make_version(a, version);
	version = copy_newest(a);
	put_run(version, at, 0);
	make_version(a, version);
	/* The index does not get to know that. */
	if (!below(2))
		do_delete(a, a->nr - 2);
	version = copy_newest(b);
	put_run(version, below(RD_SEG_BLOCKS - RUN), first);
	choose_inline();
	make_version_by_rule(b, version);
}

void load_version(const struct model_volume *volume, unsigned int nr,
		  struct rd_version *version)
{
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, volume->versions[nr]->number, version))
		fail("%s@%lld is missing", volume->name, volume->versions[nr]->number);
}

int delete_version(struct model_volume *volume, unsigned int nr)
{
	struct rd_lock lock = RD_LOCK_NONE;
	struct rd_version version;
	int r;

	load_version(volume, nr, &version);
	r = rd_pool_lock(pool, &lock, RD_LOCK_VOLUME, version.volume, true, "the volume");
	if (!r)
		r = rd_delete(pool, &version, NULL, NULL);
	rd_lock_drop(&lock);
	return r ? r : rd_free_queue(pool);
}

void forget_version(struct model_volume *volume, unsigned int nr)
{
	/* A cut goes back to when it was there. */
	if (!nr_cuts && !keep_versions)
		free(volume->versions[nr]);
	volume->nr--;
	memmove(&volume->versions[nr], &volume->versions[nr + 1],
		(volume->nr - nr) * sizeof(*volume->versions));
}

static i64 nr_held(void)
{
	return number("SELECT count(*) FROM version WHERE state = 4");
}

static i64 data_blocks(void)
{
	/* Those of recipes, not of packs. */
	return number("SELECT coalesce(sum(n), 0) FROM slot_owner WHERE recipe > 0");
}

/* Devices follow; where one does not, there may be no room for all of the pool twice. */
void do_recompress(void)
{
	struct rd_recompress_report report;
	bool stay = devices_orphans(pool);
	unsigned int i;
	i64 blocks;

	for (i = 0; i < NR_DEVICES; i++)
		stay |= devices->device[i].exists && (!devices->device[i].is_reachable ||
						      devices->device[i].is_down);
	if (stay)
		drop_devices();
	blocks = data_blocks();
	if (rd_recompress(pool, any_compression(), &report))
		fail("the pool cannot be stored in another way");
	if (data_blocks() != blocks)
		fail("recipes had %lld blocks, and have %lld stored in another way", blocks,
		     data_blocks());
	restore_all();
	covered[RECOMPRESSED]++;
}

/* What would be free if these went: of @volume's versions @first and those after. */
static i64 estimate(const struct model_volume *volume, unsigned int first, unsigned int nr)
{
	struct rd_version version;
	i64 ids[MAX_VERSIONS];
	unsigned int i;
	u64 bytes;

	for (i = 0; i < nr; i++) {
		load_version(volume, first + i, &version);
		ids[i] = version.id;
	}
	if (rd_delete_estimate(pool, ids, nr, &bytes))
		fail("no estimate of what %s has", volume->name);
	return bytes / RD_BLOCK_SIZE;
}

/* What the table of versions says of each must be what a deletion of it alone would free. */
static void check_unique(const struct model_volume *volume)
{
	struct rd_unique unique[MAX_VERSIONS] = { { 0 } };
	i64 id;
	unsigned int i;

	if (!volume->nr || rd_volume_find(pool->sql, volume->name, &id))
		return;
	for (i = 0; i < volume->nr; i++)
		unique[i].number = volume->versions[i]->number;
	if (rd_unique_bytes(pool, id, unique, volume->nr))
		fail("nothing says what only a version of %s has", volume->name);
	for (i = 0; i < volume->nr; i++) {
		i64 said = unique[i].bytes / RD_BLOCK_SIZE, alone = estimate(volume, i, 1);

		covered[UNIQUE_SOME] += said > 0;
		covered[UNIQUE_NONE] += !said;
		if (said != alone)
			fail("%s@%lld has %lld blocks alone, and its deletion would free %lld",
			     volume->name, unique[i].number, said, alone);
	}
}

static void check_estimate(i64 said, i64 before, bool had_packs, bool exact)
{
	i64 freed = before - data_blocks();

	/* What blocks of packs take is only estimated. */
	if (had_packs)
		return;
	if (said > freed || (exact && said != freed))
		fail("%lld blocks are free, and %lld would be", freed, said);
}

/* A device that was about to come is late. */
static void check_no_lease(const struct rd_version *version)
{
	i64 id;

	if (rd_lease_add(pool, version, "late", &id) != -ENOENT)
		fail("a device can read a version that was deleted");
}

void do_delete(struct model_volume *volume, unsigned int nr)
{
	i64 said = estimate(volume, nr, 1), before = data_blocks(), held = nr_held();
	bool is_newest = nr == volume->nr - 1, orphans = devices_orphans(pool);
	bool had_packs = number("SELECT count(*) FROM pack");
	struct rd_version version;

	check_unique(volume);
	load_version(volume, nr, &version);
	covered[DELETE_NEWEST] += nr == volume->nr - 1 && volume->nr > 1;
	covered[DELETE_MIDDLE] += nr && nr < volume->nr - 1;
	covered[DELETE_POINTED_AT] += number("SELECT count(*) FROM recipe_ref") && nr;
	if (delete_version(volume, nr))
		fail("delete of %s@%lld failed", volume->name, volume->versions[nr]->number);
	/* What only a device had held that is gone may go as well. */
	check_estimate(said, before, had_packs, !is_newest && !orphans);
	check_no_lease(&version);
	if (nr_held() > held)
		covered[is_newest ? HELD_NEWEST : HELD_OTHER]++;
	forget_version(volume, nr);
}

bool wants_delete(const struct model_volume *volume)
{
	return volume->nr == MAX_VERSIONS || (volume->nr && !below(3));
}

/* One that a device reads, or any. */
static unsigned int any_read(const struct model_volume *volume)
{
	unsigned int nr = below(volume->nr), i, d;
	const struct device *device;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id))
		return nr;
	/* Newer ones first: they are soon not the newest any more. */
	for (i = volume->nr; i--; )
		for (d = 0; d < NR_DEVICES; d++) {
			device = &devices->device[d];
			if (device->exists && device->volume == id &&
			    device->number == volume->versions[i]->number)
				return i;
		}
	return nr;
}

unsigned int any_to_delete(const struct model_volume *volume)
{
	switch (below(6)) {
	case 0:
		return 0;
	case 1:
		return volume->nr - 1;
	case 2:
	case 3:
		return any_read(volume);
	default:
		return below(volume->nr);
	}
}

i64 newest_number(const struct model_volume *volume)
{
	struct rd_version version;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, 0, &version))
		return 0;
	return version.number;
}

/*
 * Close the pool, and fork a process that opens it and is to stop at the step of @wish. 0: this
 * is that process. Else the pool is open again, and *@ret_stopped says whether it has stopped.
 */
static pid_t fork_stopping(const char *wish, bool *ret_stopped)
{
	int status;
	pid_t pid;

	close_pool();
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("cannot fork");
	if (!pid)
		setenv("REVDEDUP_FAIL", wish, 1);
	else if (waitpid(pid, &status, WUNTRACED) != pid)
		fail("cannot wait");
	open_pool();
	if (!pid)
		return 0;
	*ret_stopped = WIFSTOPPED(status);
	if (!*ret_stopped && (!WIFEXITED(status) || WEXITSTATUS(status)))
		fail("a process failed before it was to stop (%s)", wish);
	return pid;
}

static void go_on(pid_t pid)
{
	int status;

	kill(pid, SIGCONT);
	if (waitpid(pid, &status, 0) != pid)
		fail("cannot wait");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("a process failed beside other work");
}

/* Stop in the middle, where nobody need wait for it. */
static pid_t begin_stopped_snapshot(struct model_volume *volume, struct model_version *version,
				    bool *ret_stopped)
{
	static const char *const steps[] = { "snapshot-hit", "snapshot-batch", "write" };
	char wish[64];
	pid_t pid;

	snprintf(wish, sizeof(wish), "%s:%u=stop", steps[below(3)], (unsigned int)(1 + below(4)));
	pid = fork_stopping(wish, ret_stopped);
	if (pid)
		return pid;
	_exit(rd_session_close(pool, take_snapshot(volume, version)) ? 1 : 0);
}

/* A version of @other is deleted, often that of which the snapshot has segments. */
void do_racing_snapshot(struct model_volume *volume)
{
	struct model_volume *other = &volumes[(volume - volumes + 1 + below(NR_VOLUMES - 1)) %
					      NR_VOLUMES];
	struct model_version *version = prepare_snapshot(volume);
	unsigned int nr = other->nr ? any_to_delete(other) : 0;
	bool stopped;
	pid_t pid;

	if (other->nr && below(2))
		*version = *other->versions[nr];
	pid = begin_stopped_snapshot(volume, version, &stopped);
	if (stopped) {
		if (other->nr)
			do_delete(other, nr);
		else
			do_snapshot(other);
		go_on(pid);
	}
	version->number = newest_number(volume);
	see_superseded(volume, version);
	add_version(volume, version);
}

/* --- devices */

void check_devices(void)
{
	if (!devices_are_right(path_of("pool/data"), contents))
		fail("a device reads what it must not");
	covered[LEFT] = devices->nr_left;
	covered[UNREACHABLE] = devices->nr_unreachable;
	covered[KEPT] = devices->nr_kept;
	covered[GONE] = devices->nr_gone;
	covered[PACKED] = devices->nr_packed;
	covered[PACKED_LEFT] = devices->nr_packed_left;
}

int make_device(struct device *device, struct model_volume *volume, unsigned int nr)
{
	struct rd_version version;

	load_version(volume, nr, &version);
	return device_make(device, pool, &version, volume->versions[nr]->blocks);
}

struct device *any_device(void)
{
	return &devices->device[below(NR_DEVICES)];
}

/* Device-mapper knows no better whether its devices can be reached. */
void shake_devices(void)
{
	unsigned int i;

	for (i = 0; i < NR_DEVICES; i++)
		devices->device[i].is_reachable = below(4);
	for (i = 0; i < NR_DEVICES; i++)
		devices->device[i].is_down = !below(6);
	if (!below(24))
		device_vanish(any_device());
}

/* Nor is anything moved that could not be freed then. */
void check_stuck(void)
{
	i64 queued = number("SELECT count(*) FROM queue"), before;
	bool stuck = false;
	unsigned int i;

	for (i = 0; i < NR_DEVICES; i++)
		stuck |= devices->device[i].exists && !devices->device[i].is_reachable;
	if (!stuck || !queued || devices_orphans(pool))
		return;
	before = number("SELECT generation FROM state");
	if (rd_free_queue(pool))
		fail("a device out of reach is an error");
	if (number("SELECT generation FROM state") != before ||
	    number("SELECT count(*) FROM queue") != queued)
		fail("a device cannot be reached, and something is freed or moved");
	covered[STUCK]++;
}

/* What waits for devices that are down is no more than the frames that they name. */
void check_kept(void)
{
	struct rd_queued queued;
	unsigned int i, nr = 1;
	u64 from = 0;

	for (i = 0; i < NR_DEVICES; i++)
		if (devices->device[i].exists && !devices->device[i].is_reachable)
			return;
	/* The first may begin a new journal, and give the old one to the second. */
	if (rd_free_queue(pool) || rd_free_queue(pool))
		fail("a device that is down is an error");
	while (nr) {
		if (rd_frames_read_queue(pool->sql, from, &queued, 1, &nr))
			fail("cannot read the queue");
		if (nr && !devices_down_name(queued.frame))
			fail("frame %llu waits, and no device that is down names it",
			     queued.frame);
		from = queued.frame + 1;
	}
}

/* The version goes while the device has its lease and not its table yet. */
static void do_racing_device(struct device *device, struct model_volume *volume)
{
	unsigned int nr = any_to_delete(volume);
	bool stopped;
	pid_t pid;

	pid = fork_stopping("lease-add=stop", &stopped);
	if (!pid)
		_exit(rd_session_close(pool, make_device(device, volume, nr)) ? 1 : 0);
	if (!stopped)
		fail("a device came without a lease");
	do_delete(volume, nr);
	go_on(pid);
	covered[RACING_DEVICE]++;
}

void do_device(struct device *device, struct model_volume *volume)
{
	int r = 0;

	if (!device->exists && volume->nr && !below(4)) {
		do_racing_device(device, volume);
		return;
	}
	if (device->exists)
		r = device_drop(device, pool, below(2));
	else if (volume->nr)
		r = make_device(device, volume, below(2) ? volume->nr - 1 : below(volume->nr));
	if (r)
		fail("a device could not come or go");
}

/* The frames of a journal that another one follows go with the next command. */
static void free_old_journal(void)
{
	if (rd_journal_renew(pool, 0))
		fail("cannot begin a new journal");
	if (!number("SELECT count(*) FROM queue"))
		fail("the frames of the old journal are not queued");
	if (rd_free_queue(pool) || number("SELECT count(*) FROM queue"))
		fail("the frames of the old journal are not given back");
	check_pool();
}

/* All of them, and what has been held for any. */
void drop_devices(void)
{
	struct rd_buffer leases = { 0 };
	const struct rd_lease *list;
	unsigned int i;
	size_t nr;

	for (i = 0; i < NR_DEVICES; i++)
		device_vanish(&devices->device[i]);
	if (rd_lease_list(pool->sql, NULL, &leases))
		fail("cannot list leases");
	list = (const struct rd_lease *)leases.data;
	for (nr = leases.len / sizeof(*list); nr--; list++)
		if (rd_lease_drop(pool, list->id))
			fail("cannot drop the lease of %s", list->device);
	rd_buffer_free(&leases);
	/* The flush that ends it may begin a new journal: the old one waits for the next. */
	if (rd_free_queue(pool) || rd_free_queue(pool))
		fail("cannot free");
	check_pool();
	if (nr_held() || number("SELECT count(*) FROM queue"))
		fail("there are no devices, and something is kept for one");
	free_old_journal();
}

void check_some(void)
{
	struct model_volume *volume = any_volume();

	check_pool();
	check_devices();
	if (volume->nr)
		check_restore(volume, volume->versions[below(volume->nr)]);
}

/* All but the newest, in whatever order. */
static void delete_old(struct model_volume *volume)
{
	i64 said = estimate(volume, 0, volume->nr - 1), before = data_blocks();
	bool had_packs = number("SELECT count(*) FROM pack");

	while (volume->nr > 1)
		do_delete(volume, below(volume->nr - 1));
	check_estimate(said, before, had_packs, true);
}

void delete_all(void)
{
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++) {
		if (volumes[v].nr > 1 && below(2))
			delete_old(&volumes[v]);
		while (volumes[v].nr)
			do_delete(&volumes[v], below(volumes[v].nr));
	}
	check_pool();
	if (number("SELECT count(*) FROM recipe") || number("SELECT count(*) FROM slot_owner"))
		fail("something is left when all is deleted");
}
