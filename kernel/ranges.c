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

static int parse_pack(const char **text, struct dmr_entry *place)
{
	u64 head, slot;

	if (parse_hex(text, &head) || *(*text)++ != '.' || parse_hex(text, &slot) ||
	    head > DMR_HEAD_MAX || slot >= DMR_SEG_BLOCKS)
		return -EINVAL;
	*place = dmr_pack_entry(head, slot);
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
	case 'k':
		return parse_pack(text, place);
	default:
		return -EINVAL;
	}
}

int dmr_place_print(char text[DMR_PLACE_TEXT], struct dmr_entry place)
{
	switch (place.kind) {
	case DMR_POOL:
		return snprintf(text, DMR_PLACE_TEXT, "p%llx", (unsigned long long)place.block);
	case DMR_PACK:
		return snprintf(text, DMR_PLACE_TEXT, "k%llx.%x",
				(unsigned long long)dmr_entry_pool_block(place),
				dmr_entry_slot(place));
	default:
		return snprintf(text, DMR_PLACE_TEXT, "%c", place.kind == DMR_BASE ? 'b' : 'z');
	}
}

/* Does [@first, @first + @len) end within @limit? */
static bool is_within(u64 first, u64 len, u64 limit)
{
	return first < limit && len <= limit - first;
}

static int check_place(struct dmr_entry place, u64 len, u64 pool_blocks)
{
	switch (place.kind) {
	case DMR_POOL:
		return is_within(place.block, len, pool_blocks) ? 0 : -ERANGE;
	case DMR_PACK:
		if (!is_within(dmr_entry_slot(place), len, DMR_SEG_BLOCKS))
			return -EINVAL;
		return dmr_entry_pool_block(place) < pool_blocks ? 0 : -ERANGE;
	default:
		return 0;
	}
}

static int check_range(const struct dmr_range *range,
		       const struct dmr_range_rules *rules)
{
	unsigned int i;
	int r = 0;

	if (!is_within(range->first, range->len, rules->limit))
		return -EINVAL;
	for (i = 0; i < rules->nr_places && !r; i++)
		r = check_place(range->place[i], range->len, rules->pool_blocks);
	return r;
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
