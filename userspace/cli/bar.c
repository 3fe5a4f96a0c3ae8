// SPDX-License-Identifier: GPL-2.0
/* Pictures of a line: see bar.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bar.h"
#include "map.h"

#define LEAST	8	/* less than that shows nothing */

unsigned int ctl_bar_room(unsigned int used)
{
	const char *term = getenv("TERM");
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || !term || !strcmp(term, "dumb") ||
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < used + 2 + LEAST)
		return 0;
	return rd_min(size.ws_col - used - 2, CTL_BAR_WIDTH);
}

/* Variables of the locale, in the order that counts. */
static bool has_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	const char *value = NULL;
	unsigned int i;

	for (i = 0; i < 3 && (!value || !value[0]); i++)
		value = getenv(names[i]);
	return value && (strcasestr(value, "UTF-8") || strcasestr(value, "UTF8"));
}

/* A block so many eighths high, or the like. */
static void put_height(unsigned int eighths)
{
	if (has_utf8() && eighths)
		printf("\xe2\x96%c", 0x80 + eighths);
	else
		putchar(" .:-=+*##"[eighths]);
}

/* Of the parts that are in column @i. */
static char most_of(const char *text, unsigned int i, unsigned int width)
{
	unsigned int nr = strlen(text), at = i * nr / width, end = (i + 1) * nr / width;
	char most = text[at];

	/* A map of few parts has several columns for each. */
	for (; at < end; at++)
		if (ctl_map_step(text[at]) > ctl_map_step(most) || most == '.')
			most = text[at];
	return most;
}

void ctl_bar_map(const char *text, unsigned int width)
{
	unsigned int i;
	char most;

	for (i = 0; i < width; i++) {
		most = most_of(text, i, width);
		if (most == '_')
			putchar('0');
		else
			put_height((ctl_map_step(most) * 8 + CTL_MAP_STEPS - 1) / CTL_MAP_STEPS);
	}
}

void ctl_bar_share(u64 part, u64 all, unsigned int width)
{
	u64 columns = all ? (u64)((double)part / all * width + 0.5) : 0;

	while (columns--)
		put_height(8);
}
