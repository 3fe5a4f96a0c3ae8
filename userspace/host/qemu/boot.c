// SPDX-License-Identifier: GPL-2.0
/* Start QEMU for a trial, and end it: see boot.h. boot_watch.c looks at the guest. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/become.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/read_text.h"
#include "host/sys/run.h"
#include "boot_parts.h"

#define QEMU		"qemu-system-x86_64"
#define KVM		"/dev/kvm"
#define MAX_ARGS	160
#define TEXT		420
/* The firmware says something at once, but for a machine that is under load. */
#define TRIAL_US	(15 * 1000000ULL)
/* Nothing that QEMU writes to is larger: a picture of the screen. */
#define MAX_FILE	(256UL << 20)
/* Of UEFI's variables. */
#define MAX_VARS	(16U << 20)
/* A picture of the screen that is kept; QEMU may be of ill will by then. */
#define MAX_PNG		(8U << 20)
#define VARS_SET	2

enum { QMP, SERIAL, AGENT, ENDS };

struct command {
	char text[MAX_ARGS][TEXT];
	const char *args[MAX_ARGS + 1];
	unsigned int nr;
	int inherited[MAX_ARGS];
	unsigned int nr_inherited;
	bool is_cut;
};

/* --- the command line */

/* An option, and perhaps its value behind a blank. */
__attribute__((format(printf, 2, 3)))
static void add(struct command *command, const char *fmt, ...)
{
	char *text = command->text[command->nr];
	va_list args;

	if (command->nr + 2 > MAX_ARGS) {
		command->is_cut = true;
		return;
	}
	va_start(args, fmt);
	command->is_cut |= vsnprintf(text, TEXT, fmt, args) >= TEXT;
	va_end(args);
	command->args[command->nr++] = strsep(&text, " ");
	if (text)
		command->args[command->nr++] = text;
	command->args[command->nr] = NULL;
}

static int inherit(struct command *command, int fd)
{
	if (command->nr_inherited < MAX_ARGS)
		command->inherited[command->nr_inherited++] = fd;
	return fd;
}

