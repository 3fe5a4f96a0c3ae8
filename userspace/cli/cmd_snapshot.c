// SPDX-License-Identifier: GPL-2.0
/* revdedupctl snapshot: take a version of a volume. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/read_text.h"
#include "host/volume/attach/safety.h"
#include "pool/engine/snapshot/snapshot.h"
#include "change_list.h"
#include "lastscrub.h"
#include "served_disk.h"
#include "snapshot.h"

/* --- the list of changes */

static int read_all(const char *path, struct rd_buffer *ret)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return rd_err(-errno, "cannot open '%s'", path);
	r = rd_read_text(fd, SIZE_MAX, ret);
	return r && r != -ENOMEM ? rd_err(r, "cannot read '%s'", path) : r;
}

static int read_changed(const char *path, const char *volume, struct ctl_changed *ret)
{
	struct rd_buffer text = { 0 };
	const char *wrong = NULL;
	unsigned int line;
	int r;

	r = read_all(path, &text);
	if (!r) {
		wrong = ctl_changed_parse(ret, (char *)text.data, text.len - 1, &line);
		rd_buffer_free(&text);
	}
	if (wrong)
		rd_err(0, "'%s', line %u: %s", path, line, wrong);
	else if (!r && ret->volume[0] && strcmp(ret->volume, volume))
		rd_err(0, "'%s' lists changes of '%s', not of '%s'", path, ret->volume, volume);
	else
		return r;
	rd_hint("no version was made; --full-scan ignores the list");
	return CTL_FAILED;
}

/* --- the report */

static const char *reason_of(struct ctl *ctl, const struct rd_snapshot_report *report)
{
	if (report->reason || strcmp(report->mode, "full"))
		return report->reason;
	if (ctl_has(ctl, CTL_OPT_FULL_SCAN))
		return "as requested";
	return ctl_is_served(ctl, ctl_value(ctl, CTL_OPT_FROM)) ?
		"no bitmap was named, see --bitmap" : "image files are not tracked, see --changed";
}

static void print_reads(struct rd_json *out, const struct rd_lookup_counts *counts)
{
	rd_json_add(out, "index_reads={ neither=%llu vector=%llu cache=%llu both=%llu }",
		    rd_lookup_reads(counts, false, false), rd_lookup_reads(counts, true, false),
		    rd_lookup_reads(counts, false, true), rd_lookup_reads(counts, true, true));
}

static void print_lookups(struct rd_json *out, const struct rd_lookup_counts *counts)
{
	rd_json_begin(out, "lookups", '{');
	rd_json_add(out, "asked=%llu same_offset=%llu cache=%llu cache_sampled=%llu unsampled=%llu",
		    counts->asked, counts->same_offset, counts->cache, counts->cache_sampled,
		    counts->unsampled);
	rd_json_add(out, "vector_no=%llu index_asked=%llu index_found=%llu false_positive=%llu",
		    counts->vector_no, counts->index_asked, counts->index_found,
		    counts->false_positive);
	rd_json_add(out, "pages_read=%llu stale=%llu found=%llu refused=%llu",
		    counts->pages_read, counts->stale, counts->found, counts->refused);
	print_reads(out, counts);
	rd_json_end(out, '}');
}

static void print_json(struct ctl *ctl, const char *volume, const char *name,
		       const struct rd_snapshot_report *report, u64 pause_us)
{
	const struct rd_version *version = &report->version;
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, "snapshot");
	rd_json_add(out, "version=%s volume=%s number=%llu time=%llu size=%llu mode=%s reason=%s",
		    name, volume, version->number, version->time, version->size, report->mode,
		    reason_of(ctl, report));
	rd_json_add(out, "consistent=%d segments_read=%llu segments_audited=%llu bytes_read=%llu",
		    version->is_consistent, version->dirty, report->segments_audited,
		    version->bytes_read);
	rd_json_add(out, "blocks_changed=%llu segments_changed=%llu segments_shared=%llu",
		    version->blocks_changed, report->segments_changed, report->segments_shared);
	rd_json_add(out, "segments_pieces=%llu segments_in_part=%llu bytes_stored=%llu",
		    report->segments_pieces, report->segments_in_part, version->bytes_stored);
	rd_json_u64(out, "blocks_waiting", report->blocks_waiting);
	if (report->lookups.asked)
		print_lookups(out, &report->lookups);
	if (pause_us)
		rd_json_u64(out, "usec_pause", pause_us);
	rd_json_add(out, "usec_copy=%llu usec_reverse=%llu usec_free=%llu",
		    report->usec_copy, report->usec_reverse, report->usec_free);
	ctl_json_end(ctl);
}

