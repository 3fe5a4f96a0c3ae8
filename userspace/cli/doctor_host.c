// SPDX-License-Identifier: GPL-2.0
/* The checks of 'revdedupctl doctor' that concern the host: see doctor.h. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host/sys/lvm.h"
#include "host/sys/nbd.h"
#include "host/sys/run.h"
#include "host/sys/sysfs.h"
#include "host/volume/device/attachment.h"
#include "host/volume/map/libguestfs.h"
#include "pool/data/librados.h"
#include "pool/data/ring.h"
#include "pool/served/libnbd.h"
#include "pool/served/librbd.h"
#include "doctor.h"

#define LINE		256
#define MODULE		"dm-revdedup"

/* What is missing is wrong where a volume is attached: a host may keep images alone. */
static enum ctl_finding_state state_of_missing(void)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	int r = rd_attachments(&all);
	bool is_attached = r || all.len;

	return is_attached ? CTL_FINDING_WRONG : CTL_FINDING_NOTE;
}

/* --- the kernel and its module */

/* The least that DKMS builds the module for: see scripts/dkms.conf.in. */
static bool is_new_enough(const char *release)
{
	unsigned int major = 0, minor = 0;

	sscanf(release, "%u.%u", &major, &minor);
	return major > 6 || (major == 6 && minor >= 1);
}

static int check_kernel(struct ctl_finding *ret)
{
	struct utsname name;

	uname(&name);
	if (is_new_enough(name.release))
		return ctl_find_that(ret, CTL_FINDING_OK, "Linux %s", name.release);
	ctl_find_that(ret, CTL_FINDING_WRONG, "Linux %s is too old: the module needs 6.1 or later",
		      name.release);
	return ctl_mend_by_package(ret, "linux-image-amd64, and restart",
				   "kernel, and restart");
}

static bool has_headers(const char *release)
{
	char path[LINE];

	snprintf(path, sizeof(path), "/lib/modules/%s/build/Makefile", release);
	return !access(path, F_OK);
}

/* 1, 0, or -errno: modinfo does not run. */
static int is_built(const char *release)
{
	char *const argv[] = { "modinfo", "-k", (char *)release, "-F", "filename", MODULE, NULL };
	int r = rd_run_quietly(argv, NULL);

	return r < 0 ? r : !r;
}

static int find_unrun(struct ctl_finding *ret, const char *program, int r)
{
	return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "cannot run '%s': %s", program,
			     strerror(-r));
}

/* Find the version that DKMS has, as "revdedup/1.0"; "": none. */
static void find_in_dkms(char ret[LINE])
{
	char *const argv[] = { "dkms", "status", "revdedup", NULL };

	if (ctl_ask_program(argv, ret, LINE))
		ret[0] = '\0';
	ret[strcspn(ret, ",: ")] = '\0';
}

/*
 * Say how @release gets the module that it has not. It is wrong, too, where DKMS should have
 * built it.
 */
static void mend_unbuilt(struct ctl_finding *ret, const char *release)
{
	char known[LINE], deb[2 * LINE];

	find_in_dkms(known);
	ret->state = known[0] ? CTL_FINDING_WRONG : state_of_missing();
	snprintf(deb, sizeof(deb), "%slinux-headers-%s", known[0] ? "" : "revdedup-dkms ", release);
	if (known[0] && has_headers(release))
		ctl_mend(ret, "dkms install %s -k %s; where that fails, /var/lib/dkms/%s/build/make.log says why",
			 known, release, known);
	else
		ctl_mend_by_package(ret, deb, "revdedup-dkms kernel-devel");
}

/* It is installed, and does not get into the kernel: modprobe says why. */
static void find_unloadable(struct ctl_finding *ret, const char *release)
{
	char *const try[] = { "sh", "-c", "modprobe " MODULE " 2>&1", NULL };
	char *const dry[] = { "modprobe", "-n", "-v", MODULE, NULL };
	char why[LINE], what[LINE], known[LINE];

	ctl_ask_program(dry, what, sizeof(what));
	ctl_ask_program(try, why, sizeof(why));
	ctl_find_that(ret, CTL_FINDING_WRONG, "the module " MODULE " does not load: %s",
		      why[0] ? why : "modprobe does not say why");
	find_in_dkms(known);
	if (!strncmp(what, "install ", 8)) {
		ctl_find_that(ret, CTL_FINDING_WRONG, "a line in /etc/modprobe.d keeps the module "
			      MODULE " from being loaded: '%s'", what);
		ctl_mend(ret, "remove the line that this shows: grep -r revdedup /etc/modprobe.d");
	} else if (strstr(why, "Key was rejected") || strstr(why, "Required key")) {
		ctl_mend(ret, "%smokutil --import /var/lib/dkms/mok.pub, and restart the host: see secure-boot.rst",
			 known[0] ? "" : "apt install revdedup-dkms, which signs it; ");
	} else if (known[0]) {
		ctl_mend(ret, "dkms install --force %s -k %s", known, release);
	} else {
		ctl_mend(ret, "apt install --reinstall revdedup-modules-%s; dmesg may say more",
			 release);
	}
}

