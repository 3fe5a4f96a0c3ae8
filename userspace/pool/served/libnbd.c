// SPDX-License-Identifier: GPL-2.0
/* Load libnbd: see libnbd.h. */
#include "base/library.h"
#include "base/units.h"
#include "libnbd.h"

#define CALL(name)	{ "nbd_" #name, offsetof(struct rd_libnbd, name) }

static const struct rd_library_call table[] = {
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
	static struct rd_library library = {
		.file = "libnbd.so.0",
		.name = "libnbd",
		.purpose = "to read over NBD",
		.packages = "'libnbd0', Fedora's 'libnbd'",
		.calls = table,
		.nr = ARRAY_SIZE(table),
	};

	*ret = &calls;
	return rd_library_load(&library, &calls);
}
