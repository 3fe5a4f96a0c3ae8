// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl doctor: print what is missing or wrong on this host, and what mends it.
 *
 * Here are the checks of settings, pool and volumes; doctor_host.c has those of the host.
 */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "host/sys/run.h"
#include "host/volume/freeze/hooks.h"
#include "pool/engine/journal/journal_life.h"
#include "pool/engine/version/session.h"
#include "doctor.h"
#include "health.h"
#include "poolstats.h"

/* --- what checks use */

int ctl_find_that(struct ctl_finding *ret, enum ctl_finding_state state, const char *fmt, ...)
{
	va_list args;

	ret->state = state;
	va_start(args, fmt);
	vsnprintf(ret->text, sizeof(ret->text), fmt, args);
	va_end(args);
	return 0;
}

int ctl_mend(struct ctl_finding *ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(ret->mend, sizeof(ret->mend), fmt, args);
	va_end(args);
	return 0;
}

int ctl_mend_by_package(struct ctl_finding *ret, const char *deb, const char *rpm)
{
	char *const argv[] = { "dnf", "--version", NULL };

	return rd_run_quietly(argv, NULL) < 0 ? ctl_mend(ret, "apt install %s", deb) :
		ctl_mend(ret, "dnf install %s", rpm);
}

int ctl_ask_program(char *const *argv, char *ret, size_t size)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	int r = rd_run_quietly(argv, &text);
	size_t len = text.len ? strcspn((char *)text.data, "\n") : 0;

	while (len && text.data[len - 1] == ' ')
		len--;
	snprintf(ret, size, "%.*s", (int)len, len ? (char *)text.data : "");
	return r;
}

/* --- settings and pool */

static int check_settings(struct ctl *ctl, struct ctl_finding *ret)
{
	const struct ctl_config *config = &ctl->config;

	if (config->error) {
		ctl_find_that(ret, CTL_FINDING_WRONG, "no setting of '%s' counts: see above",
			      config->path);
		return ctl_mend(ret, "edit %s", config->path);
	}
	return ctl_find_that(ret, CTL_FINDING_OK, config->is_missing ?
			     "there is no '%s', and need be none" : "'%s'", config->path);
}

/* The alert for Prometheus has the same bound. */
static bool is_nearly_full(const struct ctl_pool_stats *stats)
{
	return stats->free < stats->size / 10 && stats->free < (stats->data + stats->free) / 10;
}

/* Scrub and repair count the catalog again, so what a check found before them is out of date. */
static bool is_known_damaged(const struct ctl_pool_stats *stats)
{
	const struct ctl_last_scrub *check = &stats->check, *scrub = &stats->scrub;

	return ctl_last_found_damage(scrub) ||
		(ctl_last_found_damage(check) &&
		 (scrub->time == CTL_UNKNOWN || check->time >= scrub->time));
}

/* Commands that read only warn of it. To others the pool is of no use. */
static int check_life(const struct rd_pool *pool)
{
	if (pool->life == RD_LIFE_ONE)
		return 0;
	rd_err(0, "'%s': %s; nothing can be written", pool->path, rd_life_text(pool->life));
	rd_session_hint_life(pool->life);
	return -ESTALE;
}

static int look_into_pool(struct ctl *ctl, struct ctl_pool_stats *ret)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	int r = ctl_open(ctl, RD_POOL_READ);

	if (!r)
		r = check_life(ctl->pool);
	if (!r)
		r = ctl_pool_stats(ctl, ret, &volumes);
	return ctl_close(ctl, r);
}

static int check_pool(struct ctl *ctl, struct ctl_finding *ret)
{
	struct ctl_pool_stats stats;
	char free[CTL_FREE_TEXT];
	int r;

	if (!ctl_pool_path(ctl)) {
		ctl_find_that(ret, CTL_FINDING_NOTE, "none is named: each command needs --pool");
		return ctl_mend(ret, "set 'pool =' in %s; revdedupctl init POOL makes one",
				ctl->config.path);
	}
	r = look_into_pool(ctl, &stats);
	if (r)
		return r;
	if (is_known_damaged(&stats)) {
		ctl_find_that(ret, CTL_FINDING_WRONG, "'%s': the last scrub or check found damage",
			      ctl_pool_name(ctl));
		return ctl_mend(ret, "revdedupctl repair");
	}
	ctl_free_print(free, &stats);
	if (!is_nearly_full(&stats))
		return ctl_find_that(ret, CTL_FINDING_OK, "'%s', free: %s", ctl_pool_name(ctl),
				     free);
	ctl_find_that(ret, CTL_FINDING_WRONG, "'%s' is nearly full, free: %s", ctl_pool_name(ctl),
		      free);
	return ctl_mend(ret, "revdedupctl prune --keep-last N; or revdedupctl grow");
}

/* --- volumes */