static int check_loaded(struct ctl_finding *ret, const char *release)
{
	u32 version[3] = { 0 };
	int r = rd_target_require_packs();

	if (r)
		return r;
	rd_dm_has_target(RD_TARGET, version);
	return ctl_find_that(ret, CTL_FINDING_OK, "target %u.%u.%u, loaded in %s", version[0],
			     version[1], version[2], release);
}

static int check_module(struct ctl_finding *ret)
{
	struct utsname name;
	int r;

	uname(&name);
	if (geteuid() && access("/sys/module/dm_revdedup", F_OK)) {
		ctl_find_that(ret, CTL_FINDING_UNKNOWN, "only root can have it loaded");
		return ctl_mend(ret, "run this as root");
	}
	if (geteuid())
		return ctl_find_that(ret, CTL_FINDING_OK, "loaded in %s", name.release);
	if (rd_target_exists())
		return check_loaded(ret, name.release);
	r = is_built(name.release);
	if (r < 0)
		return find_unrun(ret, "modinfo", r);
	if (r) {
		find_unloadable(ret, name.release);
		return 0;
	}
	ctl_find_that(ret, CTL_FINDING_WRONG,
		      "there is no module " MODULE " for this kernel, %s: only images can be kept",
		      name.release);
	mend_unbuilt(ret, name.release);
	return 0;
}

/* Is it a kernel, and not what a removed one has left? */
static int is_kernel(const struct dirent *entry)
{
	char path[sizeof(entry->d_name) + 32];

	snprintf(path, sizeof(path), "/lib/modules/%s/modules.order", entry->d_name);
	return entry->d_name[0] != '.' && !access(path, F_OK);
}

/* The running kernel's own module is that of the check before. */
static int find_unbuilt(const char *running, char newer[LINE], char older[LINE])
{
	struct dirent **kernels;
	int nr = scandir("/lib/modules", &kernels, is_kernel, versionsort), i, r = 1;

	newer[0] = '\0';
	older[0] = '\0';
	for (i = 0; i < nr; i++) {
		const char *release = kernels[i]->d_name;
		int order = strverscmp(release, running);
		char *unbuilt = order > 0 ? newer : older;

		if (r >= 0 && order)
			r = is_built(release);
		if (!r && order && !unbuilt[0])
			snprintf(unbuilt, LINE, "%s", release);
		free(kernels[i]);
	}
	if (nr >= 0)
		free(kernels);
	return r < 0 ? r : 0;
}

/*
 * A host keeps the kernel before the running one, for which there were no headers when it had
 * DKMS: that is no fault, and nobody boots it but on purpose.
 */
static int note_older(struct ctl_finding *ret, const char *release)
{
	const char *build = is_new_enough(release) && !has_headers(release) ?
		", or install its headers" : "";

	ctl_find_that(ret, CTL_FINDING_NOTE,
		      "%s, which is older than the running one, has no module: do not boot it",
		      release);
	return ctl_mend(ret, "apt purge linux-image-%s%s", release, build);
}

/* A boot into a kernel that has no module is one after which no change is tracked. */
static int check_other_kernels(struct ctl_finding *ret)
{
	char newer[LINE], older[LINE];
	struct utsname name;
	int r;

	uname(&name);
	r = find_unbuilt(name.release, newer, older);
	if (r)
		return find_unrun(ret, "modinfo", r);
	if (!newer[0] && !older[0])
		return ctl_find_that(ret, CTL_FINDING_OK, "each other kernel has the module");
	if (!newer[0])
		return note_older(ret, older);
	ctl_find_that(ret, CTL_FINDING_WRONG,
		      "%s, which is installed, has no module: after a boot into it no change is tracked",
		      newer);
	mend_unbuilt(ret, newer);
	return 0;
}

/* --- LVM and udev */

