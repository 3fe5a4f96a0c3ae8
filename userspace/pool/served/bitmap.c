// SPDX-License-Identifier: GPL-2.0
/* Dirty bitmaps of QEMU as lists of changes: see bitmap.h. */
#include <errno.h>
#include <openssl/sha.h>
#include <string.h>

#include "bitmap.h"

static void hash_name(u8 ret[RD_TRACKER_SIZE], const char *name)
{
	static const char kind[] = "dirty bitmap ";
	u8 hash[SHA256_DIGEST_LENGTH];
	struct rd_buffer text = { 0 };

	rd_buffer_put(&text, kind, strlen(kind));
	rd_buffer_put(&text, name, strlen(name));
	memset(ret, 0, RD_TRACKER_SIZE);
	/* Without memory for it the hash is none, and no version has that. */
	if (!text.failed) {
		SHA256(text.data, text.len, hash);
		memcpy(ret, hash, RD_TRACKER_SIZE);
	}
	rd_buffer_free(&text);
}

bool rd_bitmap_is_of(const struct rd_version *version, const char *name)
{
	u8 hash[RD_TRACKER_SIZE];

	hash_name(hash, name);
	return version->id && rd_version_is_tracked(version) &&
		!memcmp(version->tracker, hash, sizeof(hash));
}

int rd_bitmap_choose(struct rd_bitmap_list *list, struct rd_nbd *nbd,
		     const struct rd_version *newest, const char *name, const char *next,
		     struct rd_snapshot_options *options)
{
	int r;

	if (!next && name && rd_nbd_has_bitmap(nbd))
		next = name;
	if (next) {
		hash_name(list->tracker, next);
		options->tracker = list->tracker;
	}
	if (!name || options->why_full)
		return 0;
	if (!rd_bitmap_is_of(newest, name)) {
		if (newest->id)
			options->why_full = "the bitmap does not follow on from the newest version";
		return 0;
	}
	if (!rd_nbd_has_bitmap(nbd)) {
		options->why_full = "the server has no such bitmap";
		return 0;
	}
	r = rd_nbd_dirty(nbd, &list->ranges);
	list->changed = (struct rd_changed){
		.base = newest->number,
		.nr = list->ranges.len / sizeof(struct rd_changed_range),
		.ranges = (struct rd_changed_range *)list->ranges.data,
	};
	options->changed = &list->changed;
	return r;
}
