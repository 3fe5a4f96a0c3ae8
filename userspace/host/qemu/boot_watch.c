// SPDX-License-Identifier: GPL-2.0
/*
 * Look at a guest that boots, until there is a sign that it is up, or that it will not be: see
 * boot.h. Everything here comes from the guest.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "boot_parts.h"

#define LINE		4096
/* Of a line that is printed. */
#define PRINTED		200
#define STEP_MS		200
#define AGENT_US	(2 * 1000000ULL)
#define SCREEN_US	500000
#define SCREEN_SECONDS	30
#define SCREEN_SECONDS_MAX	3600
/* A picture of more is not ours. */
#define SCREEN_MAX	(128U << 20)
/* A cursor that blinks, or a clock, has no more of the screen: one part of so many. */
#define SMALL		500
/* Firmware, updates and a relabelling of files do that once or twice. */
#define MAX_RESETS	3
#define SYNC_ID		"1382719"
/* More than a guest can write between two looks. */
#define READS_MAX	64
/* What is left free where a guest's writes go: one part of so many, or so much. */
#define RESERVE_SHARE	32
#define RESERVE_MAX	(1ULL << 30)

struct picture {
	struct rd_buffer ppm;
	const u8 *pixels;
	unsigned int width, height;
};

struct watch {
	struct rd_booting *booting;
	const struct rd_boot_options *options;
	struct rd_boot_report *report;
	u64 begun;

	char line[LINE];		/* of the serial console, the last one */
	char answer[LINE];		/* of the agent, the same */
	bool is_synced;			/* what it says now is an answer to what was asked */
	u64 asked;			/* when; 0: not yet */
	struct picture picture;
	u64 looked, changed;		/* at the screen; when it did */
	unsigned int changes;
	bool is_firmware;		/* what is seen there, as UEFI found nothing to boot */

	unsigned int resets;
	bool is_off, has_panicked, has_stopped;
};

/* --- rules */

int rd_boot_rule_parse(const char *text, struct rd_boot_rule *ret)
{
	static const char serial[] = "serial:", screen[] = "screen";
	const char *at;
	char *end;

	*ret = (struct rd_boot_rule){ .seconds = SCREEN_SECONDS };
	if (!strcmp(text, "agent")) {
		ret->sign = RD_BOOT_AGENT;
		return 0;
	}
	if (!strncmp(text, screen, strlen(screen))) {
		ret->sign = RD_BOOT_SCREEN;
		at = text + strlen(screen);
		if (!*at)
			return 0;
		if (*at != ':' || !isdigit((unsigned char)at[1]))
			return -EINVAL;
		ret->seconds = strtoul(at + 1, &end, 10);
		return *end || !ret->seconds || ret->seconds > SCREEN_SECONDS_MAX ? -EINVAL : 0;
	}
	at = text + strlen(serial);
	if (strncmp(text, serial, strlen(serial)) || !*at || strlen(at) >= sizeof(ret->text))
		return -EINVAL;
	snprintf(ret->text, sizeof(ret->text), "%s", at);
	for (; *at; at++)
		if (*at < ' ' || *at > '~')
			return -EINVAL;
	return 0;
}

static bool wants(const struct watch *watch, enum rd_boot_sign sign)
{
	size_t i;

	for (i = 0; i < watch->options->nr_rules; i++)
		if (watch->options->rules[i].sign == sign)
			return true;
	return false;
}

__attribute__((format(printf, 3, 4)))
static void decide(struct watch *watch, bool passed, const char *fmt, ...)
{
	va_list args;

	/* The first sign counts. */
	if (watch->report->why[0])
		return;
	watch->report->passed = passed;
	va_start(args, fmt);
	vsnprintf(watch->report->why, sizeof(watch->report->why), fmt, args);
	va_end(args);
}

/* --- the serial console */

/*
 * UEFI says here what its screen shows. It may have failed with one disk, and go on with the next;
 * but its shell is started as a guest is.
 */
static void match_firmware(struct watch *watch)
{
	static const char *const fails[] = {
		"UEFI Interactive Shell", "BdsDxe: failed", "No bootable option",
	};
	unsigned int i;

	if (strstr(watch->line, "BdsDxe: starting") && !strstr(watch->line, "Shell"))
		watch->is_firmware = false;
	for (i = 0; i < ARRAY_SIZE(fails); i++)
		watch->is_firmware |= !!strstr(watch->line, fails[i]);
}

static void match_line(struct watch *watch)
{
	const struct rd_boot_rule *rule = watch->options->rules;
	size_t i;

	if (watch->options->machine->firmware == RD_FIRMWARE_UEFI)
		match_firmware(watch);
	for (i = 0; i < watch->options->nr_rules; i++, rule++)
		if (rule->sign == RD_BOOT_SERIAL && strstr(watch->line, rule->text))
			decide(watch, true, "the serial console says '%s'", rule->text);
}