static int check_lvm(struct ctl_finding *ret)
{
	char *const argv[] = { "lvm", "version", NULL };
	unsigned int major = 0, minor = 0;
	char line[LINE], *version;
	int r = ctl_ask_program(argv, line, sizeof(line));

	if (r == -ENOENT) {
		ctl_find_that(ret, state_of_missing(), "LVM is not installed: no volume can be attached");
		return ctl_mend_by_package(ret, "lvm2", "lvm2");
	}
	if (r < 0)
		return find_unrun(ret, "lvm", r);
	version = line + strcspn(line, "0123456789");
	if (r || sscanf(version, "%u.%u", &major, &minor) != 2)
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "'lvm version' does not say it");
	if (major > 2 || (major == 2 && minor >= 3))
		return ctl_find_that(ret, CTL_FINDING_OK, "LVM %s", version);
	ctl_find_that(ret, CTL_FINDING_WRONG, "LVM %s is too old: 2.03 or later is needed",
		      version);
	return ctl_mend_by_package(ret, "lvm2", "lvm2");
}

/* LVM waits for a device that is suspended, unless lvm.conf says otherwise. */
static bool is_any_suspended(void)
{
	bool is_suspended = false;
	glob_t files = { 0 };
	char line[LINE];
	size_t i;

	if (!glob("/sys/block/dm-*/dm/suspended", 0, NULL, &files))
		for (i = 0; i < files.gl_pathc && !is_suspended; i++) {
			rd_sysfs_line(files.gl_pathv[i], line, sizeof(line));
			is_suspended = !strcmp(line, "1");
		}
	globfree(&files);
	return is_suspended;
}

/* @r: what rd_lvm_sees() returned. */
static int find_no_answer(struct ctl_finding *ret, int r)
{
	if (r == -ENOENT)
		return ctl_find_that(ret, CTL_FINDING_OK, "LVM is not installed");
	if (r < 0)
		return find_unrun(ret, "pvs", r);
	ctl_find_that(ret, CTL_FINDING_UNKNOWN, "'pvs' fails%s",
		      geteuid() ? ", as only root can run it" : "");
	return ctl_mend(ret, geteuid() ? "run this as root" : "pvs says why");
}

static int check_guests_volumes(struct ctl_finding *ret)
{
	RD_BUFFER struct rd_buffer seen = { 0 };
	int r;

	if (is_any_suspended()) {
		ctl_find_that(ret, CTL_FINDING_UNKNOWN,
			      "a device is suspended, and LVM could wait for it");
		return ctl_mend(ret, "run this again; what 'dmsetup info' shows as suspended has been left so");
	}
	r = rd_lvm_sees(&seen);
	if (r) {
		find_no_answer(ret, r);
	} else if (seen.len) {
		ctl_find_that(ret, CTL_FINDING_WRONG,
			      "LVM of this host finds a physical volume on '%s', which is a guest's",
			      (char *)seen.data);
		ctl_mend(ret, "add the global_filter of guests.rst to /etc/lvm/lvm.conf");
	} else {
		ctl_find_that(ret, CTL_FINDING_OK, "LVM looks into no disk of a guest");
	}
	return 0;
}

static int check_udev(struct ctl_finding *ret)
{
	static const char *const dirs[] = {
		"/etc/udev", "/run/udev", "/usr/local/lib/udev", "/usr/lib/udev", "/lib/udev",
	};
	/* Debian's packages have the first one, RPMs the second: device mapper's rules differ. */
	static const char *const names[] = { "56-revdedup.rules", "12-revdedup.rules" };
	char path[LINE];
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(dirs); i++) {
		for (j = 0; j < ARRAY_SIZE(names); j++) {
			snprintf(path, sizeof(path), "%s/rules.d/%s", dirs[i], names[j]);
			if (!access(path, R_OK))
				return ctl_find_that(ret, CTL_FINDING_OK, "'%s'", path);
		}
	}
	ctl_find_that(ret, state_of_missing(),
		      "udev has neither %s nor %s: a mount by UUID may bypass tracking",
		      names[0], names[1]);
	return ctl_mend_by_package(ret, "--reinstall revdedup", "revdedup");
}

/* --- units */

static bool has_systemd(void)
{
	char *const argv[] = { "systemctl", "--version", NULL };

	return !rd_run_quietly(argv, NULL);
}

static bool is_enabled(const char *unit)
{
	char *const argv[] = { "systemctl", "is-enabled", (char *)unit, NULL };

	return !rd_run_quietly(argv, NULL);
}

static int check_boot(struct ctl_finding *ret)
{
	if (!has_systemd())
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN,
				     "no systemd here: 'revdedupctl attach --all' must run at boot");
	if (is_enabled("revdedup-attach.service"))
		return ctl_find_that(ret, CTL_FINDING_OK, "volumes are attached at boot");
	ctl_find_that(ret, state_of_missing(),
		      "revdedup-attach.service is not enabled: attached volumes have no device after a boot");
	return ctl_mend(ret, "systemctl enable revdedup-attach.service");
}