static void add_machine(struct command *command, const struct rd_machine *machine, bool kvm)
{
	static const char *const fixed[] = {
		QEMU, "-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-vga",
		"std", "-no-shutdown", "-sandbox",
		"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fixed); i++)
		add(command, "%s", fixed[i]);
	add(command, "-machine %s,accel=%s", machine->is_pc ? "pc" : "q35", kvm ? "kvm" : "tcg");
	add(command, "-cpu %s", kvm ? "host" : "max");
	add(command, "-m %lluM", rd_max(machine->memory >> 20, 1));
	add(command, "-smp %llu", machine->cpus);
	/* A guest that waits for randomness, or panics, shall not wait for the time to be over. */
	add(command, "-object rng-builtin,id=random");
	add(command, "-device virtio-rng-pci,rng=random");
	add(command, "-device pvpanic");
}

static void add_chardev(struct command *command, const char *id, int fd)
{
	add(command, "-chardev socket,id=%s,fd=%d", id, inherit(command, fd));
}

static void add_channels(struct command *command, const int ends[ENDS], int screen, bool is_trial)
{
	add_chardev(command, "serial", ends[SERIAL]);
	if (is_trial) {
		/* SeaBIOS says there what it does. */
		add(command, "-device isa-debugcon,iobase=0x402,chardev=serial");
		return;
	}
	/* It begins to run when that was said by QMP. */
	add(command, "-S");
	add_chardev(command, "qmp", ends[QMP]);
	add(command, "-mon chardev=qmp,mode=control");
	add(command, "-serial chardev:serial");
	add(command, "-device virtio-serial-pci");
	add_chardev(command, "agent", ends[AGENT]);
	add(command, "-device virtserialport,chardev=agent,name=org.qemu.guest_agent.0");
	add(command, "-add-fd fd=%d,set=%d", inherit(command, screen), RD_BOOT_SCREEN_SET);
}

/* The file of variables is a copy in memory: @vars, and the same for reading. */
static void add_uefi(struct command *command, const char *code, int vars, int vars_read)
{
	add(command, "-drive if=pflash,unit=0,format=raw,readonly=on,file=%s", code);
	add(command, "-add-fd fd=%d,set=%d", inherit(command, vars), VARS_SET);
	add(command, "-add-fd fd=%d,set=%d", inherit(command, vars_read), VARS_SET);
	add(command, "-drive if=pflash,unit=1,format=raw,file=/dev/fdset/%d", VARS_SET);
}

static void add_controllers(struct command *command, const struct rd_machine *machine)
{
	const struct rd_machine_disk *disk;
	bool scsi = false, usb = false, sata = false;

	rd_each(disk, &machine->disks) {
		scsi |= !strcmp(disk->bus, "scsi");
		usb |= !strcmp(disk->bus, "usb");
		sata |= !strcmp(disk->bus, "sata");
	}
	if (scsi)
		add(command, "-device %s,id=scsi", machine->has_lsi ? "lsi53c895a" : "virtio-scsi-pci");
	if (usb)
		add(command, "-device qemu-xhci,id=usb");
	/* q35 has one, "ide", to which all disks go that are of neither kind. */
	if (sata && machine->is_pc)
		add(command, "-device ahci,id=sata");
}

/* @nr_sata: of those before. */
static void add_disk(struct command *command, const struct rd_machine *machine,
		     const struct rd_machine_disk *disk, unsigned int nr, unsigned int *nr_sata)
{
	char device[64] = "virtio-blk-pci", sector[64] = "";

	if (!strcmp(disk->bus, "scsi"))
		snprintf(device, sizeof(device), "scsi-hd,bus=scsi.0");
	else if (!strcmp(disk->bus, "usb"))
		snprintf(device, sizeof(device), "usb-storage,bus=usb.0");
	else if (!strcmp(disk->bus, "sata") && machine->is_pc)
		snprintf(device, sizeof(device), "ide-hd,bus=sata.%u", (*nr_sata)++);
	else if (!strcmp(disk->bus, "sata") || !strcmp(disk->bus, "ide"))
		snprintf(device, sizeof(device), "ide-hd");
	if (disk->sector)
		snprintf(sector, sizeof(sector), ",logical_block_size=%u,physical_block_size=%u",
			 disk->sector, disk->sector);
	add(command, "-blockdev driver=nbd,node-name=disk%u,server.type=fd,server.str=%d,export=%s",
	    nr, inherit(command, disk->fd), disk->export);
	/* Those that are in no order come behind, as they stand in the definition. */
	add(command, "-device %s,drive=disk%u,bootindex=%u%s", device, nr,
	    disk->order ? disk->order : 1000 + nr, sector);
}

static void add_disks(struct command *command, const struct rd_machine *machine)
{
	const struct rd_machine_disk *disk;
	unsigned int nr = 0, nr_sata = 0;

	add_controllers(command, machine);
	rd_each(disk, &machine->disks)
		if (disk->fd >= 0)
			add_disk(command, machine, disk, nr++, &nr_sata);
}

/* --- files in memory */

/* Copy UEFI's variables, which the guest may change. Returns the file. */
static int copy_vars(const char *path)
{
	RD_CLOSE int from = open(path, O_RDONLY | O_CLOEXEC);
	struct rd_buffer text = { 0 };
	int fd = memfd_create("vars", MFD_CLOEXEC);
	int r = from < 0 || fd < 0 ? -errno : rd_read_text(from, MAX_VARS, &text);

	if (!r && write(fd, text.data, text.len - 1) != (ssize_t)text.len - 1)
		r = -EIO;
	rd_buffer_free(&text);
	if (r && fd >= 0)
		close(fd);
	return r ? rd_err(r, "cannot copy '%s'", path) : fd;
}

/* QEMU takes only a descriptor with the mode that it asks for. */
static int open_again(int fd, int mode)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : open(path, mode | O_CLOEXEC);
}

static int make_screen(struct rd_booting *booting)
{
	booting->screen = memfd_create("screen", MFD_CLOEXEC);
	booting->screen_out = open_again(booting->screen, O_WRONLY);
	booting->errors = memfd_create("errors", MFD_CLOEXEC);
	return booting->screen_out < 0 || booting->errors < 0 ?
		rd_err(-errno, "cannot make a file in memory") : 0;
}

/* --- the child */

/*
 * The guest has no card; a network without a device, and no process to send signals to, are for a
 * guest that gets out of QEMU. A user may have them only in a namespace of users, if at all.
 */
static pid_t fork_qemu(void)
{
	bool is_root = !geteuid();
	pid_t pid = rd_fork_apart(is_root ? 0 : CLONE_NEWUSER);

	if (pid < 0 && is_root)
		rd_warn("QEMU has the network and the processes of the host in sight: %s",
			strerror(errno));
	return pid < 0 ? fork() : pid;
}

