// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that lose power. See model.h.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/catalog/sql.h"
#include "pool/catalog/version_sql.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/version/version.h"
#include "model.h"

/* What there was when so many writes had been noted. */
struct moment {
	size_t noted;
	struct model_volume volumes[NR_VOLUMES];
};

static void remember(struct moment *moment)
{
	moment->noted = power_now();
	memcpy(moment->volumes, volumes, sizeof(volumes));
}

static bool has_versions(const struct model_volume *volume)
{
	i64 id, nr = 0;
	unsigned int i;

	if (!rd_volume_find(pool->sql, volume->name, &id) &&
	    rd_sql_number(pool->sql, &nr, "SELECT count(*) FROM version WHERE volume = ?"
			  " AND " RD_VERSION_EXISTS, "i", id))
		fail("cannot count");
	for (i = 0; i < volume->nr; i++)
		if (!exists(volume, volume->versions[i]->number))
			return false;
	return nr == volume->nr;
}

/* What had been done is there; what was being done is there, or it is not. */
static void find_versions(const struct moment *before)
{
	const struct moment *after = before + 1;
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++) {
		volumes[v] = before->volumes[v];
		if (has_versions(&volumes[v]))
			continue;
		volumes[v] = after->volumes[v];
		if (!has_versions(&volumes[v]))
			fail("after the cut, %s has other versions than before", volumes[v].name);
	}
}

void restore_all(void)
{
	unsigned int v, i;

	for (v = 0; v < NR_VOLUMES; v++)
		for (i = 0; i < volumes[v].nr; i++)
			check_restore(&volumes[v], volumes[v].versions[i]);
}

/* --- a process that is killed */

static unsigned int nr_killed, nr_done;

/* Run a step to its end, or to where it is killed. What it has not flushed is not stable. */
static void run_to_kill(struct model_volume *volume, struct model_version *version,
			unsigned int nr)
{
	size_t since = power_now();
	char wish[32];
	int status;
	pid_t pid;

	snprintf(wish, sizeof(wish), "any:%llu=kill", 1 + below(below(2) ? 40 : 250));
	close_pool();
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("cannot fork");
	if (!pid) {
		setenv("REVDEDUP_FAIL", wish, 1);
		/* So that no write is under way then. */
		setenv("REVDEDUP_NO_URING", "1", 1);
		if (!freopen("/dev/null", "w", stderr))
			_exit(9);
		open_pool();
		if (version ? take_snapshot(volume, version) : delete_version(volume, nr))
			_exit(1);
		close_pool();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("cannot wait");
	power_killed(since, path_of("pool"));
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		nr_killed++;
	else if (status)
		fail("the process that was to be killed ended with %x", status);
	else
		nr_done++;
}

/*
 * Kill a snapshot or delete, and let the next command go on from what is there, flushed or not.
 * All that the command has seen when it ends must be there after a cut.
 */
static void do_killed(struct model_volume *volume)
{
	struct model_version *version = NULL;
	i64 before = newest_number(volume);
	unsigned int nr = 0;

	if (wants_delete(volume))
		nr = any_to_delete(volume);
	else
		version = prepare_snapshot(volume);
	choose_rule();
	run_to_kill(volume, version, nr);
	open_pool();
	/* As any command does that changes something. */
	if (rd_journal_flush(pool))
		fail("cannot flush the journal");
	if (!version) {
		if (!exists(volume, volume->versions[nr]->number))
			forget_version(volume, nr);
	} else if (newest_number(volume) != before) {
		version->number = newest_number(volume);
		add_version(volume, version);
	}
}

static void note_steps(struct moment *moments)
{
	close_pool();
	power_begin(path_of("pool"));
	open_pool();
	remember(&moments[0]);
	while (step++ < nr_steps) {
		struct model_volume *volume = any_volume();

		if (!below(3))
			do_killed(volume);
		else if (wants_delete(volume))
			do_delete(volume, any_to_delete(volume));
		else
			do_snapshot(volume);
		/* As repair does: by themselves they are rare. */
		if (!below(8) && rd_journal_renew(pool, 0))
			fail("cannot begin a new journal");
		remember(&moments[step]);
		if (!below(8)) {
			close_pool();
			open_pool();
		}
	}
	close_pool();
	/* The end of the last moment. */
	moments[nr_steps + 1] = moments[nr_steps];
	moments[nr_steps + 1].noted = power_now() + 1;
	power_end();
}

/*
 * The catalog is lost as well, and its copy must do. If the last write to it was
 * torn, that may be damage for all the engine knows: it wants to be forced.
 */
static void rebuild(void)
{
	unlink(path_of("cut/catalog.db"));
	unlink(path_of("cut/catalog.db-wal"));
	if (try_rebuild(false) && try_rebuild(true))
		fail("the catalog cannot be made anew");
}

static void see_after_cut(const struct moment *before)
{
	unlink(path_of("cut/catalog.db-shm"));
	if (!below(3))
		rebuild();
	open_pool();
	find_versions(before);
	check_pool();
	restore_all();
	if (!below(4)) {
		do_snapshot(any_volume());
		check_pool();
	}
	close_pool();
}

void do_power(void)
{
	struct moment *moments = calloc(nr_steps + 2, sizeof(*moments)), *moment = moments;
	size_t at, last = 0, first;
	unsigned int i;

	if (!moments || mkdir(path_of("cut"), 0700))
		fail("cannot begin");
	note_steps(moments);
	/* From here on it is read, mostly, from memory: plain calls take half as long. */
	setenv("REVDEDUP_NO_URING", "1", 1);
	copy(path_of("pool/pool.json"), path_of("cut"));
	pool_name = "cut";
	first = moments->noted;
	for (i = 0; i < nr_cuts; i++) {
		u64 span = power_now() - first, begin = first + span * i / nr_cuts;

		at = begin + below(span / nr_cuts + 1);
		/* What a commit or a superblock names must be stable at once. */
		if (below(2))
			at = power_next_commit(at);
		else
			at = power_next_super(begin, first + span * (i + 1) / nr_cuts, at);
		at = rd_max(at, last);
		last = at;
		while (moment[1].noted <= at)
			moment++;
		step = moment - moments + 1;
		power_cut(at, path_of("cut"), below);
		see_after_cut(moment);
	}
	printf("%6u cuts in %zu writes, holes and flushes; %u commands were killed before, %u were not\n",
	       nr_cuts, power_now(), nr_killed, nr_done);
	if (nr_killed < 5)
		fail("only %u commands were killed", nr_killed);
}
