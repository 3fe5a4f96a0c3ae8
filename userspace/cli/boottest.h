/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What came of booting versions, for list, show, status and metrics: the directory boot/ beside
 * the catalog, in which 'verify --boot' writes
 *
 *	boot/UID.result		see below
 *	boot/UID.log		the end of what the guest wrote to its serial console
 *	boot/UID.png		its screen in the end, where QEMU can write one
 *
 * UID is that of the version, 16 hex digits. The first is there if the test came to its end, and
 * is four lines:
 *
 *	time N			when it ended
 *	passed 0|1
 *	why TEXT		what passed it, or why it failed; printable, and no part of it is
 *				what a guest wrote
 *	of VOL@NUMBER		the version; older programs have not written this line
 *
 * Those of versions that are gone are removed by the next test, and by prune, but for the result of
 * the last test of a volume that still has versions: whether its guest boots is not forgotten with
 * the version that was tested.
 */
#ifndef CTL_BOOTTEST_H
#define CTL_BOOTTEST_H

#include "cli.h"

struct ctl_boot_test {
	u64 uid;
	u64 time;
	bool passed;
	char why[128];
	/* The version. "": of one that is gone the result does not say it. */
	char volume[CTL_NAME_MAX + 1];
	i64 number;
};

/*
 * Append a struct ctl_boot_test for each result in the pool, which is open, sorted by uid. Without
 * the directory there is none; a result that cannot be read is no result.
 */
int ctl_boot_tests_read(const struct ctl *ctl, struct rd_buffer *ret);
/*
 * Append the last one of each volume that has versions, also if the version that was tested is
 * gone, sorted by uid.
 */
int ctl_boot_tests_last(const struct ctl *ctl, struct rd_buffer *ret);
/* Find that of @uid among them, or NULL. */
const struct ctl_boot_test *ctl_boot_test_find(const struct rd_buffer *tests, u64 uid);

/* Name a file of the version: its log, with @suffix "log". To be freed; NULL: out of memory. */
char *ctl_boot_test_path(const struct ctl *ctl, u64 uid, const char *suffix);
/* Replace that file by @data, or remove it, where that is NULL. Says what is wrong. */
int ctl_boot_test_put(const struct ctl *ctl, u64 uid, const char *suffix, const void *data,
		      size_t len);
/* Write the result. Says what is wrong. */
int ctl_boot_test_write(const struct ctl *ctl, const struct ctl_boot_test *test);
/* Remove what nobody needs of versions that are gone, which does no harm if it fails. */
void ctl_boot_tests_clear(struct ctl *ctl);

#endif
