/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Boot a machine for trial, and see whether the guest comes up.
 *
 * QEMU is a child without rights of its own: of the user nobody if this is root, in QEMU's sandbox,
 * and, where the host allows that, in namespaces of its own, in which there is no network and no
 * other process. The guest has no network card. All that QEMU needs are sockets and files in memory
 * that it inherits, so nothing of it is in the file system; it dies with this process
 * (PR_SET_PDEATHSIG), however that ends. Its disks are sockets as well, connected to servers that
 * throw away what is written.
 *
 * A guest is hostile: what it says is bounded, is never taken for more than it is, and is
 * printed only by rd_boot_print().
 */
#ifndef RD_BOOT_H
#define RD_BOOT_H

#include <stdio.h>

#include "machine.h"

/* Of the serial console so much is kept, its end. */
#define RD_BOOT_LOG	(1U << 20)

enum rd_boot_sign {
	RD_BOOT_SERIAL,			/* a line of the serial console has @text */
	RD_BOOT_AGENT,			/* the guest's agent answers */
	RD_BOOT_SCREEN,			/* the screen stays as it is for @seconds */
};

/* What shows that a guest is up. One of several is enough. */
struct rd_boot_rule {
	enum rd_boot_sign sign;
	char text[64];
	u64 seconds;
};

/* Read "serial:TEXT", "agent", "screen" or "screen:SECONDS". -EINVAL: it is none. */
int rd_boot_rule_parse(const char *text, struct rd_boot_rule *ret);

enum rd_boot_accel {
	RD_BOOT_ACCEL_AUTO,		/* KVM, unless it fails with this guest: see rd_boot() */
	RD_BOOT_ACCEL_KVM,
	RD_BOOT_ACCEL_TCG,
};

struct rd_boot_options {
	const struct rd_machine *machine;
	const struct rd_boot_rule *rules;
	size_t nr_rules;
	u64 limit_us;			/* how long it may take */
	const char *overlay;		/* a directory: there is what the guest writes */
	enum rd_boot_accel accel;
	volatile int *stop;		/* not 0 once a signal asks to end */
};

struct rd_boot_report {
	bool passed;
	char why[128];			/* nothing in it is from the guest */
	u64 us;				/* how long it took */
	struct rd_buffer log;		/* of the serial console */
	struct rd_buffer screen;	/* PNG; empty: QEMU before 7.1 writes none */
};

/*
 * Boot it, and end it. Returns 0 whether it passed or not; an error, after a message, only where
 * that is not known. -EINTR: *@stop. -EAGAIN, without a word, with RD_BOOT_ACCEL_AUTO alone: KVM
 * cannot go on with this guest, so boot it emulated, with disks as they were.
 */
int rd_boot(const struct rd_boot_options *options, struct rd_boot_report *ret);
void rd_boot_report_free(struct rd_boot_report *report);

/* Is QEMU there? 0, or -errno, after a message. */
int rd_boot_is_possible(void);
/* Does a machine without a disk get anywhere with KVM, if that is there? */
bool rd_boot_kvm_works(const volatile int *stop);

/* Print the last @nr lines of what a guest wrote, each behind @before, without what could harm. */
void rd_boot_print(FILE *out, const char *before, const struct rd_buffer *log, unsigned int nr);

#endif
