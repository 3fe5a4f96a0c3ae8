/* SPDX-License-Identifier: GPL-2.0 */
/* Decode groups of packs (kernel/pack_format.h), for the pool and for the off-line tool. */
#ifndef RD_UNPACK_H
#define RD_UNPACK_H

#include <zstd.h>

#include "kernel/pack_format.h"

/* Are @bytes, group->len of them, what the group had when it was stored? */
bool rd_group_is_sound(const struct dmr_pack_group *group, const void *bytes);

/*
 * Decode @bytes, which are sound, into the blocks of the group. Nothing that they say is trusted.
 * -EBADMSG: they are damaged. -EOPNOTSUPP: a later program stored them.
 */
int rd_group_decode(ZSTD_DCtx *decoder, const struct dmr_pack_group *group, const void *bytes,
		    void *blocks);

#endif