static void print_more(const struct rd_snapshot_report *report)
{
	/* If one of them differs, everything is read, and that is the reason. */
	if (report->segments_audited && !strcmp(report->mode, "changed"))
		printf("audit: compared %llu clean segments, none differ\n",
		       report->segments_audited);
	printf("%llu segments changed: %llu of them were in the pool already, of %llu only what differs was written; %llu unchanged ones were written again in one piece\n",
	       report->segments_changed, report->segments_shared, report->segments_in_part,
	       report->segments_pieces);
	if (report->blocks_waiting)
		printf("%llu blocks of older versions wait for 'revdedupctl dedup': looking for them in all of the volume would take longer than the snapshot\n",
		       report->blocks_waiting);
}

static void print_text(struct ctl *ctl, const char *name,
		       const struct rd_snapshot_report *report, u64 pause_us)
{
	const struct rd_version *version = &report->version;
	const char *reason = reason_of(ctl, report);
	u64 ms = (report->usec_copy + report->usec_reverse + report->usec_free) / 1000;

	if (ctl->quiet)
		return;
	if (reason)
		printf("%s: full read: %s\n%llu segments, ", name, reason, version->dirty);
	else
		printf("%s: %llu changed segments, ", name,
		       version->dirty - report->segments_audited);
	if (!reason && report->segments_audited)
		printf("%llu audited, ", report->segments_audited);
	printf("read %s, changed %s, wrote %s to the pool in %llu.%llu s\n",
	       ctl_size(version->bytes_read), ctl_size(version->blocks_changed * RD_BLOCK_SIZE),
	       ctl_size(version->bytes_stored), ms / 1000, ms / 100 % 10);
	if (pause_us)
		printf("writes to the volume paused for %llu.%llu ms\n", pause_us / 1000,
		       pause_us / 100 % 10);
	if (rd_verbosity > 0)
		print_more(report);
}

void ctl_tell_snapshot(struct ctl *ctl, const char *volume,
		       const struct rd_snapshot_report *report, u64 pause_us)
{
	char name[CTL_VERSION_TEXT];

	ctl_name_print(name, volume, report->version.number);
	if (ctl->json)
		print_json(ctl, volume, name, report, pause_us);
	else
		print_text(ctl, name, report, pause_us);
}

bool ctl_snapshot_exists(struct ctl *ctl, const struct rd_snapshot_report *report)
{
	struct rd_version version;

	return ctl->pool && report->version.id &&
		!rd_version_by_id(ctl->pool->sql, report->version.id, &version) &&
		version.state != RD_VERSION_WRITING;
}

static void explain_failure(struct ctl *ctl, const char *name,
			    const struct rd_snapshot_report *report, int r)
{
	/* Another host has the pool then, and this catalog is of no account. */
	if (r == -ESTALE && report->version.id)
		rd_hint("'revdedupctl list' says whether %s was made", name);
	else if (ctl_snapshot_exists(ctl, report))
		rd_hint("%s was made and can be used; the next command that writes to the pool finishes the rest",
			name);
	else
		rd_hint("no version was made; existing versions are unchanged");
}

/* --- */

int ctl_live_snapshot_options(const struct ctl *ctl, const struct rd_snapshot_options *options,
			      struct rd_live_options *ret)
{
	*ret = (struct rd_live_options){
		.comment = options->comment,
		.tags = options->tags,
		.compression = options->compression,
		.rule = options->rule,
		.verify_hits = options->verify_hits,
	};
	return ctl_live_options(ctl, ret);
}

static int take_live(struct ctl *ctl, const struct rd_snapshot_options *options,
		     struct rd_attachment *at, struct rd_live_report *report)
{
	struct rd_live_options live;
	struct rd_caller caller;
	int r;

	r = ctl_live_snapshot_options(ctl, options, &live);
	if (!r)
		r = ctl_caller(ctl, &caller);
	return r ? r : rd_live_snapshot(&caller, at, &live, report);
}

/* Take a version of a disk that a server has. */
static int take_served(struct ctl *ctl, struct rd_snapshot_options *options,
		       struct rd_live_report *report)
{
	struct ctl_served_disk disk = { 0 };
	int r, left;

