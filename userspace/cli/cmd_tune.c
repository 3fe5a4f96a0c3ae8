// SPDX-License-Identifier: GPL-2.0
/* revdedupctl tune: how much is stored of what is new, in the pool and in its volumes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/engine/journal/journal.h"
#include "pool/engine/space/choices.h"
#include "pool/engine/version/version.h"
#include "tune.h"

const char *ctl_dedup_name(struct rd_rule rule)
{
	return rule.dedup == RD_DEDUP_INLINE ? "inline" : "reverse";
}

void ctl_json_rule(struct ctl *ctl, struct rd_rule rule)
{
	rd_json_add(&ctl->out, "pieces=%u dedup=%s", rule.pieces, ctl_dedup_name(rule));
}

/* --- showing */

static void print_rule(struct ctl *ctl, const char *volume, struct rd_rule rule, bool own)
{
	if (ctl->json) {
		ctl_json_begin(ctl, "tune");
		rd_json_string(&ctl->out, "volume", volume);
		ctl_json_rule(ctl, rule);
		rd_json_bool(&ctl->out, "own", own);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("%s: pieces %u, dedup %s%s\n", volume ? volume : "pool", rule.pieces,
		       ctl_dedup_name(rule), volume && !own ? " (as the pool)" : "");
	}
}

/* The pool's rule, or that of one volume; without @volume also those of volumes with their own. */
static int show(struct ctl *ctl, const char *volume)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *each;
	struct rd_rule rule;
	bool own;
	int r = ctl_volumes(ctl, volume, &volumes);

	if (!r && !volume)
		print_rule(ctl, NULL, ctl->pool->area.super.rule, true);
	rd_each(each, &volumes) {
		if (r)
			break;
		r = rd_rule_of(ctl->pool, each->id, &rule, &own);
		if (!r && (volume || own))
			print_rule(ctl, each->name, rule, own);
	}
	return r;
}

/* --- measuring */

static void print_measured(struct ctl *ctl, const struct rd_measure_report *report)
{
	char next[64] = "";

	if (ctl->json || ctl->quiet)
		return;
	if (report->next)
		snprintf(next, sizeof(next), ", of %u KiB %.2f", RD_SEG_SIZE / 1024 / report->next,
			 report->next_share);
	printf("pieces %u: reads of %u KiB anywhere reach %.2f of a sequential read here%s\n",
	       report->pieces, RD_SEG_SIZE / 1024 / report->pieces, report->share, next);
}

int ctl_measure(struct ctl *ctl, bool by_default, struct rd_measure_report *report)
{
	int r, freed;

	ctl_progress_begin(&ctl->progress, "measure");
	r = rd_measure(ctl->pool, by_default, report);
	freed = rd_free_queue(ctl->pool);
	ctl_progress_clear(&ctl->progress);
	return r ? r : freed;
}

static int measure_pieces(struct ctl *ctl, u16 *ret)
{
	struct rd_measure_report report;
	int r = ctl_measure(ctl, false, &report);

	if (r == -ENOSPC)
		rd_err(0, "there is no room to measure the disk: %llu MiB in a row are not free",
		       (unsigned long long)RD_MEASURE_ROOM >> 20);
	if (r)
		return r;
	print_measured(ctl, &report);
	*ret = report.pieces;
	return 0;
}

/* --- changing */

static void hint_at_pieces(const struct ctl *ctl, struct rd_rule rule)
{
	if (rule.dedup == RD_DEDUP_INLINE && rule.pieces == 1 && !ctl->quiet)
		rd_hint("dedup inline has no effect in 1 piece; --pieces allows more");
}

static int change_volume(struct ctl *ctl, const char *name, const struct rd_rule_change *change)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	struct rd_rule rule;
	i64 volume;
	int r = ctl_volumes(ctl, name, &volumes);

	if (r)
		return r;
	volume = ((const struct ctl_volume *)volumes.data)->id;
	if (ctl_has(ctl, CTL_OPT_RESET))
		return rd_rule_choose_for(ctl->pool, volume, NULL);
	r = rd_rule_of(ctl->pool, volume, &rule, NULL);
	if (r)
		return r;
	rd_rule_apply(&rule, change);
	hint_at_pieces(ctl, rule);
	return rd_rule_choose_for(ctl->pool, volume, &rule);
}

int ctl_rule_choose(struct ctl *ctl, struct rd_rule rule)
{
	hint_at_pieces(ctl, rule);
	return rd_rule_choose(ctl->pool, rule);
}

static int change_pool(struct ctl *ctl, const struct rd_rule_change *change)
{
	struct rd_rule rule = ctl->pool->area.super.rule;

	rd_rule_apply(&rule, change);
	return ctl_rule_choose(ctl, rule);
}

static int tune(struct ctl *ctl, const char *volume, struct rd_rule_change *change)
{
	int r = 0;

	if (ctl_pieces_are_auto(ctl))
		r = measure_pieces(ctl, &change->pieces);
	if (!r)
		r = volume ? change_volume(ctl, volume, change) : change_pool(ctl, change);
	/* When a command ends, the pool's copy of the catalog has its changes. */
	return r ? r : rd_journal_flush(ctl->pool);
}

int cmd_tune(struct ctl *ctl)
{
	bool changes = ctl_has(ctl, CTL_OPT_PIECES) || ctl_has(ctl, CTL_OPT_DEDUP);
	bool resets = ctl_has(ctl, CTL_OPT_RESET);
	struct rd_rule_change change;
	struct ctl_name name = { 0 };
	const char *volume = NULL;
	int r;

	r = ctl_value_rule(ctl, &change);
	if (!r && ctl->nr_operands) {
		r = ctl_volume_operand(ctl, 0, &name);
		volume = name.volume;
	}
	if (!r && resets && (changes || !volume))
		r = ctl_usage(ctl, "--reset is for a volume, without --pieces and --dedup");
	if (!r)
		r = ctl_open(ctl, changes || resets ? RD_POOL_WRITE : RD_POOL_READ);
	if (!r && (changes || resets))
		r = tune(ctl, volume, &change);
	return r ? r : show(ctl, volume);
}
