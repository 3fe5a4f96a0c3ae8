/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write JSON, on one line. @key is NULL for the elements of an array and for the
 * outermost value. The output is UTF-8, whatever the strings are. Errors are those of the
 * stream: ask ferror() at the end.
 *
 * Written by hand: libraries build a tree in memory first, and this prints values as they
 * are read.
 */
#ifndef RD_JSON_H
#define RD_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * Count the bytes of the character that @text begins with; 0: it is not UTF-8, or a control
 * character, as U+0080 to U+009F are, too, and those that turn the direction of the text.
 */
unsigned int rd_shown_len(const char *text);
/*
 * Print that character, or a replacement for a byte that is not UTF-8, because comments
 * and paths may be in any encoding. Returns the number of bytes of @text used.
 */
unsigned int rd_utf8_put(const char *text, FILE *out);

struct rd_json {
	FILE *out;
	bool comma;	/* print one before the next value */
};

/* Begin (@bracket: { or [) and end (} or ]) an object or an array. */
void rd_json_begin(struct rd_json *json, const char *key, char bracket);
void rd_json_end(struct rd_json *json, char bracket);

void rd_json_u64(struct rd_json *json, const char *key,
		 unsigned long long value);
void rd_json_bool(struct rd_json *json, const char *key, bool value);
/* Write a string, or null for @text NULL. */
void rd_json_string(struct rd_json *json, const char *key, const char *text);

/*
 * Write several at once, each a word of @fmt, which the compiler checks as that of printf():
 *
 *	name=%s			a string, or null
 *	name=%d			a bool, which is no number here
 *	name=%u %llu %lld	a number
 *	name={ ... }		an object; name=[ ... ] an array
 *
 * Without "name=" they are elements of an array.
 */
__attribute__((format(printf, 2, 3)))
void rd_json_add(struct rd_json *json, const char *fmt, ...);
__attribute__((format(printf, 2, 0)))
void rd_json_vadd(struct rd_json *json, const char *fmt, va_list args);

#endif