/* Not to have them on is a choice: another program may do what they do. */
static int check_timers(struct ctl_finding *ret)
{
	static const char *const timers[] = { "snapshot", "prune", "scrub", "dedup" };
	char off[LINE] = "", unit[64];
	unsigned int i;

	if (!has_systemd())
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "no systemd here");
	for (i = 0; i < ARRAY_SIZE(timers); i++) {
		snprintf(unit, sizeof(unit), "revdedup-%s.timer", timers[i]);
		if (!is_enabled(unit))
			snprintf(off + strlen(off), sizeof(off) - strlen(off), " %s", unit);
	}
	if (!off[0])
		return ctl_find_that(ret, CTL_FINDING_OK, "snapshot, prune, scrub, dedup");
	ctl_find_that(ret, CTL_FINDING_NOTE, "not enabled:%s", off);
	return ctl_mend(ret, "systemctl enable --now%s", off);
}

static int check_failed(struct ctl_finding *ret)
{
	char *const argv[] = { "systemctl", "--plain", "--no-legend", "--state=failed",
			       "list-units", "revdedup-*", NULL };
	char line[LINE];
	int r = ctl_ask_program(argv, line, sizeof(line));

	line[strcspn(line, " ")] = '\0';
	if (r)
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "no systemd runs here");
	if (!line[0])
		return ctl_find_that(ret, CTL_FINDING_OK, "none of revdedup has failed");
	ctl_find_that(ret, CTL_FINDING_WRONG, "'%s' has failed", line);
	return ctl_mend(ret, "journalctl -u %s says why; then systemctl restart %s", line, line);
}

static int check_clock(struct ctl_finding *ret)
{
	char *const argv[] = { "timedatectl", "show", "-p", "NTPSynchronized", "--value", NULL };
	char line[LINE];

	if (ctl_ask_program(argv, line, sizeof(line)) || !line[0])
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "timedatectl does not say");
	if (!strcmp(line, "yes"))
		return ctl_find_that(ret, CTL_FINDING_OK, "synchronized");
	ctl_find_that(ret, CTL_FINDING_NOTE,
		      "not synchronized: rules that keep versions by time depend on it");
	return ctl_mend(ret, "timedatectl set-ntp true");
}

/* --- what the kernel allows */

static int check_uring(struct ctl_finding *ret)
{
	bool is_off = getenv("REVDEDUP_NO_URING");
	struct rd_ring *ring;
	char line[LINE];
	bool has;
	int r = rd_ring_new(&ring, 1);

	if (r)
		return r;
	has = rd_ring_is_uring(ring);
	rd_ring_free(ring);
	if (has)
		return ctl_find_that(ret, CTL_FINDING_OK, "allowed");
	ctl_find_that(ret, CTL_FINDING_NOTE, "not allowed: slower calls are used");
	/* 2: nobody may; 1: only root, which is enough, and safer than 0. */
	rd_sysfs_line("/proc/sys/kernel/io_uring_disabled", line, sizeof(line));
	if (!strcmp(line, "2"))
		return ctl_mend(ret, "%ssysctl kernel.io_uring_disabled=1",
				is_off ? "unset REVDEDUP_NO_URING; " : "");
	if (is_off)
		return ctl_mend(ret, "unset REVDEDUP_NO_URING");
	return ctl_mend(ret, !strcmp(line, "1") && geteuid() ? "run this as root" :
			"allow io_uring_setup in the container or sandbox");
}

#define GUARD_MEMORY	(32UL << 20)

