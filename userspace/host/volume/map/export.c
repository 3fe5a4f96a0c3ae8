// SPDX-License-Identifier: GPL-2.0
/* Start nbdkit with the plugin, and end it; see export.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/uri.h"
#include "host/sys/run.h"
#include "host/sys/socket.h"
#include "export.h"
#include "export_files.h"

#define PLUGIN		"nbdkit-revdedup-plugin.so"
#define USER		"revdedup"
#define START_MS	(60 * 1000)
#define STOP_MS		(20 * 1000)
#define KILL_MS		(3 * 1000)
#define STEP_US		20000
#define MAX_ARGS	32

/* --- where it listens */

/* Whoever can connect reads the disk, and TCP has no permissions. */
static int check_address(const struct rd_export_options *options)
{
	if (!options->address || options->tls_certificates || options->tls_psk || options->insecure)
		return 0;
	rd_err(0, "TCP without TLS asks no client who it is: each user and guest of this host, and each other host, that can reach '%s' could read the disk",
	       options->address);
	rd_remedy(RD_REMEDY_USE_TLS, NULL, "nothing was exported");
	return -EPERM;
}

static void make_uri(struct rd_export *export, const struct rd_export_options *options)
{
	bool tls = options->tls_certificates || options->tls_psk;
	const char *address = options->address;

	if (!address)
		snprintf(export->uri, sizeof(export->uri), "nbd%s+unix:///", tls ? "s" : "");
	else
		snprintf(export->uri, sizeof(export->uri),
			 strchr(address, ':') ? "nbd%s://[%s]:%u/" : "nbd%s://%s:%u/",
			 tls ? "s" : "", address, options->port);
	rd_uri_put(export->uri, sizeof(export->uri),
		   options->name ? options->name : "VOL@VERSION");
	if (address)
		return;
	strncat(export->uri, "?socket=", sizeof(export->uri) - strlen(export->uri) - 1);
	rd_uri_put(export->uri, sizeof(export->uri), export->socket);
}

/* --- nbdkit */

