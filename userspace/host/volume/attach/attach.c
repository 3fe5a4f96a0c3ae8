// SPDX-License-Identifier: GPL-2.0
/* Attach a volume, bring it up again, and detach it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/lvm.h"
#include "host/volume/freeze/freeze.h"
#include "pool/engine/version/session.h"
#include "attach.h"
#include "clone.h"
#include "dedup_home.h"
#include "rollback.h"
#include "safety.h"
#include "tenants.h"

bool rd_is_pool_of(const struct rd_pool *pool, const struct rd_attachment *at)
{
	RD_FREE char *path = realpath(pool->path, NULL);

	return path && !strcmp(path, at->pool);
}

/* --- bringing it up */

static int repeat_rollback(struct rd_pool *pool, struct rd_attachment *at)
{
	int r = rd_rollback_repeat(pool, at);

	if (r == -ENOENT)
		return rd_err(-EUCLEAN, "the pool does not know to which version '%s' was rolled back",
			      at->volume);
	if (!r)
		rd_warn("finished an interrupted roll-back of '%s'", at->volume);
	return r;
}

static int open_pool(const struct rd_caller *caller, const char *path, struct rd_pool **ret)
{
	int r = rd_session_open(ret, path, RD_POOL_WRITE, caller->verb, caller->wait_ms, NULL);

	/* Other devices read it as well, and are asked before something is freed. */
	if (!r)
		(*ret)->lease_ops = &rd_host_lease_ops;
	return r;
}

/*
 * Finish a roll-back that was interrupted between begin and end: the device cannot be resumed
 * until the batch is repeated. The pool knows the version.
 */
static int finish_rollback(const struct rd_caller *caller, struct rd_attachment *at)
{
	struct rd_pool *pool;
	int r;

	if (caller->pool && rd_is_pool_of(caller->pool, at))
		return repeat_rollback(caller->pool, at);
	if (!at->pool[0])
		return rd_err(-EUCLEAN, "the pool that '%s' was rolled back from is unknown",
			      at->volume);
	r = open_pool(caller, at->pool, &pool);
	return r ? r : rd_session_close(pool, repeat_rollback(pool, at));
}

/* --- activating what it lies on */

/* Activate the device with this dm UUID, if it has none now. */
static int activate(const char *uuid, const char *path)
{
	char name[RD_DM_NAME_MAX];

	return uuid[0] && rd_dm_find(uuid, name) == -ENODEV ? rd_lv_activate(uuid, path) : 0;
}

/* The same for the device of its pool, which a link in the pool names. */
static int activate_pool(const char *pool)
{
	RD_FREE char *data = pool[0] ? rd_path_in(pool, "data") : NULL;
	char path[PATH_MAX];
	ssize_t len = data ? readlink(data, path, sizeof(path) - 1) : -1;

	if (len < 0 || !access(data, F_OK))
		return 0;
	path[len] = '\0';
	return strncmp(path, "/dev/", 5) ? 0 : rd_lv_activate_path(path);
}

/*
 * At boot LVM may not have activated them yet, or may be told not to, and no other program needs
 * them. Volumes of other names are left alone: they may be of a guest. Where that fails, the
 * next step says which device is missing.
 */
static void activate_all(const struct rd_attachment *at)
{
	activate(at->base_uuid, at->base);
	activate(at->meta_uuid, at->meta);
	activate_pool(at->pool);
}

/* --- */

static int lock(const struct rd_caller *caller, struct rd_attachment *at)
{
	int r = rd_attachment_lock(at, caller->wait_ms);

	return r ? r : rd_attachment_refresh(at);
}

int rd_volume_up(const struct rd_caller *caller, struct rd_attachment *at,
		 enum rd_stack_state *ret_state)
{
	bool is_home;
	int r;

