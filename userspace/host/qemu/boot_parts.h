/* SPDX-License-Identifier: GPL-2.0 */
/* Between boot.c, which starts and ends QEMU, and boot_watch.c, which looks at the guest. */
#ifndef RD_BOOT_PARTS_H
#define RD_BOOT_PARTS_H

#include <sys/types.h>

#include "boot.h"
#include "qmp.h"

/* A QEMU that runs. */
struct rd_booting {
	pid_t pid;
	int serial, agent;		/* our ends, which do not block */
	int screen;			/* a file in memory that QEMU writes, for reading */
	int screen_out;			/* the same file, as QEMU has it open */
	int errors;			/* what QEMU says, a file in memory */
	struct rd_qmp *qmp;
};

/* Where QEMU writes the screen: see screendump. */
#define RD_BOOT_SCREEN_SET	1

/*
 * Let the guest run until a rule passes or it is clear that none does. Fills in @ret but time.
 * Without a word, -EAGAIN: QEMU itself cannot go on with it, -ECONNRESET: it has ended, which @ret
 * says, and -ETIMEDOUT: it does not answer.
 */
int rd_boot_watch(struct rd_booting *booting, const struct rd_boot_options *options,
		  struct rd_boot_report *ret);
/* Wait until the serial console has said something. -ETIME: not until @until_us. */
int rd_boot_wait_any(struct rd_booting *booting, u64 until_us, const volatile int *stop);
/* Read the screen, in QEMU's format @format, "png" or "ppm". An error is without a word. */
int rd_boot_read_screen(struct rd_booting *booting, const char *format, struct rd_buffer *ret);

#endif
