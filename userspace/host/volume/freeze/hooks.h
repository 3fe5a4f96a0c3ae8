/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hooks, programs of the user that run around a snapshot: each executable in
 * /etc/revdedup/hooks.d whose name has only letters, digits, - and _, in the order of
 * their names, as
 *
 *	HOOK pre VG/LV DEVICE		before the volume is suspended
 *	HOOK post VG/LV DEVICE		after it was resumed, the last one first
 */
#ifndef RD_HOOKS_H
#define RD_HOOKS_H

#include "host/volume/device/attachment.h"

struct rd_hooks {
	char *dir;
	struct dirent **entries;
	unsigned int nr;
};

/*
 * Find them; none where there is no such directory. -EPERM: another user than root and the caller
 * may write to one of them, or to a directory that one lies in. Says what went wrong.
 */
int rd_hooks_find(struct rd_hooks *hooks);
void rd_hooks_free(struct rd_hooks *hooks);

/* Run one. -errno where it failed or was killed after @seconds; says so. */
int rd_hook_run(const struct rd_hooks *hooks, unsigned int nr, const char *when,
		const struct rd_attachment *at, unsigned int seconds, pid_t *running);

#endif
