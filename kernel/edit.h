/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages that give blocks another place. Under message_lock only; 0 or -errno, which
 * is in the log.
 */
#ifndef DMR_EDIT_H
#define DMR_EDIT_H

#include "dmr.h"

int dmr_edit_remap(struct dmr_table *t, const char *ranges);
int dmr_edit_set(struct dmr_table *t, const char *ranges);
int dmr_edit_begin(struct dmr_table *t);
int dmr_edit_end(struct dmr_table *t);

#endif
