/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device-mapper devices, by libdevmapper. Every device of ours has a UUID that begins
 * with RD_DM_UUID; a device of the same name without it is left alone.
 *
 * All of these say what went wrong, once, and return -errno.
 */
#ifndef RD_DM_H
#define RD_DM_H

#include <stdbool.h>

#include "base/units.h"

#define RD_DM_UUID	"REVDEDUP-"
#define RD_DM_NAME_MAX	128
#define RD_DM_PATH_MAX	(RD_DM_NAME_MAX + 16)

struct rd_dm_info {
	bool exists;
	bool suspended;
	bool has_table;
	bool read_only;
	int open_count;
	char uuid[RD_DM_NAME_MAX];
};

/* Print messages of libdevmapper as our own. To be called before all others. */
void rd_dm_init(void);

/*
 * Does the kernel have a target of that name, also after loading the module dm-NAME? @ret_version:
 * major, minor and patch level of the one that it has, or NULL.
 */
bool rd_dm_has_target(const char *name, u32 ret_version[3]);

int rd_dm_info(const char *name, struct rd_dm_info *ret);
/* Find the name of the device with this UUID. -ENODEV, without a word: there is none. */
int rd_dm_find(const char *uuid, char name[RD_DM_NAME_MAX]);

/* "/dev/mapper/NAME"; returns @path */
const char *rd_dm_path(char path[RD_DM_PATH_MAX], const char *name);

enum rd_dm_flags {
	RD_DM_READ_ONLY = 1,
	/* An inner device of ours, which udev and others are to leave alone. */
	RD_DM_PRIVATE = 2,
	RD_DM_NOFLUSH = 4,	/* suspend, swap: I/O waits instead of being waited for */
	RD_DM_NOLOCKFS = 8,	/* suspend, swap: leave the file system above alone */
	/*
	 * resume: do not wait for udev, which may itself wait for a device that is
	 * suspended, before rd_dm_settle().
	 */
	RD_DM_LATER = 16,
};

/* A device without a table, suspended until rd_dm_resume(). */
int rd_dm_create(const char *name, const char *uuid);
/* Load the table that the next resume makes live. */
int rd_dm_load(const char *name, u64 sectors, const char *target, const char *params,
	       unsigned int flags);
int rd_dm_load_linear(const char *name, u64 sectors, const char *below);
/* Forget that table. */
void rd_dm_unload(const char *name);
int rd_dm_suspend(const char *name, unsigned int flags);
int rd_dm_resume(const char *name, unsigned int flags);
/*
 * Suspend and resume, so that the loaded table replaces the live one. A kill leaves the device
 * running, with one of the two tables. Where the new one is refused, the old one is restored.
 */
int rd_dm_swap(const char *name, unsigned int flags);
/* Wait for udev; afterwards the nodes exist. */
void rd_dm_settle(void);
/* Remove a device that nothing has open but programs that look at it for a moment. */
int rd_dm_remove(const char *name);

/*
 * Read the first target of the live table, and its status or its parameters; *@ret_params
 * is to be freed. -ENODATA, without a word: there is no table.
 */
int rd_dm_status(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		 char **ret_params);
int rd_dm_table(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		char **ret_params);

/* Send a message. *@ret_answer (may be NULL) is to be freed; NULL: there was no answer. */
int rd_dm_message(const char *name, const char *text, char **ret_answer);
/* The same, but the caller says what failed. */
int rd_dm_try_message(const char *name, const char *text, char **ret_answer);

#endif
