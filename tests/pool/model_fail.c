// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that fail, or are killed, at a step of the engine. See model.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/engine/care/recompress.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/version.h"
#include "model.h"

/* The commands. Each step is of one that comes to it often. */
enum command {
	SNAPSHOT,
	GROUP,
	DELETE,
	DEVICE,
	RECOMPRESS,
	PASS,
	OPEN,		/* finishes what another one left */
};

static struct {
	const char *name;
	u64 nr;
	enum command command;
} hits[] = {
	{ "area-read", 0, SNAPSHOT }, { "area-sync", 0, SNAPSHOT },
	{ "area-write", 0, SNAPSHOT }, { "catalog-begin", 0, SNAPSHOT },
	{ "catalog-commit", 0, SNAPSHOT }, { "catalog-sync", 0, SNAPSHOT },
	{ "catalog-write", 0, SNAPSHOT }, { "index-begin", 0, SNAPSHOT },
	{ "index-flush", 0, SNAPSHOT }, { "index-merge", 0, SNAPSHOT },
	{ "index-read", 0, SNAPSHOT }, { "index-rename", 0, SNAPSHOT },
	{ "index-write", 0, SNAPSHOT }, { "journal-appended", 0, SNAPSHOT },
	{ "journal-part", 0, SNAPSHOT },
	{ "journal-switch", 0, SNAPSHOT }, { "journal-switched", 0, SNAPSHOT },
	{ "pages-begun", 0, SNAPSHOT }, { "pages-sync", 0, SNAPSHOT },
	{ "pages-write", 0, SNAPSHOT }, { "read", 0, SNAPSHOT },
	{ "reverse-change", 0, SNAPSHOT }, { "reverse-vacate", 0, SNAPSHOT },
	{ "reverse-stream", 0, SNAPSHOT }, { "reverse-prove", 0, SNAPSHOT },
	{ "snapshot-again", 0, SNAPSHOT },
	{ "snapshot-batch", 0, SNAPSHOT }, { "snapshot-finish", 0, SNAPSHOT },
	{ "snapshot-hit", 0, SNAPSHOT }, { "snapshot-part", 0, SNAPSHOT },
	{ "swap", 0, SNAPSHOT }, { "write", 0, SNAPSHOT },
	{ "group-copied", 0, GROUP }, { "group-bear", 0, GROUP }, { "group-born", 0, GROUP },
	{ "area-punch", 0, DELETE }, { "compact-commit", 0, DELETE },
	{ "compact-write", 0, DELETE }, { "delete-rows", 0, DELETE },
	{ "free-commit", 0, DELETE }, { "free-punch", 0, DELETE }, { "free-vacate", 0, DELETE },
	{ "hand-over", 0, DELETE }, { "move-commit", 0, DELETE },
	{ "lease-add", 0, DEVICE }, { "lease-drop", 0, DEVICE },
	{ "rewrite-commit", 0, RECOMPRESS }, { "rewrite-write", 0, RECOMPRESS },
	{ "pass-change", 0, PASS }, { "pass-clear", 0, PASS }, { "pass-read", 0, PASS },
	{ "pass-slice", 0, PASS }, { "spill", 0, PASS }, { "twins-join", 0, PASS },
	{ "twins-key", 0, PASS }, { "twins-read", 0, PASS }, { "twins-stream", 0, PASS },
	{ "recover-undo", 0, OPEN },
};

#define NR_STEPS (sizeof(hits) / sizeof(*hits))

/*
 * Packs move out of frames that are nearly empty; runs of the index are merged by fours; what a
 * snapshot found is gone: none of that need come up.
 */
static bool is_rare(unsigned int i)
{
	static const char *const rare[] = { "move-commit", "index-merge",
					    "snapshot-again" };
	unsigned int nr;

	for (nr = 0; nr < sizeof(rare) / sizeof(*rare); nr++)
		if (!strcmp(hits[i].name, rare[nr]))
			return true;
	return false;
}

/* The step that acted, from the log; none: the command ended before. */
static void note_hit(void)
{
	char line[64] = "", acted[64] = "";
	FILE *log = fopen(path_of("steps"), "r");
	unsigned int i;

	while (log && fgets(line, sizeof(line), log))
		if (line[0] == '!')
			snprintf(acted, sizeof(acted), "%s", line + 1);
	if (log)
		fclose(log);
	acted[strcspn(acted, "\n")] = 0;
	for (i = 0; i < NR_STEPS && strcmp(hits[i].name, acted); i++)
		;
	if (i == NR_STEPS)
		fail("the command failed, and no step did: '%s'", acted);
	hits[i].nr++;
}

