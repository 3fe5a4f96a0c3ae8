// SPDX-License-Identifier: GPL-2.0
/* Load librbd: see librbd.h. */
#include "base/library.h"
#include "base/units.h"
#include "librbd.h"

#define CALL(name)	{ #name, offsetof(struct rd_librbd, name) }

static const struct rd_library_call table[] = {
	CALL(rbd_create4),
	CALL(rbd_image_options_create),
	CALL(rbd_image_options_destroy),
	CALL(rbd_open),
	CALL(rbd_open_read_only),
	CALL(rbd_close),
	CALL(rbd_get_size),
	CALL(rbd_get_overlap),
	CALL(rbd_get_block_name_prefix),
	CALL(rbd_watchers_list),
	CALL(rbd_watchers_list_cleanup),
	CALL(rbd_snap_list),
	CALL(rbd_snap_list_end),
	CALL(rbd_snap_create),
	CALL(rbd_snap_remove),
	CALL(rbd_snap_set),
	CALL(rbd_snap_get_id),
	CALL(rbd_diff_iterate2),
	CALL(rbd_aio_create_completion),
	CALL(rbd_aio_get_return_value),
	CALL(rbd_aio_release),
	CALL(rbd_aio_read2),
	CALL(rbd_aio_write),
	CALL(rbd_aio_write_zeroes),
	CALL(rbd_flush),
};

_Static_assert(sizeof(struct rd_librbd) == ARRAY_SIZE(table) * sizeof(void *),
	       "a line for each call");

int rd_librbd_load(const struct rd_librbd **ret)
{
	static struct rd_librbd calls;
	static struct rd_library library = {
		.file = "librbd.so.1",
		.name = "librbd",
		.purpose = "to read from RBD",
		.packages = "'librbd1', Fedora's too",
		.calls = table,
		.nr = ARRAY_SIZE(table),
	};

	*ret = &calls;
	return rd_library_load(&library, &calls);
}
