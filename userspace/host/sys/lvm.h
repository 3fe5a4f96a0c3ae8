/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Logical volumes, by the commands of LVM, which do not see what lies on our devices. All of
 * these say what went wrong.
 */
#ifndef RD_LVM_H
#define RD_LVM_H

#include "base/buffer.h"
#include "base/units.h"

#define RD_LV_NAME_MAX	128
#define RD_LV_PATH_MAX	(2 * RD_LV_NAME_MAX + 8)

struct rd_lv {
	char vg[RD_LV_NAME_MAX];
	char name[RD_LV_NAME_MAX];
};

/* Find the names of a logical volume. -ENODEV, without a word: @path is none. */
int rd_lv_find(const char *path, struct rd_lv *ret);

/* Name the volume beside another: "vg/vm1" and "_rdmeta" make vg/vm1_rdmeta. -ENAMETOOLONG. */
int rd_lv_beside(const char *path, const char *suffix, struct rd_lv *ret);

/* Read how much of the volume group @vg is free. */
int rd_vg_free(const char *vg, u64 *ret_bytes);

/*
 * Make the linear volume @lv, of at least @bytes, with zeros at its beginning and a tag
 * that marks it as ours. -EEXIST, without a word: there is one of ours.
 */
int rd_lv_create(const struct rd_lv *lv, u64 bytes);

/* Remove @lv if it is ours; do nothing where there is none. */
int rd_lv_remove(const struct rd_lv *lv);

/*
 * The same with a tag of the caller's, so that it removes only what it has made.
 * @thin_pool: make a thin volume in this pool of the group; NULL: a linear one.
 */
int rd_lv_create_tagged(const struct rd_lv *lv, u64 bytes, const char *thin_pool,
			const char *tag);
int rd_lv_remove_tagged(const struct rd_lv *lv, const char *tag);

/* Does @lv exist, ours or not? */
int rd_lv_exists(const struct rd_lv *lv, bool *ret);

/*
 * Check that the thin pool exists. -ENODEV. *@ret_zeros: blocks that were never written
 * read as zeros in its volumes.
 */
int rd_thin_pool_check(const char *vg, const char *name, bool *ret_zeros);

/* Give the logical volume at @path a tag, or remove it. Does nothing to another device. */
int rd_lv_tag(const char *path, const char *tag, bool add);

/*
 * Activate the logical volume with this dm UUID, whatever its settings say of activation at boot;
 * do nothing where the UUID is not of one. @path: its name, for a message.
 */
int rd_lv_activate(const char *dm_uuid, const char *path);
/* The same by its name. */
int rd_lv_activate_path(const char *path);

/*
 * Append the path, with a NUL, of each device of ours on which LVM of this host finds a physical
 * volume, which is then a guest's. 0, -errno, or the status of a pvs that fails: nothing is found.
 */
int rd_lvm_sees(struct rd_buffer *ret);

/* "/dev/VG/LV"; returns @path */
const char *rd_lv_path(char path[RD_LV_PATH_MAX], const struct rd_lv *lv);

#endif
