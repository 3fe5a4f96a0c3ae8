// SPDX-License-Identifier: GPL-2.0
/*
 * The pure parts of revdedupctl: names, sizes, lists of changes, what a policy keeps,
 * settings, and words that are near to a mistyped one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/ini.h"
#include "base/suggest.h"
#include "cli/change_list.h"
#include "cli/keep.h"
#include "cli/names.h"
#include "cli/sizes.h"

static void set_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

/* --- names */

static void good(const char *text, const char *volume, enum ctl_name_kind kind, i64 number)
{
	struct ctl_name name;
	const char *wrong = ctl_name_parse(&name, text);

	if (wrong)
		fail_msg("'%s' %s", text, wrong);
	assert_string_equal(name.volume, volume);
	assert_int_equal(name.kind, kind);
	assert_int_equal(name.number, number);
}

static void bad(const char *text)
{
	struct ctl_name name;

	if (!ctl_name_parse(&name, text))
		fail_msg("'%s' is taken for a name, of kind %d", text, name.kind);
}

static void test_names(void **state)
{
	struct ctl_name name;

	(void)state;
	good("vm1", "vm1", CTL_NAME_VOLUME, 0);
	good("vg/a-b+c_d.0", "vg/a-b+c_d.0", CTL_NAME_VOLUME, 0);
	good("1@1", "1", CTL_NAME_NUMBER, 1);
	good("vm1@9223372036854775807", "vm1", CTL_NAME_NUMBER, INT64_MAX);
	good("vm1@latest", "vm1", CTL_NAME_BEFORE, 0);
	good("vm1@-0", "vm1", CTL_NAME_BEFORE, 0);
	good("vm1@-12", "vm1", CTL_NAME_BEFORE, 12);
	/* Four digits and then no dash are a number. */
	good("vm1@2026", "vm1", CTL_NAME_NUMBER, 2026);
	good("vm1@gold", "vm1", CTL_NAME_TAG, 0);
	assert_null(ctl_name_parse(&name, "vm1@before-6.12/x_+"));
	assert_int_equal(name.kind, CTL_NAME_TAG);
	assert_string_equal(name.tag, "before-6.12/x_+");

	good("@gold", "", CTL_NAME_MOMENT, 0);
	assert_null(ctl_name_parse(&name, "@before-6.12/x_+"));
	assert_string_equal(name.tag, "before-6.12/x_+");

	bad("");
	bad("@");
	bad("@1");
	bad("@latest");
	bad("@-1");
	bad("@gold@gold");
	bad("-vm1");
	bad("vm 1");
	bad("vm1\n");
	bad("vm\303\2741");
	bad("vm1@");
	bad("vm1@0");
	bad("vm1@-");
	bad("vm1@--1");
	bad("vm1@-1x");
	bad("vm1@1x");
	bad("vm1@+1");
	bad("vm1@1@2");
	bad("vm1@9223372036854775808");
	bad("vm1@99999999999999999999999");
	bad("vm1@.x");
	bad("vm1@a b");
}

static void test_long_names(void **state)
{
	char text[300];
	struct ctl_name name;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[128] = '\0';
	assert_true(ctl_is_volume(text));
	assert_true(ctl_is_tag(text));
	good(text, text, CTL_NAME_VOLUME, 0);
	text[128] = '@';
	text[257] = '\0';
	assert_null(ctl_name_parse(&name, text));
	assert_int_equal(strlen(name.tag), 128);
	text[257] = 'a';
	text[258] = '\0';
	bad(text);
	text[128] = 'a';
	text[129] = '\0';
	assert_false(ctl_is_volume(text));
	assert_false(ctl_is_tag(text));
	bad(text);
}

static void test_tags(void **state)
{
	(void)state;
	assert_true(ctl_is_tag("a"));
	assert_true(ctl_is_tag("_1"));
	assert_true(ctl_is_tag("latest2"));
	assert_false(ctl_is_tag(""));
	assert_false(ctl_is_tag("latest"));
	assert_false(ctl_is_tag("1a"));
	assert_false(ctl_is_tag("-a"));
	assert_false(ctl_is_tag("+a"));
	assert_false(ctl_is_tag("a@b"));
}

