// SPDX-License-Identifier: GPL-2.0
/* Device-mapper devices, by libdevmapper. */
#include <errno.h>
#include <libdevmapper.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "dm.h"
#include "run.h"

/* --- what the library says */

static void on_log(int level, const char *file, int line, int dm_errno, const char *fmt, ...)
{
	char text[512];
	va_list args;

	(void)file;
	(void)line;
	(void)dm_errno;
	/* The library prints its error before ours, which says what the command tried. */
	if ((level & 7) > 4 || rd_verbosity < 1)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_info("device-mapper: %s", text);
}

void rd_dm_init(void)
{
	dm_log_with_errno_init(on_log);
}

/* --- tasks */

static void end_task(struct dm_task **task)
{
	if (*task)
		dm_task_destroy(*task);
}

#define TASK	__attribute__((cleanup(end_task))) struct dm_task

/* Print why there is no task. */
static struct dm_task *no_task(struct dm_task *task, const char *name)
{
	if (task) {
		dm_task_destroy(task);
		rd_err(0, "'%s' is not a valid name for a device", name);
		return NULL;
	}
	rd_err(0, "device-mapper cannot be used");
	rd_hint("it needs root rights and the module dm_mod: 'dmsetup version' shows whether that is loaded");
	return NULL;
}

static struct dm_task *new_task(int type, const char *name)
{
	struct dm_task *task = dm_task_create(type);

	return task && dm_task_set_name(task, name) ? task : no_task(task, name);
}

static int run(struct dm_task *task)
{
	int error;

	if (dm_task_run(task))
		return 0;
	error = dm_task_get_errno(task);
	return error ? -error : -EIO;
}

/* The cookie that rd_dm_settle() waits for. */
static u32 later;

void rd_dm_settle(void)
{
	dm_udev_wait(later);
	later = 0;
	dm_task_update_nodes();
}

/*
 * Run a task that udev handles, and wait for udev: afterwards the node exists, or is gone, and
 * udev no longer has it open.
 */
static int run_with_udev(struct dm_task *task, unsigned int flags)
{
	/* No udev rule needs these devices, and LVM must not look into them. */
	u16 udev = DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG | DM_UDEV_DISABLE_OTHER_RULES_FLAG;
	u32 cookie = 0, *wait = flags & RD_DM_LATER ? &later : &cookie;
	int r;

	if (flags & RD_DM_PRIVATE)
		udev |= DM_UDEV_DISABLE_DISK_RULES_FLAG;
	if (!dm_task_set_cookie(task, wait, udev))
		return -ENOMEM;
	r = run(task);
	if (flags & RD_DM_LATER)
		return r;
	dm_udev_wait(cookie);
	dm_task_update_nodes();
	return r;
}

/* --- targets */

static bool find_target(const char *name, u32 ret_version[3])
{
	TASK *task = dm_task_create(DM_DEVICE_LIST_VERSIONS);
	struct dm_versions *at, *next;

	if (!task || run(task))
		return false;
	for (at = dm_task_get_versions(task); at; at = next) {
		if (!strcmp(at->name, name)) {
			if (ret_version)
				memcpy(ret_version, at->version, sizeof(at->version));
			return true;
		}
		next = at->next ? (void *)((char *)at + at->next) : NULL;
	}
	return false;
}

bool rd_dm_has_target(const char *name, u32 ret_version[3])
{
	char module[64];
	char *const argv[] = { "modprobe", "-q", module, NULL };

	if (find_target(name, ret_version))
		return true;
	snprintf(module, sizeof(module), "dm-%s", name);
	return rd_run(argv, NULL) >= 0 && find_target(name, ret_version);
}

/* --- devices */

