/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parse a list of changed ranges of an image, which another tool wrote. Pure.
 *
 *	# a comment
 *	version vm1@3
 *	0 4096
 *	0x200000 0x1000
 *
 * The first line that is neither empty nor a comment names the version before the
 * changes; "version 3" leaves the volume out. Then come ranges, offset and length in
 * bytes, in any order. The last line needs its end too, so that a list that is cut off is
 * recognized.
 */
#ifndef CTL_CHANGE_LIST_H
#define CTL_CHANGE_LIST_H

#include "pool/engine/snapshot/snapshot.h"
#include "names.h"

struct ctl_changed {
	char volume[CTL_NAME_MAX + 1];	/* "": not named */
	struct rd_changed changed;	/* ranges in order, and none touches another */
};

/*
 * Returns NULL, or what is wrong, with the number of the line in *@ret_line.
 * @text has a NUL after @len bytes, and is changed. ctl_changed_free() is to
 * be called in both cases.
 */
const char *ctl_changed_parse(struct ctl_changed *ret, char *text, size_t len,
			      unsigned int *ret_line);
void ctl_changed_free(struct ctl_changed *changed);

#endif
