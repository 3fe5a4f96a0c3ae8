// SPDX-License-Identifier: GPL-2.0
/* revdedupctl delete: delete versions. prune deletes through this file, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sort.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/engine/version/version.h"
#include "cli.h"
#include "reader.h"

static int refuse_protected(const struct ctl_version *version)
{
	rd_err(0, "%s is protected", version->name);
	rd_hint("not deleted; to allow it: 'revdedupctl unprotect %s'", version->name);
	return -EPERM;
}

/* --- one version */

struct deletion {
	struct ctl *ctl;
	ctl_keeps *keeps;	/* what other commands keep is skipped; NULL: an error */
	i64 locked_volume;	/* the last volume that another command had locked */

	/* Of the version at hand: */
	bool is_locked;		/* another command has locked it or its volume */
	bool is_kept;		/* it is protected, or a rule keeps it, by now */
};

static int may_delete(void *ctx, const struct rd_version *version)
{
	struct deletion *deletion = ctx;
	int r = 0;

	if (deletion->keeps)
		r = deletion->keeps(deletion->ctl, version, &deletion->is_kept);
	return r ? r : deletion->is_kept ? -EPERM : 0;
}

/* Delete a version that is locked, and whose volume is locked. */
static int delete_locked(struct deletion *deletion, struct ctl_version *version)
{
	struct ctl *ctl = deletion->ctl;
	int r;

	/* A deletion that was interrupted comes first. */
	r = rd_finish_volume(ctl->pool, version->version.volume);
	if (!r)
		r = ctl_find_again(ctl, version);
	if (r)
		return r;
	r = rd_delete(ctl->pool, &version->version, may_delete, deletion);
	ctl_progress_clear(&ctl->progress);
	if (r == -EPERM && version->version.is_protected) {
		deletion->is_kept = true;
		return deletion->keeps ? r : refuse_protected(version);
	}
	if (r && !deletion->is_kept)
		rd_hint("%s may be half deleted: in that case the next command that writes to the pool deletes the rest",
			version->name);
	return r;
}

static int lock_volume(struct deletion *deletion, const struct ctl_version *version,
		       struct rd_lock *ret)
{
	char what[CTL_NAME_MAX + 16];
	int r;

	/* The lock of this volume was waited for and reported before. */
	if (deletion->locked_volume == version->version.volume)
		return -EBUSY;
	snprintf(what, sizeof(what), "the volume '%s'", version->volume);
	r = rd_pool_lock(deletion->ctl->pool, ret, RD_LOCK_VOLUME, version->version.volume, true,
			 what);
	if (r == -EBUSY)
		deletion->locked_volume = version->version.volume;
	return r;
}

/* With --verbose: what this version alone gave up; the queue is not given back yet. */
static int tell_given_up(struct ctl *ctl, const struct ctl_version *version, u64 before)
{
	u64 after;
	int r = rd_blocks_owned(ctl->pool->sql, &after);

	if (!r && !ctl->json)
		printf("%s gave up %s\n", version->name,
		       ctl_size(before > after ? (before - after) * RD_BLOCK_SIZE : 0));
	return r;
}

static int delete_one(struct deletion *deletion, struct ctl_version *version)
{
	struct ctl *ctl = deletion->ctl;
	struct rd_lock volume = RD_LOCK_NONE, lock = RD_LOCK_NONE;
	bool tell = rd_verbosity > 0;
	u64 before = 0;
	int r;

	r = lock_volume(deletion, version, &volume);
	if (!r)
		r = rd_pool_lock(ctl->pool, &lock, RD_LOCK_VERSION, version->version.id, true,
				 version->name);
	deletion->is_locked = r == -EBUSY;
	deletion->is_kept = false;
	if (!r && tell)
		r = rd_blocks_owned(ctl->pool->sql, &before);
	if (!r)
		r = delete_locked(deletion, version);
	if (!r && tell)
		r = tell_given_up(ctl, version, before);
	rd_lock_drop(&lock);
	rd_lock_drop(&volume);
	return r;
}

/* --- all of them */

