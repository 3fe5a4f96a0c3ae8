/* SPDX-License-Identifier: GPL-2.0 */
/* Give back what is in the queue. Only rd_free_queue() asks for it, which does the rest. */
#ifndef RD_FREE_H
#define RD_FREE_H

#include "pool/pool.h"

/* Set *@ret_forgot where a device is found to be gone, and its lease went. */
int rd_free_places(struct rd_pool *pool, bool *ret_forgot);

#endif
