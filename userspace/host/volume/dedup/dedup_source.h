/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which cold blocks of a volume the pool has as well: by the catalog, the newest version N has
 * the content of every block that was not written since. A segment is cold if it is clean now,
 * and N - k had its content already. Of other, warm, segments, single blocks are cold: those
 * that N and N - k have in the same place. A warm segment may be dirty, so a block of it may
 * differ from N's; the caller compares. Where N - k was deleted, the next older version that is
 * there takes its place for warm segments; if none is, they are left alone.
 *
 * The segment's level alone would leave nearly all of a volume that is written at random here
 * and there: most segments are warm then, and most of their blocks cold.
 */
#ifndef RD_DEDUP_SOURCE_H
#define RD_DEDUP_SOURCE_H

#include "host/volume/device/attachment.h"
#include "kernel/format.h"
#include "pool/catalog/versions.h"
#include "pool/engine/read/resolve.h"
#include "pool/pool.h"

struct rd_dedup_source {
	struct rd_pool *pool;
	const struct rd_attachment *at;
	struct rd_version version;	/* the newest one */
	i64 oldest_hot;		/* N - k + 1: rows born with this version or later are not cold */
	i64 before;		/* N - k, or the next older one; 0: there is none */
	struct rd_resolver *resolver;
	u64 nr_segs;		/* of the volume */
	u64 nr_places;		/* that the table's device has; 0: not known yet, any */
	u8 *dirty;		/* a bit for each of them */
};

/*
 * Find the newest version, which must be what the target counts its changes from. @cold: how
 * many versions a block must be older than that, k. -EINVAL, and says so: it is not, or none is.
 */
int rd_dedup_source_open(struct rd_dedup_source *source, struct rd_pool *pool,
			 const struct rd_attachment *at, u64 nr_blocks, unsigned int cold);
void rd_dedup_source_close(struct rd_dedup_source *source);

/* Ask the target anew which segments are dirty. */
int rd_dedup_source_look(struct rd_dedup_source *source);

static inline bool rd_dedup_source_is_dirty(const struct rd_dedup_source *source, u64 segment)
{
	return source->dirty[segment / 8] >> segment % 8 & 1;
}

/*
 * Find the places of @nr segments from @first on: @places has 512 for each. Blocks that are
 * not cold are BASE. The places stay as long as the caller has rd_lease_shut(). -EOPNOTSUPP, and
 * says so: some are in packs, which the loaded module does not read.
 */
int rd_dedup_source_read(struct rd_dedup_source *source, u64 first, unsigned int nr,
			 struct dmr_entry *places);

#endif