static void test_dates(void **state)
{
	(void)state;
	set_zone("UTC");
	/* All of the day, of the minute, of the second. */
	good("a@2026-11-20", "a", CTL_NAME_TIME, 1795219199);
	good("a@2026-11-20T02:00", "a", CTL_NAME_TIME, 1795140059);
	good("a@2026-11-20T02:00:30", "a", CTL_NAME_TIME, 1795140030);
	good("a@2026-12-31", "a", CTL_NAME_TIME, 1798761599);
	good("a@2026-12-31T23:59", "a", CTL_NAME_TIME, 1798761599);
	good("a@2028-02-29", "a", CTL_NAME_TIME, 1835481599);
	good("a@2000-02-29T00:00:00", "a", CTL_NAME_TIME, 951782400);

	bad("a@2026-02-29");
	bad("a@2100-02-29");
	bad("a@2026-13-01");
	bad("a@2026-00-01");
	bad("a@2026-01-00");
	bad("a@2026-04-31");
	bad("a@1969-12-31");
	bad("a@2026-1-1");
	bad("a@2026-11");
	bad("a@2026-11-20T");
	bad("a@2026-11-20T24:00");
	bad("a@2026-11-20T02:60");
	bad("a@2026-11-20T02:00:60");
	bad("a@2026-11-20T02:00:");
	bad("a@2026-11-20T02");
	bad("a@2026-11-20 02:00");
	bad("a@2026-11-20T02:00Z");
	bad("a@2026-11-200");
}

/* Days of 23 and of 25 hours. */
static void test_dates_in_summer(void **state)
{
	(void)state;
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	good("a@2026-11-20", "a", CTL_NAME_TIME, 1795215599);
	good("a@2026-03-28", "a", CTL_NAME_TIME, 1774738799);
	good("a@2026-03-29", "a", CTL_NAME_TIME, 1774738799 + 23 * 3600);
	good("a@2026-10-24", "a", CTL_NAME_TIME, 1792879199);
	good("a@2026-10-25", "a", CTL_NAME_TIME, 1792879199 + 25 * 3600);
	set_zone("UTC");
}

static void test_print_names(void **state)
{
	char text[CTL_VERSION_TEXT], longest[CTL_NAME_MAX + 1];

	(void)state;
	assert_string_equal(ctl_name_print(text, "vm1", 3), "vm1@3");
	memset(longest, 'a', CTL_NAME_MAX);
	longest[CTL_NAME_MAX] = '\0';
	ctl_name_print(text, longest, INT64_MAX);
	assert_string_equal(text + CTL_NAME_MAX, "@9223372036854775807");
}

/* --- sizes */

static void size_is(const char *text, int wanted_r, u64 wanted)
{
	u64 value = 77;
	int r = ctl_size_parse(text, &value);

	if (r != wanted_r || value != (r ? 77 : wanted))
		fail_msg("'%s': %d, %llu", text, r, value);
}

static void test_sizes(void **state)
{
	(void)state;
	size_is("0", 0, 0);
	size_is("18446744073709551615", 0, U64_MAX);
	size_is("1k", 0, 1024);
	size_is("10G", 0, 10ULL << 30);
	size_is("10GiB", 0, 10ULL << 30);
	size_is("3t", 0, 3ULL << 40);
	size_is("2P", 0, 2ULL << 50);
	size_is("15E", 0, 15ULL << 60);

	size_is("16E", -ERANGE, 0);
	size_is("18446744073709551616", -ERANGE, 0);
	size_is("18014398509481984K", -ERANGE, 0);
	size_is("", -EINVAL, 0);
	size_is("G", -EINVAL, 0);
	size_is("-1", -EINVAL, 0);
	size_is("+1", -EINVAL, 0);
	size_is(" 1", -EINVAL, 0);
	size_is("1 G", -EINVAL, 0);
	size_is("1GB", -EINVAL, 0);
	size_is("1Gi", -EINVAL, 0);
	size_is("1.5G", -EINVAL, 0);
	size_is("0x10", -EINVAL, 0);
	size_is("1X", -EINVAL, 0);
}

static void share_is(const char *text, int wanted_r, double percent, u64 bytes)
{
	double found = 77;
	u64 value = 77;
	int r = ctl_share_parse(text, &found, &value);

	if (r != wanted_r || (!r && (found != percent || value != bytes)))
		fail_msg("'%s': %d, %g%%, %llu", text, r, found, value);
}

