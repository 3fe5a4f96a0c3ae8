// SPDX-License-Identifier: GPL-2.0
/* A list of changes, which somebody else's tool has written. */
#include "cli/change_list.h"
#include "fuzz.h"

static void check_list(const struct ctl_changed *list)
{
	const struct rd_changed *changed = &list->changed;
	unsigned int i;

	must(changed->base > 0);
	must(!list->volume[0] || ctl_is_volume(list->volume));
	for (i = 0; i < changed->nr; i++) {
		const struct rd_changed_range *range = &changed->ranges[i];

		must(range->len && range->offset + range->len > range->offset);
		must(range->offset + range->len <= INT64_MAX);
		must(!i || range->offset > range[-1].offset + range[-1].len);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct ctl_changed list;
	unsigned int line;

	if (!ctl_changed_parse(&list, text, size, &line))
		check_list(&list);
	must(line <= size + 1);
	ctl_changed_free(&list);
	free(text);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char good[] = "# some\nversion vm1@3\n\n0 4096\n0x200000 0x1000\n4096 1\n";

	(void)argc;
	(void)argv;
	fuzz_seed(good, strlen(good));
	fuzz_seed(good + 7, 14);
	return 0;
}
