// SPDX-License-Identifier: GPL-2.0
/* Logical volumes, by the commands of LVM. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "block.h"
#include "lvm.h"
#include "run.h"

/* The tag of volumes that revdedup makes. It removes no other volume. */
#define TAG		"revdedup"

const char *rd_lv_path(char path[RD_LV_PATH_MAX], const struct rd_lv *lv)
{
	snprintf(path, RD_LV_PATH_MAX, "/dev/%s/%s", lv->vg, lv->name);
	return path;
}

/* Run a command of LVM. Its output begins with blanks, and may be empty. */
static int ask(char *const *argv, struct rd_buffer *ret)
{
	int r = rd_run(argv, ret);

	if (r < 0)
		return r;
	return r ? rd_err(-EIO, "'%s' failed", argv[0]) : 0;
}

int rd_lv_find(const char *path, struct rd_lv *ret)
{
	char *const argv[] = { "lvs", "--noheadings", "-o", "vg_name,lv_name", (char *)path, NULL };
	struct rd_buffer text = { 0 };
	int r;

	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%127s %127s", ret->vg, ret->name) != 2)
		r = -ENODEV;
	rd_buffer_free(&text);
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
	struct rd_buffer text = { 0 };
	int r;

	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%llu", ret_bytes) != 1)
		r = rd_err(-EPROTO, "cannot tell how much of '%s' is free: 'vgs' printed no number",
			   vg);
	rd_buffer_free(&text);
	return r;
}

/* Find out whether the volume exists, and has the tag. */
static int look(const struct rd_lv *lv, const char *tag, bool *ret_exists, bool *ret_ours)
{
	char select[2 * RD_LV_NAME_MAX + 32];
	char *const argv[] = { "lvs", "--noheadings", "-o", "lv_name,lv_tags", "-S", select, NULL };
	struct rd_buffer text = { 0 };
	char name[RD_LV_NAME_MAX], tags[RD_LV_NAME_MAX];
	int r, nr;

	snprintf(select, sizeof(select), "vg_name=%s && lv_name=%s", lv->vg, lv->name);
	r = ask(argv, &text);
	if (!r) {
		nr = sscanf((char *)text.data, "%127s %127s", name, tags);
		*ret_exists = nr > 0;
		*ret_ours = nr > 1 && !strcmp(tags, tag);
	}
	rd_buffer_free(&text);
	return r;
}

int rd_lv_exists(const struct rd_lv *lv, bool *ret)
{
	bool ours;

	return look(lv, TAG, ret, &ours);
}

static int make(const struct rd_lv *lv, char *const *argv)
{
	int r = rd_run(argv, NULL);

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
	r = rd_run(argv, NULL);
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
	if (strncmp(uuid, "LVM-", 4))
		return 0;
	r = rd_lv_find(path, &lv);
	if (r)
		return r;
	snprintf(name, sizeof(name), "%s/%s", lv.vg, lv.name);
	r = rd_run(argv, NULL);
	return r > 0 ? rd_err(-EIO, "cannot change the tags of the logical volume '%s'", name) : r;
}

int rd_thin_pool_check(const char *vg, const char *name, bool *ret_zeros)
{
	char select[2 * RD_LV_NAME_MAX + 64];
	char *const argv[] = { "lvs", "--noheadings", "--binary", "-o", "zero", "-S", select,
			 NULL };
	struct rd_buffer text = { 0 };
	int r, zero;

	snprintf(select, sizeof(select), "vg_name=%s && lv_name=%s && segtype=thin-pool", vg, name);
	r = ask(argv, &text);
	if (!r && sscanf((char *)text.data, "%d", &zero) != 1)
		r = rd_err(-ENODEV, "there is no thin pool '%s/%s'", vg, name);
	*ret_zeros = !r && zero == 1;
	rd_buffer_free(&text);
	return r;
}