void print_hits(void)
{
	unsigned int i;

	for (i = 0; i < NR_STEPS; i++)
		printf("%6llu  failed at %s\n", hits[i].nr, hits[i].name);
}

bool are_hit(u64 wanted)
{
	unsigned int i;

	for (i = 0; i < NR_STEPS; i++)
		if (hits[i].nr < wanted && !is_rare(i))
			return false;
	return true;
}

/* One of them: what cannot come up now must not keep others from it. */
static unsigned int rarest_step(void)
{
	unsigned int first = below(NR_STEPS), rarest = first, i;

	for (i = 1; i < NR_STEPS; i++) {
		unsigned int next = (first + i) % NR_STEPS;

		if ((hits[next].nr < hits[rarest].nr || is_rare(rarest)) && !is_rare(next))
			rarest = next;
	}
	return rarest;
}

/* The step that is to fail; NR_STEPS: any. The command was chosen for it. */
static unsigned int wanted_step = NR_STEPS;

/* What is to fail. */
struct job {
	struct model_volume *volume;
	struct model_version *version;	/* to be made; NULL: number @nr goes */
	/* The same, of both at once. */
	struct model_volume *const *group;
	struct model_version *const *group_versions;
	unsigned int nr;
	struct device *device;		/* comes to read number @nr, or goes */
	bool recompress, dedup;
	struct rd_pass_options pass;
};

static bool wants_open(void)
{
	return wanted_step < NR_STEPS && hits[wanted_step].command == OPEN;
}

static const char *any_step(const struct job *job)
{
	if (!job && (below(2) || wants_open()))
		return "recover-undo";
	if (wanted_step < NR_STEPS && !wants_open())
		return hits[wanted_step].name;
	return below(2) ? "any" : hits[below(NR_STEPS)].name;
}

/* Any step, more often an early one, or one that has a name. */
static void choose_failure(char *wish, size_t size, const struct job *job)
{
	static const char *const actions[] = { "kill", "kill", "EIO", "ENOSPC", "short" };
	const char *name = any_step(job);
	unsigned int nth = 1 + (strcmp(name, "any") ? !below(4) : below(below(2) ? 60 : 600));
	const char *action = actions[below(5)];

	/* No error of the index fails a command. */
	if (!strncmp(name, "index-", 6)) {
		choose_inline();
		if (below(2))
			action = "kill";
	}
	snprintf(wish, size, "%s:%u=%s", name, nth, action);
}

static int run_job(const struct job *job)
{
	struct rd_recompress_report report;
	struct rd_pass_report done;

	if (job->group)
		return take_group(job->group, job->group_versions);
	if (job->dedup)
		return rd_pass_run(pool, &job->pass, &done);
	if (job->recompress)
		return rd_recompress(pool, any_compression(), &report);
	if (job->device)
		return job->device->exists ? device_drop(job->device, pool, false) :
			make_device(job->device, job->volume, job->nr);
	return job->version ? take_snapshot(job->volume, job->version) :
		delete_version(job->volume, job->nr);
}

/*
 * Without a job it only opens the pool, which is work where something was left.
 * Returns 0: done; 1: failed, as it may; -1: killed.
 */
