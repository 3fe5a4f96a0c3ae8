// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl scrub: read content and compare it with its fingerprints. For a pool, the
 * catalog is counted again first, then everything is read in the order on disk, each block
 * once; a volume or a version is read as restore would read it.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "pool/catalog/owners.h"
#include "pool/engine/care/check.h"
#include "pool/engine/care/copy.h"
#include "pool/engine/care/damage.h"
#include "pool/engine/read/restore.h"
#include "cli.h"
#include "lastscrub.h"

struct scrub {
	struct ctl *ctl;
	struct rd_buffer damage;	/* of the volume, as text */
	u64 bytes, bytes_all;		/* of versions that were read, and of all: for progress */
	u64 nr_versions, nr_damaged, nr_left_out, bytes_read, nr_fps;
	u64 nr_wrong;			/* in the catalog */
	bool in_parts;
	struct ctl_scrub_part part;	/* if so: this one and those before */
};

static void print_json(struct ctl *ctl, const struct ctl_version *version,
		       const struct rd_restore_report *report)
{
	ctl_json_version_begin(ctl, version);
	rd_json_u64(&ctl->out, "bytes_read", report->bytes_read);
	ctl_json_bad(ctl, report);
	ctl_json_end(ctl);
}

static int read_version(struct scrub *scrub, const struct ctl_version *version)
{
	struct rd_restore_options options = {
		.version = version->version,
		.mode = RD_RESTORE_NONE,
		.fd = -1,
	};
	struct rd_restore_report report = { 0 };
	struct ctl *ctl = scrub->ctl;
	int r;

	ctl_progress_part(&ctl->progress, version->name, scrub->bytes, scrub->bytes_all);
	r = rd_restore(ctl->pool, &options, &report);
	ctl_progress_clear(&ctl->progress);
	scrub->bytes += version->version.size;
	scrub->bytes_read += report.bytes_read;
	/* A version whose recipes are damaged need not stop the scrub of others. */
	scrub->nr_wrong += r == -EUCLEAN;
	scrub->nr_versions += !r;
	scrub->nr_damaged += !r && report.bad.len;
	if (!r && ctl->json)
		print_json(ctl, version, &report);
	else if (!r)
		ctl_damage_add(&scrub->damage, version->version.number, &report.bad);
	rd_buffer_free(&report.bad);
	return r == -EUCLEAN ? 0 : r;
}

/* Does it still exist? A version that was deleted since it was listed is skipped. */
static int still_exists(struct ctl *ctl, struct ctl_version *version, bool *ret)
{
	int r = rd_version_by_id(ctl->pool->sql, version->version.id, &version->version);

	*ret = !r && rd_version_exists(&version->version);
	return r == -ENOENT ? 0 : r;
}

static int scrub_version(struct scrub *scrub, struct ctl_version *version)
{
	struct ctl *ctl = scrub->ctl;
	struct rd_lock lock = RD_LOCK_NONE;
	bool exists = false;
	int r;

	r = rd_pool_lock(ctl->pool, &lock, RD_LOCK_VERSION, version->version.id, false,
			 version->name);
	if (r == -EBUSY) {
		scrub->nr_left_out++;
		return 0;
	}
	if (!r)
		r = still_exists(ctl, version, &exists);
	if (!r && exists)
		r = read_version(scrub, version);
	rd_lock_drop(&lock);
	return r;
}

/* --- which */

static int print_damage(struct scrub *scrub, const char *volume, int r)
{
	u64 lines_left = U64_MAX;

	if (!r && scrub->damage.failed)
		r = -ENOMEM;
	/* Also what was found before an error. */
	ctl_damage_print(volume, &scrub->damage, "", &lines_left);
	rd_buffer_free(&scrub->damage);
	return r;
}

static int scrub_volume(struct scrub *scrub, const char *name)
{
	RD_BUFFER struct rd_buffer volumes = { 0 }, versions = { 0 };
	const struct ctl_volume *volume;
	struct ctl_version *version;
	int r;

	r = ctl_volumes(scrub->ctl, name, &volumes);
	rd_each(volume, &volumes)
		if (!r)
			r = ctl_versions(scrub->ctl, volume, &versions);
	rd_each(version, &versions)
		scrub->bytes_all += version->version.size;
	rd_each(version, &versions)
		if (!r)
			r = scrub_version(scrub, version);
	return print_damage(scrub, name, r);
}

