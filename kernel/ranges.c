// SPDX-License-Identifier: GPL-2.0
/*
 * Parsing of the numbers and ranges in messages. Strict: what is not exactly
 * the grammar is refused, so a mistyped message changes nothing.
 */
#include <linux/errno.h>
#include <linux/kernel.h>

#include "ranges.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* At least one digit, at most 16: no overflow, no sign, no prefix. */
static int parse_hex(const char **text, u64 *ret)
{
	const char *p = *text;
	u64 value = 0;

	while (hex_value(*p) >= 0) {
		if (p - *text == 16)
			return -EINVAL;
		value = value << 4 | (u64)hex_value(*p++);
	}
	if (p == *text)
		return -EINVAL;
	*text = p;
	*ret = value;
	return 0;
}

int rdd_parse_u64(const char *text, u64 *ret)
{
	u64 value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		unsigned int digit = *text - '0';

		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (value > (U64_MAX - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*ret = value;
	return 0;
}

int rdd_range_next(const char **text, u64 limit, struct rdd_range *range)
{
	const char *p = *text;

	if (!*p)
		return 0;
	if (parse_hex(&p, &range->first) || *p++ != ',' ||
	    parse_hex(&p, &range->len))
		return -EINVAL;
	if (!range->len || range->first >= limit ||
	    range->len > limit - range->first)
		return -EINVAL;
	if (*p == ';' && p[1])
		p++;
	else if (*p)
		return -EINVAL;
	*text = p;
	return 1;
}

int rdd_ranges_check(const char *text, u64 limit)
{
	struct rdd_range range;
	int r;

	if (!*text)
		return -EINVAL;
	do {
		r = rdd_range_next(&text, limit, &range);
	} while (r > 0);
	return r;
}
