// SPDX-License-Identifier: GPL-2.0
/* Logical volumes, by the commands of LVM. */
#include <errno.h>
#include <libdevmapper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "block.h"
#include "lvm.h"
#include "run.h"

/* The tag of volumes that revdedup makes. It removes no other volume. */
#define TAG		"revdedup"

#define LVM_UUID	"LVM-"		/* of a logical volume, for device-mapper */
#define UUID_LEN	68		/* of the whole; what lies below a volume has a suffix */
#define MAX_WORDS	24
#define BLANKS		"\n "

const char *rd_lv_path(char path[RD_LV_PATH_MAX], const struct rd_lv *lv)
{
	snprintf(path, RD_LV_PATH_MAX, "/dev/%s/%s", lv->vg, lv->name);
	return path;
}

/* --- running it */

/*
 * What lies on our devices belongs to guests: no command of ours looks there. The rejections stand
 * alone in "filter", because a pattern of the host's own that accepts a device would win by
 * another of its names; so a host that has "filter" and no "global_filter" gets it as that one.
 */
#define FILTER		"filter=[\"r|^/dev/mapper/revdedup-|\",\"r|/dm-uuid-REVDEDUP-|\"]"

static int make_config(char **ret)
{
	char *const argv[] = { "lvmconfig", "--quiet", "devices/filter", "devices/global_filter",
			       NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	const char *own = NULL;
	char *line, *rest = NULL;
	int r = rd_run_quietly(argv, &text);

	/* It fails where one of them is not set, and prints the other one. */
	for (line = r < 0 ? NULL : strtok_r((char *)text.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "global_", 7))
			own = NULL;
		else if (!strncmp(line, "filter=", 7))
			own = line;
	}
	if (r >= 0)
		r = asprintf(ret, "devices{" FILTER "%s%s}", own ? " global_" : "", own ? own : "");
	return r < 0 ? rd_err(r, "cannot run '%s'", argv[0]) : 0;
}

/* Run a command of LVM. Returns its exit status, or -errno. */
static int run(char *const *argv, struct rd_buffer *ret)
{
	/* Read once, because a command may run several of them. */
	static char *config;
	char *all[MAX_WORDS] = { argv[0], "--config" };
	unsigned int i;
	int r = 0;

	if (!config)
		r = make_config(&config);
	if (r)
		return r;
	all[2] = config;
	for (i = 1; argv[i]; i++)
		all[i + 2] = argv[i];
	return rd_run(all, ret);
}

/* Run a command that prints something. Its output begins with blanks, and may be empty. */
static int ask(char *const *argv, struct rd_buffer *ret)
{
	int r = run(argv, ret);

	if (r < 0)
		return r;
	return r ? rd_err(-EIO, "'%s' failed", argv[0]) : 0;
}

/* --- what there is */

/* Is it of a volume itself, and not of what lies below one? */
static bool is_lv_uuid(const char *dm_uuid)
{
	return !strncmp(dm_uuid, LVM_UUID, strlen(LVM_UUID)) && strlen(dm_uuid) == UUID_LEN;
}

/* The device of a volume that is active has the names. */
static bool split_dm_name(const char *path, struct rd_lv *ret)
{
	char uuid[RD_DM_NAME_MAX], name[RD_DM_NAME_MAX], *vg = name, *lv, *layer;
	struct stat st;

	if (stat(path, &st))
		return false;
	rd_block_dm(st.st_rdev, "uuid", uuid);
	rd_block_dm(st.st_rdev, "name", name);
	if (!is_lv_uuid(uuid) || !dm_split_lvm_name(NULL, NULL, &vg, &lv, &layer))
		return false;
	snprintf(ret->vg, sizeof(ret->vg), "%s", vg);
	snprintf(ret->name, sizeof(ret->name), "%s", lv);
	return true;
}

