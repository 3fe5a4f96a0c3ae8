/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is compressed, decoded: contexts for all devices of this host, some 160 KiB each.
 */
#ifndef DMR_DECODE_H
#define DMR_DECODE_H

#include <linux/types.h>

/* Have contexts until as many dmr_decode_put(): 0 or -ENOMEM. Sleeps. */
int dmr_decode_get(void);
void dmr_decode_put(void);

/*
 * Decode one frame of zstd to exactly @want bytes at @to: 0 or -EBADMSG. Nothing that it says
 * is trusted. Allocates nothing. Sleeps.
 */
int dmr_decode(const void *from, size_t len, void *to, size_t want);

#endif
