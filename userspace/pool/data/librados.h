/* SPDX-License-Identifier: GPL-2.0 */
/*
 * librados, loaded when the first pool in RADOS or disk on RBD is opened: it takes 0.1 s and 30
 * threads, and most commands need none of it.
 */
#ifndef RD_LIBRADOS_H
#define RD_LIBRADOS_H

#include <rados/librados.h>

/* The calls that are used, without their rados_: librados.c has a line for each. */
struct rd_librados {
	typeof(rados_create) *create;
	typeof(rados_conf_read_file) *conf_read_file;
	typeof(rados_conf_parse_env) *conf_parse_env;
	typeof(rados_conf_set) *conf_set;
	typeof(rados_conf_get) *conf_get;
	typeof(rados_connect) *connect;
	typeof(rados_shutdown) *shutdown;
	typeof(rados_mon_command) *mon_command;
	typeof(rados_ioctx_create) *ioctx_create;
	typeof(rados_ioctx_destroy) *ioctx_destroy;
	typeof(rados_cluster_fsid) *cluster_fsid;
	typeof(rados_ioctx_get_id) *ioctx_get_id;
	typeof(rados_ioctx_set_namespace) *ioctx_set_namespace;
	typeof(rados_ioctx_pool_requires_alignment2) *ioctx_pool_requires_alignment2;
	typeof(rados_set_pool_full_try) *set_pool_full_try;
	typeof(rados_aio_getxattr) *aio_getxattr;
	typeof(rados_nobjects_list_open) *nobjects_list_open;
	typeof(rados_nobjects_list_next) *nobjects_list_next;
	typeof(rados_nobjects_list_close) *nobjects_list_close;
	typeof(rados_watch3) *watch3;
	typeof(rados_unwatch2) *unwatch2;
	typeof(rados_watch_check) *watch_check;
	typeof(rados_watch_flush) *watch_flush;
	typeof(rados_notify2) *notify2;
	typeof(rados_notify_ack) *notify_ack;
	typeof(rados_decode_notify_response) *decode_notify_response;
	typeof(rados_free_notify_response) *free_notify_response;
	typeof(rados_buffer_free) *buffer_free;
	typeof(rados_create_write_op) *create_write_op;
	typeof(rados_release_write_op) *release_write_op;
	typeof(rados_write_op_create) *write_op_create;
	typeof(rados_write_op_cmpxattr) *write_op_cmpxattr;
	typeof(rados_write_op_setxattr) *write_op_setxattr;
	typeof(rados_write_op_write) *write_op_write;
	typeof(rados_write_op_truncate) *write_op_truncate;
	typeof(rados_write_op_zero) *write_op_zero;
	typeof(rados_write_op_remove) *write_op_remove;
	typeof(rados_write_op_exec) *write_op_exec;
	typeof(rados_aio_write_op_operate) *aio_write_op_operate;
	typeof(rados_create_read_op) *create_read_op;
	typeof(rados_release_read_op) *release_read_op;
	typeof(rados_read_op_read) *read_op_read;
	typeof(rados_aio_read_op_operate) *aio_read_op_operate;
	typeof(rados_aio_create_completion2) *aio_create_completion2;
	typeof(rados_aio_get_return_value) *aio_get_return_value;
	typeof(rados_aio_release) *aio_release;
};

/* Load it, or say which package has it: -ELIBACC. */
int rd_librados_load(const struct rd_librados **ret);

#endif
