/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device-mapper devices, by libdevmapper. Every device of ours has a UUID that
 * begins with RD_DM_UUID, and nothing is done to one of the same name that has not.
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
	int open_count;
	char uuid[RD_DM_NAME_MAX];
};

/* What libdevmapper says goes where all we say goes. Before all others. */
void rd_dm_init(void);

/* Is there a target of that name? Tries to load the module dm-NAME if not. */
bool rd_dm_has_target(const char *name);

int rd_dm_info(const char *name, struct rd_dm_info *ret);
/* The name of the device with this UUID; -ENODEV, without a word: there is none. */
int rd_dm_find(const char *uuid, char name[RD_DM_NAME_MAX]);

/* "/dev/mapper/NAME"; returns @path */
const char *rd_dm_path(char path[RD_DM_PATH_MAX], const char *name);

enum rd_dm_flags {
	RD_DM_READ_ONLY = 1,
	/* A device within our own constructions, of no interest to anybody else. */
	RD_DM_PRIVATE = 2,
	RD_DM_NOFLUSH = 4,	/* suspend: I/O waits instead of being waited for */
	RD_DM_NOLOCKFS = 8,	/* suspend: leave the file system above alone */
	/*
	 * resume: udev is not waited for, which may wait for a device that is suspended,
	 * until rd_dm_settle().
	 */
	RD_DM_LATER = 16,
};

/* A device without a table, suspended until rd_dm_resume(). */
int rd_dm_create(const char *name, const char *uuid);
/* The table that the next resume brings. */
int rd_dm_load(const char *name, u64 sectors, const char *target, const char *params,
	       unsigned int flags);
int rd_dm_load_linear(const char *name, u64 sectors, const char *below);
/* Forget it. */
void rd_dm_unload(const char *name);
int rd_dm_suspend(const char *name, unsigned int flags);
int rd_dm_resume(const char *name, unsigned int flags);
/* Both, so that the table that was loaded takes the place of the one in use. */
int rd_dm_swap(const char *name, unsigned int flags);
/* Wait for udev; nodes are there. */
void rd_dm_settle(void);
/* Nobody has it open, but for those who look at each new device for a moment. */
int rd_dm_remove(const char *name);

/*
 * The first target of the table that is used, and what it says of itself; *@ret_params
 * is to be freed. -ENODATA, without a word: there is no table.
 */
int rd_dm_status(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		 char **ret_params);
int rd_dm_table(const char *name, u64 *ret_sectors, char target[RD_DM_NAME_MAX],
		char **ret_params);

/* *@ret_answer (may be NULL) is to be freed, and NULL where there is no answer. */
int rd_dm_message(const char *name, const char *text, char **ret_answer);
/* The same, and what fails is the caller's to tell. */
int rd_dm_try_message(const char *name, const char *text, char **ret_answer);

#endif
