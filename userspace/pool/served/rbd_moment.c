// SPDX-License-Identifier: GPL-2.0
/* The content of a disk on RBD at one moment: see rbd_moment.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/inject.h"
#include "base/log.h"
#include "rbd_disk.h"
#include "rbd_moment.h"
#include "tracker.h"

/* Names of snapshots of RBD. */
#define KIND		"RBD snapshot"
/* Of the disk, for one question, between which a user may stop. */
#define WINDOW		(16ULL << 30)
#define NAME_MAX_LEN	512

/* --- which snapshot it is */

/* What no other snapshot of RBD has been or will be. */
static int identify(struct rd_rbd *rbd, u64 snapshot, char ret[NAME_MAX_LEN])
{
	char cluster[64] = "", image[256] = "";
	int r;

	r = rbd->ceph.lib->cluster_fsid(rbd->ceph.cluster, cluster, sizeof(cluster));
	if (r >= 0)
		r = rbd->lib->rbd_get_block_name_prefix(rbd->disk, image, sizeof(image));
	if (r < 0)
		return rd_rbd_failed(rbd, r, "identify");
	snprintf(ret, NAME_MAX_LEN, "%s/%lld/%s@%llu", cluster,
		 (long long)rbd->ceph.lib->ioctx_get_id(rbd->ceph.io), image, snapshot);
	return 0;
}

/* List all snapshots, in memory that the caller frees, after rbd_snap_list_end(). */
static int list(struct rd_rbd *rbd, rbd_snap_info_t **ret)
{
	int max = 32, r;

	do {
		*ret = calloc(max + 1, sizeof(**ret));
		if (!*ret)
			return -ENOMEM;
		r = rbd->lib->rbd_snap_list(rbd->disk, *ret, &max);
		if (r < 0)
			free(*ret);
	} while (r == -ERANGE);
	if (r >= 0)
		return 0;
	*ret = NULL;
	return rd_rbd_failed(rbd, r, "list the snapshots of");
}

/* --- clearing away */

/* Returns an error with a message, which says that it stays. */
static int remove_snapshot(struct rd_rbd *rbd, const char *name)
{
	int r = rbd->lib->rbd_snap_set(rbd->disk, NULL);

	/* The one that is set cannot be, and makes the rest read-only. */
	if (!r)
		r = rbd->lib->rbd_snap_remove(rbd->disk, name);
	if (!r || r == -ENOENT)
		return 0;
	rd_warn("'%s' still has the snapshot '%s': %s", rbd->ceph.name, name,
		rbd->is_silent ? "the cluster does not answer" :
		r == -EBUSY ? "it is protected" : strerror(-r));
	rd_hint("the next snapshot of the volume removes it, if it can");
	return r;
}

static bool is_ours(const struct rd_rbd_moment *moment, const char *name)
{
	size_t len = strlen(moment->prefix);

	return !strncmp(name, moment->prefix, len) && name[len] == '-' &&
		strlen(name) < RD_RBD_SNAP;
}

static int choose_one(struct rd_rbd_moment *moment, const rbd_snap_info_t *snapshot)
{
	char name[NAME_MAX_LEN];
	int r;

	if (!is_ours(moment, snapshot->name))
		return 0;
	r = identify(moment->rbd, snapshot->id, name);
	if (r)
		return r;
	if (rd_tracker_is_of(moment->newest, KIND, name))
		snprintf(moment->old, sizeof(moment->old), "%s", snapshot->name);
	else
		remove_snapshot(moment->rbd, snapshot->name);
	return 0;
}

/* Find OLD, and remove the rest of ours. */
static int choose(struct rd_rbd_moment *moment)
{
	rbd_snap_info_t *snapshots, *at;
	int r = list(moment->rbd, &snapshots);

	if (r)
		return r;
	for (at = snapshots; at->name && !r; at++)
		r = choose_one(moment, at);
	moment->rbd->lib->rbd_snap_list_end(snapshots);
	free(snapshots);
	return r;
}

/* --- the moment */

static int make_snapshot(struct rd_rbd_moment *moment)
{
	struct rd_rbd *rbd = moment->rbd;
	char name[NAME_MAX_LEN];
	uint64_t id;
	int r = rd_failpoint("rbd-ready");

	if (r)
		return r;
	/* If the answer is lost, it may be there. */
	moment->has_new = true;
	r = rbd->lib->rbd_snap_create(rbd->disk, moment->new);
	rbd->is_moment = !r;
	if (!r)
		r = rd_failpoint("rbd-begun");
	if (r) {
		rd_rbd_failed(rbd, r, "make a snapshot of");
		if (r == -EROFS)
			rd_hint("a mirror is read only: read the image where it is the primary one");
		return r;
	}
	r = rbd->lib->rbd_snap_get_id(rbd->disk, moment->new, &id);
	if (!r)
		r = rbd->lib->rbd_snap_set(rbd->disk, moment->new);
	if (!r)
		r = rd_rbd_read_size(rbd);
	if (!r)
		r = identify(rbd, id, name);
	else
		rd_rbd_failed(rbd, r, "read the snapshot of");
	if (!r)
		rd_tracker_hash(moment->tracker, KIND, name);
	return r;
}