/* The program that runs. */
static void find_self(char ret[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", ret, PATH_MAX - sizeof(PLUGIN) - 1);

	ret[len > 0 ? len : 0] = '\0';
}

/* A build that is not installed has the plugin beside the program. */
static void find_plugin(char ret[PATH_MAX])
{
	char *slash;

	find_self(ret);
	slash = strrchr(ret, '/');
	if (slash)
		memcpy(slash + 1, PLUGIN, sizeof(PLUGIN));
	if (!slash || access(ret, R_OK))
		snprintf(ret, PATH_MAX, "revdedup");
}

/* root opens the pool, and another user speaks with clients. */
const char *rd_export_user(void)
{
	if (geteuid())
		return NULL;
	return getpwnam(USER) ? USER : "nobody";
}

struct command {
	const char *args[MAX_ARGS];
	unsigned int nr;
	char plugin[PATH_MAX];
	char pool[2 * PATH_MAX];
	char rsh[PATH_MAX + 8];
	char version[RD_EXPORT_NAME + 16];
	char rate[40];
	char port[16];
	char certificates[PATH_MAX + 32];
	char psk[PATH_MAX + 16];
	char pid[PATH_MAX];
	char user[32];
};

static void add(struct command *command, const char *arg)
{
	command->args[command->nr++] = arg;
}

/* In the background nbdkit has another directory. Of a path that is not there it tells. */
static void add_path(struct command *command, char *text, size_t size, const char *option,
		     const char *path)
{
	char absolute[PATH_MAX];

	snprintf(text, size, "%s=%s", option, realpath(path, absolute) ? absolute : path);
	add(command, text);
}

static void add_address(struct command *command, const struct rd_export_options *options,
			const struct rd_export *export)
{
	if (options->address) {
		snprintf(command->port, sizeof(command->port), "%u", options->port);
		add(command, "--ipaddr");
		add(command, options->address);
		add(command, "--port");
		add(command, command->port);
	} else {
		add(command, "--unix");
		add(command, export->socket);
	}
	if (options->tls_certificates || options->tls_psk)
		add(command, "--tls=require");
	if (options->tls_certificates) {
		add_path(command, command->certificates, sizeof(command->certificates),
			 "--tls-certificates", options->tls_certificates);
		/* The certificate of the authority is no secret, and would be enough. */
		if (!options->insecure)
			add(command, "--tls-verify-peer");
	}
	if (options->tls_psk)
		add_path(command, command->psk, sizeof(command->psk), "--tls-psk",
			 options->tls_psk);
}

/* Our plugin, for a version of a pool of this host. */
static void add_plugin(struct command *command, const struct rd_export_options *options,
		       const char *pool)
{
	/* nbdkit reads keys for TLS at each connection, which only root may. */
	const char *user = options->tls_psk ? NULL : rd_export_user();

	find_plugin(command->plugin);
	add(command, command->plugin);
	snprintf(command->pool, sizeof(command->pool), "pool=%s", pool);
	add(command, command->pool);
	if (options->name) {
		snprintf(command->version, sizeof(command->version), "version=%s", options->name);
		add(command, command->version);
	}
	if (user) {
		snprintf(command->user, sizeof(command->user), "user=%s", user);
		add(command, command->user);
	}
}

/* That of nbdkit which runs a server for each client: see cli/remote_disk.c. */
static void add_elsewhere(struct command *command, const struct rd_export_options *options)
{
	char self[PATH_MAX];

	add(command, "nbd");
	find_self(self);
	snprintf(command->plugin, sizeof(command->plugin), "command=%.*s", PATH_MAX - 9, self);
	add(command, command->plugin);
	add(command, "arg=serve");
	snprintf(command->version, sizeof(command->version), "arg=%s", options->name);
	add(command, command->version);
	add(command, "arg=--from");
	snprintf(command->pool, sizeof(command->pool), "arg=%s", options->from);
	add(command, command->pool);
	if (!options->rsh)
		return;
	add(command, "arg=--rsh");
	snprintf(command->rsh, sizeof(command->rsh), "arg=%s", options->rsh);
	add(command, command->rsh);
}

static void make_command(struct command *command, const struct rd_export_options *options,
			 const struct rd_export *export)
{
	command->nr = 0;
	add(command, "nbdkit");
	add(command, "--foreground");
	add(command, "--exit-with-parent");
	if (options->background)
		add(command, "--log=syslog");
	rd_export_file(command->pid, export->name, "pid");
	add(command, "--pidfile");
	add(command, command->pid);
	add_address(command, options, export);
	if (options->device || options->own)
		add(command, "--filter=truncate");
	add(command, options->writable ? "--filter=cow" : "--read-only");
	/* A device connects once, and the export ends with it. */
	if (options->device && options->from)
		add(command, "--filter=exitlast");
	if (options->from)
		add_elsewhere(command, options);
	else
		add_plugin(command, options, export->pool);
	/* A device has whole sectors; the module fills the last one with zeros, too. */
	if (options->device || options->own)
		add(command, "round-up=512");
	if ((options->device && !options->from) || (options->own && options->writable))
		add(command, "clients=1");
	add(command, NULL);
}

static int tell_no_nbdkit(int r)
{
	rd_err(r, "cannot run 'nbdkit'");
	rd_hint("nothing was exported; the Debian package nbdkit has it");
	return r;
}

int rd_export_is_possible(void)
{
	char *const argv[] = { "nbdkit", "--version", NULL };
	int r = rd_run_quietly(argv, NULL);

	return r < 0 ? tell_no_nbdkit(r) : 0;
}

int rd_export_on_stdio(const struct rd_export_options *options)
{
	struct command command = { .nr = 0 };

	add(&command, "nbdkit");
	add(&command, "--single");
	add(&command, "--read-only");
	if (options->rate)
		add(&command, "--filter=rate");
	add_plugin(&command, options, options->pool);
	if (options->rate) {
		snprintf(command.rate, sizeof(command.rate), "rate=%llu", 8 * options->rate);
		add(&command, command.rate);
	}
	add(&command, NULL);
	signal(SIGPIPE, SIG_DFL);
	execvp(command.args[0], (char *const *)command.args);
	return tell_no_nbdkit(-errno);
}

/* Fork nbdkit, which gets the open file @fd. */
static pid_t spawn(const struct command *command, int fd)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	fcntl(fd, F_SETFD, 0);
	/* Whoever may write to the socket reads the disk; its owner can let others do so. */
	umask(077);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	execvp(command->args[0], (char *const *)command->args);
	tell_no_nbdkit(-errno);
	_exit(127);
}

/* --- is it there? */

static int connect_tcp(const struct rd_export_options *options)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all, *one;
	char port[16];
	int fd = -1;

	snprintf(port, sizeof(port), "%u", options->port);
	if (getaddrinfo(options->address, port, &hints, &all))
		return -1;
	for (one = all; one && fd < 0; one = one->ai_next) {
		fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	return fd;
}

