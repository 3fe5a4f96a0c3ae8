// SPDX-License-Identifier: GPL-2.0
/* Parse and print the names of volumes, versions and tags. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "names.h"
#include "sizes.h"

static bool is_name(const char *text, size_t len)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/+-";

	return len && len <= CTL_NAME_MAX && strspn(text, allowed) >= len;
}

static bool is_volume(const char *text, size_t len)
{
	return is_name(text, len) && text[0] != '-';
}

bool ctl_is_volume(const char *text)
{
	return is_volume(text, strlen(text));
}

/* A tag must not look like any other way to name a version. */
bool ctl_is_tag(const char *text)
{
	return is_name(text, strlen(text)) && strcmp(text, "latest") &&
		(isalpha((unsigned char)text[0]) || text[0] == '_');
}

/* --- dates */

static bool is_digits(const char *text, unsigned int nr)
{
	return strspn(text, "0123456789") >= nr;
}

/* Parse @nr digits, at most @max, and the byte after them. */
static bool take_digits(const char **text, unsigned int nr, int max, char after, int *ret)
{
	unsigned int i;

	if (!is_digits(*text, nr) || (*text)[nr] != after)
		return false;
	for (*ret = 0, i = 0; i < nr; i++)
		*ret = *ret * 10 + (*text)[i] - '0';
	*text += nr + (after != '\0');
	return *ret <= max;
}

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	if (month == 2 && ((!(year % 4) && year % 100) || !(year % 400)))
		return 29;
	return days[month - 1];
}

static bool take_day(const char **text, struct tm *tm, char after)
{
	if (!take_digits(text, 4, 9999, '-', &tm->tm_year) ||
	    !take_digits(text, 2, 12, '-', &tm->tm_mon) ||
	    !take_digits(text, 2, 31, after, &tm->tm_mday))
		return false;
	if (tm->tm_year < 1970 || tm->tm_mon < 1 || tm->tm_mday < 1 ||
	    tm->tm_mday > days_in_month(tm->tm_year, tm->tm_mon))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return true;
}

/* Parse HH:MM or HH:MM:SS as the second after it, where that minute or second ends. */
static bool take_hour(const char **text, struct tm *tm)
{
	if (!take_digits(text, 2, 23, ':', &tm->tm_hour))
		return false;
	if (!strchr(*text, ':')) {
		tm->tm_sec = 60;
		return take_digits(text, 2, 59, '\0', &tm->tm_min);
	}
	if (!take_digits(text, 2, 59, ':', &tm->tm_min) ||
	    !take_digits(text, 2, 59, '\0', &tm->tm_sec))
		return false;
	tm->tm_sec++;
	return true;
}

/* Parse a time as the end of what it names: of the day, the minute or the second. */
static bool parse_time(const char *text, i64 *ret)
{
	struct tm tm = { .tm_isdst = -1 };
	bool has_hour = strchr(text, 'T');
	time_t when;

	if (!take_day(&text, &tm, has_hour ? 'T' : '\0'))
		return false;
	if (!has_hour)
		tm.tm_mday++;
	else if (!take_hour(&text, &tm))
		return false;
	when = mktime(&tm);
	if (when == (time_t)-1)
		return false;
	*ret = when - 1;
	return true;
}

/* --- versions */

static const char *parse_number(struct ctl_name *ret, const char *text)
{
	bool before = text[0] == '-';
	u64 number;

	ret->kind = before ? CTL_NAME_BEFORE : CTL_NAME_NUMBER;
	if (ctl_number_parse(text + before, INT64_MAX, &number))
		return "is not the number of a version";
	if (!before && !number)
		return "names version 0, but the first one is 1";
	ret->number = number;
	return NULL;
}

static const char *parse_version(struct ctl_name *ret, const char *text)
{
	if (!strcmp(text, "latest")) {
		ret->kind = CTL_NAME_BEFORE;
		return NULL;
	}
	if (is_digits(text, 4) && text[4] == '-') {
		ret->kind = CTL_NAME_TIME;
		return parse_time(text, &ret->number) ? NULL :
			"has no date and time such as 2026-11-20 or 2026-11-20T02:00";
	}
	if (text[0] == '-' || isdigit((unsigned char)text[0]))
		return parse_number(ret, text);
	if (!ctl_is_tag(text))
		return "names no version: @ is followed by a number, latest, -N, a date or a tag";
	ret->kind = CTL_NAME_TAG;
	memcpy(ret->tag, text, strlen(text));
	return NULL;
}

const char *ctl_name_parse(struct ctl_name *ret, const char *text)
{
	size_t len = strcspn(text, "@");

	memset(ret, 0, sizeof(*ret));
	if (text[0] == '@' && ctl_is_tag(text + 1)) {
		ret->kind = CTL_NAME_MOMENT;
		memcpy(ret->tag, text + 1, strlen(text + 1));
		return NULL;
	}
	if (!is_volume(text, len))
		return "is not a name of a volume: 1 to 128 letters, digits and . _ / + - are";
	memcpy(ret->volume, text, len);
	return text[len] ? parse_version(ret, text + len + 1) : NULL;
}

const char *ctl_name_print(char *text, const char *volume, i64 number)
{
	snprintf(text, CTL_VERSION_TEXT, "%.128s@%lld", volume, number);
	return text;
}
