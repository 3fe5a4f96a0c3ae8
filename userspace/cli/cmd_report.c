// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl report: a page that draws what is in a pool.
 *
 * The page is report.html, with the numbers (report.h) in the place of a mark. It needs nothing
 * else: it is read from a disk, or sent by mail.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "keep.h"
#include "replace.h"
#include "report.h"

#define MARK	"@NUMBERS@"

/* The compiler runs in userspace/. */
__asm__(".section .rodata\n"
	"ctl_page: .incbin \"cli/report.html\"\n"
	".byte 0\n"
	".previous\n");
extern const char ctl_page[];

static void print_page(FILE *out, const char *numbers)
{
	const char *mark = strstr(ctl_page, MARK);

	fwrite(ctl_page, 1, mark - ctl_page, out);
	fputs(numbers, out);
	fputs(mark + strlen(MARK), out);
}

static int write_page(const char *path, const char *numbers)
{
	RD_FREE char *tmp = NULL;
	FILE *out = ctl_replace_named(path, &tmp);
	int r = -errno;

	if (out) {
		print_page(out, numbers);
		/* A web server reads it, as another user. */
		r = ctl_replace_end(out, tmp, 0644);
	}
	return r ? rd_err(r, "cannot write '%s'", path) : 0;
}

static int print(struct ctl *ctl, const char *numbers)
{
	const char *path = ctl_value(ctl, CTL_OPT_HTML);

	if (ctl->json) {
		puts(numbers);
	} else if (!strcmp(path, "-")) {
		print_page(stdout, numbers);
	} else {
		int r = write_page(path, numbers);

		if (r)
			return r;
		if (!ctl->quiet)
			printf("wrote '%s'\n", path);
	}
	return 0;
}

/* In memory first: what cannot be read to its end leaves half a page nowhere. */
static int report(struct ctl *ctl, const struct ctl_keep_policy *policy)
{
	RD_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r, done;

	if (!out)
		return -ENOMEM;
	r = ctl_report_write(ctl, policy, out);
	if (fclose(out))
		return -ENOMEM;
	if (r && r != CTL_DAMAGE)
		return r;
	done = print(ctl, text);
	return done ? done : r;
}

static int check_volumes(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	int i, r = 0;

	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = ctl_volumes(ctl, ctl->operands[i], &volumes);
	return r;
}

int cmd_report(struct ctl *ctl)
{
	struct ctl_keep_policy policy;
	struct ctl_name name;
	bool any;
	int i, r = 0;

	if (!ctl->json && !ctl_has(ctl, CTL_OPT_HTML))
		return ctl_usage(ctl, "name a file with --html, or use --json");
	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = ctl_volume_operand(ctl, i, &name);
	if (!r)
		r = ctl_value_keep(ctl, &policy, &any);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = check_volumes(ctl);
	return r ? r : report(ctl, &policy);
}
