// SPDX-License-Identifier: GPL-2.0
/* revdedupctl map and unmap: a version as a block device. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/sys/layers.h"
#include "host/volume/device/attachment.h"
#include "host/volume/device/krbd.h"
#include "host/volume/device/target.h"
#include "host/volume/device/version_table.h"
#include "host/volume/map/mapped.h"
#include "host/volume/map/mapped_nbd.h"
#include "pool/data/rados.h"
#include "pool/engine/version/version.h"
#include "remote.h"

int ctl_device_name(const struct ctl_version *version, const char *what,
		    char ret[RD_DM_NAME_MAX])
{
	int r = rd_device_name(version->volume, ret);

	if (!r)
		snprintf(ret + strlen(ret), RD_DM_NAME_MAX - strlen(ret), "@%lld%s",
			 version->version.number, what);
	return r;
}

static int is_packed(struct ctl *ctl, const struct ctl_name *name, bool *ret)
{
	struct ctl_version version;
	int r = ctl_open(ctl, RD_POOL_READ);

	if (!r)
		r = ctl_find(ctl, name, &version);
	if (!r)
		r = rd_version_is_packed(ctl->pool, &version.version, ret);
	return ctl_close(ctl, r);
}

static int refuse_without_nbd(void)
{
	rd_err(0, "the version is elsewhere, and the kernel has no nbd, which would make a device of it");
	rd_hint("nothing was changed; 'modprobe nbd' says why the kernel has no nbd");
	return -ENOPKG;
}

/*
 * Shall the module read the pool? Only the owner of a shard can have its places kept, and who only
 * maps does not take it over, unless there is no other way.
 */
static int is_for_module(struct ctl *ctl, bool *ret)
{
	const char *pool = ctl_pool_name(ctl);
	int r;

	*ret = rd_target_exists();
	if (!*ret || !pool || !rd_pool_is_shard(pool))
		return 0;
	*ret = rd_krbd_exists();
	if (!*ret || !rd_nbd_exists())
		return 0;
	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		*ret = !ctl->pool->is_of_another && rd_shard_has_image(ctl->pool->area.store);
	return ctl_close(ctl, r);
}

int ctl_find_mapper(struct ctl *ctl, const struct ctl_name *name, enum ctl_mapper *ret)
{
	const char *pool = ctl_pool_name(ctl);
	bool is_shard = pool && rd_pool_is_shard(pool);
	bool has_module, packed = false;
	struct ctl_version version;
	int r = is_for_module(ctl, &has_module);

	/* A module that is older than the pool needs is as good as none. */
	if (!r && has_module && !rd_target_reads_packs())
		r = is_packed(ctl, name, &packed);
	*ret = has_module && !packed ? CTL_MAPPER_MODULE : CTL_MAPPER_NBD;
	if (r || *ret == CTL_MAPPER_MODULE || rd_nbd_exists())
		return r;
	if (is_shard && ctl_require_kernel(ctl))
		r = -ENOPKG;
	else
		r = has_module ? rd_target_require_packs() : rd_target_require();
	if (!ctl_open(ctl, RD_POOL_READ) && !ctl_find(ctl, name, &version))
		ctl_tell_export(ctl, version.name);
	return ctl_close(ctl, r);
}

static void print_mapped(struct ctl *ctl, const struct ctl_version *version, const char *path)
{
	if (ctl->json) {
		ctl_json_version_begin(ctl, version);
		rd_json_string(&ctl->out, "device", path);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("mapped %s as %s\n", version->name, path);
	}
}

static int tell_existing(const struct ctl_version *version, const char *name)
{
	rd_hint("nothing was changed; 'revdedupctl unmap %s' removes it, 'revdedupctl map %s NAME' makes another",
		name, version->name);
	return -EEXIST;
}

/* The module may have been loaded since: devices of both kinds share their names. */
int ctl_refuse_nbd(const char *name)
{
	struct rd_mapped_nbd mapped;
	int r = rd_mapped_nbd_find(name, &mapped);

	if (r)
		return r == -ENODEV ? 0 : r;
	rd_err(0, "the device '%s' exists already: '%s'", name, mapped.nbd.path);
	return -EEXIST;
}

