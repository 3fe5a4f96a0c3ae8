// SPDX-License-Identifier: GPL-2.0
/* Find the word that a mistyped one was meant to be. */
#include <stdio.h>
#include <string.h>

#include "units.h"
#include "suggest.h"

/* No word of ours is longer. */
#define WORD_MAX	32

unsigned int rd_edits(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	size_t i, j, nr_a = strlen(a), nr_b = strlen(b);

	if (nr_a > WORD_MAX || nr_b > WORD_MAX)
		return rd_max(nr_a, nr_b);
	for (j = 0; j <= nr_b; j++)
		last[j] = j;
	for (i = 1; i <= nr_a; i++) {
		unsigned int *free_row = before;

		now[0] = i;
		for (j = 1; j <= nr_b; j++) {
			now[j] = rd_min(rd_min(last[j], now[j - 1]) + 1,
					last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = rd_min(now[j], before[j - 2] + 1);
		}
		before = last;
		last = now;
		now = free_row;
	}
	return last[nr_b];
}

void rd_nearest_add(struct rd_nearest *nearest, const char *typed, const char *word)
{
	unsigned int edits = rd_edits(typed, word);

	/* Half of a short word is another word. */
	if (edits > 1 + strlen(typed) / 4 || edits * 2 >= strlen(word))
		return;
	if (nearest->word && edits >= nearest->edits)
		return;
	*nearest = (struct rd_nearest){ word, edits };
}

const char *rd_nearest_print(char text[RD_SUGGEST_TEXT], const struct rd_nearest *nearest,
			     const char *prefix)
{
	text[0] = '\0';
	if (nearest->word)
		snprintf(text, RD_SUGGEST_TEXT, "; did you mean '%s%s'?", prefix, nearest->word);
	return text;
}
