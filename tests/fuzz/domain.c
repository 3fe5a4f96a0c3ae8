// SPDX-License-Identifier: GPL-2.0
/* The definition of a domain, which may have come from another pool. */
#include <errno.h>

#include "fuzz.h"
#include "host/qemu/machine.h"
#include "host/qemu/xml.h"

/* Elements begin and end in turn, and a path is that of an element. */
static void walk(const char *text, size_t size)
{
	char value[64];
	struct rd_xml xml;
	unsigned int depth = 0;
	int event;

	rd_xml_begin(&xml, text, size);
	while ((event = rd_xml_next(&xml)) > 0) {
		must(xml.path[0] && strlen(xml.path) < sizeof(xml.path));
		depth += event == RD_XML_BEGIN;
		if (event == RD_XML_BEGIN && rd_xml_attribute(&xml, "dev", value, sizeof(value)))
			must(strlen(value) < sizeof(value));
		must(depth);
		depth -= event == RD_XML_END;
	}
	must(event == -EINVAL || !depth);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *text = fuzz_text(data, size);
	const struct rd_machine_disk *disk;
	struct rd_machine machine;
	int r;

	walk(text, size);
	r = rd_machine_define(&machine, text, size);
	must(r == 0 || r == -EINVAL);
	must(r || machine.disks.len);
	if (machine.disks.len)
		rd_each(disk, &machine.disks)
			must(disk->target[0] && disk->fd == -1);
	rd_machine_look(&machine, data, size);
	rd_machine_limit(&machine, 1U << 30, 1);
	must(machine.memory <= 1U << 30 && machine.cpus <= 1);
	rd_machine_free(&machine);
	free(text);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const good[] = {
		"<domain><memory unit='MiB'>64</memory><vcpu>2</vcpu><os firmware='efi'>"
		"<type arch='x86_64' machine='q35'>hvm</type><loader type='pflash'>x</loader></os>"
		"<devices><disk type='file' device='disk'><target dev='vda' bus='virtio'/>"
		"<boot order=\"1\"/><blockio logical_block_size='4096'/></disk>"
		"<controller type='scsi' model='lsilogic'/></devices></domain>",
		"<?xml version='1.0'?><!-- > --><domain a='>&amp;&lt;'/>", "<a></b>", "<a", "</a>",
	};

	(void)argc;
	(void)argv;
	fuzz_seed_texts(good, ARRAY_SIZE(good));
	return 0;
}
