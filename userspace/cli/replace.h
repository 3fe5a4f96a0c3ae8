/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replace a file as a whole: a program that reads it meanwhile finds the old one or the
 * new one, and so does who looks after a power cut.
 */
#ifndef CTL_REPLACE_H
#define CTL_REPLACE_H

#include <stdio.h>
#include <sys/types.h>

/*
 * Open a temporary file for the new @path, where a link is replaced, too; NULL: see errno.
 * *@ret_tmp, its name, is to be freed.
 */
FILE *ctl_replace_begin(const char *path, char **ret_tmp);
/*
 * The same of a path that the user has named: a link to a file stays. NULL in *@ret_tmp: @path is
 * no file, but a device or a pipe, as /dev/stdout may be one, and was opened itself.
 */
FILE *ctl_replace_named(const char *path, char **ret_tmp);
/* Move it to its place, or, if that fails, remove it. */
int ctl_replace_end(FILE *out, const char *tmp, mode_t mode);

/* Open the file @name of a pool to be read; NULL: it is not there, or not a plain file. */
FILE *ctl_read_in(const char *pool, const char *name);

#endif