/* Add a byte to a line. True: it ends the line. Of one that is too long the end is kept. */
static bool add_byte(char line[LINE], size_t *len, char byte)
{
	if (byte == '\n')
		return true;
	if (!byte || byte == '\r')
		return false;
	if (*len == LINE - 1) {
		memmove(line, line + LINE / 2, LINE / 2);
		*len -= LINE / 2;
	}
	line[(*len)++] = byte;
	line[*len] = '\0';
	return false;
}

/* Keep its end, if it is longer than @max. */
static void cut(struct rd_buffer *log, size_t max)
{
	if (log->len <= max)
		return;
	memmove(log->data, log->data + log->len - RD_BOOT_LOG, RD_BOOT_LOG);
	log->len = RD_BOOT_LOG;
}

/* Add to a line, and call @take for each that ends; what begins is in @line then. */
static void add_text(struct watch *watch, char line[LINE], const char *text, ssize_t nr,
		     void (*take)(struct watch *watch))
{
	size_t len = strlen(line);
	ssize_t i;

	for (i = 0; i < nr; i++) {
		if (!add_byte(line, &len, text[i]))
			continue;
		take(watch);
		len = 0;
		line[0] = '\0';
	}
}

/* A prompt has no end of line, so what is there of the last one counts. False: nothing is there. */
static bool read_some(struct watch *watch)
{
	char text[16384];
	ssize_t got = read(watch->booting->serial, text, sizeof(text));

	if (got <= 0)
		return false;
	rd_buffer_put(&watch->report->log, text, got);
	cut(&watch->report->log, 2 * RD_BOOT_LOG);
	add_text(watch, watch->line, text, got, match_line);
	match_line(watch);
	return true;
}

static void read_serial(struct watch *watch)
{
	unsigned int nr;

	for (nr = 0; nr < READS_MAX && read_some(watch); nr++)
		;
}

/* --- the agent */

static void ask_agent(struct watch *watch)
{
	static const char sync[] =
		"{\"execute\": \"guest-sync\", \"arguments\": {\"id\": " SYNC_ID "}}\n";
	static const char ping[] = "{\"execute\": \"guest-ping\"}\n";
	const char *text = watch->is_synced ? ping : sync;

	watch->asked = rd_now_us();
	/* Where none listens it stays in the socket, and one question has an answer as another. */
	(void)!write(watch->booting->agent, text, strlen(text));
}

static void take_answer(struct watch *watch)
{
	const char *answer = strstr(watch->answer, "\"return\"");

	if (!answer)
		return;
	if (watch->is_synced && strstr(answer, "{}")) {
		decide(watch, true, "the guest's agent answers");
	} else if (!watch->is_synced && strstr(answer, SYNC_ID)) {
		watch->is_synced = true;
		ask_agent(watch);
	}
}

static void read_agent(struct watch *watch)
{
	char text[LINE];

	add_text(watch, watch->answer, text, read(watch->booting->agent, text, sizeof(text)),
		 take_answer);
}

/* --- the screen */

int rd_boot_read_screen(struct rd_booting *booting, const char *format, struct rd_buffer *ret)
{
	off_t size;
	u8 *to;
	int r;

	ret->len = 0;
	/* QEMU writes on from where it was, as it has the file open. */
	if (lseek(booting->screen_out, 0, SEEK_SET) || ftruncate(booting->screen_out, 0))
		return -errno;
	/* Before 7.1 there is no choice. */
	r = strcmp(format, "ppm") ?
		rd_qmp_run(booting->qmp, "screendump", "filename=%s format=%s", "/dev/fdset/1",
			   format) :
		rd_qmp_run(booting->qmp, "screendump", "filename=%s", "/dev/fdset/1");
	if (r)
		return r;
	size = lseek(booting->screen, 0, SEEK_END);
	if (size <= 0 || size > SCREEN_MAX)
		return -EIO;
	to = rd_buffer_grow(ret, size);
	return !to ? -ENOMEM : pread(booting->screen, to, size, 0) == size ? 0 : -EIO;
}

static bool parse_picture(struct picture *picture)
{
	int at = 0;

	/* So that what is parsed ends. */
	rd_buffer_put_u8(&picture->ppm, '\0');
	if (picture->ppm.failed ||
	    sscanf((const char *)picture->ppm.data, "P6 %5u %5u 255%n", &picture->width,
		   &picture->height, &at) != 2 || !at)
		return false;
	picture->pixels = picture->ppm.data + at + 1;
	return picture->ppm.len - 1 == at + 1 + 3ULL * picture->width * picture->height;
}

