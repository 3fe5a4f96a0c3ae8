// SPDX-License-Identifier: GPL-2.0
/* revdedupctl protect, unprotect, tag: change the marks of versions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/engine/journal/journal.h"
#include "cli.h"

/* End a change. When a command ends, the pool's copy of the catalog has its changes. */
static int end_change(struct ctl *ctl, int r)
{
	r = rd_catalog_end(ctl->pool->sql, r);
	return r ? r : rd_journal_flush(ctl->pool);
}

/* --- protect */

static int change_protected(struct ctl *ctl, struct ctl_version *version, bool protect)
{
	int r;

	r = rd_catalog_begin(ctl->pool->sql);
	if (r)
		return r;
	r = ctl_find_again(ctl, version);
	if (!r && version->version.is_protected != protect)
		r = rd_version_protect(ctl->pool->sql, &version->version, protect);
	return end_change(ctl, r);
}

static int set_protected(struct ctl *ctl, struct ctl_version *version, bool protect)
{
	int r = change_protected(ctl, version, protect);

	if (r)
		return r;
	if (ctl->json)
		ctl_json(ctl, ctl->command->name, "version=%s", version->name);
	else if (!ctl->quiet)
		printf("%s is %sprotected\n", version->name, protect ? "" : "not ");
	return 0;
}

/* Change those that operand @nr names. */
static int protect_each(struct ctl *ctl, int nr, bool protect)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_version *version;
	struct ctl_name name;
	int r;

	ctl_name_parse(&name, ctl->operands[nr]);
	r = ctl_find_each(ctl, &name, &versions);
	rd_each(version, &versions)
		if (!r)
			r = set_protected(ctl, version, protect);
	return r;
}

static int protect_all(struct ctl *ctl, bool protect)
{
	struct ctl_name name;
	int i, r = 0;

	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = ctl_versions_operand(ctl, i, false, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = protect_each(ctl, i, protect);
	if (r < 0 && i > 1)
		rd_hint("the versions before '%s' were changed", ctl->operands[i - 1]);
	if (r < 0 && r != -EINTR && i > 1)
		r = CTL_PARTLY;
	return r;
}

int cmd_protect(struct ctl *ctl)
{
	return protect_all(ctl, true);
}

int cmd_unprotect(struct ctl *ctl)
{
	return protect_all(ctl, false);
}

/* --- tag */

static int add_tag(struct ctl *ctl, const struct ctl_version *version, const char *tag)
{
	struct rd_sql *sql = ctl->pool->sql;
	i64 before;
	int r;

	r = rd_version_by_tag(sql, version->version.volume, tag, &before);
	if (!r && before == version->version.number)
		return 0;
	if (r && r != -ENOENT)
		return r;
	if (!r)
		rd_warn("moving the tag '%s' here from %s@%lld", tag, version->volume, before);
	return rd_version_tag(sql, &version->version, tag);
}

static int remove_tag(struct ctl *ctl, const struct ctl_version *version, const char *tag)
{
	int r = rd_version_untag(ctl->pool->sql, &version->version, tag);

	if (r != -ENOENT)
		return r;
	rd_err(0, "%s has no tag '%s'", version->name, tag);
	rd_hint("nothing was changed; 'revdedupctl show %s' lists its tags", version->name);
	return -ENOENT;
}

static int change_tags(struct ctl *ctl, struct ctl_version *version)
{
	int i, r;

	r = rd_catalog_begin(ctl->pool->sql);
	if (r)
		return r;
	r = ctl_find_again(ctl, version);
	/* Removals can fail, so they come before add_tag() reports tags that move. */
	for (i = 1; i < ctl->nr_operands && !r; i++)
		if (ctl->operands[i][0] == '-')
			r = remove_tag(ctl, version, ctl->operands[i] + 1);
	for (i = 1; i < ctl->nr_operands && !r; i++)
		if (ctl->operands[i][0] == '+')
			r = add_tag(ctl, version, ctl->operands[i] + 1);
	return end_change(ctl, r);
}

static int tell_tags(struct ctl *ctl, const struct ctl_version *version)
{
	RD_BUFFER struct rd_buffer tags = { 0 };
	const char *tag, *end;
	int r;

	r = ctl_tags(ctl, &version->version, &tags);
	end = (const char *)tags.data + tags.len;
	if (!r && ctl->json) {
		ctl_json_begin(ctl, "tag");
		rd_json_string(&ctl->out, "version", version->name);
		rd_json_begin(&ctl->out, "tags", '[');
		for (tag = (const char *)tags.data; tag < end; tag += strlen(tag) + 1)
			rd_json_string(&ctl->out, NULL, tag);
		rd_json_end(&ctl->out, ']');
		ctl_json_end(ctl);
	} else if (!r && !ctl->quiet) {
		printf("%s:", version->name);
		for (tag = (const char *)tags.data; tag < end; tag += strlen(tag) + 1)
			printf(" %s", tag);
		printf("%s\n", tags.len ? "" : " no tags");
	}
	return r;
}

int cmd_tag(struct ctl *ctl)
{
	struct ctl_version version;
	struct ctl_name name;
	int i, r;

	r = ctl_version_operand(ctl, 0, false, &name);
	for (i = 1; i < ctl->nr_operands && !r; i++) {
		const char *text = ctl->operands[i];

		if ((text[0] != '+' && text[0] != '-') || !ctl_is_tag(text + 1))
			r = ctl_usage(ctl, "'%s' is neither +TAG nor -TAG; options go before the version",
				      text);
	}
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = ctl_find(ctl, &name, &version);
	if (!r)
		r = change_tags(ctl, &version);
	return r ? r : tell_tags(ctl, &version);
}