static int compare_versions(const void *a, const void *b)
{
	const struct ctl_version *x = a, *y = b;

	return rd_order(x->version.volume, y->version.volume) ? :
		rd_order(x->version.number, y->version.number);
}

/* Count the bytes of data that are in use, or still queued to be freed. */
static int data_bytes(struct ctl *ctl, u64 *ret)
{
	u64 queued = 0, blocks;
	int r;

	r = rd_blocks_owned(ctl->pool->sql, &blocks);
	if (!r)
		r = rd_frames_queued(ctl->pool->sql, &queued);
	*ret = r ? 0 : (blocks + queued) * RD_BLOCK_SIZE;
	return r;
}

static void print_one(struct ctl *ctl, const struct ctl_version *version,
		      const struct rd_buffer *leases)
{
	const struct rd_lease *lease;
	struct ctl_reader reader;
	const char *comma = "";

	if (ctl->quiet)
		return;
	if (!leases->len) {
		printf("deleted %s\n", version->name);
		return;
	}
	printf("deleted %s: its space comes back when ", version->name);
	rd_each(lease, leases) {
		fputs(comma, stdout);
		ctl_reader_find(ctl->pool, lease, &reader);
		ctl_reader_print(&reader);
		comma = ", ";
	}
	printf(" no longer read%s it\n", leases->len == sizeof(*lease) ? "s" : "");
}

static void json_one(struct ctl *ctl, const struct ctl_version *version,
		     const struct rd_buffer *leases)
{
	const struct rd_lease *lease;

	ctl_json_begin(ctl, "delete");
	rd_json_string(&ctl->out, "version", version->name);
	if (leases->len) {
		rd_json_begin(&ctl->out, "held_by", '[');
		rd_each(lease, leases)
			rd_json_string(&ctl->out, NULL, lease->device);
		rd_json_end(&ctl->out, ']');
	}
	ctl_json_end(ctl);
}

static int tell_one(struct ctl *ctl, const struct ctl_version *version)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	int r = 0;

	if (version->version.state == RD_VERSION_HELD)
		r = rd_lease_list(ctl->pool->sql, &version->version, &leases);
	if (!r && ctl->json)
		json_one(ctl, version, &leases);
	else if (!r)
		print_one(ctl, version, &leases);
	return r;
}

static void tell_freed(struct ctl *ctl, u64 freed, bool dry)
{
	if (ctl->json) {
		ctl_json_begin(ctl, "freed");
		rd_json_u64(&ctl->out, "bytes", freed);
		if (dry)
			rd_json_bool(&ctl->out, "dry_run", true);
		ctl_json_end(ctl);
	} else if (dry || !ctl->quiet) {
		printf("%s %s\n", dry ? "would free" : "freed", ctl_size(freed));
	}
}

int ctl_delete_dry(struct ctl *ctl, const struct ctl_version *versions, size_t nr)
{
	RD_FREE i64 *ids = calloc(nr + 1, sizeof(*ids));
	u64 bytes;
	size_t i;
	int r;

	if (!ids)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		ids[i] = versions[i].version.id;
	r = rd_delete_estimate(ctl->pool, ids, nr, &bytes);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		tell_freed(ctl, bytes, true);
	return r;
}

/* Is it one to leave where it is? Say so. *@ret_locked counts those that prune would delete. */
static bool skip(const struct deletion *deletion, const struct ctl_version *version,
		 size_t *ret_locked)
{
	struct ctl *ctl = deletion->ctl;

	if (!deletion->keeps || !(deletion->is_locked || deletion->is_kept))
		return false;
	if (deletion->is_locked) {
		rd_err(0, "%s was skipped", version->name);
		++*ret_locked;
	} else {
		rd_warn("%s was skipped: it was %s meanwhile", version->name,
			version->version.is_protected ? "protected" : "tagged");
	}
	if (ctl->json)
		ctl_json(ctl, "skipped", "version=%s", version->name);
	return true;
}