/* @parent: a pidfd, as its number is not known in there. */
static bool has_ended(int parent)
{
	struct pollfd end = { .fd = parent, .events = POLLIN };

	return poll(&end, 1, 0) != 0;
}

/* QEMU has no right but for that to KVM, if it is to have that. */
static void run_child(const struct command *command, const struct rd_booting *booting, bool kvm,
		      int parent)
{
	const struct rlimit file = { MAX_FILE, MAX_FILE }, core = { 0, 0 };
	int null = open("/dev/null", O_RDWR);
	unsigned int i;
	uid_t uid = 0;
	gid_t gid = 0;

	/* Without a terminal, into which it could type. */
	setsid();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	/* What the caller of the command has open is not for QEMU. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) ||
	    (!geteuid() && (rd_find_user("nobody", &uid, &gid) ||
			    rd_become(uid, gid, kvm ? rd_kvm_group() : 0))))
		_exit(127);
	for (i = 0; i < command->nr_inherited; i++)
		fcntl(command->inherited[i], F_SETFD, 0);
	dup2(null, STDIN_FILENO);
	dup2(booting->errors, STDOUT_FILENO);
	dup2(booting->errors, STDERR_FILENO);
	setrlimit(RLIMIT_FSIZE, &file);
	setrlimit(RLIMIT_CORE, &core);
	/* The kernel forgets the signal when the user changes. */
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && !has_ended(parent))
		execvp(command->args[0], (char *const *)command->args);
	fprintf(stderr, "cannot run '%s': %s\n", command->args[0], strerror(errno));
	_exit(127);
}

/* --- starting and ending it */

static void close_all(const int *fds, unsigned int nr)
{
	while (nr--)
		if (fds[nr] >= 0)
			close(fds[nr]);
}

static int make_ends(int ours[ENDS], int theirs[ENDS])
{
	unsigned int i;
	int ends[2];

	for (i = 0; i < ENDS; i++) {
		ours[i] = -1;
		theirs[i] = -1;
	}
	for (i = 0; i < ENDS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			return rd_err(-errno, "cannot make a socket");
		ours[i] = ends[0];
		theirs[i] = ends[1];
		if (i != QMP)
			fcntl(ours[i], F_SETFL, O_NONBLOCK);
	}
	return 0;
}

/* Say what QEMU has said. It is no guest yet that says it. */
static void tell_errors(const struct rd_booting *booting)
{
	RD_BUFFER struct rd_buffer text = { 0 };

	lseek(booting->errors, 0, SEEK_SET);
	if (!rd_read_text(booting->errors, RD_BOOT_LOG, &text) && text.len > 1) {
		text.len--;
		rd_boot_print(stderr, "  ", &text, 10);
	}
}

