/* SPDX-License-Identifier: GPL-2.0 */
/*
 * librbd, loaded when the first disk on RBD is read: with librados, which it brings, it takes 0.1 s
 * and 30 threads, and most commands need neither.
 */
#ifndef RD_LIBRBD_H
#define RD_LIBRBD_H

#include <rbd/librbd.h>

/* The calls that are used: librbd.c has a line for each. */
struct rd_librbd {
	typeof(rbd_create4) *rbd_create4;
	typeof(rbd_image_options_create) *rbd_image_options_create;
	typeof(rbd_image_options_destroy) *rbd_image_options_destroy;
	typeof(rbd_open) *rbd_open;
	typeof(rbd_open_read_only) *rbd_open_read_only;
	typeof(rbd_close) *rbd_close;
	typeof(rbd_get_size) *rbd_get_size;
	typeof(rbd_get_overlap) *rbd_get_overlap;
	typeof(rbd_get_block_name_prefix) *rbd_get_block_name_prefix;
	typeof(rbd_watchers_list) *rbd_watchers_list;
	typeof(rbd_watchers_list_cleanup) *rbd_watchers_list_cleanup;
	typeof(rbd_snap_list) *rbd_snap_list;
	typeof(rbd_snap_list_end) *rbd_snap_list_end;
	typeof(rbd_snap_create) *rbd_snap_create;
	typeof(rbd_snap_remove) *rbd_snap_remove;
	typeof(rbd_snap_set) *rbd_snap_set;
	typeof(rbd_snap_get_id) *rbd_snap_get_id;
	typeof(rbd_diff_iterate2) *rbd_diff_iterate2;
	typeof(rbd_aio_create_completion) *rbd_aio_create_completion;
	typeof(rbd_aio_get_return_value) *rbd_aio_get_return_value;
	typeof(rbd_aio_release) *rbd_aio_release;
	typeof(rbd_aio_read2) *rbd_aio_read2;
	typeof(rbd_aio_write) *rbd_aio_write;
	typeof(rbd_aio_write_zeroes) *rbd_aio_write_zeroes;
	typeof(rbd_flush) *rbd_flush;
};

/* Load it, or say which package has it: -ELIBACC. */
int rd_librbd_load(const struct rd_librbd **ret);

#endif
