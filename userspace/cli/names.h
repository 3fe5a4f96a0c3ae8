/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parse the names of volumes, versions and tags. Pure.
 *
 *	vm1		a volume
 *	vm1@3		its version 3
 *	vm1@latest	the newest
 *	vm1@-2		the second before the newest
 *	vm1@2026-11-20			the newest of that day, or before it
 *	vm1@2026-11-20T02:00[:30]	the newest of that minute (second), or before
 *	vm1@gold	the one with the tag gold
 *	@gold		those with the tag gold, of all volumes: versions of one moment, if a
 *			group of snapshots has that name
 *
 * Volumes are 1 to 128 of A-Z a-z 0-9 . _ / + -, and do not begin with -. Tags
 * are the same, begin with a letter or _, and none is called latest.
 */
#ifndef CTL_NAMES_H
#define CTL_NAMES_H

#include <stdbool.h>

#include "base/units.h"

#define CTL_NAME_MAX	128

/* VOL@NUMBER */
#define CTL_VERSION_TEXT	(CTL_NAME_MAX + 22)

enum ctl_name_kind {
	CTL_NAME_VOLUME,	/* no version */
	CTL_NAME_NUMBER,	/* number is its number */
	CTL_NAME_BEFORE,	/* number versions before the newest; 0: the newest */
	CTL_NAME_TIME,		/* the newest that is not later than number */
	CTL_NAME_TAG,
	CTL_NAME_MOMENT,	/* no volume: each version with the tag */
};

struct ctl_name {
	char volume[CTL_NAME_MAX + 1];
	enum ctl_name_kind kind;
	i64 number;
	char tag[CTL_NAME_MAX + 1];
};

/* Returns NULL, or what is wrong, to follow @text in a sentence. */
const char *ctl_name_parse(struct ctl_name *ret, const char *text);

bool ctl_is_volume(const char *text);
bool ctl_is_tag(const char *text);

/* @text has CTL_VERSION_TEXT bytes, and is returned. */
const char *ctl_name_print(char *text, const char *volume, i64 number);

#endif
