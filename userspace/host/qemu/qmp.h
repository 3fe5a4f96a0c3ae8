/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Speak QMP with a QEMU that runs, or with qemu-storage-daemon: JSON, a line each way.
 *
 * SQLite, which is here anyway, takes the answers apart: the SQL of a question has the answer as
 * ?1, and functions of SQL find in it what is wanted.
 */
#ifndef RD_QMP_H
#define RD_QMP_H

#include <sys/types.h>

#include "base/buffer.h"

/* QEMU answers at once, but for a disk that hangs. */
#define RD_QMP_SECONDS	60

struct rd_qmp;

/* Connect to the Unix socket @path. Says what failed; so do all others unless they say more. */
int rd_qmp_open(struct rd_qmp **ret, const char *path);
/*
 * The same, over a socket that is connected, which it closes in the end, with a QEMU that may be of
 * ill will: no command lasts longer than RD_QMP_SECONDS or goes on once *@stop is not 0, whatever
 * QEMU sends. -EINTR, -ETIMEDOUT and -ECONNRESET, QEMU has ended, are without a message.
 */
int rd_qmp_open_fd(struct rd_qmp **ret, int fd, const volatile int *stop);
void rd_qmp_close(struct rd_qmp *qmp);

/* The first number of QEMU's version. */
unsigned int rd_qmp_major(const struct rd_qmp *qmp);
/* The user and group that QEMU runs as. */
uid_t rd_qmp_uid(const struct rd_qmp *qmp);
gid_t rd_qmp_gid(const struct rd_qmp *qmp);

/* From now on call @event for each event, @json, which comes while something else is done. */
typedef void rd_qmp_event_fn(void *ctx, const char *name, const char *json);
void rd_qmp_on_event(struct rd_qmp *qmp, rd_qmp_event_fn *event, void *ctx);
/* Its socket, to wait for events; and take some of those that are there, without waiting. */
int rd_qmp_fd(const struct rd_qmp *qmp);
int rd_qmp_take_events(struct rd_qmp *qmp);

/*
 * Execute @verb with arguments as for rd_json_add(). -EREMOTEIO, without a message: QEMU refuses,
 * for the reason rd_qmp_refusal().
 */
__attribute__((format(printf, 3, 4)))
int rd_qmp_run(struct rd_qmp *qmp, const char *verb, const char *fmt, ...);
/* The same without arguments. */
int rd_qmp_query(struct rd_qmp *qmp, const char *verb);
const char *rd_qmp_refusal(const struct rd_qmp *qmp);

/*
 * Ask the JSON @text by the SQL @question, a literal, in which @name is ?2 (NULL: there is none):
 * append the first column of each row that is not null, with its NUL.
 */
int rd_json_ask(const char *text, const char *question, const char *name, struct rd_buffer *ret);
/* Ask the last answer. */
int rd_qmp_ask(struct rd_qmp *qmp, const char *question, const char *name,
	       struct rd_buffer *ret);

#endif
