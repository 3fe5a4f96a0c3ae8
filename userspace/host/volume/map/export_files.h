/* SPDX-License-Identifier: GPL-2.0 */
/* The files of exports in /run; see export.h. */
#ifndef RD_EXPORT_FILES_H
#define RD_EXPORT_FILES_H

#include "export.h"

/* The path of NAME.@what. */
void rd_export_file(char ret[PATH_MAX], const char *name, const char *what);

/* The path of its socket. */
void rd_export_socket(char ret[PATH_MAX], const char *name);

/* Make the directory of all of them, unless it is there. */
int rd_export_make_directory(void);

/*
 * Write the file of @export, locked, and return its open file. -EEXIST: such an export runs;
 * says so.
 */
int rd_export_make_file(const struct rd_export *export);

/* The name of the export that the device @device reads. */
void rd_export_device_name(char ret[RD_EXPORT_NAME], const char *device);

/* Remove the directory @tmp, another user's, together with these files. Says what is wrong. */
int rd_export_keep_tmp(const struct rd_export *export, const char *tmp);

bool rd_export_is_locked(const struct rd_export *export);
void rd_export_remove_files(const struct rd_export *export);

/* Read the number of its process. False: it is not known yet. */
bool rd_export_read_pid(struct rd_export *export);

#endif
