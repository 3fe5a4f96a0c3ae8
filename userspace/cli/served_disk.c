// SPDX-License-Identifier: GPL-2.0
/* Disks that a snapshot reads from a server: see served_disk.h. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/sys/run.h"
#include "host/volume/attach/safety.h"
#include "served_disk.h"

/* Formats of qemu-nbd that are named before the file, or before what QEMU takes for one. */
static const char *const formats[] = {
	"qcow2", "qcow", "qed", "vmdk", "vdi", "vhdx", "vpc", "parallels",
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

static bool is_stream(const struct ctl *ctl, const char *from)
{
	return from && !strcmp(from, "-") && !ctl_has(ctl, CTL_OPT_QMP);
}

bool ctl_is_served(const struct ctl *ctl, const char *from)
{
	return from && (ctl_has(ctl, CTL_OPT_QMP) || is_stream(ctl, from) || rd_nbd_is_uri(from) ||
			rd_rbd_is_spec(from) || format_of(from));
}

static int check_stream(const struct ctl *ctl, bool has_bitmap)
{
	if (has_bitmap || ctl_has(ctl, CTL_OPT_CHANGED) || ctl_has(ctl, CTL_OPT_FORCE))
		return ctl_usage(ctl, "a stream is read as a whole: leave out --bitmap, --next-bitmap, --changed and --force");
	if (!ctl_has_typed(ctl, CTL_OPT_SIZE))
		return ctl_usage(ctl, "a stream needs --size SIZE, which is that of its disk");
	if (isatty(STDIN_FILENO))
		return ctl_usage(ctl, "stdin is a terminal: --from - reads a disk from a pipe");
	return 0;
}

int ctl_served_check(const struct ctl *ctl, const char *from)
{
	bool has_bitmap = ctl_has(ctl, CTL_OPT_BITMAP) || ctl_has(ctl, CTL_OPT_NEXT_BITMAP);

	if (ctl_has(ctl, CTL_OPT_QMP) && !from)
		return ctl_usage(ctl, "--qmp needs --from DISK, a node or device of that QEMU");
	if (ctl_has(ctl, CTL_OPT_QMP) && (has_bitmap || ctl_has(ctl, CTL_OPT_CHANGED)))
		return ctl_usage(ctl, "with --qmp the bitmaps have names of our own: leave out --bitmap, --next-bitmap and --changed");
	if (ctl_has_typed(ctl, CTL_OPT_SIZE) && !is_stream(ctl, from))
		return ctl_usage(ctl, "--size is for --from -");
	if (is_stream(ctl, from))
		return check_stream(ctl, has_bitmap);
	if (!ctl_is_served(ctl, from))
		return has_bitmap ? ctl_usage(ctl, "--bitmap and --next-bitmap are for --from nbd://... and qcow2:FILE") : 0;
	if (ctl_has(ctl, CTL_OPT_FORCE) && !ctl_has(ctl, CTL_OPT_QMP))
		return ctl_usage(ctl, "--force is for an image or device: what a server gives is of one moment");
	if (!ctl_has(ctl, CTL_OPT_QMP) && rd_rbd_is_spec(from) &&
	    (has_bitmap || ctl_has(ctl, CTL_OPT_CHANGED)))
		return ctl_usage(ctl, "RBD lists what has changed: leave out --bitmap, --next-bitmap and --changed");
	if (has_bitmap && ctl_has(ctl, CTL_OPT_CHANGED))
		return ctl_usage(ctl, "--changed and --bitmap are both a list of changes: give one");
	return 0;
}

/* --- a file that qemu-nbd reads or writes */

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
	return rd_buffer_put_u8(ret, '\0');
}

/* What qemu-img says of an image, in JSON. */
static int read_info(const char *image, struct rd_buffer *ret)
{
	char *const argv[] = { "qemu-img", "info", "--output=json", "--image-opts",
			       (char *)image, NULL };
	int r = rd_run(argv, ret);

	return r > 0 ? -EIO : r;
}

