// SPDX-License-Identifier: GPL-2.0
/* Speak QMP: see qmp.h. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/lock.h"
#include "base/log.h"
#include "host/sys/socket.h"
#include "pool/catalog/sql.h"
#include "qmp.h"

/* query-named-block-nodes of a host with hundreds of disks has some MiB. */
#define LINE_MAX_BYTES	(64U << 20)
/* So that a QEMU that tells of events without end keeps nobody from all else. */
#define EVENTS_AT_ONCE	64
/* No honest QEMU tells of more before it answers. */
#define EVENTS_MAX	10000
#define STEP_MS		200

struct rd_qmp {
	char *path;
	int fd;
	struct ucred peer;
	unsigned int nr;		/* of the last command */
	unsigned int major;		/* version of QEMU */
	struct rd_buffer in;		/* what was read, and is no line yet */
	struct rd_buffer line;		/* the last answer, with a NUL */
	struct rd_buffer refusal;
	struct rd_sql *sql;		/* empty: for questions */
	rd_qmp_event_fn *event;		/* NULL: events are passed by */
	void *ctx;
	const volatile int *stop;	/* NULL: QEMU is trusted */
	u64 until;			/* else: the command ends */
};

/* --- JSON */

static int ask(struct rd_sql *sql, const char *text, const char *question, const char *name,
	       struct rd_buffer *ret)
{
	RD_ROW struct rd_row *row = NULL;
	const char *value;
	int r;

	r = name ? rd_sql_ask(sql, &row, question, "tt", text, name) :
		rd_sql_ask(sql, &row, question, "t", text);
	while (!r && (r = rd_row_next(row)) > 0) {
		value = rd_row_text(row, 0);
		if (value)
			rd_buffer_put(ret, value, strlen(value) + 1);
		r = ret->failed ? -ENOMEM : 0;
	}
	return r;
}

int rd_json_ask(const char *text, const char *question, const char *name, struct rd_buffer *ret)
{
	struct rd_sql *sql;
	int r;

	r = rd_sql_open_memory(&sql);
	if (r)
		return r;
	r = ask(sql, text, question, name, ret);
	rd_sql_close(sql);
	return r;
}

int rd_qmp_ask(struct rd_qmp *qmp, const char *question, const char *name, struct rd_buffer *ret)
{
	return ask(qmp->sql, (const char *)qmp->line.data, question, name, ret);
}

/* --- lines */

static int patience_ms(void)
{
	return rd_patience_ms(RD_QMP_SECONDS * 1000);
}

static int tell_silence(const struct rd_qmp *qmp)
{
	rd_err(0, "QEMU has not answered at '%s' for %d seconds", qmp->path, RD_QMP_SECONDS);
	rd_hint("such a socket serves one program at a time: does another have it?");
	return -ETIMEDOUT;
}

/* Read what is there. */
static int read_some(struct rd_qmp *qmp)
{
	char *to = (char *)rd_buffer_grow(&qmp->in, 65536);
	ssize_t len;

	if (!to)
		return -ENOMEM;
	len = read(qmp->fd, to, 65536);
	qmp->in.len -= 65536 - (len > 0 ? len : 0);
	if (len <= 0 && qmp->stop)
		return -ECONNRESET;
	if (len < 0)
		return rd_err(-errno, "cannot read '%s'", qmp->path);
	if (!len)
		return rd_err(0, "QEMU has closed '%s'", qmp->path), -ECONNRESET;
	return qmp->in.len > LINE_MAX_BYTES ? -EFBIG : 0;
}

/* Must a command end that an untrusted QEMU has not answered? */
static int check_over(const struct rd_qmp *qmp)
{
	if (!qmp->stop)
		return 0;
	return *qmp->stop ? -EINTR : rd_now_us() >= qmp->until ? -ETIMEDOUT : 0;
}

/* Wait until more can be read. */
static int wait_for_more(struct rd_qmp *qmp)
{
	struct pollfd wait = { .fd = qmp->fd, .events = POLLIN };
	int r;

	/* Elsewhere an answer is always waited for: Ctrl-C is seen between commands. */
	do {
		r = check_over(qmp);
		if (r)
			return r;
		r = poll(&wait, 1, qmp->stop ? STEP_MS : patience_ms());
	} while ((r < 0 && errno == EINTR) || (!r && qmp->stop));
	return r ? 0 : tell_silence(qmp);
}

