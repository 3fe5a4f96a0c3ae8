// SPDX-License-Identifier: GPL-2.0
/* Load libnbd: see libnbd.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "libnbd.h"

#define LIBRARY		"libnbd.so.0"

#define CALL(name)	{ "nbd_" #name, offsetof(struct rd_libnbd, name) }

static const struct {
	const char *name;
	size_t at;
} table[] = {
	CALL(create),
	CALL(close),
	CALL(get_error),
	CALL(get_errno),
	CALL(poll),
	CALL(add_meta_context),
	CALL(can_meta_context),
	CALL(set_pread_initialize),
	CALL(set_uri_allow_local_file),
	CALL(aio_connect_uri),
	CALL(aio_connect_systemd_socket_activation),
	CALL(aio_is_connecting),
	CALL(aio_is_ready),
	CALL(get_size),
	CALL(get_block_size),
	CALL(can_flush),
	CALL(is_read_only),
	CALL(aio_get_fd),
	CALL(aio_get_direction),
	CALL(aio_pread),
	CALL(aio_pwrite),
	CALL(aio_flush),
	CALL(aio_block_status),
	CALL(aio_command_completed),
};

_Static_assert(sizeof(struct rd_libnbd) == ARRAY_SIZE(table) * sizeof(void *),
	       "a line for each call");

int rd_libnbd_load(const struct rd_libnbd **ret)
{
	static struct rd_libnbd calls;
	static void *library;
	size_t i;
	void *call;

	*ret = &calls;
	if (library)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW);
	if (!library) {
		rd_err(0, "to read over NBD takes libnbd: %s", dlerror());
		rd_hint("Debian's package is 'libnbd0', Fedora's 'libnbd'");
		return -ELIBACC;
	}
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		call = dlsym(library, table[i].name);
		if (!call)
			return rd_err(-ELIBACC, "libnbd has no '%s'", table[i].name);
		memcpy((char *)&calls + table[i].at, &call, sizeof(call));
	}
	return 0;
}