	r = lock(caller, at);
	if (!r && at->is_unfinished) {
		rd_err(0, "'%s' is an unfinished clone", at->volume);
		rd_remedy(RD_REMEDY_REDO_CLONE, at->volume, NULL);
		return -EINVAL;
	}
	if (!r) {
		activate_all(at);
		r = rd_stack_up(at, ret_state);
	}
	if (r == -EUCLEAN) {
		*ret_state = RD_STACK_UP;
		r = finish_rollback(caller, at);
	}
	/* If that cannot be done now, the volume is none the worse for it. */
	if (!r && *ret_state == RD_STACK_UP && at->is_zeros)
		rd_dedup_bring_home(at, &is_home);
	if (!r && *ret_state == RD_STACK_UP)
		rd_dedup_untag_home(at);
	return r;
}

int rd_volume_track(const struct rd_caller *caller, struct rd_attachment *at)
{
	enum rd_stack_state state;
	int r = rd_volume_up(caller, at, &state);

	if (r || state == RD_STACK_UP)
		return r;
	/* It says so only when it makes the linear device. */
	rd_err(0, "'%s' is not tracked", at->volume);
	r = rd_target_require();
	return r ? r : -ENOPKG;
}

/* --- clones that were cut short */

static int undo_clone(const struct rd_caller *caller, struct rd_attachment *at, bool force)
{
	struct rd_pool *pool;
	int r;

	r = open_pool(caller, at->pool, &pool);
	if (!r)
		return rd_session_close(pool, rd_clone_undo(pool, at));
	if (force)
		return rd_clone_undo(NULL, at);
	rd_remedy(RD_REMEDY_DETACH_ANYWAY, at->volume, "nothing was changed");
	return r;
}

int rd_clear_unfinished(const struct rd_caller *caller, struct rd_attachment *at, bool force)
{
	int r;

	if (!at->is_unfinished)
		return 0;
	r = lock(caller, at);
	if (r || !at->is_unfinished)
		return r;
	r = undo_clone(caller, at, force);
	if (r)
		return r;
	rd_warn("'%s' was an unfinished clone: removed what was left of it", at->volume);
	return 1;
}

/* --- the metadata device */

static int name_meta(struct rd_lv *lv, const char *base)
{
	int r = rd_lv_beside(base, "_rdmeta", lv);

	if (r == -ENODEV) {
		rd_err(0, "cannot make a metadata device beside '%s', which is not a logical volume",
		       base);
		rd_remedy(RD_REMEDY_NAME_META, NULL, "nothing was changed");
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
		rd_err(0, "there is a volume '%s/%s' already, and '%s' is not attached", lv.vg,
		       lv.name, base);
		rd_hint("nothing was changed; 'lvremove %s/%s' removes what an interrupted command has left",
			lv.vg, lv.name);
	}
	*ret_made = !r;
	return r ? r : rd_stack_clear_meta_end(rd_lv_path(path, &lv));
}

/* Remove it if rd_attach() has made it. */
static int remove_meta(const char *path)
{
	struct rd_lv lv;

	return rd_lv_find(path, &lv) ? 0 : rd_lv_remove(&lv);
}

/* --- attach */

/* Another command may have attached it before the lock was taken. */
static int check_new(const char *volume)
{
	RD_FREE struct rd_attachment *now = malloc(sizeof(*now));
	int r = now ? rd_attachment_load(now, volume) : -ENOMEM;

	if (r)
		return r == -ENOENT ? 0 : r;
	rd_err(0, "another command has just attached '%s'", volume);
	return -EBUSY;
}

static int check_base(const char *base, bool is_ours)
{
	int r = is_ours ? 0 : rd_block_is_free(base);

	/* QEMU opens its disks like any file, without O_EXCL. */
	if (!r && rd_block_is_open(base))
		r = rd_err(-EBUSY, "a program has '%s' open ('fuser -v' shows which)", base);
	if (r == -EBUSY)
		rd_hint("nothing was changed; stop the program that uses it, and give that the new device afterwards");
	else if (r == -ENOENT)
		rd_hint("nothing was changed; 'lvs' lists the logical volumes of this host");
	return r;
}

/*
 * Find the device that detach left for the programs that used it: linear, over all of @base. It
 * becomes the device of the new attachment, which they follow. It keeps its UUID; the attachment
 * gets a new one, as no version of before may count as one of the new metadata.
 */
