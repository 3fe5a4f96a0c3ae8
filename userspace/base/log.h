/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages to people. The function that knows the object says what failed, once,
 * and passes the error on:
 *
 *	return rd_err(r, "cannot open '%s'", path);
 *
 * Messages go to the printer that the front end has installed, or, as they are, to
 * stderr. Which verb mends it only the front end knows: see remedy.h.
 */
#ifndef RD_LOG_H
#define RD_LOG_H

#include <stdarg.h>
#include <stddef.h>

#include "remedy.h"

/* -1: errors only, 0: warnings as well, 1: what is done. */
extern int rd_verbosity;

enum rd_log_kind {
	RD_LOG_ERROR,
	RD_LOG_WARNING,
	RD_LOG_INFO,
	RD_LOG_HINT,
};

struct rd_log_printer {
	/* Print @text, one line without its end. Threads may do so at the same time. */
	void (*print)(enum rd_log_kind kind, const char *text);
	/* Write how to apply @remedy to @object, which may be NULL. NULL: nothing is known. */
	void (*remedy)(char *text, size_t size, enum rd_remedy remedy, const char *object);
};

/* From now on messages go to @printer, which stays. */
void rd_log_to(const struct rd_log_printer *printer);

/* Prints the message and, where @r is not 0, what @r means. Returns @r. */
__attribute__((format(printf, 2, 3)))
int rd_err(int r, const char *fmt, ...);

__attribute__((format(printf, 1, 2)))
void rd_warn(const char *fmt, ...);

__attribute__((format(printf, 1, 2)))
void rd_info(const char *fmt, ...);

/* Print a second line after an error or a warning: what to do next. It is hidden with that. */
__attribute__((format(printf, 1, 2)))
void rd_hint(const char *fmt, ...);

/*
 * Say that @path is of a format that this program, which knows @known, does not read.
 * Returns -EOPNOTSUPP.
 */
int rd_err_format(const char *path, long long format, long long known);

#endif