static void end(struct rd_booting *booting)
{
	const int fds[] = {
		booting->serial, booting->agent, booting->screen, booting->screen_out,
		booting->errors,
	};

	rd_qmp_close(booting->qmp);
	if (booting->pid > 0) {
		/* It may not have its group yet. */
		kill(-booting->pid, SIGKILL);
		kill(booting->pid, SIGKILL);
		while (waitpid(booting->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_all(fds, ARRAY_SIZE(fds));
}

static int make_command(struct command *command, const struct rd_machine *machine,
			const int theirs[ENDS], int screen, bool kvm, int ret_vars[2])
{
	const char *code, *vars;
	int r = 0;

	add_machine(command, machine, kvm);
	add_channels(command, theirs, screen, !machine->disks.len);
	if (machine->firmware == RD_FIRMWARE_UEFI) {
		r = rd_machine_find_uefi(&code, &vars);
		if (!r)
			ret_vars[0] = copy_vars(vars);
		if (!r && ret_vars[0] < 0)
			r = ret_vars[0];
		if (!r)
			ret_vars[1] = open_again(ret_vars[0], O_RDONLY);
		if (!r)
			add_uefi(command, code, ret_vars[0], ret_vars[1]);
	}
	add_disks(command, machine);
	if (!r && command->is_cut)
		r = rd_err(-E2BIG, "the machine has too many disks");
	return r;
}

/*
 * Without a disk it is a trial of KVM, which begins at once, without QMP and without a word. Else
 * the guest does not run yet.
 */
static int start(struct rd_booting *booting, const struct rd_machine *machine, bool kvm,
		 const volatile int *stop)
{
	RD_FREE struct command *command = calloc(1, sizeof(*command));
	int ours[ENDS], theirs[ENDS], vars[2] = { -1, -1 }, r;
	RD_CLOSE int parent = pidfd_open(getpid(), 0);

	*booting = (struct rd_booting){
		.serial = -1, .agent = -1, .screen = -1, .screen_out = -1, .errors = -1
	};
	r = make_ends(ours, theirs);
	booting->serial = ours[SERIAL];
	booting->agent = ours[AGENT];
	if (!r)
		r = command ? make_screen(booting) : -ENOMEM;
	if (!r)
		r = make_command(command, machine, theirs, booting->screen_out, kvm, vars);
	if (!r) {
		booting->pid = fork_qemu();
		if (!booting->pid)
			run_child(command, booting, kvm, parent);
		if (booting->pid < 0)
			r = rd_err(-errno, "cannot start a process");
	}
	close_all(theirs, ENDS);
	close_all(vars, 2);
	if (!r && machine->disks.len)
		return rd_qmp_open_fd(&booting->qmp, ours[QMP], stop);
	close_all(ours, 1);
	return r;
}

/* --- KVM */

/*
 * That it can be opened does not mean that a guest gets anywhere with it. Even where a BIOS does,
 * as on a host that is a guest itself, a kernel may not: see check_stopped().
 */
bool rd_boot_kvm_works(const volatile int *stop)
{
	const struct rd_machine machine = { .memory = 64U << 20, .cpus = 1 };
	struct rd_booting booting;
	int r;

	if (access(KVM, R_OK | W_OK))
		return false;
	r = start(&booting, &machine, true, stop);
	if (!r)
		r = rd_boot_wait_any(&booting, rd_now_us() + TRIAL_US, stop);
	end(&booting);
	if (r)
		rd_info("guests are emulated, as a machine gets nowhere with '" KVM "'");
	return !r;
}

/* --- all of it */

int rd_boot_is_possible(void)
{
	char *const argv[] = { QEMU, "-version", NULL };
	int r = rd_run_quietly(argv, NULL);

	if (r >= 0)
		return 0;
	rd_err(r, "cannot run '" QEMU "'");
	rd_hint("nothing was booted; the Debian package qemu-system-x86 has it");
	return r;
}

/* Keep the last screen, if there is one. */
static void keep_screen(struct rd_booting *booting, struct rd_buffer *ret)
{
	static const u8 magic[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };

	if (rd_boot_read_screen(booting, "png", ret) || ret->len > MAX_PNG ||
	    ret->len < sizeof(magic) || memcmp(ret->data, magic, sizeof(magic)))
		rd_buffer_free(ret);
}

/* QEMU has failed, and not the guest. */
static int tell_failure(const struct rd_booting *booting, const struct rd_boot_options *options,
			int r)
{
	if (r == -EINTR || (r == -EAGAIN && options->accel == RD_BOOT_ACCEL_AUTO))
		return r;
	if (r == -EAGAIN)
		rd_err(0, "%s cannot go on with this guest on this host",
		       options->accel == RD_BOOT_ACCEL_KVM ? "KVM" : "QEMU");
	else if (r == -ECONNRESET)
		rd_err(0, "QEMU has ended before it ran the guest");
	else if (r == -ETIMEDOUT)
		rd_err(0, "QEMU does not answer");
	else if (r == -EREMOTEIO)
		rd_err(0, "QEMU refuses to run the guest");
	tell_errors(booting);
	return r == -EAGAIN ? -EIO : r;
}

int rd_boot(const struct rd_boot_options *options, struct rd_boot_report *ret)
{
	u64 begun = rd_now_us();
	struct rd_booting booting;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (*options->stop)
		return -EINTR;
	r = start(&booting, options->machine, options->accel != RD_BOOT_ACCEL_TCG, options->stop);
	if (!r)
		r = rd_boot_watch(&booting, options, ret);
	if (!r)
		keep_screen(&booting, &ret->screen);
	if (r == -ECONNRESET && ret->why[0]) {
		tell_errors(&booting);
		r = 0;
	} else if (r) {
		r = tell_failure(&booting, options, r);
	}
	end(&booting);
	ret->us = rd_now_us() - begun;
	return r;
}

void rd_boot_report_free(struct rd_boot_report *report)
{
	rd_buffer_free(&report->log);
	rd_buffer_free(&report->screen);
}
