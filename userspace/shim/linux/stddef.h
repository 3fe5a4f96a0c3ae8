/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: the compiler's, with offsetof(). */
#include <stddef.h>