static void test_shares(void **state)
{
	(void)state;
	share_is("1%", 0, 1, 0);
	share_is("0.5%", 0, 0.5, 0);
	share_is("100%", 0, 100, 0);
	share_is("10G", 0, 0, 10ULL << 30);
	share_is("0", 0, 0, 0);

	share_is("0%", -EINVAL, 0, 0);
	share_is("100.1%", -EINVAL, 0, 0);
	share_is("-1%", -EINVAL, 0, 0);
	share_is("0x10%", -EINVAL, 0, 0);
	share_is("1.2.3%", -EINVAL, 0, 0);
	share_is("%", -EINVAL, 0, 0);
	share_is(".%", -EINVAL, 0, 0);
	share_is("1%%", -EINVAL, 0, 0);
	share_is("1 %", -EINVAL, 0, 0);
	share_is("", -EINVAL, 0, 0);
}

static void test_numbers(void **state)
{
	u64 value;

	(void)state;
	assert_int_equal(ctl_number_parse("10", 10, &value), 0);
	assert_int_equal(value, 10);
	assert_int_equal(ctl_number_parse("11", 10, &value), -ERANGE);
	assert_int_equal(ctl_number_parse("18446744073709551616", U64_MAX, &value), -ERANGE);
	assert_int_equal(ctl_number_parse("18446744073709551616x", U64_MAX, &value), -EINVAL);
	assert_int_equal(ctl_number_parse("", 10, &value), -EINVAL);
	assert_int_equal(ctl_number_parse("1 ", 10, &value), -EINVAL);
	assert_int_equal(ctl_number_parse("-1", 10, &value), -EINVAL);
}

static void test_durations(void **state)
{
	i64 value;

	(void)state;
	assert_int_equal(ctl_duration_parse("30d", &value), 0);
	assert_int_equal(value, 30 * 86400);
	assert_int_equal(ctl_duration_parse("12h", &value), 0);
	assert_int_equal(value, 12 * 3600);
	assert_int_equal(ctl_duration_parse("8w", &value), 0);
	assert_int_equal(value, 56 * 86400);
	assert_int_equal(ctl_duration_parse("1y", &value), 0);
	assert_int_equal(value, 365 * 86400);
	/* Minutes or months? */
	assert_int_equal(ctl_duration_parse("1m", &value), -EINVAL);
	assert_int_equal(ctl_duration_parse("30", &value), -EINVAL);
	assert_int_equal(ctl_duration_parse("d", &value), -EINVAL);
	assert_int_equal(ctl_duration_parse("1d2h", &value), -EINVAL);
	assert_int_equal(ctl_duration_parse("106751991167301d", &value), -ERANGE);
}

