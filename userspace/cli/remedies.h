/* SPDX-License-Identifier: GPL-2.0 */
/* Messages of revdedupctl, and its texts for remedies. */
#ifndef CTL_REMEDIES_H
#define CTL_REMEDIES_H

#include "base/log.h"

extern const struct rd_log_printer ctl_printer;

#endif
