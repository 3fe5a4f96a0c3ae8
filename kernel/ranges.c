// SPDX-License-Identifier: GPL-2.0
/*
 * Parse the numbers and ranges of messages. Text that is not exactly within the grammar
 * is refused, so a mistyped message changes nothing.
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

/* Parse 1 to 16 digits: no overflow, no sign, no prefix. */
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

int dmr_parse_u64(const char *text, u64 *ret)
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

static int parse_place(const char **text, struct dmr_entry *place)
{
	place->block = 0;
	switch (*(*text)++) {
	case 'b':
		place->kind = DMR_BASE;
		return 0;
	case 'z':
		place->kind = DMR_ZERO;
		return 0;
	case 'p':
		place->kind = DMR_POOL;
		return parse_hex(text, &place->block);
	default:
		return -EINVAL;
	}
}

/* Does [@first, @first + @len) end within @limit? */
static bool is_within(u64 first, u64 len, u64 limit)
{
	return first < limit && len <= limit - first;
}

static int check_range(const struct dmr_range *range,
		       const struct dmr_range_rules *rules)
{
	unsigned int i;

	if (!is_within(range->first, range->len, rules->limit))
		return -EINVAL;
	for (i = 0; i < rules->nr_places; i++) {
		if (range->place[i].kind == DMR_POOL &&
		    !is_within(range->place[i].block, range->len,
			       rules->pool_blocks))
			return -ERANGE;
	}
	return 0;
}

int dmr_range_next(const char **text, const struct dmr_range_rules *rules,
		   struct dmr_range *range)
{
	const char *p = *text;
	unsigned int i;
	int r;

	if (!*p)
		return 0;
	if (parse_hex(&p, &range->first) || *p++ != ',' ||
	    parse_hex(&p, &range->len) || !range->len)
		return -EINVAL;
	for (i = 0; i < rules->nr_places; i++) {
		if (*p++ != ',' || parse_place(&p, &range->place[i]))
			return -EINVAL;
	}
	if (*p == ';' && p[1])
		p++;
	else if (*p)
		return -EINVAL;
	r = check_range(range, rules);
	if (r)
		return r;
	*text = p;
	return 1;
}

int dmr_ranges_check(const char *text, const struct dmr_range_rules *rules)
{
	struct dmr_range range;
	int r;

	if (!*text)
		return -EINVAL;
	do {
		r = dmr_range_next(&text, rules, &range);
	} while (r > 0);
	return r;
}
