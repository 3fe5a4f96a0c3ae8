// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl serve: the other end of send and receive, on stdin and stdout; or a version as a disk
 * over NBD.
 *
 * What it allows is said where it is started, as in authorized_keys; whoever connects chooses
 * nothing but a role and names.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/volume/map/export.h"
#include "pool/engine/read/proof.h"
#include "pool/stream/receive.h"
#include "pool/stream/send.h"
#include "picks.h"
#include "remedies.h"
#include "remote.h"

bool ctl_serves_volume(void *ctx, const char *volume)
{
	const struct ctl *ctl = ctx;
	bool any = false;
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++) {
		if (ctl->given[i].option != CTL_OPT_VOLUMES)
			continue;
		any = true;
		if (!fnmatch(ctl->given[i].value, volume, 0))
			return true;
	}
	return !any;
}

static int read_share(const struct ctl *ctl, enum rd_share *ret)
{
	const char *value = ctl_value(ctl, CTL_OPT_SHARE);

	*ret = RD_SHARE_PROVEN;
	if (!value || !strcmp(value, "proven"))
		return 0;
	*ret = !strcmp(value, "own") ? RD_SHARE_OWN : RD_SHARE_ALL;
	return *ret == RD_SHARE_OWN || !strcmp(value, "all") ? 0 :
		ctl_usage(ctl, "'--share %s': give own, proven or all", value);
}

static int refuse(const char *why)
{
	rd_err(0, "%s", why);
	return -EPERM;
}

static int read_options(struct ctl *ctl, struct rd_receive_options *options)
{
	int r;

	*options = (struct rd_receive_options){
		.is_volume = ctl_is_volume,
		.is_tag = ctl_is_tag,
		.may_write = ctl_serves_volume,
		.owns = ctl_has(ctl, CTL_OPT_VOLUMES) ? ctl_serves_volume : NULL,
		.append_only = ctl_has(ctl, CTL_OPT_APPEND_ONLY),
		.limit = U64_MAX,
		.ctx = ctl,
	};
	r = read_share(ctl, &options->share);
	return r ? r : ctl_value_size(ctl, CTL_OPT_LIMIT, &options->limit);
}

static int receive(struct ctl *ctl, struct rd_wire *wire,
		   const struct rd_receive_options *options)
{
	struct rd_receive_report report;
	int r;

	if (ctl_has(ctl, CTL_OPT_READ_ONLY))
		return refuse("this end may only be read");
	r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = rd_receive(ctl->pool, wire, options, &report);
	return ctl_close(ctl, r);
}

static int send(struct ctl *ctl, struct rd_wire *wire)
{
	struct ctl_picks picks = { .serves = true };
	struct rd_send_options options = {
		.serves = true,
		.compression = rd_compression_default,
	};
	struct rd_send_report report;
	struct rd_record record;
	int r;

	if (ctl_has(ctl, CTL_OPT_APPEND_ONLY))
		return refuse("this end may only be added to");
	r = rd_wire_expect(wire, RD_REC_REQUEST, &record);
	if (!r)
		r = ctl_picks_read(&picks, &record, &options.newest);
	if (!r)
		r = ctl_open_to_send(ctl);
	if (!r)
		r = ctl_picks_find(ctl, &picks, &options);
	if (!r)
		r = rd_send(ctl->pool, wire, &options, &report);
	ctl_picks_free(&picks);
	return ctl_close(ctl, r);
}

/* --- a disk */

/* The record lasts until the pool is opened, which may have to wait. */
static int read_disk(struct ctl_picks *picks, const struct rd_record *record)
{
	u64 newest;
	int r = ctl_picks_read(picks, record, &newest);

	if (!r && (!picks->texts.len ||
		   strlen((char *)picks->texts.data) + 1 != picks->texts.len))
		r = rd_err(-EPROTO, "a disk is one version");
	return r;
}

static int find_disk(struct ctl *ctl, const struct ctl_picks *picks, struct ctl_version *ret)
{
	struct ctl_name name;
	int r = ctl_find_served(ctl, picks, (const char *)picks->texts.data, &name, ret);

	if (!r)
		r = ctl_lock_version(ctl, ret);
	return r ? r : rd_version_prove(ctl->pool, &ret->version);
}

