// SPDX-License-Identifier: GPL-2.0
/* The machine that a version is booted in: see machine.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "machine.h"
#include "xml.h"

/* --- partitions */

#define SECTOR		512
#define GPT_ENTRY	128

/* As they lie on the disk. */
static const u8 for_uefi[16] = {
	0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11,
	0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b
};

static const u8 for_bios[16] = {
	0x48, 0x61, 0x68, 0x21, 0x49, 0x64, 0x6f, 0x6e,
	0x74, 0x4e, 0x65, 0x65, 0x64, 0x45, 0x46, 0x49
};

static bool has_partition(const u8 *head, size_t len, const u8 type[16])
{
	size_t at;

	for (at = 2 * SECTOR; at + GPT_ENTRY <= len; at += GPT_ENTRY)
		if (!memcmp(head + at, type, 16))
			return true;
	return false;
}

void rd_machine_look(struct rd_machine *machine, const u8 *head, size_t len)
{
	bool has_gpt = len >= 2 * SECTOR && !memcmp(head + SECTOR, "EFI PART", 8);

	if (machine->firmware != RD_FIRMWARE_AUTO)
		return;
	machine->firmware = has_gpt && has_partition(head, len, for_uefi) &&
		!has_partition(head, len, for_bios) ? RD_FIRMWARE_UEFI : RD_FIRMWARE_BIOS;
}

