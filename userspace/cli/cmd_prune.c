// SPDX-License-Identifier: GPL-2.0
/* revdedupctl prune: delete what a policy does not keep. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "boottest.h"
#include "cli.h"
#include "keep.h"

struct prune {
	struct ctl *ctl;
	struct ctl_keep_policy policy;
	bool any_rule;
	bool dry;
	struct rd_buffer delete;	/* struct ctl_version each */
};

/* --- the policy */

static int check_options(struct prune *prune)
{
	struct ctl *ctl = prune->ctl;
	int r;

	r = ctl_value_keep(ctl, &prune->policy, &prune->any_rule);
	if (r)
		return r;
	if (prune->any_rule)
		return 0;
	/* An empty variable must not delete a whole pool. */
	if (!ctl_has(ctl, CTL_OPT_REMOVE_ALL))
		return ctl_usage(ctl, "no rule says what to keep: use --keep-last N, --keep-daily N or another, or write rules into '%s'",
				 ctl->config.path);
	if (!ctl->nr_operands)
		return ctl_usage(ctl, "to remove all versions, name the volume");
	return 0;
}

static bool is_rule(const struct ctl_given *given)
{
	return (given->option >= CTL_OPT_KEEP_LAST && given->option <= CTL_OPT_KEEP_YEARLY) ||
		given->option == CTL_OPT_KEEP_WITHIN || given->option == CTL_OPT_KEEP_TAG;
}

/* Rules that were not given on the command line are printed. */
static void print_settings(struct ctl *ctl)
{
	const char *between = ":";
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++) {
		const struct ctl_given *given = &ctl->given[i];
		const char *name = ctl_option_name(given->option);

		if (!is_rule(given) || !given->is_setting)
			continue;
		if (ctl->json) {
			ctl_json(ctl, "rule", "rule=%s value=%s from=%s", name, given->value,
				 ctl->config.path);
		} else if (!ctl->quiet) {
			if (*between == ':')
				printf("rules of '%s'", ctl->config.path);
			printf("%s %s %s", between, name, given->value);
			between = ",";
		}
	}
	if (*between == ',')
		putchar('\n');
}

/* --- what it means */

static bool has_kept_tag(const struct ctl *ctl, const struct rd_buffer *tags)
{
	const char *tag, *end = (const char *)tags->data + tags->len;
	unsigned int i;

	for (tag = (const char *)tags->data; tag < end; tag += strlen(tag) + 1)
		for (i = 0; i < ctl->nr_given; i++)
			if (ctl->given[i].option == CTL_OPT_KEEP_TAG &&
			    !strcmp(ctl->given[i].value, tag))
				return true;
	return false;
}

/* Also when its turn comes: hours after the plan another command may have tagged it. */
static int keeps_tagged(struct ctl *ctl, const struct rd_version *version, bool *ret)
{
	RD_BUFFER struct rd_buffer tags = { 0 };
	int r = ctl_tags(ctl, version, &tags);

	*ret = !r && has_kept_tag(ctl, &tags);
	return r;
}

static int fill_item(struct ctl *ctl, const struct rd_version *version,
		     struct ctl_keep_item *item)
{
	*item = (struct ctl_keep_item){
		.time = version->time,
		.is_protected = version->is_protected,
	};
	return keeps_tagged(ctl, version, &item->is_tagged);
}

static void print_json(struct prune *prune, const struct ctl_version *version,
		       const struct ctl_keep_item *item)
{
	struct ctl *ctl = prune->ctl;
	unsigned int i;

	ctl_json_begin(ctl, "plan");
	rd_json_add(&ctl->out, "version=%s time=%llu keep=%d",
		    version->name, version->version.time, !!item->reasons);
	rd_json_begin(&ctl->out, "reasons", '[');
	for (i = 0; i < CTL_KEEP_RULES; i++)
		if (item->reasons >> i & 1)
			rd_json_string(&ctl->out, NULL, ctl_keep_names[i]);
	rd_json_end(&ctl->out, ']');
	rd_json_bool(&ctl->out, "dry_run", prune->dry);
	ctl_json_end(ctl);
}

