/* SPDX-License-Identifier: GPL-2.0 */
/* Run virsh, in the language of its authors. */
#ifndef RD_VIRSH_H
#define RD_VIRSH_H

#include "base/buffer.h"

/*
 * Run "virsh VERB DOMAIN [ONE [TWO [THREE]]]"; its output, with a NUL, is *@ret, or discarded.
 * -EREMOTEIO: it fails, which it has said unless @quietly.
 */
int rd_virsh(const char *domain, bool quietly, struct rd_buffer *ret, const char *verb,
	     const char *one, const char *two, const char *three);

/* The first line of an output, which is cut there. */
const char *rd_virsh_line(struct rd_buffer *text);

/* The first number of the version of QEMU; 0: it is not known. */
unsigned int rd_virsh_qemu_major(void);

#endif
