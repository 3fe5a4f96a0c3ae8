/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages to people, on stderr. Whoever knows the object says what failed,
 * once, and passes the error on:
 *
 *	return rd_err(r, "cannot open '%s'", path);
 */
#ifndef RD_LOG_H
#define RD_LOG_H

#include <stdarg.h>

/* -1: errors only, 0: warnings as well, 1: what is done. */
extern int rd_verbosity;

/* Prints the message and, where @r is not 0, what @r means. Returns @r. */
__attribute__((format(printf, 2, 3)))
int rd_err(int r, const char *fmt, ...);

__attribute__((format(printf, 1, 2)))
void rd_warn(const char *fmt, ...);

__attribute__((format(printf, 1, 2)))
void rd_info(const char *fmt, ...);

/*
 * What to do next: a second line after an error.
 */
__attribute__((format(printf, 1, 2)))
void rd_hint(const char *fmt, ...);

/*
 * Say that @path is of a format that this program, which knows @known, does not read.
 * Returns -EOPNOTSUPP.
 */
int rd_err_format(const char *path, long long format, long long known);

#endif