static int refuse_mapped(const char *name)
{
	char path[RD_DM_PATH_MAX];
	struct rd_dm_info info;
	int r = rd_target_exists() ? rd_dm_info(name, &info) : -ENODEV;

	if (r)
		return r == -ENODEV ? 0 : r;
	if (!info.exists)
		return 0;
	rd_err(0, "the device '%s' exists already", rd_dm_path(path, name));
	return -EEXIST;
}

static int map(struct ctl *ctl)
{
	struct rd_mapped_options options = { .writable = ctl_has(ctl, CTL_OPT_WRITABLE) };
	char name[RD_DM_NAME_MAX], path[RD_DM_PATH_MAX];
	struct ctl_version version;
	int r;

	r = ctl_find_to_read(ctl, &version);
	if (!r)
		r = ctl_device_name(&version, "", name);
	if (r)
		return r;
	options.name = ctl->nr_operands > 1 ? ctl->operands[1] : name;
	r = ctl_refuse_nbd(options.name);
	if (!r)
		r = rd_mapped_make(ctl->pool, &version.version, &options);
	if (!r)
		print_mapped(ctl, &version, rd_dm_path(path, options.name));
	return r == -EEXIST ? tell_existing(&version, options.name) : r;
}

/* --- by nbd */

int ctl_find_for_nbd(struct ctl *ctl, struct ctl_nbd_version *ret)
{
	int r;

	if (ctl_has(ctl, CTL_OPT_FROM))
		return ctl_find_elsewhere(ctl, &ret->version);
	r = ctl_open(ctl, RD_POOL_READ);
	if (!r) {
		snprintf(ret->pool, sizeof(ret->pool), "%s", ctl->pool->path);
		r = ctl_find_proven(ctl, &ret->version);
	}
	return ctl_close(ctl, r);
}

int ctl_map_nbd(struct ctl *ctl, const struct ctl_nbd_version *version, const char *name,
		struct rd_mapped_nbd *ret)
{
	const struct rd_mapped_nbd_options options = {
		.name = name,
		.version = version->version.name,
		.pool = version->pool,
		.from = ctl_value(ctl, CTL_OPT_FROM),
		.rsh = ctl_value(ctl, CTL_OPT_RSH),
		.writable = ctl_has(ctl, CTL_OPT_WRITABLE),
		.stop = ctl->progress.progress.stop,
	};
	int r = refuse_mapped(name);

	return r ? r : rd_mapped_nbd_make(&options, ret);
}

static int map_nbd(struct ctl *ctl)
{
	struct ctl_nbd_version version;
	struct rd_mapped_nbd mapped;
	char name[RD_DM_NAME_MAX];
	int r = ctl_find_for_nbd(ctl, &version);

	if (!r)
		r = ctl_device_name(&version.version, "", name);
	if (r)
		return r;
	if (ctl->nr_operands > 1)
		snprintf(name, sizeof(name), "%s", ctl->operands[1]);
	r = ctl_map_nbd(ctl, &version, name, &mapped);
	if (!r)
		print_mapped(ctl, &version.version, mapped.nbd.path);
	return r == -EEXIST ? tell_existing(&version.version, name) : r;
}

static void print_nbd(struct ctl *ctl, const struct rd_mapped_nbd *mapped)
{
	char where[PATH_MAX];
	bool is_mounted = rd_path_is_mounted(mapped->nbd.path, where);

	if (ctl->json) {
		ctl_json(ctl, "mapped", "name=%s device=%s version=%s mounted=%s alive=%d",
			 mapped->name, mapped->nbd.path,
			 mapped->is_alive ? mapped->export.version : NULL,
			 is_mounted ? where : NULL, mapped->is_alive);
		return;
	}
	if (ctl->quiet)
		return;
	if (mapped->is_alive)
		printf("mapped %s as %s (%s)%s", mapped->export.version, mapped->nbd.path,
		       mapped->name, mapped->export.writable ? ", writable" : "");
	else
		printf("%s (%s) has lost its server, and cannot be read: 'revdedupctl unmap %s' removes it",
		       mapped->nbd.path, mapped->name, mapped->name);
	if (is_mounted)
		printf(", mounted at %s", where);
	putchar('\n');
}