static u8 *find_end(const struct rd_qmp *qmp)
{
	return qmp->in.len ? memchr(qmp->in.data, '\n', qmp->in.len) : NULL;
}

static int read_line(struct rd_qmp *qmp)
{
	size_t len;
	u8 *end;
	int r = 0;

	while (!r && !(end = find_end(qmp))) {
		r = wait_for_more(qmp);
		if (!r)
			r = read_some(qmp);
	}
	if (r)
		return r;
	*end = '\0';
	len = end + 1 - qmp->in.data;
	qmp->line.len = 0;
	rd_buffer_put(&qmp->line, qmp->in.data, len);
	memmove(qmp->in.data, qmp->in.data + len, qmp->in.len - len);
	qmp->in.len -= len;
	return qmp->line.failed ? -ENOMEM : 0;
}

/* Append the member @question of the last line: 1, or 0: it has none. */
static int find_member(struct rd_qmp *qmp, const char *question, struct rd_buffer *ret)
{
	int r;

	ret->len = 0;
	r = rd_qmp_ask(qmp, question, NULL, ret);
	return r ? r : ret->len > 0;
}

/* Is the last line the answer to the last command? Others are events, and what came too late. */
static int is_answer(struct rd_qmp *qmp)
{
	RD_BUFFER struct rd_buffer id = { 0 };
	int r = find_member(qmp, "SELECT json_extract(?1, '$.id')", &id);

	if (r > 0)
		r = strtoul((const char *)id.data, NULL, 10) == qmp->nr;
	return r;
}

/* Tell of the last line, which is no answer. */
static int take_event(struct rd_qmp *qmp)
{
	RD_BUFFER struct rd_buffer name = { 0 };
	int r = qmp->event ? find_member(qmp, "SELECT json_extract(?1, '$.event')", &name) : 0;

	if (r > 0)
		qmp->event(qmp->ctx, (const char *)name.data, (const char *)qmp->line.data);
	return r < 0 ? r : 0;
}

static int read_answer(struct rd_qmp *qmp)
{
	/* Not RD_BUFFER: it is handed on. */
	struct rd_buffer result = { 0 };
	unsigned int nr = 0;
	int r;

	for (;;) {
		/* Lines that are there already are not waited for. */
		r = qmp->stop && ++nr > EVENTS_MAX ? -ETIMEDOUT : check_over(qmp);
		if (!r)
			r = read_line(qmp);
		if (!r)
			r = is_answer(qmp);
		if (!r)
			r = take_event(qmp);
		if (r < 0)
			break;
		if (!r)
			continue;
		r = find_member(qmp, "SELECT json_extract(?1, '$.error.desc')", &qmp->refusal);
		if (r) {
			r = r > 0 ? -EREMOTEIO : r;
			break;
		}
		r = find_member(qmp, "SELECT json_extract(?1, '$.return')", &result);
		if (r > 0) {
			rd_buffer_free(&qmp->line);
			qmp->line = result;
			return 0;
		}
		if (r)
			break;
	}
	rd_buffer_free(&result);
	return r;
}

static int send_line(struct rd_qmp *qmp, const char *text, size_t len)
{
	ssize_t done;

	while (len) {
		done = send(qmp->fd, text, len, MSG_NOSIGNAL | (qmp->stop ? MSG_DONTWAIT : 0));
		/* No honest QEMU has so much to read that there is no room. */
		if (done < 0 && errno != EINTR && qmp->stop)
			return -ECONNRESET;
		if (done < 0 && errno != EINTR)
			return rd_err(-errno, "cannot write to '%s'", qmp->path);
		if (done > 0) {
			text += done;
			len -= done;
		}
	}
	return 0;
}

/* @fmt: NULL: no arguments. */
static int run(struct rd_qmp *qmp, const char *verb, const char *fmt, va_list args)
{
	struct rd_json json = { 0 };
	char *text = NULL;
	size_t len;
	int r;

	json.out = open_memstream(&text, &len);
	if (!json.out)
		return -ENOMEM;
	qmp->until = rd_now_us() + RD_QMP_SECONDS * 1000000ULL;
	rd_json_begin(&json, NULL, '{');
	rd_json_string(&json, "execute", verb);
	rd_json_u64(&json, "id", ++qmp->nr);
	rd_json_begin(&json, "arguments", '{');
	if (fmt)
		rd_json_vadd(&json, fmt, args);
	rd_json_end(&json, '}');
	rd_json_end(&json, '}');
	fputc('\n', json.out);
	r = fclose(json.out) ? -ENOMEM : send_line(qmp, text, len);
	free(text);
	return r ? r : read_answer(qmp);
}

