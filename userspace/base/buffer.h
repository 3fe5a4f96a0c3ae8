/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A buffer that grows. Once it is out of memory, @failed stays set, and what adds to it returns
 * -ENOMEM: it is enough to look in the end.
 */
#ifndef RD_BUFFER_H
#define RD_BUFFER_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "varint.h"

struct rd_buffer {
	u8 *data;
	size_t len;
	size_t size;
	bool failed;
};

/* Walk an array in @buffer, which does not grow meanwhile: the pointer @at is at each in turn. */
#define rd_each(at, buffer)								\
	for ((at) = (void *)(buffer)->data;						\
	     (const u8 *)(at) < (buffer)->data + (buffer)->len; (at)++)

static inline void rd_buffer_free(struct rd_buffer *buffer)
{
	free(buffer->data);
	memset(buffer, 0, sizeof(*buffer));
}

/* For a buffer of a function, which is freed on every way out: see cleanup.h. None is handed on. */
#define RD_BUFFER	__attribute__((cleanup(rd_buffer_free)))

static inline u8 *rd_buffer_grow(struct rd_buffer *buffer, size_t len)
{
	size_t size = buffer->size ? buffer->size : 4096;
	u8 *data;

	while (size - buffer->len < len)
		size *= 2;
	if (size != buffer->size) {
		data = realloc(buffer->data, size);
		if (!data) {
			buffer->failed = true;
			return NULL;
		}
		buffer->data = data;
		buffer->size = size;
	}
	buffer->len += len;
	return buffer->data + buffer->len - len;
}

static inline int rd_buffer_put(struct rd_buffer *buffer, const void *data, size_t len)
{
	u8 *to = rd_buffer_grow(buffer, len);

	if (to && len)
		memcpy(to, data, len);
	return buffer->failed ? -ENOMEM : 0;
}

static inline int rd_buffer_put_u8(struct rd_buffer *buffer, u8 byte)
{
	return rd_buffer_put(buffer, &byte, 1);
}

static inline void rd_buffer_put_varint(struct rd_buffer *buffer, u64 value)
{
	u8 bytes[RD_VARINT_MAX];

	rd_buffer_put(buffer, bytes, rd_put_varint(bytes, value) - bytes);
}

#endif
