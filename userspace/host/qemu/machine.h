/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine that a version is booted in: what matters of the definition of its domain, or, where
 * there is none, one that most guests boot in.
 *
 * Of a definition count the kind of machine (q35, pc), BIOS or UEFI, memory, processors, and of
 * each disk its bus, its place in the order of boot and the size of its sectors. All else would
 * be another guest's (its networks, its devices of the host), or need not be the same.
 */
#ifndef RD_MACHINE_H
#define RD_MACHINE_H

#include <stdbool.h>

#include "base/buffer.h"

enum rd_firmware {
	RD_FIRMWARE_AUTO,		/* as the disks look: see rd_machine_look() */
	RD_FIRMWARE_BIOS,
	RD_FIRMWARE_UEFI,
};

struct rd_machine_disk {
	char target[32];		/* "vda" */
	char bus[16];			/* "virtio", "sata", "scsi", "ide", "usb" */
	unsigned int order;		/* to boot from, from 1; 0: after those */
	unsigned int sector;		/* bytes; 0: the usual */
	int fd;				/* connected to its server; -1: it is left out */
	const char *export;		/* its name there */
};

struct rd_machine {
	bool is_pc;			/* an i440fx, which has IDE; or else q35 */
	bool has_lsi;			/* and not virtio-scsi */
	enum rd_firmware firmware;
	u64 memory;			/* bytes */
	u64 cpus;
	struct rd_buffer disks;		/* struct rd_machine_disk each */
};

/* One with a single disk of virtio. */
int rd_machine_plain(struct rd_machine *ret);
/* Read the definition @xml; says what is wrong. Memory and processors are 0 where it has none. */
int rd_machine_define(struct rd_machine *ret, const char *xml, size_t len);
/* Bring memory and processors, and 0 of them, down to these. */
void rd_machine_limit(struct rd_machine *machine, u64 memory, u64 cpus);
void rd_machine_free(struct rd_machine *machine);

/* How much of a disk's beginning rd_machine_look() wants. */
#define RD_MACHINE_HEAD	(34 * 512)
/*
 * Choose BIOS or UEFI by the partitions of the disk to boot from, whose beginning is @head: UEFI
 * only if it has a partition for that and none for GRUB's BIOS part.
 */
void rd_machine_look(struct rd_machine *machine, const u8 *head, size_t len);

/* Find the two files of UEFI that QEMU gets. -ENOENT: says which package has them. */
int rd_machine_find_uefi(const char **ret_code, const char **ret_vars);

#endif