static u64 count_pixels(const struct picture *picture)
{
	return (u64)picture->width * picture->height;
}

/* How many pixels of @a are not as in @b? @b NULL: not as the first one. */
static u64 count_other(const struct picture *a, const struct picture *b)
{
	u64 i, other = 0, nr = count_pixels(a);

	for (i = 0; i < nr; i++)
		other += !!memcmp(a->pixels + 3 * i, b ? b->pixels + 3 * i : a->pixels, 3);
	return other;
}

static bool is_same(const struct picture *a, const struct picture *b)
{
	return b->pixels && a->width == b->width && a->height == b->height &&
		count_other(a, b) <= count_pixels(a) / SMALL;
}

/*
 * Is it one that a guest may have when it is up? Not where BIOS and boot loader write that there is
 * nothing to boot: text of 80 columns.
 */
static bool is_of_guest(const struct watch *watch)
{
	const struct picture *picture = &watch->picture;
	bool is_bios = watch->options->machine->firmware != RD_FIRMWARE_UEFI;

	return !watch->is_firmware &&
		!(is_bios && picture->width == 720 && picture->height == 400) &&
		count_other(picture, NULL) > count_pixels(picture) / SMALL;
}

static void judge_screen(struct watch *watch)
{
	const struct rd_boot_rule *rule = watch->options->rules;
	u64 still = (rd_now_us() - watch->changed) / 1000000;
	size_t i;

	/* The first change is from the screen that is off. */
	for (i = 0; i < watch->options->nr_rules; i++, rule++)
		if (rule->sign == RD_BOOT_SCREEN && watch->changes > 1 && still >= rule->seconds &&
		    is_of_guest(watch))
			decide(watch, true, "the screen has been the same for %llu s",
			       rule->seconds);
}

static void look_at_screen(struct watch *watch)
{
	struct picture now = { .width = 0 };

	watch->looked = rd_now_us();
	if (rd_boot_read_screen(watch->booting, "ppm", &now.ppm) || !parse_picture(&now)) {
		/* Nobody knows whether it is still. */
		rd_buffer_free(&now.ppm);
		watch->changed = watch->looked;
		return;
	}
	if (is_same(&now, &watch->picture)) {
		rd_buffer_free(&now.ppm);
		judge_screen(watch);
		return;
	}
	rd_buffer_free(&watch->picture.ppm);
	watch->picture = now;
	watch->changed = watch->looked;
	watch->changes++;
}

/* --- QEMU */

static void take_event(void *ctx, const char *name, const char *json)
{
	struct watch *watch = ctx;

	if (!strcmp(name, "RESET"))
		watch->resets += !!strstr(json, "\"guest\": true");
	watch->is_off |= !strcmp(name, "SHUTDOWN");
	watch->has_panicked |= !strcmp(name, "GUEST_PANICKED");
	watch->has_stopped |= !strcmp(name, "STOP");
}

/* It has stopped the guest: is that of the guest's making? */
static int check_stopped(struct watch *watch)
{
	RD_BUFFER struct rd_buffer status = { 0 };
	int r = rd_qmp_query(watch->booting->qmp, "query-status");

	watch->has_stopped = false;
	if (!r)
		r = rd_qmp_ask(watch->booting->qmp, "SELECT json_extract(?1, '$.status')", NULL,
			       &status);
	if (!r && status.len && !strcmp((const char *)status.data, "internal-error"))
		r = -EAGAIN;
	else if (!r && status.len && !strcmp((const char *)status.data, "io-error"))
		r = rd_err(-ENOSPC, "there is no room for what the guest writes");
	return r;
}

/* --- room */

/* QEMU only tells the guest that a write has failed, and others need the room as well. */
static int check_room(const struct watch *watch)
{
	const char *dir = watch->options->overlay;
	struct statvfs st;
	u64 unit;

	if (statvfs(dir, &st))
		return rd_err(-errno, "cannot see how much is free in '%s'", dir);
	unit = st.f_frsize;
	if (st.f_bavail * unit >= rd_min(st.f_blocks * unit / RESERVE_SHARE, RESERVE_MAX))
		return 0;
	rd_err(0, "'%s' has no room for what the guest writes", dir);
	rd_hint("the version is as it was; TMPDIR names another directory");
	return -ENOSPC;
}

/* --- all of it */

static void print_missing(const struct watch *watch, char *text, size_t size)
{
	const struct rd_boot_rule *rule = watch->options->rules;
	size_t i, len = 0;

	text[0] = '\0';
	for (i = 0; i < watch->options->nr_rules && len < size; i++, rule++) {
		len += snprintf(text + len, size - len, "%s", i ? ", " : "");
		if (len >= size)
			return;
		if (rule->sign == RD_BOOT_SERIAL)
			len += snprintf(text + len, size - len, "no '%s' on the serial console",
					rule->text);
		else
			len += snprintf(text + len, size - len, "%s",
					rule->sign == RD_BOOT_AGENT ? "no agent" :
					"no screen that stays the same");
	}
}

