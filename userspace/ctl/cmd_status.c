// SPDX-License-Identifier: GPL-2.0
/* revdedupctl status: how the volumes that are attached on this host are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host/freeze.h"
#include "../host/stack.h"
#include "../pool/cleanup.h"
#include "ctl.h"

struct state {
	const struct rd_attachment *at;
	enum rd_stack_state stack;
	struct rd_target_status target;
	bool is_frozen;
	/* What somebody has to do, and what nobody has to: NULL where it is nothing. */
	const char *problem;
	const char *note;
};

static void judge(struct state *state)
{
	const struct rd_target_status *target = &state->target;

	if (state->stack == RD_STACK_DOWN)
		state->problem = "has no device: 'revdedupctl attach' makes it";
	else if (state->stack == RD_STACK_LINEAR)
		state->problem = "is not tracked: 'revdedupctl attach' changes that";
	else if (!strcmp(target->mode, "fail"))
		state->problem = "cannot write its metadata device: flushes fail; see dmesg";
	else if (target->nr_zero + target->nr_pool && !strcmp(target->hydration, "off"))
		state->note = "has blocks in the pool, and they stay there";
	else if (target->hydration_left)
		state->note = "is on its way home from a roll-back";
	else if (target->is_lost)
		state->note = "has lost track of changes: the next snapshot reads all of it";
	else if (state->is_frozen || target->has_checkpoint)
		state->note = "has a snapshot that is being copied, or was: the next one cleans up";
}

static int find_out(struct state *state, const struct rd_attachment *at)
{
	int r;

	memset(state, 0, sizeof(*state));
	state->at = at;
	r = rd_stack_state(at, &state->stack);
	if (!r && state->stack == RD_STACK_UP)
		r = rd_target_status(at->device, &state->target);
	if (r == -ENODATA)
		state->stack = RD_STACK_LINEAR;
	else if (r)
		return r;
	state->is_frozen = rd_freeze_is_there(at);
	judge(state);
	return 0;
}

static const char *stack_name(enum rd_stack_state stack)
{
	static const char *const names[] = { "down", "linear", "tracked" };

	return names[stack];
}

static void print_json(struct ctl *ctl, const struct state *state)
{
	const struct rd_target_status *target = &state->target;
	struct rd_json *out = &ctl->out;
	char path[RD_DM_PATH_MAX];

	ctl_json_begin(ctl, "status");
	rd_json_string(out, "volume", state->at->volume);
	rd_json_string(out, "device", rd_dm_path(path, state->at->device));
	rd_json_string(out, "base", state->at->base);
	rd_json_string(out, "state", stack_name(state->stack));
	if (state->stack == RD_STACK_UP) {
		rd_json_u64(out, "version", target->version);
		rd_json_u64(out, "segments_dirty", target->nr_dirty);
		rd_json_u64(out, "segments", target->nr_segs);
		rd_json_bool(out, "lost", target->is_lost);
		rd_json_string(out, "mode", target->mode);
		rd_json_u64(out, "blocks_away", target->nr_zero + target->nr_pool);
		rd_json_u64(out, "blocks_coming_home", target->hydration_left);
		rd_json_bool(out, "frozen", state->is_frozen);
	}
	rd_json_string(out, "problem", state->problem);
	rd_json_string(out, "note", state->note);
	ctl_json_end(ctl);
}

static void print_text(struct ctl *ctl, const struct state *state)
{
	const struct rd_target_status *target = &state->target;
	char dirty[CTL_SIZE_TEXT], version[24] = "-";
	const char *more = state->problem ? state->problem : state->note;

	if (ctl->quiet)
		return;
	if (target->version)
		snprintf(version, sizeof(version), "%llu", target->version);
	printf("%-24s %-8s %8s %10s  %s\n", state->at->volume, stack_name(state->stack), version,
	       state->stack == RD_STACK_UP ?
			ctl_size_print(dirty, target->nr_dirty << RD_SEG_SHIFT) : "-",
	       more ? more : "");
}

int cmd_status(struct ctl *ctl)
{
	struct rd_buffer all = { 0 };
	struct rd_attachment *at;
	unsigned int nr, shown = 0, problems = 0;
	struct ctl_name name = { 0 };
	struct state state;
	int r = 0;

	if (ctl->nr_operands)
		r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = rd_attachments(&all);
	nr = r ? 0 : all.len / sizeof(*at);
	for (at = (struct rd_attachment *)all.data; nr-- && !r; at++) {
		if (name.volume[0] && strcmp(name.volume, at->volume))
			continue;
		r = find_out(&state, at);
		if (!r && !shown++ && !ctl->json && !ctl->quiet)
			printf("%-24s %-8s %8s %10s\n", "VOLUME", "STATE", "VERSION", "DIRTY");
		if (!r && ctl->json)
			print_json(ctl, &state);
		else if (!r)
			print_text(ctl, &state);
		problems += !r && state.problem;
	}
	rd_buffer_free(&all);
	if (!r && name.volume[0] && !shown) {
		rd_err(0, "'%s' is not attached", name.volume);
		return CTL_FAILED;
	}
	return r ? r : problems ? CTL_FAILED : 0;
}