int rd_machine_find_uefi(const char **ret_code, const char **ret_vars)
{
	/* Of Debian, Fedora, SUSE and Arch. None asks for signatures: the keys are not there. */
	static const char *const places[][2] = {
		{ "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd" },
		{ "/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd" },
		{ "/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd" },
		{ "/usr/share/qemu/ovmf-x86_64-code.bin", "/usr/share/qemu/ovmf-x86_64-vars.bin" },
		{ "/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		*ret_code = places[i][0];
		*ret_vars = places[i][1];
		if (!access(*ret_code, R_OK) && !access(*ret_vars, R_OK))
			return 0;
	}
	rd_err(0, "the guest boots by UEFI, and QEMU has no firmware for that here");
	rd_hint("the Debian package ovmf has it");
	return -ENOENT;
}

/* --- without a definition */

int rd_machine_plain(struct rd_machine *ret)
{
	const struct rd_machine_disk disk = { .target = "", .bus = "virtio", .fd = -1 };

	*ret = (struct rd_machine){ .firmware = RD_FIRMWARE_AUTO };
	return rd_buffer_put(&ret->disks, &disk, sizeof(disk));
}

void rd_machine_limit(struct rd_machine *machine, u64 memory, u64 cpus)
{
	machine->memory = machine->memory ? rd_min(machine->memory, memory) : memory;
	machine->cpus = machine->cpus ? rd_min(machine->cpus, cpus) : cpus;
}

void rd_machine_free(struct rd_machine *machine)
{
	rd_buffer_free(&machine->disks);
}

/* --- with one */

struct definition {
	struct rd_machine *machine;
	struct rd_machine_disk disk;	/* of the element that is read */
	bool is_disk;			/* and no CD */
	char arch[32];
};

static bool has_value(const struct rd_xml *xml, const char *name, const char *value)
{
	char text[64];

	return rd_xml_attribute(xml, name, text, sizeof(text)) && !strcmp(text, value);
}

static unsigned int number(const struct rd_xml *xml, const char *name)
{
	char text[16];

	rd_xml_attribute(xml, name, text, sizeof(text));
	return strtoul(text, NULL, 10);
}

static u64 bytes(const struct rd_xml *xml)
{
	static const struct {
		const char *unit;
		u64 bytes;
	} units[] = {
		{ "b", 1 }, { "bytes", 1 }, { "KB", 1000 }, { "k", 1 << 10 }, { "KiB", 1 << 10 },
		{ "MB", 1000000 }, { "M", 1 << 20 }, { "MiB", 1 << 20 }, { "GB", 1000000000 },
		{ "G", 1 << 30 }, { "GiB", 1 << 30 },
	};
	u64 value = strtoull(xml->text, NULL, 10), unit = 1 << 10;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (has_value(xml, "unit", units[i].unit))
			unit = units[i].bytes;
	return value > U64_MAX / unit ? U64_MAX : value * unit;
}

static void begin_disk(struct definition *definition, const struct rd_xml *xml)
{
	char device[16];

	definition->disk = (struct rd_machine_disk){ .fd = -1 };
	definition->is_disk = !rd_xml_attribute(xml, "device", device, sizeof(device)) ||
		!strcmp(device, "disk");
}

static void read_os(struct definition *definition, const struct rd_xml *xml)
{
	struct rd_machine *machine = definition->machine;
	char text[64];

	if (!strcmp(xml->path, "domain/os")) {
		if (has_value(xml, "firmware", "efi"))
			machine->firmware = RD_FIRMWARE_UEFI;
	} else if (!strcmp(xml->path, "domain/os/loader")) {
		if (has_value(xml, "type", "pflash"))
			machine->firmware = RD_FIRMWARE_UEFI;
	} else if (!strcmp(xml->path, "domain/os/type")) {
		rd_xml_attribute(xml, "arch", definition->arch, sizeof(definition->arch));
		rd_xml_attribute(xml, "machine", text, sizeof(text));
		machine->is_pc = !strstr(text, "q35");
	}
}

static void read_element(struct definition *definition, const struct rd_xml *xml)
{
	struct rd_machine *machine = definition->machine;
	struct rd_machine_disk *disk = &definition->disk;

	if (!strncmp(xml->path, "domain/os", strlen("domain/os"))) {
		read_os(definition, xml);
	} else if (!strcmp(xml->path, "domain/memory")) {
		machine->memory = bytes(xml);
	} else if (!strcmp(xml->path, "domain/vcpu")) {
		machine->cpus = strtoul(xml->text, NULL, 10);
	} else if (!strcmp(xml->path, "domain/devices/controller")) {
		machine->has_lsi |= has_value(xml, "type", "scsi") &&
			has_value(xml, "model", "lsilogic");
	} else if (!strcmp(xml->path, "domain/devices/disk")) {
		begin_disk(definition, xml);
	} else if (!strcmp(xml->path, "domain/devices/disk/target")) {
		rd_xml_attribute(xml, "dev", disk->target, sizeof(disk->target));
		rd_xml_attribute(xml, "bus", disk->bus, sizeof(disk->bus));
	} else if (!strcmp(xml->path, "domain/devices/disk/boot")) {
		disk->order = number(xml, "order");
	} else if (!strcmp(xml->path, "domain/devices/disk/blockio")) {
		disk->sector = number(xml, "logical_block_size");
	}
}

static void end_element(struct definition *definition, const struct rd_xml *xml)
{
	if (!strcmp(xml->path, "domain/devices/disk") && definition->is_disk &&
	    definition->disk.target[0])
		rd_buffer_put(&definition->machine->disks, &definition->disk,
			      sizeof(definition->disk));
}

/* What the guest is has been read. Can it be booted here? */
static int check(const struct definition *definition, int r)
{
	const char *arch = definition->arch;

	if (r)
		rd_err(0, "the definition is no XML of a domain");
	else if (arch[0] && strcmp(arch, "x86_64") && strcmp(arch, "i686"))
		rd_err(0, "the guest is not of x86, and only those can be booted for trial");
	else if (!definition->machine->disks.len)
		rd_err(0, "the definition has no disk");
	else
		return definition->machine->disks.failed ? -ENOMEM : 0;
	return -EINVAL;
}

int rd_machine_define(struct rd_machine *ret, const char *xml, size_t len)
{
	struct definition definition = { .machine = ret };
	struct rd_xml at;
	int event;

	/* libvirt names UEFI; without a name the guest has BIOS. */
	*ret = (struct rd_machine){ .firmware = RD_FIRMWARE_BIOS };
	rd_xml_begin(&at, xml, len);
	while ((event = rd_xml_next(&at)) > 0)
		if (event == RD_XML_BEGIN)
			read_element(&definition, &at);
		else
			end_element(&definition, &at);
	return check(&definition, event);
}
