// SPDX-License-Identifier: GPL-2.0
/* Serve a version to a process that reads its files, and take what that sends: see guest.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/become.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "export.h"
#include "export_files.h"
#include "guest_reader.h"
#include "guest_tar.h"
#include "libguestfs.h"

/* A signal that comes just before this process waits is seen then. */
#define LOOK_MS		500
#define MESSAGE_LINES	8

struct guest {
	const struct rd_guest_options *options;
	struct rd_export export;
	char dir[PATH_MAX];	/* for sockets of libguestfs */
	char tmp[PATH_MAX];	/* for what can be large */
	uid_t uid;		/* whose these are */
	gid_t gid;
	pid_t pid;
	int records, tar;	/* to read from; -1: at their end, or not there */
	int messages;		/* what it prints */
	struct rd_buffer text;	/* of records that are not whole yet */
	struct rd_guest_tar head;
	bool has_started;	/* what is wrong is in the guest */
	bool is_partly;		/* not all could be read */
};

int rd_guest_is_possible(void)
{
	const struct rd_libguestfs *lib;
	int r = rd_libguestfs_load(&lib);

	return r ? r : rd_export_is_possible();
}

/* --- messages */

/* What comes from a guest must not change the terminal. */
static void tell(enum rd_log_kind kind, const char *text)
{
	char line[2048];
	size_t i = 0;

	while (*text && i < sizeof(line) - 4) {
		unsigned int len = rd_shown_len(text);

		if (len)
			memcpy(line + i, text, len);
		else
			line[i] = ' ';
		i += len ? len : 1;
		text += len ? len : 1;
	}
	line[i] = '\0';
	if (kind == RD_LOG_ERROR)
		rd_err(0, "%s", line);
	else
		rd_warn("%s", line);
}

/* The last lines that the reader has printed, and what it has started. */
static void tell_messages(const struct guest *guest)
{
	char text[4096], *at = text, *end;
	unsigned int lines = 0;
	struct stat st;
	ssize_t len = 0;

	if (!fstat(guest->messages, &st))
		len = pread(guest->messages, text, sizeof(text) - 1,
			    st.st_size < (off_t)sizeof(text) ? 0 :
			    st.st_size - (off_t)sizeof(text) + 1);
	text[len > 0 ? len : 0] = '\0';
	for (end = text + strlen(text); end > text && lines < MESSAGE_LINES; end--)
		lines += end[-1] == '\n' && end[0];
	for (at = end > text ? end + 1 : text; *at; at = end) {
		end = at + strcspn(at, "\n");
		if (*end)
			*end++ = '\0';
		tell(RD_LOG_WARNING, at);
	}
}

/* --- what it sends */

static int tell_nonsense(void)
{
	rd_err(0, "the process that reads the guest's files makes no sense");
	return -EBADMSG;
}

static int take_record(struct guest *guest, const struct rd_guest_record *record)
{
	switch (record->kind) {
	case RD_GUEST_ERROR:
		guest->has_started = true;
		__attribute__((fallthrough));
	case RD_GUEST_NO_START:
		tell(RD_LOG_ERROR, record->text[0]);
		return -EIO;
	case RD_GUEST_PARTLY:
		guest->is_partly = true;
		__attribute__((fallthrough));
	case RD_GUEST_WARNING:
		tell(RD_LOG_WARNING, record->text[0]);
		return 0;
	}
	if (guest->options->work == RD_GUEST_TAR)
		return tell_nonsense();
	return guest->options->take(guest->options->ctx, record);
}

