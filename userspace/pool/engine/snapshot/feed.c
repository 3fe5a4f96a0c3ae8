// SPDX-License-Identifier: GPL-2.0
/* What a feed has put there: decoded, and compared with what it said. */
#include <errno.h>
#include <string.h>

#include "feed.h"

size_t rd_feed_unpack(const struct rd_feed_segment *fed, const struct rd_feed_to *to,
		      const u8 uuid[16], struct rd_packer *packer)
{
	size_t len;

	if (!fed->is_packed)
		return 0;
	memcpy(to->head->uuid, uuid, sizeof(to->head->uuid));
	len = rd_pack_adopt(to->head, to->pack);
	if (len && !rd_pack_unpack(packer, to->head, to->pack, to->data))
		return len;
	/* Not what a segment before has left: it may be another's. */
	memset(to->data, 0, RD_SEG_SIZE);
	return 0;
}

/* Content behind the end is none of the version, and the sum over it would not tell. */
static bool ends_well(const struct rd_feed *feed, u64 segment, const u8 *data)
{
	u64 len = feed->size - (segment << RD_SEG_SHIFT);

	return len >= RD_SEG_SIZE || rd_is_zero(data + len, RD_SEG_SIZE - len);
}

int rd_feed_check(const struct rd_feed *feed, const struct rd_feed_segment *fed,
		  const struct rd_seg_fp *fp, const u8 *data)
{
	return rd_seg_fp_equal(fp, &fed->fp) && ends_well(feed, fed->segment, data) ? 0 : -EBADMSG;
}
