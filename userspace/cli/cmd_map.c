// SPDX-License-Identifier: GPL-2.0
/* revdedupctl map and unmap: a version as a block device. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/volume/attachment.h"
#include "host/volume/mapped.h"
#include "host/volume/target.h"
#include "pool/engine/engine.h"
#include "pool/engine/lease.h"
#include "pool/engine/lease_drop.h"
#include "cli.h"

int ctl_device_name(const struct ctl_version *version, const char *what,
		    char ret[RD_DM_NAME_MAX])
{
	int r = rd_device_name(version->volume, ret);

	if (!r)
		snprintf(ret + strlen(ret), RD_DM_NAME_MAX - strlen(ret), "@%lld%s",
			 version->version.number, what);
	return r;
}

int ctl_require_target(const struct ctl *ctl)
{
	int r = rd_target_require();

	if (r == -ENOPKG)
		rd_hint("without it, 'revdedupctl export %s' serves the version as a disk over NBD",
			ctl->operands[0]);
	return r;
}

static void print_mapped(struct ctl *ctl, const struct ctl_version *version, const char *name)
{
	char path[RD_DM_PATH_MAX];

	rd_dm_path(path, name);
	if (ctl->json) {
		ctl_json_version_begin(ctl, version);
		rd_json_string(&ctl->out, "device", path);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("mapped %s as %s\n", version->name, path);
	}
}

static int map(struct ctl *ctl)
{
	struct rd_mapped_options options = { .writable = ctl_has(ctl, CTL_OPT_WRITABLE) };
	char name[RD_DM_NAME_MAX];
	struct ctl_version version;
	int r;

	r = ctl_find_operand(ctl, 0, &version);
	if (!r)
		r = ctl_lock_version(ctl, &version);
	if (!r)
		ctl_tell_consistency(&version);
	if (!r)
		r = ctl_device_name(&version, "", name);
	if (r)
		return r;
	options.name = ctl->nr_operands > 1 ? ctl->operands[1] : name;
	r = rd_mapped_make(ctl->pool, &version.version, &options);
	if (!r)
		print_mapped(ctl, &version, options.name);
	if (r == -EEXIST)
		rd_hint("nothing was changed; 'revdedupctl unmap %s' removes it, 'revdedupctl map %s NAME' makes another",
			options.name, version.name);
	return r;
}

int cmd_map(struct ctl *ctl)
{
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r && ctl->nr_operands > 1 && strchr(ctl->operands[1], '/'))
		r = ctl_usage(ctl, "'%s' is not the name of a device: leave out the directory, which is /dev/mapper/",
			      ctl->operands[1]);
	if (!r)
		r = ctl_require_target(ctl);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = map(ctl);
	return ctl_close(ctl, r);
}

/* --- devices that will not come back */

static int is_kept_for(struct ctl *ctl, const char *device)
{
	struct rd_buffer all = { 0 };
	const struct rd_lease *leases;
	bool found = false;
	size_t i;
	int r;

	r = rd_lease_list(ctl->pool->sql, NULL, &all);
	leases = (const struct rd_lease *)all.data;
	for (i = 0; !r && i < all.len / sizeof(*leases); i++)
		found |= !strcmp(leases[i].device, device);
	rd_buffer_free(&all);
	if (r || found)
		return r;
	rd_err(0, "the pool keeps nothing for a device '%s'", device);
	rd_hint("nothing was changed; 'revdedupctl delete' names the devices for which it keeps space");
	return CTL_FAILED;
}

/* Is @device that of an attached volume, whose devices may be missing now? */
static int is_attached(const char *device)
{
	struct rd_buffer all = { 0 };
	const struct rd_attachment *at;
	char uuid[RD_DM_NAME_MAX];
	size_t i;
	int r;

	r = rd_attachments(&all);
	at = (const struct rd_attachment *)all.data;
	for (i = 0; !r && i < all.len / sizeof(*at); i++) {
		if (strcmp(rd_part_uuid(uuid, &at[i], NULL), device))
			continue;
		rd_err(0, "'%s' is the device of '%s', which is attached", device, at[i].volume);
		rd_hint("nothing was changed; 'revdedupctl detach %s' tells the pool",
			at[i].volume);
		r = -EBUSY;
	}
	rd_buffer_free(&all);
	return r;
}

static int forget(struct ctl *ctl, const char *device)
{
	char name[RD_DM_NAME_MAX];
	int r = is_kept_for(ctl, device);

	if (!r)
		r = is_attached(device);
	if (r)
		return r;
	r = rd_dm_find(device, name);
	if (r != -ENODEV) {
		rd_err(r, "'%s' exists, or cannot be searched for", device);
		rd_hint("nothing was changed; to remove a device that exists, give its name without --force");
		return -EBUSY;
	}
	r = ctl_ask(ctl, "if '%s' still exists, on another host, it will read blocks of other versions",
		    device);
	if (!r)
		r = rd_lease_drop_device(ctl->pool, device);
	return r ? r : rd_free_queue(ctl->pool);
}

int cmd_unmap(struct ctl *ctl)
{
	const char *name = ctl->operands[0];
	int r;

	if (!strncmp(name, "/dev/mapper/", 12))
		name += 12;
	r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = ctl_has(ctl, CTL_OPT_FORCE) ? forget(ctl, name) :
			rd_mapped_remove(ctl->pool, name);
	return ctl_close(ctl, r);
}