/*
 * Has the server greeted, after which it has opened the pool? Say good-bye then. A process
 * that listens may not have got so far.
 */
static bool is_greeted(int fd)
{
	static const u8 leave[] = {
		0, 0, 0, 1,				/* fixed newstyle */
		'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T',
		0, 0, 0, 2, 0, 0, 0, 0,			/* NBD_OPT_ABORT */
	};
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char magic[8];

	return poll(&poll_fd, 1, 0) > 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
		!memcmp(magic, "NBDMAGIC", sizeof(magic)) &&
		write(fd, leave, sizeof(leave)) == sizeof(leave);
}

static int wait_ready(pid_t pid, const struct rd_export_options *options,
		      struct rd_export *export)
{
	u64 end = rd_now_us() + START_MS * 1000ULL;
	int r = 0;

	RD_CLOSE int fd = -1;

	while (!r && !(rd_export_read_pid(export) && fd >= 0 && is_greeted(fd))) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			r = -EIO;
		else if (rd_now_us() > end)
			r = rd_err(-ETIME, "nbdkit does not get ready");
		else if (fd < 0)
			fd = options->address ? connect_tcp(options) :
				rd_socket_connect(export->socket);
		if (!r)
			usleep(STEP_US);
	}
	if (r != -EIO && r)
		kill(pid, SIGTERM);
	if (r)
		rd_hint("nothing was exported%s", options->background ?
			"; the system's log may say why" : "");
	return r;
}

/* --- starting one */

/* Remove what a process that was killed has left at a path that the user has named. */
static int clear_socket(const struct rd_export *export)
{
	RD_CLOSE int fd = -1;
	struct stat st;

	if (!export->socket[0] || lstat(export->socket, &st))
		return 0;
	fd = rd_socket_connect(export->socket);
	if (S_ISSOCK(st.st_mode) && fd == -ECONNREFUSED && !unlink(export->socket))
		return 0;
	rd_err(0, "there is a file '%s' already", export->socket);
	rd_remedy(RD_REMEDY_NAME_SOCKET, NULL, "nothing was exported");
	return -EEXIST;
}

static int name_socket(struct rd_export *export, const struct rd_export_options *options)
{
	bool is_relative = options->socket && options->socket[0] != '/';
	char here[PATH_MAX] = "", own[32];

	if (options->address)
		return 0;
	snprintf(own, sizeof(own), "map-%d", (int)getpid());
	/* unexport may be called elsewhere. */
	if (is_relative && !getcwd(here, sizeof(here) - 1))
		return rd_err(-errno, "cannot find the present directory");
	if (options->socket)
		snprintf(export->socket, sizeof(export->socket), "%.2000s%s%.2000s", here,
			 is_relative ? "/" : "", options->socket);
	else if (options->device)
		/* A device may have a name that is too long for it. */
		rd_export_file(export->socket, own, "sock");
	else
		rd_export_socket(export->socket, export->name);
	if (strlen(export->socket) <= RD_SOCKET_PATH)
		return 0;
	rd_err(0, "'%s' is too long: the path of a socket has at most %d bytes", export->socket,
	       RD_SOCKET_PATH);
	if (options->device || options->own)
		rd_hint("nothing was exported; REVDEDUP_RUN names another directory for it");
	else
		rd_remedy(RD_REMEDY_NAME_SOCKET, NULL, "nothing was exported");
	return -ENAMETOOLONG;
}

/* Wait for nbdkit, which runs as @pid, and end it when asked to. Returns its status. */
static int supervise(pid_t pid, const struct rd_export_options *options)
{
	int status;

	while (waitpid(pid, &status, 0) != pid) {
		if (errno != EINTR)
			return -1;
		if (*options->stop)
			kill(pid, SIGTERM);
	}
	return status;
}

/* The process that stays in the background, with nbdkit as its child. */
static void run_in_background(const struct command *command,
			      const struct rd_export_options *options,
			      const struct rd_export *export)
{
	int null = open("/dev/null", O_RDWR), fd;

	setsid();
	/* What connects to another host may be named from here. */
	if (!options->from)
		(void)!chdir("/");
	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	supervise(spawn(command, export->fd), options);
	rd_export_remove_files(export);
	_exit(0);
}

