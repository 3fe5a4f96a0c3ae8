// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers and ranges as messages carry them.
 *
 * Also built in user space under sanitizers, see tests/unit/.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "../ranges.h"

static const struct number {
	const char *text;
	int r;
	u64 value;
} numbers[] = {
	{ "0", 0, 0 },
	{ "1", 0, 1 },
	{ "9", 0, 9 },
	{ "10", 0, 10 },
	{ "007", 0, 7 },
	{ "4294967295", 0, 4294967295ULL },
	{ "4294967296", 0, 4294967296ULL },
	{ "18446744073709551609", 0, 18446744073709551609ULL },
	{ "18446744073709551610", 0, 18446744073709551610ULL },
	{ "18446744073709551614", 0, 18446744073709551614ULL },
	{ "18446744073709551615", 0, U64_MAX },
	{ "00000000000000000018446744073709551615", 0, U64_MAX },
	{ "18446744073709551616", -EINVAL },
	{ "18446744073709551620", -EINVAL },
	{ "18446744073709551625", -EINVAL },
	{ "27670116110564327424", -EINVAL },	/* 1.5 * 2^64 */
	{ "184467440737095516150", -EINVAL },
	{ "99999999999999999999999999999999", -EINVAL },
	{ "", -EINVAL },
	{ " ", -EINVAL },
	{ " 1", -EINVAL },
	{ "1 ", -EINVAL },
	{ "1\n", -EINVAL },
	{ "+1", -EINVAL },
	{ "-1", -EINVAL },
	{ "-0", -EINVAL },
	{ "0x10", -EINVAL },
	{ "1a", -EINVAL },
	{ "a", -EINVAL },
	{ "1.0", -EINVAL },
	{ "1,0", -EINVAL },
	{ "1/", -EINVAL },			/* below '0' */
	{ "1:", -EINVAL },			/* above '9' */
	{ "\xb2", -EINVAL },
	{ "1\xff", -EINVAL },
};

static void number_desc(const struct number *number, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "row %d",
		 (int)(number - numbers));
}

KUNIT_ARRAY_PARAM(number, numbers, number_desc);

static void parse_number(struct kunit *test)
{
	const struct number *number = test->param_value;
	u64 value = 0x5555;

	KUNIT_EXPECT_EQ(test, dmr_parse_u64(number->text, &value), number->r);
	/* A refused number leaves what was there. */
	KUNIT_EXPECT_EQ(test, value, number->r ? 0x5555 : number->value);
}

#define MAX_RANGES 3

