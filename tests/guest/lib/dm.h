/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device-mapper for the C test programs: ioctls and nothing else, because
 * libdevmapper is not made for threads (one sends messages while another
 * suspends), and a crash cycle has no time for it.
 *
 * All of these return 0 or -errno, unless they say something else, and may be
 * called from any thread.
 */
#ifndef RDT_DM_H
#define RDT_DM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before all others. */
int dm_open(void);

int dm_create(const char *name);
int dm_remove(const char *name);

/* Load a table of one line, which dm_resume() then makes live. */
int dm_load(const char *name, uint64_t sectors, const char *type, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define DM_NOFLUSH	0x1	/* do not wait for deferred I/O, push it back */
#define DM_NOLOCKFS	0x2
int dm_suspend(const char *name, unsigned int flags);
int dm_resume(const char *name);

int dm_message(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A message with a reply, which goes to @reply. */
int dm_ask(const char *name, char *reply, size_t size, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The status of the live table's line. */
int dm_status(const char *name, char *reply, size_t size);

/* Make @path a node for the device where it is not one already. */
int dm_node(const char *name, const char *path);

#endif
