/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cut the power of a pool: note all that is written to its files in order, then
 * make the files as they may look after a cut at any moment.
 *
 * A write, hole or new size is stable from the end of a flush of the same file
 * that began after it had ended. Until then, from its beginning on, any of its
 * 512-byte sectors may be on the disk, or none; or the newest write of all is there whole, and
 * what it names is not. The catalog's log is removed together with a flush of what comes after
 * it, or not yet.
 */
#ifndef POWER_H
#define POWER_H

#include <stddef.h>

#include "base/units.h"

/* From now on; the pool in the directory @pool is closed. */
void power_begin(const char *pool);

/* How many things were noted. */
size_t power_now(void);

/* How many, from @at on, when the next flush of the catalog's log has ended: a commit. */
size_t power_next_commit(size_t at);

/* How many, from @begin on, when a write of a superblock had begun, if one does before @end. */
size_t power_next_super(size_t begin, size_t end, size_t otherwise);

/* A process was killed that had worked on the pool in the directory @pool since then. */
void power_killed(size_t since, const char *pool);

/* Nothing more is noted. */
void power_end(void);

/*
 * Make the pool in the directory @to, which is there and has all other files, as
 * after a cut when @at things had been noted. @at never goes back.
 */
void power_cut(size_t at, const char *to, u64 (*below)(u64 limit));

#endif
