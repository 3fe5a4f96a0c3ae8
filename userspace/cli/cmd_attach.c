// SPDX-License-Identifier: GPL-2.0
/* revdedupctl attach and detach: put the target over a volume, and take it off. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/sys/block.h"
#include "host/sys/lvm.h"
#include "host/volume/freeze.h"
#include "host/volume/tenants.h"
#include "host/volume/stack.h"
#include "cli.h"

/* --- the metadata device */

static int name_meta(struct rd_lv *lv, const char *base)
{
	int r = rd_lv_beside(base, "_rdmeta", lv);

	if (r == -ENODEV) {
		rd_err(0, "'%s' is no logical volume, so no metadata device can be made beside it",
		       base);
		rd_hint("name one with --meta: a small device whose first and last 4 KiB are zeros");
	}
	return r;
}

static int make_meta(const char *base, char path[PATH_MAX], bool *ret_made)
{
	struct rd_lv lv;
	u64 sectors;
	int r;

	r = rd_block_sectors(base, &sectors);
	if (!r)
		r = name_meta(&lv, base);
	if (!r)
		r = rd_lv_create(&lv, rd_stack_meta_bytes(sectors));
	if (r == -EEXIST) {
		rd_err(0, "there is a volume '%s/%s', and '%s' is not attached", lv.vg, lv.name,
		       base);
		rd_hint("'lvremove %s/%s' removes what a command that died has left", lv.vg,
			lv.name);
	}
	*ret_made = !r;
	return r ? r : rd_stack_clear_meta_end(rd_lv_path(path, &lv));
}

/* If we have made it. */
static void remove_meta(const char *path)
{
	struct rd_lv lv;

	if (!rd_lv_find(path, &lv))
		rd_lv_remove(&lv);
}

/* --- attach */

static void print_attached(struct ctl *ctl, const struct rd_attachment *at,
			   enum rd_stack_state state)
{
	char path[RD_DM_PATH_MAX];

	if (ctl->json) {
		ctl_json_begin(ctl, "attach");
		rd_json_string(&ctl->out, "volume", at->volume);
		rd_json_string(&ctl->out, "device", rd_dm_path(path, at->device));
		rd_json_bool(&ctl->out, "tracked", state == RD_STACK_UP);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("%s: use %s%s\n", at->volume, rd_dm_path(path, at->device),
		       state == RD_STACK_UP ? "" : " (not tracked)");
	}
}

static int up(struct ctl *ctl, struct rd_attachment *at)
{
	enum rd_stack_state state;
	int r = ctl_clear_unfinished(ctl, at);

	if (r)
		return r < 0 ? r : 0;
	r = ctl_volume_up(ctl, at, &state);
	if (!r)
		print_attached(ctl, at, state);
	return r ? r : state == RD_STACK_UP ? 0 : CTL_NO_MODULE;
}

/* Until it was locked another command may have attached it. */
static int is_new(const char *volume)
{
	RD_FREE struct rd_attachment *now = malloc(sizeof(*now));
	int r = now ? rd_attachment_load(now, volume) : -ENOMEM;

	if (r)
		return r == -ENOENT ? 0 : r;
	rd_err(0, "'%s' has been attached by another command just now", volume);
	return -EBUSY;
}

