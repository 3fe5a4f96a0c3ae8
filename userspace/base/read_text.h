/* SPDX-License-Identifier: GPL-2.0 */
/* Read all of a file or pipe, as text. */
#ifndef RD_READ_TEXT_H
#define RD_READ_TEXT_H

#include "buffer.h"

/* Append what @fd has, and a zero. -EFBIG: that is more than @max bytes. Prints nothing. */
int rd_read_text(int fd, size_t max, struct rd_buffer *ret);

#endif