static void judge(struct watch *watch)
{
	char missing[100];
	u64 now = rd_now_us(), limit = watch->options->limit_us;

	if (watch->has_panicked)
		decide(watch, false, "the guest panicked");
	else if (watch->is_off)
		decide(watch, false, "the guest powered off");
	else if (watch->resets >= MAX_RESETS)
		decide(watch, false, "the guest rebooted %u times", watch->resets);
	if (now - watch->begun < limit)
		return;
	print_missing(watch, missing, sizeof(missing));
	decide(watch, false, "%llu s: %s", limit / 1000000, missing);
}

/* A channel that was closed is never ready again, so poll() waits for its step. */
static void wait_for_guest(struct watch *watch)
{
	struct pollfd waits[] = {
		{ .fd = watch->booting->serial, .events = POLLIN },
		{ .fd = watch->booting->agent, .events = POLLIN },
		{ .fd = rd_qmp_fd(watch->booting->qmp), .events = POLLIN },
	};

	poll(waits, ARRAY_SIZE(waits), STEP_MS);
}

static int look(struct watch *watch)
{
	u64 now = rd_now_us();
	int r = rd_qmp_take_events(watch->booting->qmp);

	/* Behind events: what a guest wrote before it powered off counts. */
	read_serial(watch);
	if (r)
		return r;
	read_agent(watch);
	if (wants(watch, RD_BOOT_AGENT) && now - watch->asked >= AGENT_US)
		ask_agent(watch);
	if (wants(watch, RD_BOOT_SCREEN) && now - watch->looked >= SCREEN_US)
		look_at_screen(watch);
	r = check_room(watch);
	return !r && watch->has_stopped ? check_stopped(watch) : r;
}

int rd_boot_watch(struct rd_booting *booting, const struct rd_boot_options *options,
		  struct rd_boot_report *ret)
{
	struct watch watch = {
		.booting = booting, .options = options, .report = ret, .begun = rd_now_us(),
	};
	int r;

	rd_qmp_on_event(booting->qmp, take_event, &watch);
	/* The screen that is off is the first one, so that no other is. */
	if (wants(&watch, RD_BOOT_SCREEN))
		look_at_screen(&watch);
	r = rd_qmp_query(booting->qmp, "cont");
	while (!r && !ret->why[0]) {
		wait_for_guest(&watch);
		r = *options->stop ? -EINTR : look(&watch);
		if (!r)
			judge(&watch);
	}
	/* What it has said in its last moment helps to see why. */
	if (!r)
		read_serial(&watch);
	if (r == -ECONNRESET)
		decide(&watch, false, "QEMU ended");
	cut(&ret->log, RD_BOOT_LOG);
	rd_qmp_on_event(booting->qmp, NULL, NULL);
	rd_buffer_free(&watch.picture.ppm);
	return !r && ret->log.failed ? -ENOMEM : r;
}

int rd_boot_wait_any(struct rd_booting *booting, u64 until_us, const volatile int *stop)
{
	struct pollfd wait = { .fd = booting->serial, .events = POLLIN };
	char byte;

	while (rd_now_us() < until_us && !*stop)
		if (poll(&wait, 1, STEP_MS) > 0)
			return read(booting->serial, &byte, 1) == 1 ? 0 : -EIO;
	return -ETIME;
}

/* --- printing */

/* Find where the last @nr lines begin; one that is too long is more than one. */
static size_t find_last(const struct rd_buffer *log, unsigned int nr)
{
	size_t at = log->len, len = 0;

	while (at && (log->data[at - 1] == '\n' || log->data[at - 1] == '\r'))
		at--;
	while (at && nr) {
		at--;
		len = log->data[at] == '\n' ? 0 : len + 1;
		nr -= !len || len % PRINTED == 0;
	}
	return at && log->data[at] == '\n' ? at + 1 : at;
}

void rd_boot_print(FILE *out, const char *before, const struct rd_buffer *log, unsigned int nr)
{
	size_t at = find_last(log, nr), len = 0;

	for (; at < log->len; at++) {
		u8 byte = log->data[at];

		if (byte == '\r')
			continue;
		if (!len && byte != '\n')
			fputs(before, out);
		if (byte != '\n')
			fputc(byte >= ' ' && byte <= '~' ? byte : '?', out);
		len = byte == '\n' ? 0 : len + 1;
		if (!len || len == PRINTED)
			fputc('\n', out);
		len %= PRINTED;
	}
	if (len)
		fputc('\n', out);
}