static int start(const struct rd_export_options *options, struct rd_export *export)
{
	struct command command;
	pid_t pid = -1;
	int r;

	export->fd = rd_export_make_file(export);
	if (export->fd < 0)
		return export->fd;
	r = clear_socket(export);
	if (r)
		/* It is not ours to remove. */
		export->socket[0] = '\0';
	make_command(&command, options, export);
	if (!r) {
		pid = options->background ? fork() : spawn(&command, export->fd);
		if (!pid)
			run_in_background(&command, options, export);
		r = pid < 0 ? rd_err(-errno, "cannot start 'nbdkit'") : 0;
	}
	if (!r)
		r = wait_ready(pid, options, export);
	if (r)
		rd_export_remove_files(export);
	/* Without a process in the foreground the one in the background alone has the lock. */
	if (r || options->background)
		close(export->fd);
	return r;
}

static void set_name(struct rd_export *export, const struct rd_export_options *options)
{
	if (options->name)
		snprintf(export->version, sizeof(export->version), "%s", options->name);
	if (options->asked)
		snprintf(export->asked, sizeof(export->asked), "%s", options->asked);
	export->is_own = options->own;
	if (!options->device) {
		snprintf(export->name, sizeof(export->name), "%s",
			 options->own ? options->own : options->name ? options->name : "all");
		return;
	}
	snprintf(export->device, sizeof(export->device), "%s", options->device);
	rd_export_device_name(export->name, options->device);
}

int rd_export_describe(const struct rd_export_options *options, struct rd_export *ret)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	set_name(ret, options);
	ret->writable = options->writable;
	r = name_socket(ret, options);
	if (!r)
		make_uri(ret, options);
	return r;
}

int rd_export_start(const struct rd_export_options *options, struct rd_export *ret)
{
	char pool[PATH_MAX];
	int r = check_address(options);

	if (!r)
		r = rd_export_describe(options, ret);
	if (r)
		return r;
	if (!options->from && !realpath(options->pool, pool))
		return rd_err(-errno, "cannot find '%s'", options->pool);
	snprintf(ret->pool, sizeof(ret->pool), "%s", options->from ? options->from : pool);
	return start(options, ret);
}

/* --- ending one */

int rd_export_wait(const struct rd_export_options *options, const struct rd_export *export)
{
	int status = supervise(export->pid, options);

	rd_export_remove_files(export);
	close(export->fd);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status))
		rd_err(0, "nbdkit was ended by signal %d", WTERMSIG(status));
	else
		rd_err(0, "nbdkit has failed");
	return -EIO;
}

int rd_export_connect(const struct rd_export *export)
{
	int fd = rd_socket_connect(export->socket);

	return fd < 0 ? rd_err(fd, "cannot connect to '%s'", export->socket) : fd;
}

void rd_export_end(const struct rd_export *export)
{
	kill(export->pid, SIGTERM);
	if (!rd_run_ends_within(export->pid, KILL_MS))
		kill(export->pid, SIGKILL);
	while (waitpid(export->pid, NULL, 0) < 0 && errno == EINTR)
		;
	rd_export_remove_files(export);
	close(export->fd);
}

/*
 * Ask nbdkit to end, once, or make it: a client that is silent can keep it waiting, and to be
 * killed leaves nothing locked.
 */
static int ask_to_end(struct rd_export *export, pid_t *asked, bool kill_it)
{
	if (!rd_export_read_pid(export) || (export->pid == *asked && !kill_it))
		return 0;
	*asked = export->pid;
	/* The lock says that this is the process; so its number is no other's by now. */
	if (!rd_export_is_locked(export) || !kill(export->pid, kill_it ? SIGKILL : SIGTERM) ||
	    errno == ESRCH)
		return 0;
	return rd_err(-errno, "cannot end process %d, which exports %s", (int)export->pid,
		      export->name);
}

int rd_export_stop(const struct rd_export *export)
{
	u64 begin = rd_now_us();
	struct rd_export now = *export;
	pid_t asked = 0;
	int r = 0;

	while (!r && rd_export_is_locked(export)) {
		u64 waited = rd_now_us() - begin;

		if (waited > STOP_MS * 1000ULL) {
			rd_err(0, "process %d, which exports %s, does not end", (int)now.pid,
			       now.name);
			rd_hint("'ps' shows what it waits for");
			return -EBUSY;
		}
		r = ask_to_end(&now, &asked, waited > KILL_MS * 1000ULL);
		usleep(STEP_US);
	}
	if (!r)
		rd_export_remove_files(export);
	return r;
}