int rd_dm_info(const char *name, struct rd_dm_info *ret)
{
	TASK *task = new_task(DM_DEVICE_INFO, name);
	struct dm_info info;
	const char *uuid;

	memset(ret, 0, sizeof(*ret));
	if (!task)
		return -EIO;
	if (run(task) || !dm_task_get_info(task, &info))
		return rd_err(-EIO, "device-mapper does not answer");
	ret->exists = info.exists;
	ret->suspended = info.suspended;
	ret->has_table = info.live_table;
	ret->read_only = info.read_only;
	ret->open_count = info.open_count;
	uuid = info.exists ? dm_task_get_uuid(task) : NULL;
	snprintf(ret->uuid, sizeof(ret->uuid), "%s", uuid ? uuid : "");
	return 0;
}

int rd_dm_find(const char *uuid, char name[RD_DM_NAME_MAX])
{
	TASK *task = dm_task_create(DM_DEVICE_INFO);
	struct dm_info info;
	int r;

	/* Without permission to ask, the answer is an error, not -ENODEV. */
	if (!task || !dm_task_set_uuid(task, uuid))
		return -EIO;
	r = run(task);
	if (r || !dm_task_get_info(task, &info))
		return r && r != -ENODEV ? r : -EIO;
	if (!info.exists)
		return -ENODEV;
	snprintf(name, RD_DM_NAME_MAX, "%s", dm_task_get_name(task));
	return 0;
}

const char *rd_dm_path(char path[RD_DM_PATH_MAX], const char *name)
{
	snprintf(path, RD_DM_PATH_MAX, "/dev/mapper/%.127s", name);
	return path;
}

int rd_dm_create(const char *name, const char *uuid)
{
	TASK *task = new_task(DM_DEVICE_CREATE, name);
	int r;

	if (!task)
		return -EIO;
	if (!dm_task_set_uuid(task, uuid))
		return -ENOMEM;
	r = run(task);
	return r ? rd_err(r, "cannot make the device '%s'", name) : 0;
}

int rd_dm_load(const char *name, u64 sectors, const char *target, const char *params,
	       unsigned int flags)
{
	TASK *task = new_task(DM_DEVICE_RELOAD, name);
	int r;

	if (!task)
		return -EIO;
	if (!dm_task_add_target(task, 0, sectors, target, params) ||
	    ((flags & RD_DM_READ_ONLY) && !dm_task_set_ro(task)))
		return -ENOMEM;
	r = run(task);
	if (!r)
		return 0;
	rd_err(r, "cannot load the table of '%s': 0 %llu %s %s", name, sectors, target, params);
	rd_hint("the kernel's log says why: see dmesg");
	return r;
}

int rd_dm_load_linear(const char *name, u64 sectors, const char *below)
{
	char params[PATH_MAX + 8];

	snprintf(params, sizeof(params), "%s 0", below);
	return rd_dm_load(name, sectors, "linear", params, 0);
}

void rd_dm_unload(const char *name)
{
	TASK *task = new_task(DM_DEVICE_CLEAR, name);

	if (task)
		run(task);
}

/* Say how a suspend of @task treats I/O in flight, and the file system above. */
static bool set_suspend(struct dm_task *task, unsigned int flags)
{
	return (!(flags & RD_DM_NOFLUSH) || dm_task_no_flush(task)) &&
		(!(flags & RD_DM_NOLOCKFS) || dm_task_skip_lockfs(task));
}

int rd_dm_suspend(const char *name, unsigned int flags)
{
	TASK *task = new_task(DM_DEVICE_SUSPEND, name);
	int r;

	if (!task)
		return -EIO;
	if (!set_suspend(task, flags))
		return -ENOMEM;
	r = run(task);
	return r ? rd_err(r, "cannot suspend '%s'", name) : 0;
}

/* Where a table was loaded, the kernel suspends a device that is not, with these flags. */
static int resume(const char *name, unsigned int flags)
{
	TASK *task = new_task(DM_DEVICE_RESUME, name);

	if (!task)
		return -EIO;
	if (!set_suspend(task, flags))
		return -ENOMEM;
	return run_with_udev(task, flags);
}

