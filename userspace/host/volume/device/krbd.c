// SPDX-License-Identifier: GPL-2.0
/* Map images by the kernel's rbd: see krbd.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/run.h"
#include "host/sys/sysfs.h"
#include "krbd.h"

#define BUS		"/sys/bus/rbd"
#define KEYRING_PROCESS	(-2)	/* linux/keyctl.h */
#define KEY		"client.revdedup"

/* udev opens a new device for a moment, and makes its node. */
#define TRIES		40
#define TRY_US		25000

/* Another command may remove what was just mapped, but not each time. */
#define MAX_MAPS	3

/* How the options of what we map end. */
#define OPTION_SPACE	",_pool_ns="
#define OPTION_LAST	",ro"

static int write_line(const char *file, const char *line)
{
	RD_CLOSE int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, line, strlen(line)) < 0 ? -errno : 0;
}

bool rd_krbd_exists(void)
{
	char *const argv[] = { "modprobe", "-q", "rbd", NULL };

	/* Only root may map. */
	if (geteuid())
		return false;
	return !access(BUS, F_OK) || (rd_run_quietly(argv, NULL) >= 0 && !access(BUS, F_OK));
}

/* --- devices */

static void read_line(const char *dir, const char *attribute, char *ret, size_t size)
{
	char file[300];

	snprintf(file, sizeof(file), "%.200s/%s", dir, attribute);
	rd_sysfs_line(file, ret, size);
}

static bool has(const char *dir, const char *attribute, const char *value)
{
	char line[256];

	read_line(dir, attribute, line, sizeof(line));
	return !strcmp(line, value);
}

/*
 * Was it mapped by us? What a user maps stays, whatever its name is: the tools of RBD put the
 * namespace last, and map() does not.
 */
static bool is_ours(const char *dir)
{
	char space[256], line[4096], options[300];

	read_line(dir, "pool_ns", space, sizeof(space));
	read_line(dir, "config_info", line, sizeof(line));
	snprintf(options, sizeof(options), OPTION_SPACE "%s" OPTION_LAST " ", space);
	return space[0] && has(dir, "name", RD_SHARD_IMAGE) && has(dir, "current_snap", "-") &&
		strstr(line, options);
}

static bool is_image(const char *dir, const struct rd_shard_image_id *id)
{
	return has(dir, "image_id", id->image) && has(dir, "cluster_fsid", id->cluster) &&
		has(dir, "pool_id", id->pool) && has(dir, "pool_ns", id->space) && is_ours(dir);
}

bool rd_krbd_is_of(const char *number, const struct rd_shard_image_id *id)
{
	char dir[64];

	snprintf(dir, sizeof(dir), "/sys/dev/block/%.31s/device", number);
	return is_image(dir, id);
}

/* Call @fn for each device, until it returns true. */
static bool for_each(bool (*fn)(const char *number, const char *dir, void *ctx), void *ctx)
{
	RD_DIR DIR *devices = opendir(BUS "/devices");
	struct dirent *entry;
	bool found = false;
	char dir[300];

	while (devices && !found && (entry = readdir(devices))) {
		snprintf(dir, sizeof(dir), BUS "/devices/%s", entry->d_name);
		found = entry->d_name[0] != '.' && fn(entry->d_name, dir, ctx);
	}
	return found;
}

static void device_path(char path[RD_KRBD_PATH], const char *number)
{
	snprintf(path, RD_KRBD_PATH, "/dev/rbd%.20s", number);
}

struct search {
	const struct rd_shard_image_id *id;
	char *path;
};

static bool find_image(const char *number, const char *dir, void *ctx)
{
	struct search *search = ctx;

	if (!is_image(dir, search->id))
		return false;
	device_path(search->path, number);
	return true;
}

/* Open @path, if it still is the device that was found. */
static int open_it(const char *path, const struct rd_shard_image_id *id)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
	char number[32];
	struct stat st;

	if (fd < 0)
		return -error;
	if (!fstat(fd, &st)) {
		snprintf(number, sizeof(number), "%u:%u", major(st.st_rdev), minor(st.st_rdev));
		if (rd_krbd_is_of(number, id))
			return fd;
	}
	close(fd);
	return -ENXIO;
}

/* --- mapping */

/* The kernel reads the key from there: what the bus is told can be read by others. */
static int give_key(const char *key)
{
	u8 binary[256];
	size_t len = strlen(key), padding = len - strcspn(key, "=");
	int nr = len > sizeof(binary) ? -1 : EVP_DecodeBlock(binary, (const u8 *)key, len);
	int r = 0;

	if (nr < (int)padding)
		return rd_err(-EINVAL, "the key of the cluster is none");
	if (syscall(SYS_add_key, "ceph", KEY, binary, nr - padding, KEYRING_PROCESS) < 0)
		r = rd_err(-errno, "cannot give the kernel the key of the cluster");
	explicit_bzero(binary, sizeof(binary));
	return r;
}

/* A name with one of these would say something else to the kernel. */
static bool is_plain(const char *name)
{
	return !strpbrk(name, " ,=\t\n");
}

static int map(const struct rd_shard_image *image)
{
	RD_FREE char *line = NULL;
	int r;

	if (!is_plain(image->pool) || !is_plain(image->space) || !is_plain(image->user))
		return rd_err(-EINVAL, "the kernel knows no image in 'ceph:%s/%s'", image->pool,
			      image->space);
	r = image->key ? give_key(image->key) : 0;
	if (r)
		return r;
	if (asprintf(&line, "%s name=%s%s%s" OPTION_SPACE "%s" OPTION_LAST " %s %s -",
		     image->monitors, image->user, image->key ? ",key=" KEY : "",
		     image->has_v2 ? ",ms_mode=prefer-crc" : "", image->space, image->pool,
		     RD_SHARD_IMAGE) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	r = write_line(BUS "/add_single_major", line);
	if (r) {
		rd_err(r, "the kernel cannot map 'ceph:%s/%s'", image->pool, image->space);
		rd_remedy(RD_REMEDY_RESTORE, NULL, "nothing was changed; 'dmesg' says why");
	}
	return r;
}

int rd_krbd_open(const struct rd_shard_image *image, char path[RD_KRBD_PATH])
{
	struct search search = { .id = &image->id, .path = path };
	unsigned int tries, nr_maps = 0;
	int r = 0, fd = -ENXIO;

	for (tries = 0; tries < TRIES && !r; tries++) {
		if (for_each(find_image, &search)) {
			fd = open_it(path, &image->id);
			if (fd >= 0)
				return fd;
			usleep(TRY_US);
			continue;
		}
		/* If what was mapped is another image, it does not stay. */
		if (nr_maps)
			rd_krbd_tidy();
		if (nr_maps++ == MAX_MAPS)
			break;
		r = map(image);
	}
	if (r)
		return r;
	rd_krbd_tidy();
	return rd_err(fd, "cannot open the device of 'ceph:%s/%s'", image->pool, image->space);
}

/* --- and back */

static bool remove_unused(const char *number, const char *dir, void *ctx)
{
	char path[RD_KRBD_PATH];
	unsigned int tries;

	(void)ctx;
	if (!is_ours(dir))
		return false;
	device_path(path, number);
	/* Who has just opened it for a table keeps it, too: the kernel refuses. */
	for (tries = 0; tries < TRIES && !rd_block_has_holders(path) &&
	     write_line(BUS "/remove_single_major", number) == -EBUSY; tries++)
		usleep(TRY_US);
	return false;
}

void rd_krbd_tidy(void)
{
	if (!geteuid() && !access(BUS, F_OK))
		for_each(remove_unused, NULL);
}
