// SPDX-License-Identifier: GPL-2.0
/* Read the table of a device that is down; see down.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "meta/table_read.h"
#include "attachment.h"
#include "down.h"
#include "target_place.h"

/* Find the attachment of a device. -ENODEV: it is none of this host. */
static int find_attachment(const char *device, struct rd_attachment *ret)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_attachment *at;
	char uuid[RD_DM_NAME_MAX];
	int r = rd_attachments(&all), found = -ENODEV;

	rd_each(at, &all) {
		if (!found || strcmp(rd_part_uuid(uuid, at, NULL), device))
			continue;
		*ret = *at;
		found = 0;
	}
	if (all.failed)
		r = -ENOMEM;
	/* It may be the one whose file cannot be read. */
	return found && r ? r : found;
}

/* A damaged entry names nothing: the target reads no block by it either. */
static int keep_named(const struct rd_meta *meta, struct rd_doomed *doomed)
{
	RD_FREE struct rd_table_walk *walk = malloc(sizeof(*walk));
	struct rd_run run;

	if (!walk)
		return -ENOMEM;
	rd_table_walk_init(walk, meta, 0, U64_MAX);
	while (rd_table_walk_next(walk, &run)) {
		if (run.state == RD_RUN_UNREADABLE)
			return -EIO;
		if (run.state == RD_RUN_KNOWN)
			rd_place_keep(doomed, run.place, run.len);
	}
	return 0;
}

/* Read the table of the metadata @fd. *@ret_why says why that is not possible. */
static int read_table(const struct rd_attachment *at, int fd, struct rd_doomed *doomed,
		      const char **ret_why)
{
	struct rd_meta_source source;
	struct rd_meta meta;
	int r = rd_meta_source_fd(&source, fd);

	if (r)
		return r;
	r = rd_meta_open(&meta, &source);
	/* A table that is half set says nothing of what the other half will be. */
	*ret_why = r ? meta.why : meta.refused;
	if (r)
		return r;
	if (memcmp(meta.super.volume_uuid, at->uuid, sizeof(at->uuid)))
		*ret_why = "these are the metadata of another volume";
	if (*ret_why)
		return -EUCLEAN;
	return meta.super.flags & DMR_FLAG_TABLE ? keep_named(&meta, doomed) : 0;
}

static int keep(struct rd_attachment *at, struct rd_doomed *doomed, bool tells)
{
	const char *why = NULL;
	int r = rd_attachment_locate_meta(at);

	RD_CLOSE int fd = r ? r : rd_meta_open_path(at->meta, NULL);

	r = fd < 0 ? fd : read_table(at, fd, doomed, &why);
	if (!r)
		return 0;
	if (!tells)
		return -ENODEV;
	rd_warn("'%s' is down, and '%s' does not say which blocks of the pool it reads: %s",
		at->volume, at->meta, why ? why : strerror(-r));
	rd_hint("attach '%s'; it is enough to make '%s' readable, as 'lvchange -ay' does",
		at->volume, at->meta);
	return -ENODEV;
}

int rd_down_keep(const char *device, struct rd_doomed *doomed, bool tells)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	unsigned int i, nr = 0;
	int r = at ? find_attachment(device, at) : -ENOMEM;

	if (!r)
		r = keep(at, doomed, tells);
	if (r)
		return r;
	for (i = 0; i < doomed->nr; i++)
		nr += doomed->frames[i].is_kept;
	if (nr)
		rd_info("'%s' is down: %u frames with blocks that it reads are freed when it is up",
			at->volume, nr);
	return 0;
}
