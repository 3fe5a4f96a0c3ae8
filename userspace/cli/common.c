// SPDX-License-Identifier: GPL-2.0
/* Functions that the commands of revdedupctl share. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/sys/openers.h"
#include "host/volume/attach/tenants.h"
#include "host/volume/device/poolblocks.h"
#include "host/volume/map/export.h"
#include "host/volume/snapshot/live_snapshot.h"
#include "pool/engine/read/restore.h"
#include "pool/engine/version/session.h"
#include "pool/shard.h"
#include "pool/stream/wire.h"
#include "cli.h"

int ctl_lock_wait(const struct ctl *ctl, unsigned int *ret_ms)
{
	u64 seconds = 0;
	int r = ctl_value_number(ctl, CTL_OPT_LOCK_WAIT, 0, CTL_LOCK_WAIT_MAX, &seconds);

	*ret_ms = seconds * 1000;
	return r;
}

int ctl_caller(struct ctl *ctl, struct rd_caller *ret)
{
	ret->verb = ctl->command->name;
	ret->pool = ctl->pool;
	return ctl_lock_wait(ctl, &ret->wait_ms);
}

int ctl_live_options(const struct ctl *ctl, struct rd_live_options *ret)
{
	u64 hook_seconds = RD_QUIESCE_SECONDS;
	int r;

	ret->full_scan = ctl_has(ctl, CTL_OPT_FULL_SCAN);
	r = ctl_value_size(ctl, CTL_OPT_COW_SIZE, &ret->cow_bytes);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_HOOK_TIMEOUT, 1, CTL_HOOK_TIMEOUT_MAX,
				     &hook_seconds);
	ret->hook_seconds = hook_seconds;
	return r;
}

const char *ctl_pool_name(const struct ctl *ctl)
{
	const char *path = ctl_value(ctl, CTL_OPT_POOL);

	if (!path)
		path = getenv("REVDEDUP_POOL");
	return path && path[0] ? path : NULL;
}

int ctl_require_kernel(const struct ctl *ctl)
{
	const char *pool = ctl_pool_name(ctl);

	return pool ? rd_poolblocks_require(pool) : 0;
}

const char *ctl_pool_path(const struct ctl *ctl)
{
	const char *name = ctl_pool_name(ctl);
	static char directory[PATH_MAX];

	if (!name || !rd_shard_is_name(name))
		return name;
	rd_shard_directory(name, directory);
	return directory;
}

int ctl_open(struct ctl *ctl, enum rd_pool_mode mode)
{
	const char *path = ctl_pool_path(ctl);
	int r;

	if (!path)
		return ctl_usage(ctl, "no pool given: name one with --pool, in REVDEDUP_POOL, or in '%s'",
				 ctl->config.path);
	/* On a host that has not used it yet there is no directory. */
	if (rd_shard_is_name(ctl_pool_name(ctl))) {
		r = rd_shard_prepare(ctl_pool_name(ctl), true);
		if (r)
			return r;
	}
	return ctl_open_at(ctl, path, mode);
}

/* A command that needs the pool alone waits for servers, which end when they are told to. */
static void tell_exports(const char *path)
{
	RD_FREE char *real = realpath(path, NULL);
	struct rd_buffer all = { 0 };
	const struct rd_export *export;
	int r = rd_exports(&all);

	rd_each(export, &all)
		if (!r && real && !strcmp(export->pool, real))
			rd_hint("'%s' is exported: 'revdedupctl unexport %s' ends that",
				export->name, export->name);
	rd_buffer_free(&all);
}

/*
 * The catalog, which lists commands, is not open yet where one has the pool alone, and one
 * that only reads is not in it.
 */
static void tell_openers(const char *path)
{
	RD_FREE char *opened = rd_pool_opened(path);
	struct rd_buffer all = { 0 };
	const struct rd_opener *opener;

	if (opened)
		rd_openers(opened, &all);
	rd_each(opener, &all)
		rd_hint("running: %s, pid %d", opener->command, (int)opener->pid);
	rd_buffer_free(&all);
}

