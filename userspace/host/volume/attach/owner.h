/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find out what a block device or file is to revdedup, so that it is not destroyed by
 * mistake: by the volumes that are attached on this host, and by its content.
 */
#ifndef RD_OWNER_H
#define RD_OWNER_H

#include "host/volume/device/attachment.h"

enum rd_owner_kind {
	RD_OWNER_NONE,
	RD_OWNER_VOLUME,	/* the device of an attached volume */
	RD_OWNER_BASE,		/* the device below that */
	RD_OWNER_META,		/* its metadata, or those of a volume that is not attached */
	RD_OWNER_DEVICE,	/* another of our devices, such as a mapped version */
	RD_OWNER_POOL,		/* the data area of a pool */
	RD_OWNER_PART,		/* another file of a pool */
};

struct rd_owner {
	enum rd_owner_kind kind;
	char volume[RD_VOLUME_MAX + 1];		/* "": of none that is attached */
	char device[RD_DM_NAME_MAX];		/* of that volume */
};

/* RD_OWNER_NONE where @path is neither a block device nor a file. Says what went wrong. */
int rd_owner_find(const char *path, struct rd_owner *ret);

/*
 * "is the metadata device of 'vg/vm1'", to follow its name in a sentence. Not of NONE.
 */
const char *rd_owner_print(char *text, size_t size, const struct rd_owner *owner);

/*
 * Is @path the logical volume @volume? Compares the name that LVM gives the device, so
 * that no other path hides it.
 */
bool rd_is_lv(const char *path, const char *volume);

#endif
