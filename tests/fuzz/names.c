// SPDX-License-Identifier: GPL-2.0
/* Names of volumes and versions. */
#include "cli/names.h"
#include "fuzz.h"

static void check_number(const struct ctl_name *name)
{
	char printed[CTL_VERSION_TEXT];
	struct ctl_name again;

	must(name->number > 0);
	ctl_name_print(printed, name->volume, name->number);
	must(!ctl_name_parse(&again, printed));
	must(again.kind == CTL_NAME_NUMBER && again.number == name->number);
	must(!strcmp(again.volume, name->volume));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct ctl_name name;

	if (!ctl_name_parse(&name, text)) {
		must(ctl_is_volume(name.volume) == (name.kind != CTL_NAME_MOMENT));
		must(!strncmp(name.volume, text, strlen(name.volume)));
		must((name.kind == CTL_NAME_VOLUME) == !strchr(text, '@'));
		if (name.kind == CTL_NAME_NUMBER)
			check_number(&name);
		if (name.kind == CTL_NAME_BEFORE)
			must(name.number >= 0);
		if (name.kind == CTL_NAME_TAG || name.kind == CTL_NAME_MOMENT)
			must(ctl_is_tag(name.tag));
	}
	free(text);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const good[] = {
		"vm1", "vg/vm-1@3", "a@latest", "a@-2", "a@2026-11-20",
		"a@2026-11-20T02:00", "a@2026-11-20T02:00:30", "a@gold",
		"@gold",
	};

	(void)argc;
	(void)argv;
	fuzz_seed_texts(good, ARRAY_SIZE(good));
	return 0;
}