int ctl_open_at(struct ctl *ctl, const char *path, enum rd_pool_mode mode)
{
	unsigned int wait_ms;
	u64 rate = 0;
	int r;

	r = ctl_lock_wait(ctl, &wait_ms);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_RATE, &rate);
	if (r)
		return r;
	r = rd_session_open(&ctl->pool, path, mode, ctl->command->name, wait_ms,
			    &ctl->progress.progress);
	if (r == -ENOENT)
		return CTL_NO_POOL;
	if (r == -EBUSY)
		tell_openers(path);
	if (r == -EBUSY && mode >= RD_POOL_REPAIR)
		tell_exports(path);
	if (r)
		return r;
	ctl->pool->pace.rate = rate;
	ctl->pool->pace.stop = ctl->progress.progress.stop;
	ctl->pool->lease_ops = &rd_host_lease_ops;
	return 0;
}

int ctl_close(struct ctl *ctl, int r)
{
	if (!ctl->pool)
		return r;
	r = rd_session_close(ctl->pool, r);
	ctl->pool = NULL;
	ctl_progress_clear(&ctl->progress);
	return r;
}

void ctl_json_begin(struct ctl *ctl, const char *type)
{
	ctl->out = (struct rd_json){ .out = stdout };
	rd_json_begin(&ctl->out, NULL, '{');
	rd_json_string(&ctl->out, "type", type);
}

void ctl_json_end(struct ctl *ctl)
{
	rd_json_end(&ctl->out, '}');
	putchar('\n');
}

void ctl_json(struct ctl *ctl, const char *type, const char *fmt, ...)
{
	va_list args;

	ctl_json_begin(ctl, type);
	va_start(args, fmt);
	rd_json_vadd(&ctl->out, fmt, args);
	va_end(args);
	ctl_json_end(ctl);
}

void ctl_json_version_begin(struct ctl *ctl, const struct ctl_version *version)
{
	ctl_json_begin(ctl, "version");
	rd_json_add(&ctl->out, "version=%s volume=%s number=%llu",
		    version->name, version->volume, version->version.number);
}

/* Wait for a line of the terminal, and let the other end of a wire know that we live. */
static bool wait_for_answer(const struct ctl_progress *progress)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };

	while (poll(&fd, 1, 1000) <= 0 && !*progress->progress.stop)
		if (progress->wire)
			rd_wire_keep(progress->wire);
	return !*progress->progress.stop;
}

int ctl_ask(const struct ctl *ctl, const char *fmt, ...)
{
	char text[512], answer[16] = "";
	va_list args;

	if (ctl_has(ctl, CTL_OPT_YES))
		return 0;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		rd_err(0, "%s", text);
		rd_hint("nothing was changed; to do it, use --yes");
		return CTL_FAILED;
	}
	fprintf(stderr, "%s. Continue? [y/n]: ", text);
	if (wait_for_answer(&ctl->progress) && fgets(answer, sizeof(answer), stdin) &&
	    (!strcasecmp(answer, "y\n") || !strcasecmp(answer, "yes\n")))
		return 0;
	rd_hint("nothing was changed");
	return CTL_FAILED;
}

/* --- damage */

void ctl_json_bad(struct ctl *ctl, const struct rd_restore_report *report)
{
	const struct rd_bad_range *range;

	rd_json_begin(&ctl->out, "damaged", '[');
	rd_each(range, &report->bad)
		rd_json_add(&ctl->out, "{ offset=%llu length=%llu }", range->offset, range->len);
	rd_json_end(&ctl->out, ']');
}

void ctl_print_bad(const struct ctl_version *version, const struct rd_restore_report *report,
		   const char *became)
{
	const struct rd_bad_range *range;

	rd_each(range, &report->bad)
		rd_err(0, "%s: damaged: offset %llu, length %llu%s", version->name,
		       range->offset, range->len, became);
}

const char *ctl_bad_print(char text[CTL_EXCEPT_TEXT], const struct rd_restore_report *report)
{
	size_t nr = report->bad.len / sizeof(struct rd_bad_range);
	const struct rd_bad_range *range;
	u64 bytes = 0;

	rd_each(range, &report->bad)
		bytes += range->len;
	text[0] = '\0';
	if (nr)
		snprintf(text, CTL_EXCEPT_TEXT, ", except %zu damaged range%s (%s)", nr,
			 nr == 1 ? "" : "s", ctl_size(bytes));
	return text;
}
