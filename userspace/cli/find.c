// SPDX-License-Identifier: GPL-2.0
/* Find the volumes and versions of the catalog that the user has named. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/leases.h"
#include "cli.h"

/* --- operands */

static int parse_operand(const struct ctl *ctl, int nr, struct ctl_name *ret)
{
	const char *wrong = ctl_name_parse(ret, ctl->operands[nr]);

	return wrong ? ctl_usage(ctl, "'%s' %s", ctl->operands[nr], wrong) : 0;
}

int ctl_volume_operand(const struct ctl *ctl, int nr, struct ctl_name *ret)
{
	int r = parse_operand(ctl, nr, ret);

	if (!r && ret->kind == CTL_NAME_MOMENT)
		r = ctl_usage(ctl, "'%s' takes a volume, and '%s' names versions of several",
			      ctl->command->name, ctl->operands[nr]);
	else if (!r && ret->kind != CTL_NAME_VOLUME)
		r = ctl_usage(ctl, "'%s' takes a volume, and '%s' is a version: name '%s'",
			      ctl->command->name, ctl->operands[nr], ret->volume);
	return r;
}

int ctl_version_operand(const struct ctl *ctl, int nr, bool or_volume, struct ctl_name *ret)
{
	int r = ctl_versions_operand(ctl, nr, or_volume, ret);

	if (!r && ret->kind == CTL_NAME_MOMENT)
		r = ctl_usage(ctl, "'%s' takes one version, and '%s' names those of several volumes: do it for each VOL%s that 'list %s' shows",
			      ctl->command->name, ctl->operands[nr], ctl->operands[nr],
			      ctl->operands[nr]);
	return r;
}

int ctl_versions_operand(const struct ctl *ctl, int nr, bool or_volume, struct ctl_name *ret)
{
	int r = parse_operand(ctl, nr, ret);

	if (!r && ret->kind == CTL_NAME_VOLUME && !or_volume)
		r = ctl_usage(ctl, "name a version of '%s': %s@latest, or %s@N", ret->volume,
			      ret->volume, ret->volume);
	return r;
}

/* --- one version */

static int find_number(struct ctl *ctl, const struct ctl_name *name, i64 volume, i64 *ret)
{
	struct rd_sql *sql = ctl->pool->sql;

	switch (name->kind) {
	case CTL_NAME_NUMBER:
		*ret = name->number;
		return 0;
	case CTL_NAME_TIME:
		return rd_version_by_time(sql, volume, name->number, ret);
	case CTL_NAME_TAG:
		return rd_version_by_tag(sql, volume, name->tag, ret);
	default:
		return rd_version_by_age(sql, volume, name->number, ret);
	}
}

/* Print that there is no such version, in the words of the user. */
static int no_version(struct ctl *ctl, const struct ctl_name *name, i64 volume)
{
	u64 nr = 0;

	switch (name->kind) {
	case CTL_NAME_NUMBER:
		rd_err(0, "there is no version %lld of '%s'", name->number, name->volume);
		break;
	case CTL_NAME_TIME:
		rd_err(0, "there is no version of '%s' from %s or earlier", name->volume,
		       ctl_time(name->number));
		break;
	case CTL_NAME_TAG:
		rd_err(0, "no version of '%s' has the tag '%s'", name->volume, name->tag);
		break;
	default:
		rd_versions_count_of(ctl->pool->sql, volume, &nr);
		nr -= nr > 0;
		if (name->number)
			rd_err(0, "%s@-%lld does not exist: %s has %llu version%s before the newest",
			       name->volume, name->number, name->volume, nr, nr == 1 ? "" : "s");
		else
			rd_err(0, "there is no version of '%s'", name->volume);
	}
	rd_hint("'revdedupctl list %s' lists its versions", name->volume);
	return -ENOENT;
}

static int no_volume(const char *name)
{
	rd_err(0, "there is no volume '%s' in the pool", name);
	rd_hint("'revdedupctl list' lists volumes and versions");
	return -ENOENT;
}

static void set_name(struct ctl_version *version, const char *volume)
{
	snprintf(version->volume, sizeof(version->volume), "%s", volume);
	ctl_name_print(version->name, version->volume, version->version.number);
}

int ctl_find(struct ctl *ctl, const struct ctl_name *name, struct ctl_version *ret)
{
	i64 volume, number;
	int r;

	r = rd_volume_find(ctl->pool->sql, name->volume, &volume);
	if (r == -ENOENT)
		return no_volume(name->volume);
	if (!r)
		r = find_number(ctl, name, volume, &number);
	if (!r)
		r = rd_version_load(ctl->pool->sql, volume, number, &ret->version);
	if (r == -ENOENT)
		return no_version(ctl, name, volume);
	if (!r)
		set_name(ret, name->volume);
	return r;
}

int ctl_find_leased(struct ctl *ctl, const struct rd_lease *lease, struct ctl_version *ret)
{
	RD_FREE char *volume = NULL;
	int r;

	r = rd_lease_version(ctl->pool->sql, lease, &ret->version);
	if (!r)
		r = rd_volume_name(ctl->pool->sql, lease->volume, &volume);
	if (!r)
		set_name(ret, volume);
	return r;
}

static int find_moment(struct ctl *ctl, const char *tag, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct ctl_version version;
	size_t before = ret->len;
	const char *volume;
	int r;

	r = rd_versions_tagged(ctl->pool->sql, &rows, tag);
	while (!r && (r = rd_next_kept(rows, &version.version, &volume)) > 0) {
		set_name(&version, volume);
		r = rd_buffer_put(ret, &version, sizeof(version));
	}
	if (r || ret->len > before)
		return r;
	rd_err(0, "no version has the tag '%s'", tag);
	rd_hint("'revdedupctl list' lists volumes, versions and their tags");
	return -ENOENT;
}

