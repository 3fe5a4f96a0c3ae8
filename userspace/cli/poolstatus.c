// SPDX-License-Identifier: GPL-2.0
/*
 * The pool's part of status. Everything is found out first, and the pool is closed: nothing
 * that is printed holds up another command.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "host/sys/openers.h"
#include "pool/catalog/leases.h"
#include "pool/engine/space/hold.h"
#include "pool/engine/version/session.h"
#include "elsewhere.h"
#include "poolstats.h"
#include "poolstatus.h"
#include "reader.h"
#include "shard_owner.h"

/* A version that something reads, in place: a row of the list of readers. */
struct in_use {
	char version[CTL_VERSION_TEXT];
	bool is_deleted;
	struct ctl_reader reader;
};

/* A command that works on the pool, or another program that has it open. */
struct running {
	pid_t pid;
	i64 since;			/* 0: not known */
	char command[RD_OPENER_TEXT];
};

struct status {
	struct ctl_pool_stats stats;
	char newest[CTL_VERSION_TEXT];	/* of all volumes; "": there is none */
	u64 newest_time;
	u64 boots, boots_failed;	/* volumes whose last boot for trial passed, or not */
	u64 boot_time;			/* of the last of all */
	char boot_failed[CTL_VERSION_TEXT];	/* the first one that did not */
	struct rd_buffer in_use;	/* struct in_use */
	struct rd_buffer running;	/* struct running */
	struct ctl_shard_owner owner;
};

/* --- what there is */

static void find_newest(const struct rd_buffer *volumes, struct status *status)
{
	const struct ctl_volume_stats *volume, *newest = NULL;

	rd_each(volume, volumes)
		if (!newest || volume->row.time > newest->row.time)
			newest = volume;
	if (!newest)
		return;
	ctl_name_print(status->newest, newest->name, newest->row.latest);
	status->newest_time = newest->row.time;
}

static void count_boots(const struct rd_buffer *volumes, struct status *status)
{
	const struct ctl_volume_stats *volume;

	rd_each(volume, volumes) {
		if (volume->boot_time == CTL_UNKNOWN)
			continue;
		status->boots++;
		status->boot_time = rd_max(status->boot_time, volume->boot_time);
		if (volume->boot_passed)
			continue;
		if (!status->boots_failed++)
			ctl_name_print(status->boot_failed, volume->name, volume->boot_number);
	}
}

static int read_numbers(struct ctl *ctl, struct status *status)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	int r = ctl_pool_stats(ctl, &status->stats, &volumes);

	if (!r) {
		find_newest(&volumes, status);
		count_boots(&volumes, status);
	}
	return r;
}

/* --- what reads it */

static int add_reader(struct ctl *ctl, const struct rd_lease *lease, struct rd_buffer *ret)
{
	struct ctl_version version;
	struct in_use *in_use;
	int r;

	r = ctl_find_leased(ctl, lease, &version);
	if (r)
		return r == -ENOENT ? 0 : r;
	in_use = (struct in_use *)rd_buffer_grow(ret, sizeof(*in_use));
	if (!in_use)
		return -ENOMEM;
	snprintf(in_use->version, sizeof(in_use->version), "%s", version.name);
	in_use->is_deleted = version.version.state == RD_VERSION_HELD;
	ctl_reader_find(ctl->pool, lease, &in_use->reader);
	return 0;
}

static int read_readers(struct ctl *ctl, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_lease_list(ctl->pool->sql, NULL, &leases);

	rd_each(lease, &leases)
		if (!r && !rd_hold_is_over(ctl->pool, lease))
			r = add_reader(ctl, lease, ret);
	return r;
}

/* --- what runs */

static struct running *find_running(const struct rd_buffer *running, pid_t pid)
{
	struct running *one;

	rd_each(one, running)
		if (one->pid == pid)
			return one;
	return NULL;
}

static void add_opener(const struct rd_opener *opener, struct rd_buffer *ret)
{
	struct running running = { .pid = opener->pid }, *known;

	known = find_running(ret, opener->pid);
	snprintf((known ? known : &running)->command, RD_OPENER_TEXT, "%s", opener->command);
	if (!known)
		rd_buffer_put(ret, &running, sizeof(running));
}

/*
 * Commands that write are in the catalog, whoever runs them. Those that only read are found
 * by a file that each of them has open.
 */
