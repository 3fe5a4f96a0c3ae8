/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Versions exported by NBD: nbdkit with our plugin (nbd/nbd.h), one process an export, and
 * what this host knows of those that run:
 *
 *	/run/revdedup/vm1@3.export	a few lines, see struct rd_export
 *	/run/revdedup/vm1@3.pid		of nbdkit
 *	/run/revdedup/vm1@3.sock	the socket, where none was named; vm1~1a2b3c4d.sock
 *					where that is too long for a socket
 *
 * A user other than root has them in $XDG_RUNTIME_DIR/revdedup, or in /tmp/revdedup-UID;
 * REVDEDUP_RUN names another directory. A "/" in the name is a "-" there. The export that a
 * device of the kernel's nbd reads (mapped_nbd.h) is called after that: NAME:map. One that a
 * command has for itself is named by it: VOL@N:boot (cmd_verify.c), or files-PID, which has a
 * directory files-PID.tmp, and files-PID.link to another one in /var/tmp (guest.h).
 *
 * nbdkit is the child of revdedupctl itself, or of a process in the background, which removes
 * its files. Both have the open file of the first, with a lock of it (flock), which goes with the
 * processes however they end. So a file without a lock is what processes left that were killed,
 * and the next command that looks removes it. The version is held by nbdkit itself.
 */
#ifndef RD_EXPORT_H
#define RD_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buffer.h"

#define RD_EXPORT_NAME	160
#define RD_EXPORT_URI	(3 * PATH_MAX)

struct rd_export {
	char name[RD_EXPORT_NAME];	/* "vm1@3", "all", or one of those above */
	char asked[RD_EXPORT_NAME];	/* what the user called it, "vm1@tag" */
	char version[RD_EXPORT_NAME];	/* "vm1@3", or "" for all */
	char device[RD_EXPORT_NAME];	/* NAME of the device that reads it, or "" */
	char pool[PATH_MAX];
	char uri[RD_EXPORT_URI];
	char socket[PATH_MAX];		/* "": TCP */
	bool writable;
	bool is_own;			/* a command has it for itself */
	pid_t pid;			/* of nbdkit */
	int fd;				/* of its file, in the process that started it */
};

struct rd_export_options {
	const char *name;		/* of the version, VOL@N; NULL: all */
	const char *asked;		/* what the user calls it; NULL: the same */
	const char *pool;
	const char *from;		/* instead: a pool of another host, HOST:POOL, which */
	const char *rsh;		/* this reaches; NULL: ssh */
	u64 rate;			/* bytes a second, on stdin and stdout; 0: any */
	const char *device;		/* that is to read it; NULL: any client */
	const char *socket;		/* a path; NULL: by its name, or TCP */
	const char *address;		/* NULL: no TCP */
	unsigned int port;
	const char *tls_certificates;	/* a directory, or NULL */
	const char *tls_psk;		/* a file, or NULL */
	bool insecure;			/* TCP without TLS; or no certificate of the client */
	bool writable;			/* what is written is thrown away in the end */
	const char *own;		/* the name of one that this command reads, or NULL */
	bool background;
	volatile int *stop;		/* not 0 once a signal asks to end */
};

/*
 * Start an export, and wait until it can be connected to. In the foreground it ends with
 * this process. -EPERM: TCP without TLS, unless @options->insecure; says so.
 */
int rd_export_start(const struct rd_export_options *options, struct rd_export *ret);

/* The user that speaks with clients, where that is not the one that starts an export: or NULL. */
const char *rd_export_user(void);

/* Is it of a pool of this host? */
static inline bool rd_export_is_here(const struct rd_export *export)
{
	return export->pool[0] == '/';
}

/* Is nbdkit there? 0, or -errno, after a message. */
int rd_export_is_possible(void);

/*
 * Become an export, of this pool and read-only, for one client, on stdin and stdout. Returns an
 * error.
 */
int rd_export_on_stdio(const struct rd_export_options *options);

/* Fill in what an export would be, without starting it: its names and addresses. */
int rd_export_describe(const struct rd_export_options *options, struct rd_export *ret);

/*
 * Wait until an export in the foreground ends, and end it once *@options->stop is not 0.
 * Removes its files. -EIO, after a message: it did not end well.
 */
int rd_export_wait(const struct rd_export_options *options, const struct rd_export *export);

/* Connect to an export with a socket: the descriptor, or -errno, after a message. */
int rd_export_connect(const struct rd_export *export);

/* End an export in the foreground, without a word of how it ended. */
void rd_export_end(const struct rd_export *export);

/* Has the user asked for it? A device or a command reads others, and ends them. */
static inline bool rd_export_is_asked(const struct rd_export *export)
{
	return !export->device[0] && !export->is_own;
}

/* End an export that runs on this host, and remove its files. */
int rd_export_stop(const struct rd_export *export);

/* Append a struct rd_export for each that runs, and remove the files of others. */
int rd_exports(struct rd_buffer *ret);

#endif
