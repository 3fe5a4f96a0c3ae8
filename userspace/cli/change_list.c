// SPDX-License-Identifier: GPL-2.0
/*
 * Parse a list of changes. Strictly: a range that is not understood would be missing in the
 * version.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "change_list.h"
#include "sizes.h"

static int parse_hex(const char *text, u64 *ret)
{
	u64 value = 0;

	if (!text[0] || strlen(text) > 16 || text[strspn(text, "0123456789abcdefABCDEF")])
		return -EINVAL;
	for (; *text; text++)
		value = value << 4 | (isdigit((unsigned char)*text) ? *text - '0' :
				      (*text | 0x20) - 'a' + 10);
	*ret = value;
	return 0;
}

static int parse_bytes(const char *text, u64 *ret)
{
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return parse_hex(text + 2, ret);
	return ctl_number_parse(text, U64_MAX, ret);
}

static const char *add_range(struct ctl_changed *ret, const char *offset, const char *len)
{
	struct rd_changed *changed = &ret->changed;
	struct rd_changed_range range;
	void *bigger;
	u64 end;

	if (parse_bytes(offset, &range.offset) || parse_bytes(len, &range.len))
		return "a range is 'OFFSET LENGTH', in bytes, decimal or 0x and hex";
	if (!range.len)
		return "the range is empty";
	if (__builtin_add_overflow(range.offset, range.len, &end) || end > INT64_MAX)
		return "the range ends beyond any image";
	/* Grow to 2, 4, 8 ranges and so on. */
	if (!(changed->nr & (changed->nr - 1))) {
		bigger = reallocarray(changed->ranges, changed->nr ? 2 * (size_t)changed->nr : 1,
				      sizeof(range));
		if (!bigger)
			return "there is no memory for the list";
		changed->ranges = bigger;
	}
	changed->ranges[changed->nr++] = range;
	return NULL;
}

static const char *set_version(struct ctl_changed *ret, const char *text)
{
	struct ctl_name name;
	u64 number;

	if (!ctl_number_parse(text, INT64_MAX, &number) && number) {
		ret->changed.base = number;
		return NULL;
	}
	if (ctl_name_parse(&name, text) || name.kind != CTL_NAME_NUMBER)
		return "it must be 'version VOL@NUMBER' or 'version NUMBER'";
	memcpy(ret->volume, name.volume, sizeof(ret->volume));
	ret->changed.base = name.number;
	return NULL;
}

static const char *parse_line(struct ctl_changed *ret, char *line)
{
	char *save, *first = strtok_r(line, " \t", &save);
	char *second = first ? strtok_r(NULL, " \t", &save) : NULL;

	if (!first || first[0] == '#')
		return NULL;
	if (!second || strtok_r(NULL, " \t", &save))
		return ret->changed.base ? "a range is 'OFFSET LENGTH'" :
			"the first line must be 'version VOL@NUMBER'";
	if (!strcmp(first, "version"))
		return ret->changed.base ? "a second 'version' line" :
			set_version(ret, second);
	if (!ret->changed.base)
		return "the first line must be 'version VOL@NUMBER'";
	return add_range(ret, first, second);
}

/* Merge ranges that overlap or touch. */
static void merge(struct rd_changed *changed)
{
	struct rd_changed_range *last = changed->ranges;
	unsigned int i;

	if (!changed->nr)
		return;
	rd_sort(changed->ranges, changed->nr, offset);
	for (i = 1; i < changed->nr; i++) {
		const struct rd_changed_range *range = &changed->ranges[i];

		if (range->offset <= last->offset + last->len)
			last->len = rd_max(last->len, range->offset + range->len - last->offset);
		else
			*++last = *range;
	}
	changed->nr = last - changed->ranges + 1;
}

const char *ctl_changed_parse(struct ctl_changed *ret, char *text, size_t len,
			      unsigned int *ret_line)
{
	char *end = text + len, *next;
	const char *wrong;

	memset(ret, 0, sizeof(*ret));
	for (*ret_line = 1; text < end; text = next, ++*ret_line) {
		next = memchr(text, '\n', end - text);
		if (!next)
			return "the last line has no end: the list is cut off";
		*next++ = '\0';
		if (strlen(text) != (size_t)(next - 1 - text))
			return "it contains a zero byte";
		wrong = parse_line(ret, text);
		if (wrong)
			return wrong;
	}
	if (!ret->changed.base)
		return "there is no 'version VOL@NUMBER'";
	merge(&ret->changed);
	return NULL;
}

void ctl_changed_free(struct ctl_changed *changed)
{
	free(changed->changed.ranges);
	memset(changed, 0, sizeof(*changed));
}
