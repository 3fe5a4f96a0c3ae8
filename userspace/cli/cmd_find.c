// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl find: in which versions a file is, and when it changed.
 *
 * Each version is read on its own, the newest first: two of them beside each other have the same
 * UUIDs. One in which no segment is other than in the next one has the same files, and is not read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "pool/catalog/segments.h"
#include "pool/engine/read/proof.h"
#include "guest.h"

struct hit {
	struct rd_guest_record file;
	char *path;
	size_t version;		/* its index */
};

struct candidate {
	struct ctl_version v;
	bool is_same;		/* as the one before it in the list */
};

struct find {
	struct ctl *ctl;
	char pool[PATH_MAX];
	struct rd_buffer versions;	/* struct candidate, those of a volume newest first */
	struct rd_buffer hits;
	size_t at;			/* which is read */
	u64 nr_failed;
};

/* --- which versions */

static int is_same(struct ctl *ctl, const struct rd_version *old, const struct rd_version *new,
		   bool *ret)
{
	const struct rd_segment_content from = { .born = old->number + 1, .segment = -1 };
	struct rd_segment_content row;
	unsigned int nr;
	int r = rd_segments_born_between(ctl->pool->sql, old->volume, old->number, new->number,
					 &from, &row, 1, &nr);

	*ret = !nr && old->size == new->size;
	return r;
}

static int add(struct find *find, const struct ctl_version *version, const struct ctl_version *next)
{
	struct candidate candidate = { .v = *version };
	int r = rd_version_prove(find->ctl->pool, &version->version);

	if (!r && next)
		r = is_same(find->ctl, &version->version, &next->version, &candidate.is_same);
	if (r)
		return r;
	return rd_buffer_put(&find->versions, &candidate, sizeof(candidate));
}

static int add_volume(struct find *find, const struct ctl_volume *volume, u64 newest)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_version *list;
	size_t nr, i;
	int r = ctl_versions(find->ctl, volume, &all);

	list = (const struct ctl_version *)all.data;
	nr = all.len / sizeof(*list);
	for (i = 0; i < nr && i < newest && !r; i++)
		r = add(find, &list[nr - 1 - i], i ? &list[nr - i] : NULL);
	return r;
}

static int collect(struct find *find, const struct ctl_name *name, u64 newest)
{
	struct ctl *ctl = find->ctl;
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	struct ctl_version one;
	int r;

	if (name && name->kind != CTL_NAME_VOLUME) {
		r = ctl_find(ctl, name, &one);
		return r ? r : add(find, &one, NULL);
	}
	r = ctl_volumes(ctl, name ? name->volume : NULL, &volumes);
	rd_each(volume, &volumes)
		if (!r)
			r = add_volume(find, volume, newest);
	return r;
}

/* --- reading them */

static int add_hit(struct find *find, const struct rd_guest_record *file, const char *path)
{
	struct hit hit = { .file = *file, .path = strdup(path), .version = find->at };

	if (hit.path)
		rd_buffer_put(&find->hits, &hit, sizeof(hit));
	return hit.path && !find->hits.failed ? 0 : -ENOMEM;
}

static int take(void *ctx, const struct rd_guest_record *record)
{
	return record->kind == RD_GUEST_FILE ? add_hit(ctx, record, record->text[0]) : 0;
}

static int repeat_hits(struct find *find)
{
	size_t i, nr = find->hits.len / sizeof(struct hit);
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		struct hit hit = ((struct hit *)find->hits.data)[i];

		if (hit.version == find->at - 1)
			r = add_hit(find, &hit.file, hit.path);
	}
	return r;
}

/* Of what could not be read to its end nothing is known. */
static void drop_hits(struct find *find, size_t len)
{
	size_t i;

	for (i = len / sizeof(struct hit); i < find->hits.len / sizeof(struct hit); i++)
		free(((struct hit *)find->hits.data)[i].path);
	find->hits.len = len;
}

static int read_version(struct find *find, const struct candidate *candidate)
{
	const struct rd_guest_options guest = {
		.pool = find->pool,
		.version = candidate->v.name,
		.work = RD_GUEST_FIND,
		.path = find->ctl->operands[0],
		.take = take,
		.ctx = find,
		.stop = find->ctl->progress.progress.stop,
	};
	size_t len = find->hits.len;
	int r = rd_guest_read(&guest);

	if (r < 0)
		drop_hits(find, len);
	return r;
}

