// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl repair: heal damage from other copies, or make the catalog anew from the pool
 * alone. It exits with 0 if afterwards every version can be restored, and check and scrub find
 * nothing.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "host/volume/attach/safety.h"
#include "pool/engine/care/adopt.h"
#include "pool/engine/care/check.h"
#include "pool/engine/care/copy.h"
#include "pool/engine/care/heal.h"
#include "pool/engine/care/rebuild_supers.h"
#include "cli.h"
#include "lastscrub.h"

/* 'scrub' lists the rest. */
#define MAX_LINES	100

/* --- the catalog */

static void print_kept(const char *old)
{
	if (old[0])
		printf("the old catalog is kept as %s: remove it after a scrub without errors\n",
		       old);
}

static void print_rebuilt(struct ctl *ctl, const char *path,
			  const struct rd_rebuild_report *report)
{
	if (ctl->json) {
		ctl_json(ctl, "repair", "versions=%llu", report->nr_versions);
	} else if (!ctl->quiet) {
		printf("made a new catalog for '%s': %llu versions\n", path,
		       report->nr_versions);
		print_kept(report->old);
	}
}

static int rebuild_catalog(struct ctl *ctl)
{
	struct rd_rebuild_report report;
	int r;

	if (ctl_has(ctl, CTL_OPT_FROM) || ctl_has(ctl, CTL_OPT_DRY_RUN))
		return ctl_usage(ctl, "--rebuild-catalog works on the whole catalog and from the pool alone: leave out --%s",
				 ctl_has(ctl, CTL_OPT_FROM) ? "from" : "dry-run");
	r = ctl_open(ctl, RD_POOL_REPAIR);
	if (!r)
		r = rd_rebuild_catalog(ctl->pool, ctl_has(ctl, CTL_OPT_FORCE), &report);
	if (!r)
		print_rebuilt(ctl, ctl->pool->path, &report);
	return ctl_close(ctl, r);
}

/* --- the data */

static u64 nr_left(const struct rd_damage_report *report)
{
	return report->blocks_bad - report->blocks_healed + report->fps_bad -
		report->fps_healed + report->recipes_lost;
}

static void print_json(struct ctl *ctl, const struct rd_damage_report *report)
{
	ctl_json_begin(ctl, "repair");
	rd_json_add(&ctl->out, "bytes_read=%llu blocks_damaged=%llu blocks_healed=%llu",
		    report->bytes_read, report->blocks_bad, report->blocks_healed);
	rd_json_add(&ctl->out, "fingerprints_damaged=%llu fingerprints_healed=%llu",
		    report->fps_bad, report->fps_healed);
	rd_json_add(&ctl->out, "segments_lost=%llu catalog_copy_healed=%d",
		    report->recipes_lost, report->journal_bad);
	ctl_json_end(ctl);
}

static void print_text(const struct ctl *ctl, const struct rd_damage_report *report)
{
	const char *would = ctl_has(ctl, CTL_OPT_DRY_RUN) ? "would be " : "";

	printf("read %s: %llu blocks damaged, %llu %shealed\n", ctl_size(report->bytes_read),
	       report->blocks_bad, report->blocks_healed, would);
	if (report->fps_bad)
		printf("%llu fingerprints damaged, %llu %smade again\n", report->fps_bad,
		       report->fps_healed, would);
	if (report->journal_bad)
		printf("the copy of the catalog was damaged, and %s\n",
		       *would ? "would be made again" : "was made again");
}

/*
 * Tell of what is not healed, where no version needs it: what a command has left that was killed,
 * which a dry run does not undo, or fingerprints. True: that is damage of the pool.
 */
static bool tell_unneeded(const struct rd_damage_report *report)
{
	if (report->fps_bad > report->fps_healed) {
		rd_err(0, "%llu fingerprints are damaged, and no version is",
		       report->fps_bad - report->fps_healed);
		return true;
	}
	rd_warn("what is damaged is of no version: a command that was killed has left it");
	rd_hint("the next command that writes gives it back");
	return false;
}

/* Print the report. @nr_wrong: errors of the catalog after the repair. */
static int tell(struct ctl *ctl, const struct rd_damage_report *report, u64 nr_wrong)
{
	struct ctl_last_scrub last = {
		.fingerprints = report->fps_bad - report->fps_healed,
		.wrong = nr_wrong,
	};
	u64 versions, damaged;
	int r;

	r = ctl_tell_damage(ctl, report, MAX_LINES, &versions, &damaged);
	if (r)
		return r;
	last.versions = damaged;
	if (!ctl_has(ctl, CTL_OPT_DRY_RUN))
		ctl_last_scrub_write(ctl, &last);
	if (ctl->json)
		print_json(ctl, report);
	else if (!ctl->quiet)
		print_text(ctl, report);
	if (nr_wrong) {
		rd_err(0, "the catalog still has %llu errors", nr_wrong);
		rd_hint("'revdedupctl repair --rebuild-catalog' makes a new one from its copy");
	}
	if (!nr_left(report))
		return nr_wrong ? CTL_DAMAGE : 0;
	if (!damaged)
		return tell_unneeded(report) || nr_wrong ? CTL_DAMAGE : 0;
	rd_err(0, "%llu of %llu versions %s still%s damaged", damaged, versions,
	       ctl_has(ctl, CTL_OPT_DRY_RUN) ? "would" : "are",
	       ctl_has(ctl, CTL_OPT_DRY_RUN) ? " be" : "");
	rd_hint("an image or device with the same content, such as the disk itself, can heal more: 'revdedupctl repair --from PATH'");
	return CTL_DAMAGE;
}

