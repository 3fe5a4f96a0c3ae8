// SPDX-License-Identifier: GPL-2.0
/* Disks that a snapshot reads from a server: see served_disk.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/sys/run.h"
#include "served_disk.h"

#define TEMP	"/var/tmp"

/* Formats of qemu-nbd that are named before the file, or before what QEMU takes for one. */
static const char *const formats[] = {
	"qcow2", "qcow", "qed", "vmdk", "vdi", "vhdx", "vpc", "parallels", "rbd",
};

/* The format that @from begins with, or NULL. */
static const char *format_of(const char *from)
{
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		len = strlen(formats[i]);
		if (!strncmp(from, formats[i], len) && from[len] == ':')
			return formats[i];
	}
	return NULL;
}

bool ctl_is_served(const struct ctl *ctl, const char *from)
{
	return from && (ctl_has(ctl, CTL_OPT_QMP) || rd_nbd_is_uri(from) || format_of(from));
}

int ctl_served_check(const struct ctl *ctl, const char *from)
{
	bool has_bitmap = ctl_has(ctl, CTL_OPT_BITMAP) || ctl_has(ctl, CTL_OPT_NEXT_BITMAP);

	if (ctl_has(ctl, CTL_OPT_QMP) && (!from || has_bitmap))
		return ctl_usage(ctl, from ? "with --qmp the bitmaps have names of our own: leave out --bitmap and --next-bitmap" :
				 "--qmp needs --from DISK, a node or device of that QEMU");
	if (!ctl_is_served(ctl, from))
		return has_bitmap ? ctl_usage(ctl, "--bitmap and --next-bitmap are for --from nbd://... and qcow2:FILE") : 0;
	if (ctl_has(ctl, CTL_OPT_FORCE))
		return ctl_usage(ctl, "--force is for an image or device: what a server gives is of one moment");
	if (has_bitmap && ctl_has(ctl, CTL_OPT_CHANGED))
		return ctl_usage(ctl, "--changed and --bitmap are both a list of changes: give one");
	return 0;
}

/* --- a file that qemu-nbd reads */

/* As --image-opts has it: a comma in the path is doubled. */
static int image_options(const char *format, const char *path, struct rd_buffer *ret)
{
	static const char file[] = ",file.driver=file,file.filename=";

	rd_buffer_put(ret, "driver=", strlen("driver="));
	rd_buffer_put(ret, format, strlen(format));
	rd_buffer_put(ret, file, strlen(file));
	for (; *path; path++) {
		rd_buffer_put_u8(ret, *path);
		if (*path == ',')
			rd_buffer_put_u8(ret, ',');
	}
	rd_buffer_put_u8(ret, '\0');
	return ret->failed ? -ENOMEM : 0;
}

/*
 * Find the bitmap that the user has named, or else one that follows on, among those in the file:
 * one that was not closed well is of no use. *@ret is in @names, or NULL.
 */
static int find_bitmap(const char *image, const struct rd_version *newest, const char *wanted,
		       struct rd_buffer *names, const char **ret)
{
	static const char question[] = "SELECT json_extract(b.value, '$.name')"
		" FROM json_each(?1, '$.\"format-specific\".data.bitmaps') b WHERE NOT EXISTS"
		" (SELECT * FROM json_each(b.value, '$.flags') f WHERE f.value = 'in-use')";
	char *const argv[] = { "qemu-img", "info", "--output=json", "--image-opts",
			       (char *)image, NULL };
	struct rd_buffer json = { 0 };
	const char *name;
	int r;

	*ret = NULL;
	r = rd_run(argv, &json);
	r = r > 0 ? -EIO : r;
	if (!r)
		r = rd_json_ask((const char *)json.data, question, NULL, names);
	rd_buffer_free(&json);
	for (name = (const char *)names->data;
	     !r && name < (const char *)names->data + names->len; name += strlen(name) + 1)
		if (wanted ? !strcmp(name, wanted) : rd_bitmap_is_of(newest, name))
			*ret = name;
	return r;
}