static int find_left(const char *volume, const char *base, u8 ret_uuid[16], bool *ret)
{
	char name[RD_DM_NAME_MAX], target[RD_DM_NAME_MAX], number[32], wanted[48];
	RD_FREE char *params = NULL;
	struct rd_dm_info info;
	u64 sectors;
	int r = rd_device_name(volume, name);

	*ret = false;
	if (!r)
		r = rd_dm_info(name, &info);
	if (r || !info.exists || !info.has_table ||
	    strncmp(info.uuid, RD_DM_UUID, strlen(RD_DM_UUID)) ||
	    !rd_uuid_parse(ret_uuid, info.uuid + strlen(RD_DM_UUID)))
		return r;
	r = rd_dm_table(name, &sectors, target, &params);
	if (r)
		return r;
	snprintf(wanted, sizeof(wanted), "%s 0", rd_block_number(number, base));
	*ret = !strcmp(target, "linear") && !strcmp(params, wanted);
	return 0;
}

/* Save the file first: after a crash it is what finds the devices again. */
static int make(const struct rd_caller *caller, struct rd_attachment *at)
{
	int r = rd_attachment_save(at);

	if (r)
		return r;
	r = rd_volume_track(caller, at);
	if (r)
		rd_attachment_remove(at);
	return r;
}

int rd_attach(const struct rd_caller *caller, const struct rd_attach_options *options,
	      struct rd_attachment *at)
{
	RD_FREE char *implied = NULL;
	const char *base = options->base, *meta = options->meta;
	bool made = false, is_left = false;
	u8 left[16];
	char path[PATH_MAX];
	int r;

	if (asprintf(&implied, "/dev/%s", options->volume) < 0) {
		implied = NULL;
		return -ENOMEM;
	}
	base = base ? base : implied;
	r = rd_target_require();
	if (!r)
		r = rd_check_attach(base, meta);
	if (!r)
		r = find_left(options->volume, base, left, &is_left);
	if (!r)
		r = check_base(base, is_left);
	if (r)
		return r;
	r = meta ? 0 : make_meta(base, path, &made);
	if (!r)
		r = rd_attachment_init(at, options->volume, base, meta ? meta : path);
	if (!r && is_left)
		memcpy(at->device_uuid, left, sizeof(left));
	if (!r)
		r = rd_attachment_identify(at);
	if (!r)
		r = rd_attachment_lock(at, caller->wait_ms);
	if (!r)
		r = check_new(options->volume);
	if (!r)
		r = make(caller, at);
	if (r && made)
		remove_meta(path);
	return r;
}

/* --- guests' disks that LVM finds */

int rd_warn_of_lvm(void)
{
	RD_BUFFER struct rd_buffer seen = { 0 };
	const char *path, *end;
	int r = rd_lvm_sees(&seen);

	path = (const char *)seen.data;
	for (end = path + seen.len; !r && path < end; path += strlen(path) + 1)
		rd_warn("LVM of this host finds a physical volume on '%s', which is a guest's",
			path);
	if (!r && seen.len)
		rd_hint("a filter in lvm.conf keeps it from activating what lies there: see guests.rst");
	/* A host may have no LVM. */
	return r == -ENOMEM ? r : 0;
}

/* --- detach */

/*
 * Open the pool that the volume was rolled back from, or is a clone of. Once the device is
 * gone the pool cannot ask it any more, and would keep its blocks forever. *@ret is NULL if
 * there is no such pool, or, with force, if it cannot be opened.
 */
static int open_its_pool(const struct rd_caller *caller, const struct rd_attachment *at,
			 const struct rd_detach_options *options, struct rd_pool **ret)
{
	int r;

	*ret = NULL;
	if (!at->pool[0])
		return 0;
	r = open_pool(caller, at->pool, ret);
	if (!r)
		return 0;
	*ret = NULL;
	if (options->force)
		return 0;
	rd_remedy(RD_REMEDY_DETACH_ANYWAY, at->volume,
		  "nothing was changed; the pool '%s' must learn that '%s' no longer reads it",
		  at->pool, at->volume);
	return r;
}

