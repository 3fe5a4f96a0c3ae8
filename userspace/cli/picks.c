// SPDX-License-Identifier: GPL-2.0
/* What is to be sent: see picks.h. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "picks.h"

#define REQUEST_HEAD	8
/* Whoever wants more can ask for all. */
#define MAX_NAMES	4096

int ctl_open_to_send(struct ctl *ctl)
{
	const char *path = ctl_pool_path(ctl);

	return ctl_open(ctl, path && !access(path, W_OK) ? RD_POOL_HOLD : RD_POOL_READ);
}

int ctl_picks_read(struct ctl_picks *picks, const struct rd_record *record, u64 *ret_newest)
{
	u32 i, nr = 0;

	if (record->len < REQUEST_HEAD || (record->len > REQUEST_HEAD &&
					   record->data[record->len - 1]))
		return rd_err(-EPROTO, "the request cannot be read");
	*ret_newest = rd_get_u32(record->data);
	rd_buffer_put(&picks->texts, record->data + REQUEST_HEAD, record->len - REQUEST_HEAD);
	for (i = REQUEST_HEAD; i < record->len; i++)
		nr += !record->data[i];
	if (nr > MAX_NAMES)
		return rd_err(-EPROTO, "the request has too many names");
	return picks->texts.failed ? -ENOMEM : 0;
}

static int add(struct ctl_picks *picks, const struct ctl_volume *volume, i64 number)
{
	struct rd_send_pick pick = { .volume = volume->id, .number = number };

	rd_buffer_put(&picks->names, volume, sizeof(*volume));
	rd_buffer_put(&picks->picks, &pick, sizeof(pick));
	return picks->names.failed || picks->picks.failed ? -ENOMEM : 0;
}

static bool is_meant(struct ctl *ctl, const struct ctl_picks *picks, const char *volume)
{
	const char *pattern = (const char *)picks->patterns.data;
	const char *end = pattern + picks->patterns.len;

	if (picks->serves && !ctl_serves_volume(ctl, volume))
		return false;
	for (; pattern < end; pattern += strlen(pattern) + 1)
		if (!fnmatch(pattern, volume, 0))
			return true;
	return !picks->patterns.len;
}

static int find_all(struct ctl *ctl, struct ctl_picks *picks)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_volume *volume;
	int r = ctl_volumes(ctl, NULL, &all);

	rd_each(volume, &all)
		if (!r && is_meant(ctl, picks, volume->name))
			r = add(picks, volume, 0);
	return r;
}

int ctl_find_served(struct ctl *ctl, const struct ctl_picks *picks, const char *text,
		    struct ctl_name *name, struct ctl_version *ret)
{
	const char *wrong = ctl_name_parse(name, text);

	if (wrong)
		return ctl_usage(ctl, "'%s' %s", text, wrong);
	if (name->kind == CTL_NAME_MOMENT)
		return ctl_usage(ctl, "'%s' names versions of several volumes, and one is needed",
				 text);
	if (picks->serves && !ctl_serves_volume(ctl, name->volume))
		return rd_err(-ENOENT, "there is no volume '%s' in the pool", name->volume);
	return ctl_find(ctl, name, ret);
}

static int add_version(struct ctl_picks *picks, const struct ctl_version *version, bool newest)
{
	struct ctl_volume volume;

	memset(&volume, 0, sizeof(volume));
	volume.id = version->version.volume;
	snprintf(volume.name, sizeof(volume.name), "%s", version->volume);
	return add(picks, &volume, newest ? 0 : version->version.number);
}

/* Of those with the tag the other end gets what it may see. */
static int find_moment(struct ctl *ctl, struct ctl_picks *picks, const struct ctl_name *name)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	const struct ctl_version *version;
	size_t before = picks->picks.len;
	int r = ctl_find_each(ctl, name, &versions);

	rd_each(version, &versions)
		if (!r && (!picks->serves || ctl_serves_volume(ctl, version->volume)))
			r = add_version(picks, version, false);
	if (!r && picks->picks.len == before)
		r = rd_err(-ENOENT, "no version has the tag '%s'", name->tag);
	return r;
}

static int find_one(struct ctl *ctl, struct ctl_picks *picks, const char *text)
{
	struct ctl_version version;
	struct ctl_name name;
	int r;

	if (!ctl_name_parse(&name, text) && name.kind == CTL_NAME_MOMENT)
		return find_moment(ctl, picks, &name);
	r = ctl_find_served(ctl, picks, text, &name, &version);
	return r ? r : add_version(picks, &version, name.kind == CTL_NAME_VOLUME);
}

int ctl_picks_find(struct ctl *ctl, struct ctl_picks *picks, struct rd_send_options *options)
{
	const char *text = (const char *)picks->texts.data;
	const char *end = text + picks->texts.len, *as = ctl_value(ctl, CTL_OPT_AS);
	struct rd_send_pick *pick;
	const struct ctl_volume *volume;
	size_t i;
	int r = 0;

	if (!picks->texts.len)
		r = find_all(ctl, picks);
	for (; text < end && !r; text += strlen(text) + 1)
		r = find_one(ctl, picks, text);
	pick = (struct rd_send_pick *)picks->picks.data;
	volume = (const struct ctl_volume *)picks->names.data;
	options->picks = pick;
	options->nr = picks->picks.len / sizeof(*pick);
	for (i = 0; i < options->nr; i++) {
		pick[i].name = volume[i].name;
		pick[i].as = as && !picks->serves ? as : volume[i].name;
	}
	return r;
}

void ctl_picks_free(struct ctl_picks *picks)
{
	rd_buffer_free(&picks->texts);
	rd_buffer_free(&picks->patterns);
	rd_buffer_free(&picks->names);
	rd_buffer_free(&picks->picks);
}
