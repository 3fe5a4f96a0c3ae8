/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nbdkit-revdedup-plugin: versions of a pool as exports of nbdkit, read-only.
 *
 *	nbdkit revdedup pool=DIR			all versions
 *	nbdkit revdedup pool=DIR version=vm1@3 ...	these alone
 *	nbdkit revdedup ... clients=1			to one client, see thread_model()
 *	nbdkit revdedup ... user=nobody			from root to that user, once it has all open
 *
 * An export is called VOL@N, VOL@latest, VOL (the same) or VOL@TAG; the names are looked up
 * when a client connects, and what it has then stays. The name "" is the first one of
 * version=, or the newest version of the only volume.
 *
 * A version that version= names is held (hold.h) as long as the server runs, any
 * other from the first read of a client until the last client that has it goes. It is not
 * held when a client only connects, as one does that lists exports: 500 of these would write
 * to the catalog 500 times. A process of its own writes the holds (holder.c), which a thread
 * of its own asks to (holds.c): the server has nothing of the pool open for writing but the
 * catalog's index of its log, and where another command keeps the catalog for itself, clients read
 * on. A user who may not write to the pool holds nothing, as revdedupctl says. All reads are
 * checked, so of a version that is deleted before it is held they give the right bytes or an error.
 *
 * The first read of a client also proves the version (proof.h), as a restore does first;
 * "revdedupctl export VOL@N" does that before as well, to say so at once. Opening costs the same
 * for every version.
 *
 * nbdkit's side (plugin.c) has the callbacks; exports.c the versions in use; holds.c and
 * holder.c what holds them; messages.c what the engine says, which goes to nbdkit's log.
 */
#ifndef NBD_H
#define NBD_H

#include "pool/engine/read/random.h"

#define NBD_NAME_MAX	256

/* A version that clients have, or that the server holds. */
struct nbd_export {
	struct nbd_export *next;
	struct rd_disk disk;
	char name[NBD_NAME_MAX];	/* VOL@N */
	unsigned int refs;
	enum nbd_use {
		NBD_UNUSED,		/* no client has read from it */
		NBD_PROVING,
		NBD_PROVEN,
		NBD_WRONG,
	} use;
	bool wants_hold;		/* and does not know yet whether it gets one */
	i64 hold;			/* 0: none */
};

/* The process that writes holds. */
struct nbd_holder {
	pid_t pid;			/* 0: none, as this user may not write to the pool */
	int fd;
};

struct nbd_server {
	char *path;
	char **names;			/* of version= */
	unsigned int nr_names;
	unsigned int nr_clients;	/* that will connect; 0: any number */
	const char *user;		/* to become */
	struct rd_pool *pool;
	struct rd_random *random;
	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t changed;		/* a use, or what wants a hold */
	struct nbd_export *exports;

	struct nbd_holder holder;
	pthread_t thread;		/* that asks it */
	struct nbd_export *ended;	/* whose holds are to be ended */
	bool stop;
};

/* --- exports.c */

/* See that the pool can be opened. */
int nbd_check(const char *path);

/* Open the pool, and hold what version= names. */
int nbd_start(struct nbd_server *server);
/* End all holds, and close the pool. */
void nbd_stop(struct nbd_server *server);

/* Find the version called @name, and count one user more. NULL, after a message. */
struct nbd_export *nbd_get(struct nbd_server *server, const char *name);
void nbd_put(struct nbd_server *server, struct nbd_export *export);

/* Before a read: hold and prove the version, unless that was done. -EIO, after a message. */
int nbd_use(struct nbd_server *server, struct nbd_export *export);

/* Copy the name of the default export. -ENOENT: there is none. */
int nbd_default_name(struct nbd_server *server, char ret[NBD_NAME_MAX]);

/* Append struct nbd_listed for each export. */
struct nbd_listed {
	char name[NBD_NAME_MAX];
	char about[64];
};

int nbd_list(struct nbd_server *server, struct rd_buffer *ret);

/* --- holds.c */

/* Start thread and process. Without them, as in a pool that is only read, nothing is held. */
int nbd_start_holding(struct nbd_server *server);
/* End all holds of @server->ended, the thread and the process. */
void nbd_stop_holding(struct nbd_server *server);

/*
 * Ask for a hold, and wait for it a moment: longer than a command needs for a transaction, but not
 * for one that is stopped. The caller has the lock.
 */
void nbd_hold(struct nbd_server *server, struct nbd_export *export);
/* End the hold of an export that is not in the list any more, and free it; with the lock. */
void nbd_end_hold(struct nbd_server *server, struct nbd_export *export);

/* --- holder.c */

/* Start the process, which opens the pool. After an error there is none. */
int nbd_holder_start(struct nbd_holder *holder, const char *path);
/* Let it end, and wait for that. */
void nbd_holder_stop(struct nbd_holder *holder);
/* Hold the version with the id @version. -ENOENT: it is gone; -EPIPE: the process is. */
int nbd_holder_add(const struct nbd_holder *holder, i64 version, i64 *ret_hold);
void nbd_holder_drop(const struct nbd_holder *holder, i64 hold);

/* --- messages.c */

/* Print all messages of the engine to nbdkit's log from now on. @pool: for remedies. */
void nbd_print_messages(const char *pool);

#endif
