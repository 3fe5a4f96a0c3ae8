// SPDX-License-Identifier: GPL-2.0
/*
 * peak NAME WORD: read a mapped device's status ten times a second until SIGTERM, and print
 * the greatest number that its WORDth word had (from 1 on, from the first word of the
 * target's own). A time without the device, or without such a word, does not count.
 */
#define _GNU_SOURCE
#include <err.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dm.h"

static volatile sig_atomic_t over;

static void stop(int signal)
{
	(void)signal;
	over = 1;
}

static uint64_t word(char *text, int nr)
{
	char *found = NULL;

	while (nr--) {
		found = strsep(&text, " ");
		if (!found)
			return 0;
	}
	return strtoull(found, NULL, 10);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	uint64_t most = 0, now;
	char status[1024];
	int r;

	if (argc != 3 || atoi(argv[2]) < 1)
		errx(2, "usage: peak NAME WORD");
	sigaction(SIGTERM, &action, NULL);
	r = dm_open();
	if (r)
		errx(1, "device-mapper: %s", strerror(-r));
	while (!over) {
		if (!dm_status(argv[1], status, sizeof(status))) {
			now = word(status, atoi(argv[2]));
			if (now > most)
				most = now;
		}
		usleep(100000);
	}
	printf("%" PRIu64 "\n", most);
	return 0;
}
