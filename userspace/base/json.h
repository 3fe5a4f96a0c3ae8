/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write JSON, on one line. @key is NULL for the elements of an array and for
 * the outermost value. What is printed is UTF-8, whatever a string is. Errors are
 * the stream's: ask ferror() at the end.
 */
#ifndef RD_JSON_H
#define RD_JSON_H

#include <stdbool.h>
#include <stdio.h>

/* How many bytes the character has that @text begins with; 0: it is not UTF-8. */
unsigned int rd_utf8_len(const char *text);
/*
 * Print that character, or a replacement for a byte that is none: comments and paths may
 * be in any encoding. Returns how many bytes of @text that were.
 */
unsigned int rd_utf8_put(const char *text, FILE *out);

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
