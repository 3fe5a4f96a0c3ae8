/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Open a pool for a command, and end the command.
 *
 * A command that writes has a session: a row of the table session, with a lock that the
 * kernel drops when the process ends, however that is. What a session has reserved or
 * begun is undone by itself where it fails, and by the next command where it dies.
 */
#ifndef RD_SESSION_H
#define RD_SESSION_H

#include "pool/catalog/sessions.h"
#include "pool/pool.h"

/*
 * Open the pool @path for the command @verb. Where it is opened for writing, this finishes
 * or undoes what commands that died have left. -ENOENT, -EEXIST: see rd_pool_open();
 * -EEXIST also where @mode is RD_POOL_APART, and both are of one life.
 */
int rd_session_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		    const char *verb, unsigned int wait_ms, const struct rd_progress *progress);

/*
 * End the command, which has failed unless @r is 0, and close the pool. Returns @r, and
 * an error of its own if @r is 0.
 */
int rd_session_close(struct rd_pool *pool, int r);

/* Say the ways out of a life that is not RD_LIFE_ONE. Both keep what the other side knows. */
void rd_session_hint_life(enum rd_life life);

/*
 * Give back what the session has reserved and no version uses: of a part of a command that failed,
 * where the command goes on.
 */
int rd_session_leave(struct rd_pool *pool);

/* Append a struct rd_session for each command that writes to the pool now. */
int rd_sessions_running(struct rd_pool *pool, struct rd_buffer *ret);

#endif