static int run_failing(const struct job *job)
{
	char wish[64];
	int status, r;
	pid_t pid;

	choose_failure(wish, sizeof(wish), job);
	unlink(path_of("steps"));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("cannot fork");
	if (!pid) {
		setenv("REVDEDUP_FAIL", wish, 1);
		setenv("REVDEDUP_FAIL_LOG", path_of("steps"), 1);
		/* It is meant to fail. */
		if (!freopen(path_of("stderr"), "w", stderr))
			_exit(9);
		if (rd_session_open(&pool, path_of("pool"), RD_POOL_WRITE, "model", 0, NULL))
			_exit(1);
		pool->lease_ops = &devices_lease_ops;
		r = job ? run_job(job) : 0;
		_exit(rd_session_close(pool, r) ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("cannot wait");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(wish, "short"))
		fail("short transfers made it fail (%s)", wish);
	if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
		return WEXITSTATUS(status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return -1;
	fail("the process that was to fail died of %s %d (%s)",
	     WIFSIGNALED(status) ? "signal" : "exit",
	     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), wish);
}

/* Fail in the work that a failure left, too. */
static int run_and_fail(const struct job *job)
{
	int r = run_failing(job);

	if (r)
		note_hit();
	while (r && (wants_open() || below(2)) && run_failing(NULL))
		note_hit();
	return r;
}

bool exists(const struct model_volume *volume, i64 wanted)
{
	struct rd_version version;
	i64 id;

	return !rd_volume_find(pool->sql, volume->name, &id) &&
		!rd_version_load(pool->sql, id, wanted, &version);
}

static void do_failing_snapshot(struct model_volume *volume)
{
	struct model_version *version = prepare_snapshot(volume);
	i64 before = newest_number(volume);
	int r;

	choose_rule();
	close_pool();
	r = run_and_fail(&(struct job){ .volume = volume, .version = version });
	open_pool();
	version->number = newest_number(volume);
	if (version->number > before) {
		add_version(volume, version);
		check_pool();
		check_restore(volume, version);
		return;
	}
	if (!r)
		fail("snapshot of %s made nothing", volume->name);
	free(version);
}

/* Both are there, or none. */
static void do_failing_group(struct model_volume *a, struct model_volume *b)
{
	struct model_volume *const of[2] = { a, b };
	struct model_version *const versions[2] = { prepare_snapshot(a), prepare_snapshot(b) };
	i64 before[2] = { newest_number(a), newest_number(b) };
	unsigned int i, nr = 0;
	int r;

	close_pool();
	r = run_and_fail(&(struct job){ .group = of, .group_versions = versions });
	open_pool();
	for (i = 0; i < 2; i++) {
		versions[i]->number = newest_number(of[i]);
		nr += versions[i]->number > before[i];
	}
	if (nr == 1 || (!nr && !r))
		fail("of a group of %s and %s there is %u version", a->name, b->name, nr);
	if (nr) {
		check_group(of, versions);
		return;
	}
	free(versions[0]);
	free(versions[1]);
}

static void do_failing_delete(struct model_volume *volume, unsigned int nr)
{
	int r;

	close_pool();
	r = run_and_fail(&(struct job){ .volume = volume, .nr = nr });
	open_pool();
	if (!exists(volume, volume->versions[nr]->number))
		forget_version(volume, nr);
	else if (!r)
		fail("delete of %s@%lld did nothing", volume->name, volume->versions[nr]->number);
}

/* Whatever comes of it: one that is there has its lease. */
static void do_failing_device(struct device *device, struct model_volume *volume)
{
	struct job job = { .volume = volume, .device = device };
	bool existed = device->exists;
	int r;

	if (!existed && !volume->nr)
		return;
	if (!existed)
		job.nr = below(2) ? volume->nr - 1 : below(volume->nr);
	close_pool();
	r = run_and_fail(&job);
	open_pool();
	if (!r && existed == device->exists)
		fail("a device did not come or go");
}

/* What was converted stays so, and the rest is as it was. */
static void do_failing_recompress(void)
{
	drop_devices();
	close_pool();
	run_and_fail(&(struct job){ .recompress = true });
	open_pool();
	check_pool();
	restore_all();
}

/* What was given up stays so, and the rest is as it was. */
static void do_failing_pass(void)
{
	struct job job = { .dedup = true, .pass = any_pass() };

	close_pool();
	run_and_fail(&job);
	open_pool();
	check_pool();
	restore_all();
}

/* Whatever a command has left, the next one that opens the pool finishes. */
static void check_finished(void)
{
	i64 volume = 0;

	if (rd_volume_next_unfinished(pool->sql, &volume) != -ENOENT)
		fail("volume %lld has a version that is half made or half deleted", volume);
}

static enum command any_command(const struct model_volume *volume)
{
	if (!below(3))
		return DEVICE;
	if (!below(8))
		return GROUP;
	if (!below(8))
		return RECOMPRESS;
	if (!below(8))
		return PASS;
	return wants_delete(volume) ? DELETE : SNAPSHOT;
}

void do_failing_step(void)
{
	struct model_volume *volume = any_volume(), *other = any_volume();
	enum command command = any_command(volume);

	shake_devices();
	wanted_step = below(2) ? rarest_step() : NR_STEPS;
	if (wanted_step < NR_STEPS)
		command = hits[wanted_step].command;
	if (command == DEVICE)
		do_failing_device(any_device(), volume);
	else if (command == RECOMPRESS)
		do_failing_recompress();
	else if (command == PASS)
		do_failing_pass();
	else if (command == GROUP && can_group(volume, other))
		do_failing_group(volume, other);
	else if (volume->nr == MAX_VERSIONS || (command == DELETE && volume->nr))
		do_failing_delete(volume, any_to_delete(volume));
	else
		do_failing_snapshot(volume);
	check_finished();
	check_some();
}
