/* SPDX-License-Identifier: GPL-2.0 */
/* Find the word that a mistyped one was meant to be. Pure. */
#ifndef RD_SUGGEST_H
#define RD_SUGGEST_H

/* Count the characters to insert, remove, replace, or swap with the next, from @a to @b. */
unsigned int rd_edits(const char *a, const char *b);

/* Begin with zeros. @word: the nearest one so far; NULL: none is near. */
struct rd_nearest {
	const char *word;
	unsigned int edits;
};

/* Take @word if it is near to @typed, and nearer than the words before. */
void rd_nearest_add(struct rd_nearest *nearest, const char *typed, const char *word);

/* Write "; did you mean 'WORD'?", or nothing. Returns @text. */
#define RD_SUGGEST_TEXT	160
const char *rd_nearest_print(char text[RD_SUGGEST_TEXT], const struct rd_nearest *nearest,
			     const char *prefix);

#endif
