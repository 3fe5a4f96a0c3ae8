/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files that are replaced as a whole: who reads one meanwhile finds the old one, or the
 * new one. Nothing is flushed.
 */
#ifndef CTL_REPLACE_H
#define CTL_REPLACE_H

#include <stdio.h>
#include <sys/types.h>

/* What to write the new @path to; NULL: see errno. *@ret_tmp, its name, is to be freed. */
FILE *ctl_replace_begin(const char *path, char **ret_tmp);

/* Put it in its place, or, if that fails, leave nothing of it. */
int ctl_replace_end(FILE *out, const char *tmp, const char *path, mode_t mode);

#endif
