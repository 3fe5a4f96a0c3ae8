/* SPDX-License-Identifier: GPL-2.0 */
/* A client of a Ceph cluster: what a pool in RADOS and a disk on RBD have in common. */
#ifndef RD_CEPH_H
#define RD_CEPH_H

#include <stddef.h>

#include "librados.h"

struct rd_ceph {
	const struct rd_librados *lib;
	char *name;		/* to people */
	char *text;		/* that the next four are in */
	const char *pool;
	char *path;		/* in the pool */
	const char *user;	/* without "client." */
	const char *conf;	/* or NULL */
	const char *patience;	/* with a cluster that does not answer, in seconds */
	rados_t cluster;
	rados_ioctx_t io;
};

/*
 * Take @name apart: @skip bytes, POOL/PATH, and ":id=USER" and ":conf=FILE" behind
 * it. @ret_why: without a message, what is wrong with it; -EINVAL.
 */
int rd_ceph_parse(struct rd_ceph *ceph, const char *name, size_t skip, const char **ret_why);

/* Load librados, and read the settings. */
int rd_ceph_configure(struct rd_ceph *ceph);

/* Connect to the cluster, and find the pool, with @space as the namespace, or NULL. */
int rd_ceph_connect(struct rd_ceph *ceph, const char *space);

/* Undo all of that, as far as it was done. */
void rd_ceph_close(struct rd_ceph *ceph);

#endif