/*
 * Find the bitmap that the user has named, or else one that follows on, among those in the file:
 * one that was not closed well is of no use, and one that does not record only where another goes
 * on from the new version. *@ret is in @names, or NULL.
 */
static int find_bitmap(const struct ctl *ctl, const char *info, const struct rd_version *newest,
		       struct rd_buffer *names, const char **ret)
{
	const char *wanted = ctl_value(ctl, CTL_OPT_BITMAP);
	bool has_next = ctl_has(ctl, CTL_OPT_NEXT_BITMAP);
	static const char question[] = "SELECT iif(EXISTS (SELECT * FROM json_each(b.value, '$.flags')"
		" WHERE value = 'auto'), '+', '-') || json_extract(b.value, '$.name')"
		" FROM json_each(?1, '$.\"format-specific\".data.bitmaps') b WHERE NOT EXISTS"
		" (SELECT * FROM json_each(b.value, '$.flags') WHERE value = 'in-use')";
	const char *name;
	int r = rd_json_ask(info, question, NULL, names);

	*ret = NULL;
	for (name = (const char *)names->data;
	     !r && name < (const char *)names->data + names->len; name += strlen(name) + 1)
		if ((name[0] == '+' || has_next) &&
		    (wanted ? !strcmp(name + 1, wanted) : rd_bitmap_is_of(newest, name + 1)))
			*ret = name + 1;
	return r;
}

/* How to run qemu-nbd. */
struct server {
	struct rd_buffer image;		/* as --image-opts has it */
	char *bitmap;
	char *argv[12];
};

/* @path: "qcow2:FILE". @read_only: or NULL. */
static int choose_server(struct server *server, const char *path, const char *read_only)
{
	const char *format = format_of(path);
	char **argv = server->argv;
	int r;

	memset(server, 0, sizeof(*server));
	/* It ends with the connection, once it has one, and with us before. Ctrl-C is for us. */
	*argv++ = "setpriv";
	*argv++ = "--pdeathsig";
	*argv++ = "TERM";
	*argv++ = "setsid";
	*argv++ = "qemu-nbd";
	if (read_only)
		*argv++ = (char *)read_only;
	r = image_options(format, path + strlen(format) + 1, &server->image);
	*argv++ = "--image-opts";
	*argv = (char *)server->image.data;
	return r;
}

static void free_server(struct server *server)
{
	rd_buffer_free(&server->image);
	free(server->bitmap);
}

/* The last argument is the image. */
static void add_option(struct server *server, char *option)
{
	unsigned int nr;

	for (nr = 0; server->argv[nr]; nr++)
		;
	server->argv[nr] = server->argv[nr - 1];
	server->argv[nr - 1] = option;
}

static int add_bitmap(struct server *server, const char *bitmap)
{
	if (asprintf(&server->bitmap, "--bitmap=%s", bitmap) < 0) {
		server->bitmap = NULL;
		return -ENOMEM;
	}
	add_option(server, server->bitmap);
	return 0;
}

/*
 * The page cache costs the server more than all else, and each byte is read once. What an image has
 * in other files may lie where that is not possible, and is not looked for.
 */
static int pass_by_cache(struct server *server, int fd, const char *info)
{
	static const char question[] = "SELECT coalesce(json_extract(?1, '$.\"backing-filename\"'),"
		" json_extract(?1, '$.\"format-specific\".data.\"data-file\"'),"
		" json_extract(?1, '$.\"format-specific\".data.extents'))";
	RD_BUFFER struct rd_buffer others = { 0 };
	int r = rd_json_ask(info, question, NULL, &others);

	if (!r && !others.len && (fcntl(fd, F_GETFL) & O_DIRECT))
		add_option(server, "--cache=none");
	return r;
}

/* What is to be known of a file that has a format of its own. */
static int look_at_file(const struct ctl *ctl, struct server *server, int fd,
			const struct rd_version *newest, struct rd_buffer *names,
			const char **ret)
{
	RD_BUFFER struct rd_buffer info = { 0 };
	int r = read_info((const char *)server->image.data, &info);

	if (!r)
		r = pass_by_cache(server, fd, (const char *)info.data);
	if (!r)
		r = find_bitmap(ctl, (const char *)info.data, newest, names, ret);
	return r;
}

