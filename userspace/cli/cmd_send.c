// SPDX-License-Identifier: GPL-2.0
/* revdedupctl send: versions to another pool, here or elsewhere, or into a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elsewhere.h"
#include "picks.h"
#include "remote.h"

/* --- what, and where to */

bool ctl_sends_by_config(const struct ctl *ctl)
{
	return ctl->command->run == cmd_send && !ctl->nr_operands && !ctl_has(ctl, CTL_OPT_ALL) &&
		!ctl_has_typed(ctl, CTL_OPT_TO);
}

/* Does the command line name one volume? */
static bool is_for_one(const struct ctl *ctl)
{
	return ctl->nr_operands == 1 && ctl->operands[0][0] != '@';
}

static int check_options(const struct ctl *ctl, bool to_file)
{
	if (ctl_has(ctl, CTL_OPT_ALL) == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a volume or a version, or use --all");
	if (!is_for_one(ctl) && ctl_has(ctl, CTL_OPT_AS))
		return ctl_usage(ctl, "--as is for one volume");
	if (!is_for_one(ctl) && ctl_has(ctl, CTL_OPT_SINCE))
		return ctl_usage(ctl, "--since is for one volume");
	if (to_file && isatty(STDOUT_FILENO))
		return ctl_usage(ctl, "name a pool with --to, or send stdout to a file or a program");
	if (to_file && ctl->json)
		return ctl_usage(ctl, "without --to stdout is the stream, so there is no --json");
	if (to_file && ctl_has(ctl, CTL_OPT_DRY_RUN))
		return ctl_usage(ctl, "--dry-run asks another pool: name it with --to");
	return ctl_check_as(ctl);
}

/* --since names a version of the volume, as behind an @. */
static int find_since(struct ctl *ctl, i64 *ret)
{
	const char *since = ctl_value(ctl, CTL_OPT_SINCE), *wrong;
	char text[2 * CTL_NAME_MAX + 2];
	struct ctl_version version;
	struct ctl_name name;
	int r;

	if (!since)
		return 0;
	ctl_name_parse(&name, ctl->operands[0]);
	snprintf(text, sizeof(text), "%s@%.*s", name.volume, CTL_NAME_MAX, since);
	wrong = ctl_name_parse(&name, text);
	if (wrong)
		return ctl_usage(ctl, "'%s' %s", text, wrong);
	r = ctl_find(ctl, &name, &version);
	*ret = version.version.number;
	return r;
}

static int set_picks(struct ctl *ctl, struct ctl_picks *picks)
{
	int i;

	for (i = 0; i < ctl->nr_operands; i++)
		rd_buffer_put(&picks->texts, ctl->operands[i], strlen(ctl->operands[i]) + 1);
	return picks->texts.failed ? -ENOMEM : 0;
}

/* --- telling */

struct telling {
	struct ctl *ctl;
	const char *to;		/* NULL: a file */
	const char *place;	/* @to, whatever directory it was typed in */
	char subject[CTL_VERSION_TEXT];
	struct rd_buffer elsewhere;	/* struct ctl_elsewhere each */
};

/* Note what the other pool has, for status. */
static void note(struct telling *telling, const struct rd_send_pick *pick,
		 const struct rd_version *version)
{
	struct ctl_elsewhere one = { .number = version->number, .time = version->time };
	size_t nr = telling->elsewhere.len / sizeof(one);
	struct ctl_elsewhere *all = (struct ctl_elsewhere *)telling->elsewhere.data;

	if (!telling->to)
		return;
	snprintf(one.volume, sizeof(one.volume), "%s", pick->name);
	snprintf(one.to, sizeof(one.to), "%s", telling->place);
	if (nr && !strcmp(all[nr - 1].volume, one.volume))
		all[nr - 1] = one;
	else
		rd_buffer_put(&telling->elsewhere, &one, sizeof(one));
}

static void json_begin(const struct telling *telling, const char *type,
		       const struct rd_send_pick *pick)
{
	struct ctl *ctl = telling->ctl;

	ctl_json_begin(ctl, type);
	rd_json_add(&ctl->out, "version=%s to=%s as=%s", telling->subject, telling->to, pick->as);
}

/* @base: NULL where all of it goes, or, @would false, where it is there already. */
static void tell_dry(struct telling *telling, const struct rd_send_pick *pick, bool would,
		     const struct rd_version *version, const struct rd_version *base, u64 bytes)
{
	char since[CTL_VERSION_TEXT] = "";
	struct ctl *ctl = telling->ctl;

	ctl_name_print(telling->subject, pick->name, version->number);
	if (base)
		ctl_name_print(since, pick->name, base->number);
	if (ctl->json) {
		json_begin(telling, would ? "send" : "there", pick);
		if (base)
			rd_json_string(&ctl->out, "since", since);
		if (would)
			rd_json_u64(&ctl->out, base ? "bytes_changed" : "size", bytes);
		rd_json_bool(&ctl->out, "dry_run", true);
		ctl_json_end(ctl);
	} else if (!would) {
		printf("%s has %s\n", telling->to, telling->subject);
	} else if (base) {
		printf("would send %s to %s: %s changed since %s\n", telling->subject,
		       telling->to, ctl_size(bytes), since);
	} else {
		printf("would send %s to %s: all of %s\n", telling->subject, telling->to,
		       ctl_size(bytes));
	}
}

static void tell(void *ctx, enum rd_send_event event, const struct rd_send_pick *pick,
		 const struct rd_version *version, const struct rd_version *base, u64 bytes)
{
	struct telling *telling = ctx;
	struct ctl *ctl = telling->ctl;

	if (ctl_has(ctl, CTL_OPT_DRY_RUN)) {
		tell_dry(telling, pick, event == RD_SEND_WOULD, version, base, bytes);
		return;
	}
	if (event == RD_SEND_BEGINS) {
		ctl_name_print(telling->subject, pick->name, version->number);
		ctl_progress_begin(&ctl->progress, telling->subject);
		return;
	}
	note(telling, pick, version);
	if (event == RD_SEND_THERE)
		return;
	ctl_progress_clear(&ctl->progress);
	if (ctl->json) {
		json_begin(telling, "send", pick);
		rd_json_u64(&ctl->out, "bytes_sent", bytes);
		ctl_json_end(ctl);
	} else if (!ctl->quiet && telling->to) {
		printf("sent %s to %s: %s\n", telling->subject, telling->to, ctl_size(bytes));
	} else {
		rd_info("sent %s: %s", telling->subject, ctl_size(bytes));
	}
}

static void tell_all(struct ctl *ctl, const struct rd_wire *wire, const char *to,
		     const struct rd_send_report *report)
{
	u64 bytes = wire->sent + wire->received;

	if (ctl->json) {
		ctl_json_begin(ctl, "sent");
		rd_json_string(&ctl->out, "to", to);
		if (ctl_has(ctl, CTL_OPT_DRY_RUN))
			rd_json_bool(&ctl->out, "dry_run", true);
		rd_json_add(&ctl->out, "versions=%llu versions_refused=%llu volumes_unchanged=%llu",
			    report->versions, report->skipped, report->there);
		rd_json_add(&ctl->out, "segments_changed=%llu segments_there=%llu blocks_sent=%llu",
			    report->segments, report->segments_there, report->blocks);
		rd_json_add(&ctl->out, "blocks_there=%llu bytes_sent=%llu bytes_received=%llu",
			    report->blocks_there, wire->sent, wire->received);
		ctl_json_end(ctl);
	} else if (!ctl->quiet && !report->versions && !report->skipped) {
		printf("nothing new to send to %s\n", to);
	} else if (!ctl->quiet && !ctl_has(ctl, CTL_OPT_DRY_RUN)) {
		printf("%llu version%s: %s over the wire, for %s that was not there%s%s%s\n",
		       report->versions, report->versions == 1 ? "" : "s", ctl_size(bytes),
		       ctl_size(report->blocks * RD_BLOCK_SIZE),
		       report->blocks_there ? ", and " : "",
		       report->blocks_there ? ctl_size(report->blocks_there * RD_BLOCK_SIZE) : "",
		       report->blocks_there ? " that was" : "");
	}
}

/* --- */

static int send_to(struct ctl *ctl, const char *to, const struct rd_send_options *options)
{
	struct telling *telling = options->ctx;
	struct rd_send_report report;
	struct ctl_remote remote;
	char real[PATH_MAX];
	int r = ctl_remote_start(ctl, to, &remote, 'S');

	if (r)
		return r;
	telling->place = !remote.host[0] && realpath(remote.pool, real) ? real : to;
	r = rd_send(ctl->pool, &remote.wire, options, &report);
	r = ctl_remote_end(&remote, r);
	if (!remote.is_own)
		ctl_elsewhere_write(ctl->pool->path, &telling->elsewhere);
	if (r)
		return r;
	tell_all(ctl, &remote.wire, to, &report);
	return report.skipped ? CTL_PARTLY : 0;
}

static int send_to_file(struct ctl *ctl, const struct rd_send_options *options)
{
	struct rd_wire wire = { .in = -1, .out = STDOUT_FILENO, .peer = "stdout" };
	struct rd_send_report report;
	int r = ctl_wire(ctl, &wire);

	if (!r)
		r = rd_wire_begin(&wire, 'F', NULL);
	if (!r)
		r = rd_send_file(ctl->pool, &wire, options, &report);
	if (!r && !report.versions)
		rd_warn("the stream has no version: none is newer than the one of --since");
	rd_wire_end(&wire);
	return r;
}

static int send(struct ctl *ctl, const char *to, struct ctl_picks *picks)
{
	struct telling telling = { .ctl = ctl, .to = to };
	struct rd_send_options options = {
		.force = ctl_has(ctl, CTL_OPT_FORCE),
		.dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN),
		.tell = tell,
		.ctx = &telling,
	};
	struct rd_compression compression = rd_compression_default;
	int r = ctl_value_number(ctl, CTL_OPT_NEWEST, 1, CTL_KEEP_MAX, &options.newest);

	if (!r && ctl_has(ctl, CTL_OPT_COMPRESSION))
		r = ctl_value_compression(ctl, ctl_value(ctl, CTL_OPT_COMPRESSION),
					  &compression);
	options.compression = compression;
	options.anew = ctl_has(ctl, CTL_OPT_COMPRESSION);
	if (!r)
		r = options.dry_run ? ctl_open(ctl, RD_POOL_READ) : ctl_open_to_send(ctl);
	if (!r)
		r = ctl_picks_find(ctl, picks, &options);
	if (!r)
		r = find_since(ctl, &options.base);
	if (!r)
		r = to ? send_to(ctl, to, &options) : send_to_file(ctl, &options);
	rd_buffer_free(&telling.elsewhere);
	ctl_picks_free(picks);
	return ctl_close(ctl, r);
}

