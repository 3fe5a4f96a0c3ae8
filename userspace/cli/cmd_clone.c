// SPDX-License-Identifier: GPL-2.0
/* revdedupctl clone: make a new volume from a version, at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/attach/clone.h"
#include "cli.h"

static void print_cloned(struct ctl *ctl, const struct ctl_version *version,
			 const struct rd_attachment *at, const struct rd_clone_options *options)
{
	char path[RD_DM_PATH_MAX];

	rd_dm_path(path, at->device);
	if (ctl->json) {
		ctl_json(ctl, "clone", "version=%s volume=%s device=%s comes_home=%d",
			 version->name, at->volume, path, !options->stay);
	} else if (!ctl->quiet) {
		printf("created %s from %s: use %s\n", at->volume, version->name, path);
		if (!options->stay)
			printf("the volume is copied from the pool in the background: 'revdedupctl status' shows how much is left\n");
	}
}

/*
 * Refuse a name whose versions are of another volume: the clone would continue their numbers
 * with other content. A clone of the volume itself continues them: the volume was lost, and is
 * back.
 */
static int check_history(struct ctl *ctl, const struct ctl_version *from, const char *volume)
{
	u64 nr = 0;
	i64 id;
	int r;

	if (!strcmp(from->volume, volume))
		return 0;
	r = rd_volume_find(ctl->pool->sql, volume, &id);
	if (!r)
		r = rd_versions_count_of(ctl->pool->sql, id, &nr);
	if (r || !nr)
		return r == -ENOENT ? 0 : r;
	rd_err(0, "the pool already has versions of a volume '%s'", volume);
	rd_hint("nothing was changed; give the clone another name, or delete these versions");
	return -EEXIST;
}

/* Return the thin pool's name: "pool", or "group/pool" without the group. */
static const char *thin_pool_name(const struct ctl *ctl, const char *volume)
{
	const char *name = ctl_value(ctl, CTL_OPT_THINPOOL);
	size_t len = strcspn(volume, "/") + 1;

	return name && !strncmp(name, volume, len) ? name + len : name;
}

static int clone(struct ctl *ctl, const char *volume)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct rd_clone_options options = {
		.volume = volume,
		.thin_pool = thin_pool_name(ctl, volume),
		.stay = ctl_has(ctl, CTL_OPT_NO_HYDRATE),
	};
	struct ctl_version version;
	unsigned int wait_ms;
	int r = at ? ctl_lock_wait(ctl, &wait_ms) : -ENOMEM;

	if (!r)
		r = ctl_find_to_read(ctl, &version);
	if (!r)
		r = check_history(ctl, &version, volume);
	if (!r)
		r = rd_clone(ctl->pool, &version.version, &options, wait_ms, at);
	if (!r)
		print_cloned(ctl, &version, at, &options);
	return r;
}

int cmd_clone(struct ctl *ctl)
{
	struct ctl_name from, to;
	int r;

	r = ctl_version_operand(ctl, 0, true, &from);
	if (!r)
		r = ctl_volume_operand(ctl, 1, &to);
	if (!r && !strchr(to.volume, '/'))
		r = ctl_usage(ctl, "'%s' is not a logical volume: name it as GROUP/NAME",
			      to.volume);
	if (!r)
		r = ctl_require_kernel(ctl);
	if (!r)
		r = rd_target_require();
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	return r ? r : clone(ctl, to.volume);
}