static int open_server(const struct ctl *ctl, const char *uri, char **argv, const char *bitmap,
		       struct ctl_served_disk *disk)
{
	return rd_nbd_open(&disk->nbd, &(struct rd_nbd_options){
		.uri = uri,
		.argv = argv,
		.bitmap = bitmap,
		.stop = ctl->progress.progress.stop,
	});
}

/* Others than QEMU have no lock of theirs that it knows. */
static int check_unchanged(void *ctx)
{
	struct ctl_served_disk *disk = ctx;
	bool has_changed;
	int r = rd_source_has_changed(&disk->file, &has_changed);

	if (r || !has_changed)
		return r;
	rd_err(0, "'%s' was written while it was read", disk->file.path);
	rd_hint("stop the program that writes to it first");
	return -EBUSY;
}

static int check_file(struct ctl *ctl, struct rd_snapshot_options *options, const char *file,
		      struct ctl_served_disk *disk)
{
	int r = rd_source_open(&disk->file, file, false);

	if (r)
		return r;
	if (rd_is_of_pool(ctl->pool->path, file)) {
		rd_err(0, "'%s' is part of the pool", file);
		return CTL_FAILED;
	}
	options->check = check_unchanged;
	options->ctx = disk;
	return 0;
}

static int open_file(struct ctl *ctl, struct rd_snapshot_options *options,
		     const struct rd_version *newest, struct ctl_served_disk *disk)
{
	const char *file = strchr(options->from, ':') + 1;
	const char *bitmap = ctl_value(ctl, CTL_OPT_BITMAP), *found = NULL;
	RD_BUFFER struct rd_buffer names = { 0 };
	struct server server;
	int r = choose_server(&server, options->from, "--read-only");

	if (!r)
		r = check_file(ctl, options, file, disk);
	if (!r)
		r = look_at_file(ctl, &server, disk->file.store->fd, newest, &names, &found);
	if (!r && found)
		r = add_bitmap(&server, found);
	else if (bitmap && newest->id && !options->why_full)
		options->why_full = "the file has no such bitmap, or one that was not closed well";
	if (!r)
		r = open_server(ctl, options->from, server.argv, found, disk);
	if (!r)
		r = rd_bitmap_choose(&disk->list, disk->nbd, newest, found,
				     ctl_value(ctl, CTL_OPT_NEXT_BITMAP), options);
	free_server(&server);
	return r;
}

/* --- a disk on RBD */

static int check_rbd(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	return rd_rbd_moment_check(&disk->moment);
}

static int end_rbd(void *ctx, const struct rd_version *version)
{
	struct ctl_served_disk *disk = ctx;

	(void)version;
	disk->left = rd_rbd_moment_end(&disk->moment, true);
	return 0;
}

static int open_rbd(struct ctl *ctl, struct rd_snapshot_options *options,
		    const struct rd_version *newest, struct ctl_served_disk *disk)
{
	struct rd_rbd_moment *moment = &disk->moment;
	int r = rd_rbd_open(&disk->rbd, options->from, 0, NULL);

	if (r)
		return r;
	rd_den_name(disk->prefix, ctl->pool->area.super.uuid, options->volume);
	rd_den_unique(moment->new, sizeof(moment->new), disk->prefix);
	moment->rbd = disk->rbd;
	moment->newest = newest;
	moment->prefix = disk->prefix;
	moment->stop = ctl->progress.progress.stop;
	options->check = check_rbd;
	options->copied = end_rbd;
	options->ctx = disk;
	return rd_rbd_moment_begin(moment, options);
}

static int open_rbd_target(const struct ctl *ctl, const char *path, u64 size,
			   struct ctl_served_disk *disk, bool *ret_new)
{
	int nr = 0, r = rd_rbd_open(&disk->rbd, path, size, ret_new);