/* --- by revdedup.conf: a pool, and patterns of volumes */

static int send_setting(struct ctl *ctl, const char *value)
{
	RD_FREE char *text = strdup(value);
	struct ctl_picks picks = { 0 };
	char *at = NULL, *to = text ? strtok_r(text, " \t", &at) : NULL, *pattern;

	if (!to)
		return text ? ctl_usage(ctl, "[send] has a line 'to' without a pool") : -ENOMEM;
	while ((pattern = strtok_r(NULL, " \t", &at)))
		rd_buffer_put(&picks.patterns, pattern, strlen(pattern) + 1);
	if (picks.patterns.failed)
		return -ENOMEM;
	return send(ctl, to, &picks);
}

/* One pool that cannot be reached keeps no other from what it gets. */
static int send_settings(struct ctl *ctl)
{
	unsigned int i, nr = 0;
	int r, first = 0;

	for (i = 0; i < ctl->nr_given; i++) {
		if (ctl->given[i].option != CTL_OPT_TO)
			continue;
		nr++;
		r = send_setting(ctl, ctl->given[i].value);
		first = first ? first : r;
		if (r == -EINTR)
			break;
	}
	if (!nr)
		return ctl_usage(ctl, "name a volume or a version, or use --all; or let [send] in '%s' say what goes where",
				 ctl->config.path);
	return first;
}

int cmd_send(struct ctl *ctl)
{
	const char *to = ctl_value(ctl, CTL_OPT_TO);
	struct ctl_picks picks = { 0 };
	int r;

	if (ctl_sends_by_config(ctl))
		return send_settings(ctl);
	r = check_options(ctl, !to);
	if (!r)
		r = set_picks(ctl, &picks);
	return r ? r : send(ctl, to, &picks);
}
