/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of KUnit as the suites in kernel/tests/ use, so that the same files
 * also run in user space, under sanitizers and without a kernel to boot.
 * kunit_main.c runs them.
 */
#ifndef DMR_SHIM_KUNIT_TEST_H
#define DMR_SHIM_KUNIT_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>

#define KUNIT_PARAM_DESC_SIZE	128

struct kunit {
	const void *param_value;
	bool failed;
	jmp_buf abort;
	void *allocated;	/* a list through the first word of each */
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(const void *prev, char *desc);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
	struct kunit_suite *next;	/* here only */
};

void kunit_register(struct kunit_suite *suite);

#define kunit_test_suite(suite)						\
	__attribute__((constructor))					\
	static void register_##suite(void) { kunit_register(&suite); }	\
	struct kunit_suite

#define KUNIT_CASE(test)	{ .run_case = test, .name = #test }
#define KUNIT_CASE_PARAM(test, gen)					\
	{ .run_case = test, .name = #test, .generate_params = gen }

#define KUNIT_ARRAY_PARAM(name, array, get_desc)			\
	static const void *name##_gen_params(const void *prev, char *desc) \
	{								\
		typeof((array)[0]) *next =				\
			prev ? (typeof(next))prev + 1 : (array);	\
									\
		if ((size_t)(next - (array)) >= ARRAY_SIZE(array))	\
			return NULL;					\
		get_desc(next, desc);					\
		return next;						\
	}

/* Zeroed, and freed at the end of the case. */
void *kunit_kzalloc(struct kunit *test, size_t size, int gfp);
#define GFP_KERNEL	0

#define __printf(fmt, first)	__attribute__((format(printf, fmt, first)))

__printf(4, 5)
void kunit_fail(struct kunit *test, const char *where, const char *what,
		const char *fmt, ...);

#define KUNIT_STR(x)	#x
#define KUNIT_LINE(x)	KUNIT_STR(x)
#define KUNIT_HERE	__FILE__ ":" KUNIT_LINE(__LINE__)

#define KUNIT_CHECK(test, fatal, what, cond, ...)			\
	do {								\
		if (cond)						\
			break;						\
		kunit_fail(test, KUNIT_HERE, what, __VA_ARGS__);	\
		if (fatal)						\
			longjmp((test)->abort, 1);			\
	} while (0)

/* As in the kernel, signedness is the caller's: the suites mix 1 and 1U. */
#define KUNIT_COMPARE(test, fatal, a, op, b, ...)			\
	do {								\
		unsigned long long kunit_a = (a), kunit_b = (b);	\
									\
		if (kunit_a op kunit_b)					\
			break;						\
		kunit_fail(test, KUNIT_HERE, #a " " #op " " #b,		\
			   "(%#llx, %#llx) ", kunit_a, kunit_b);	\
		KUNIT_CHECK(test, fatal, "message", 0, __VA_ARGS__);	\
	} while (0)

#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...)	\
	KUNIT_COMPARE(test, 0, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_EQ_MSG(test, a, b, ...)	\
	KUNIT_COMPARE(test, 1, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, x, ...)	\
	KUNIT_CHECK(test, 0, "!(" #x ")", !(x), __VA_ARGS__)
#define KUNIT_ASSERT_FALSE_MSG(test, x, ...)	\
	KUNIT_CHECK(test, 1, "!(" #x ")", !(x), __VA_ARGS__)

#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_COMPARE(test, 0, a, ==, b, " ")
#define KUNIT_ASSERT_EQ(test, a, b)	KUNIT_COMPARE(test, 1, a, ==, b, " ")
#define KUNIT_EXPECT_NE(test, a, b)	KUNIT_COMPARE(test, 0, a, !=, b, " ")
#define KUNIT_ASSERT_LT(test, a, b)	KUNIT_COMPARE(test, 1, a, <, b, " ")
#define KUNIT_EXPECT_TRUE(test, x)	KUNIT_CHECK(test, 0, #x, x, " ")
#define KUNIT_ASSERT_TRUE(test, x)	KUNIT_CHECK(test, 1, #x, x, " ")
#define KUNIT_EXPECT_FALSE(test, x)	KUNIT_CHECK(test, 0, "!(" #x ")", !(x), " ")
#define KUNIT_ASSERT_FALSE(test, x)	KUNIT_CHECK(test, 1, "!(" #x ")", !(x), " ")
#define KUNIT_EXPECT_NULL(test, p)	KUNIT_CHECK(test, 0, "!" #p, !(p), " ")
#define KUNIT_ASSERT_NOT_NULL(test, p)	KUNIT_CHECK(test, 1, #p, p, " ")
#define KUNIT_EXPECT_STREQ(test, a, b)					\
	KUNIT_CHECK(test, 0, #a " is " #b, !strcmp(a, b),		\
		    "('%s', '%s')", a, b)

static inline void strscpy(char *to, const char *from, size_t size)
{
	snprintf(to, size, "%s", from);
}

#endif
