// SPDX-License-Identifier: GPL-2.0
/* revdedupctl map and unmap: a version as a block device. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../host/attachment.h"
#include "../host/mapped.h"
#include "ctl.h"

int ctl_device_name(const struct ctl_version *version, const char *what,
		    char ret[RD_DM_NAME_MAX])
{
	int r = rd_device_name(version->volume, ret);

	if (!r)
		snprintf(ret + strlen(ret), RD_DM_NAME_MAX - strlen(ret), "@%lld%s",
			 version->version.number, what);
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
		printf("%s is %s\n", version->name, path);
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
		r = ctl_device_name(&version, "", name);
	if (r)
		return r;
	options.name = ctl->nr_operands > 1 ? ctl->operands[1] : name;
	r = rd_mapped_make(ctl->pool, &version.version, &options);
	if (!r)
		print_mapped(ctl, &version, options.name);
	return r;
}

int cmd_map(struct ctl *ctl)
{
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r && ctl->nr_operands > 1 && strchr(ctl->operands[1], '/'))
		r = ctl_usage(ctl, "'%s' is not the name of a device: /dev/mapper/ is added to it",
			      ctl->operands[1]);
	if (!r)
		r = ctl_need_module();
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = map(ctl);
	return ctl_close(ctl, r);
}

int cmd_unmap(struct ctl *ctl)
{
	const char *name = ctl->operands[0];
	int r;

	if (!strncmp(name, "/dev/mapper/", 12))
		name += 12;
	r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = rd_mapped_remove(ctl->pool, name);
	return ctl_close(ctl, r);
}
