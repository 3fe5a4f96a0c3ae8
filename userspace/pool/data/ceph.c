// SPDX-License-Identifier: GPL-2.0
/* Connect to a Ceph cluster: see ceph.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ceph.h"

/* A cluster that does not answer to a new client for so many seconds has failed. */
static const char *patience(void)
{
#ifdef RD_TEST
	if (getenv("REVDEDUP_CEPH_SECONDS"))
		return getenv("REVDEDUP_CEPH_SECONDS");
#endif
	return "60";
}

/* --- the name */

static const char *parse_options(struct rd_ceph *ceph, char *option)
{
	char *next;

	for (; option; option = next) {
		next = strchr(option, ':');
		if (next)
			*next++ = '\0';
		if (!strncmp(option, "id=", 3) && option[3])
			ceph->user = option + 3;
		else if (!strncmp(option, "conf=", 5) && option[5])
			ceph->conf = option + 5;
		else
			return "only the options id= and conf= are known";
	}
	return NULL;
}

int rd_ceph_parse(struct rd_ceph *ceph, const char *name, size_t skip, const char **ret_why)
{
	char *options;

	ceph->name = strdup(name);
	ceph->patience = patience();
	ceph->user = "admin";
	ceph->text = strdup(name + skip);
	if (!ceph->name || !ceph->text)
		return -ENOMEM;
	options = strchr(ceph->text, ':');
	if (options)
		*options++ = '\0';
	ceph->pool = ceph->text;
	ceph->path = strchr(ceph->text, '/');
	if (ceph->path)
		*ceph->path++ = '\0';
	*ret_why = !ceph->path ? "it names a pool of Ceph, and nothing there" :
		!*ceph->pool || !*ceph->path ? "a name is empty" : parse_options(ceph, options);
	return *ret_why ? -EINVAL : 0;
}

/* --- the cluster */

static int refused(const struct rd_ceph *ceph, int r)
{
	switch (r) {
	case -ETIMEDOUT:
		rd_err(0, "no monitor of the cluster of '%s' has answered for %s seconds",
		       ceph->name, ceph->patience);
		break;
	/* Which of these it is depends on the version. */
	case -ENOENT:
	case -EPERM:
	case -EACCES:
		rd_err(0, "the cluster of '%s' refuses client.%s: it has no key, or not the right one",
		       ceph->name, ceph->user);
		rd_hint("Ceph looks for it in /etc/ceph/ceph.client.%s.keyring; ':id=USER' names another user",
			ceph->user);
		break;
	default:
		rd_err(r, "cannot connect to the cluster of '%s'", ceph->name);
	}
	return r;
}

int rd_ceph_configure(struct rd_ceph *ceph)
{
	int r = rd_librados_load(&ceph->lib);

	if (r)
		return r;
	r = ceph->lib->create(&ceph->cluster, ceph->user);
	if (r) {
		ceph->cluster = NULL;
		return rd_err(r, "cannot use Ceph");
	}
	r = ceph->lib->conf_read_file(ceph->cluster, ceph->conf);
	if (r) {
		rd_err(r, "cannot read the settings of the cluster of '%s'", ceph->name);
		rd_hint("they are in /etc/ceph/ceph.conf, unless CEPH_CONF or ':conf=FILE' names another file");
		return r;
	}
	/* CEPH_ARGS */
	ceph->lib->conf_parse_env(ceph->cluster, NULL);
	ceph->lib->conf_set(ceph->cluster, "client_mount_timeout", ceph->patience);
	ceph->lib->conf_set(ceph->cluster, "rados_mon_op_timeout", ceph->patience);
	return 0;
}

int rd_ceph_connect(struct rd_ceph *ceph, const char *space)
{
	int r = ceph->lib->connect(ceph->cluster);

	if (r)
		return refused(ceph, r);
	r = ceph->lib->ioctx_create(ceph->cluster, ceph->pool, &ceph->io);
	if (r == -ENOENT)
		return rd_err(0, "the cluster has no pool '%s'", ceph->pool), r;
	if (r)
		return rd_err(r, "cannot find the pool of '%s'", ceph->name);
	if (space)
		ceph->lib->ioctx_set_namespace(ceph->io, space);
	return 0;
}

void rd_ceph_close(struct rd_ceph *ceph)
{
	if (ceph->io)
		ceph->lib->ioctx_destroy(ceph->io);
	if (ceph->cluster)
		ceph->lib->shutdown(ceph->cluster);
	free(ceph->text);
	free(ceph->name);
}