/* Take the record at @at, if it is whole. Returns its length, 0, or -EBADMSG. */
static ssize_t parse(struct guest *guest, size_t at, int *ret)
{
	const u8 *data = guest->text.data + at;
	size_t len = guest->text.len - at, all = sizeof(struct rd_guest_head);
	struct rd_guest_head head;
	unsigned int i;

	if (len < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	for (i = 0; i < RD_GUEST_TEXTS; i++) {
		head.record.text[i] = (const char *)data + all;
		all += head.len[i];
		if (!head.len[i] || head.len[i] > RD_GUEST_TEXT_MAX)
			return -EBADMSG;
	}
	if (len < all)
		return 0;
	for (i = 0; i < RD_GUEST_TEXTS; i++)
		if (strnlen(head.record.text[i], head.len[i]) != head.len[i] - 1)
			return -EBADMSG;
	if (head.record.kind >= RD_GUEST_KINDS)
		return -EBADMSG;
	*ret = take_record(guest, &head.record);
	return all;
}

static int take_records(struct guest *guest)
{
	size_t at = 0;
	ssize_t len;
	int r = 0;

	while (!r && (len = parse(guest, at, &r)) > 0)
		at += len;
	if (!r && len < 0)
		return tell_nonsense();
	memmove(guest->text.data, guest->text.data + at, guest->text.len - at);
	guest->text.len -= at;
	return r;
}

static int read_some(struct guest *guest, int *fd)
{
	static u8 data[1 << 16];
	ssize_t len = read(*fd, data, sizeof(data));

	if (len < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : rd_err(-errno, "cannot read a pipe");
	if (!len) {
		close(*fd);
		*fd = -1;
		return 0;
	}
	if (fd == &guest->tar)
		return rd_guest_tar_put(&guest->head, data, len);
	rd_buffer_put(&guest->text, data, len);
	return guest->text.failed ? -ENOMEM : take_records(guest);
}

static int take_all(struct guest *guest)
{
	int r = 0;

	while (!r && (guest->records >= 0 || guest->tar >= 0)) {
		struct pollfd fds[2] = {
			{ .fd = guest->records, .events = POLLIN },
			{ .fd = guest->tar, .events = POLLIN },
		};

		poll(fds, 2, LOOK_MS);
		if (*guest->options->stop)
			return -EINTR;
		if (fds[0].revents)
			r = read_some(guest, &guest->records);
		if (!r && fds[1].revents)
			r = read_some(guest, &guest->tar);
	}
	return r || !guest->text.len ? r : tell_nonsense();
}

/* --- the process */

static int find_owner(struct guest *guest)
{
	const char *user = rd_export_user();

	guest->uid = geteuid();
	guest->gid = getegid();
	return user ? rd_find_user(user, &guest->uid, &guest->gid) : 0;
}

/* Keep nothing open but what is handed over, of these a lock of the export. */
static int set_files(const struct guest *guest, int records, int tar)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Above all that they may be moved to. */
	int high_records = fcntl(records, F_DUPFD_CLOEXEC, 10);
	int high_tar = tar < 0 ? -1 : fcntl(tar, F_DUPFD_CLOEXEC, 10);

	if (dup2(null, STDIN_FILENO) < 0 || dup2(guest->messages, STDOUT_FILENO) < 0 ||
	    dup2(guest->messages, STDERR_FILENO) < 0 ||
	    dup3(high_records, RD_GUEST_FD_RECORDS, O_CLOEXEC) < 0 ||
	    (tar >= 0 && dup3(high_tar, RD_GUEST_FD_TAR, O_CLOEXEC) < 0))
		return -errno;
	return close_range(tar < 0 ? RD_GUEST_FD_TAR : RD_GUEST_FD_TAR + 1, ~0U, 0) ? -errno : 0;
}

/* The signal of its end is asked for too late, if the parent has ended before. */
static bool has_parent(void)
{
	struct pollfd reader = { .fd = RD_GUEST_FD_RECORDS };

	return poll(&reader, 1, 0) >= 0 && !(reader.revents & POLLERR);
}

/*
 * Where root may, in a namespace of processes: the kernel ends all that is in it together with its
 * first one. Elsewhere a process of libguestfs looks every two seconds. There is no network, and no
 * shared memory of others, either.
 */
static pid_t fork_reader(void)
{
	pid_t pid = geteuid() ? -1 : rd_fork_apart(0);

	return pid < 0 ? fork() : pid;
}

static void become_reader(struct guest *guest, int records, int tar)
{
	const struct rd_guest_place place = {
		.socket = guest->export.socket,
		.dir = guest->dir,
		.tmp = guest->tmp,
	};
	const struct rlimit no_core = { 0, 0 };

	/* Whoever has a terminal can type into it. */
	setsid();
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	setrlimit(RLIMIT_CORE, &no_core);
	umask(077);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || set_files(guest, records, tar) ||
	    chdir("/") || (!geteuid() && rd_become(guest->uid, guest->gid, rd_kvm_group())) ||
	    !has_parent())
		_exit(1);
	_exit(rd_guest_serve(guest->options, &place));
}