static int check_volumes(struct ctl_finding *ret)
{
	char text[CTL_PROBLEM_TEXT];
	struct rd_buffer all = { 0 };
	unsigned int nr = 0, bad = 0;
	struct rd_attachment *at;
	struct rd_health health;
	int r = rd_attachments(&all);

	rd_each(at, &all) {
		nr++;
		rd_health_check(&health, at);
		if (health.problem && !bad++ && !r)
			ctl_find_that(ret, CTL_FINDING_WRONG, "%s %s", at->volume,
				      ctl_problem_print(text, &health));
	}
	rd_buffer_free(&all);
	if (r)
		return r;
	if (nr && geteuid()) {
		ctl_find_that(ret, CTL_FINDING_UNKNOWN, "%u attached: only root can look at them",
			      nr);
		return ctl_mend(ret, "run this as root");
	}
	if (bad)
		return ctl_mend(ret, "revdedupctl status shows all; then: revdedupctl attach --all");
	if (!nr)
		return ctl_find_that(ret, CTL_FINDING_OK, "none is attached");
	return ctl_find_that(ret, CTL_FINDING_OK, "%u attached, none needs attention", nr);
}

/* The first hook that is switched off, in @off; 0 or -errno. */
static int find_hooks(struct rd_hooks *hooks, char off[PATH_MAX])
{
	unsigned int i;
	int r = rd_hooks_find(hooks);

	off[0] = '\0';
	for (i = 0; i < hooks->nr && !off[0]; i++) {
		snprintf(off, PATH_MAX, "%s/%s", hooks->dir, hooks->entries[i]->d_name);
		if (!access(off, X_OK))
			off[0] = '\0';
	}
	return r;
}

static int check_hooks(struct ctl_finding *ret)
{
	struct rd_hooks hooks;
	char off[PATH_MAX];
	int r = find_hooks(&hooks, off);

	if (!r && off[0]) {
		ctl_find_that(ret, CTL_FINDING_NOTE, "'%s' is not executable, and so switched off",
			      off);
		ctl_mend(ret, "chmod +x %s", off);
	} else if (!r) {
		ctl_find_that(ret, CTL_FINDING_OK, "%u run around each snapshot", hooks.nr);
	}
	rd_hooks_free(&hooks);
	return r;
}

/* The pool is the last one: a disk or a network that does not answer may keep it for long. */
const struct ctl_doctor_check ctl_pool_checks[] = {
	{ .name = "settings", .ask = check_settings },
	{ .name = "volumes", .run = check_volumes },
	{ .name = "hooks", .run = check_hooks },
	{ .name = "pool", .ask = check_pool },
	{ }
};

/* --- all of them */

static void print_finding(struct ctl *ctl, const char *name, const struct ctl_finding *finding)
{
	static const char *const texts[] = { "ok", "note", "WRONG", "?" };
	static const char *const words[] = { "ok", "note", "wrong", "unknown" };

	if (ctl->json) {
		ctl_json(ctl, "check", "name=%s state=%s text=%s mend=%s", name,
			 words[finding->state], finding->text,
			 finding->mend[0] ? finding->mend : NULL);
	} else if (!ctl->quiet) {
		printf("%-12s %-5s  %s\n", name, texts[finding->state], finding->text);
		if (finding->mend[0])
			printf("%-12s        mend: %s\n", "", finding->mend);
	}
	/* The next check may hang, and then this one is to be seen. */
	fflush(stdout);
}

/* A hint of another command begins with what that command has not done. */
static const char *without_excuse(const char *hint)
{
	static const char *const excuses[] = { "nothing was changed; ", "nothing was exported; " };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(excuses); i++)
		if (!strncmp(hint, excuses[i], strlen(excuses[i])))
			return hint + strlen(excuses[i]);
	return hint;
}

/* A check has failed: is that for want of a right, or for another command, and not wrong? */
static enum ctl_finding_state state_of_failed(struct ctl_finding *ret, int r)
{
	if (r == -EBUSY)
		return CTL_FINDING_UNKNOWN;
	if (!geteuid() || (r != -EACCES && r != -EPERM))
		return CTL_FINDING_WRONG;
	ctl_mend(ret, "run this as root");
	return CTL_FINDING_UNKNOWN;
}

/* Returns whether something is wrong. */
static bool run_check(struct ctl *ctl, const struct ctl_doctor_check *check)
{
	struct ctl_finding finding = { 0 };
	struct ctl_message said = { 0 };
	int r;

	ctl_keep_messages(&said);
	r = check->ask ? check->ask(ctl, &finding) : check->run ? check->run(&finding) :
		ctl_find_program(&finding, &check->program);
	ctl_keep_messages(NULL);
	if (!finding.text[0])
		ctl_find_that(&finding, state_of_failed(&finding, r), "%s", said.error[0] ?
			      said.error : strerror(r < 0 ? -r : EIO));
	if (!finding.mend[0] && said.error[0])
		ctl_mend(&finding, "%s", without_excuse(said.hint));
	print_finding(ctl, check->name, &finding);
	return finding.state == CTL_FINDING_WRONG;
}

/* Users who are not root, and cron, have no sbin in their path, where programs of the host are. */
static int add_sbin(void)
{
	const char *path = getenv("PATH");
	char *all;
	int r;

	if (asprintf(&all, "%s:/usr/local/sbin:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin") < 0)
		return -ENOMEM;
	r = setenv("PATH", all, 1) ? -errno : 0;
	free(all);
	return r;
}

int cmd_doctor(struct ctl *ctl)
{
	const struct ctl_doctor_check *check;
	unsigned int wrong = 0;
	int r = add_sbin();

	if (r)
		return r;
	for (check = ctl_host_checks; check->name; check++)
		wrong += run_check(ctl, check);
	for (check = ctl_pool_checks; check->name; check++)
		wrong += run_check(ctl, check);
	return wrong ? CTL_FAILED : 0;
}
