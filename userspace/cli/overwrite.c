// SPDX-License-Identifier: GPL-2.0
/*
 * What a block device or file may not be that somebody wants to write over, to read, or
 * to have as a volume: where a name was mistaken, this is the last who can say so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/sys/block.h"
#include "host/sys/loop.h"
#include "host/sys/mounts.h"
#include "host/sys/probe.h"
#include "host/volume/owner.h"
#include "cli.h"

#define OWNER_TEXT	256

/* --- to be written over */

static int refuse_owner(const char *path, const struct rd_owner *owner)
{
	char text[OWNER_TEXT];

	rd_err(0, "'%s' %s", path, rd_owner_print(text, sizeof(text), owner));
	return CTL_FAILED;
}

/* Of what it is no --force can make something else. */
static int check_never(const struct ctl *ctl, const char *path, const struct rd_owner *owner)
{
	bool is_meta = owner->kind == RD_OWNER_META && owner->volume[0];

	if (ctl_is_below_pool(ctl, path)) {
		rd_err(0, "the pool '%s' lies on '%s'", ctl->pool->path, path);
		rd_hint("nothing was changed; restore to another place");
		return CTL_FAILED;
	}
	if (owner->kind != RD_OWNER_BASE && !is_meta)
		return 0;
	refuse_owner(path, owner);
	if (is_meta)
		rd_hint("nothing was changed; 'revdedupctl detach %s' gives it up", owner->volume);
	else
		rd_hint("nothing was changed; what is written there is not tracked: use 'revdedupctl rollback', or write to /dev/mapper/%s",
			owner->device);
	return CTL_FAILED;
}

static int check_owner(const char *path, const struct rd_owner *owner,
		       const struct ctl_version *version)
{
	if (owner->kind == RD_OWNER_NONE)
		return 0;
	refuse_owner(path, owner);
	if (owner->kind == RD_OWNER_VOLUME && !strcmp(owner->volume, version->volume))
		rd_hint("nothing was changed; 'revdedupctl rollback %s' is there at once; --force writes to it all the same",
			version->name);
	else
		rd_hint("nothing was changed; --force writes to it all the same");
	return CTL_FAILED;
}

/* Of equal disks one is easily taken for another. */
static int check_others(struct ctl *ctl, const char *path, const struct ctl_version *version)
{
	struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	size_t i;
	int r;

	r = ctl_volumes(ctl, NULL, &volumes);
	volume = (const struct ctl_volume *)volumes.data;
	for (i = 0; !r && i < volumes.len / sizeof(*volume); i++, volume++) {
		if (!strcmp(volume->name, version->volume) || !rd_is_lv(path, volume->name))
			continue;
		rd_err(0, "'%s' is the volume '%s', and %s is of another one", path, volume->name,
		       version->name);
		rd_hint("nothing was changed; --force writes to it all the same");
		r = CTL_FAILED;
	}
	rd_buffer_free(&volumes);
	return r;
}

static int check_lock(const char *path)
{
	if (!rd_file_is_locked(path))
		return 0;
	rd_err(0, "a program has a lock on '%s', as QEMU has on the disk of a guest that runs",
	       path);
	rd_hint("nothing was changed; stop that first, or say --force");
	return -EBUSY;
}

/* Whoever has the loop device would not see it, and write over it. */
static int check_loop(const char *path)
{
	char loop[RD_LOOP_PATH];
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !rd_loop_find(&st, loop))
		return 0;
	rd_err(0, "'%s' is in use: the loop device '%s' is made of it", path, loop);
	rd_hint("nothing was changed; unmount that and 'losetup --detach' it first, or say --force");
	return -EBUSY;
}

int ctl_check_overwrite(struct ctl *ctl, const char *path, const struct ctl_version *version)
{
	struct rd_owner owner;
	int r = rd_owner_find(path, &owner);

	if (!r)
		r = check_never(ctl, path, &owner);
	if (r || ctl_has(ctl, CTL_OPT_FORCE))
		return r;
	r = check_owner(path, &owner, version);
	if (!r)
		r = check_lock(path);
	if (!r)
		r = check_loop(path);
	return r ? r : check_others(ctl, path, version);
}

/* --- to be read, as an image */

