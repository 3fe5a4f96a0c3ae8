// SPDX-License-Identifier: GPL-2.0
/* A JSON writer that knows commas and escapes, and nothing else; see json.h. */
#include <string.h>

#include "json.h"

/* U+FFFD, for a byte that is not UTF-8. */
#define REPLACEMENT	"\xef\xbf\xbd"

/* 0: it is not UTF-8. */
static unsigned int utf8_len(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	unsigned int len, i;
	/* Limits of the second byte: no overlong form, no surrogate, nothing beyond U+10FFFF. */
	unsigned char low = 0x80, high = 0xbf;

	if (at[0] < 0x80)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4)
		return 0;
	len = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	if (at[0] == 0xe0)
		low = 0xa0;
	else if (at[0] == 0xed)
		high = 0x9f;
	else if (at[0] == 0xf0)
		low = 0x90;
	else if (at[0] == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (i = 2; i < len; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* U+061C, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069. */
static bool turns_text(const unsigned char *at)
{
	if (at[0] == 0xd8)
		return at[1] == 0x9c;
	if (at[0] != 0xe2)
		return false;
	return at[1] == 0x80 ? at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae) :
		at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
}

unsigned int rd_shown_len(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	unsigned int len = utf8_len(text);

	if (len == 1)
		return at[0] >= ' ' && at[0] != 127;
	if (len == 2 && at[0] == 0xc2 && at[1] < 0xa0)
		return 0;
	return len && turns_text(at) ? 0 : len;
}

unsigned int rd_utf8_put(const char *text, FILE *out)
{
	unsigned int len = utf8_len(text);

	if (!len) {
		fputs(REPLACEMENT, out);
		return 1;
	}
	fwrite(text, 1, len, out);
	return len;
}

static void put_string(struct rd_json *json, const char *text)
{
	putc('"', json->out);
	while (*text) {
		unsigned char c = *text;

		if (c >= ' ' && !strchr("\"\\<", c)) {
			text += rd_utf8_put(text, json->out);
			continue;
		}
		/* A '<' as it is could end the script of a page. */
		fprintf(json->out, c < ' ' || c == '<' ? "\\u%04x" : "\\%c", c);
		text++;
	}
	putc('"', json->out);
}

static void put_key(struct rd_json *json, const char *key)
{
	if (json->comma)
		fputs(", ", json->out);
	json->comma = true;
	if (!key)
		return;
	put_string(json, key);
	fputs(": ", json->out);
}

void rd_json_begin(struct rd_json *json, const char *key, char bracket)
{
	put_key(json, key);
	putc(bracket, json->out);
	json->comma = false;
}

void rd_json_end(struct rd_json *json, char bracket)
{
	putc(bracket, json->out);
	json->comma = true;
}

void rd_json_u64(struct rd_json *json, const char *key,
		 unsigned long long value)
{
	put_key(json, key);
	fprintf(json->out, "%llu", value);
}

void rd_json_bool(struct rd_json *json, const char *key, bool value)
{
	put_key(json, key);
	fputs(value ? "true" : "false", json->out);
}

void rd_json_string(struct rd_json *json, const char *key, const char *text)
{
	put_key(json, key);
	if (text)
		put_string(json, text);
	else
		fputs("null", json->out);
}

void rd_json_vadd(struct rd_json *json, const char *fmt, va_list args)
{
	char word[64], *what;
	const char *key;
	size_t len;

	for (; *fmt; fmt += len + (fmt[len] == ' ')) {
		len = strcspn(fmt, " ");
		snprintf(word, sizeof(word), "%.*s", (int)len, fmt);
		what = strchr(word, '=');
		key = what ? word : NULL;
		if (what)
			*what++ = '\0';
		else
			what = word;
		if (strchr("{[", what[0]))
			rd_json_begin(json, key, what[0]);
		else if (strchr("}]", what[0]))
			rd_json_end(json, what[0]);
		else if (!strcmp(what, "%s"))
			rd_json_string(json, key, va_arg(args, const char *));
		else if (!strcmp(what, "%d"))
			rd_json_bool(json, key, va_arg(args, int));
		else if (!strcmp(what, "%u"))
			rd_json_u64(json, key, va_arg(args, unsigned int));
		else
			rd_json_u64(json, key, va_arg(args, unsigned long long));
	}
}

void rd_json_add(struct rd_json *json, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	rd_json_vadd(json, fmt, args);
	va_end(args);
}
