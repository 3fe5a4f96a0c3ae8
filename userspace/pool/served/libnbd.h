/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libnbd, loaded when the first disk is read over NBD: with the libraries for TLS and XML that it
 * brings, each command would start later, and those that need none are most.
 */
#ifndef RD_LIBNBD_H
#define RD_LIBNBD_H

#include <libnbd.h>

/* The calls that are used, without their nbd_: libnbd.c has a line for each. */
struct rd_libnbd {
	typeof(nbd_create) *create;
	typeof(nbd_close) *close;
	typeof(nbd_get_error) *get_error;
	typeof(nbd_get_errno) *get_errno;
	typeof(nbd_poll) *poll;
	typeof(nbd_add_meta_context) *add_meta_context;
	typeof(nbd_can_meta_context) *can_meta_context;
	typeof(nbd_set_pread_initialize) *set_pread_initialize;
	typeof(nbd_set_uri_allow_local_file) *set_uri_allow_local_file;
	typeof(nbd_aio_connect_uri) *aio_connect_uri;
	typeof(nbd_aio_connect_systemd_socket_activation) *aio_connect_systemd_socket_activation;
	typeof(nbd_aio_is_connecting) *aio_is_connecting;
	typeof(nbd_aio_is_ready) *aio_is_ready;
	typeof(nbd_get_size) *get_size;
	typeof(nbd_get_block_size) *get_block_size;
	typeof(nbd_can_flush) *can_flush;
	typeof(nbd_is_read_only) *is_read_only;
	typeof(nbd_aio_get_fd) *aio_get_fd;
	typeof(nbd_aio_get_direction) *aio_get_direction;
	typeof(nbd_aio_pread) *aio_pread;
	typeof(nbd_aio_pwrite) *aio_pwrite;
	typeof(nbd_aio_flush) *aio_flush;
	typeof(nbd_aio_block_status) *aio_block_status;
	typeof(nbd_aio_command_completed) *aio_command_completed;
};

/* Load it, or say which package has it: -ELIBACC. */
int rd_libnbd_load(const struct rd_libnbd **ret);

#endif