static void test_print_sizes(void **state)
{
	static const struct {
		u64 bytes;
		const char *text;
	} sizes[] = {
		{ 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 1536, "1.5 KiB" },
		{ (1 << 20) - 1, "1.0 MiB" }, { 312ULL << 20, "312.0 MiB" },
		{ 1ULL << 40, "1.0 TiB" }, { U64_MAX, "16.0 EiB" },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		assert_string_equal(ctl_size(sizes[i].bytes), sizes[i].text);
}

static void test_print_times(void **state)
{
	(void)state;
	set_zone("UTC");
	assert_string_equal(ctl_time(1795140030), "2026-11-20 02:00:30");
	assert_string_equal(ctl_duration(0), "0:00");
	assert_string_equal(ctl_duration(309), "5:09");
	assert_string_equal(ctl_duration(7509), "2:05:09");
}

/* --- lists of changes */

static const char *parse_changed(struct ctl_changed *changed, const char *text, size_t len,
				 unsigned int *line)
{
	char *copy = malloc(len + 1);
	const char *wrong;

	memcpy(copy, text, len);
	copy[len] = '\0';
	wrong = ctl_changed_parse(changed, copy, len, line);
	free(copy);
	return wrong;
}

static void list_is(const char *text, const char *volume, i64 base, const char *wanted)
{
	struct ctl_changed changed;
	char have[256] = "";
	const char *wrong;
	unsigned int line, i;

	wrong = parse_changed(&changed, text, strlen(text), &line);
	if (wrong)
		fail_msg("%s: line %u: %s", text, line, wrong);
	assert_string_equal(changed.volume, volume);
	assert_int_equal(changed.changed.base, base);
	for (i = 0; i < changed.changed.nr; i++)
		sprintf(have + strlen(have), "%llu+%llu ", changed.changed.ranges[i].offset,
			changed.changed.ranges[i].len);
	assert_string_equal(have, wanted);
	ctl_changed_free(&changed);
}

static void list_is_wrong(const char *text, unsigned int wanted)
{
	struct ctl_changed changed;
	unsigned int line = 0;

	if (!parse_changed(&changed, text, strlen(text), &line))
		fail_msg("'%s' is taken for a list", text);
	assert_int_equal(line, wanted);
	ctl_changed_free(&changed);
}

static void test_changed(void **state)
{
	(void)state;
	list_is("version vm1@3\n", "vm1", 3, "");
	list_is("version 3\n0 4096\n", "", 3, "0+4096 ");
}

static void test_changed_ranges(void **state)
{
	(void)state;
	list_is("# one\n\n  # two\nversion\tvm1@3\t\n\t\n 0x10\t0xFf\t\n", "vm1", 3, "16+255 ");
	/* In order, and merged: touching, inside, over the end, apart. */
	list_is("version 1\n8192 4096\n0 4096\n4096 4096\n20000 1\n100 200\n12000 1000\n", "", 1,
		"0+13000 20000+1 ");
	list_is("version 1\n5 1\n5 1\n5 3\n", "", 1, "5+3 ");
	list_is("version 1\n9223372036854775806 1\n", "", 1, "9223372036854775806+1 ");
}

static void test_changed_wrong(void **state)
{
	(void)state;
	list_is_wrong("", 1);
	list_is_wrong("# nothing\n", 2);
	list_is_wrong("0 4096\n", 1);
	list_is_wrong("version vm1@3", 1);
	list_is_wrong("version vm1@3\n0 4096\n8192 4", 3);
	list_is_wrong("version\n", 1);
	list_is_wrong("version vm1\n", 1);
	list_is_wrong("version vm1@latest\n", 1);
	list_is_wrong("version vm1@-1\n", 1);
	list_is_wrong("version vm1@gold\n", 1);
	list_is_wrong("version 0\n", 1);
	list_is_wrong("version 3 4\n", 1);
	list_is_wrong("Version 3\n", 1);
	list_is_wrong("version 3\nversion 3\n", 2);
	list_is_wrong("version 3\n0\n", 2);
	list_is_wrong("version 3\n0 1 2\n", 2);
	list_is_wrong("version 3\n0 0\n", 2);
	list_is_wrong("version 3\n-1 5\n", 2);
	list_is_wrong("version 3\n0 +5\n", 2);
	list_is_wrong("version 3\n0 5k\n", 2);
	list_is_wrong("version 3\n0x 5\n", 2);
	list_is_wrong("version 3\n0x1g 5\n", 2);
	list_is_wrong("version 3\n0x10000000000000000 5\n", 2);
	list_is_wrong("version 3\n0xffffffffffffffff 5\n", 2);
	list_is_wrong("version 3\n9223372036854775807 1\n", 2);
	list_is_wrong("version 3\n18446744073709551616 1\n", 2);
	list_is_wrong("version 3\n0 1\n0 4096\r\n", 3);
	list_is_wrong("version 3\n\n#\n0,4096\n", 4);
}

static void test_changed_zero_byte(void **state)
{
	static const char text[] = "version 3\n0 1\0 4096\n";
	struct ctl_changed changed;
	unsigned int line;

	(void)state;
	assert_non_null(parse_changed(&changed, text, sizeof(text) - 1, &line));
	assert_int_equal(line, 2);
	ctl_changed_free(&changed);
}

/* Against the plainest way to do it: a bit for each byte. */
static void test_changed_random(void **state)
{
	enum { SIZE = 512 };
	unsigned int round, i, j, seed = 7;

	(void)state;
	for (round = 0; round < 500; round++) {
		bool want[SIZE + 64] = { 0 }, have[SIZE + 64] = { 0 };
		char text[2048] = "version 1\n";
		struct ctl_changed changed;
		u64 end = 0;

		for (i = 0; i < 1 + round % 40; i++) {
			unsigned int offset = rand_r(&seed) % SIZE;
			unsigned int len = 1 + rand_r(&seed) % 20;

			sprintf(text + strlen(text), "%u %u\n", offset, len);
			memset(want + offset, 1, len);
		}
		assert_null(parse_changed(&changed, text, strlen(text), &j));
		for (i = 0; i < changed.changed.nr; i++) {
			const struct rd_changed_range *range = &changed.changed.ranges[i];

			assert_true(!i || range->offset > end);
			end = range->offset + range->len;
			memset(have + range->offset, 1, range->len);
		}
		assert_memory_equal(want, have, sizeof(want));
		ctl_changed_free(&changed);
	}
}

/* --- what is kept */

/* The reasons by their first letters; "-": not kept. */
static void kept_are(const struct ctl_keep_policy *policy, struct ctl_keep_item *items,
		     size_t nr, const char *wanted)
{
	struct ctl_keep_policy at = *policy;
	char have[512] = "";
	unsigned int rule;
	size_t i;

	if (!at.now)
		at.now = INT64_MAX;
	assert_int_equal(ctl_keep(&at, items, nr), 0);
	for (i = 0; i < nr; i++) {
		char *at = have + strlen(have);

		for (rule = 0; rule < CTL_KEEP_RULES; rule++)
			if (items[i].reasons >> rule & 1)
				*at++ = ctl_keep_names[rule][0];
		if (!items[i].reasons)
			*at++ = '-';
		*at++ = ' ';
		*at = '\0';
	}
	assert_string_equal(have, wanted);
}

static i64 when(int year, int month, int day, int hour, int minute)
{
	struct tm tm = {
		.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day,
		.tm_hour = hour, .tm_min = minute, .tm_isdst = -1,
	};

	return mktime(&tm);
}

static void test_keep_nothing(void **state)
{
	struct ctl_keep_policy policy = { .counts = { 0 } };
	struct ctl_keep_item items[2] = { { .time = 1 }, { .time = 2 } };

	(void)state;
	kept_are(&policy, items, 2, "- - ");
	kept_are(&policy, items, 0, "");
	items[0].is_protected = true;
	items[1].is_tagged = true;
	kept_are(&policy, items, 2, "p t ");
}

static void test_keep_last(void **state)
{
	struct ctl_keep_policy policy = { .counts = { [CTL_KEEP_LAST] = 2 } };
	/* The same second, and a clock that was put back. */
	struct ctl_keep_item items[4] = {
		{ .time = 900 }, { .time = 500 }, { .time = 500 }, { .time = 500 },
	};

	(void)state;
	kept_are(&policy, items, 4, "- - l l ");
	policy.counts[CTL_KEEP_LAST] = 9;
	kept_are(&policy, items, 4, "l l l l ");
}

static void test_keep_daily(void **state)
{
	struct ctl_keep_policy policy = { .counts = { [CTL_KEEP_DAILY] = 3 } };
	struct ctl_keep_item items[6];

	(void)state;
	set_zone("UTC");
	/* The newest of each day; days without one do not count. */
	items[0] = (struct ctl_keep_item){ .time = when(2026, 11, 1, 12, 0) };
	items[1] = (struct ctl_keep_item){ .time = when(2026, 11, 5, 0, 0) };
	items[2] = (struct ctl_keep_item){ .time = when(2026, 11, 5, 23, 59) };
	items[3] = (struct ctl_keep_item){ .time = when(2026, 11, 6, 0, 0) };
	items[4] = (struct ctl_keep_item){ .time = when(2026, 11, 20, 1, 0) };
	items[5] = (struct ctl_keep_item){ .time = when(2026, 11, 20, 2, 0) };
	kept_are(&policy, items, 6, "- - d d - d ");
	/* East of there the 5th ends at another time. */
	set_zone("XXX-12");
	kept_are(&policy, items, 6, "- d - d - d ");
	set_zone("UTC");
}

static void test_keep_periods(void **state)
{
	struct ctl_keep_policy policy = { .counts = { [CTL_KEEP_WEEKLY] = 9 } };
	struct ctl_keep_item items[5];

	(void)state;
	/* Sunday and Monday; and years end within a week. */
	items[0] = (struct ctl_keep_item){ .time = when(2026, 11, 22, 23, 0) };
	items[1] = (struct ctl_keep_item){ .time = when(2026, 11, 23, 1, 0) };
	items[2] = (struct ctl_keep_item){ .time = when(2026, 12, 31, 1, 0) };
	items[3] = (struct ctl_keep_item){ .time = when(2027, 1, 1, 1, 0) };
	items[4] = (struct ctl_keep_item){ .time = when(2027, 1, 3, 1, 0) };
	kept_are(&policy, items, 5, "w w - - w ");
	policy = (struct ctl_keep_policy){ .counts = { [CTL_KEEP_MONTHLY] = 2 } };
	kept_are(&policy, items, 5, "- - m - m ");
	policy = (struct ctl_keep_policy){ .counts = { [CTL_KEEP_YEARLY] = 9 } };
	kept_are(&policy, items, 5, "- - y - y ");
	policy = (struct ctl_keep_policy){ .counts = { [CTL_KEEP_HOURLY] = 4 } };
	kept_are(&policy, items, 5, "- h h h h ");
	/* Each rule is for itself. */
	policy = (struct ctl_keep_policy){
		.counts = {
			[CTL_KEEP_LAST] = 1, [CTL_KEEP_DAILY] = 2, [CTL_KEEP_MONTHLY] = 3,
		},
	};
	kept_are(&policy, items, 5, "- m m d ldm ");
	/* The same month of two years. */
	items[0] = (struct ctl_keep_item){ .time = when(2025, 11, 22, 23, 0) };
	policy = (struct ctl_keep_policy){ .counts = { [CTL_KEEP_MONTHLY] = 9 } };
	kept_are(&policy, items, 2, "m m ");
}

/* The hour that comes twice when clocks are put back is two. */
static void test_keep_hourly(void **state)
{
	struct ctl_keep_policy policy = { .counts = { [CTL_KEEP_HOURLY] = 9 } };
	struct ctl_keep_item items[4];
	i64 back;

	(void)state;
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	back = 1792890000;	/* 2026-10-25 03:00 CEST is 02:00 CET */
	items[0] = (struct ctl_keep_item){ .time = back - 3600 };
	items[1] = (struct ctl_keep_item){ .time = back - 1 };
	items[2] = (struct ctl_keep_item){ .time = back };
	items[3] = (struct ctl_keep_item){ .time = back + 3599 };
	kept_are(&policy, items, 4, "- h - h ");
	policy = (struct ctl_keep_policy){ .counts = { [CTL_KEEP_DAILY] = 9 } };
	kept_are(&policy, items, 4, "- - - d ");
	set_zone("UTC");
}

static void test_keep_within(void **state)
{
	struct ctl_keep_policy policy = { .within = 30 * 86400 };
	struct ctl_keep_item items[3];

	(void)state;
	/* From the newest on, however old that is. */
	items[0] = (struct ctl_keep_item){ .time = when(2020, 6, 1, 11, 59) };
	items[1] = (struct ctl_keep_item){ .time = when(2020, 6, 1, 12, 0) };
	items[2] = (struct ctl_keep_item){ .time = when(2020, 7, 1, 12, 0) };
	kept_are(&policy, items, 3, "- w w ");
	policy.within = INT64_MAX;
	kept_are(&policy, items, 3, "w w w ");
}

/* Times that are wrong do not cost a version that is right. */
static void test_keep_clock(void **state)
{
	struct ctl_keep_policy policy = {
		.counts = { [CTL_KEEP_DAILY] = 2 },
		.now = when(2026, 11, 23, 12, 0),
	};
	struct ctl_keep_item items[6] = {
		{ .time = when(2026, 11, 20, 0, 0) }, { .time = when(2026, 11, 21, 0, 0) },
		{ .time = when(2026, 11, 22, 0, 0) }, { .time = when(2026, 11, 19, 9, 0) },
		{ .time = when(2026, 11, 19, 12, 0) }, { .time = when(2026, 11, 23, 0, 0) },
	};

	(void)state;
	kept_are(&policy, items, 6, "- - d - - d ");
	policy.counts[CTL_KEEP_DAILY] = 9;
	kept_are(&policy, items, 6, "d d d - d d ");
	policy.counts[CTL_KEEP_DAILY] = 2;
	/* One that is yet to come takes the place of no other, and is no reason to go. */
	items[3].time = when(2030, 1, 1, 0, 0);
	kept_are(&policy, items, 6, "- - d d - d ");
	/* The last one stays, and it is one more. */
	items[5].time = 0;
	kept_are(&policy, items, 6, "- d d d - d ");
	/* A clock that is wrong now. */
	policy.now = 86400;
	kept_are(&policy, items, 6, "d d d d d d ");
	policy = (struct ctl_keep_policy){ .within = 2 * 86400, .now = when(2026, 11, 23, 12, 0) };
	items[5].time = when(2026, 11, 23, 0, 0);
	kept_are(&policy, items, 6, "- w w w - w ");
	items[5].time = when(2030, 1, 1, 0, 0);
	items[4].time = when(2026, 11, 22, 12, 0);
	kept_are(&policy, items, 6, "- w w w w w ");
}

/* --- settings */

static void test_ini(void **state)
{
	char text[] = "# no = setting\r\n\r\n[one]\r\n a=b = c # d\t\n\t[two-2]\n;x\n"
		      "key\t=\t/p q\"";
	const char *wrong;
	struct rd_ini ini;

	(void)state;
	rd_ini_begin(&ini, text, sizeof(text) - 1);
	assert_int_equal(rd_ini_next(&ini, &wrong), 1);
	assert_string_equal(ini.section, "one");
	assert_string_equal(ini.key, "a");
	assert_string_equal(ini.value, "b = c # d");
	assert_int_equal(ini.line, 4);
	assert_int_equal(rd_ini_next(&ini, &wrong), 1);
	assert_string_equal(ini.section, "two-2");
	assert_string_equal(ini.value, "/p q\"");
	assert_int_equal(ini.line, 7);
	assert_int_equal(rd_ini_next(&ini, &wrong), 0);
}

static void bad_ini(const char *text, size_t len, unsigned int line)
{
	const char *wrong = NULL;
	struct rd_ini ini;
	char copy[100];
	int r;

	memcpy(copy, text, len + 1);
	rd_ini_begin(&ini, copy, len);
	while ((r = rd_ini_next(&ini, &wrong)) > 0)
		;
	if (r != -EINVAL || !wrong || ini.line != line)
		fail_msg("'%s': %d, line %u", text, r, ini.line);
}

static void test_bad_ini(void **state)
{
	static const char *const second[] = {
		"nonsense", "[x", "[]", "[X]", "[x] y", "= b", "a b = c", "A = b", "a =", "a", "[x]]",
	};
	char text[100];
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(second) / sizeof(*second); i++) {
		int len = snprintf(text, sizeof(text), "[a]\n%s\nb = c\n", second[i]);

		bad_ini(text, len, 2);
	}
	bad_ini("a = b", 5, 1);
	bad_ini("[a]\nb = c\0d", 11, 2);
	bad_ini("[a]\n\n#\0\n", 8, 3);
}

