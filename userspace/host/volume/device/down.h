/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attached volumes whose device is down, as after a boot at which they were not attached. The
 * table that the device will have is in its metadata, and nothing changes it before: only a
 * command that keeps others from freeing gives a device places of the pool.
 */
#ifndef RD_DOWN_H
#define RD_DOWN_H

#include "pool/engine/space/lease.h"

/*
 * Keep in the queue what the device with the dm UUID @device, which is down, names of what is
 * @doomed. Negative: that is not known; says why, if it @tells, where the user can change that.
 */
int rd_down_keep(const char *device, struct rd_doomed *doomed, bool tells);

#endif
