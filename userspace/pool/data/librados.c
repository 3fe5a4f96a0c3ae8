// SPDX-License-Identifier: GPL-2.0
/* Load librados: see librados.h. */
#include "base/library.h"
#include "base/units.h"
#include "librados.h"

#define CALL(name)	{ "rados_" #name, offsetof(struct rd_librados, name) }

static const struct rd_library_call table[] = {
	CALL(create),
	CALL(conf_read_file),
	CALL(conf_parse_env),
	CALL(conf_set),
	CALL(conf_get),
	CALL(connect),
	CALL(shutdown),
	CALL(mon_command),
	CALL(ioctx_create),
	CALL(ioctx_destroy),
	CALL(cluster_fsid),
	CALL(ioctx_get_id),
	CALL(ioctx_set_namespace),
	CALL(ioctx_pool_requires_alignment2),
	CALL(set_pool_full_try),
	CALL(aio_getxattr),
	CALL(nobjects_list_open),
	CALL(nobjects_list_next),
	CALL(nobjects_list_close),
	CALL(watch3),
	CALL(unwatch2),
	CALL(watch_check),
	CALL(watch_flush),
	CALL(notify2),
	CALL(notify_ack),
	CALL(decode_notify_response),
	CALL(free_notify_response),
	CALL(buffer_free),
	CALL(create_write_op),
	CALL(release_write_op),
	CALL(write_op_create),
	CALL(write_op_cmpxattr),
	CALL(write_op_setxattr),
	CALL(write_op_write),
	CALL(write_op_truncate),
	CALL(write_op_zero),
	CALL(write_op_remove),
	CALL(write_op_exec),
	CALL(aio_write_op_operate),
	CALL(create_read_op),
	CALL(release_read_op),
	CALL(read_op_read),
	CALL(aio_read_op_operate),
	CALL(aio_create_completion2),
	CALL(aio_get_return_value),
	CALL(aio_release),
};

_Static_assert(sizeof(struct rd_librados) == ARRAY_SIZE(table) * sizeof(void *),
	       "a line for each call");

int rd_librados_load(const struct rd_librados **ret)
{
	static struct rd_librados calls;
	static struct rd_library library = {
		.file = "librados.so.2",
		.name = "librados",
		.purpose = "to use a Ceph cluster",
		.packages = "'librados2', Fedora's too",
		.calls = table,
		.nr = ARRAY_SIZE(table),
	};

	*ret = &calls;
	return rd_library_load(&library, &calls);
}
