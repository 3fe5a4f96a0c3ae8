/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tell whether an image or a block device is written while it is read: by what the file
 * system or the kernel counts. A write that neither has seen by then is not noticed.
 */
#ifndef RD_SOURCE_H
#define RD_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/units.h"

struct rd_source {
	struct stat st;
	u64 sectors;		/* of a device: how many it has written and discarded */
};

/* Before it is read, and after that. What a device has cached is written first. */
int rd_source_look(int fd, struct rd_source *ret);

bool rd_source_was_cut(const struct rd_source *before, const struct rd_source *after);
bool rd_source_has_changed(const struct rd_source *before, const struct rd_source *after);

#endif
