// SPDX-License-Identifier: GPL-2.0
/* Describe versions: what list and show both tell of one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/leases.h"
#include "pool/engine/space/hold.h"
#include "pool/engine/version/version.h"
#include "describe.h"

/* Join the tags: "a,b". */
static int read_tags(struct ctl *ctl, struct ctl_described *described)
{
	RD_BUFFER struct rd_buffer tags = { 0 };
	size_t i;
	int r = ctl_tags(ctl, &described->v.version, &tags);

	for (i = 0; i + 1 < tags.len; i++)
		if (!tags.data[i])
			tags.data[i] = ',';
	if (!r) {
		described->tags = strdup(tags.len ? (char *)tags.data : "");
		r = described->tags ? 0 : -ENOMEM;
	}
	return r;
}

static int read_in_use(struct ctl *ctl, struct ctl_described *described)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_lease_list(ctl->pool->sql, &described->v.version, &leases);

	described->in_use = false;
	rd_each(lease, &leases)
		described->in_use |= !rd_hold_is_over(ctl->pool, lease);
	return r;
}

static int read_more(struct ctl *ctl, struct ctl_described *described)
{
	const struct rd_version *version = &described->v.version;
	int r;

	r = read_tags(ctl, described);
	if (!r)
		r = read_in_use(ctl, described);
	return r ? r : ctl_clock_went_back(ctl, version, &described->clock_went_back);
}

/* --- what only a version has */

static int read_unique(struct ctl *ctl, i64 volume, struct ctl_described *list, size_t nr)
{
	RD_FREE struct rd_unique *unique = calloc(nr + 1, sizeof(*unique));
	size_t i;
	int r;

	if (!unique)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		unique[i].number = list[i].v.version.number;
	r = rd_unique_bytes(ctl->pool, volume, unique, nr);
	for (i = 0; i < nr; i++)
		list[i].unique = r ? CTL_UNKNOWN : unique[i].bytes;
	/* A list without these numbers is better than none. */
	return r == -E2BIG ? 0 : r == -EUCLEAN ? CTL_DAMAGE : r;
}

/* --- */

int ctl_describe_volume(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_described *described;
	const struct ctl_version *version;
	size_t nr, begin = ret->len;
	int r;

	r = ctl_versions(ctl, volume, &versions);
	nr = versions.len / sizeof(*version);
	rd_each(version, &versions) {
		if (r)
			break;
		described = (struct ctl_described *)rd_buffer_grow(ret, sizeof(*described));
		if (!described) {
			r = -ENOMEM;
			break;
		}
		*described = (struct ctl_described){ .v = *version };
		r = read_more(ctl, described);
	}
	return r || !nr ? r :
		read_unique(ctl, volume->id, (struct ctl_described *)(ret->data + begin), nr);
}

int ctl_describe(struct ctl *ctl, struct ctl_described *ret)
{
	int r = read_more(ctl, ret);

	if (!r)
		r = rd_delete_estimate(ctl->pool, &ret->v.version.id, 1, &ret->unique);
	if (r == -EUCLEAN) {
		ret->unique = CTL_UNKNOWN;
		r = CTL_DAMAGE;
	}
	return r;
}

void ctl_describe_boots(const struct rd_buffer *tests, struct ctl_described *list, size_t nr)
{
	const struct ctl_boot_test *test;
	size_t i;

	for (i = 0; i < nr; i++) {
		test = ctl_boot_test_find(tests, list[i].v.version.uid);
		if (test)
			list[i].boot = *test;
	}
}

void ctl_described_free(struct rd_buffer *described)
{
	struct ctl_described *one;

	rd_each(one, described)
		free(one->tags);
	rd_buffer_free(described);
}

/* --- printing */

static bool is_unfinished(const struct rd_version *version)
{
	/* It is complete; the one before it still has the blocks that both have. */
	return version->state == RD_VERSION_NEW;
}

const char *ctl_state_print(char text[CTL_STATE_TEXT], const struct ctl_described *described)
{
	const struct rd_version *version = &described->v.version;
	const struct {
		bool is_so;
		const char *word;
	} words[] = {
		{ version->is_protected, "protected" },
		{ described->in_use, "in use" },
		{ is_unfinished(version), "unfinished" },
		{ !version->is_consistent, "not consistent" },
		{ rd_version_is_by_list(version), "by a list" },
		{ described->clock_went_back, "clock set back" },
		{ described->boot.time && described->boot.passed, "boots" },
		{ described->boot.time && !described->boot.passed, "does not boot" },
	};
	size_t i, len = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].is_so)
			len += snprintf(text + len, CTL_STATE_TEXT - len, "%s%s",
					len ? ", " : "", words[i].word);
	return text;
}

static void json_tags(struct rd_json *out, const char *tags)
{
	char tag[CTL_NAME_MAX + 1];
	size_t len;

	rd_json_begin(out, "tags", '[');
	for (; *tags; tags += len + (tags[len] == ',')) {
		len = strcspn(tags, ",");
		snprintf(tag, sizeof(tag), "%.*s", (int)len, tags);
		rd_json_string(out, NULL, tag);
	}
	rd_json_end(out, ']');
}

void ctl_json_described(struct ctl *ctl, const struct ctl_described *described)
{
	const struct rd_version *version = &described->v.version;
	struct rd_json *out = &ctl->out;
	char uid[20];

	snprintf(uid, sizeof(uid), "%016llx", (u64)version->uid);
	ctl_json_version_begin(ctl, &described->v);
	rd_json_add(out, "uid=%s time=%llu clock_went_back=%d size=%llu segments_read=%llu",
		    uid, version->time, described->clock_went_back, version->size, version->dirty);
	rd_json_add(out, "bytes_read=%llu blocks_changed=%llu bytes_stored=%llu",
		    version->bytes_read, version->blocks_changed, version->bytes_stored);
	if (described->unique != CTL_UNKNOWN)
		rd_json_u64(out, "bytes_unique", described->unique);
	rd_json_add(out, "state=%s in_use=%d consistent=%d by_list=%d protected=%d",
		    is_unfinished(version) ? "unfinished" : "done", described->in_use,
		    version->is_consistent, rd_version_is_by_list(version), version->is_protected);
	if (described->boot.time)
		rd_json_add(out, "boot_test={ passed=%d time=%llu why=%s }",
			    described->boot.passed, described->boot.time, described->boot.why);
	json_tags(out, described->tags);
	rd_json_string(out, "comment", version->comment);
}

void ctl_print_comment(const char *comment)
{
	while (*comment) {
		unsigned int len = rd_shown_len(comment);

		if (len)
			printf("%.*s", len, comment);
		else
			putchar('?');
		comment += len ? len : 1;
	}
}
