// SPDX-License-Identifier: GPL-2.0
/* The target revdedup: its table line, its status line and its messages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kernel/ranges.h"
#include "target.h"

bool rd_target_exists(void)
{
	return rd_dm_has_target(RD_TARGET, NULL);
}

int rd_target_require(void)
{
	if (rd_target_exists())
		return 0;
	rd_err(0, "there is no module dm-revdedup for this kernel");
	rd_hint("nothing was changed; 'apt install revdedup-dkms linux-headers-$(uname -r)', or 'make install', installs it");
	return -ENOPKG;
}

/* Once it does, it goes on to: a module does not change while it has devices. */
static bool reads_packs(u32 version[3])
{
	static bool known;

	if (!known)
		known = rd_dm_has_target(RD_TARGET, version) &&
			(version[0] > 1 || (version[0] == 1 && version[1] >= 1));
	return known;
}

bool rd_target_reads_packs(void)
{
	u32 version[3];

	return reads_packs(version);
}

int rd_target_require_packs(void)
{
	u32 version[3] = { 0 };

	if (reads_packs(version))
		return 0;
	rd_err(0, "the loaded module dm-revdedup (%u.%u.%u) cannot read what is compressed",
	       version[0], version[1], version[2]);
	rd_hint("nothing was changed; load the newer one, 1.1.0 or later: install it, and restart the host, or, once nothing uses the old one, 'modprobe -r dm-revdedup'");
	return -ENOPKG;
}

/* --- the table line */

/* The last word of the options, which are "<number of words> <word>..." */
#define ZEROS	" zeros"

int rd_target_load(const char *name, const struct rd_target_table *table, unsigned int flags)
{
	RD_FREE char *params = NULL;
	char uuid[RD_UUID_TEXT], options[128] = "";
	unsigned int words = 0;
	size_t at = 0;

	if (table->volume_uuid) {
		at += sprintf(options + at, " volume_uuid %s",
			      rd_uuid_print(uuid, table->volume_uuid));
		words += 2;
	}
	if (table->pool_uuid) {
		at += sprintf(options + at, " pool_uuid %s",
			      rd_uuid_print(uuid, table->pool_uuid));
		words += 2;
	}
	if (table->zeros) {
		sprintf(options + at, ZEROS);
		words++;
	}
	if (asprintf(&params, "%s %s %s %u%s", table->base ? table->base : "-", table->meta,
		     table->pool ? table->pool : "-", words, options) < 0) {
		params = NULL;
		return -ENOMEM;
	}
	return rd_dm_load(name, table->sectors, RD_TARGET, params, flags);
}

int rd_target_devices(const char *name, struct rd_target_devices *ret)
{
	RD_FREE char *text = NULL;
	char target[RD_DM_NAME_MAX];
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_dm_table(name, &ret->sectors, target, &text);
	if (r)
		return r;
	if (strcmp(target, RD_TARGET) ||
	    sscanf(text, "%31s %31s %31s %127[^\n]", ret->base, ret->meta, ret->pool,
		   ret->options) < 3)
		return -ENODATA;
	return 0;
}

bool rd_target_has_zeros(const struct rd_target_devices *devices)
{
	const char *at = strstr(devices->options, ZEROS);

	return at && (!at[strlen(ZEROS)] || at[strlen(ZEROS)] == ' ');
}

void rd_target_set_zeros(struct rd_target_devices *devices, bool zeros)
{
	char words[sizeof(devices->options)], *at;
	unsigned int nr = 0;
	int used = 0;

	if (rd_target_has_zeros(devices) == zeros)
		return;
	sscanf(devices->options, "%u%n", &nr, &used);
	snprintf(words, sizeof(words), "%s", devices->options + used);
	at = strstr(words, ZEROS);
	if (at)
		memmove(at, at + strlen(ZEROS), strlen(at + strlen(ZEROS)) + 1);
	snprintf(devices->options, sizeof(devices->options), "%u%.110s%s",
		 zeros ? nr + 1 : nr - 1, words, zeros ? ZEROS : "");
}

int rd_target_reload(const char *name, const struct rd_target_devices *devices)
{
	char params[256];

	snprintf(params, sizeof(params), "%s %s %s %s", devices->base, devices->meta,
		 devices->pool, devices->options);
	return rd_dm_load(name, devices->sectors, RD_TARGET, params, 0);
}