static int scrub_one(struct scrub *scrub, const struct ctl_name *name)
{
	struct ctl_version version;
	int r;

	r = ctl_find(scrub->ctl, name, &version);
	if (!r)
		r = ctl_lock_version(scrub->ctl, &version);
	if (r)
		return r;
	scrub->bytes_all = version.version.size;
	return print_damage(scrub, name->volume, read_version(scrub, &version));
}

static int check_catalog(struct scrub *scrub, bool *ret_readable)
{
	struct rd_check_report report = { .wrong = ctl_print_wrong, .ctx = scrub->ctl };
	int r = rd_check(scrub->ctl->pool, &report);

	scrub->nr_wrong = report.nr_wrong;
	*ret_readable = !report.is_unreadable;
	return r;
}

/* @part: only so much, or NULL. */
static int read_all(struct scrub *scrub, struct rd_damage_part *part)
{
	struct rd_damage_report report;
	struct ctl *ctl = scrub->ctl;
	int r;

	r = rd_damage_find(ctl->pool, part, NULL, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		r = ctl_tell_damage(ctl, &report, U64_MAX, &scrub->nr_versions,
				    &scrub->nr_damaged);
	scrub->bytes_read = report.bytes_read;
	scrub->nr_fps = report.fps_bad;
	rd_buffer_free(&report.rows);
	return r;
}

/* They are no part of the pool: what is wrong with them damages no version. */
static int read_copies(struct scrub *scrub)
{
	struct rd_copy_check copies;
	int r = rd_copy_check(scrub->ctl->pool, false, &copies);

	ctl_progress_clear(&scrub->ctl->progress);
	if (!r)
		ctl_tell_copies(scrub->ctl, &copies);
	return r;
}

static bool is_damaged(const struct scrub *scrub)
{
	return scrub->nr_damaged || scrub->nr_fps || scrub->nr_wrong;
}

/* What an earlier part of this round has found is said until a repair, or a round, finds none. */
static bool was_damaged(const struct scrub *scrub)
{
	struct ctl_last_scrub last;

	ctl_last_scrub_read(scrub->ctl, &last);
	return scrub->part.since && last.time >= scrub->part.since && ctl_last_found_damage(&last);
}

static void note(const struct scrub *scrub, bool is_end)
{
	const struct ctl_last_scrub last = {
		.versions = scrub->nr_damaged,
		.fingerprints = scrub->nr_fps,
		.wrong = scrub->nr_wrong,
	};

	if (is_damaged(scrub) || (is_end && !was_damaged(scrub)))
		ctl_last_scrub_write(scrub->ctl, &last);
	ctl_scrub_part_write(scrub->ctl, &(struct ctl_scrub_part){
		.next = is_end ? 0 : scrub->part.next,
		.read = scrub->part.read,
		.all = scrub->part.all,
		.since = scrub->part.since,
	});
}

/* How much is read; 0: no limit. A part goes on where the last one ended. */
static int begin_part(struct scrub *scrub, struct rd_damage_part *ret)
{
	const char *text = ctl_value(scrub->ctl, CTL_OPT_SAMPLE);
	double percent = 0;
	u64 rate, blocks, bytes;
	int r;

	*ret = (struct rd_damage_part){ 0 };
	r = ctl_value_pace(scrub->ctl, &rate, &ret->until_us);
	if (!r && text && ctl_share_parse(text, &percent, &ret->max_bytes))
		r = ctl_usage(scrub->ctl, "--sample needs a share such as 5%% or a size such as 10G, not '%s'",
			      text);
	scrub->in_parts = percent > 0 || ret->max_bytes || ret->until_us;
	if (r || !scrub->in_parts)
		return r;
	r = rd_blocks_owned(scrub->ctl->pool->sql, &blocks);
	if (r)
		return r;
	bytes = blocks * RD_BLOCK_SIZE;
	if (percent > 0)
		ret->max_bytes = rd_max(percent / 100 * bytes, 1);
	ctl_scrub_part_read(scrub->ctl, &scrub->part);
	if (!scrub->part.next)
		scrub->part = (struct ctl_scrub_part){ .all = bytes, .since = time(NULL) };
	ret->next = scrub->part.next;
	return 0;
}

static int scrub_all(struct scrub *scrub)
{
	struct rd_damage_part part;
	bool readable, is_end = true;
	int r;

	r = begin_part(scrub, &part);
	if (!r)
		r = check_catalog(scrub, &readable);
	if (!r && readable) {
		r = read_all(scrub, scrub->in_parts ? &part : NULL);
		is_end = !scrub->in_parts || part.next == U64_MAX;
		scrub->part.next = part.next;
		scrub->part.read += scrub->bytes_read;
	}
	if (!r && is_end)
		r = read_copies(scrub);
	if (!r)
		note(scrub, is_end);
	return r;
}

/* --- */

static void print_so_far(const struct scrub *scrub)
{
	if (scrub->part.next == U64_MAX)
		fputs("the last part of the pool, ", stdout);
	else
		printf("%u %% of the pool so far, ", ctl_scrub_part_percent(&scrub->part));
}

static void tell_text(const struct scrub *scrub)
{
	printf("scrub %s: ", is_damaged(scrub) ? "found damage" : "OK");
	if (!scrub->in_parts)
		printf("%llu version%s, ", scrub->nr_versions, scrub->nr_versions == 1 ? "" : "s");
	printf("%s read, ", ctl_size(scrub->bytes_read));
	if (scrub->in_parts)
		print_so_far(scrub);
	if (scrub->nr_damaged)
		printf("%llu damaged", scrub->nr_damaged);
	else
		printf("no version damaged");
	if (scrub->nr_left_out)
		printf(", %llu not read: another command deletes them", scrub->nr_left_out);
	putchar('\n');
}

static void tell(const struct scrub *scrub)
{
	struct ctl *ctl = scrub->ctl;

	if (ctl->json) {
		ctl_json_begin(ctl, "scrub");
		rd_json_add(&ctl->out, "versions=%llu versions_damaged=%llu versions_left_out=%llu",
			    scrub->nr_versions, scrub->nr_damaged, scrub->nr_left_out);
		rd_json_add(&ctl->out, "fingerprints_damaged=%llu catalog_errors=%llu",
			    scrub->nr_fps, scrub->nr_wrong);
		rd_json_u64(&ctl->out, "bytes_read", scrub->bytes_read);
		if (scrub->in_parts)
			rd_json_u64(&ctl->out, "percent_so_far", scrub->part.next == U64_MAX ? 100 :
				    ctl_scrub_part_percent(&scrub->part));
		ctl_json_end(ctl);
		return;
	}
	if (!ctl->quiet)
		tell_text(scrub);
	if (scrub->nr_fps)
		rd_err(0, "%llu fingerprints are damaged, but their blocks are not",
		       scrub->nr_fps);
	if (scrub->nr_wrong)
		rd_err(0, "the catalog has %llu errors", scrub->nr_wrong);
	if (!is_damaged(scrub))
		return;
	rd_hint("nothing was changed; 'revdedupctl repair' heals whatever it finds another copy of; 'restore' writes everything that is not damaged");
	ctl_tell_moved(ctl);
}

int cmd_scrub(struct ctl *ctl)
{
	struct scrub scrub = { .ctl = ctl };
	struct ctl_name name;
	int r = 0;

	if (ctl->nr_operands)
		r = ctl_version_operand(ctl, 0, true, &name);
	if (!r && ctl->nr_operands &&
	    (ctl_has_typed(ctl, CTL_OPT_SAMPLE) || ctl_has_typed(ctl, CTL_OPT_TIME)))
		r = ctl_usage(ctl, "--sample and --time are for the whole pool");
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r && ctl->nr_operands && name.kind != CTL_NAME_VOLUME)
		r = scrub_one(&scrub, &name);
	else if (!r && ctl->nr_operands)
		r = scrub_volume(&scrub, name.volume);
	else if (!r)
		r = scrub_all(&scrub);
	if (r)
		return r;
	tell(&scrub);
	return is_damaged(&scrub) ? CTL_DAMAGE : scrub.nr_left_out ? CTL_PARTLY : 0;
}
