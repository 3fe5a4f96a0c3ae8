// SPDX-License-Identifier: GPL-2.0
/* Numbers, sizes and times of the command line, and what a policy keeps. */
#include <errno.h>

#include "cli/keep.h"
#include "cli/sizes.h"
#include "fuzz.h"

static void check_number(const char *text)
{
	u64 value;
	int r = ctl_number_parse(text, U64_MAX, &value);
	bool digits = text[0] && !text[strspn(text, "0123456789")];

	must((r == -EINVAL) == !digits);
	errno = 0;
	if (!r)
		must(strtoull(text, NULL, 10) == value && !errno);
	else if (digits)
		must(strtoull(text, NULL, 10) && errno == ERANGE);
}

static void check_text(const char *text)
{
	i64 seconds;
	u64 bytes;

	check_number(text);
	if (!ctl_size_parse(text, &bytes))
		must(strlen(ctl_size(bytes)) < 32);
	if (!ctl_duration_parse(text, &seconds))
		must(seconds >= 0 && seconds % 3600 == 0);
}

/* A version more, with a time that is wrong, and not the last: all others stay kept. */
static void check_clock(const struct ctl_keep_policy *policy,
			const struct ctl_keep_item *items, unsigned int nr)
{
	struct ctl_keep_policy now = *policy;
	struct ctl_keep_item more[17];
	unsigned int i, wrong;

	/* Of the same time the wrong one would be as good. */
	if (!nr || !items[0].time)
		return;
	now.now = items[nr - 1].time;
	/* By numbers it is one of the last. */
	now.counts[CTL_KEEP_LAST] = 0;
	for (wrong = 0; wrong < 2 * nr; wrong++) {
		for (i = 0; i < nr; i++)
			more[i + (i >= wrong / 2)] = items[i];
		more[wrong / 2] = (struct ctl_keep_item){ .time = wrong % 2 ? now.now + 1 : 0 };
		must(!ctl_keep(&now, more, nr + 1));
		for (i = 0; i < nr; i++)
			must(!(items[i].reasons & ~(1U << CTL_KEEP_LAST)) ||
			     more[i + (i >= wrong / 2)].reasons);
	}
}

static void check_keep(struct fuzz_input *input)
{
	struct ctl_keep_item items[16] = { { 0 } };
	struct ctl_keep_policy policy = { .within = fuzz_take(input, 3) };
	unsigned int i, nr = fuzz_take(input, 1) % 16, last = 0;
	i64 time = fuzz_take(input, 4);

	for (i = 0; i < CTL_KEEP_COUNTED; i++)
		policy.counts[i] = fuzz_take(input, 1) % 8;
	for (i = 0; i < nr; i++) {
		time += fuzz_take(input, 3);
		items[i].time = time;
		items[i].is_protected = fuzz_take(input, 1) % 8 == 1;
	}
	policy.now = INT64_MAX;
	must(!ctl_keep(&policy, items, nr));
	for (i = 0; i < nr; i++) {
		must(!items[i].is_protected || items[i].reasons >> CTL_KEEP_PROTECTED & 1);
		last += items[i].reasons >> CTL_KEEP_LAST & 1;
	}
	must(last == rd_min(policy.counts[CTL_KEEP_LAST], nr));
	check_clock(&policy, items, nr);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	char *text = fuzz_text(data, size);

	check_text(text);
	check_keep(&input);
	free(text);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const good[] = {
		"0", "4096", "18446744073709551615", "18446744073709551616", "10G",
		"5TiB", "16383P", "30d", "2w", "1y",
	};

	(void)argc;
	(void)argv;
	fuzz_seed_texts(good, ARRAY_SIZE(good));
	return 0;
}