/* Fill in @from, which has room for all options. */
static int get_images(struct ctl *ctl, struct rd_heal_options *options, const char **from)
{
	unsigned int i;

	options->from = from;
	for (i = 0; i < ctl->nr_given; i++) {
		const char *path = ctl->given[i].value;

		if (ctl->given[i].option != CTL_OPT_FROM)
			continue;
		if (rd_is_of_pool(ctl->pool->path, path)) {
			rd_err(0, "'%s' is part of the pool", path);
			rd_hint("the pool itself is searched anyway");
			return CTL_FAILED;
		}
		from[options->nr_from++] = path;
	}
	return 0;
}

/*
 * Check the catalog first: a copy of a damaged catalog must not replace the copy from which a
 * sound one can be made.
 */
static int check_before(struct ctl *ctl)
{
	struct rd_check_report report = { .wrong = ctl_print_wrong, .ctx = ctl };
	int r = rd_check_catalog(ctl->pool, &report);

	if (r || !report.nr_wrong)
		return r;
	rd_err(0, "the catalog has %llu errors", report.nr_wrong);
	rd_hint("nothing was changed; 'revdedupctl repair --rebuild-catalog' makes a new one from its copy");
	return CTL_DAMAGE;
}

/*
 * Check the catalog again. If blocks are lost, the data area differs from it, and that was
 * reported already.
 */
static int check_after(struct ctl *ctl, bool is_whole, u64 *ret_wrong)
{
	struct rd_check_report report = { .wrong = ctl_print_wrong, .ctx = ctl };
	int r;

	*ret_wrong = 0;
	if (ctl_has(ctl, CTL_OPT_DRY_RUN))
		return 0;
	r = is_whole ? rd_check(ctl->pool, &report) : rd_check_catalog(ctl->pool, &report);
	*ret_wrong = report.nr_wrong;
	return r;
}

/* After the pool, which may have got from them what it gives back now. */
static int heal_copies(struct ctl *ctl)
{
	struct rd_copy_check copies;
	int r = rd_copy_check(ctl->pool, !ctl_has(ctl, CTL_OPT_DRY_RUN), &copies);

	ctl_progress_clear(&ctl->progress);
	if (r == -EINTR || r == -ENOMEM)
		return r;
	ctl_tell_copies(ctl, &copies);
	if (r)
		rd_warn("not all copies were checked; the pool does without them");
	return 0;
}

static int heal(struct ctl *ctl)
{
	RD_FREE const char **from = calloc(ctl->nr_given + 1, sizeof(*from));
	struct rd_heal_options options = { .dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN) };
	struct rd_damage_report report = { 0 };
	u64 nr_wrong;
	int r;

	if (!from)
		return -ENOMEM;
	r = ctl_open(ctl, options.dry_run ? RD_POOL_READ : RD_POOL_WRITE);
	if (!r)
		r = get_images(ctl, &options, from);
	if (!r)
		r = check_before(ctl);
	if (!r)
		r = rd_heal(ctl->pool, &options, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		r = heal_copies(ctl);
	if (!r && !options.dry_run && !nr_left(&report))
		r = rd_adopt_finish(ctl->pool);
	if (!r)
		r = check_after(ctl, !nr_left(&report), &nr_wrong);
	if (!r)
		r = tell(ctl, &report, nr_wrong);
	rd_buffer_free(&report.rows);
	return r;
}

/* --- the superblocks */

static int make_supers(struct ctl *ctl)
{
	int r = ctl_open(ctl, RD_POOL_LOST);

	if (!r)
		r = rd_supers_rebuild(ctl->pool);
	/* Else the next snapshots write all that is in more pieces. */
	if (!r)
		rd_hint("the rule of the pool is one piece and reverse now; if it was another one, 'revdedupctl tune' sets it, before the next snapshot");
	return ctl_close(ctl, r);
}

/* --- catalog and data area that are not of one life */

static int adopt_catalog(struct ctl *ctl)
{
	char old[RD_REBUILD_OLD];
	int r;

	r = ctl_open(ctl, RD_POOL_APART);
	if (!r)
		r = rd_adopt_catalog(ctl->pool, old);
	if (!r && !ctl->quiet && !ctl->json)
		print_kept(old);
	return ctl_close(ctl, r);
}

static int force(struct ctl *ctl)
{
	int r;

	if (ctl_has(ctl, CTL_OPT_DRY_RUN))
		return ctl_usage(ctl, "--force cannot be tried: leave out --dry-run");
	r = make_supers(ctl);
	if (r == -EEXIST)
		r = adopt_catalog(ctl);
	if (r == -EEXIST)
		r = ctl_usage(ctl, "--force is for --rebuild-catalog, and for a pool that has lost both superblocks or whose catalog and data area do not belong together");
	return r;
}

int cmd_repair(struct ctl *ctl)
{
	int r = 0;

	if (ctl_has(ctl, CTL_OPT_REBUILD_CATALOG))
		r = rebuild_catalog(ctl);
	else if (ctl_has(ctl, CTL_OPT_FORCE))
		r = force(ctl);
	/* The command ends when every version can be restored. */
	return r ? r : heal(ctl);
}
