// SPDX-License-Identifier: GPL-2.0
/* What a block device holds. */
#include <stdio.h>
#include <string.h>

#include "probe.h"
#include "run.h"

/* The exit status of blkid -p. */
#define AMBIVALENT	8

/* The value of a line KEY=VALUE, "" where there is none. */
static void take_value(const char *text, const char *key, char ret[RD_FS_TYPE_MAX])
{
	size_t len = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, key, len) && text[len] == '=') {
			snprintf(ret, RD_FS_TYPE_MAX, "%.*s",
				 (int)strcspn(text + len + 1, "\n"), text + len + 1);
			return;
		}
	}
	ret[0] = '\0';
}

int rd_probe(const char *path, struct rd_content *ret)
{
	char *const argv[] = { "blkid", "-p", "-o", "export", (char *)path, NULL };
	struct rd_buffer text = { 0 };
	int r = rd_run(argv, &text);

	memset(ret, 0, sizeof(*ret));
	if (r == AMBIVALENT) {
		snprintf(ret->type, sizeof(ret->type), "more than one thing");
	} else if (r >= 0) {
		/* Its exit status says no more than that there is nothing. */
		take_value((char *)text.data, "TYPE", ret->type);
		take_value((char *)text.data, "PTTYPE", ret->table);
	}
	rd_buffer_free(&text);
	return r < 0 ? r : 0;
}
