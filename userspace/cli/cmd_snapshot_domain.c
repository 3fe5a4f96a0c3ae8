// SPDX-License-Identifier: GPL-2.0
/* revdedupctl snapshot --libvirt: versions of the disks of a domain, of one moment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "host/qemu/domain.h"
#include "pool/engine/snapshot/snapshot_group.h"
#include "pool/served/bitmap.h"
#include "snapshot.h"

/* A disk that becomes a version, or the definition. */
struct copy {
	char volume[CTL_NAME_MAX + 1];
	const struct rd_domain_disk *disk;	/* NULL: the definition, which is the last one */
	struct rd_nbd *nbd;
	struct rd_bitmap_list list;
	struct rd_snapshot_options options;
	struct rd_snapshot_report report;
};

struct moment {
	struct ctl *ctl;
	struct rd_domain domain;
	char name[2 * CTL_NAME_MAX];	/* of the group */
	unsigned int nr;
	struct copy *copies;
	struct rd_snapshot_group *group;
	bool is_made;
	int left;			/* in libvirt, an error */
};

/* --- which disks */

/* "DOMAIN" or "DOMAIN/DISK". */
static int choose(struct moment *moment, char *operand)
{
	char *target = strchr(operand, '/');
	struct rd_domain_disk *disk;
	int r;

	if (target)
		*target++ = '\0';
	moment->domain.name = operand;
	r = rd_domain_disks(&moment->domain);
	if (r)
		return r;
	rd_each(disk, &moment->domain.disks) {
		disk->is_wanted = !target || !strcmp(disk->target, target);
		moment->nr += disk->is_wanted;
	}
	if (moment->nr++)
		return 0;
	rd_err(0, "the domain '%s' has no disk '%s'", operand, target);
	return -ENOENT;
}

static int name_volume(struct moment *moment, const char *what, char volume[CTL_NAME_MAX + 1])
{
	int len = snprintf(volume, CTL_NAME_MAX + 1, "%s/%s", moment->domain.name, what);

	return len <= CTL_NAME_MAX && ctl_is_volume(volume) ? 0 : -EINVAL;
}

/* Name the volumes, and lock each before its newest version is looked for. */
static int find_volumes(struct moment *moment, const struct rd_snapshot_options *options)
{
	struct rd_pool *pool = moment->ctl->pool;
	struct rd_domain_disk *disk;
	struct copy *copy = moment->copies;
	char volume[CTL_NAME_MAX + 1];
	int r = 0;

	rd_each(disk, &moment->domain.disks) {
		bool is_named = !name_volume(moment, disk->target, volume);

		if (!r && disk->is_wanted && !is_named)
			r = ctl_usage(moment->ctl, "'%s' cannot be the name of a volume", volume);
		if (!r && disk->is_wanted) {
			memcpy(copy->volume, volume, sizeof(volume));
			copy->disk = disk;
			copy++;
			r = rd_snapshot_lock(pool, volume, &options->rule);
		}
		/* What others need is kept, so all are looked for. */
		if (!r && is_named)
			r = rd_version_newest(pool->sql, volume, &disk->newest);
	}
	if (!r && name_volume(moment, CTL_DEFINITION, copy->volume))
		r = ctl_usage(moment->ctl, "'%s' cannot be the name of a volume", copy->volume);
	return r ? r : rd_snapshot_lock(pool, copy->volume, &options->rule);
}

/* --- copying */

static int check(void *ctx)
{
	const struct moment *moment = ctx;

	return rd_domain_check(&moment->domain);
}

static void look(void *ctx)
{
	struct moment *moment = ctx;

	rd_domain_look(&moment->domain);
}

/* All versions exist: nothing more is read, and what comes can take long. */
static void let_go(struct moment *moment)
{
	unsigned int i;

	for (i = 0; i < moment->nr; i++) {
		rd_nbd_close(moment->copies[i].nbd);
		moment->copies[i].nbd = NULL;
	}
	moment->ctl->progress.look = NULL;
	moment->is_made = true;
	moment->left = rd_domain_end(&moment->domain, true);
}

static int open_disk(struct moment *moment, struct copy *copy)
{
	const struct rd_domain_disk *disk = copy->disk;
	bool has_bitmap = disk->old[0];
	int r;

	copy->options.from = disk->uri;
	copy->options.check = check;
	copy->options.ctx = moment;
	copy->options.why_full = ctl_has(moment->ctl, CTL_OPT_FULL_SCAN) ? "as requested" :
		disk->why_full;
	r = rd_nbd_open(&copy->nbd, &(struct rd_nbd_options){
		.uri = disk->uri,
		.bitmap = has_bitmap ? RD_DOMAIN_BITMAP : NULL,
		.stop = moment->ctl->progress.progress.stop,
		.look = look,
		.ctx = moment,
	});
	if (!r)
		r = rd_bitmap_choose(&copy->list, copy->nbd, &disk->newest,
				     has_bitmap ? disk->old : NULL,
				     disk->has_bitmaps && moment->domain.checkpoint[0] ?
				     moment->domain.checkpoint : NULL,
				     &copy->options);
	if (!r)
		copy->options.store = rd_nbd_store(copy->nbd);
	return r;
}

static int open_copy(struct moment *moment, struct copy *copy,
		     const struct rd_snapshot_options *options)
{
	copy->options = *options;
	copy->options.volume = copy->volume;
	copy->options.waits = true;
	if (copy->disk)
		return open_disk(moment, copy);
	copy->options.from = moment->domain.definition;
	copy->options.why_full = "it is a definition";
	return 0;
}

