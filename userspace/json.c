// SPDX-License-Identifier: GPL-2.0
/* A JSON writer that knows commas and escapes, and nothing else. */
#include "json.h"

static void put_string(struct rd_json *json, const char *text)
{
	putc('"', json->out);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(json->out, "\\%c", c);
		else if (c < ' ')
			fprintf(json->out, "\\u%04x", c);
		else
			putc(c, json->out);
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
