/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A list of what has changed in an image, as some tool wrote it. Pure.
 *
 *	# a comment
 *	version vm1@3
 *	0 4096
 *	0x200000 0x1000
 *
 * The first line that is neither empty nor a comment says since which version;
 * "version 3" leaves the volume out. Then come ranges, offset and length in
 * bytes, in any order. Each line has its end: a list that was cut off in the
 * middle of one is found out.
 */
#ifndef CTL_CHANGED_H
#define CTL_CHANGED_H

#include "pool/engine/snapshot.h"
#include "names.h"

struct ctl_changed {
	char volume[CTL_NAME_MAX + 1];	/* "": not said */
	struct rd_changed changed;	/* ranges in order, and none touches another */
};

/*
 * Returns NULL, or what is wrong, with the number of the line in *@ret_line.
 * @text has a NUL after @len bytes, and is changed. ctl_changed_free() is for
 * both ends.
 */
const char *ctl_changed_parse(struct ctl_changed *ret, char *text, size_t len,
			      unsigned int *ret_line);
void ctl_changed_free(struct ctl_changed *changed);

#endif