/* Become a server of NBD. From DONE on nobody listens to us. */
static int become_disk(struct ctl *ctl, struct rd_wire *wire, const struct ctl_version *version,
		       const char *pool)
{
	const struct rd_export_options options = {
		.name = version->name,
		.pool = pool,
		.rate = wire->pace.rate,
	};
	u8 number[8];
	int r = rd_export_is_possible();

	rd_put_u64(number, version->version.number);
	if (!r)
		r = rd_wire_put(wire, RD_REC_DONE, number, sizeof(number));
	if (!r)
		r = rd_wire_flush(wire);
	if (r)
		return r;
	wire->is_done = true;
	ctl->progress.wire = NULL;
	rd_wire_end(wire);
	if (dup2(wire->out, STDOUT_FILENO) < 0)
		return -errno;
	return rd_export_on_stdio(&options);
}

static int serve_disk(struct ctl *ctl, struct rd_wire *wire)
{
	struct ctl_picks picks = { .serves = true };
	struct ctl_version version;
	struct rd_record record;
	char pool[PATH_MAX] = "";
	int r;

	if (ctl_has(ctl, CTL_OPT_APPEND_ONLY))
		return refuse("this end may only be added to");
	r = rd_wire_expect(wire, RD_REC_REQUEST, &record);
	if (!r)
		r = read_disk(&picks, &record);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = find_disk(ctl, &picks, &version);
	if (!r && !realpath(ctl->pool->path, pool))
		r = -errno;
	ctl_picks_free(&picks);
	r = ctl_close(ctl, r);
	return r ? r : become_disk(ctl, wire, &version, pool);
}

/* --- */

static int serve_as(struct ctl *ctl, struct rd_wire *wire, char who,
		    const struct rd_receive_options *options)
{
	switch (who) {
	case 'S':
		return receive(ctl, wire, options);
	case 'N':
		return serve_disk(ctl, wire);
	}
	return send(ctl, wire);
}

static int be_quiet(void)
{
	RD_CLOSE int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	return fd < 0 || dup2(fd, STDERR_FILENO) < 0 ? -errno : 0;
}

static void tell_error(struct rd_wire *wire)
{
	const char *hint = ctl_first_hint();
	char text[2500];

	snprintf(text, sizeof(text), "%s%s%s", ctl_first_error(), hint[0] ? "\n" : "", hint);
	rd_wire_fail(wire, text);
}

static int talk(struct ctl *ctl)
{
	struct rd_wire wire = {
		.in = STDIN_FILENO,
		.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0),
		.peer = "the other end",
	};
	struct rd_receive_options options;
	char who = 0;
	int r;

	if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)) {
		close(wire.out);
		return ctl_usage(ctl, "'serve' talks to 'send --to' or 'receive --from', and not to people");
	}
	if (ctl_has(ctl, CTL_OPT_READ_ONLY) && ctl_has(ctl, CTL_OPT_APPEND_ONLY))
		r = ctl_usage(ctl, "--read-only and --append-only: nothing is left that may be done");
	else
		r = read_options(ctl, &options);
	if (!r)
		r = ctl_wire(ctl, &wire);
	/* Nothing but the stream may come there. */
	if (!r && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		r = -errno;
	if (!r)
		r = rd_wire_begin(&wire, 0, &who);
	ctl->progress.wire = &wire;
	/* From here on the other end prints what is wrong. */
	if (!r)
		r = be_quiet();
	if (!r)
		r = serve_as(ctl, &wire, who, &options);
	if (r && who && r != -EREMOTEIO)
		tell_error(&wire);
	ctl->progress.wire = NULL;
	rd_wire_end(&wire);
	close(wire.out);
	return r;
}

/* What limits those who connect, and there is none. */
static const enum ctl_option limits[] = {
	CTL_OPT_APPEND_ONLY, CTL_OPT_READ_ONLY, CTL_OPT_VOLUMES, CTL_OPT_SHARE, CTL_OPT_LIMIT,
	CTL_OPT_RATE,
};

int cmd_serve(struct ctl *ctl)
{
	bool from = ctl_has(ctl, CTL_OPT_FROM);
	size_t i;

	if (!from != !ctl->nr_operands)
		return ctl_usage(ctl, "a version and --from go together: it is served by NBD");
	for (i = 0; from && i < ARRAY_SIZE(limits); i++)
		if (ctl_has(ctl, limits[i]))
			return ctl_usage(ctl, "with --from there are --rsh and --lock-wait alone");
	return from ? ctl_join(ctl) : talk(ctl);
}
