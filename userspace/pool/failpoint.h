/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Named steps at which a test stops, kills or fails a command. A build without
 * RD_TEST has none of this.
 *
 *	REVDEDUP_FAIL=NAME[:N]=kill|stop|EIO|ENOSPC
 *
 * acts when the step NAME is reached for the Nth time (1 if not said); the
 * name "any" counts every step. REVDEDUP_FAIL_LOG=FILE gets the name of each
 * step that is reached, and then that of the one that acts once more, after "!".
 */
#ifndef RD_FAILPOINT_H
#define RD_FAILPOINT_H

#ifdef RD_TEST
/* 0, or the -errno that the step fails with. */
int rd_point(const char *name);
#else
static inline int rd_point(const char *name)
{
	(void)name;
	return 0;
}
#endif

#endif