int rd_dm_resume(const char *name, unsigned int flags)
{
	int r = resume(name, flags);

	if (!r)
		return 0;
	rd_err(r, "cannot resume '%s'", name);
	rd_hint("the kernel's log says why: see dmesg");
	return r;
}

/*
 * One ioctl, and not a suspend before it: between the two a command could be killed, and
 * programs that use the device would wait until another one resumes it.
 */
int rd_dm_swap(const char *name, unsigned int flags)
{
	RD_FREE char *params = NULL;
	char target[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	u64 sectors;
	int loaded, r = rd_failpoint("dm-swap");

	/* A device that was never resumed has none. */
	if (!r)
		rd_dm_table(name, &sectors, target, &params);
	if (!r)
		r = resume(name, flags);
	if (!r)
		return 0;
	rd_err(r, "cannot replace the table of '%s'", name);
	rd_hint("the kernel's log says why: see dmesg");
	/* If it is not suspended, the new table may still be loaded: a resume would swap again. */
	if (!params || rd_dm_info(name, &info) || !info.suspended)
		return r;
	/*
	 * The kernel swaps the tables before it asks the targets of the new one, which may refuse:
	 * that one is live, and the old one is gone. If it cannot be loaded again, the new one may
	 * be good enough by now: programs wait for either.
	 */
	loaded = rd_dm_load(name, sectors, target, params, info.read_only ? RD_DM_READ_ONLY : 0);
	if (!resume(name, flags) && !loaded)
		rd_warn("'%s' continues with its previous table", name);
	return r;
}

int rd_dm_remove(const char *name)
{
	TASK *task = new_task(DM_DEVICE_REMOVE, name);
	int r;

	if (!task)
		return -EIO;
	if (!dm_task_retry_remove(task))
		return -ENOMEM;
	r = run_with_udev(task, 0);
	return r ? rd_err(r, "cannot remove the device '%s'", name) : 0;
}

static int get_target(int type, const char *name, u64 *ret_sectors,
		      char target[RD_DM_NAME_MAX], char **ret_params)
{
	TASK *task = new_task(type, name);
	char *kind = NULL, *params = NULL;
	uint64_t start, len = 0;
	int r;

	*ret_params = NULL;
	if (!task)
		return -EIO;
	if (type == DM_DEVICE_STATUS && !dm_task_no_flush(task))
		return -ENOMEM;
	r = run(task);
	if (r)
		return rd_err(r, "cannot read the state of '%s'", name);
	dm_get_next_target(task, NULL, &start, &len, &kind, &params);
	if (!kind)
		return -ENODATA;
	*ret_sectors = len;
	snprintf(target, RD_DM_NAME_MAX, "%s", kind);
	*ret_params = strdup(params);
	return *ret_params ? 0 : -ENOMEM;
}

int rd_dm_status(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		 char **ret_params)
{
	return get_target(DM_DEVICE_STATUS, name, ret_sectors, target, ret_params);
}

int rd_dm_table(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		char **ret_params)
{
	return get_target(DM_DEVICE_TABLE, name, ret_sectors, target, ret_params);
}

int rd_dm_try_message(const char *name, const char *text, char **ret_answer)
{
	TASK *task = new_task(DM_DEVICE_TARGET_MSG, name);
	const char *answer;
	int r;

	if (ret_answer)
		*ret_answer = NULL;
	if (!task)
		return -EIO;
	if (!dm_task_set_sector(task, 0) || !dm_task_set_message(task, text))
		return -ENOMEM;
	r = run(task);
	if (r || !ret_answer)
		return r;
	answer = dm_task_get_message_response(task);
	*ret_answer = answer ? strdup(answer) : NULL;
	return answer && !*ret_answer ? -ENOMEM : 0;
}

int rd_dm_message(const char *name, const char *text, char **ret_answer)
{
	int r = rd_dm_try_message(name, text, ret_answer);

	return r ? rd_err(r, "'%s' refuses '%.40s%s'", name, text,
			  strlen(text) > 40 ? "..." : "") : 0;
}
