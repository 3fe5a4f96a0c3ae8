// SPDX-License-Identifier: GPL-2.0
/* The moment of a domain, with a guest that is frozen: see freeze_guest.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/inject.h"
#include "base/lock.h"
#include "base/log.h"
#include "host/sys/run.h"
#include "freeze_guest.h"
#include "virsh.h"

#define FREEZE_SECONDS	20
#define GUARD_MS	(60 * 1000)
/* So often the agent is to say that nothing is frozen, with so much between. */
#define CALM		4
#define STEP_MS		500
#define THAW_MS		(120 * 1000)

/* 1: frozen; 0: thawed; -EREMOTEIO: there is no agent that answers. */
static int ask_status(const struct rd_domain *domain)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	static const char question[] = "{\"execute\":\"guest-fsfreeze-status\"}";
	int r;

	r = rd_virsh(domain->name, true, &text, "qemu-agent-command", question, NULL, NULL);
	if (!r)
		r = !strstr((const char *)text.data, "\"thawed\"");
	return r;
}

/* Only a list says so: where libvirt does not answer, the guest may be as it was. */
static bool is_gone(const struct rd_domain *domain)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	char *rest, *name;

	if (rd_virsh("--name", true, &text, "list", NULL, NULL, NULL))
		return false;
	rest = (char *)text.data;
	while ((name = strsep(&rest, "\n")))
		if (!strcmp(name, domain->name))
			return false;
	return true;
}

static int hint_at_thaw(const struct rd_domain *domain)
{
	rd_err(0, "the guest '%s' may still be frozen", domain->name);
	rd_hint("'virsh domfsthaw %s' thaws it", domain->name);
	return -EIO;
}

/* Until it is certain: a freeze that was given up may still come. */
static int thaw(const struct rd_domain *domain, unsigned int calm)
{
	unsigned int i, seen = 0, steps = rd_patience_ms(THAW_MS) / STEP_MS;

	for (i = 0; i < steps && seen < calm; i++) {
		rd_virsh(domain->name, true, NULL, "domfsthaw", NULL, NULL, NULL);
		if (is_gone(domain))
			return 0;
		seen = ask_status(domain) ? 0 : seen + 1;
		if (seen < calm)
			usleep(STEP_MS * 1000);
	}
	return seen < calm ? hint_at_thaw(domain) : 0;
}

/* The virsh that freezes may not have asked yet, and outlives the command. */
static int thaw_late(void *ctx, bool is_alone)
{
	const struct rd_domain *domain = ctx;

	if (!is_alone)
		return 0;
	if (*domain->freezing > 0)
		kill(-*domain->freezing, SIGKILL);
	return thaw(domain, CALM);
}

static int freeze(const struct rd_domain *domain)
{
	char *const argv[] = { "env", "LC_ALL=C", "virsh", "-q", "domfsfreeze",
			       (char *)domain->name, NULL };
	int r = rd_run_within(argv, FREEZE_SECONDS, domain->freezing);

	if (r)
		rd_warn("the agent of '%s' does not freeze it: its file systems are as after a loss of power",
			domain->name);
	return r;
}

static int with_agent(struct rd_domain *domain)
{
	int r, late, left, frozen;

	domain->thaw = (struct rd_guard){
		.end = thaw_late,
		.ctx = domain,
		.limit_ms = GUARD_MS,
		.drop_fd = domain->lock_fd,
	};
	r = rd_guard_begin(&domain->thaw);
	if (r)
		return r;
	frozen = !freeze(domain);
	r = rd_failpoint("domain-frozen");
	if (!r)
		r = rd_domain_begin_backup(domain);
	/* It is asked once where the freeze has answered. */
	left = thaw(domain, frozen ? 1 : CALM);
	r = r ? r : left;
	late = rd_guard_end(&domain->thaw);
	if (late == -ETIME && !r)
		rd_warn("the guest '%s' was thawed before the moment: its file systems are as after a loss of power",
			domain->name);
	return r;
}

int rd_freeze_guest(struct rd_domain *domain)
{
	int r;

	if (ask_status(domain))
		return rd_domain_begin_backup(domain);
	domain->freezing = mmap(NULL, sizeof(*domain->freezing), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (domain->freezing == MAP_FAILED)
		return -ENOMEM;
	r = with_agent(domain);
	munmap(domain->freezing, sizeof(*domain->freezing));
	return r;
}