static int confirm(const struct rd_detach_options *options, const struct rd_attachment *at,
		   enum rd_detach_loss loss)
{
	return options->confirm ? options->confirm(options->ctx, at, loss) : 0;
}

/*
 * Find where base and metadata are now: another device may have their names. If they are
 * missing, go on only if nothing can be lost, or if @options allow the loss.
 */
static int find_devices(struct rd_attachment *at, const struct rd_detach_options *options,
			bool *ret_found)
{
	struct rd_dm_info info;
	int r;

	*ret_found = !rd_attachment_locate(at);
	if (*ret_found)
		return 0;
	r = rd_part_info(at, NULL, &info);
	if (r || (!info.exists && !at->pool[0]))
		return r;
	if (options->force)
		return confirm(options, at, RD_LOSE_POOL_BLOCKS);
	rd_remedy(RD_REMEDY_DETACH_ANYWAY, at->volume,
		  "nothing was changed; activate its devices first");
	return -ENODEV;
}

/* Programs that have the device open would go on with one that is not tracked. */
static int check_unused(const struct rd_attachment *at)
{
	char path[RD_DM_PATH_MAX];

	if (!rd_block_is_open(rd_dm_path(path, at->device)))
		return 0;
	rd_err(0, "'%s' is in use ('fuser -v' shows by which program)", path);
	rd_remedy(RD_REMEDY_DETACH_ANYWAY, at->volume, "nothing was changed; stop that first");
	return -EBUSY;
}

/* The file goes before the pool gives the blocks to others: no command may bring it up again. */
static int abandon(struct rd_attachment *at)
{
	int r = rd_stack_abandon(at);

	return r ? r : rd_attachment_remove(at);
}

static int take_off(struct rd_attachment *at, const struct rd_detach_options *options,
		    bool *ret_stays, bool *ret_given_up)
{
	bool is_home;
	int r;

	if (!options->force) {
		r = check_unused(at);
		return r ? r : rd_stack_down(at, ret_stays);
	}
	r = rd_stack_is_home(at, &is_home);
	if (!r && is_home)
		return rd_stack_down(at, ret_stays);
	/* Unreadable metadata do not prevent a forced detach. */
	r = confirm(options, at, RD_LOSE_BASE);
	*ret_given_up = !r;
	return r ? r : abandon(at);
}

static int detach(struct rd_attachment *at, struct rd_pool *pool, bool found,
		  const struct rd_detach_options *options, bool *ret_stays)
{
	bool given_up = !found;
	int r = 0;

	if (found)
		r = rd_freeze_end(at);
	if (!r)
		r = found ? take_off(at, options, ret_stays, &given_up) : abandon(at);
	if (!r)
		r = rd_failpoint("detach-off");
	if (r)
		return r;
	r = rd_tell_gone(pool, at);
	/* There is no attachment any more for which this command could be repeated. */
	if (r && given_up)
		r = rd_tell_gone(NULL, at);
	if (!r)
		r = rd_failpoint("detach-told");
	if (!r && found)
		rd_dedup_untag_home(at);
	return r || given_up ? r : rd_attachment_remove(at);
}

int rd_detach(const struct rd_caller *caller, struct rd_attachment *at,
	      const struct rd_detach_options *options, struct rd_detach_report *report)
{
	struct rd_pool *pool = NULL;
	bool found = false;
	int r;

	*report = (struct rd_detach_report){ 0 };
	r = rd_clear_unfinished(caller, at, options->force);
	report->was_unfinished = r > 0;
	if (r)
		return r < 0 ? r : 0;
	r = lock(caller, at);
	if (!r)
		r = find_devices(at, options, &found);
	if (!r)
		r = open_its_pool(caller, at, options, &pool);
	if (!r)
		r = detach(at, pool, found, options, &report->stays);
	if (pool)
		r = rd_session_close(pool, r);
	if (r || !at->meta_uuid[0])
		return r;
	report->meta_is_lost = !found || remove_meta(at->meta);
	return 0;
}
