/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages to the target.
 */
#ifndef DMR_MESSAGE_H
#define DMR_MESSAGE_H

#include "dmr.h"

/* Run one message: 0, 1 with an answer in *@result, or -errno, which is in the log. Sleeps. */
int dmr_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen);

#endif
