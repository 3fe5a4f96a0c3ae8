// SPDX-License-Identifier: GPL-2.0
/* What the engine says, in nbdkit's log: stderr, or syslog of a server in the background. */
#include <stdio.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/log.h"
#include "nbd.h"

/* Those that a server can need. Each has %s for the pool. */
static const char *const texts[RD_REMEDIES] = {
	[RD_REMEDY_WAIT_FOR_LOCK] = "start it again when that has ended (pool '%s')",
	[RD_REMEDY_REBUILD_CATALOG] =
		"'revdedupctl repair --rebuild-catalog --pool %s' makes a new catalog",
	[RD_REMEDY_REBUILD_SUPERS] = "'revdedupctl repair --force --pool %s' makes its superblocks",
	[RD_REMEDY_CHOOSE_SIDE] = "'revdedupctl check --pool %s' says how to go on",
	[RD_REMEDY_SCRUB] =
		"'revdedupctl scrub --pool %s' lists what is damaged, 'revdedupctl repair --from' heals it",
	[RD_REMEDY_MAKE_ROOM] = "'revdedupctl delete --pool %s' and 'prune' make room",
};

static const char *pool_path;

static void print(enum rd_log_kind kind, const char *text)
{
	nbdkit_error("%s%s", kind == RD_LOG_WARNING ? "warning: " : "", text);
}

static void write_remedy(char *text, size_t size, enum rd_remedy remedy, const char *object)
{
	const char *known = texts[remedy];

	(void)object;
	if (!known)
		snprintf(text, size, "see revdedupctl(8)");
	else
		snprintf(text, size, known, pool_path);
}

void nbd_print_messages(const char *pool)
{
	static const struct rd_log_printer printer = { .print = print, .remedy = write_remedy };

	pool_path = pool;
	rd_log_to(&printer);
}