/* --- what has changed */

static int get_overlap(struct rd_rbd *rbd, const char *snapshot, uint64_t *ret)
{
	int r = rbd->lib->rbd_snap_set(rbd->disk, snapshot);

	return r ? r : rbd->lib->rbd_get_overlap(rbd->disk, ret);
}

/*
 * Does the image read as much from its parent as it did? Of a clone that was cut off and is as
 * large again, what came from the parent is zeros now, and no object says so.
 */
static int has_overlap(struct rd_rbd_moment *moment, bool *ret)
{
	uint64_t before, now;
	int r = get_overlap(moment->rbd, moment->old, &before);

	if (!r)
		r = get_overlap(moment->rbd, moment->new, &now);
	*ret = !r && before == now;
	return r ? rd_rbd_failed(moment->rbd, r, "compare the snapshots of") : 0;
}

static int list_window(struct rd_rbd_moment *moment, u64 from, u64 to)
{
	struct rd_buffer ranges = { 0 };
	struct rd_rbd_range *range;
	int r = rd_rbd_diff(moment->rbd, moment->old, from, to, RD_SEG_SIZE, &ranges);

	rd_each(range, &ranges)
		rd_buffer_put(&moment->ranges, &(struct rd_changed_range){
			.offset = range->start,
			.len = range->end - range->start,
		}, sizeof(struct rd_changed_range));
	rd_buffer_free(&ranges);
	return r;
}

static int list_changes(struct rd_rbd_moment *moment, struct rd_snapshot_options *options)
{
	struct rd_rbd *rbd = moment->rbd;
	u64 from, size = rbd->store.bytes;
	int r = 0;

	for (from = 0; !r && from < size; from += WINDOW) {
		if (moment->stop && *moment->stop)
			return -EINTR;
		r = list_window(moment, from, rd_min(from + WINDOW, size));
	}
	if (r)
		return r;
	if (moment->ranges.failed)
		return -ENOMEM;
	moment->changed = (struct rd_changed){
		.base = moment->newest->number,
		.nr = moment->ranges.len / sizeof(struct rd_changed_range),
		.ranges = (struct rd_changed_range *)moment->ranges.data,
	};
	options->changed = &moment->changed;
	rbd->is_listed = true;
	return rd_failpoint("rbd-listed");
}

/* Say why there is no list, or make it. */
static int choose_list(struct rd_rbd_moment *moment, struct rd_snapshot_options *options)
{
	bool has;
	int r;

	if (!moment->newest->id || options->why_full)
		return 0;
	if (!moment->old[0]) {
		options->why_full = "the image has no snapshot of the newest version";
		return 0;
	}
	/* Then it is the reason. */
	if (moment->rbd->store.bytes != moment->newest->size)
		return 0;
	r = has_overlap(moment, &has);
	if (r || has)
		return r ? r : list_changes(moment, options);
	options->why_full = "less of the image is its parent's than before";
	return 0;
}

int rd_rbd_moment_begin(struct rd_rbd_moment *moment, struct rd_snapshot_options *options)
{
	int r = choose(moment);

	if (!r)
		r = make_snapshot(moment);
	if (!r)
		r = choose_list(moment, options);
	options->tracker = moment->tracker;
	return r;
}

/* --- its end */

static int check_one(struct rd_rbd *rbd, rbd_image_t image, const char *name)
{
	uint64_t before, now;
	int r = rbd->lib->rbd_snap_get_id(rbd->disk, name, &before);

	if (!r)
		r = rbd->lib->rbd_snap_get_id(image, name, &now);
	if (r == -ENOENT || (!r && before != now)) {
		rd_rbd_gone(rbd);
		return -EIO;
	}
	return r ? rd_rbd_failed(rbd, r, "look at the snapshots of") : 0;
}

/* The connection may not have heard of it yet: look again. */
int rd_rbd_moment_check(struct rd_rbd_moment *moment)
{
	struct rd_rbd *rbd = moment->rbd;
	rbd_image_t image;
	int r = rbd->lib->rbd_open_read_only(rbd->ceph.io, rbd->image, &image, NULL);

	if (r)
		return rd_rbd_failed(rbd, r, "look again at");
	r = check_one(rbd, image, moment->new);
	if (!r && rbd->is_listed)
		r = check_one(rbd, image, moment->old);
	rbd->lib->rbd_close(image);
	return r;
}

int rd_rbd_moment_end(struct rd_rbd_moment *moment, bool is_made)
{
	struct rd_rbd *rbd = moment->rbd;
	const char *name = is_made ? moment->old : moment->new;
	int r = 0;

	rd_buffer_free(&moment->ranges);
	if (!moment->has_new)
		return 0;
	moment->has_new = false;
	if (is_made)
		r = rd_failpoint("rbd-made");
	return name[0] && !r ? remove_snapshot(rbd, name) : r;
}
