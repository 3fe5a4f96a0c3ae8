// SPDX-License-Identifier: GPL-2.0
/* Collect the errors and the doubts of a check. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "checker.h"

void rd_check_wrong(struct checker *check, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check->report->nr_wrong++;
	if (check->report->wrong)
		check->report->wrong(check->report->ctx, text);
}

void rd_check_doubt(struct checker *check, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_buffer_put(&check->doubtful, text, strlen(text) + 1);
}
