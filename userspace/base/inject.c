// SPDX-License-Identifier: GPL-2.0
/* Hooks of the tests; see inject.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject.h"

#ifdef RD_TEST

const struct rd_tracer *rd_tracer;

static void write_name(const char *mark, const char *name)
{
	const char *path = getenv("REVDEDUP_FAIL_LOG");
	char line[128];
	int fd, len;

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	len = snprintf(line, sizeof(line), "%s%s\n", mark, name);
	if (write(fd, line, len) != len)
		abort();
	close(fd);
}

static int act(const char *action, bool *ret_short)
{
	if (!strcmp(action, "short")) {
		*ret_short = true;
		return 0;
	}
	if (!strcmp(action, "kill"))
		raise(SIGKILL);
	if (!strcmp(action, "stop")) {
		raise(SIGSTOP);
		return 0;
	}
	if (!strcmp(action, "EIO"))
		return -EIO;
	if (!strcmp(action, "ENOSPC"))
		return -ENOSPC;
	/* As if the user had asked to stop. */
	if (!strcmp(action, "EINTR"))
		return -EINTR;
	fprintf(stderr, "REVDEDUP_FAIL: no such action: '%s'\n", action);
	abort();
}

int rd_transfer_point(const char *name, bool *ret_short)
{
	static int seen, acted;
	const char *wishes = getenv("REVDEDUP_FAIL"), *action;
	char wish[64];
	int nth = 1, now, i;
	size_t len;

	*ret_short = false;
	write_name("", name);
	for (i = acted; i && wishes; i--)
		wishes = strchr(wishes, ',') ? strchr(wishes, ',') + 1 : NULL;
	if (!wishes)
		return 0;
	snprintf(wish, sizeof(wish), "%.*s", (int)strcspn(wishes, ","), wishes);
	action = strchr(wish, '=');
	if (!action)
		abort();
	len = strcspn(wish, ":=");
	if (wish[len] == ':')
		nth = atoi(wish + len + 1);
	if (strncmp(wish, "any", len) && (strlen(name) != len || strncmp(wish, name, len)))
		return 0;
	now = __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
	if (now != nth && (now < nth || strcmp(action, "=short")))
		return 0;
	write_name("!", name);
	if (wishes[strlen(wish)]) {
		acted++;
		seen = 0;
	}
	return act(action + 1, ret_short);
}

int rd_failpoint(const char *name)
{
	bool is_short;

	return rd_transfer_point(name, &is_short);
}

#endif
