// SPDX-License-Identifier: GPL-2.0
/*
 * settable NAME <RANGES: give a mapped device the table whose ranges are on standard input,
 * a range a line, in messages of thousands of ranges.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/dmreq.h"

#define MESSAGE_MAX	65536U

static const char *name;

static void send_message(const char *text, size_t len)
{
	struct dmreq rq;
	int r;

	dmreq_begin(&rq, name);
	r = dmreq_set_message(&rq, 0, text, len + 1);
	if (!r)
		r = dmreq_send(&rq, DM_TARGET_MSG, 1);
	if (r)
		errx(1, "%s: %.40s...: %s", name, text, strerror(-r));
}

static void say(const char *text)
{
	send_message(text, strlen(text));
}

static void simple(const char *what, uint32_t flags)
{
	int r = dmreq_simple(name, DM_DEV_SUSPEND, flags);

	if (r)
		errx(1, "%s: %s: %s", name, what, strerror(-r));
}

static void set_all(void)
{
	static char message[MESSAGE_MAX] = "set ";
	const size_t begin = strlen(message);
	size_t len = begin, size = 0;
	char *line = NULL;
	ssize_t got;

	while ((got = getline(&line, &size, stdin)) > 0) {
		if (len + got > sizeof(message)) {
			message[--len] = 0;
			send_message(message, len);
			len = begin;
		}
		memcpy(message + len, line, got);
		len += got;
		message[len - 1] = ';';
	}
	if (len > begin) {
		message[--len] = 0;
		send_message(message, len);
	}
	free(line);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "usage: settable NAME <RANGES");
	name = argv[1];
	dmreq_open();
	simple("suspend", DM_SUSPEND_FLAG);
	say("begin");
	set_all();
	say("end");
	simple("resume", 0);
	return 0;
}