int ctl_find_each(struct ctl *ctl, const struct ctl_name *name, struct rd_buffer *ret)
{
	struct ctl_version version;
	int r;

	if (name->kind == CTL_NAME_MOMENT)
		return find_moment(ctl, name->tag, ret);
	r = ctl_find(ctl, name, &version);
	return r ? r : rd_buffer_put(ret, &version, sizeof(version));
}

int ctl_find_partial(struct ctl *ctl, const struct ctl_name *name, struct ctl_version *ret)
{
	i64 volume;
	int r = rd_volume_find(ctl->pool->sql, name->volume, &volume);

	if (!r)
		r = rd_version_partial(ctl->pool->sql, volume, &ret->version);
	if (!r && name->kind == CTL_NAME_NUMBER && ret->version.number != name->number)
		r = -ENOENT;
	if (!r)
		set_name(ret, name->volume);
	return r;
}

int ctl_find_operand(struct ctl *ctl, int nr, struct ctl_version *ret)
{
	struct ctl_name name;

	ctl_name_parse(&name, ctl->operands[nr]);
	return ctl_find(ctl, &name, ret);
}

int ctl_find_again(struct ctl *ctl, struct ctl_version *version)
{
	/* Ids are not used again, but the state may have changed. */
	int r = rd_version_by_id(ctl->pool->sql, version->version.id, &version->version);

	if (!r && !rd_version_exists(&version->version) &&
	    version->version.state != RD_VERSION_PARTIAL)
		r = -ENOENT;
	if (r == -ENOENT)
		rd_err(0, "%s was deleted meanwhile", version->name);
	return r;
}

void ctl_tell_consistency(const struct ctl_version *version)
{
	if (!version->version.is_consistent)
		rd_warn("%s is not consistent: %s", version->name,
			rd_version_is_by_list(&version->version) ?
			"a list of changes lacked one" : "it may have been written while it was read");
}

/* All of a moment have one tag and one time: another tag may be at another version by now. */
int ctl_find_beside(struct ctl *ctl, const struct ctl_version *disk, const char *what,
		    struct ctl_version *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	const char *slash = strrchr(disk->volume, '/'), *tag;
	char volume[CTL_NAME_MAX + 1];
	i64 id, number;
	bool found = false;
	int r;

	if (!slash || snprintf(volume, sizeof(volume), "%.*s/%s", (int)(slash - disk->volume),
			       disk->volume, what) > CTL_NAME_MAX)
		return -ENOENT;
	r = rd_volume_find(ctl->pool->sql, volume, &id);
	if (!r)
		r = rd_version_tags(ctl->pool->sql, &rows, &disk->version);
	while (!r && !found && (r = rd_next_tag(rows, &tag)) > 0) {
		r = rd_version_by_tag(ctl->pool->sql, id, tag, &number);
		if (!r)
			r = rd_version_load(ctl->pool->sql, id, number, &ret->version);
		found = !r && ret->version.time == disk->version.time;
		r = r == -ENOENT ? 0 : r;
	}
	if (found)
		set_name(ret, volume);
	return r ? r : found ? 0 : -ENOENT;
}

int ctl_lock_version(struct ctl *ctl, struct ctl_version *version)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = rd_pool_lock(ctl->pool, &lock, RD_LOCK_VERSION, version->version.id, false,
			 version->name);
	return r ? r : ctl_find_again(ctl, version);
}

int ctl_find_to_read(struct ctl *ctl, struct ctl_version *ret)
{
	int r = ctl_find_operand(ctl, 0, ret);

	if (!r)
		r = ctl_lock_version(ctl, ret);
	if (!r)
		ctl_tell_consistency(ret);
	return r;
}

int ctl_clock_went_back(struct ctl *ctl, const struct rd_version *version, bool *ret)
{
	i64 before;
	int r;

	r = rd_version_time_before(ctl->pool->sql, version->volume, version->number, &before);
	*ret = !r && version->time < before;
	return r == -ENOENT ? 0 : r;
}

/* --- all of them */

int ctl_volumes(struct ctl *ctl, const char *name, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	size_t before = ret->len;
	struct ctl_volume volume;
	struct rd_volume row;
	int r;

	r = rd_volumes(ctl->pool->sql, &rows, name);
	while (!r && (r = rd_next_volume(rows, &row)) > 0) {
		volume.id = row.id;
		snprintf(volume.name, sizeof(volume.name), "%s", row.name);
		r = rd_buffer_put(ret, &volume, sizeof(volume));
	}
	if (!r && name && ret->len == before)
		return no_volume(name);
	return r;
}

int ctl_versions(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct ctl_version version;
	int r;

	r = rd_versions(ctl->pool->sql, &rows, volume->id);
	while (!r && (r = rd_next_version(rows, &version.version)) > 0) {
		set_name(&version, volume->name);
		r = rd_buffer_put(ret, &version, sizeof(version));
	}
	return r;
}

int ctl_tags(struct ctl *ctl, const struct rd_version *version, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	const char *tag;
	int r;

	r = rd_version_tags(ctl->pool->sql, &rows, version);
	while (!r && (r = rd_next_tag(rows, &tag)) > 0)
		r = rd_buffer_put(ret, tag, strlen(tag) + 1);
	return r;
}