	/* First: a moment costs others, and what it finds there is no running command's. */
	r = rd_snapshot_lock(ctl->pool, options->volume, &options->rule);
	if (!r)
		r = ctl_served_begin(ctl, options, &disk);
	if (!r)
		r = rd_snapshot(ctl->pool, options, &report->snapshot);
	left = ctl_served_end(&disk);
	report->undo_failed = !r && left;
	return r;
}

static int take_version(struct ctl *ctl, struct rd_snapshot_options *options,
			struct rd_attachment *at, struct rd_live_report *report)
{
	if (at)
		return take_live(ctl, options, at, report);
	return ctl_is_served(ctl, options->from) ? take_served(ctl, options, report) :
		rd_snapshot(ctl->pool, options, &report->snapshot);
}

/* Take a version of the attached volume @at, or of options->from if it is NULL. */
static int take(struct ctl *ctl, struct rd_snapshot_options *options, struct rd_attachment *at)
{
	struct rd_live_report report = { 0 };
	bool is_image = !at && !ctl_is_served(ctl, options->from);
	char name[CTL_VERSION_TEXT];
	int r;

	if (is_image && rd_is_of_pool(ctl->pool->path, options->from)) {
		rd_err(0, "'%s' is part of the pool", options->from);
		rd_hint("no version was made; --from names the image or device to read");
		return CTL_FAILED;
	}
	r = is_image ? rd_check_image(options->from, options->may_change, &options->is_in_use) : 0;
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, options->volume);
	r = take_version(ctl, options, at, &report);
	ctl_progress_clear(&ctl->progress);
	ctl_name_print(name, options->volume, report.snapshot.version.number);
	if (r)
		explain_failure(ctl, name, &report.snapshot, r);
	else
		ctl_tell_snapshot(ctl, options->volume, &report.snapshot, report.pause_us);
	if (r || !report.undo_failed)
		return r;
	rd_hint("%s was made and can be used; see the message above", name);
	return CTL_PARTLY;
}

/* Append each --tag with a NUL, and a NUL. */
static int read_tags(struct ctl *ctl, struct rd_buffer *ret)
{
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++) {
		const char *tag = ctl->given[i].value;

		if (ctl->given[i].option != CTL_OPT_TAG)
			continue;
		if (!ctl_is_tag(tag))
			return ctl_usage(ctl, "'%s' is not a tag: it begins with a letter, has no blank, and is not 'latest'",
					 tag);
		rd_buffer_put(ret, tag, strlen(tag) + 1);
	}
	return rd_buffer_put_u8(ret, '\0');
}

static int check_comment(struct ctl *ctl, const char *comment)
{
	if (comment && strlen(comment) >= sizeof(((struct rd_version *)NULL)->comment))
		return ctl_usage(ctl, "the comment is longer than 255 bytes");
	return 0;
}

/* Find the attached volume. *@ret is NULL if options->from is to be read. */
static int find_source(struct ctl *ctl, const struct rd_snapshot_options *options,
		       struct rd_attachment **ret)
{
	struct rd_attachment *at = malloc(sizeof(*at));
	int r;

	*ret = at;
	if (!at)
		return -ENOMEM;
	r = rd_attachment_load(at, options->volume);
	if (!r && (options->from || ctl_has(ctl, CTL_OPT_CHANGED) || options->may_change))
		return ctl_usage(ctl, "'%s' is attached: leave out --from, --changed and --force",
				 options->volume);
	if (r != -ENOENT)
		return r;
	free(at);
	*ret = NULL;
	if (!options->from)
		return ctl_usage(ctl, "'%s' is not attached: name an image or device with --from",
				 options->volume);
	if (ctl_has_typed(ctl, CTL_OPT_COW_SIZE) || ctl_has_typed(ctl, CTL_OPT_HOOK_TIMEOUT))
		return ctl_usage(ctl, "--cow-size and --hook-timeout are for a volume that is attached");
	return 0;
}

/* --- one, or all */

/* What the pool has is not read again to store it: a new version can have old damage. */
void ctl_warn_of_damage(const struct ctl *ctl)
{
	struct ctl_last_scrub last;

	ctl_last_scrub_read(ctl, &last);
	if (last.time == CTL_UNKNOWN || !(last.versions || last.fingerprints))
		return;
	rd_warn("the last scrub found damage, which a new version shares where it has the same content");
	rd_hint("'revdedupctl repair --from PATH' heals it, with an image or device that has the content");
}

static int snapshot(struct ctl *ctl, struct rd_snapshot_options *options, struct rd_attachment *at)
{
	int r = ctl_open(ctl, RD_POOL_WRITE);

	if (!r)
		r = take(ctl, options, at);
	if (!r)
		ctl_warn_of_damage(ctl);
	if (at)
		rd_attachment_unlock(at);
	return ctl_close(ctl, r);
}

