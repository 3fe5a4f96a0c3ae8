/* SPDX-License-Identifier: GPL-2.0 */
/* Logical volumes, by the commands of LVM. All of these say what went wrong. */
#ifndef RD_LVM_H
#define RD_LVM_H

#include "base/units.h"
#include "dm.h"

#define RD_LV_NAME_MAX	128
#define RD_LV_PATH_MAX	(2 * RD_LV_NAME_MAX + 8)

struct rd_lv {
	char vg[RD_LV_NAME_MAX];
	char name[RD_LV_NAME_MAX];
};

/* -ENODEV, without a word: @path is no logical volume. */
int rd_lv_find(const char *path, struct rd_lv *ret);

/* "vg/vm1" and "_rdmeta": vg/vm1_rdmeta. -ENAMETOOLONG, and that is said. */
int rd_lv_beside(const char *path, const char *suffix, struct rd_lv *ret);

/* How much of @vg is free. */
int rd_vg_free(const char *vg, u64 *ret_bytes);

/*
 * Make @lv, its beginning zeros, with a tag that says that it is ours: a plain one of
 * at least so many bytes. -EEXIST, without a word: there is one of ours.
 */
int rd_lv_create(const struct rd_lv *lv, u64 bytes);

/* Only one of ours; nothing where there is none. */
int rd_lv_remove(const struct rd_lv *lv);

/*
 * The same with a tag of the caller's, so that he takes away only what he has made;
 * @thin_pool: a thin one in this pool of the group, NULL: a plain one.
 */
int rd_lv_create_tagged(const struct rd_lv *lv, u64 bytes, const char *thin_pool,
			const char *tag);
int rd_lv_remove_tagged(const struct rd_lv *lv, const char *tag);

/* Is there one, whosever it is? */
int rd_lv_exists(const struct rd_lv *lv, bool *ret);

/*
 * -ENODEV, and that is said: there is no such thin pool. *@ret_zeros: what nobody has
 * written to in a volume of it reads as zeros, and goes on doing so.
 */
int rd_thin_pool_check(const char *vg, const char *name, bool *ret_zeros);

/* "/dev/VG/LV"; returns @path */
const char *rd_lv_path(char path[RD_LV_PATH_MAX], const struct rd_lv *lv);

#endif
