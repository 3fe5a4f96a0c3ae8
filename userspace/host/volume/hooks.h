/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs of the user that are run around a snapshot: each executable in
 * /etc/revdedup/hooks.d whose name has but letters, digits, - and _, in the order of
 * their names, as
 *
 *	HOOK pre VG/LV DEVICE		before the volume is suspended
 *	HOOK post VG/LV DEVICE		after it was resumed, the last one first
 */
#ifndef RD_HOOKS_H
#define RD_HOOKS_H

#include "attachment.h"

struct rd_hooks {
	char *dir;
	struct dirent **entries;
	unsigned int nr;
};

/* None, if there is no such directory. Says what went wrong. */
int rd_hooks_find(struct rd_hooks *hooks);
void rd_hooks_free(struct rd_hooks *hooks);

/* 0, or -errno where it failed or was killed after @seconds, and that is said. */
int rd_hook_run(const struct rd_hooks *hooks, unsigned int nr, const char *when,
		const struct rd_attachment *at, unsigned int seconds, pid_t *running);

#endif
