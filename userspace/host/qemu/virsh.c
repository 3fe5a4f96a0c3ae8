// SPDX-License-Identifier: GPL-2.0
/* Run virsh: see virsh.h. */
#include <errno.h>
#include <string.h>

#include "host/sys/run.h"
#include "virsh.h"

#define VIRSH		"env", "LC_ALL=C", "virsh", "-q"

int rd_virsh(const char *domain, bool quietly, struct rd_buffer *ret, const char *verb,
	     const char *one, const char *two, const char *three)
{
	char *const argv[] = { VIRSH, (char *)verb, (char *)domain, (char *)one, (char *)two,
			       (char *)three, NULL };
	int r;

	if (ret)
		ret->len = 0;
	r = quietly ? rd_run_quietly(argv, ret) : rd_run(argv, ret);
	return r > 0 ? -EREMOTEIO : r;
}

const char *rd_virsh_line(struct rd_buffer *text)
{
	char *line = (char *)text->data;

	line[strcspn(line, "\n")] = '\0';
	return line;
}

unsigned int rd_virsh_qemu_major(void)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	static const char mark[] = "hypervisor: QEMU ";
	char *const argv[] = { VIRSH, "version", NULL };
	const char *version;
	unsigned int major = 0;

	version = rd_run_quietly(argv, &text) ? NULL : strstr((const char *)text.data, mark);
	if (version)
		major = strtoul(version + strlen(mark), NULL, 10);
	return major;
}