int rd_qmp_run(struct rd_qmp *qmp, const char *verb, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = run(qmp, verb, fmt, args);
	va_end(args);
	return r;
}

int rd_qmp_query(struct rd_qmp *qmp, const char *verb)
{
	va_list none = { };

	return run(qmp, verb, NULL, none);
}

void rd_qmp_on_event(struct rd_qmp *qmp, rd_qmp_event_fn *event, void *ctx)
{
	qmp->event = event;
	qmp->ctx = ctx;
}

int rd_qmp_fd(const struct rd_qmp *qmp)
{
	return qmp->fd;
}

int rd_qmp_take_events(struct rd_qmp *qmp)
{
	struct pollfd wait = { .fd = qmp->fd, .events = POLLIN };
	unsigned int nr;
	int r = 0;

	/* The rest of a line that is not whole may never come. */
	if (!find_end(qmp) && poll(&wait, 1, 0) > 0)
		r = read_some(qmp);
	for (nr = 0; !r && nr < EVENTS_AT_ONCE && find_end(qmp); nr++) {
		r = read_line(qmp);
		if (!r)
			r = take_event(qmp);
	}
	return r;
}

const char *rd_qmp_refusal(const struct rd_qmp *qmp)
{
	return qmp->refusal.len ? (const char *)qmp->refusal.data : "";
}

/* --- the connection */

static int greet(struct rd_qmp *qmp)
{
	socklen_t len = sizeof(qmp->peer);
	int r;

	if (getsockopt(qmp->fd, SOL_SOCKET, SO_PEERCRED, &qmp->peer, &len))
		return -errno;
	r = read_line(qmp);
	if (!r)
		r = find_member(qmp, "SELECT json_extract(?1, '$.QMP.version.qemu.major')",
				&qmp->refusal);
	if (r > 0)
		qmp->major = atoi((const char *)qmp->refusal.data);
	return r > 0 ? 0 : r ? r : -EPROTO;
}

unsigned int rd_qmp_major(const struct rd_qmp *qmp)
{
	return qmp->major;
}

/* @fd: -1: connect to @path. */
static int open_qmp(struct rd_qmp **ret, const char *path, int fd, const volatile int *stop)
{
	struct rd_qmp *qmp = calloc(1, sizeof(*qmp));
	int r;

	*ret = qmp;
	if (!qmp)
		return -ENOMEM;
	qmp->fd = fd;
	qmp->stop = stop;
	qmp->until = rd_now_us() + RD_QMP_SECONDS * 1000000ULL;
	qmp->path = strdup(path);
	if (!qmp->path)
		return -ENOMEM;
	r = rd_sql_open_memory(&qmp->sql);
	if (r)
		return r;
	if (fd < 0)
		qmp->fd = rd_socket_connect(path);
	r = qmp->fd < 0 ? qmp->fd : greet(qmp);
	/* That was said. */
	if (r == -ETIMEDOUT || r == -ECONNRESET || r == -EINTR)
		return r;
	if (!r)
		r = rd_qmp_query(qmp, "qmp_capabilities");
	return r && !stop ? rd_err(r, "cannot speak QMP at '%s'", path) : r;
}

int rd_qmp_open(struct rd_qmp **ret, const char *path)
{
	return open_qmp(ret, path, -1, NULL);
}

int rd_qmp_open_fd(struct rd_qmp **ret, int fd, const volatile int *stop)
{
	int r = open_qmp(ret, "the socket of QMP", fd, stop);

	if (!*ret)
		close(fd);
	return r;
}

void rd_qmp_close(struct rd_qmp *qmp)
{
	if (!qmp)
		return;
	if (qmp->fd >= 0)
		close(qmp->fd);
	rd_buffer_free(&qmp->in);
	rd_buffer_free(&qmp->line);
	rd_buffer_free(&qmp->refusal);
	rd_sql_close(qmp->sql);
	free(qmp->path);
	free(qmp);
}

uid_t rd_qmp_uid(const struct rd_qmp *qmp)
{
	return qmp->peer.uid;
}

gid_t rd_qmp_gid(const struct rd_qmp *qmp)
{
	return qmp->peer.gid;
}