static int open_file(struct ctl *ctl, struct rd_snapshot_options *options,
		     const struct rd_version *newest, struct ctl_served_disk *disk)
{
	const char *format = format_of(options->from), *path = strchr(options->from, ':') + 1;
	const char *bitmap = ctl_value(ctl, CTL_OPT_BITMAP), *found = NULL;
	struct rd_buffer image = { 0 }, names = { 0 };
	bool is_rbd = !strcmp(format, "rbd");
	char option[300];
	char *argv[] = { "qemu-nbd", "--read-only", is_rbd ? "--format=raw" : "--image-opts",
			 is_rbd ? (char *)options->from : NULL, NULL, NULL };
	int r = 0;

	if (!is_rbd && access(path, R_OK))
		return rd_err(-errno, "cannot open '%s'", path);
	if (!is_rbd) {
		r = image_options(format, path, &image);
		argv[3] = (char *)image.data;
	}
	if (!r && !is_rbd)
		r = find_bitmap(argv[3], newest, bitmap, &names, &found);
	if (found) {
		snprintf(option, sizeof(option), "--bitmap=%s", found);
		argv[4] = option;
	} else if (bitmap && newest->id && !options->why_full) {
		options->why_full = "the file has no such bitmap, or one that was not closed well";
	}
	if (!r)
		r = rd_nbd_open(&disk->nbd, options->from, argv, found);
	if (!r)
		r = rd_bitmap_choose(&disk->list, disk->nbd, newest, found,
				     ctl_value(ctl, CTL_OPT_NEXT_BITMAP) ? : bitmap ? : found,
				     options);
	rd_buffer_free(&image);
	rd_buffer_free(&names);
	return r;
}

/* --- a disk of a QEMU that runs */

static int check_moment(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	return rd_fleece_check(&disk->fleece);
}

static int note_made(void *ctx, const struct rd_version *version)
{
	struct ctl_served_disk *disk = ctx;

	(void)version;
	disk->is_made = true;
	return 0;
}

static int open_fleece(struct ctl *ctl, struct rd_snapshot_options *options,
		       const struct rd_version *newest, struct ctl_served_disk *disk)
{
	struct rd_fleece *fleece = &disk->fleece;
	int r;

	disk->is_fleeced = true;
	r = rd_fleece_begin(fleece, &(struct rd_fleece_options){
		.socket = ctl_value(ctl, CTL_OPT_QMP),
		.disk = options->from,
		.dir = ctl_has(ctl, CTL_OPT_TEMP) ? ctl_value(ctl, CTL_OPT_TEMP) : TEMP,
		.pool = ctl->pool->area.super.uuid,
		.volume = options->volume,
		.follows = rd_bitmap_is_of,
		.newest = newest,
	});
	if (r)
		return r;
	if (!options->why_full)
		options->why_full = fleece->why_full;
	options->check = check_moment;
	options->copied = note_made;
	options->ctx = disk;
	r = rd_nbd_open(&disk->nbd, fleece->uri, NULL, fleece->old[0] ? fleece->list : NULL);
	return r ? r : rd_bitmap_choose(&disk->list, disk->nbd, newest,
					fleece->old[0] ? fleece->old : NULL, fleece->new, options);
}

/* --- */

static int open_nbd(struct ctl *ctl, struct rd_snapshot_options *options,
		    const struct rd_version *newest, struct ctl_served_disk *disk)
{
	const char *bitmap = ctl_value(ctl, CTL_OPT_BITMAP);
	int r = rd_nbd_open(&disk->nbd, options->from, NULL, bitmap);

	return r ? r : rd_bitmap_choose(&disk->list, disk->nbd, newest, bitmap,
					ctl_value(ctl, CTL_OPT_NEXT_BITMAP) ? : bitmap, options);
}

static int find_newest(struct ctl *ctl, const char *volume, struct rd_version *ret)
{
	i64 id;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_volume_find(ctl->pool->sql, volume, &id);
	if (!r)
		r = rd_version_before(ctl->pool->sql, id, INT64_MAX, ret);
	if (r != -ENOENT)
		return r;
	ret->id = 0;
	return 0;
}

int ctl_served_begin(struct ctl *ctl, struct rd_snapshot_options *options,
		     struct ctl_served_disk *disk)
{
	struct rd_version newest;
	int r;

	memset(disk, 0, sizeof(*disk));
	disk->fleece.lock = -1;
	if (ctl_has(ctl, CTL_OPT_FULL_SCAN))
		options->why_full = "as requested";
	r = find_newest(ctl, options->volume, &newest);
	if (r)
		return r;
	if (ctl_has(ctl, CTL_OPT_QMP))
		r = open_fleece(ctl, options, &newest, disk);
	else if (format_of(options->from))
		r = open_file(ctl, options, &newest, disk);
	else
		r = open_nbd(ctl, options, &newest, disk);
	if (!r)
		options->served = rd_nbd_served(disk->nbd);
	return r;
}

int ctl_served_end(struct ctl_served_disk *disk)
{
	rd_nbd_close(disk->nbd);
	rd_buffer_free(&disk->list.ranges);
	return disk->is_fleeced ? rd_fleece_end(&disk->fleece, disk->is_made) : 0;
}
