// SPDX-License-Identifier: GPL-2.0
/* Versions as devices of the kernel's nbd; see mapped_nbd.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/layers.h"
#include "host/sys/openers.h"
#include "export_files.h"
#include "mapped.h"
#include "mapped_nbd.h"

#define OWNER		"revdedup:"

/* udev opens a new device for a moment. */
#define LOOKS		20
#define LOOK_US		50000

/* An export that has just been started may not have said so yet. */
#define START_TRIES	200

/* --- the lock */

/*
 * A lock of this process, which the process that stays in the background with nbdkit does
 * not inherit.
 */
static int lock(bool wait)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];
	int fd, r = rd_export_make_directory();

	if (r)
		return r;
	rd_export_file(path, "map", "lock");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return rd_err(-errno, "cannot make '%s'", path);
	while (fcntl(fd, wait ? F_SETLKW : F_SETLK, &whole)) {
		if (errno == EINTR)
			continue;
		r = errno == EACCES || errno == EAGAIN ? -EAGAIN :
			rd_err(-errno, "cannot lock '%s'", path);
		close(fd);
		return r;
	}
	return fd;
}

/* --- all of them */

static const char *name_of(const char *owner)
{
	return strncmp(owner, OWNER, strlen(OWNER)) ? NULL : owner + strlen(OWNER);
}

static const struct rd_export *find_export(const struct rd_buffer *exports, const char *name)
{
	const struct rd_export *export;

	rd_each(export, exports)
		if (!strcmp(export->device, name))
			return export;
	return NULL;
}

static int add_devices(const struct rd_buffer *exports, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer devices = { 0 };
	const struct rd_export *export;
	struct rd_mapped_nbd *mapped;
	const struct rd_nbd *nbd;
	int r = rd_nbd_list(&devices);

	rd_each(nbd, &devices) {
		if (r || !name_of(nbd->owner))
			continue;
		mapped = (struct rd_mapped_nbd *)rd_buffer_grow(ret, sizeof(*mapped));
		if (!mapped) {
			r = -ENOMEM;
			break;
		}
		memset(mapped, 0, sizeof(*mapped));
		snprintf(mapped->name, sizeof(mapped->name), "%s", name_of(nbd->owner));
		mapped->nbd = *nbd;
		export = find_export(exports, mapped->name);
		mapped->is_alive = export;
		if (export)
			mapped->export = *export;
	}
	return r;
}

static int list(struct rd_buffer *exports, struct rd_buffer *ret)
{
	int r = rd_exports(exports);

	return r ? r : add_devices(exports, ret);
}

static const struct rd_mapped_nbd *find(const struct rd_buffer *all, const char *name)
{
	const struct rd_mapped_nbd *mapped;

	rd_each(mapped, all)
		if (!strcmp(mapped->name, name) || !strcmp(mapped->nbd.path, name))
			return mapped;
	return NULL;
}

/* The first export without a device, of @name if that is not NULL. */
static const struct rd_export *find_orphan(const struct rd_buffer *exports,
					   const struct rd_buffer *all, const char *name)
{
	const struct rd_export *export;

	rd_each(export, exports)
		if (export->device[0] && !find(all, export->device) &&
		    (!name || !strcmp(name, export->device)))
			return export;
	return NULL;
}

/* End exports without a device. The caller has the lock. */
static int clear_orphans(void)
{
	RD_BUFFER struct rd_buffer exports = { 0 }, all = { 0 };
	const struct rd_export *export;
	int r = list(&exports, &all);

	rd_each(export, &exports)
		if (!r && export->device[0] && !find(&all, export->device))
			r = rd_export_stop(export);
	return r;
}

int rd_mapped_nbds(struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer exports = { 0 };
	int r = list(&exports, ret);

	if (!r && find_orphan(&exports, ret, NULL)) {
		RD_CLOSE int fd = lock(false);

		if (fd >= 0)
			r = clear_orphans();
	}
	return r;
}

/* Is there a device @name, or what a killed command has left of it? */
static bool is_known(const char *name)
{
	RD_BUFFER struct rd_buffer exports = { 0 }, all = { 0 };
	bool found;

	list(&exports, &all);
	found = find(&all, name) || find_orphan(&exports, &all, name);
	return found;
}

int rd_mapped_nbd_find(const char *name, struct rd_mapped_nbd *ret)
{
	RD_BUFFER struct rd_buffer exports = { 0 }, all = { 0 };
	const struct rd_mapped_nbd *found;
	int r = list(&exports, &all);

	found = r ? NULL : find(&all, name);
	if (found)
		*ret = *found;
	return r ? r : found ? 0 : -ENODEV;
}

bool rd_mapped_nbd_name(dev_t device, char ret[RD_DM_NAME_MAX])
{
	char owner[RD_NBD_OWNER];
	const char *name;

	rd_nbd_owner(device, owner);
	name = name_of(owner);
	snprintf(ret, RD_DM_NAME_MAX, "%.127s", name ? name : "");
	return name;
}

/* --- is it in use? */

