// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl restore, dump: write a version to a file, a block device or stdout.
 *
 * Never to a target in use, nor to the pool itself; to a target with content only after the
 * user has agreed.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "host/sys/block.h"
#include "host/sys/probe.h"
#include "host/volume/attach/safety.h"
#include "pool/engine/read/restore.h"
#include "pool/stream/receive_disk.h"
#include "remote.h"
#include "served_disk.h"

struct target {
	const char *path;
	int fd;
	bool is_new;		/* made by this command */
	bool is_device;
	u64 size;
	struct ctl_served_disk served;	/* where a server has it */
};

/* --- opening it */

/* Open the target, past the page cache if @direct: the data would fill the cache. */
static int open_target(const char *path, int flags, bool direct)
{
	int fd;

	if (direct)
		return rd_open_direct(path, flags | O_RDWR, 0600);
	fd = open(path, flags | O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_new(struct target *target)
{
	target->is_new = true;
	target->fd = open_target(target->path, O_CREAT | O_EXCL, true);
	if (target->fd < 0)
		return rd_err(target->fd, "cannot make '%s'", target->path);
	return 0;
}

static int check_size(const struct target *target, const struct ctl_version *version)
{
	if (target->size >= version->version.size)
		return 0;
	rd_err(0, "'%s' has %llu bytes, but %s has %llu", target->path, target->size,
	       version->name, version->version.size);
	rd_hint("nothing was changed; restore it to a larger device");
	return CTL_FAILED;
}

static int open_device(struct ctl *ctl, struct target *target, const struct ctl_version *version)
{
	bool force = ctl_has(ctl, CTL_OPT_FORCE);
	/* The end of an image that is no whole sector needs the page cache. */
	bool direct = !(version->version.size % RD_BLOCK_SIZE);
	int r;

	target->fd = open_target(target->path, force ? 0 : O_EXCL, direct);
	if (target->fd == -EBUSY) {
		rd_err(0, "'%s' is in use: it is mounted, or part of another device", target->path);
		rd_hint("nothing was changed; unmount it first, or use --force");
		return CTL_FAILED;
	}
	if (target->fd < 0)
		return rd_err(target->fd, "cannot open '%s'", target->path);
	r = rd_size_of(target->fd, &target->size, &target->is_device);
	if (r)
		return rd_err(r, "cannot look at '%s'", target->path);
	return check_size(target, version);
}

static int open_file(struct target *target, const struct stat *st)
{
	target->size = st->st_size;
	target->fd = open_target(target->path, 0, true);
	if (target->fd < 0)
		return rd_err(target->fd, "cannot open '%s'", target->path);
	return 0;
}

/* @pool: the one that the version is in or, if it comes from elsewhere, the one here. */
static int check_overwrite(struct ctl *ctl, const char *path, const char *pool,
			   const struct ctl_version *version)
{
	RD_BUFFER struct rd_buffer volumes = { 0 }, names = { 0 };
	const struct ctl_volume *volume;
	struct rd_overwrite overwrite = {
		.pool = pool ? : "",
		.volume = version->volume,
		.version = version->name,
		.volumes = &names,
		.force = ctl_has(ctl, CTL_OPT_FORCE),
		.inside = !ctl_has(ctl, CTL_OPT_FROM),
	};
	int r;

	r = ctl->pool ? ctl_volumes(ctl, NULL, &volumes) : 0;
	rd_each(volume, &volumes)
		rd_buffer_put(&names, volume->name, strlen(volume->name) + 1);
	if (!r && names.failed)
		r = -ENOMEM;
	return r ? r : rd_check_overwrite(path, &overwrite);
}

static int open_served(const struct ctl *ctl, struct target *target,
		       const struct ctl_version *version)
{
	int r;

	r = ctl_served_target(ctl, target->path, version->version.size, &target->served,
			      &target->is_new);
	if (r)
		return r;
	target->is_device = true;
	target->size = target->served.disk->bytes;
	return check_size(target, version);
}

static int open_any(struct ctl *ctl, struct target *target, const struct ctl_version *version)
{
	const char *pool = ctl->pool ? ctl->pool->path : ctl_pool_path(ctl);
	struct stat st;
	int r;

	if (ctl_is_served(ctl, target->path))
		return open_served(ctl, target, version);
	/* What comes from elsewhere needs no pool here. */
	if (pool && rd_is_of_pool(pool, target->path)) {
		rd_err(0, "'%s' is part of the pool", target->path);
		rd_hint("nothing was changed; restore to a place outside of '%s'", pool);
		return CTL_FAILED;
	}
	if (stat(target->path, &st)) {
		if (errno != ENOENT)
			return rd_err(-errno, "cannot look at '%s'", target->path);
		return open_new(target);
	}
	if (S_ISBLK(st.st_mode) || S_ISREG(st.st_mode)) {
		r = check_overwrite(ctl, target->path, pool, version);
		if (r)
			return r;
		return S_ISBLK(st.st_mode) ? open_device(ctl, target, version) :
			open_file(target, &st);
	}
	rd_err(0, "'%s' is neither a file nor a block device", target->path);
	rd_hint("nothing was changed; 'revdedupctl dump' writes to stdout");
	return CTL_FAILED;
}

/* --- may it be overwritten? */

/* Print "vg-vm1, 8.0 MiB, holds ext4" into @text, and return it. */
static const char *describe(char *text, size_t size, const struct target *target)
{
	char name[RD_DM_NAME_MAX] = "";
	struct rd_content content;
	const char *holds = "";
	struct stat st;

	if (!stat(target->path, &st) && S_ISBLK(st.st_mode)) {
		rd_block_dm(st.st_rdev, "name", name);
		if (!rd_probe(target->path, &content))
			holds = rd_content_text(&content);
	}
	snprintf(text, size, "%s%s%s%s%s", name, name[0] ? ", " : "",
		 ctl_size(target->size), holds[0] ? ", holds " : "", holds);
	return text;
}

static int ask_overwrite(const struct ctl *ctl, const struct target *target,
			 const struct ctl_version *version)
{
	char text[256];

	/* The target is empty. */
	if (!target->size || (target->served.disk && target->is_new))
		return 0;
	return ctl_ask(ctl, "%s '%s' (%s) exists, and %s would overwrite it",
		       target->served.disk ? "disk" : target->is_device ? "device" : "file",
		       target->path,
		       describe(text, sizeof(text), target),
		       version->name);
}

/* --- writing */

static enum rd_restore_mode mode_for(const struct ctl *ctl, const struct target *target)
{
	if (target->served.disk ? target->is_new : !target->is_device && !target->size)
		return RD_RESTORE_NEW;
	return ctl_has(ctl, CTL_OPT_FULL) ? RD_RESTORE_FULL : RD_RESTORE_DELTA;
}

static int sync_parent(const char *path)
{
	RD_FREE char *copy = strdup(path);

	return copy ? rd_sync_directory(dirname(copy)) : -ENOMEM;
}

/* Give a file room for whole blocks, which are written even at the end. */
static int grow(const struct target *target, u64 size)
{
	u64 bytes = rd_round_up(size, RD_BLOCK_SIZE);

	if (target->is_device || target->size >= bytes)
		return 0;
	if (ftruncate(target->fd, bytes))
		return rd_err(-errno, "cannot set the size of '%s'", target->path);
	return 0;
}

static int finish(const struct target *target, u64 size)
{
	/* What a server has is flushed. */
	if (target->served.disk)
		return 0;
	if (!target->is_device && ftruncate(target->fd, size))
		return rd_err(-errno, "cannot set the size of '%s'", target->path);
	if (fdatasync(target->fd))
		return rd_err(-errno, "cannot flush '%s'", target->path);
	return target->is_new ? sync_parent(target->path) : 0;
}

static int write_target(struct ctl *ctl, const struct target *target,
			const struct ctl_version *version, struct rd_restore_report *report)
{
	struct rd_restore_options options = {
		.version = version->version,
		.mode = mode_for(ctl, target),
		.fd = target->fd,
		.is_device = target->is_device,
		.store = target->served.disk,
	};
	int r;

	r = grow(target, version->version.size);
	if (!r) {
		ctl_progress_begin(&ctl->progress, version->name);
		r = rd_restore(ctl->pool, &options, report);
		ctl_progress_clear(&ctl->progress);
	}
	if (!r)
		r = finish(target, version->version.size);
	if (r)
		rd_hint("'%s' is incomplete; repeat the command: it does not write again what is written already",
			target->path);
	return r;
}

/* --- telling */

static void print_json(struct ctl *ctl, const struct target *target,
		       const struct ctl_version *version, const struct rd_restore_report *report)
{
	ctl_json_begin(ctl, "restore");
	rd_json_add(&ctl->out, "version=%s target=%s size=%llu bytes_read=%llu bytes_written=%llu",
		    version->name, target->path, version->version.size, report->bytes_read,
		    report->bytes_written);
	rd_json_add(&ctl->out, "bytes_same=%llu blocks_from_copies=%llu",
		    report->bytes_same, report->blocks_copied);
	ctl_json_bad(ctl, report);
	ctl_json_end(ctl);
}

/* They are right, but not for long, maybe. */
static void tell_copied(const struct ctl_version *version, const struct rd_restore_report *report)
{
	if (!report->blocks_copied)
		return;
	rd_warn("%s: %llu damaged block%s taken from the copies", version->name,
		report->blocks_copied, report->blocks_copied == 1 ? " was" : "s were");
	rd_hint("'revdedupctl repair' heals the pool");
}

static int tell(struct ctl *ctl, const struct target *target,
		const struct ctl_version *version, const struct rd_restore_report *report)
{
	char except[CTL_EXCEPT_TEXT];

	if (ctl->json)
		print_json(ctl, target, version, report);
	else if (!ctl->quiet)
		printf("restored %s to '%s'%s: wrote %s of %s\n", version->name, target->path,
		       ctl_bad_print(except, report), ctl_size(report->bytes_written),
		       ctl_size(version->version.size));
	tell_copied(version, report);
	if (!report->bad.len)
		return 0;
	ctl_print_bad(version, report, ", not written");
	rd_hint("in these ranges '%s' has %s; 'revdedupctl scrub' lists the versions that are damaged",
		target->path, target->size ? "its previous content" : "zeros");
	ctl_tell_moved(ctl);
	return CTL_DAMAGE;
}

static int restore_to(struct ctl *ctl, struct target *target, struct ctl_version *version)
{
	struct rd_restore_report report = { 0 };
	int r;

	r = open_any(ctl, target, version);
	if (!r)
		r = ask_overwrite(ctl, target, version);
	if (!r)
		r = write_target(ctl, target, version, &report);
	if (!r)
		r = tell(ctl, target, version, &report);
	rd_buffer_free(&report.bad);
	return r;
}

/* --- to stdout */

static int stream(struct ctl *ctl, struct ctl_version *version)
{
	struct rd_restore_options options = {
		.version = version->version,
		.mode = RD_RESTORE_STREAM,
		.fd = STDOUT_FILENO,
	};
	struct rd_restore_report report = { 0 };
	int r;

	ctl_progress_begin(&ctl->progress, version->name);
	r = rd_restore(ctl->pool, &options, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		tell_copied(version, &report);
	if (!r && report.bad.len) {
		ctl_print_bad(version, &report, ", zeros in its place");
		ctl_tell_moved(ctl);
		r = CTL_DAMAGE;
	}
	rd_buffer_free(&report.bad);
	return r;
}

/* Restore to @path. NULL: to stdout. */
static int restore(struct ctl *ctl, const char *path)
{
	struct target target = { .path = path, .fd = -1 };
	struct ctl_version version;
	int r;

	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = ctl_find_proven(ctl, &version);
	if (!r)
		r = path ? restore_to(ctl, &target, &version) : stream(ctl, &version);
	if (target.fd >= 0 && close(target.fd) && !r)
		r = rd_err(-errno, "cannot write to '%s'", path);
	ctl_served_end(&target.served);
	return r;
}

/* --- of a version that another pool has */

struct fetch {
	struct ctl *ctl;
	struct target target;
	struct ctl_version version;
};

/* The other end sends what it likes: only what was asked for is written, and named. */
static bool is_wanted(const struct ctl *ctl, const char *volume, i64 number)
{
	struct ctl_name name;

	return !ctl_name_parse(&name, ctl->operands[0]) && !strcmp(name.volume, volume) &&
		(name.kind != CTL_NAME_NUMBER || name.number == number);
}

static int open_for(void *ctx, const char *volume, i64 number, u64 size,
		    struct rd_receive_disk_target *ret)
{
	struct fetch *fetch = ctx;
	struct ctl *ctl = fetch->ctl;
	struct target *target = &fetch->target;
	struct ctl_version *version = &fetch->version;
	int r;

	if (!is_wanted(ctl, volume, number)) {
		rd_err(0, "another version comes than '%s'", ctl->operands[0]);
		return -EPROTO;
	}
	version->version.number = number;
	version->version.size = size;
	snprintf(version->volume, sizeof(version->volume), "%s", volume);
	ctl_name_print(version->name, version->volume, number);
	r = open_any(ctl, target, version);
	if (!r)
		r = ask_overwrite(ctl, target, version);
	if (!r)
		r = grow(target, size);
	*ret = (struct rd_receive_disk_target){
		.fd = target->fd,
		.is_device = target->is_device,
		.is_empty = mode_for(ctl, target) == RD_RESTORE_NEW,
	};
	ctl_progress_begin(&ctl->progress, version->name);
	return r;
}

static int receive_to(struct ctl *ctl, struct fetch *fetch, struct rd_wire *wire)
{
	const struct rd_receive_disk_options options = {
		.open = open_for,
		.ctx = fetch,
		.progress = &ctl->progress.progress,
	};
	struct rd_receive_disk_report report = { 0 };
	struct rd_restore_report told = { 0 };
	int r = ctl_remote_request(ctl, wire, 1, 0);

	wire->receives = true;
	if (!r)
		r = rd_receive_disk(wire, &options, &report);
	ctl_progress_clear(&ctl->progress);
	if (r == -ENOENT && !report.number)
		return rd_err(0, "nothing came from %s", wire->peer), r;
	if (!r)
		r = finish(&fetch->target, report.size);
	if (r && fetch->target.fd >= 0)
		rd_hint("'%s' is incomplete", fetch->target.path);
	fetch->version.version.is_consistent = report.is_consistent;
	if (!r)
		ctl_tell_consistency(&fetch->version);
	told.bytes_written = report.bytes_written;
	return r ? r : tell(ctl, &fetch->target, &fetch->version, &told);
}

static int restore_from(struct ctl *ctl, const char *from, const char *path)
{
	struct fetch fetch = { .ctl = ctl, .target = { .path = path, .fd = -1 } };
	struct ctl_remote remote;
	int r = ctl_remote_start(ctl, from, &remote, 'R');

	if (r)
		return r;
	r = receive_to(ctl, &fetch, &remote.wire);
	if (fetch.target.fd >= 0 && close(fetch.target.fd) && !r)
		r = rd_err(-errno, "cannot write to '%s'", path);
	return ctl_remote_end(&remote, r);
}

int cmd_restore(struct ctl *ctl)
{
	const char *from = ctl_value(ctl, CTL_OPT_FROM);
	const char *path = ctl_value(ctl, CTL_OPT_TO);
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, false, &name);
	if (!r && !path)
		r = ctl_usage(ctl, "no target given: name a file or device with --to; 'dump' writes to stdout");
	if (!r && !strcmp(path, "-"))
		r = ctl_usage(ctl, "'restore --to -' is 'dump' now");
	if (r)
		return r;
	if (from && ctl_has(ctl, CTL_OPT_FULL))
		return ctl_usage(ctl, "--from goes with a file or device, and writes all of it");
	if (from && ctl_is_served(ctl, path))
		return ctl_usage(ctl, "--from goes with a file or device, and not with '%s'", path);
	return from ? restore_from(ctl, from, path) : restore(ctl, path);
}

int cmd_dump(struct ctl *ctl)
{
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, false, &name);
	if (!r && isatty(STDOUT_FILENO))
		r = ctl_usage(ctl, "will not write an image to a terminal: redirect stdout");
	return r ? r : restore(ctl, NULL);
}