static const struct text {
	const char *text;
	u64 limit;
	int r;			/* of the whole text */
	int nr;			/* ranges read before the end or the error */
	struct dmr_range ranges[MAX_RANGES];
} texts[] = {
	{ "0,1", 1, 0, 1, { { 0, 1 } } },
	{ "0,1", 0, -EINVAL },
	{ "0,1", U64_MAX, 0, 1, { { 0, 1 } } },
	{ "1,1", 1, -EINVAL },
	{ "1,1", 2, 0, 1, { { 1, 1 } } },
	{ "0,2", 1, -EINVAL },
	{ "1,2", 2, -EINVAL },
	{ "0,0", 10, -EINVAL },
	{ "a,0", 10, -EINVAL },
	{ "a,6", 16, 0, 1, { { 10, 6 } } },
	{ "a,7", 16, -EINVAL },
	{ "f,1", 16, 0, 1, { { 15, 1 } } },
	{ "10,1", 16, -EINVAL },
	{ "0f,01", 16, 0, 1, { { 15, 1 } } },
	{ "ff,1", 256, 0, 1, { { 255, 1 } } },
	{ "0,100000000", 1ULL << 32, 0, 1, { { 0, 1ULL << 32 } } },
	{ "0,100000001", 1ULL << 32, -EINVAL },
	{ "ffffffff,1", 1ULL << 32, 0, 1, { { U32_MAX, 1 } } },
	{ "100000000,1", 1ULL << 32, -EINVAL },
	{ "0,ffffffffffffffff", U64_MAX, 0, 1, { { 0, U64_MAX } } },
	{ "fffffffffffffffe,1", U64_MAX, 0, 1, { { U64_MAX - 1, 1 } } },
	{ "ffffffffffffffff,1", U64_MAX, -EINVAL },
	/* first + len is 0, and 1, in 64 bits */
	{ "ffffffffffffffff,1", 1ULL << 32, -EINVAL },
	{ "1,ffffffffffffffff", 1ULL << 32, -EINVAL },
	{ "2,ffffffffffffffff", 1ULL << 32, -EINVAL },
	{ "0000000000000001,1", 16, 0, 1, { { 1, 1 } } },
	{ "00000000000000001,1", 16, -EINVAL },	/* 17 digits */
	{ "1,00000000000000001", 16, -EINVAL },
	{ "10000000000000000,1", 16, -EINVAL },
	{ "0,1;2,3", 16, 0, 2, { { 0, 1 }, { 2, 3 } } },
	{ "0,1;0,1;0,1", 16, 0, 3, { { 0, 1 }, { 0, 1 }, { 0, 1 } } },
	{ "9,1;2,3;0,10", 16, 0, 3, { { 9, 1 }, { 2, 3 }, { 0, 16 } } },
	/* A bad one after good ones: the check must see it. */
	{ "0,1;2,3;0,11", 16, -EINVAL, 2, { { 0, 1 }, { 2, 3 } } },
	{ "0,1;2,3;", 16, -EINVAL, 1, { { 0, 1 } } },
	{ "0,1;;2,3", 16, -EINVAL, 1, { { 0, 1 } } },
	{ "0,1; 2,3", 16, -EINVAL, 1, { { 0, 1 } } },
	{ "0,1;2", 16, -EINVAL, 1, { { 0, 1 } } },
	{ "0,1;2,", 16, -EINVAL, 1, { { 0, 1 } } },
	{ "0,1;x", 16, -EINVAL, 1, { { 0, 1 } } },
	{ ";0,1", 16, -EINVAL },
	{ ";", 16, -EINVAL },
	{ ",", 16, -EINVAL },
	{ "0", 16, -EINVAL },
	{ "0,", 16, -EINVAL },
	{ ",1", 16, -EINVAL },
	{ "0;1", 16, -EINVAL },
	{ "0,1,2", 16, -EINVAL },
	{ "0,1 ", 16, -EINVAL },
	{ " 0,1", 16, -EINVAL },
	{ "0, 1", 16, -EINVAL },
	{ "0,1\n", 16, -EINVAL },
	{ "0,+1", 16, -EINVAL },
	{ "-1,1", 16, -EINVAL },
	{ "0x0,1", 16, -EINVAL },
	{ "0,0x1", 16, -EINVAL },
	{ "A,1", 256, -EINVAL },
	{ "g,1", 256, -EINVAL },
	{ "`,1", 256, -EINVAL },			/* below 'a' */
	{ "0,1g", 256, -EINVAL },
	{ "0,1\xff", 16, -EINVAL },
	{ "-", 16, -EINVAL },
};

static void text_desc(const struct text *text, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "row %d", (int)(text - texts));
}

KUNIT_ARRAY_PARAM(text, texts, text_desc);

static void parse_ranges(struct kunit *test)
{
	const struct text *text = test->param_value;
	const struct dmr_range_rules rules = { .limit = text->limit };
	const char *p = text->text;
	struct dmr_range range;
	int i;

	for (i = 0; i < text->nr; i++) {
		KUNIT_ASSERT_EQ(test, dmr_range_next(&p, &rules, &range), 1);
		KUNIT_EXPECT_EQ(test, range.first, text->ranges[i].first);
		KUNIT_EXPECT_EQ(test, range.len, text->ranges[i].len);
	}
	KUNIT_EXPECT_EQ(test, dmr_range_next(&p, &rules, &range), text->r);
	if (!text->r)
		KUNIT_EXPECT_EQ(test, *p, 0);
}

static void check_ranges(struct kunit *test)
{
	const struct text *text = test->param_value;
	const struct dmr_range_rules rules = { .limit = text->limit };

	KUNIT_EXPECT_EQ(test, dmr_ranges_check(text->text, &rules), text->r);
}