/* The partition of a mount needs device-mapper, which a host may be without. */
static int remove_part(const struct rd_mapped_nbd *mapped)
{
	char pattern[64];
	glob_t holders;

	snprintf(pattern, sizeof(pattern), "/sys/block/nbd%u/holders/*", mapped->nbd.index);
	if (glob(pattern, 0, NULL, &holders))
		return 0;
	globfree(&holders);
	return rd_mapped_remove_part(mapped->name);
}

static bool is_open(const char *path)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	RD_BUFFER struct rd_buffer openers = { 0 };
	bool found = fd < 0 && errno == EBUSY;

	if (!found)
		rd_openers(path, &openers);
	found |= openers.len > 0;
	return found;
}

static int check_unused(const struct rd_mapped_nbd *mapped)
{
	unsigned int looks = LOOKS;
	char where[PATH_MAX];
	int r;

	if (rd_path_is_mounted(mapped->nbd.path, where)) {
		rd_err(0, "'%s' is mounted at '%s'", mapped->name, where);
		rd_remedy(RD_REMEDY_UNMOUNT, where, "nothing was changed");
		return -EBUSY;
	}
	r = remove_part(mapped);
	if (r)
		return r;
	while (is_open(mapped->nbd.path)) {
		if (!--looks) {
			rd_err(0, "'%s' is in use", mapped->name);
			rd_hint("nothing was changed; stop what reads '%s'", mapped->nbd.path);
			return -EBUSY;
		}
		usleep(LOOK_US);
	}
	return 0;
}

/* --- making one */

static int refuse_existing(const struct rd_mapped_nbd *mapped)
{
	rd_err(0, "the device '%s' exists already: '%s'", mapped->name, mapped->nbd.path);
	return -EEXIST;
}

/* Only a device that has lost its server, and that is not in use, makes room for a new one. */
static int replace_dead(const struct rd_mapped_nbd *mapped)
{
	int r = mapped->is_alive ? refuse_existing(mapped) : check_unused(mapped);

	return r ? r : rd_nbd_disconnect(&mapped->nbd);
}

/* A command that was killed a moment ago may have left an export that is still starting. */
static int clear_name(const char *name)
{
	struct rd_export export = { 0 };
	unsigned int tries = START_TRIES;
	int r;

	rd_export_device_name(export.name, name);
	r = clear_orphans();
	while (!r && rd_export_is_locked(&export) && tries--) {
		usleep(LOOK_US);
		r = clear_orphans();
	}
	return r;
}

static int connect_export(const struct rd_mapped_nbd_options *options,
			  struct rd_mapped_nbd *ret)
{
	char owner[RD_NBD_OWNER];
	int r;

	snprintf(owner, sizeof(owner), OWNER "%.140s", options->name);
	r = rd_failpoint("nbd-exported");
	if (!r)
		r = rd_nbd_connect(ret->export.socket, options->version, owner, &ret->nbd);
	return r ? r : rd_failpoint("nbd-connected");
}

int rd_mapped_nbd_make(const struct rd_mapped_nbd_options *options, struct rd_mapped_nbd *ret)
{
	struct rd_export_options export = {
		.name = options->version,
		.device = options->name,
		.pool = options->pool,
		.from = options->from,
		.rsh = options->rsh,
		.writable = options->writable,
		.background = true,
		.stop = options->stop,
	};
	RD_CLOSE int fd = -1;
	int r;

	if (strlen(options->name) >= RD_DM_NAME_MAX - 8)
		return rd_err(-ENAMETOOLONG, "'%s' is too long for a device", options->name);
	fd = lock(true);
	if (fd < 0)
		return fd;
	r = rd_mapped_nbd_find(options->name, ret);
	if (!r)
		r = replace_dead(ret);
	if (r && r != -ENODEV)
		return r;
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%s", options->name);
	r = clear_name(options->name);
	if (!r)
		r = rd_export_start(&export, &ret->export);
	if (r)
		return r;
	ret->is_alive = true;
	r = connect_export(options, ret);
	if (r && ret->nbd.path[0])
		rd_nbd_disconnect(&ret->nbd);
	if (r)
		rd_export_stop(&ret->export);
	return r;
}

/* --- and removing it */

/* A killed command may have left its export alone: then that is all there is to end. */
static int remove_orphan(const char *name, struct rd_mapped_nbd *ret)
{
	RD_BUFFER struct rd_buffer exports = { 0 };
	const struct rd_export *export;
	int r = rd_exports(&exports);

	export = r ? NULL : find_export(&exports, name);
	if (export)
		ret->export = *export;
	if (r || !export)
		return r ? r : -ENODEV;
	return rd_export_stop(&ret->export);
}

int rd_mapped_nbd_remove(const char *name, struct rd_mapped_nbd *ret)
{
	RD_CLOSE int fd = -1;
	int r;

	if (!is_known(name))
		return -ENODEV;
	fd = lock(true);
	if (fd < 0)
		return fd;
	r = rd_mapped_nbd_find(name, ret);
	if (r == -ENODEV)
		return remove_orphan(name, ret);
	if (!r)
		r = check_unused(ret);
	if (!r)
		r = rd_nbd_disconnect(&ret->nbd);
	if (!r)
		r = rd_failpoint("nbd-disconnected");
	if (!r && ret->is_alive)
		r = rd_export_stop(&ret->export);
	return r;
}
