// SPDX-License-Identifier: GPL-2.0
/* Read a text of settings. */
#include <errno.h>
#include <string.h>

#include "ini.h"

/* \r as well, so that a file may come from another system. */
#define SPACE	" \t\r"
#define NAME	"abcdefghijklmnopqrstuvwxyz0123456789-"

void rd_ini_begin(struct rd_ini *ini, char *text, size_t len)
{
	*ini = (struct rd_ini){ .at = text, .end = text + len };
}

/* Cut the white space off both ends. */
static char *trim(char *text)
{
	size_t len;

	text += strspn(text, SPACE);
	for (len = strlen(text); len && strchr(SPACE, text[len - 1]); len--)
		;
	text[len] = '\0';
	return text;
}

static bool is_name(const char *text)
{
	return text[0] && !text[strspn(text, NAME)];
}

static const char *parse_section(struct rd_ini *ini, char *text)
{
	size_t len = strlen(text);

	if (text[len - 1] != ']')
		return "a section is '[NAME]'";
	text[len - 1] = '\0';
	ini->section = text + 1;
	return is_name(ini->section) ? NULL : "the name of a section has letters a-z, digits and -";
}

static const char *parse_key(struct rd_ini *ini, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals)
		return "it is not 'KEY = VALUE', '[SECTION]' or '# comment'";
	*equals = '\0';
	ini->key = trim(text);
	ini->value = trim(equals + 1);
	if (!is_name(ini->key))
		return "a key has letters a-z, digits and -";
	if (!ini->value[0])
		return "the key has no value";
	return ini->section ? NULL : "the key stands before the first '[SECTION]'";
}

int rd_ini_next(struct rd_ini *ini, const char **ret_wrong)
{
	char *line, *next;

	while (ini->at < ini->end) {
		line = ini->at;
		ini->line++;
		next = memchr(line, '\n', ini->end - line);
		ini->at = next ? next + 1 : ini->end;
		if (next)
			*next = '\0';
		*ret_wrong = strlen(line) == (size_t)((next ? next : ini->end) - line) ? NULL :
			"it contains a zero byte";
		line = trim(line);
		if (!*ret_wrong && (!line[0] || line[0] == '#' || line[0] == ';'))
			continue;
		if (!*ret_wrong && line[0] != '[') {
			*ret_wrong = parse_key(ini, line);
			return *ret_wrong ? -EINVAL : 1;
		}
		if (!*ret_wrong)
			*ret_wrong = parse_section(ini, line);
		if (*ret_wrong)
			return -EINVAL;
	}
	return 0;
}