static int read_sessions(struct ctl *ctl, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer sessions = { 0 };
	const struct rd_session *session;
	int r;

	r = rd_sessions_running(ctl->pool, &sessions);
	rd_each(session, &sessions) {
		struct running running = { .pid = session->pid, .since = session->started };

		snprintf(running.command, RD_OPENER_TEXT, "%s", session->verb);
		rd_buffer_put(ret, &running, sizeof(running));
	}
	return r ? r : ret->failed ? -ENOMEM : 0;
}

static int read_openers(struct ctl *ctl, struct rd_buffer *ret)
{
	RD_FREE char *path = rd_pool_opened(ctl_pool_path(ctl));
	RD_BUFFER struct rd_buffer openers = { 0 };
	const struct rd_opener *opener;

	if (!path)
		return -ENOMEM;
	rd_openers(path, &openers);
	rd_each(opener, &openers)
		add_opener(opener, ret);
	return ret->failed ? -ENOMEM : 0;
}

/* --- as text */

static void print_result(const char *what, const char *good, const struct ctl_last_scrub *last)
{
	if (last->time == CTL_UNKNOWN) {
		printf("  last %s:  never\n", what);
		return;
	}
	printf("  last %s:  %s, ", what, ctl_time(last->time));
	if (!ctl_last_found_damage(last)) {
		puts(good);
		return;
	}
	printf("%llu damaged versions, %llu damaged fingerprints, %llu errors of the catalog\n",
	       last->versions, last->fingerprints, last->wrong);
}

static void print_boots(const struct status *status)
{
	if (!status->boots)
		return;
	printf("  last boot:   %s, ", ctl_time(status->boot_time));
	if (!status->boots_failed)
		printf("%llu volume%s boot%s\n", status->boots, status->boots == 1 ? "" : "s",
		       status->boots == 1 ? "s" : "");
	else
		printf("%llu of %llu volume%s %s not boot: %s%s\n", status->boots_failed,
		       status->boots, status->boots == 1 ? "" : "s",
		       status->boots_failed == 1 ? "does" : "do", status->boot_failed,
		       status->boots_failed == 1 ? "" : " and others");
}

static void print_elsewhere(const struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_elsewhere *one;

	ctl_elsewhere_read(ctl_pool_path(ctl), &all);
	rd_each(one, &all)
		printf("  elsewhere:   %s@%lld of %s, in %s\n", one->volume, one->number,
		       ctl_time(one->time), one->to);
}

static void print_readers(const struct rd_buffer *readers)
{
	const struct in_use *in_use;

	rd_each(in_use, readers) {
		printf("  in use:      %s%s, read by ", in_use->version,
		       in_use->is_deleted ? " (deleted)" : "");
		ctl_reader_print(&in_use->reader);
		putchar('\n');
	}
}

static void print_running(const struct rd_buffer *all)
{
	const struct running *running;

	rd_each(running, all) {
		printf("  running:     %s (pid %d", running->command, running->pid);
		if (running->since)
			printf(", since %s", ctl_time(running->since));
		puts(")");
	}
}

static void print_text(const struct ctl *ctl, const struct status *status)
{
	const struct ctl_pool_stats *stats = &status->stats;
	char free[CTL_FREE_TEXT];

	printf("pool '%s'\n", ctl_pool_path(ctl));
	printf("  versions:    %llu of %llu volume%s\n", stats->versions, stats->volumes,
	       stats->volumes == 1 ? "" : "s");
	if (status->newest[0])
		printf("  newest:      %s, %s\n", status->newest, ctl_time(status->newest_time));
	printf("  stored:      %s\n", ctl_size(stats->data));
	if (stats->copies != CTL_UNKNOWN)
		printf("  copies:      %s, %s\n", ctl_size(stats->copies), ctl_copies_place(stats));
	printf("  free:        %s\n", ctl_free_print(free, stats));
	if (status->owner.host[0])
		printf("  owner:       %s, since %s\n", status->owner.host,
		       ctl_time(status->owner.since));
	print_result("check", "catalog OK", &stats->check);
	print_result("scrub", "no damage", &stats->scrub);
	if (stats->part.next)
		printf("  next scrub:  goes on at %u %%, begun %s\n",
		       ctl_scrub_part_percent(&stats->part), ctl_time(stats->part.since));
	printf("  last dedup:  %s\n", stats->deduped == CTL_UNKNOWN ? "never" :
	       ctl_time(stats->deduped));
	print_boots(status);
	print_elsewhere(ctl);
	print_readers(&status->in_use);
	print_running(&status->running);
}