/* The devices of one that was not attached before. */
static int attach_new(struct ctl *ctl, const char *volume)
{
	RD_FREE char *implied = NULL;
	const char *base = ctl_value(ctl, CTL_OPT_FROM);
	const char *meta = ctl_value(ctl, CTL_OPT_META);
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	char path[PATH_MAX];
	unsigned int wait_ms;
	bool made = false;
	int r;

	if (!at || asprintf(&implied, "/dev/%s", volume) < 0)
		return -ENOMEM;
	base = base ? base : implied;
	r = ctl_need_module();
	if (!r)
		r = ctl_check_attach(base, meta);
	if (r)
		return r;
	r = rd_block_is_free(base);
	/* QEMU has its disks open as any file. */
	if (!r && rd_block_is_open(base))
		r = rd_err(-EBUSY, "a program has '%s' open ('fuser -v' says which)", base);
	if (r) {
		rd_hint("nothing was changed; stop what uses it, and let it use the new device afterwards");
		return r;
	}
	r = meta ? rd_block_is_free(meta) : make_meta(base, path, &made);
	if (!r)
		r = rd_attachment_init(at, volume, base, meta ? meta : path);
	if (!r)
		r = rd_attachment_identify(at);
	if (!r)
		r = ctl_lock_wait(ctl, &wait_ms);
	if (!r)
		r = rd_attachment_lock(at, wait_ms);
	if (!r)
		r = is_new(volume);
	/* What is made first is what brings the rest back after a crash. */
	if (!r)
		r = rd_attachment_save(at);
	if (!r) {
		r = up(ctl, at);
		if (r)
			rd_attachment_remove(at);
	}
	if (r && made)
		remove_meta(path);
	return r;
}

static int attach_one(struct ctl *ctl)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct ctl_name name;
	int r;

	if (!at)
		return -ENOMEM;
	r = ctl_volume_operand(ctl, 0, &name);
	if (r)
		return r;
	r = rd_attachment_load(at, name.volume);
	if (!r)
		r = ctl_clear_unfinished(ctl, at);
	if (r == -ENOENT || r == 1)
		return attach_new(ctl, name.volume);
	if (!r && (ctl_has(ctl, CTL_OPT_FROM) || ctl_has(ctl, CTL_OPT_META)))
		return ctl_usage(ctl, "'%s' is attached: --from and --meta are for a new one",
				 name.volume);
	return r ? r : up(ctl, at);
}

/* At boot: one that cannot be had keeps no other from it. */
static int attach_all(struct ctl *ctl)
{
	struct rd_buffer all = { 0 };
	struct rd_attachment *at;
	unsigned int failed = 0, nr;
	int r;

	r = rd_attachments(&all);
	failed += r != 0;
	nr = all.len / sizeof(*at);
	for (at = (struct rd_attachment *)all.data; nr--; at++)
		failed += up(ctl, at) != 0;
	rd_buffer_free(&all);
	return failed ? CTL_PARTLY : 0;
}

int cmd_attach(struct ctl *ctl)
{
	bool all = ctl_has(ctl, CTL_OPT_ALL);

	if (all == !!ctl->nr_operands)
		return ctl_usage(ctl, "which? name a volume, or say --all");
	if (all && (ctl_has(ctl, CTL_OPT_FROM) || ctl_has(ctl, CTL_OPT_META)))
		return ctl_usage(ctl, "--from and --meta are for one volume");
	return all ? attach_all(ctl) : attach_one(ctl);
}

/* --- detach */

static void print_detached(struct ctl *ctl, const struct rd_attachment *at, bool is_open)
{
	char path[RD_DM_PATH_MAX];

	if (ctl->json) {
		ctl_json_begin(ctl, "detach");
		rd_json_string(&ctl->out, "volume", at->volume);
		rd_json_bool(&ctl->out, "device_stays", is_open);
		ctl_json_end(ctl);
	} else if (!ctl->quiet && is_open) {
		printf("%s: not tracked any more; %s is in use and stays until the next boot, as a linear device: from then on use %s\n",
		       at->volume, rd_dm_path(path, at->device), at->base);
	} else if (!ctl->quiet) {
		printf("%s: not tracked any more; use %s\n", at->volume, at->base);
	}
}

/*
 * The pool that it was rolled back from once, or is a clone of: when the device is gone
 * nobody can ask it any more, and what is kept for it would be for ever. With --force
 * without, if it cannot be opened. *@ret is NULL where there is none.
 */