/* May it be written by others while it is read? Then @text says why. */
static bool is_in_use(const char *path, char *text, size_t size)
{
	char where[PATH_MAX];
	struct stat st;
	int fd;

	if (rd_file_is_locked(path)) {
		snprintf(text, size, "a program has a lock on '%s', as QEMU has on the disk of a guest that runs",
			 path);
		return true;
	}
	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return false;
	if (rd_is_mounted(st.st_rdev, true, where)) {
		snprintf(text, size, "'%s' is mounted at '%s'", path, where);
		return true;
	}
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	/* So it is where it is mounted to be read only. */
	if (fd >= 0 || errno != EBUSY || rd_is_mounted(st.st_rdev, false, where))
		return false;
	snprintf(text, size, "'%s' is in use: it is part of something, or a program has it for itself",
		 path);
	return true;
}

int ctl_check_image(struct ctl *ctl, const char *path, bool *ret_in_use)
{
	char text[PATH_MAX + 256];
	struct rd_owner owner;

	/* A file of another volume that is wrong is no reason. */
	rd_owner_find(path, &owner);
	if (owner.kind == RD_OWNER_BASE) {
		refuse_owner(path, &owner);
		rd_hint("no version was made; 'revdedupctl snapshot %s' takes one, and what others write there is in none",
			owner.volume);
		return CTL_FAILED;
	}
	*ret_in_use = is_in_use(path, text, sizeof(text));
	if (!*ret_in_use)
		return 0;
	if (ctl_has(ctl, CTL_OPT_FORCE)) {
		rd_warn("%s: what is written meanwhile is in the version, or not", text);
		return 0;
	}
	rd_err(0, "%s", text);
	rd_hint("no version was made; stop that first, or say --force: the version is marked as not consistent then");
	return -EBUSY;
}

/* "" where there is nothing that is known. */
static const char *what_it_holds(const struct rd_content *content)
{
	return content->type[0] ? content->type : content->table;
}

const char *ctl_describe_device(char *text, size_t size, const char *path, u64 bytes)
{
	char name[RD_DM_NAME_MAX] = "", number[CTL_SIZE_TEXT];
	struct rd_content content;
	const char *holds = "";
	struct stat st;

	if (!stat(path, &st) && S_ISBLK(st.st_mode)) {
		rd_block_dm(st.st_rdev, "name", name);
		if (!rd_probe(path, &content))
			holds = what_it_holds(&content);
	}
	snprintf(text, size, "%s%s%s%s%s", name, name[0] ? ", " : "",
		 ctl_size_print(number, bytes), holds[0] ? ", holds " : "", holds);
	return text;
}

/* --- to be the data area of a pool */

static int check_empty(const char *path)
{
	struct rd_content content;
	int r = rd_probe(path, &content);

	if (r || !what_it_holds(&content)[0])
		return r;
	rd_err(0, "'%s' is not empty, it holds %s", path, what_it_holds(&content));
	rd_hint("nothing was changed; --force uses it all the same, and what is there is lost");
	return CTL_FAILED;
}

/* --force is for what is there, not for what is being used. */
int ctl_check_data(struct ctl *ctl, const char *path)
{
	struct rd_owner owner;
	int r = rd_owner_find(path, &owner);

	if (!r && owner.kind != RD_OWNER_NONE && owner.kind != RD_OWNER_POOL &&
	    (owner.kind != RD_OWNER_META || owner.volume[0])) {
		refuse_owner(path, &owner);
		rd_hint("nothing was changed; a pool belongs on a device of its own");
		return CTL_FAILED;
	}
	if (!r)
		r = rd_block_is_free(path);
	return r || ctl_has(ctl, CTL_OPT_FORCE) ? r : check_empty(path);
}

/* --- to be attached */

int ctl_check_attach(const char *base, const char *meta)
{
	struct rd_owner owner;
	struct stat st;
	int r = rd_owner_find(base, &owner);

	if (!r && owner.kind != RD_OWNER_NONE) {
		refuse_owner(base, &owner);
		rd_hint("nothing was changed; what is tracked is the disk of a machine, or a plain device");
		return CTL_FAILED;
	}
	if (r || !meta)
		return r;
	/* Of a volume that was attached before it may be had again. */
	r = rd_owner_find(meta, &owner);
	if (!r && owner.kind != RD_OWNER_NONE &&
	    (owner.kind != RD_OWNER_META || owner.volume[0])) {
		refuse_owner(meta, &owner);
		rd_hint("nothing was changed; name another device with --meta");
		return CTL_FAILED;
	}
	if (r || stat(base, &st) || !rd_lies_on(meta, st.st_rdev))
		return r;
	rd_err(0, "the metadata device '%s' lies on '%s' itself", meta, base);
	rd_hint("nothing was changed; name another device with --meta");
	return CTL_FAILED;
}
