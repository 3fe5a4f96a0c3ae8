// SPDX-License-Identifier: GPL-2.0
/*
 * Print the progress of long work.
 *
 * The engine reports every step, so most reports are dropped. The line ends with a carriage
 * return, so that the next output overwrites it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "pool/stream/wire.h"
#include "progress.h"
#include "sizes.h"

#define LINE_MS		200
#define JSON_MS		1000
#define LOOK_MS		500
#define NAME_TEXT	320

/* The work on a volume has several steps; a version has one. */
static bool is_version(const struct ctl_progress *progress)
{
	return progress->subject && strchr(progress->subject, '@');
}

/*
 * Cut the beginning of @name where it and @rest are wider than the terminal: a line that goes on in
 * the next row is not overwritten by the next one.
 */
static void shorten(char *name, const char *rest)
{
	size_t len = strlen(name), width = strlen(rest), room;
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return;
	/* Some terminals go to the next row behind the last column. */
	room = size.ws_col > width + 1 ? size.ws_col - width - 1 : 0;
	if (len <= room)
		return;
	if (room < 3) {
		name[room] = '\0';
		return;
	}
	memmove(name + 3, name + len - (room - 3), room - 3 + 1);
	memcpy(name, "...", 3);
}

static void print_line(const struct ctl_progress *progress, u64 done, u64 total, u64 now)
{
	char name[NAME_TEXT], text[160];
	u64 passed = now - progress->begun, moved = done - progress->first;
	u64 rate = passed ? moved * 1000 / passed : 0;
	int at;

	at = snprintf(text, sizeof(text), ": %s of %s, %llu %%", ctl_size(done), ctl_size(total),
		      total ? (u64)((double)done * 100 / total) : 100);
	if (rate)
		snprintf(text + at, sizeof(text) - at, ", %s/s, %s left", ctl_size(rate),
			 ctl_duration((total - done + rate - 1) / rate));
	snprintf(name, sizeof(name), "%s%s%s", is_version(progress) ? "" : progress->what,
		 progress->subject && !is_version(progress) ? " " : "",
		 progress->subject ? progress->subject : "");
	shorten(name, text);
	fprintf(stderr, "\033[K%s%s\r", name, text);
	fflush(stderr);
}

static void print_json(const struct ctl_progress *progress, u64 done, u64 total, u64 now)
{
	struct rd_json json = { .out = stdout };

	rd_json_add(&json, "{ type=%s what=%s", "progress", progress->what);
	if (progress->subject)
		rd_json_string(&json, is_version(progress) ? "version" : "volume",
			       progress->subject);
	rd_json_add(&json, "done=%llu total=%llu milliseconds=%llu }", done, total,
		    now - progress->begun);
	putchar('\n');
	/* A program may be waiting for the line. */
	fflush(stdout);
}

static void show(struct ctl_progress *progress, const char *what, u64 done, u64 total)
{
	u64 now = rd_now_us() / 1000, wait = progress->json ? JSON_MS : LINE_MS;

	if (progress->all) {
		done = progress->before + rd_min(done, total);
		total = progress->all;
	}
	if (progress->what != what) {
		progress->what = what;
		progress->begun = now;
		progress->told = now;
		progress->first = done;
		progress->ended = false;
	}
	done = rd_min(done, total);
	if (now - progress->told < wait &&
	    !(progress->every && done == total && !progress->ended))
		return;
	progress->told = now;
	progress->ended = done == total;
	if (progress->json)
		print_json(progress, done, total, now);
	else
		print_line(progress, done, total, now);
	progress->on_screen = !progress->json;
}

static void look(struct ctl_progress *progress)
{
	u64 now = rd_now_us() / 1000;

	if (now - progress->looked < LOOK_MS)
		return;
	progress->looked = now;
	progress->look(progress->ctx);
}

static void tell(const struct rd_progress *base, const char *what, u64 done, u64 total)
{
	struct ctl_progress *progress = (struct ctl_progress *)base;

	if (progress->wire)
		rd_wire_keep(progress->wire);
	if (progress->look)
		look(progress);
	if (progress->shows && what)
		show(progress, what, done, total);
}

void ctl_progress_init(struct ctl_progress *progress, bool json, bool every,
		       volatile int *stop)
{
	*progress = (struct ctl_progress){
		.progress = { .tell = tell, .stop = stop },
		.json = json,
		.every = every,
	};
}

void ctl_progress_show(struct ctl_progress *progress)
{
	progress->shows = true;
}

void ctl_progress_begin(struct ctl_progress *progress, const char *subject)
{
	progress->subject = subject;
	progress->what = NULL;
}

void ctl_progress_part(struct ctl_progress *progress, const char *subject, u64 before, u64 all)
{
	progress->subject = subject;
	progress->before = before;
	progress->all = all;
}

void ctl_progress_clear(struct ctl_progress *progress)
{
	if (!progress->on_screen)
		return;
	fputs("\033[K", stderr);
	progress->on_screen = false;
}