	if (!r && !ctl_has(ctl, CTL_OPT_FORCE))
		nr = rd_rbd_users(disk->rbd);
	if (r || nr <= 0)
		return r ? r : nr;
	rd_err(0, "'%s' is in use: %d other client%s it open", path, nr,
	       nr == 1 ? " has" : "s have");
	rd_remedy(RD_REMEDY_WRITE_ANYWAY, NULL, "nothing was changed; shut the guest down first");
	return CTL_FAILED;
}

/* --- restoring */

/* Made here, as qemu-img would let everybody read it, and truncate what is there. */
static int make_empty(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 || close(fd) ? rd_err(-errno, "cannot make '%s'", file) : 0;
}

static int make_file(const char *format, const char *file, u64 size)
{
	RD_FREE char *parent = strdup(file);
	char bytes[32];
	char *const argv[] = { "qemu-img", "create", "-q", "-f", (char *)format, (char *)file,
			       bytes, NULL };
	int r = make_empty(file);

	if (r)
		return r;
	snprintf(bytes, sizeof(bytes), "%llu", rd_round_up(size, 512));
	r = rd_run(argv, NULL);
	if (r) {
		unlink(file);
		return r < 0 ? r : -EIO;
	}
	return parent ? rd_sync_directory(dirname(parent)) : -ENOMEM;
}

static int open_nbd_target(const struct ctl *ctl, const char *path, u64 size,
			   struct ctl_served_disk *disk, bool *ret_new)
{
	const char *format = format_of(path);
	struct server server = { 0 };
	int r = 0;

	if (format) {
		r = choose_server(&server, path, NULL);
		*ret_new = !r && access(path + strlen(format) + 1, F_OK);
		if (*ret_new)
			r = make_file(format, path + strlen(format) + 1, size);
	}
	if (!r)
		r = open_server(ctl, path, format ? server.argv : NULL, NULL, disk);
	free_server(&server);
	if (r || !rd_nbd_is_read_only(disk->nbd))
		return r;
	rd_err(0, "the server of '%s' allows no writes", path);
	return -EROFS;
}

int ctl_served_target(const struct ctl *ctl, const char *path, u64 size,
		      struct ctl_served_disk *disk, bool *ret_new)
{
	int r;

	*ret_new = false;
	r = rd_rbd_is_spec(path) ? open_rbd_target(ctl, path, size, disk, ret_new) :
		open_nbd_target(ctl, path, size, disk, ret_new);
	if (!r)
		disk->disk = disk->rbd ? rd_rbd_store(disk->rbd) : rd_nbd_store(disk->nbd);
	return r;
}

/* --- a disk of a QEMU that runs */

static int check_moment(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	return rd_fleece_check(&disk->fleece);
}

static void look(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	rd_fleece_look(&disk->fleece);
}

static void stop_reading(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	rd_fleece_stop_reading(&disk->fleece);
}

static int end_fleece(struct ctl_served_disk *disk)
{
	disk->looks->look = NULL;
	disk->is_fleeced = false;
	return rd_fleece_end(&disk->fleece, disk->is_made);
}

static int note_made(void *ctx, const struct rd_version *version)
{
	struct ctl_served_disk *disk = ctx;

	(void)version;
	/* Nothing more is read, and what comes can take long. */
	disk->is_made = true;
	disk->left = end_fleece(disk);
	return 0;
}