static void no_ranges(struct kunit *test)
{
	const struct dmr_range_rules rules = { .limit = 16 };
	const char *p = "";
	struct dmr_range range;

	KUNIT_EXPECT_EQ(test, dmr_range_next(&p, &rules, &range), 0);
	KUNIT_EXPECT_EQ(test, dmr_ranges_check("", &rules), -EINVAL);
}

/* Some thousand ranges, the most that one message is meant to carry. */
static void many_ranges(struct kunit *test)
{
	const int nr = 8192;
	const struct dmr_range_rules rules = { .limit = 3 * nr };
	const struct dmr_range_rules smaller = { .limit = 3 * nr - 3 };
	char *text = kunit_kzalloc(test, nr * 20, GFP_KERNEL);
	const char *p = text;
	struct dmr_range range;
	int i, len = 0;

	KUNIT_ASSERT_NOT_NULL(test, text);
	for (i = 0; i < nr; i++)
		len += snprintf(text + len, nr * 20 - len, "%s%x,%x",
				i ? ";" : "", 3 * i, i % 3 + 1);
	KUNIT_EXPECT_EQ(test, dmr_ranges_check(text, &rules), 0);
	KUNIT_EXPECT_EQ(test, dmr_ranges_check(text, &smaller), -EINVAL);
	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_EQ(test, dmr_range_next(&p, &rules, &range), 1);
		KUNIT_ASSERT_EQ(test, range.first, 3 * i);
		KUNIT_ASSERT_EQ(test, range.len, i % 3 + 1);
	}
	KUNIT_EXPECT_EQ(test, dmr_range_next(&p, &rules, &range), 0);
}

/* Cut anywhere, a good text is either refused or good up to there. */
static void cut_anywhere(struct kunit *test)
{
	static const char whole[] = "0,1;2,30;456,7";
	const struct dmr_range_rules rules = { .limit = 4096 };
	char text[sizeof(whole)];
	int len;

	for (len = 0; len < sizeof(whole); len++) {
		char last = len ? whole[len - 1] : ';';
		bool good = last != ';' && last != ',' && len >= 3 &&
			    /* inside a first number: "2", "4", "45", "456" */
			    len != 5 && (len < 10 || len > 12);

		strscpy(text, whole, len + 1);
		KUNIT_EXPECT_EQ_MSG(test, dmr_ranges_check(text, &rules),
				    good ? 0 : -EINVAL, "%s", text);
	}
}

static const struct place_text {
	const char *text;
	unsigned int nr_places;
	int r;
	struct dmr_entry place[2];
} place_texts[] = {
	{ "0,1,b", 1, 0, { { DMR_BASE, 0 } } },
	{ "0,1,z", 1, 0, { { DMR_ZERO, 0 } } },
	{ "0,1,p0", 1, 0, { { DMR_POOL, 0 } } },
	{ "0,1,pff", 1, 0, { { DMR_POOL, 255 } } },
	{ "0,10,pf0", 1, 0, { { DMR_POOL, 240 } } },
	{ "0,10,pf1", 1, -ERANGE },
	{ "0,1,p100", 1, -ERANGE },
	{ "0,2,pffffffffffffffff", 1, -ERANGE },
	{ "0,1,p1,z", 2, 0, { { DMR_POOL, 1 }, { DMR_ZERO, 0 } } },
	{ "0,1,z,p2", 2, 0, { { DMR_ZERO, 0 }, { DMR_POOL, 2 } } },
	{ "0,1,p1,p100", 2, -ERANGE },
	{ "0,1,k0.0", 1, 0, { { DMR_PACK, 0 } } },
	{ "0,1,k1.2", 1, 0, { { DMR_PACK, 514 } } },
	{ "0,1,kff.1ff", 1, 0, { { DMR_PACK, 255 * 512 + 511 } } },
	{ "0,10,kff.1f0", 1, 0, { { DMR_PACK, 255 * 512 + 0x1f0 } } },
	{ "0,11,kff.1f0", 1, -EINVAL },
	{ "0,1,k100.0", 1, -ERANGE },
	{ "0,1,k1fffffffff.0", 1, -ERANGE },
	{ "0,1,k2000000000.0", 1, -EINVAL },
	{ "0,1,k1.200", 1, -EINVAL },
	{ "0,1,k1.0,p2", 2, 0, { { DMR_PACK, 512 }, { DMR_POOL, 2 } } },
	{ "0,1,p2,k1.3", 2, 0, { { DMR_POOL, 2 }, { DMR_PACK, 515 } } },
	{ "0,1,k", 1, -EINVAL },
	{ "0,1,k1", 1, -EINVAL },
	{ "0,1,k1.", 1, -EINVAL },
	{ "0,1,k.1", 1, -EINVAL },
	{ "0,1,k1,1", 1, -EINVAL },
	{ "0,1,k1.1.1", 1, -EINVAL },
	{ "0,1,K1.1", 1, -EINVAL },
	{ "0,1", 1, -EINVAL },
	{ "0,1,", 1, -EINVAL },
	{ "0,1,p", 1, -EINVAL },
	{ "0,1,b0", 1, -EINVAL },
	{ "0,1,zz", 1, -EINVAL },
	{ "0,1,1", 1, -EINVAL },
	{ "0,1,P1", 1, -EINVAL },
	{ "0,1,p1,z", 1, -EINVAL },
	{ "0,1,p1", 2, -EINVAL },
	{ "0,1,b", 0, -EINVAL },
};

