// SPDX-License-Identifier: GPL-2.0
/* revdedupctl copies: the frames on which most depends, a second time on another disk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/pace.h"
#include "host/volume/attach/safety.h"
#include "pool/catalog/owners.h"
#include "pool/data/copies.h"
#include "pool/engine/care/copy.h"
#include "cli.h"

struct copies {
	double percent;		/* of what is stored; or */
	u64 bytes;		/* with no percentage. Neither: there shall be none */
	u64 rate;
	struct rd_copy_report report;
};

static int read_options(struct ctl *ctl, struct copies *ret)
{
	const char *text = ctl->nr_operands ? ctl->operands[0] : ctl_value(ctl, CTL_OPT_COPIES);
	u64 until_us;

	*ret = (struct copies){ .rate = 0 };
	if (!text)
		return ctl_usage(ctl, "say how much to have a second time: a share such as 1%%, a size such as 10G, or 0");
	if (ctl_share_parse(text, &ret->percent, &ret->bytes))
		return ctl_usage(ctl, "'copies' needs a share such as 1%%, a size such as 10G, or 0, not '%s'",
				 text);
	return ctl_value_pace(ctl, &ret->rate, &until_us);
}

static bool are_removed(const struct copies *copies)
{
	return !copies->bytes && !(copies->percent > 0);
}

/* Where are they, or where shall they be? The caller frees *@ret. */
static int find_copies(struct ctl *ctl, bool *ret_is_new, char **ret)
{
	RD_FREE char *link = rd_path_in(ctl->pool->path, "copies");
	RD_FREE char *to = NULL;
	const char *named = ctl_value(ctl, CTL_OPT_TO);
	struct stat st;

	if (!link)
		return -ENOMEM;
	*ret_is_new = lstat(link, &st) && errno == ENOENT;
	*ret = realpath(link, NULL);
	if (*ret_is_new) {
		*ret = named ? strdup(named) : NULL;
		return *ret ? 0 : ctl_usage(ctl, "the pool has no copies yet: name a file or device on another disk with --to");
	}
	if (!*ret) {
		rd_err(-errno, "cannot find the copies '%s'", link);
		rd_hint("no copy was changed; bring back their disk, or remove them by 'revdedupctl copies 0'");
		return CTL_FAILED;
	}
	to = named ? realpath(named, NULL) : NULL;
	if (!named || (to && !strcmp(to, *ret)))
		return 0;
	rd_err(0, "the copies of the pool are '%s' already", *ret);
	rd_hint("no copy was changed; 'revdedupctl copies 0' removes them");
	return CTL_FAILED;
}

/* What is wrong with those that there are is a warning. */
static int check_there(const struct rd_pool *pool)
{
	struct rd_copies copies;
	int r = rd_copies_open(&copies, pool->path, pool->area.super.uuid, false);

	if (!r) {
		rd_copies_close(&copies);
		return 0;
	}
	rd_err(0, "the copies were not brought up to date");
	rd_hint("no copy was changed; 'revdedupctl copies 0' removes the link to them");
	return r == -ENOMEM ? r : CTL_FAILED;
}

static int prepare(struct ctl *ctl)
{
	RD_FREE char *path = NULL;
	bool is_new;
	int r;

	r = find_copies(ctl, &is_new, &path);
	if (!r)
		r = rd_check_copies(ctl->pool->path, path, is_new, ctl_has(ctl, CTL_OPT_FORCE));
	if (r)
		return r;
	return is_new ? rd_copy_make(ctl->pool, path) : check_there(ctl->pool);
}

static int update(struct ctl *ctl, struct copies *copies)
{
	struct rd_pace pace = { .rate = copies->rate };
	u64 blocks;
	int r;

	if (are_removed(copies))
		return rd_copy_remove(ctl->pool);
	r = rd_blocks_owned(ctl->pool->sql, &blocks);
	if (r)
		return r;
	blocks = copies->bytes ? copies->bytes / RD_BLOCK_SIZE :
		(double)blocks * copies->percent / 100;
	return rd_copy_update(ctl->pool, blocks, &pace, &copies->report);
}

static void print(struct ctl *ctl, const struct copies *copies)
{
	const struct rd_copy_report *report = &copies->report;

	if (ctl->json) {
		ctl_json_begin(ctl, "copies");
		rd_json_add(&ctl->out, "bytes=%llu frames=%llu bytes_copied=%llu",
			    report->blocks * RD_BLOCK_SIZE, report->frames,
			    report->copied * RD_BLOCK_SIZE);
		rd_json_add(&ctl->out, "frames_dropped=%llu frames_kept=%llu blocks_damaged=%llu",
			    report->dropped, report->kept, report->damaged);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("copies: %s, %s of it copied now\n",
		       ctl_size(report->blocks * RD_BLOCK_SIZE),
		       ctl_size(report->copied * RD_BLOCK_SIZE));
	}
	if (report->damaged)
		rd_err(0, "%llu block%s not copied, because of damage", report->damaged,
		       report->damaged == 1 ? " was" : "s were");
	if (report->kept)
		rd_err(0, "the copies of %llu frame%s kept, because they have what is damaged",
		       report->kept, report->kept == 1 ? " were" : "s were");
	if (report->damaged || report->kept)
		rd_hint("'revdedupctl repair' heals what there is another copy of");
}

int cmd_copies(struct ctl *ctl)
{
	struct copies copies;
	int r = read_options(ctl, &copies);

	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r && !are_removed(&copies))
		r = prepare(ctl);
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, "copies");
	r = update(ctl, &copies);
	ctl_progress_clear(&ctl->progress);
	if (!r || copies.report.copied)
		print(ctl, &copies);
	if (!r && (copies.report.damaged || copies.report.kept))
		r = CTL_PARTLY;
	return r;
}
