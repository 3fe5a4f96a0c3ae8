// SPDX-License-Identifier: GPL-2.0
/* Messages to people. A line is one write, so that lines of threads stay whole. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

int rd_verbosity;

__attribute__((format(printf, 3, 0)))
static void say(const char *kind, int r, const char *fmt, va_list args)
{
	char text[1024];
	char line[1200];

	vsnprintf(text, sizeof(text), fmt, args);
	if (r)
		snprintf(line, sizeof(line), "revdedupctl: %s%s: %s\n", kind,
			 text, strerror(-r));
	else
		snprintf(line, sizeof(line), "revdedupctl: %s%s\n", kind, text);
	fputs(line, stderr);
}

int rd_err(int r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say("", r, fmt, args);
	va_end(args);
	return r;
}

void rd_warn(const char *fmt, ...)
{
	va_list args;

	if (rd_verbosity < 0)
		return;
	va_start(args, fmt);
	say("warning: ", 0, fmt, args);
	va_end(args);
}

void rd_info(const char *fmt, ...)
{
	va_list args;

	if (rd_verbosity < 1)
		return;
	va_start(args, fmt);
	say("", 0, fmt, args);
	va_end(args);
}

void rd_hint(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say("", 0, fmt, args);
	va_end(args);
}

int rd_err_format(const char *path, long long format, long long known)
{
	if (format == known)
		rd_err(0, "'%s' has a feature that this program does not know", path);
	else
		rd_err(0, "'%s' has format %lld, and this program knows only %lld", path,
		       format, known);
	if (format < known)
		rd_hint("nothing was changed; restore the versions with the program that made the pool, then make a new pool with 'init'");
	else
		rd_hint("nothing was changed; install a newer revdedup");
	return -EOPNOTSUPP;
}