static int open_fleece(struct ctl *ctl, struct rd_snapshot_options *options,
		       const struct rd_version *newest, struct ctl_served_disk *disk)
{
	struct rd_fleece *fleece = &disk->fleece;
	int r;

	disk->looks = &ctl->progress;
	disk->is_fleeced = true;
	r = rd_fleece_begin(fleece, &(struct rd_fleece_options){
		.socket = ctl_value(ctl, CTL_OPT_QMP),
		.disk = options->from,
		.dir = ctl_value(ctl, CTL_OPT_TEMP) ? : RD_DEN_PLACE,
		.pool = ctl->pool->area.super.uuid,
		.volume = options->volume,
		.follows = rd_bitmap_is_of,
		.newest = newest,
		.force = ctl_has(ctl, CTL_OPT_FORCE),
		.lock_fd = ctl->pool->lock_fd,
	});
	if (r)
		return r;
	/* From now on the guest needs room, also while nothing is read. */
	disk->looks->look = look;
	disk->looks->ctx = disk;
	if (!options->why_full)
		options->why_full = fleece->why_full;
	options->check = check_moment;
	options->copied = note_made;
	options->ctx = disk;
	r = rd_nbd_open(&disk->nbd, &(struct rd_nbd_options){
		.uri = fleece->uri,
		.bitmap = fleece->old[0] ? fleece->list : NULL,
		.stop = ctl->progress.progress.stop,
		.look = look,
		.end = stop_reading,
		.ctx = disk,
	});
	return r ? r : rd_bitmap_choose(&disk->list, disk->nbd, newest,
					fleece->old[0] ? fleece->old : NULL, fleece->new, options);
}

/* --- */

static int open_nbd(struct ctl *ctl, struct rd_snapshot_options *options,
		    const struct rd_version *newest, struct ctl_served_disk *disk)
{
	const char *bitmap = ctl_value(ctl, CTL_OPT_BITMAP);
	int r = open_server(ctl, options->from, NULL, bitmap, disk);

	return r ? r : rd_bitmap_choose(&disk->list, disk->nbd, newest, bitmap,
					ctl_value(ctl, CTL_OPT_NEXT_BITMAP), options);
}

static int check_end(void *ctx)
{
	struct ctl_served_disk *disk = ctx;

	return rd_pipe_check_end(&disk->pipe);
}

static int open_stream(struct ctl *ctl, struct rd_snapshot_options *options,
		       struct ctl_served_disk *disk)
{
	u64 size;
	int r = ctl_value_size(ctl, CTL_OPT_SIZE, &size);

	if (!r && size > RD_VERSION_MAX)
		r = ctl_usage(ctl, "--size: no volume is as large as that");
	if (r)
		return r;
	options->why_full = "a stream is read as a whole";
	options->check = check_end;
	options->ctx = disk;
	rd_pipe_open(&disk->pipe, STDIN_FILENO, size, ctl->progress.progress.stop);
	options->store = &disk->pipe.store;
	return 0;
}

int ctl_served_begin(struct ctl *ctl, struct rd_snapshot_options *options,
		     struct ctl_served_disk *disk)
{
	int r;

	if (is_stream(ctl, options->from))
		return open_stream(ctl, options, disk);
	if (ctl_has(ctl, CTL_OPT_FULL_SCAN))
		options->why_full = "as requested";
	r = rd_version_newest(ctl->pool->sql, options->volume, &disk->newest);
	if (r)
		return r;
	if (ctl_has(ctl, CTL_OPT_QMP))
		r = open_fleece(ctl, options, &disk->newest, disk);
	else if (rd_rbd_is_spec(options->from))
		r = open_rbd(ctl, options, &disk->newest, disk);
	else if (format_of(options->from))
		r = open_file(ctl, options, &disk->newest, disk);
	else
		r = open_nbd(ctl, options, &disk->newest, disk);
	if (!r)
		disk->disk = disk->rbd ? rd_rbd_store(disk->rbd) : rd_nbd_store(disk->nbd);
	options->store = disk->disk;
	return r;
}

int ctl_served_end(struct ctl_served_disk *disk)
{
	/* QEMU ends the connection, and not we: see rd_nbd_options. */
	int r = disk->is_fleeced ? end_fleece(disk) : disk->left;

	if (disk->moment.rbd && !r)
		r = rd_rbd_moment_end(&disk->moment, false);
	rd_rbd_close(disk->rbd);
	rd_nbd_close(disk->nbd);
	rd_buffer_free(&disk->list.ranges);
	if (disk->file.path)
		rd_source_close(&disk->file);
	return r;
}