static int read_all(struct find *find)
{
	const struct candidate *list = (const struct candidate *)find->versions.data;
	size_t nr = find->versions.len / sizeof(*list);
	const struct rd_progress *progress = &find->ctl->progress.progress;
	bool has_failed = false;
	u64 all = 0, done = 0;
	int r = 0;

	for (find->at = 0; find->at < nr; find->at++)
		all += list[find->at].v.version.size;
	for (find->at = 0; find->at < nr; find->at++) {
		const struct candidate *one = &list[find->at];

		progress->tell(progress, "find", done, all);
		/* One that could not be read says nothing about the next. */
		r = one->is_same && !has_failed ? repeat_hits(find) : read_version(find, one);
		if (r == -EINTR || r == -ENOMEM)
			return r;
		has_failed = r;
		if (r < 0)
			rd_warn("%s is left out", one->v.name);
		find->nr_failed += has_failed;
		done += one->v.version.size;
	}
	progress->tell(progress, "find", all, all);
	return 0;
}

/* --- printing */

static const struct find *sorted;

static const struct candidate *version_of(const struct hit *hit)
{
	return (const struct candidate *)sorted->versions.data + hit->version;
}

/* By volume, path, and version, the newest first. */
static int order(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	return strcmp(version_of(x)->v.volume, version_of(y)->v.volume) ? :
		strcmp(x->path, y->path) ? : rd_order(x->version, y->version);
}

static bool is_path(const struct hit *a, const struct hit *b)
{
	return !strcmp(a->path, b->path) &&
		!strcmp(version_of(a)->v.volume, version_of(b)->v.volume);
}

/* Is it the same file, unchanged, in the version before? */
static bool goes_on(const struct hit *new, const struct hit *old)
{
	const struct rd_guest_record *a = &new->file, *b = &old->file;

	return is_path(new, old) && old->version == new->version + 1 && a->inode == b->inode &&
		a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size &&
		a->mtime == b->mtime && a->mtime_ns == b->mtime_ns && a->ctime == b->ctime &&
		a->ctime_ns == b->ctime_ns;
}

static void print_run(struct ctl *ctl, const struct hit *new, const struct hit *old)
{
	const struct ctl_version *last = &version_of(new)->v, *first = &version_of(old)->v;

	if (ctl->json) {
		ctl_json_begin(ctl, "found");
		rd_json_add(&ctl->out, "volume=%s path=%s first=%s last=%s",
			    first->volume, new->path, first->name, last->name);
		ctl_json_file(ctl, &new->file);
		ctl_json_end(ctl);
		return;
	}
	fputs("  ", stdout);
	ctl_print_file(&new->file);
	printf(" %s", first->name);
	if (first != last)
		printf(" to %s", strrchr(last->name, '@'));
	putchar('\n');
}

static void print_hits(struct find *find)
{
	struct hit *list = (struct hit *)find->hits.data, *hit, *old;
	struct hit *end = list + find->hits.len / sizeof(*list);

	sorted = find;
	if (list)
		qsort(list, end - list, sizeof(*list), order);
	for (hit = list; hit < end; hit = old + 1) {
		if (!find->ctl->json && (hit == list || !is_path(hit - 1, hit))) {
			printf("%s: ", version_of(hit)->v.volume);
			ctl_print_name(hit->path);
			putchar('\n');
		}
		for (old = hit; old + 1 < end && goes_on(old, old + 1); old++)
			;
		print_run(find->ctl, hit, old);
	}
}

static int print_and_free(struct find *find, int r)
{
	struct hit *hit;

	ctl_progress_clear(&find->ctl->progress);
	print_hits(find);
	if (!r && !find->hits.len && !find->nr_failed && !find->ctl->quiet)
		rd_warn("no file matches '%s'", find->ctl->operands[0]);
	rd_each(hit, &find->hits)
		free(hit->path);
	rd_buffer_free(&find->hits);
	rd_buffer_free(&find->versions);
	return r ? r : find->nr_failed ? CTL_PARTLY : 0;
}

int cmd_find(struct ctl *ctl)
{
	struct find find = { .ctl = ctl };
	bool has_name = ctl->nr_operands > 1;
	u64 newest = UINT64_MAX;
	struct ctl_name name;
	int r = has_name ? ctl_version_operand(ctl, 1, true, &name) : 0;

	if (!r && has_name && name.kind != CTL_NAME_VOLUME && ctl_value(ctl, CTL_OPT_NEWEST))
		r = ctl_usage(ctl, "--newest is for a volume or all of them, not for a version");
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_NEWEST, 1, INT64_MAX, &newest);
	if (!r)
		r = rd_guest_is_possible();
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		snprintf(find.pool, sizeof(find.pool), "%s", ctl->pool->path);
	if (!r)
		r = collect(&find, has_name ? &name : NULL, newest);
	r = ctl_close(ctl, r);
	if (!r)
		r = read_all(&find);
	r = print_and_free(&find, r);
	return r && r != CTL_PARTLY ? r : ctl_free_space(ctl, find.pool) ? : r;
}
