// SPDX-License-Identifier: GPL-2.0
/* Parse and print numbers, sizes and times. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sizes.h"

static const char units[] = "KMGTPE";

/* Parse a number, and leave *@text behind its digits. */
static int take_number(const char **text, u64 max, u64 *ret)
{
	u64 value = 0;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	for (; isdigit((unsigned char)**text); (*text)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (u64)(**text - '0'), &value))
			return -ERANGE;
	*ret = value;
	return value > max ? -ERANGE : 0;
}

int ctl_number_parse(const char *text, u64 max, u64 *ret)
{
	u64 value;
	int r = take_number(&text, max, &value);

	/*
	 * Text that is no number is -EINVAL, even if it begins with a number that is too
	 * large.
	 */
	if (text[strspn(text, "0123456789")])
		return -EINVAL;
	if (!r)
		*ret = value;
	return r;
}

int ctl_size_parse(const char *text, u64 *ret)
{
	const char *unit;
	unsigned int shift = 0;
	u64 value;
	int r = take_number(&text, U64_MAX, &value);

	if (r)
		return r;
	if (*text) {
		unit = strchr(units, toupper((unsigned char)*text));
		if (!unit || (text[1] && strcmp(text + 1, "iB")))
			return -EINVAL;
		shift = 10 * (unit - units + 1);
	}
	if (value > U64_MAX >> shift)
		return -ERANGE;
	*ret = value << shift;
	return 0;
}

int ctl_share_parse(const char *text, double *ret_percent, u64 *ret_bytes)
{
	size_t len = strspn(text, "0123456789.");
	char *end;

	*ret_percent = 0;
	*ret_bytes = 0;
	if (strcmp(text + len, "%"))
		return ctl_size_parse(text, ret_bytes);
	*ret_percent = strtod(text, &end);
	return end == text + len && *ret_percent > 0 && *ret_percent <= 100 ? 0 : -EINVAL;
}

/* Parse a number up to @max, and one of @letters behind it, as its number of seconds. */
static int parse_unit(const char *text, const char *letters, u64 max, u64 *ret, u64 *ret_unit)
{
	static const struct {
		char letter;
		u64 seconds;
	} known[] = {
		{ 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 7 * 86400 },
		{ 'y', 365 * 86400 },
	};
	unsigned int i;
	int r = take_number(&text, max, ret);

	if (r)
		return r;
	if (!text[0] || text[1] || !strchr(letters, text[0]))
		return -EINVAL;
	for (i = 0; known[i].letter != text[0]; i++)
		;
	*ret_unit = known[i].seconds;
	return 0;
}

int ctl_duration_parse(const char *text, i64 *ret)
{
	u64 value, unit;
	int r = parse_unit(text, "hdwy", U64_MAX, &value, &unit);

	if (r)
		return r;
	if (value > INT64_MAX / unit)
		return -ERANGE;
	*ret = value * unit;
	return 0;
}

int ctl_time_limit_parse(const char *text, u64 *ret_us)
{
	u64 value, unit;
	int r = parse_unit(text, "smh", 10000000, &value, &unit);

	if (r || !value)
		return r ? r : -EINVAL;
	*ret_us = value * unit * 1000000;
	return 0;
}

#define TEXT	32

static char *next_text(void)
{
	static __thread char texts[CTL_TEXTS][TEXT];
	static __thread unsigned int nr;

	return texts[nr++ % CTL_TEXTS];
}

const char *ctl_size(u64 bytes)
{
	char *text = next_text();
	double value = bytes;
	const char *unit = units;

	if (bytes < 1024) {
		snprintf(text, TEXT, "%llu B", bytes);
		return text;
	}
	/* 1023.96 would be printed as 1024.0 of the smaller unit. */
	for (value /= 1024; value >= 1023.95 && unit[1]; value /= 1024)
		unit++;
	snprintf(text, TEXT, "%.1f %ciB", value, *unit);
	return text;
}

const char *ctl_duration(u64 seconds)
{
	char *text = next_text();

	if (seconds < 3600)
		snprintf(text, TEXT, "%llu:%02llu", seconds / 60, seconds % 60);
	else
		snprintf(text, TEXT, "%llu:%02llu:%02llu", seconds / 3600, seconds / 60 % 60,
			 seconds % 60);
	return text;
}

const char *ctl_time(i64 when)
{
	char *text = next_text();
	time_t seconds = when;
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(text, TEXT, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, TEXT, "%lld", when);
	return text;
}
