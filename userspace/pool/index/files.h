/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files of the index, in the folder "index" of the pool:
 *
 *	N	a run, see run.h; numbers are not used again
 *	N.new	a run that is being written
 *	whole	there is an index: its runs have what was there when it was made, or since
 *	lock	for the locks of all processes that use it
 *
 * A run is written to N.new, flushed, and renamed; then the folder is flushed. Processes that
 * write runs at the same time have numbers of their own: a number is taken while the lock
 * "names" is held, by the name N.new, whose writer has the lock of that number; a file whose
 * lock is free was left by a process that died, and is removed. One process merges at a time.
 * Others may still read the runs that it removes.
 *
 * Nothing here fails a command. A run that is damaged is dropped: a message says so, the file
 * is removed, and "whole" with it. A run that cannot be written is given up, after a message.
 */
#ifndef RD_FILES_H
#define RD_FILES_H

#include "base/lock.h"
#include "run.h"

/* The vectors in memory have no more bytes; those of the greatest runs are read. */
#define RD_FILES_VECTORS	(12ULL << 20)

struct rd_files {
	char *path;		/* of the folder */
	bool is_foreign;	/* it is a link, or no folder: as if it were empty */
	u8 uuid[16];
	int lock_fd;		/* -1: there is no folder */
	struct rd_index_run **runs;	/* the newest first */
	unsigned int nr;
	u64 vectors;		/* bytes in memory */
	bool has_vectors;	/* all are there that have room */
	bool told_write;
	bool lazy;		/* new runs are not flushed: rd_files_set_whole() does that */
};

/* A folder that is not there is empty. */
int rd_files_open(struct rd_files *files, const char *pool_path, const u8 uuid[16]);
void rd_files_close(struct rd_files *files);

/* Look for runs that other processes have made or removed. */
void rd_files_refresh(struct rd_files *files);

/* Read the vectors for which there is room, if runs have come or gone since. */
void rd_files_load_vectors(struct rd_files *files);

/* Drop @run, which cannot be read because of @error. */
void rd_files_drop(struct rd_files *files, struct rd_index_run *run, int error);

/* A run that is being written. */
struct rd_new_run {
	struct rd_index_run_writer writer;
	int fd;
	u64 number;
	struct rd_lock lock;
};

/*
 * Begin a run of up to @nr entries, with the generation @generation, or 0: it is the newest.
 * An error has been told.
 */
int rd_files_begin(struct rd_files *files, struct rd_new_run *ret, u64 nr, u64 generation);
/* End it, and use it; where @r is not 0, or something fails, remove it. */
int rd_files_end(struct rd_files *files, struct rd_new_run *run, int r);

/* Take the lock for merging. False: another process has it. */
bool rd_files_lock_merge(struct rd_files *files, struct rd_lock *ret);
/* Remove a run that has been merged. */
void rd_files_remove(struct rd_files *files, struct rd_index_run *run);

/* Remove all runs. */
void rd_files_clear(struct rd_files *files);

bool rd_files_is_whole(const char *pool_path);
/* Flush all runs, and note that the index is whole. */
void rd_files_set_whole(struct rd_files *files);

#endif
