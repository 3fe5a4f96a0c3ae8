// SPDX-License-Identifier: GPL-2.0
/* Messages to people. A line is one write, so that lines of threads stay whole. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

#define TEXT_MAX	1200

int rd_verbosity;

static void print_plain(enum rd_log_kind kind, const char *text)
{
	char line[TEXT_MAX + 16];

	snprintf(line, sizeof(line), "%s%s\n", kind == RD_LOG_WARNING ? "warning: " : "", text);
	fputs(line, stderr);
}

static const struct rd_log_printer plain = { .print = print_plain };
static const struct rd_log_printer *printer = &plain;

/* This thread's last message was a warning that was not printed: a hint now is about that. */
static _Thread_local bool warning_is_hidden;

void rd_log_to(const struct rd_log_printer *to)
{
	printer = to;
}

__attribute__((format(printf, 3, 0)))
static void say(enum rd_log_kind kind, int r, const char *fmt, va_list args)
{
	char text[TEXT_MAX];
	size_t len;

	vsnprintf(text, 1024, fmt, args);
	len = strlen(text);
	if (r)
		snprintf(text + len, sizeof(text) - len, ": %s", strerror(-r));
	printer->print(kind, text);
}

int rd_err(int r, const char *fmt, ...)
{
	va_list args;

	warning_is_hidden = false;
	va_start(args, fmt);
	say(RD_LOG_ERROR, r, fmt, args);
	va_end(args);
	return r;
}

void rd_warn(const char *fmt, ...)
{
	va_list args;

	if (rd_verbosity < 0) {
		warning_is_hidden = true;
		return;
	}
	va_start(args, fmt);
	say(RD_LOG_WARNING, 0, fmt, args);
	va_end(args);
}

void rd_info(const char *fmt, ...)
{
	va_list args;

	if (rd_verbosity < 1)
		return;
	va_start(args, fmt);
	say(RD_LOG_INFO, 0, fmt, args);
	va_end(args);
}

void rd_hint(const char *fmt, ...)
{
	va_list args;

	if (warning_is_hidden)
		return;
	va_start(args, fmt);
	say(RD_LOG_HINT, 0, fmt, args);
	va_end(args);
}

void rd_remedy(enum rd_remedy remedy, const char *object, const char *fmt, ...)
{
	char text[TEXT_MAX] = "", how[512] = "";
	size_t len;
	va_list args;

	if (warning_is_hidden)
		return;
	if (fmt) {
		va_start(args, fmt);
		vsnprintf(text, TEXT_MAX - sizeof(how), fmt, args);
		va_end(args);
	}
	if (printer->remedy)
		printer->remedy(how, sizeof(how), remedy, object);
	len = strlen(text);
	snprintf(text + len, sizeof(text) - len, "%s%s", len && how[0] ? "; " : "", how);
	if (text[0])
		printer->print(RD_LOG_HINT, text);
}

int rd_err_format(const char *path, long long format, long long known)
{
	rd_err(0, "'%s' has format %lld, and this program knows only %lld", path, format, known);
	if (format < known)
		rd_remedy(RD_REMEDY_MAKE_NEW_POOL, NULL,
			  "nothing was changed; restore the versions with the program that made the pool");
	else
		rd_hint("nothing was changed; install a newer revdedup");
	return -EOPNOTSUPP;
}
