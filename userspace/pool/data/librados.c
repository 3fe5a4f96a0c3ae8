// SPDX-License-Identifier: GPL-2.0
/* Load librados: see librados.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "librados.h"

#define LIBRARY		"librados.so.2"

#define CALL(name)	{ "rados_" #name, offsetof(struct rd_librados, name) }

static const struct {
	const char *name;
	size_t at;
} table[] = {
	CALL(create),
	CALL(conf_read_file),
	CALL(conf_parse_env),
	CALL(conf_set),
	CALL(connect),
	CALL(shutdown),
	CALL(ioctx_create),
	CALL(ioctx_destroy),
	CALL(ioctx_set_namespace),
	CALL(set_pool_full_try),
	CALL(aio_getxattr),
	CALL(nobjects_list_open),
	CALL(nobjects_list_next),
	CALL(nobjects_list_close),
	CALL(watch3),
	CALL(unwatch2),
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
	static void *library;
	size_t i;
	void *call;

	*ret = &calls;
	if (library)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW);
	if (!library) {
		rd_err(0, "a pool in RADOS takes librados: %s", dlerror());
		rd_hint("Debian's package is 'librados2', Fedora's too");
		return -ELIBACC;
	}
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		call = dlsym(library, table[i].name);
		if (!call)
			return rd_err(-ELIBACC, "librados has no '%s'", table[i].name);
		memcpy((char *)&calls + table[i].at, &call, sizeof(call));
	}
	return 0;
}
