// SPDX-License-Identifier: GPL-2.0
/* revdedupctl delete: delete versions. prune does it here as well. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pool/cleanup.h"
#include "../pool/engine.h"
#include "ctl.h"

static int refuse_protected(const struct ctl_version *version)
{
	rd_err(0, "%s is protected", version->name);
	rd_hint("it was not deleted; 'revdedupctl unprotect %s' lets it be", version->name);
	return -EPERM;
}

/* --- one version */

/* Its volume and itself are locked. */
static int delete_locked(struct ctl *ctl, struct ctl_version *version)
{
	int r;

	/* What one that died in the middle has left comes first. */
	r = rd_finish_volume(ctl->pool, version->version.volume);
	if (!r)
		r = ctl_find_again(ctl, version);
	if (!r && version->version.is_protected)
		return refuse_protected(version);
	if (r)
		return r;
	r = rd_delete(ctl->pool, &version->version);
	ctl_progress_clear(&ctl->progress);
	if (r)
		rd_hint("%s may be half deleted: then the next command that writes to the pool deletes the rest",
			version->name);
	return r;
}

static int delete_one(struct ctl *ctl, struct ctl_version *version)
{
	struct rd_lock volume = RD_LOCK_NONE, lock = RD_LOCK_NONE;
	char what[CTL_NAME_MAX + 16];
	int r;

	snprintf(what, sizeof(what), "the volume '%s'", version->volume);
	r = rd_pool_lock(ctl->pool, &volume, RD_LOCK_VOLUME, version->version.volume, true, what);
	if (!r)
		r = rd_pool_lock(ctl->pool, &lock, RD_LOCK_VERSION, version->version.id, true,
				 version->name);
	if (!r)
		r = delete_locked(ctl, version);
	rd_lock_drop(&lock);
	rd_lock_drop(&volume);
	return r;
}

/* --- all of them */

static int compare_versions(const void *a, const void *b)
{
	const struct ctl_version *x = a, *y = b;

	if (x->version.volume != y->version.volume)
		return x->version.volume < y->version.volume ? -1 : 1;
	return x->version.number < y->version.number ? -1 :
		x->version.number > y->version.number;
}

static int data_bytes(struct ctl *ctl, u64 *ret)
{
	i64 blocks;
	int r = rd_sql_number(ctl->pool->sql, &blocks, "SELECT coalesce(sum(n), 0) FROM here", "");

	*ret = r ? 0 : (u64)blocks * RD_BLOCK_SIZE;
	return r;
}

static void tell_one(struct ctl *ctl, const struct ctl_version *version)
{
	if (ctl->json) {
		ctl_json_begin(ctl, "delete");
		rd_json_string(&ctl->out, "version", version->name);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("deleted %s\n", version->name);
	}
}

static void tell_freed(struct ctl *ctl, u64 before, u64 after)
{
	/* Others may have put something in meanwhile. */
	u64 freed = before > after ? before - after : 0;
	char text[CTL_SIZE_TEXT];

	if (ctl->json) {
		ctl_json_begin(ctl, "freed");
		rd_json_u64(&ctl->out, "bytes", freed);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("freed %s\n", ctl_size_print(text, freed));
	}
}

int ctl_delete(struct ctl *ctl, struct ctl_version *versions, size_t nr)
{
	u64 before, after;
	size_t i;
	int r, end;

	r = data_bytes(ctl, &before);
	if (r)
		return r;
	/* Oldest first: what would be the newest for a moment costs the most. */
	if (nr)
		qsort(versions, nr, sizeof(*versions), compare_versions);
	for (i = 0; i < nr && !r; i++) {
		r = delete_one(ctl, &versions[i]);
		if (!r)
			tell_one(ctl, &versions[i]);
	}
	if (r && i > 1)
		rd_hint("%zu of %zu versions were deleted", i - 1, nr);
	/* What some have given up is free even if one of the others fails. */
	if (r == -EINTR || (r && i == 1))
		return r;
	end = rd_free_queue(ctl->pool);
	if (!end)
		end = data_bytes(ctl, &after);
	if (end)
		return r ? r : end;
	tell_freed(ctl, before, after);
	return r ? CTL_PARTLY : 0;
}

/* --- the command */

/* "vm1@2 vm1@gold" may be one. */
static size_t remove_twins(struct ctl_version *versions, size_t nr)
{
	size_t i, left = 0;

	qsort(versions, nr, sizeof(*versions), compare_versions);
	for (i = 0; i < nr; i++)
		if (!i || compare_versions(&versions[i], &versions[left - 1]))
			versions[left++] = versions[i];
	return left;
}

/* All names mean what they mean before anything is deleted. */
static int find_all(struct ctl *ctl, struct ctl_version *versions)
{
	int i, r = 0;

	for (i = 0; i < ctl->nr_operands && !r; i++) {
		r = ctl_find_operand(ctl, i, &versions[i]);
		if (!r && versions[i].version.is_protected)
			r = refuse_protected(&versions[i]);
	}
	if (r && ctl->nr_operands > 1)
		rd_hint("none was deleted");
	return r;
}

static void tell_dry(struct ctl *ctl, const struct ctl_version *versions, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		if (!ctl->json) {
			printf("would delete %s\n", versions[i].name);
			continue;
		}
		ctl_json_begin(ctl, "delete");
		rd_json_string(&ctl->out, "version", versions[i].name);
		rd_json_bool(&ctl->out, "dry_run", true);
		ctl_json_end(ctl);
	}
}

static int delete(struct ctl *ctl, struct ctl_version *versions)
{
	bool dry = ctl_has(ctl, CTL_OPT_DRY_RUN);
	size_t nr;
	int r;

	r = ctl_open(ctl, dry ? RD_POOL_READ : RD_POOL_DELETE);
	if (!r)
		r = find_all(ctl, versions);
	if (r)
		return r;
	nr = remove_twins(versions, ctl->nr_operands);
	if (!dry)
		return ctl_delete(ctl, versions, nr);
	tell_dry(ctl, versions, nr);
	return 0;
}

int cmd_delete(struct ctl *ctl)
{
	RD_FREE struct ctl_version *versions = calloc(ctl->nr_operands, sizeof(*versions));
	struct ctl_name name;
	int i, r = versions ? 0 : -ENOMEM;

	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = ctl_version_operand(ctl, i, false, &name);
	if (!r)
		r = delete(ctl, versions);
	return ctl_close(ctl, r);
}