static int open_its_pool(struct ctl *ctl, const struct rd_attachment *at, unsigned int wait_ms,
			 struct rd_pool **ret)
{
	int r;

	*ret = NULL;
	if (!at->pool[0])
		return 0;
	r = rd_pool_open(ret, at->pool, RD_POOL_WRITE, ctl->command->name, wait_ms);
	if (!r)
		return 0;
	*ret = NULL;
	if (ctl_has(ctl, CTL_OPT_FORCE))
		return 0;
	rd_hint("nothing was changed; '%s' is to be told that the volume reads nothing there any more; --force does without",
		at->pool);
	return r;
}

/*
 * Where base and metadata are now: what has their names may be somebody else's. Where
 * they are not found there is nothing to lose, or it was said that it may be lost.
 */
static int find_devices(struct ctl *ctl, struct rd_attachment *at, bool *ret_found)
{
	struct rd_dm_info info;
	int r;

	*ret_found = !rd_attachment_locate(at);
	if (*ret_found)
		return 0;
	r = rd_part_info(at, NULL, &info);
	if (r || (!info.exists && !at->pool[0]))
		return r;
	if (ctl_has(ctl, CTL_OPT_FORCE))
		return ctl_ask(ctl, "what '%s' has in the pool alone is lost", at->volume);
	rd_hint("nothing was changed; activate its devices first, or give it up with --force");
	return CTL_FAILED;
}

static int take_off(struct ctl *ctl, const struct rd_attachment *at, bool *ret_open)
{
	bool is_home;
	int r;

	if (!ctl_has(ctl, CTL_OPT_FORCE))
		return rd_stack_down(at, ret_open);
	r = rd_stack_is_home(at, &is_home);
	if (!r && is_home)
		return rd_stack_down(at, ret_open);
	/* What cannot be read any more is in nobody's way. */
	r = ctl_ask(ctl, "blocks of '%s' lie in the pool: '%s' alone is worth nothing then",
		    at->volume, at->base);
	return r ? r : rd_stack_abandon(at);
}

/* Devices, then what the pool keeps for them, then the file, which says whose they are. */
static int detach(struct ctl *ctl, struct rd_attachment *at, struct rd_pool *pool, bool found,
		  bool *ret_open)
{
	int r = 0;

	if (found)
		r = rd_freeze_end(at);
	if (!r)
		r = found ? take_off(ctl, at, ret_open) : rd_stack_abandon(at);
	if (!r)
		r = rd_tell_gone(pool, at);
	return r ? r : rd_attachment_remove(at);
}

int cmd_detach(struct ctl *ctl)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	unsigned int wait_ms;
	struct ctl_name name;
	bool is_open = false, found = false;
	struct rd_pool *pool = NULL;
	int r;

	if (!at)
		return -ENOMEM;
	r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = ctl_lock_wait(ctl, &wait_ms);
	if (r)
		return r;
	r = rd_attachment_load(at, name.volume);
	if (r == -ENOENT) {
		rd_err(0, "'%s' is not attached", name.volume);
		rd_hint("'revdedupctl status' lists what is");
		return CTL_FAILED;
	}
	if (!r)
		r = ctl_clear_unfinished(ctl, at);
	if (r)
		return r < 0 ? r : 0;
	r = rd_attachment_lock(at, wait_ms);
	if (!r)
		r = rd_attachment_refresh(at);
	if (!r)
		r = find_devices(ctl, at, &found);
	if (!r)
		r = open_its_pool(ctl, at, wait_ms, &pool);
	if (!r)
		r = detach(ctl, at, pool, found, &is_open);
	if (pool)
		r = rd_pool_close(pool, r);
	if (r)
		return r;
	if (found && at->meta_uuid[0])
		remove_meta(at->meta);
	else if (at->meta_uuid[0])
		rd_hint("if '%s' is still somewhere, 'lvremove' removes it", at->meta);
	print_detached(ctl, at, is_open);
	return 0;
}
