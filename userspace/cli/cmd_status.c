// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl status: print the state of the pool, and of the volumes that are attached on this
 * host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "health.h"
#include "poolstatus.h"

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void print_json(struct ctl *ctl, const struct rd_health *health)
{
	const struct rd_target_status *target = &health->target;
	struct rd_json *out = &ctl->out;
	char path[RD_DM_PATH_MAX], note[CTL_NOTE_TEXT], problem[CTL_PROBLEM_TEXT];

	ctl_json_begin(ctl, "status");
	rd_json_add(out, "volume=%s device=%s base=%s state=%s",
		    health->at->volume, rd_dm_path(path, health->at->device), health->at->base,
		    ctl_stack_name(health->stack));
	if (health->stack == RD_STACK_UP) {
		rd_json_add(out, "version=%llu segments_dirty=%llu segments=%llu lost=%d mode=%s",
			    target->version, target->nr_dirty, target->nr_segs, target->is_lost,
			    target->mode);
		rd_json_add(out, "blocks_away=%llu blocks_coming_home=%llu bytes_in_pool=%llu",
			    target->nr_zero + target->nr_pool, target->hydration_left,
			    health->debt);
		if (health->is_thin)
			rd_json_u64(out, "thin_pool_free", health->room);
		rd_json_bool(out, "frozen", health->is_frozen);
		if (!rd_target_is_home(target))
			rd_json_string(out, "blocks_pool", health->at->pool);
	}
	rd_json_add(out, "version_pool=%s dedup_mode=%s",
		    or_null(health->at->version_pool), health->at->dedup_pool ? "pool" : "zeros");
	if (health->at->dedup_cold)
		rd_json_u64(out, "dedup_cold", health->at->dedup_cold);
	if (health->at->dedup_time)
		rd_json_u64(out, "dedup_time", health->at->dedup_time);
	rd_json_add(out, "dedup_lost_marks=%llu problem=%s note=%s",
		    health->at->dedup_lost_marks, ctl_problem_print(problem, health),
		    ctl_note_print(note, health));
	ctl_json_end(ctl);
}

/* Its blocks may lie in one pool, and its versions in another. */
static void print_places(const struct rd_health *health)
{
	const struct rd_attachment *at = health->at;
	char path[RD_DM_PATH_MAX];

	printf("  device %s, base %s, metadata %s\n", rd_dm_path(path, at->device), at->base,
	       at->meta);
	if (health->stack == RD_STACK_UP && !rd_target_is_home(&health->target))
		printf("  reads blocks from the pool %s\n", at->pool);
	printf("  last version in the pool %s\n",
	       at->version_pool[0] ? at->version_pool : "- (none yet)");
	if (at->dedup_cold)
		printf("  offload leaves blocks that were written within %llu versions: too many came home\n",
		       at->dedup_cold);
}

static void print_text(struct ctl *ctl, const struct rd_health *health)
{
	const struct rd_target_status *target = &health->target;
	char version[24] = "-", note[CTL_NOTE_TEXT];
	char problem[CTL_PROBLEM_TEXT];
	const char *more = ctl_problem_print(problem, health);

	if (ctl->quiet)
		return;
	if (!more)
		more = ctl_note_print(note, health);
	if (target->version)
		snprintf(version, sizeof(version), "%llu", target->version);
	printf("%-24s %-8s %8s %10s  %s\n", health->at->volume, ctl_stack_name(health->stack),
	       version, health->stack == RD_STACK_UP ?
			ctl_size(target->nr_dirty << RD_SEG_SHIFT) : "-",
	       more ? more : "");
	if (rd_verbosity > 0)
		print_places(health);
}

/* Print all volumes, or the one called @only. */
static int print_volumes(struct ctl *ctl, const char *only, unsigned int *ret_shown,
			 unsigned int *ret_problems)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	struct rd_attachment *at;
	struct rd_health health;
	int r;

	/* A file that cannot be read hides no other volume. */
	r = rd_attachments(&all);
	rd_each(at, &all) {
		if (only[0] && strcmp(only, at->volume))
			continue;
		rd_health_check(&health, at);
		if (!*ret_shown && !ctl->json && !ctl->quiet)
			printf("%-24s %-8s %8s %10s\n", "VOLUME", "STATE", "VERSION", "DIRTY");
		if (ctl->json)
			print_json(ctl, &health);
		else
			print_text(ctl, &health);
		++*ret_shown;
		*ret_problems += !!health.problem;
	}
	return r;
}

static int status_of(struct ctl *ctl, const char *volume)
{
	unsigned int shown = 0, problems = 0;
	int r = print_volumes(ctl, volume, &shown, &problems);

	if (!r && !shown) {
		rd_err(0, "'%s' is not attached", volume);
		return -ENOENT;
	}
	return r ? r : problems ? CTL_FAILED : 0;
}

/* A pool that is missing hides no volume, and a volume in need comes first. */
static int status_of_all(struct ctl *ctl)
{
	unsigned int shown = 0, problems = 0;
	bool is_text = !ctl->json && !ctl->quiet;
	int r, pool = 0;

	if (ctl_pool_path(ctl))
		pool = ctl_pool_status(ctl);
	else if (is_text && !ctl->config.error)
		printf("no pool named: --pool, REVDEDUP_POOL or '%s' names one\n",
		       ctl->config.path);
	if (is_text)
		putchar('\n');
	r = print_volumes(ctl, "", &shown, &problems);
	if (is_text && !r && !shown)
		puts("no volume is attached on this host");
	if (!r)
		r = ctl_print_nbds(ctl);
	if (!r)
		r = ctl_print_exports(ctl);
	return r ? r : problems ? CTL_FAILED : pool;
}

int cmd_status(struct ctl *ctl)
{
	struct ctl_name name = { 0 };
	int r = 0;

	if (ctl->nr_operands)
		r = ctl_volume_operand(ctl, 0, &name);
	if (r)
		return r;
	r = ctl->nr_operands ? status_of(ctl, name.volume) : status_of_all(ctl);
	return ctl->config.error ? ctl->config.error : r;
}
