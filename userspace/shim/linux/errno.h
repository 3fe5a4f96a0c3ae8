/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: the system's header of the same name, which the C library includes. */
#include_next <linux/errno.h>
