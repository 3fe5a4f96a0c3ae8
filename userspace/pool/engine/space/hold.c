// SPDX-License-Identifier: GPL-2.0
/* Processes that hold versions; see hold.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/sessions.h"
#include "hold.h"
#include "lease.h"

/* In the place of a device's UUID, with the number of the session. */
#define HOLD	"session-"

static i64 session_of(const struct rd_lease *lease)
{
	long long id;

	return sscanf(lease->device, HOLD "%lld", &id) == 1 ? id : 0;
}

bool rd_lease_is_hold(const struct rd_lease *lease)
{
	return session_of(lease) > 0;
}

int rd_lease_of_device(struct rd_sql *sql, struct rd_lease *ret)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	size_t i, nr;
	int r = rd_lease_list(sql, NULL, &leases);

	lease = (const struct rd_lease *)leases.data;
	nr = leases.len / sizeof(*lease);
	for (i = 0; i < nr && rd_lease_is_hold(&lease[i]);)
		i++;
	if (!r && i == nr)
		r = -ENOENT;
	if (!r)
		*ret = lease[i];
	return r;
}

static int insert(struct rd_pool *pool, const struct rd_version *version, i64 *ret_id)
{
	char device[RD_DEVICE_MAX];
	struct rd_version now;
	int r;

	snprintf(device, sizeof(device), HOLD "%lld", pool->session);
	r = rd_version_by_id(pool->sql, version->id, &now);
	if (!r && !rd_version_exists(&now))
		r = -ENOENT;
	return r ? r : rd_lease_insert(pool->sql, &now, device, ret_id);
}

int rd_hold_add(struct rd_pool *pool, const struct rd_version *version, i64 *ret_id)
{
	int r;

	if (!pool->session)
		return -EROFS;
	r = rd_failpoint("hold-add");
	return r ? r : rd_catalog_do(pool->sql, insert(pool, version, ret_id));
}

int rd_hold_for(struct rd_pool *pool, i64 pid)
{
	return rd_catalog_do(pool->sql, rd_session_set_pid(pool->sql, pool->session, pid));
}

int rd_hold_drop(struct rd_pool *pool, i64 id)
{
	int r = rd_failpoint("hold-drop");

	return r ? r : rd_lease_forget(pool, id);
}

int rd_hold_pid(struct rd_pool *pool, const struct rd_lease *lease, i64 *ret_pid)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_session *session;
	int r = rd_session_list(pool->sql, 0, &all);
	size_t nr = all.len / sizeof(*session);

	*ret_pid = 0;
	session = (const struct rd_session *)all.data;
	for (; !r && nr--; session++)
		if (session->id == session_of(lease))
			*ret_pid = session->pid;
	return r;
}

int rd_hold_is_alive(struct rd_pool *pool, const struct rd_lease *lease)
{
	struct rd_lock lock = RD_LOCK_NONE;
	i64 id = session_of(lease);
	int r;

	if (id == pool->session)
		return 1;
	r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_SESSION, id, true, 0);
	rd_lock_drop(&lock);
	return r == -EAGAIN ? 1 : r;
}

bool rd_hold_is_over(struct rd_pool *pool, const struct rd_lease *lease)
{
	i64 id = session_of(lease);

	return id > 0 && id != pool->session &&
		!rd_lock_is_held(pool->lock_fd, RD_LOCK_SESSION, id);
}

int rd_hold_drop_dead(struct rd_pool *pool)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_lease *lease;
	int r = rd_lease_list(pool->sql, NULL, &all);
	size_t nr = all.len / sizeof(*lease);

	lease = (const struct rd_lease *)all.data;
	for (; !r && nr--; lease++) {
		if (!rd_lease_is_hold(lease))
			continue;
		r = rd_hold_is_alive(pool, lease);
		if (!r) {
			rd_info("forgetting what session %lld read, which has died",
				session_of(lease));
			r = rd_lease_forget(pool, lease->id);
		} else if (r > 0) {
			r = 0;
		}
	}
	return r;
}