static int snapshot_one(struct ctl *ctl, struct rd_snapshot_options *options)
{
	RD_FREE struct rd_attachment *at = NULL;
	const char *list = ctl_value(ctl, CTL_OPT_CHANGED);
	struct ctl_changed changed = { 0 };
	struct ctl_name name;
	int r;

	r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = ctl_served_check(ctl, options->from);
	if (!r)
		r = check_comment(ctl, options->comment);
	if (r)
		return r;
	options->volume = name.volume;
	r = find_source(ctl, options, &at);
	if (!r && list && !ctl_has(ctl, CTL_OPT_FULL_SCAN)) {
		r = read_changed(list, name.volume, &changed);
		options->changed = &changed.changed;
	}
	if (!r)
		r = snapshot(ctl, options, at);
	ctl_changed_free(&changed);
	return r;
}

/* Would each other volume fail as well? Without a pool, or if the user interrupts. */
static bool is_for_all(int r)
{
	return r == CTL_USAGE || r == CTL_NO_POOL || r == -EINTR;
}

/* Open the pool for each volume, so that the remains of a failure do not stop the next. */
static int snapshot_all(struct ctl *ctl, struct rd_snapshot_options *options)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	unsigned int made = 0, failed = 0;
	struct rd_attachment *at;
	int one = 0, r = 0;

	/* A file that cannot be read counts as a failure, and hides no other volume. */
	failed += rd_attachments(&all) != 0;
	rd_each(at, &all) {
		if (is_for_all(one))
			break;
		options->volume = at->volume;
		one = snapshot(ctl, options, at);
		made += !one;
		failed += one != 0;
		r = r ? r : one;
		if (one && !is_for_all(one))
			rd_err(0, "'%s' failed: see above", at->volume);
	}
	if (is_for_all(one))
		return one;
	if (!made && !failed)
		rd_warn("no volume is attached on this host");
	return !failed ? 0 : made || !r ? CTL_PARTLY : r;
}

static int take_one_or_all(struct ctl *ctl, const char *tags)
{
	struct rd_snapshot_options options = {
		.from = ctl_value(ctl, CTL_OPT_FROM),
		.comment = ctl_value(ctl, CTL_OPT_COMMENT),
		.tags = tags,
		.may_change = ctl_has(ctl, CTL_OPT_FORCE),
		.verify_hits = ctl_has(ctl, CTL_OPT_VERIFY_HITS),
	};
	bool all = ctl_has(ctl, CTL_OPT_ALL);
	struct rd_compression compression;
	int r;

	r = ctl_value_compression(ctl, ctl_value(ctl, CTL_OPT_COMPRESSION),
				  &compression);
	if (!r)
		r = ctl_value_rule(ctl, &options.rule);
	if (!r && ctl_pieces_are_auto(ctl))
		r = ctl_usage(ctl, "--pieces auto is for init and tune");
	if (r)
		return r;
	/* What is not given is as the pool and the volume say. */
	if (ctl_has(ctl, CTL_OPT_COMPRESSION))
		options.compression = &compression;
	if (all == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a volume, or use --all");
	if (ctl_has(ctl, CTL_OPT_LIBVIRT)) {
		r = check_comment(ctl, options.comment);
		return r ? r : ctl_snapshot_domain(ctl, &options);
	}
	if (ctl_has(ctl, CTL_OPT_GROUP)) {
		r = ctl_served_check(ctl, NULL);
		if (!r)
			r = check_comment(ctl, options.comment);
		return r ? r : ctl_snapshot_group(ctl, &options);
	}
	if (ctl->nr_operands > 1)
		return ctl_usage(ctl, "unexpected argument '%s': several volumes need --group or --all",
				 ctl->operands[1]);
	if (!all)
		return snapshot_one(ctl, &options);
	if (options.from || ctl_has(ctl, CTL_OPT_CHANGED) || options.may_change)
		return ctl_usage(ctl, "--from, --changed and --force are for one volume");
	r = ctl_served_check(ctl, NULL);
	if (r)
		return r;
	r = check_comment(ctl, options.comment);
	return r ? r : snapshot_all(ctl, &options);
}

int cmd_snapshot(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer tags = { 0 };
	int r = read_tags(ctl, &tags);

	if (!r)
		r = take_one_or_all(ctl, (const char *)tags.data);
	return r;
}
