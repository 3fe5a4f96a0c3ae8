// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the KUnit suites of kernel/tests/ in user space and prints TAP. The
 * interface is in shim/kunit/test.h.
 */
#include <stdarg.h>
#include <kunit/test.h>

static struct kunit_suite *suites;

void kunit_register(struct kunit_suite *suite)
{
	suite->next = suites;
	suites = suite;
}

void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	/* The list's link first, in a whole cache line for alignment. */
	void **link = calloc(1, 64 + size);

	(void)gfp;
	if (!link)
		abort();
	*link = test->allocated;
	test->allocated = link;
	return (char *)link + 64;
}

static void free_all(struct kunit *test)
{
	while (test->allocated) {
		void *next = *(void **)test->allocated;

		free(test->allocated);
		test->allocated = next;
	}
}

void kunit_fail(struct kunit *test, const char *where, const char *what,
		const char *fmt, ...)
{
	va_list args;

	test->failed = true;
	printf("# %s: %s ", where, what);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

/* False if the test failed. */
static bool run_once(const struct kunit_case *test_case, const void *param)
{
	struct kunit test = { .param_value = param };

	if (!setjmp(test.abort))
		test_case->run_case(&test);
	free_all(&test);
	return !test.failed;
}

static bool run_params(const struct kunit_case *test_case)
{
	char desc[KUNIT_PARAM_DESC_SIZE];
	const void *param = NULL;
	bool ok = true;

	while ((param = test_case->generate_params(param, desc))) {
		if (run_once(test_case, param))
			continue;
		printf("# failed: %s: %s\n", test_case->name, desc);
		ok = false;
	}
	return ok;
}

int main(void)
{
	const struct kunit_suite *suite;
	const struct kunit_case *test_case;
	unsigned int nr = 0, failed = 0;

	for (suite = suites; suite; suite = suite->next) {
		for (test_case = suite->test_cases; test_case->run_case; test_case++) {
			bool ok = test_case->generate_params ?
				run_params(test_case) : run_once(test_case, NULL);

			failed += !ok;
			printf("%sok %u - %s.%s\n", ok ? "" : "not ", ++nr,
			       suite->name, test_case->name);
		}
	}
	printf("1..%u\n", nr);
	return nr && !failed ? 0 : 1;
}
