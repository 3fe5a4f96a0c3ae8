/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write JSON, on one line. @key is NULL for the elements of an array and for
 * the outermost value. Errors are the stream's: ask ferror() at the end.
 */
#ifndef RD_JSON_H
#define RD_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct rd_json {
	FILE *out;
	bool comma;	/* before the next value */
};

/* @bracket: { or [ to begin with, } or ] to end with */
void rd_json_begin(struct rd_json *json, const char *key, char bracket);
void rd_json_end(struct rd_json *json, char bracket);

void rd_json_u64(struct rd_json *json, const char *key,
		 unsigned long long value);
void rd_json_bool(struct rd_json *json, const char *key, bool value);
/* @text NULL: null */
void rd_json_string(struct rd_json *json, const char *key, const char *text);

#endif
