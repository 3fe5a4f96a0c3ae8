// SPDX-License-Identifier: GPL-2.0
/* Versions of several volumes that begin to exist together: see snapshot_group.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/undo.h"
#include "snapshot_group.h"
#include "snapshot_run.h"

struct rd_snapshot_group {
	struct rd_pool *pool;
	const char *name;
	unsigned int nr;
	struct rd_snapshot_copy copies[];
};

/* A tag that a version has would name it, too, or move away from it. */
static int check_name(struct rd_sql *sql, const char *name)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_version version;
	const char *volume;
	int r;

	r = rd_versions_tagged(sql, &rows, name);
	if (!r)
		r = rd_next_kept(rows, &version, &volume);
	if (r <= 0)
		return r;
	rd_err(0, "%s@%lld already has the tag '%s', and a group needs a name of its own", volume,
	       version.number, name);
	return -EEXIST;
}

int rd_snapshot_group_new(struct rd_snapshot_group **ret, struct rd_pool *pool, const char *name,
			  unsigned int max)
{
	struct rd_snapshot_group *group;

	group = calloc(1, sizeof(*group) + max * sizeof(*group->copies));
	*ret = group;
	if (!group)
		return -ENOMEM;
	group->pool = pool;
	group->name = name;
	return check_name(pool->sql, name);
}

int rd_snapshot_group_copy(struct rd_snapshot_group *group,
			   const struct rd_snapshot_options *options,
			   struct rd_snapshot_report *report)
{
	struct rd_snapshot_copy *copy = &group->copies[group->nr++];
	int r = rd_snapshot_copy(group->pool, options, report, copy);

	return r ? r : rd_failpoint("group-copied");
}

/* Only a command that has the lock of its volume could have undone it. */
static int check_waiting(struct rd_sql *sql, i64 id)
{
	struct rd_version now;
	int r = rd_version_by_id(sql, id, &now);

	return r ? r : now.state == RD_VERSION_WRITING ? 0 : -EUCLEAN;
}

static int bear_one(struct rd_snapshot_group *group, struct rd_snapshot_copy *copy)
{
	struct rd_version *version = &copy->report->version;
	struct rd_sql *sql = group->pool->sql;
	const char *tag = copy->options->tags;
	int r = check_waiting(sql, version->id);

	if (!r) {
		version->state = RD_VERSION_NEW;
		r = rd_version_set_state(sql, version);
	}
	for (; !r && tag && *tag; tag += strlen(tag) + 1)
		r = rd_version_tag(sql, version, tag);
	return r ? r : rd_version_tag(sql, version, group->name);
}

int rd_snapshot_group_bear(struct rd_snapshot_group *group)
{
	struct rd_sql *sql = group->pool->sql;
	unsigned int i;
	int r;

	r = rd_failpoint("group-bear");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	/* Another command may have given it since the group began. */
	r = check_name(sql, group->name);
	for (i = 0; i < group->nr && !r; i++)
		r = bear_one(group, &group->copies[i]);
	r = rd_catalog_end(sql, r);
	/* As of one version: see rd_snapshot(). */
	if (!r && rd_area_can(&group->pool->area, RD_STORE_FENCED))
		r = rd_journal_flush(group->pool);
	return r ? r : rd_failpoint("group-born");
}

int rd_snapshot_group_settle(struct rd_snapshot_group *group, int r)
{
	unsigned int i;

	for (i = 0; i < group->nr; i++) {
		group->copies[i].mark = rd_now_us();
		r = rd_snapshot_settle(&group->copies[i], r);
	}
	return rd_snapshot_free(&group->copies[group->nr - 1], r);
}

/* Ask the catalog: a commit that failed may have been one all the same. */
static bool is_waiting(const struct rd_snapshot_group *group, const struct rd_snapshot_copy *copy)
{
	i64 id = copy->report->version.id;

	return id && copy->lock.fd >= 0 && !check_waiting(group->pool->sql, id);
}

void rd_snapshot_group_free(struct rd_snapshot_group *group)
{
	unsigned int i;

	if (!group)
		return;
	/* If this fails, the next command does it. */
	for (i = group->nr; i--;) {
		struct rd_snapshot_copy *copy = &group->copies[i];

		/*
		 * In a full pool what was reserved makes the room that the rest needs. It also
		 * frees: where that finishes volumes, it undoes these as well, which is the same.
		 */
		if (is_waiting(group, copy) && !rd_session_leave(group->pool))
			rd_undo_version(group->pool->sql, copy->report->version.id);
		rd_snapshot_release(copy);
	}
	free(group);
}