static void place_text_desc(const struct place_text *text, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "row %d",
		 (int)(text - place_texts));
}

KUNIT_ARRAY_PARAM(place_text, place_texts, place_text_desc);

static void parse_places(struct kunit *test)
{
	const struct place_text *c = test->param_value;
	const struct dmr_range_rules rules = {
		.limit = 256,
		.nr_places = c->nr_places,
		.pool_blocks = 256,
	};
	const char *p = c->text;
	struct dmr_range range;
	int i;

	KUNIT_EXPECT_EQ(test, dmr_ranges_check(c->text, &rules), c->r);
	KUNIT_ASSERT_EQ(test, dmr_range_next(&p, &rules, &range),
			c->r ? c->r : 1);
	for (i = 0; !c->r && i < c->nr_places; i++) {
		KUNIT_EXPECT_EQ(test, range.place[i].kind, c->place[i].kind);
		KUNIT_EXPECT_EQ(test, range.place[i].block, c->place[i].block);
	}
}

/* What is printed is what is parsed. */
static void print_places(struct kunit *test)
{
	static const struct dmr_entry places[] = {
		{ DMR_BASE, 0 }, { DMR_ZERO, 0 }, { DMR_POOL, 0 }, { DMR_POOL, 255 },
		{ DMR_PACK, 0 }, { DMR_PACK, 255 * 512 + 511 },
	};
	const struct dmr_range_rules rules = { .limit = 1, .nr_places = 1, .pool_blocks = 256 };
	char text[DMR_PLACE_TEXT + 8] = "0,1,";
	struct dmr_range range;
	const char *p;
	int i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		KUNIT_EXPECT_EQ(test, dmr_place_print(text + 4, places[i]), strlen(text) - 4);
		p = text;
		KUNIT_ASSERT_EQ(test, dmr_range_next(&p, &rules, &range), 1);
		KUNIT_EXPECT_TRUE(test, dmr_entry_equal(range.place[0], places[i]));
	}
	/* The longest one fits. */
	KUNIT_EXPECT_EQ(test, dmr_place_print(text, dmr_pack_entry(DMR_HEAD_MAX, 511)),
			DMR_PLACE_TEXT - 1);
}

static struct kunit_case ranges_cases[] = {
	KUNIT_CASE(print_places),
	KUNIT_CASE_PARAM(parse_places, place_text_gen_params),
	KUNIT_CASE_PARAM(parse_number, number_gen_params),
	KUNIT_CASE_PARAM(parse_ranges, text_gen_params),
	KUNIT_CASE_PARAM(check_ranges, text_gen_params),
	KUNIT_CASE(no_ranges),
	KUNIT_CASE(many_ranges),
	KUNIT_CASE(cut_anywhere),
	{}
};

static struct kunit_suite ranges_suite = {
	.name = "dmr_ranges",
	.test_cases = ranges_cases,
};

kunit_test_suite(ranges_suite);