/* --- as JSON */

static void json_result(struct rd_json *out, const char *key, const struct ctl_last_scrub *last)
{
	if (last->time == CTL_UNKNOWN) {
		rd_json_string(out, key, NULL);
		return;
	}
	rd_json_begin(out, key, '{');
	rd_json_add(out, "time=%llu versions_damaged=%llu fingerprints_damaged=%llu catalog_errors=%llu",
		    last->time, last->versions, last->fingerprints, last->wrong);
	rd_json_end(out, '}');
}

static void json_elsewhere(const struct ctl *ctl, struct rd_json *out)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_elsewhere *one;

	ctl_elsewhere_read(ctl_pool_path(ctl), &all);
	rd_json_begin(out, "elsewhere", '[');
	rd_each(one, &all)
		rd_json_add(out, "{ volume=%s number=%lld time=%lld pool=%s }", one->volume,
			    one->number, one->time, one->to);
	rd_json_end(out, ']');
}

static void json_readers(struct rd_json *out, const struct rd_buffer *readers)
{
	const struct in_use *in_use;

	rd_json_begin(out, "in_use", '[');
	rd_each(in_use, readers)
		rd_json_add(out, "{ version=%s deleted=%d reader=%s mounted=%s }", in_use->version,
			    in_use->is_deleted, in_use->reader.name,
			    in_use->reader.mount[0] ? in_use->reader.mount : NULL);
	rd_json_end(out, ']');
}

static void json_running(struct rd_json *out, const struct rd_buffer *all)
{
	const struct running *running;

	rd_json_begin(out, "running", '[');
	rd_each(running, all) {
		rd_json_add(out, "{ pid=%u command=%s", running->pid, running->command);
		if (running->since)
			rd_json_u64(out, "since", running->since);
		rd_json_end(out, '}');
	}
	rd_json_end(out, ']');
}

static void print_json(struct ctl *ctl, const struct status *status)
{
	const struct ctl_pool_stats *stats = &status->stats;
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, "pool_status");
	rd_json_add(out, "pool=%s volumes=%llu versions=%llu newest=%s",
		    ctl_pool_path(ctl), stats->volumes, stats->versions,
		    status->newest[0] ? status->newest : NULL);
	if (status->newest[0])
		rd_json_u64(out, "newest_time", status->newest_time);
	rd_json_u64(out, "bytes_data", stats->data);
	if (stats->copies != CTL_UNKNOWN)
		rd_json_u64(out, "bytes_copies", stats->copies);
	ctl_json_free(ctl, stats);
	if (status->owner.host[0])
		rd_json_add(out, "owner=%s owner_since=%lld epoch=%llu", status->owner.host,
			    status->owner.since, status->owner.epoch);
	json_result(out, "last_check", &stats->check);
	json_result(out, "last_scrub", &stats->scrub);
	if (stats->part.next)
		rd_json_add(out, "scrub_part={ percent=%u since=%llu }",
			    ctl_scrub_part_percent(&stats->part), stats->part.since);
	if (stats->deduped == CTL_UNKNOWN)
		rd_json_string(out, "last_dedup", NULL);
	else
		rd_json_u64(out, "last_dedup", stats->deduped);
	if (status->boots)
		rd_json_add(out, "boot_tests={ time=%llu volumes=%llu failed=%llu }",
			    status->boot_time, status->boots, status->boots_failed);
	json_elsewhere(ctl, out);
	json_readers(out, &status->in_use);
	json_running(out, &status->running);
	ctl_json_end(ctl);
}

/* --- */

int ctl_pool_status(struct ctl *ctl)
{
	struct status status = { .in_use = { 0 } };
	int r;

	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = read_numbers(ctl, &status);
	if (!r)
		r = read_readers(ctl, &status.in_use);
	if (!r)
		r = read_sessions(ctl, &status.running);
	if (!r)
		r = ctl_shard_owner(&ctl->pool->area, &status.owner);
	r = ctl_close(ctl, r);
	if (!r)
		r = read_openers(ctl, &status.running);
	if (!r && ctl->json)
		print_json(ctl, &status);
	else if (!r && !ctl->quiet)
		print_text(ctl, &status);
	rd_buffer_free(&status.in_use);
	rd_buffer_free(&status.running);
	return r;
}