/* --- the status line */

static int parse_status(const char *text, struct rd_target_status *ret)
{
	char checkpoint[24], tracking[8];
	unsigned int format;

	memset(ret, 0, sizeof(*ret));
	if (sscanf(text, "%u %llu %23s %llu %llu/%llu %llu %llu %llu %llu %7s %7s %7s", &format,
		   &ret->epoch, checkpoint, &ret->version, &ret->nr_dirty, &ret->nr_segs,
		   &ret->nr_base, &ret->nr_zero, &ret->nr_pool, &ret->hydration_left, tracking,
		   ret->mode, ret->hydration) != 13)
		return -ENODATA;
	ret->has_checkpoint = strcmp(checkpoint, "-") != 0;
	ret->checkpoint = ret->has_checkpoint ? strtoull(checkpoint, NULL, 10) : 0;
	ret->is_lost = strcmp(tracking, "ok") != 0;
	return 0;
}

int rd_target_status(const char *name, struct rd_target_status *ret)
{
	RD_FREE char *text = NULL;
	char target[RD_DM_NAME_MAX];
	u64 sectors;
	int r;

	r = rd_dm_status(name, &sectors, target, &text);
	if (r)
		return r;
	return strcmp(target, RD_TARGET) ? -ENODATA : parse_status(text, ret);
}

/* --- messages */

#define MAX_TRIES	1500
#define PAUSE_US	20000

bool rd_target_again(int r, unsigned int *tries)
{
	if (r != -EBUSY || ++*tries > MAX_TRIES)
		return false;
	usleep(PAUSE_US);
	return true;
}

int rd_target_checkpoint(const char *name, u64 epoch)
{
	char text[64];

	sprintf(text, "checkpoint %llu", epoch);
	return rd_dm_message(name, text, NULL);
}

int rd_target_commit(const char *name, u64 epoch, u64 version)
{
	char text[64];

	sprintf(text, "commit %llu %llu", epoch, version);
	return rd_dm_message(name, text, NULL);
}

int rd_target_abort(const char *name, u64 epoch)
{
	char text[64];

	sprintf(text, "abort %llu", epoch);
	return rd_dm_message(name, text, NULL);
}

/* "<first>,<length>;... <next>", or "- <next>" */
static int take_ranges(const char *text, struct rd_buffer *ret, u64 *ret_next)
{
	u64 first, len;
	int used;

	while (sscanf(text, "%llx,%llx%n", &first, &len, &used) == 2) {
		struct rd_changed_range range = {
			.offset = first << RD_SEG_SHIFT,
			.len = len << RD_SEG_SHIFT,
		};

		rd_buffer_put(ret, &range, sizeof(range));
		text += used;
		text += *text == ';';
	}
	text += *text == '-';
	return sscanf(text, " %llu", ret_next) == 1 ? 0 : -EPROTO;
}

int rd_target_dirty(const char *name, const char *which, u64 nr_segs, struct rd_buffer *ret)
{
	char text[80];
	u64 next = 0;
	int r = 0;

	while (!r && next < nr_segs) {
		RD_FREE char *answer = NULL;
		u64 before = next;

		sprintf(text, "dirty %s %llu %llu", which, next, nr_segs - next);
		r = rd_dm_message(name, text, &answer);
		if (!r)
			r = answer ? take_ranges(answer, ret, &next) : -EPROTO;
		if (r == -EPROTO || (!r && next <= before))
			r = rd_err(-EPROTO, "cannot understand the answer of '%s'", name);
	}
	return !r && ret->failed ? -ENOMEM : r;
}

int rd_target_take_places(char *answer, u64 *ret_next, struct rd_buffer *ret)
{
	static const struct dmr_range_rules rules = {
		.limit = U64_MAX, .nr_places = 1, .pool_blocks = U64_MAX,
	};
	char *blank = strrchr(answer, ' ');
	const char *at = answer;
	struct dmr_range range;
	int r = 0;

	if (!blank || sscanf(blank, " %llu", ret_next) != 1)
		return -EPROTO;
	*blank = '\0';
	while (strcmp(at, "-") && (r = dmr_range_next(&at, &rules, &range)) > 0)
		rd_buffer_put(ret, &range, sizeof(range));
	return r;
}