/* The guard process of a suspended volume must not wait for a swap on that volume. */
static int check_locking(struct ctl_finding *ret)
{
	void *memory = mmap(NULL, GUARD_MEMORY, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool may;

	if (memory == MAP_FAILED)
		return -errno;
	/* Not the function: with sanitizers that one does nothing. */
	may = !syscall(SYS_mlock2, memory, GUARD_MEMORY, MLOCK_ONFAULT);
	munmap(memory, GUARD_MEMORY);
	if (may)
		return ctl_find_that(ret, CTL_FINDING_OK, "processes may lock it");
	ctl_find_that(ret, CTL_FINDING_NOTE,
		      "processes may not lock it: the guard of a suspended volume could be swapped out");
	return ctl_mend(ret, "ulimit -l unlimited; in a unit: LimitMEMLOCK=infinity");
}

/* --- what some commands need */

/* What other packages have: without it all else works. */
static int note_missing(struct ctl_finding *ret, const char *what, const char *purpose,
			const char *deb, const char *rpm)
{
	ctl_find_that(ret, CTL_FINDING_NOTE, "%s is not installed, which %s", what, purpose);
	return ctl_mend_by_package(ret, deb, rpm);
}

int ctl_find_program(struct ctl_finding *ret, const struct ctl_doctor_program *program)
{
	int r = rd_run_quietly(program->argv, NULL);

	if (r < 0 && r != -ENOENT)
		return find_unrun(ret, program->argv[0], r);
	return r ? note_missing(ret, program->argv[0], program->purpose, program->deb,
				program->rpm) :
		ctl_find_that(ret, CTL_FINDING_OK, "%s", program->argv[0]);
}

static int check_nbdkit(struct ctl_finding *ret)
{
	static const struct ctl_doctor_program nbdkit = {
		{ "nbdkit", "--version" }, "'export', 'files' and 'find' need", "nbdkit", "nbdkit",
	};
	char *const plugin[] = { "nbdkit", "revdedup", "--dump-plugin", NULL };

	ctl_find_program(ret, &nbdkit);
	return ret->state || !rd_run_quietly(plugin, NULL) ? 0 :
		note_missing(ret, "nbdkit's plugin revdedup", nbdkit.purpose, "revdedup-nbdkit",
			     "revdedup-nbdkit");
}

static int check_libguestfs(struct ctl_finding *ret)
{
	const struct rd_libguestfs *calls;

	return rd_libguestfs_load(&calls) ?
		note_missing(ret, "libguestfs", "'files' and 'find' need", "libguestfs0",
			     "libguestfs") :
		ctl_find_that(ret, CTL_FINDING_OK, "libguestfs");
}

static int check_libnbd(struct ctl_finding *ret)
{
	const struct rd_libnbd *calls;

	return rd_libnbd_load(&calls) ?
		note_missing(ret, "libnbd", "reads and writes disks over NBD", "libnbd0",
			     "libnbd") :
		ctl_find_that(ret, CTL_FINDING_OK, "libnbd");
}

static int check_ceph(struct ctl_finding *ret)
{
	const struct rd_librados *rados;
	const struct rd_librbd *rbd;

	return rd_librados_load(&rados) || rd_librbd_load(&rbd) ?
		note_missing(ret, "librados or librbd", "pools and disks on Ceph need",
			     "librados2 librbd1", "librados2 librbd1") :
		ctl_find_that(ret, CTL_FINDING_OK, "librados, librbd");
}

static int check_nbd(struct ctl_finding *ret)
{
	if (geteuid())
		return ctl_find_that(ret, CTL_FINDING_UNKNOWN, "only root can have it loaded");
	if (rd_nbd_exists())
		return ctl_find_that(ret, CTL_FINDING_OK, "in the kernel");
	ctl_find_that(ret, CTL_FINDING_NOTE,
		      "not in the kernel: 'map' of a version that is elsewhere needs it");
	return ctl_mend(ret, "modprobe nbd");
}

const struct ctl_doctor_check ctl_host_checks[] = {
	{ .name = "kernel", .run = check_kernel },
	{ .name = "module", .run = check_module },
	{ .name = "kernels", .run = check_other_kernels },
	{ .name = "lvm", .run = check_lvm },
	{ .name = "lvm-filter", .run = check_guests_volumes },
	{ .name = "udev", .run = check_udev },
	{ .name = "boot", .run = check_boot },
	{ .name = "timers", .run = check_timers },
	{ .name = "units", .run = check_failed },
	{ .name = "clock", .run = check_clock },
	{ .name = "io_uring", .run = check_uring },
	{ .name = "memory", .run = check_locking },
	{ .name = "nbd", .run = check_nbd },
	{ .name = "nbdkit", .run = check_nbdkit },
	{ .name = "qemu-utils", .program = { { "qemu-img", "--version" },
		"reads and writes qcow2 files", "qemu-utils", "qemu-img" } },
	{ .name = "qemu", .program = { { "qemu-system-x86_64", "--version" },
		"'verify --boot' needs", "qemu-system-x86", "qemu-system-x86-core" } },
	{ .name = "libvirt", .program = { { "virsh", "--version" },
		"freezes guests of libvirt, and finds their disks", "libvirt-clients",
		"libvirt-client" } },
	{ .name = "bsdtar", .program = { { "bsdtar", "--version" },
		"'files --to' needs", "libarchive-tools", "bsdtar" } },
	{ .name = "libguestfs", .run = check_libguestfs },
	{ .name = "libnbd", .run = check_libnbd },
	{ .name = "ceph", .run = check_ceph },
	{ }
};
