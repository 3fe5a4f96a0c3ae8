// SPDX-License-Identifier: GPL-2.0
/* A file of settings, which an administrator has written. */
#include <errno.h>

#include "base/ini.h"
#include "base/suggest.h"
#include "fuzz.h"

static bool is_trimmed(const char *text)
{
	return text[0] && !strchr(" \t\r\n", text[0]) && !strchr(" \t\r\n", text[strlen(text) - 1]);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	char *text = fuzz_text(data, size), *copy = fuzz_text(data, size);
	unsigned int last = 0, lines = 1;
	struct rd_nearest nearest = { 0 };
	const char *wrong = NULL;
	struct rd_ini ini;
	size_t i;
	int r;

	for (i = 0; i < size; i++)
		lines += data[i] == '\n';
	rd_ini_begin(&ini, text, size);
	while ((r = rd_ini_next(&ini, &wrong)) > 0) {
		must(ini.line > last && ini.line <= lines);
		last = ini.line;
		must(ini.section && ini.section[0] && !ini.section[strspn(ini.section, name)]);
		must(ini.key[0] && !ini.key[strspn(ini.key, name)]);
		must(is_trimmed(ini.value));
		/* A value is never made up. */
		must(memmem(copy, size, ini.value, strlen(ini.value)));
		rd_nearest_add(&nearest, ini.key, "keep-daily");
		must(rd_edits(ini.key, ini.value) == rd_edits(ini.value, ini.key));
	}
	must(r == 0 || (r == -EINVAL && wrong && ini.line && ini.line <= lines));
	free(text);
	free(copy);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const good[] = {
		"# some\n[general]\npool = /srv/pool\n", "[a]\r\nb=c\r\n\r\n;d\r\n",
		"[retention]\nkeep-daily = 7\nkeep-tag = gold", "[]\n", "a = b\n", "[a]\n = b\n",
	};

	(void)argc;
	(void)argv;
	fuzz_seed_texts(good, ARRAY_SIZE(good));
	return 0;
}
