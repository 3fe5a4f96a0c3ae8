// SPDX-License-Identifier: GPL-2.0
/* Take versions of several attached volumes, all of one moment: see live_group.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/layers.h"
#include "pool/engine/snapshot/snapshot_group.h"
#include "live_group.h"
#include "live_parts.h"

struct moment {
	const struct rd_live_group *group;
	struct rd_live *lives;		/* as in group->ats */
	struct rd_live **order;		/* by name, later as the pool locks them */
	struct rd_snapshot_group *copies;
};

static struct rd_live_report *report_of(const struct moment *moment, const struct rd_live *live)
{
	return &moment->group->reports[live - moment->lives];
}

/* --- in which order */

static int compare_names(const void *a, const void *b)
{
	const struct rd_live *const *x = a, *const *y = b;

	return strcmp((*x)->at->volume, (*y)->at->volume);
}

/* Volumes that the pool does not have yet get greater numbers. */
static int compare_ids(const void *a, const void *b)
{
	const struct rd_live *const *x = a, *const *y = b;
	i64 first = (*x)->volume ? (*x)->volume : INT64_MAX;
	i64 second = (*y)->volume ? (*y)->volume : INT64_MAX;

	return first == second ? compare_names(a, b) : first < second ? -1 : 1;
}

/* Two groups lock and suspend volumes in the same order, so that neither waits for the other. */
static int sort_by_name(struct moment *moment)
{
	unsigned int i;

	qsort(moment->order, moment->group->nr, sizeof(*moment->order), compare_names);
	for (i = 1; i < moment->group->nr; i++) {
		if (compare_names(&moment->order[i - 1], &moment->order[i]))
			continue;
		rd_err(0, "'%s' is named twice", moment->order[i]->at->volume);
		return -EEXIST;
	}
	return 0;
}

/*
 * A volume that lies on another would wait for it while both are suspended: as a partition, by a
 * loop device, or with its metadata on a logical volume there.
 */
static int check_apart(const struct moment *moment)
{
	char path[RD_DM_PATH_MAX];
	unsigned int i, j;
	struct stat st;

	for (i = 0; i < moment->group->nr; i++) {
		const struct rd_attachment *below = moment->order[i]->at;

		if (stat(rd_dm_path(path, below->device), &st))
			return rd_err(-errno, "cannot look at '%s'", path);
		for (j = 0; j < moment->group->nr; j++) {
			const struct rd_attachment *above = moment->order[j]->at;

			if (i == j || (!rd_lies_on(above->base, st.st_rdev) &&
				       !rd_lies_on(above->meta, st.st_rdev)))
				continue;
			rd_err(0, "'%s' lies on '%s': both cannot be held still at one moment",
			       above->volume, below->volume);
			return -EINVAL;
		}
	}
	return 0;
}

/* --- copying */

static int copy_all(struct moment *moment)
{
	/* All have the time of the moment, as near as a second can be. */
	i64 now = time(NULL);
	unsigned int i;
	int r = 0;

	qsort(moment->order, moment->group->nr, sizeof(*moment->order), compare_ids);
	for (i = 0; i < moment->group->nr && !r; i++) {
		struct rd_live *live = moment->order[i];

		live->snapshot.time = now;
		live->snapshot.waits = true;
		r = rd_live_ready(live);
		if (!r)
			r = rd_snapshot_group_copy(moment->copies, &live->snapshot,
						   &report_of(moment, live)->snapshot);
	}
	return r ? r : rd_snapshot_group_bear(moment->copies);
}

/* All versions exist: one that cannot be committed keeps no other from it. */
static int commit_all(struct moment *moment)
{
	unsigned int i;
	int one, r = 0;

	for (i = 0; i < moment->group->nr; i++) {
		struct rd_live *live = moment->order[i];

		one = rd_live_commit(live, &report_of(moment, live)->snapshot.version);
		r = r ? r : one;
	}
	/* In one pool all have one lock. */
	for (i = 0; i < moment->group->nr; i++)
		rd_view_pool_unviewed(&moment->order[i]->reads);
	return r;
}

static int copy_and_commit(struct moment *moment)
{
	unsigned int i;
	int r = rd_failpoint("live-frozen");

	if (!r)
		r = copy_all(moment);
	if (!r) {
		r = commit_all(moment);
		r = rd_snapshot_group_settle(moment->copies, r);
	}
	for (i = 0; r && i < moment->group->nr; i++)
		rd_live_give_up(moment->order[i]);
	return r;
}

/* --- */

static int take(struct moment *moment, const struct rd_caller *caller)
{
	const struct rd_live_group *group = moment->group;
	unsigned int i;
	int r = sort_by_name(moment);

	if (!r)
		r = rd_snapshot_group_new(&moment->copies, caller->pool, group->name, group->nr);
	for (i = 0; i < group->nr && !r; i++)
		r = rd_live_prepare(moment->order[i]);
	if (!r)
		r = check_apart(moment);
	if (!r)
		r = rd_live_freeze(moment->order, group->nr);
	return r ? r : copy_and_commit(moment);
}

int rd_live_group(const struct rd_caller *caller, const struct rd_live_group *group,
		  const struct rd_live_options *options)
{
	RD_FREE struct rd_live *lives = calloc(group->nr, sizeof(*lives));
	RD_FREE struct rd_live **order = calloc(group->nr, sizeof(*order));
	struct moment moment = { .group = group, .lives = lives, .order = order };
	unsigned int i;
	int one, r;

	if (!lives || !order)
		return -ENOMEM;
	memset(group->reports, 0, group->nr * sizeof(*group->reports));
	for (i = 0; i < group->nr; i++) {
		rd_live_init(&lives[i], caller, group->ats[i], options);
		order[i] = &lives[i];
	}
	r = take(&moment, caller);
	rd_snapshot_group_free(moment.copies);
	for (i = 0; i < group->nr; i++) {
		one = rd_live_end(&lives[i], r, &group->reports[i]);
		r = r ? r : one;
	}
	return r;
}