static int make_directories(struct guest *guest)
{
	const char *parent = getenv("TMPDIR");
	int r;

	rd_export_file(guest->dir, guest->export.name, "tmp");
	if (mkdir(guest->dir, 0700) || chown(guest->dir, guest->uid, guest->gid) ||
	    chown(guest->export.socket, guest->uid, guest->gid))
		return rd_err(-errno, "cannot make '%s'", guest->dir);
	/* What is in /run is in memory. */
	snprintf(guest->tmp, sizeof(guest->tmp), "%.3800s/revdedup-files-XXXXXX",
		 parent && parent[0] == '/' ? parent : "/var/tmp");
	if (!mkdtemp(guest->tmp))
		return rd_err(-errno, "cannot make '%s'", guest->tmp);
	r = rd_export_keep_tmp(&guest->export, guest->tmp);
	if (r)
		rmdir(guest->tmp);
	else if (chown(guest->tmp, guest->uid, guest->gid))
		r = rd_err(-errno, "cannot hand over '%s'", guest->tmp);
	return r;
}

static int start(struct guest *guest)
{
	int records[2], tar[2] = { -1, -1 };
	int r = find_owner(guest);

	if (!r)
		r = make_directories(guest);
	if (r)
		return r;
	guest->messages = memfd_create("messages", MFD_CLOEXEC);
	if (guest->messages < 0 || pipe2(records, O_CLOEXEC) ||
	    (guest->options->work == RD_GUEST_TAR && pipe2(tar, O_CLOEXEC)))
		return rd_err(-errno, "cannot make a pipe");
	/* libguestfs opens it by its name. */
	if (tar[1] >= 0 && fchown(tar[1], guest->uid, guest->gid))
		return rd_err(-errno, "cannot hand over a pipe");
	guest->pid = fork_reader();
	if (!guest->pid)
		become_reader(guest, records[1], tar[1]);
	close(records[1]);
	if (tar[1] >= 0)
		close(tar[1]);
	guest->records = records[0];
	guest->tar = tar[0];
	return guest->pid < 0 ? rd_err(-errno, "cannot start a process") : 0;
}

/* End it and all that it has started. Returns @r, or what was wrong with it. */
static int end(struct guest *guest, int r)
{
	int status = 0;

	if (guest->pid <= 0)
		return r;
	if (r) {
		kill(-guest->pid, SIGKILL);
		kill(guest->pid, SIGKILL);
	}
	while (waitpid(guest->pid, &status, 0) != guest->pid && errno == EINTR)
		if (*guest->options->stop)
			kill(-guest->pid, SIGKILL);
	kill(-guest->pid, SIGKILL);
	if (!r && *guest->options->stop)
		return -EINTR;
	if (status && !r) {
		rd_err(0, "the process that reads the guest's files has ended early");
		r = -EIO;
	}
	if (r == -EIO && !guest->has_started)
		rd_hint("'libguestfs-test-tool' shows if libguestfs works here");
	if (rd_verbosity > 0 || (r == -EIO && !guest->has_started))
		tell_messages(guest);
	return r;
}

int rd_guest_read(const struct rd_guest_options *options)
{
	char own[RD_EXPORT_NAME];
	const struct rd_export_options export = {
		.name = options->version,
		.pool = options->pool,
		.own = own,
		.stop = options->stop,
	};
	struct guest guest = {
		.options = options,
		.records = -1,
		.tar = -1,
		.messages = -1,
		.head = { .out = options->out, .stop = options->stop },
	};
	RD_BUFFER struct rd_buffer exports = { 0 };
	/* What reads the output of this process may go, and then there are things to end here. */
	sighandler_t on_pipe = signal(SIGPIPE, SIG_IGN);
	int r;

	/* This removes what others have left that were killed. */
	rd_exports(&exports);
	snprintf(own, sizeof(own), "files-%d", (int)getpid());
	r = rd_export_start(&export, &guest.export);
	if (r)
		return r;
	r = start(&guest);
	if (!r)
		r = take_all(&guest);
	r = end(&guest, r);
	if (!r && options->work == RD_GUEST_TAR)
		r = rd_guest_tar_end(&guest.head);
	rd_export_end(&guest.export);
	rd_close_p(&guest.records);
	rd_close_p(&guest.tar);
	rd_close_p(&guest.messages);
	rd_buffer_free(&guest.text);
	signal(SIGPIPE, on_pipe);
	return r ? r : guest.is_partly;
}
