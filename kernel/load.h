/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a metadata device holds: formatted, loaded, or brought to another size. Under
 * meta->lock, before the volume runs; 0 or -errno, which is in the log.
 */
#ifndef DMR_LOAD_H
#define DMR_LOAD_H

#include "dmr.h"

/* Format the device for a volume of @volume_sectors: every segment is dirty. */
int dmr_load_new(struct dmr_meta *meta, struct dmr_target *rt, sector_t volume_sectors);
/* Load the bits that go with @super. */
int dmr_load(struct dmr_meta *meta, const struct dmr_super *super);
/* Record another size of the volume; new segments are dirty. */
int dmr_load_resize(struct dmr_meta *meta, sector_t volume_sectors);

#endif