static int delete_all(struct deletion *deletion, struct ctl_version *versions, size_t nr,
		      size_t *ret_deleted, size_t *ret_locked)
{
	size_t i;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = delete_one(deletion, &versions[i]);
		if (!r) {
			++*ret_deleted;
			r = tell_one(deletion->ctl, &versions[i]);
		} else if (skip(deletion, &versions[i], ret_locked)) {
			r = 0;
		}
	}
	return r;
}

int ctl_delete(struct ctl *ctl, struct ctl_version *versions, size_t nr, ctl_keeps *keeps)
{
	struct deletion deletion = { .ctl = ctl, .keeps = keeps };
	size_t deleted = 0, locked = 0;
	u64 before, after;
	int r, end;

	r = data_bytes(ctl, &before);
	if (r)
		return r;
	/* Oldest first: a version that becomes the newest for a moment costs the most. */
	if (nr)
		qsort(versions, nr, sizeof(*versions), compare_versions);
	r = delete_all(&deletion, versions, nr, &deleted, &locked);
	if (deleted && (r || locked))
		rd_hint("%zu of %zu versions were deleted", deleted, nr);
	/* Space that some versions gave up is free even if deletion of another fails. */
	if (r == -EINTR || (r && !deleted))
		return r;
	end = rd_free_queue(ctl->pool);
	if (!end)
		end = data_bytes(ctl, &after);
	if (end)
		return r ? r : end;
	/* Another command may have stored data meanwhile. */
	tell_freed(ctl, before > after ? before - after : 0, false);
	return r ? CTL_PARTLY : locked ? CTL_LOCKED : 0;
}

/* --- the command */

/* Remove duplicates: "vm1@2 vm1@gold" may name one version. */
static size_t remove_twins(struct ctl_version *versions, size_t nr)
{
	size_t i, left = 0;

	qsort(versions, nr, sizeof(*versions), compare_versions);
	for (i = 0; i < nr; i++)
		if (!i || compare_versions(&versions[i], &versions[left - 1]))
			versions[left++] = versions[i];
	return left;
}

/* What has arrived of a version can be named by its number alone. */
static int find_one(struct ctl *ctl, int nr, struct rd_buffer *ret)
{
	struct ctl_version partial;
	struct ctl_name name;
	int r;

	ctl_name_parse(&name, ctl->operands[nr]);
	r = name.kind == CTL_NAME_NUMBER ? ctl_find_partial(ctl, &name, &partial) : -ENOENT;
	if (r == -ENOENT)
		return ctl_find_each(ctl, &name, ret);
	return r ? r : rd_buffer_put(ret, &partial, sizeof(partial));
}

/* Resolve all names before anything is deleted, so that they keep their meaning. */
static int find_all(struct ctl *ctl, struct rd_buffer *ret)
{
	const struct ctl_version *version;
	int i, r = 0;

	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = find_one(ctl, i, ret);
	rd_each(version, ret)
		if (!r && version->version.is_protected)
			r = refuse_protected(version);
	if (r && (ctl->nr_operands > 1 || ret->len > sizeof(*version)))
		rd_hint("no version was deleted");
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
		ctl_json(ctl, "delete", "version=%s dry_run=%d", versions[i].name, true);
	}
}

static int delete(struct ctl *ctl, struct rd_buffer *found)
{
	bool dry = ctl_has(ctl, CTL_OPT_DRY_RUN);
	struct ctl_version *versions;
	size_t nr;
	int r;

	r = ctl_open(ctl, dry ? RD_POOL_READ : RD_POOL_DELETE);
	if (!r)
		r = find_all(ctl, found);
	if (r)
		return r;
	versions = (struct ctl_version *)found->data;
	nr = remove_twins(versions, found->len / sizeof(*versions));
	if (!dry)
		return ctl_delete(ctl, versions, nr, NULL);
	tell_dry(ctl, versions, nr);
	return ctl_delete_dry(ctl, versions, nr);
}

int cmd_delete(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_name name;
	int i, r = 0;

	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = ctl_versions_operand(ctl, i, false, &name);
	return r ? r : delete(ctl, &versions);
}
