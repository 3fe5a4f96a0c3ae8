// SPDX-License-Identifier: GPL-2.0
/* What the list of changes since a version begins with: see tracker.h. */
#include <openssl/sha.h>
#include <string.h>

#include "base/buffer.h"
#include "tracker.h"

void rd_tracker_hash(u8 ret[RD_TRACKER_SIZE], const char *kind, const char *name)
{
	u8 hash[SHA256_DIGEST_LENGTH];
	struct rd_buffer text = { 0 };

	rd_buffer_put(&text, kind, strlen(kind));
	rd_buffer_put_u8(&text, ' ');
	rd_buffer_put(&text, name, strlen(name));
	memset(ret, 0, RD_TRACKER_SIZE);
	/* Without memory for it the hash is none, and no version has that. */
	if (!text.failed) {
		SHA256(text.data, text.len, hash);
		memcpy(ret, hash, RD_TRACKER_SIZE);
	}
	rd_buffer_free(&text);
}

bool rd_tracker_is_of(const struct rd_version *version, const char *kind, const char *name)
{
	u8 hash[RD_TRACKER_SIZE];

	rd_tracker_hash(hash, kind, name);
	return version->id && rd_version_is_tracked(version) &&
		!memcmp(version->tracker, hash, sizeof(hash));
}