int rd_lv_find(const char *path, struct rd_lv *ret)
{
	char *const argv[] = { "lvs", "--noheadings", "-o", "vg_name,lv_name", (char *)path, NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	int r;

	if (split_dm_name(path, ret))
		return 0;
	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%127s %127s", ret->vg, ret->name) != 2)
		r = -ENODEV;
	return r;
}

int rd_lv_beside(const char *path, const char *suffix, struct rd_lv *ret)
{
	size_t len;
	int r = rd_lv_find(path, ret);

	if (r)
		return r;
	len = strlen(ret->name);
	if (len + strlen(suffix) >= sizeof(ret->name))
		return rd_err(-ENAMETOOLONG, "the name of '%s' is too long", path);
	snprintf(ret->name + len, sizeof(ret->name) - len, "%s", suffix);
	return 0;
}

int rd_vg_free(const char *vg, u64 *ret_bytes)
{
	char *const argv[] = { "vgs", "--noheadings", "--nosuffix", "--units", "b", "-o", "vg_free",
			 (char *)vg, NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	int r;

	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%llu", ret_bytes) != 1)
		r = rd_err(-EPROTO, "cannot tell how much of '%s' is free: 'vgs' printed no number",
			   vg);
	return r;
}

/* Find out whether the volume exists, and has the tag. */
static int look(const struct rd_lv *lv, const char *tag, bool *ret_exists, bool *ret_ours)
{
	char select[2 * RD_LV_NAME_MAX + 32];
	char *const argv[] = { "lvs", "--noheadings", "-o", "lv_name,lv_tags", "-S", select, NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	char name[RD_LV_NAME_MAX], tags[RD_LV_NAME_MAX];
	int r, nr;

	snprintf(select, sizeof(select), "vg_name=%s && lv_name=%s", lv->vg, lv->name);
	r = ask(argv, &text);
	if (!r) {
		nr = sscanf((char *)text.data, "%127s %127s", name, tags);
		*ret_exists = nr > 0;
		*ret_ours = nr > 1 && !strcmp(tags, tag);
	}
	return r;
}

int rd_lv_exists(const struct rd_lv *lv, bool *ret)
{
	bool ours;

	return look(lv, TAG, ret, &ours);
}

static int make(const struct rd_lv *lv, char *const *argv)
{
	int r = run(argv, NULL);

	return r > 0 ? rd_err(-EIO, "cannot make the logical volume '%s/%s'", lv->vg, lv->name) :
		r;
}

static int make_plain(const struct rd_lv *lv, char *size, const char *tag)
{
	char *const argv[] = { "lvcreate", "-qq", "--yes", "--type", "linear", "--zero", "y",
			 "--wipesignatures", "y", "--addtag", (char *)tag, "--size", size,
			 "--name", (char *)lv->name, (char *)lv->vg, NULL };

	return make(lv, argv);
}

static int make_thin(const struct rd_lv *lv, char *size, const char *thin_pool, const char *tag)
{
	char *const argv[] = { "lvcreate", "-qq", "--yes", "--type", "thin", "--addtag",
			 (char *)tag, "--virtualsize", size, "--thinpool", (char *)thin_pool,
			 "--name", (char *)lv->name, (char *)lv->vg, NULL };

	return make(lv, argv);
}

int rd_lv_create_tagged(const struct rd_lv *lv, u64 bytes, const char *thin_pool,
			const char *tag)
{
	bool exists, ours;
	char size[32];
	int r;

	r = look(lv, tag, &exists, &ours);
	if (r)
		return r;
	if (exists && ours)
		return -EEXIST;
	if (exists)
		return rd_err(-EEXIST, "there is a logical volume '%s/%s' that revdedup has not made",
			      lv->vg, lv->name);
	snprintf(size, sizeof(size), "%llub", rd_round_up(bytes, 512));
	return thin_pool ? make_thin(lv, size, thin_pool, tag) : make_plain(lv, size, tag);
}

int rd_lv_create(const struct rd_lv *lv, u64 bytes)
{
	return rd_lv_create_tagged(lv, bytes, NULL, TAG);
}

int rd_lv_remove_tagged(const struct rd_lv *lv, const char *tag)
{
	char name[2 * RD_LV_NAME_MAX];
	char *const argv[] = { "lvremove", "-qq", "--yes", name, NULL };
	bool exists, ours;
	int r;

	r = look(lv, tag, &exists, &ours);
	if (r || !exists || !ours)
		return r;
	snprintf(name, sizeof(name), "%s/%s", lv->vg, lv->name);
	r = run(argv, NULL);
	return r > 0 ? rd_err(-EBUSY, "cannot remove the logical volume '%s'", name) : r;
}

int rd_lv_remove(const struct rd_lv *lv)
{
	return rd_lv_remove_tagged(lv, TAG);
}

int rd_lv_tag(const char *path, const char *tag, bool add)
{
	char name[2 * RD_LV_NAME_MAX];
	char *const argv[] = { "lvchange", "-qq", add ? "--addtag" : "--deltag", (char *)tag, name,
			 NULL };
	char uuid[RD_DM_NAME_MAX];
	struct stat st;
	struct rd_lv lv;
	int r;

	if (stat(path, &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	rd_block_dm(st.st_rdev, "uuid", uuid);
	if (strncmp(uuid, LVM_UUID, strlen(LVM_UUID)))
		return 0;
	r = rd_lv_find(path, &lv);
	if (r)
		return r;
	snprintf(name, sizeof(name), "%s/%s", lv.vg, lv.name);
	r = run(argv, NULL);
	return r > 0 ? rd_err(-EIO, "cannot change the tags of the logical volume '%s'", name) : r;
}

int rd_thin_pool_check(const char *vg, const char *name, bool *ret_zeros)
{
	char select[2 * RD_LV_NAME_MAX + 64];
	char *const argv[] = { "lvs", "--noheadings", "--binary", "-o", "zero", "-S", select,
			 NULL };
	RD_BUFFER struct rd_buffer text = { 0 };
	int r, zero;

	snprintf(select, sizeof(select), "vg_name=%s && lv_name=%s && segtype=thin-pool", vg, name);
	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%d", &zero) != 1)
		r = rd_err(-ENODEV, "there is no thin pool '%s/%s'", vg, name);
	*ret_zeros = !r && zero == 1;
	return r;
}

/* --- making them active */

/* Print a UUID of 32 characters as LVM does, with dashes. Returns what follows it. */
static const char *put_uuid(char ret[40], const char *uuid)
{
	snprintf(ret, 40, "%.6s-%.4s-%.4s-%.4s-%.4s-%.4s-%.6s", uuid, uuid + 6, uuid + 10,
		 uuid + 14, uuid + 18, uuid + 22, uuid + 26);
	return uuid + 32;
}

/* @argv selects logical volumes. */
static int activate(char *const *argv, const char *what)
{
	int r = run(argv, NULL);

	return r > 0 ? rd_err(-EIO, "cannot activate the logical volume '%s'", what) : r;
}

int rd_lv_activate(const char *dm_uuid, const char *path)
{
	char vg[40], lv[40], select[128];
	char *const argv[] = { "lvchange", "-qq", "-ay", "-K", "-S", select, NULL };

	const char *uuid = dm_uuid + strlen(LVM_UUID);

	if (!is_lv_uuid(dm_uuid))
		return 0;
	put_uuid(lv, put_uuid(vg, uuid));
	snprintf(select, sizeof(select), "vg_uuid=%s && lv_uuid=%s", vg, lv);
	return activate(argv, path);
}

int rd_lv_activate_path(const char *path)
{
	char *const argv[] = { "lvchange", "-qq", "-ay", "-K", (char *)path, NULL };

	return activate(argv, path);
}

int rd_lvm_sees(struct rd_buffer *ret)
{
	char *const argv[] = { "pvs", "-qq", "--noheadings", "-o", "pv_name", NULL };
	char uuid[RD_DM_NAME_MAX], *path, *rest = NULL;
	RD_BUFFER struct rd_buffer text = { 0 };
	struct stat st;
	/* With the settings of this host alone, which may have no LVM. */
	int r = rd_run_quietly(argv, &text);

	for (path = r ? NULL : strtok_r((char *)text.data, BLANKS, &rest); path;
	     path = strtok_r(NULL, BLANKS, &rest)) {
		if (stat(path, &st))
			continue;
		rd_block_dm(st.st_rdev, "uuid", uuid);
		if (!strncmp(uuid, RD_DM_UUID, strlen(RD_DM_UUID)))
			rd_buffer_put(ret, path, strlen(path) + 1);
	}
	return ret->failed ? -ENOMEM : r;
}
