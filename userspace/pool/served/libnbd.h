/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libnbd, loaded when the first disk is read over NBD: with the libraries for TLS and XML that it
 * brings, each command would start later, and those that need none are most.
 */
#ifndef RD_LIBNBD_H
#define RD_LIBNBD_H

#include <libnbd.h>

#define RD_LIBNBD_CALLS(X) \
	X(create) X(close) X(get_error) X(get_errno) X(poll) \
	X(add_meta_context) X(can_meta_context) X(set_pread_initialize) \
	X(set_uri_allow_local_file) X(aio_connect_uri) \
	X(aio_connect_systemd_socket_activation) X(aio_is_connecting) X(aio_is_ready) \
	X(get_size) X(get_block_size) X(aio_get_fd) X(aio_get_direction) \
	X(aio_pread) X(aio_pwrite) X(aio_flush) \
	X(can_flush) X(is_read_only) X(aio_block_status) \
	X(aio_command_completed)

struct rd_libnbd {
#define RD_LIBNBD_CALL(name)	__typeof__(&nbd_##name) name;
	RD_LIBNBD_CALLS(RD_LIBNBD_CALL)
#undef RD_LIBNBD_CALL
};

/* Load it, or say which package has it: -ELIBACC. */
int rd_libnbd_load(const struct rd_libnbd **ret);

#endif