static void print_text(struct prune *prune, const struct ctl_version *version,
		       const struct ctl_keep_item *item)
{
	const char *comma = "  ";
	unsigned int i;

	/* Deleted versions are printed when they are deleted. */
	if (!prune->dry && rd_verbosity < 1)
		return;
	printf("%-12s  %-20s  %s", item->reasons ? "keep" : prune->dry ? "would delete" : "delete",
	       version->name, ctl_time(version->version.time));
	for (i = 0; i < CTL_KEEP_RULES; i++) {
		if (!(item->reasons >> i & 1))
			continue;
		printf("%s%s", comma, ctl_keep_names[i]);
		comma = ", ";
	}
	putchar('\n');
}

static int refuse_all(const struct ctl_volume *volume)
{
	rd_err(0, "this would delete all versions of '%s'", volume->name);
	rd_hint("nothing was deleted; keep more, or use --unsafe-allow-remove-all");
	return -EPERM;
}

static int plan_versions(struct prune *prune, const struct ctl_volume *volume,
			 const struct ctl_version *versions, size_t nr)
{
	RD_FREE struct ctl_keep_item *items = calloc(nr, sizeof(*items));
	size_t i, kept = 0;
	int r = items ? 0 : -ENOMEM;

	for (i = 0; i < nr && !r; i++)
		r = fill_item(prune->ctl, &versions[i].version, &items[i]);
	if (!r)
		r = ctl_keep(&prune->policy, items, nr);
	if (r)
		return r;
	for (i = 0; i < nr; i++)
		kept += items[i].reasons != 0;
	if (!kept && !ctl_has(prune->ctl, CTL_OPT_REMOVE_ALL))
		return refuse_all(volume);
	for (i = 0; i < nr; i++) {
		if (prune->ctl->json)
			print_json(prune, &versions[i], &items[i]);
		else
			print_text(prune, &versions[i], &items[i]);
		if (!items[i].reasons)
			rd_buffer_put(&prune->delete, &versions[i], sizeof(versions[i]));
	}
	return prune->delete.failed ? -ENOMEM : 0;
}

static int plan_volume(struct prune *prune, const struct ctl_volume *volume)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	int r;

	r = ctl_versions(prune->ctl, volume, &versions);
	if (!r && versions.len)
		r = plan_versions(prune, volume, (struct ctl_version *)versions.data,
				  versions.len / sizeof(struct ctl_version));
	return r;
}

static int plan(struct prune *prune, const char *name)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	int r;

	r = rd_sql_begin_read(prune->ctl->pool->sql);
	if (r)
		return r;
	r = ctl_volumes(prune->ctl, name, &volumes);
	rd_each(volume, &volumes)
		if (!r)
			r = plan_volume(prune, volume);
	rd_sql_end_read(prune->ctl->pool->sql);
	return r;
}

static int prune_planned(struct prune *prune)
{
	struct ctl_version *versions = (struct ctl_version *)prune->delete.data;
	size_t nr = prune->delete.len / sizeof(*versions);

	return prune->dry ? ctl_delete_dry(prune->ctl, versions, nr) :
		ctl_delete(prune->ctl, versions, nr, keeps_tagged);
}

int cmd_prune(struct ctl *ctl)
{
	struct prune prune = { .ctl = ctl, .dry = ctl_has(ctl, CTL_OPT_DRY_RUN) };
	struct ctl_name name;
	int r;

	r = ctl->nr_operands ? ctl_volume_operand(ctl, 0, &name) : 0;
	if (!r)
		r = check_options(&prune);
	if (!r)
		r = ctl_open(ctl, prune.dry ? RD_POOL_READ : RD_POOL_DELETE);
	if (!r)
		print_settings(ctl);
	if (!r)
		r = plan(&prune, ctl->nr_operands ? name.volume : NULL);
	if (!r)
		r = prune_planned(&prune);
	if (r >= 0 && ctl->pool && !prune.dry)
		ctl_boot_tests_clear(ctl);
	rd_buffer_free(&prune.delete);
	return r;
}
