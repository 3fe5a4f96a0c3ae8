// SPDX-License-Identifier: GPL-2.0
/*
 * Device-mapper for the C test programs. See dm.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dm.h"

#define PARAM_SIZE	16384

static int control = -1;

/* An ioctl's argument: the header, and room for what follows it. */
struct request {
	struct dm_ioctl head;
	char data[PARAM_SIZE - sizeof(struct dm_ioctl)];
};

static void request_init(struct request *rq, const char *name)
{
	memset(rq, 0, sizeof(*rq));
	rq->head.version[0] = DM_VERSION_MAJOR;
	rq->head.data_size = sizeof(*rq);
	rq->head.data_start = offsetof(struct request, data);
	snprintf(rq->head.name, sizeof(rq->head.name), "%s", name);
}

static int request_send(struct request *rq, unsigned long cmd)
{
	return ioctl(control, cmd, rq) ? -errno : 0;
}

static int simple(const char *name, unsigned long cmd, uint32_t flags)
{
	struct request rq;

	request_init(&rq, name);
	rq.head.flags = flags;
	return request_send(&rq, cmd);
}

int dm_open(void)
{
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	return control < 0 ? -errno : 0;
}

int dm_create(const char *name)
{
	return simple(name, DM_DEV_CREATE, 0);
}

/* Somebody may just look at the device. */
int dm_remove(const char *name)
{
	int r, tries;

	for (tries = 0; tries < 1000; tries++) {
		r = simple(name, DM_DEV_REMOVE, 0);
		if (r != -EBUSY)
			return r;
		usleep(1000);
	}
	return r;
}

int dm_load(const char *name, uint64_t sectors, const char *type, const char *format, ...)
{
	struct request rq;
	struct dm_target_spec *spec = (struct dm_target_spec *)rq.data;
	va_list args;

	request_init(&rq, name);
	rq.head.target_count = 1;
	spec->length = sectors;
	snprintf(spec->target_type, sizeof(spec->target_type), "%s", type);
	va_start(args, format);
	vsnprintf((char *)(spec + 1), sizeof(rq.data) - sizeof(*spec), format, args);
	va_end(args);
	return request_send(&rq, DM_TABLE_LOAD);
}

int dm_suspend(const char *name, unsigned int flags)
{
	return simple(name, DM_DEV_SUSPEND,
		      DM_SUSPEND_FLAG | (flags & DM_NOFLUSH ? DM_NOFLUSH_FLAG : 0) |
		      (flags & DM_NOLOCKFS ? DM_SKIP_LOCKFS_FLAG : 0));
}

int dm_resume(const char *name)
{
	return simple(name, DM_DEV_SUSPEND, 0);
}

static int message(const char *name, char *reply, size_t size, const char *format,
		   va_list args)
{
	struct request rq;
	struct dm_target_msg *msg = (struct dm_target_msg *)rq.data;
	int r;

	request_init(&rq, name);
	vsnprintf(msg->message, sizeof(rq.data) - sizeof(*msg), format, args);
	r = request_send(&rq, DM_TARGET_MSG);
	if (r || !size)
		return r;
	if (!(rq.head.flags & DM_DATA_OUT_FLAG))
		return -ENODATA;
	snprintf(reply, size, "%s", (char *)&rq + rq.head.data_start);
	return 0;
}

int dm_message(const char *name, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = message(name, NULL, 0, format, args);
	va_end(args);
	return r;
}

int dm_ask(const char *name, char *reply, size_t size, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = message(name, reply, size, format, args);
	va_end(args);
	return r;
}

int dm_status(const char *name, char *reply, size_t size)
{
	struct request rq;
	int r;

	request_init(&rq, name);
	r = request_send(&rq, DM_TABLE_STATUS);
	if (r)
		return r;
	if (!rq.head.target_count)
		return -ENODATA;
	snprintf(reply, size, "%s",
		 (char *)&rq + rq.head.data_start + sizeof(struct dm_target_spec));
	return 0;
}

int dm_node(const char *name, const char *path)
{
	struct request rq;
	struct stat st;
	dev_t dev;
	int r;

	request_init(&rq, name);
	r = request_send(&rq, DM_DEV_STATUS);
	if (r)
		return r;
	dev = makedev(major(rq.head.dev), minor(rq.head.dev));
	if (!stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == dev)
		return 0;
	unlink(path);
	return mknod(path, S_IFBLK | 0600, dev) ? -errno : 0;
}