int ctl_print_nbds(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_mapped_nbd *mapped;
	/* Others do not see root's exports, and cannot tell whether these live. */
	int r = geteuid() ? 0 : rd_mapped_nbds(&all);

	rd_each(mapped, &all)
		if (!r)
			print_nbd(ctl, mapped);
	return r;
}

int ctl_unmap_nbd(struct ctl *ctl, const char *name)
{
	struct rd_mapped_nbd mapped = { 0 };
	const char *pool;
	int r;

	/* Without root there is none to remove. */
	if (geteuid())
		return -ENODEV;
	r = rd_mapped_nbd_remove(name, &mapped);
	if (r)
		return r;
	/* Of a server that has died only the user knows the pool. */
	pool = !mapped.export.pool[0] ? ctl_pool_path(ctl) :
		rd_export_is_here(&mapped.export) ? mapped.export.pool : NULL;
	return pool ? ctl_free_space(ctl, pool) : 0;
}

int cmd_map(struct ctl *ctl)
{
	enum ctl_mapper mapper;
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r && ctl->nr_operands > 1 && strchr(ctl->operands[1], '/'))
		r = ctl_usage(ctl, "'%s' is not the name of a device: leave out the directory, which is /dev/mapper/",
			      ctl->operands[1]);
	if (!r && ctl_has(ctl, CTL_OPT_FROM))
		return rd_nbd_exists() ? map_nbd(ctl) : refuse_without_nbd();
	if (!r)
		r = ctl_find_mapper(ctl, &name, &mapper);
	if (!r && mapper == CTL_MAPPER_NBD)
		return map_nbd(ctl);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	return r ? r : map(ctl);
}

/* --- devices that will not come back */

static int is_kept_for(struct ctl *ctl, const char *device)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_lease *lease;
	bool found = false;
	int r;

	r = rd_lease_list(ctl->pool->sql, NULL, &all);
	rd_each(lease, &all)
		found |= !strcmp(lease->device, device);
	if (r || found)
		return r;
	rd_err(0, "the pool keeps nothing for a device '%s'", device);
	rd_hint("nothing was changed; 'revdedupctl delete' names the devices for which it keeps space");
	return CTL_FAILED;
}

/* Is @device that of an attached volume, whose devices may be missing now? */
static int is_attached(const char *device)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_attachment *at;
	char uuid[RD_DM_NAME_MAX];
	int r;

	r = rd_attachments(&all);
	rd_each(at, &all) {
		if (r || strcmp(rd_part_uuid(uuid, at, NULL), device))
			continue;
		rd_err(0, "'%s' is the device of '%s', which is attached", device, at->volume);
		rd_hint("nothing was changed; 'revdedupctl detach %s' tells the pool", at->volume);
		r = -EBUSY;
	}
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

/* "vg/vm1@3" stands for the device that 'map' makes of it without a NAME. */
static const char *device_of(const char *operand, char buffer[RD_DM_NAME_MAX])
{
	struct ctl_version version = { 0 };
	struct rd_mapped_nbd mapped;
	char path[RD_DM_PATH_MAX];
	struct ctl_name name;

	if (!strncmp(operand, "/dev/mapper/", 12))
		return operand + 12;
	/* A device may have been given such a name. */
	if (ctl_name_parse(&name, operand) || name.kind != CTL_NAME_NUMBER ||
	    !access(rd_dm_path(path, operand), F_OK) || !rd_mapped_nbd_find(operand, &mapped))
		return operand;
	snprintf(version.volume, sizeof(version.volume), "%s", name.volume);
	version.version.number = name.number;
	return ctl_device_name(&version, "", buffer) ? operand : buffer;
}

int cmd_unmap(struct ctl *ctl)
{
	char buffer[RD_DM_NAME_MAX];
	const char *name = device_of(ctl->operands[0], buffer);
	int r;

	r = ctl_has(ctl, CTL_OPT_FORCE) ? -ENODEV : ctl_unmap_nbd(ctl, name);
	if (r != -ENODEV)
		return r;
	r = ctl_open(ctl, RD_POOL_WRITE);
	return r ? r : ctl_has(ctl, CTL_OPT_FORCE) ? forget(ctl, name) :
		rd_mapped_remove(ctl->pool, name);
}