/* --- words */

static void test_edits(void **state)
{
	char text[RD_SUGGEST_TEXT], longest[100];
	struct rd_nearest nearest = { 0 };

	(void)state;
	assert_int_equal(rd_edits("", ""), 0);
	assert_int_equal(rd_edits("", "abc"), 3);
	assert_int_equal(rd_edits("list", "list"), 0);
	assert_int_equal(rd_edits("lsit", "list"), 1);
	assert_int_equal(rd_edits("snapsht", "snapshot"), 1);
	assert_int_equal(rd_edits("shwo", "show"), 1);
	assert_int_equal(rd_edits("kitten", "sitting"), 3);
	memset(longest, 'a', sizeof(longest));
	longest[99] = '\0';
	assert_int_equal(rd_edits(longest, "a"), 99);

	assert_string_equal(rd_nearest_print(text, &nearest, ""), "");
	rd_nearest_add(&nearest, "frob", "list");
	rd_nearest_add(&nearest, "d", "du");
	assert_null(nearest.word);
	rd_nearest_add(&nearest, "resore", "repair");
	rd_nearest_add(&nearest, "resore", "restored");
	rd_nearest_add(&nearest, "resore", "restore");
	rd_nearest_add(&nearest, "resore", "rescore");
	assert_string_equal(rd_nearest_print(text, &nearest, "--"), "; did you mean '--restore'?");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_dates_in_summer),
		cmocka_unit_test(test_print_names),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_print_sizes),
		cmocka_unit_test(test_print_times),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_changed_ranges),
		cmocka_unit_test(test_changed_wrong),
		cmocka_unit_test(test_changed_zero_byte),
		cmocka_unit_test(test_changed_random),
		cmocka_unit_test(test_keep_nothing),
		cmocka_unit_test(test_keep_last),
		cmocka_unit_test(test_keep_daily),
		cmocka_unit_test(test_keep_clock),
		cmocka_unit_test(test_keep_periods),
		cmocka_unit_test(test_keep_hourly),
		cmocka_unit_test(test_keep_within),
		cmocka_unit_test(test_ini),
		cmocka_unit_test(test_bad_ini),
		cmocka_unit_test(test_edits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
