// SPDX-License-Identifier: GPL-2.0
/*
 * See places.h.
 */
#include <stdbool.h>
#include <stdio.h>

#include "places.h"

static struct place first;	/* of the run that is not printed yet */
static uint64_t start, len;

/* printf() would take most of the time where there are millions of ranges. */
static void put_hex(uint64_t value)
{
	char text[16];
	int i = sizeof(text);

	do {
		text[--i] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	fwrite(text + i, 1, sizeof(text) - i, stdout);
}

static void print_run(void)
{
	put_hex(start);
	putchar(',');
	put_hex(len);
	putchar(',');
	putchar(first.kind);
	if (first.kind == 'p')
		put_hex(first.block);
	putchar('\n');
}

static bool goes_on(struct place place)
{
	return place.kind == first.kind &&
	       (place.kind != 'p' || place.block == first.block + len);
}

void places_add(struct place place)
{
	if (len && goes_on(place)) {
		len++;
		return;
	}
	places_end();
	first = place;
	len = 1;
}

void places_end(void)
{
	if (len)
		print_run();
	start += len;
	len = 0;
}

/* splitmix64 */
uint64_t places_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}