/* All of them exist, or none. */
static int copy_all(struct moment *moment, const struct rd_snapshot_options *options)
{
	struct rd_snapshot_group *group = moment->group;
	time_t now = time(NULL);
	unsigned int i;
	int r = 0;

	for (i = 0; i < moment->nr && !r; i++) {
		struct copy *copy = &moment->copies[i];

		r = open_copy(moment, copy, options);
		copy->options.time = now;
		if (!r)
			r = rd_snapshot_group_copy(group, &copy->options, &copy->report);
	}
	if (!r)
		r = rd_snapshot_group_bear(group);
	if (!r)
		let_go(moment);
	return r ? r : rd_snapshot_group_settle(group, 0);
}

/* --- */

static int name_moment(struct moment *moment)
{
	const char *name = ctl_value(moment->ctl, CTL_OPT_GROUP);
	time_t now = time(NULL);
	char date[32];
	struct tm tm;
	u16 random;

	if (name && !ctl_is_tag(name))
		return ctl_usage(moment->ctl, "--group: '%s' is not a tag: it begins with a letter, has no blank, and is not 'latest'",
				 name);
	if (!localtime_r(&now, &tm) || !strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm))
		date[0] = '\0';
	snprintf(moment->name, sizeof(moment->name), "%s", name ? name : "");
	/* Two domains have one in the same second. */
	if (!name && getrandom(&random, sizeof(random), 0) == sizeof(random))
		snprintf(moment->name, sizeof(moment->name), "moment-%s-%04x", date, random);
	return moment->name[0] ? 0 : -EIO;
}

static void tell(struct moment *moment)
{
	unsigned int i, disks = moment->nr - 1;
	const struct copy *definition = &moment->copies[disks];
	char name[CTL_VERSION_TEXT];

	/* The definition is no news. */
	for (i = 0; i < (moment->ctl->json ? moment->nr : disks); i++)
		ctl_tell_snapshot(moment->ctl, moment->copies[i].volume,
				  &moment->copies[i].report, 0);
	ctl_name_print(name, definition->volume, definition->report.version.number);
	if (moment->ctl->json)
		ctl_json(moment->ctl, "group", "name=%s versions=%llu", moment->name,
			 (u64)moment->nr);
	else if (!moment->ctl->quiet)
		printf("@%s: %u version%s of one moment, and the definition, %s\n", moment->name,
		       disks, disks == 1 ? "" : "s", name);
}

static void end(struct moment *moment, int r)
{
	unsigned int i;

	moment->ctl->progress.look = NULL;
	for (i = 0; i < moment->nr && moment->copies; i++) {
		rd_nbd_close(moment->copies[i].nbd);
		rd_buffer_free(&moment->copies[i].list.ranges);
	}
	rd_snapshot_group_free(moment->group);
	/* A commit may have failed, and be one, unless another host has the pool. */
	if (!moment->is_made && r != -ESTALE)
		moment->is_made = moment->copies &&
			ctl_snapshot_exists(moment->ctl, &moment->copies[0].report);
	if (rd_domain_end(&moment->domain, moment->is_made))
		moment->left = -EREMOTEIO;
	rd_domain_free(&moment->domain);
}

static int take(struct moment *moment, const struct rd_snapshot_options *options)
{
	struct ctl *ctl = moment->ctl;
	int r;

	moment->domain.pool = ctl->pool->area.super.uuid;
	moment->domain.lock_fd = ctl->pool->lock_fd;
	ctl_progress_begin(&ctl->progress, moment->domain.name);
	r = rd_snapshot_group_new(&moment->group, ctl->pool, moment->name, moment->nr);
	if (!r)
		r = find_volumes(moment, options);
	if (!r)
		r = rd_domain_begin(&moment->domain);
	/* Between two disks nothing is read. */
	ctl->progress.look = r ? NULL : look;
	ctl->progress.ctx = moment;
	if (!r)
		r = copy_all(moment, options);
	ctl_progress_clear(&ctl->progress);
	return r;
}

int ctl_snapshot_domain(struct ctl *ctl, const struct rd_snapshot_options *options)
{
	RD_FREE char *operand = ctl->nr_operands == 1 ? strdup(ctl->operands[0]) : NULL;
	RD_FREE struct copy *copies = NULL;
	struct moment moment = {
		.ctl = ctl,
		.domain = {
			.temp = ctl_value(ctl, CTL_OPT_TEMP) ? : RD_DEN_PLACE,
			.follows = rd_bitmap_is_of,
			.force = ctl_has(ctl, CTL_OPT_FORCE),
		},
	};
	int r;

	if (!operand || options->from || ctl_has(ctl, CTL_OPT_CHANGED) ||
	    ctl_has(ctl, CTL_OPT_QMP) || ctl_has(ctl, CTL_OPT_BITMAP) ||
	    ctl_has(ctl, CTL_OPT_NEXT_BITMAP) || ctl_has_typed(ctl, CTL_OPT_SIZE))
		return ctl_usage(ctl, "--libvirt takes DOMAIN or DOMAIN/DISK, without --from, --size, --qmp and lists of changes");
	r = name_moment(&moment);
	if (!r)
		r = choose(&moment, operand);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (r) {
		rd_domain_free(&moment.domain);
		return r;
	}
	copies = calloc(moment.nr, sizeof(*copies));
	moment.copies = copies;
	r = copies ? take(&moment, options) : -ENOMEM;
	end(&moment, r);
	if (!r) {
		tell(&moment);
		ctl_warn_of_damage(ctl);
	}
	if (!r && moment.left)
		r = CTL_PARTLY;
	else if (r == -ESTALE)
		rd_hint("'revdedupctl list' says whether the versions were made");
	else if (r && moment.is_made)
		rd_hint("the versions were made and can be used; the next command that writes to the pool finishes the rest");
	else if (r && r != CTL_USAGE)
		rd_hint("no version was made; existing versions are unchanged");
	return r;
}
