/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Libraries that are loaded when they are needed first, so that hosts without them can do the rest.
 * Their calls are pointers in a struct; a table has a line for each.
 */
#ifndef RD_LIBRARY_H
#define RD_LIBRARY_H

#include <stddef.h>

struct rd_library_call {
	const char *name;
	size_t at;		/* in the struct */
};

struct rd_library {
	const char *file;
	const char *name;	/* to people */
	const char *purpose;	/* "to read over NBD" */
	const char *packages;	/* which have it */
	const struct rd_library_call *calls;
	size_t nr;
	void *handle;		/* NULL: it is not loaded */
};

/* Load it, once, and fill in the struct @ret, or say which package has it: -ELIBACC. */
int rd_library_load(struct rd_library *library, void *ret);

#endif
