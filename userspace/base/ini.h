/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read a text of settings. Strictly: a line that is not understood is an error, because the
 * setting that it was meant to be would be missing.
 *
 *	# a comment
 *	[section]
 *	key = value
 *
 * White space around keys and values does not count. A comment has a line of its own, and
 * begins with # or ;. Keys and sections have letters a-z, digits and -. A value is the rest of
 * its line, and is not empty; there are no quotes, escapes, or lines that go on.
 */
#ifndef RD_INI_H
#define RD_INI_H

#include <stdbool.h>
#include <stddef.h>

struct rd_ini {
	char *at, *end;
	const char *section;		/* NULL: before the first one */
	const char *key;
	const char *value;
	unsigned int line;		/* of the key, or of what is wrong, from 1 */
};

/* Begin to read @text, which has a NUL after @len bytes, lasts, and is changed. */
void rd_ini_begin(struct rd_ini *ini, char *text, size_t len);

/*
 * Go on to the next key. 1: there is one; 0: no more; -EINVAL: *@ret_wrong says what is
 * wrong with ini->line.
 */
int rd_ini_next(struct rd_ini *ini, const char **ret_wrong);

#endif
