/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: static_assert with one argument, before C23. */
#ifndef DMR_SHIM_LINUX_BUILD_BUG_H
#define DMR_SHIM_LINUX_BUILD_BUG_H

/* First, so that its own definition does not come after this one. */
#include <assert.h>

#undef static_assert
#define static_assert(expr)	_Static_assert(expr, #expr)

#endif
