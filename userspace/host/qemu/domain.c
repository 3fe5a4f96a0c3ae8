// SPDX-License-Identifier: GPL-2.0
/* Disks of a domain of libvirt at one moment: see domain.h. freeze_guest.c has step 2. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/uri.h"
#include "domain.h"
#include "freeze_guest.h"
#include "virsh.h"

/* libvirt's QEMU can make a socket there, whatever guards it. */
#define STATE_DIR	"/var/lib/libvirt/qemu/domain-%s-*"
#define DEFINITION	"domain.xml"
/* A virsh that a kill has orphaned may begin the job this much later. */
#define LATE_STEPS	10
#define LATE_US		500000

/* --- disks */

/* Copy the value of @attribute of the first element @name in @xml, which libvirt has written. */
static void copy_attribute(char *ret, size_t size, const char *xml, const char *name,
			   const char *attribute)
{
	const char *at = strstr(xml, name), *end = at ? strchr(at, '>') : NULL;

	ret[0] = '\0';
	at = at ? strstr(at, attribute) : NULL;
	if (!at || !end || at > end)
		return;
	at += strlen(attribute);
	/* Either quote: virsh has used both. */
	snprintf(ret, size, "%.*s", (int)strcspn(at + 1, "'\""), at + 1);
}

static int add_disks(struct rd_domain *domain, char *xml)
{
	char type[16], *end;

	while ((xml = strstr(xml, "<disk ")) && (end = strstr(xml, "</disk>"))) {
		struct rd_domain_disk *disk =
			(struct rd_domain_disk *)rd_buffer_grow(&domain->disks, sizeof(*disk));

		if (!disk)
			return -ENOMEM;
		*end = '\0';
		memset(disk, 0, sizeof(*disk));
		copy_attribute(disk->target, sizeof(disk->target), xml, "<target ", "dev=");
		copy_attribute(type, sizeof(type), xml, "<driver ", "type=");
		disk->has_bitmaps = !strcmp(type, "qcow2") && !strstr(xml, "<readonly");
		xml = end + 1;
	}
	return 0;
}

/* virsh takes a number for an ID, and an ID is another guest's tomorrow. */
static int check_name(const struct rd_domain *domain)
{
	RD_BUFFER struct rd_buffer uuid = { 0 }, text = { 0 };
	const char *name = domain->name;
	int r;

	r = name[0] == '-' || !name[strspn(name, "0123456789")] ? -EINVAL :
		rd_virsh(name, false, &uuid, "domuuid", NULL, NULL, NULL);
	if (!r)
		r = rd_virsh(rd_virsh_line(&uuid), false, &text, "domname", NULL, NULL, NULL);
	if (!r)
		r = strcmp(rd_virsh_line(&text), name) ? -EINVAL : 0;
	if (r == -EINVAL)
		rd_err(0, "'%s' is not the name of a domain", name);
	return r;
}

static int check_runs(const struct rd_domain *domain)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	const char *state;
	int r = rd_virsh(domain->name, false, &text, "domstate", NULL, NULL, NULL);

	state = r ? "" : rd_virsh_line(&text);
	if (!r && strcmp(state, "running") && strcmp(state, "paused")) {
		rd_err(0, "the domain '%s' is %s", domain->name, state);
		rd_remedy(RD_REMEDY_READ_FILE, NULL, NULL);
		r = -EREMOTEIO;
	}
	return r;
}

int rd_domain_disks(struct rd_domain *domain)
{
	static const char disks[] = "//domain/devices/disk[@device='disk' and source]";
	RD_BUFFER struct rd_buffer text = { 0 };
	int r;

	domain->den.fd = -1;
	r = check_name(domain);
	if (!r)
		r = check_runs(domain);
	/* Without secrets, which a pool is not to keep. */
	if (!r)
		r = rd_virsh(domain->name, false, &domain->xml, "dumpxml", NULL, NULL, NULL);
	if (!r)
		domain->has_threads = strstr((const char *)domain->xml.data, "iothread");
	if (!r && strstr((const char *)domain->xml.data, "device='lun'"))
		rd_warn("'%s' has a device of SCSI that is passed through, which is not kept",
			domain->name);
	if (!r)
		r = rd_virsh(domain->name, false, &text, "dumpxml", "--xpath", disks, "--wrap");
	if (!r)
		r = add_disks(domain, (char *)text.data);
	if (!r && !domain->disks.len)
		r = rd_err(-ENOENT, "the domain '%s' has no disk", domain->name);
	return r;
}

/* --- the job */

/* What runs: 1: a backup whose XML has @mark; 0: none; -EBUSY: another. */
static int find_job(const struct rd_domain *domain, const char *mark)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	int r = rd_virsh(domain->name, true, &text, "backup-dumpxml", NULL, NULL, NULL);

	if (!r)
		r = strstr((const char *)text.data, mark) ? 1 : -EBUSY;
	else if (r == -EREMOTEIO)
		/* It says so, or says nothing because libvirt itself is gone. */
		r = rd_virsh(domain->name, true, NULL, "domstate", NULL, NULL, NULL) ? r : 0;
	return r;
}

static int end_job(const struct rd_domain *domain, const char *mark)
{
	int r = find_job(domain, mark);

	if (r > 0)
		r = rd_virsh(domain->name, false, NULL, "domjobabort", NULL, NULL, NULL);
	return r == -EBUSY ? 0 : r;
}

/* The command has died. */
static int clear_away(void *ctx, bool is_alone)
{
	const struct rd_domain *domain = ctx;
	unsigned int i;

	for (i = 0; is_alone && i < LATE_STEPS; i++) {
		end_job(domain, domain->socket);
		usleep(LATE_US);
	}
	return 0;
}

void rd_domain_look(struct rd_domain *domain)
{
	if (domain->gave_up || !rd_den_is_full(&domain->den, domain->size))
		return;
	/* The guest goes before the versions. */
	domain->gave_up = true;
	end_job(domain, domain->socket);
}

int rd_domain_check(const struct rd_domain *domain)
{
	if (find_job(domain, domain->socket) > 0)
		return 0;
	rd_err(0, "the backup job of '%s' has ended: is there no space in '%s'?", domain->name,
	       domain->den.path);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, NULL);
	return -EIO;
}

/* --- checkpoints */

static void remove_checkpoint(const struct rd_domain *domain, const char *name)
{
	/* One whose bitmap is lost is only forgotten. */
	if (rd_virsh(domain->name, true, NULL, "checkpoint-delete", name, NULL, NULL))
		rd_virsh(domain->name, false, NULL, "checkpoint-delete", name, "--metadata", NULL);
}

/* Note in each disk whose newest version it follows on from. true: in none. */
static bool is_stale(const struct rd_domain *domain, const char *checkpoint)
{
	struct rd_domain_disk *disk;
	bool is_stale = true;

	rd_each(disk, &domain->disks) {
		if (!domain->follows(&disk->newest, checkpoint))
			continue;
		is_stale = false;
		if (!disk->has_bitmaps || domain->has_threads)
			continue;
		snprintf(disk->old, sizeof(disk->old), "%s", checkpoint);
		disk->why_full = NULL;
	}
	return is_stale;
}

/* Does a disk of which no version is taken now need it? */
static bool is_needed(const struct rd_domain *domain, const char *checkpoint)
{
	const struct rd_domain_disk *disk;

	rd_each(disk, &domain->disks)
		if (!disk->is_wanted && domain->follows(&disk->newest, checkpoint))
			return true;
	return false;
}

/* Go through our checkpoints; @made: those go that the new one replaces. */
static int sort_checkpoints(const struct rd_domain *domain, bool made)
{
	RD_BUFFER struct rd_buffer text = { 0 };
	char *rest, *name;
	int r = rd_virsh(domain->name, false, &text, "checkpoint-list", "--name", NULL, NULL);

	rest = (char *)text.data;
	while (!r && (name = strsep(&rest, "\n"))) {
		if (strncmp(name, domain->prefix, strlen(domain->prefix)) ||
		    !strcmp(name, domain->checkpoint))
			continue;
		if (made ? !is_needed(domain, name) : is_stale(domain, name))
			remove_checkpoint(domain, name);
	}
	return r;
}

/* --- beginning */

static void put(struct rd_buffer *xml, const char *fmt, ...)
{
	char text[3 * PATH_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_buffer_put(xml, text, strlen(text));
}

static int write_file(const struct rd_domain *domain, const char *name, struct rd_buffer *xml)
{
	ssize_t len = -1;
	bool is_whole;
	int fd;

	unlinkat(domain->den.fd, name, 0);
	fd = openat(domain->den.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd >= 0) {
		len = write(fd, xml->data, xml->len);
		close(fd);
	}
	is_whole = len == (ssize_t)xml->len;
	rd_buffer_free(xml);
	return is_whole ? 0 : rd_err(-EIO, "cannot write '%s/%s'", domain->den.path, name);
}

static int write_backup(const struct rd_domain *domain, bool full)
{
	const struct rd_domain_disk *disk;
	struct rd_buffer xml = { 0 };

	put(&xml, "<domainbackup mode='pull'><server transport='unix' socket='%s'/><disks>",
	    domain->socket);
	rd_each(disk, &domain->disks) {
		if (!disk->is_wanted) {
			put(&xml, "<disk name='%s' backup='no'/>", disk->target);
			continue;
		}
		put(&xml, "<disk name='%s' backup='yes' type='file' exportname='%s'", disk->target,
		    disk->target);
		if (disk->old[0] && !full)
			put(&xml, " backupmode='incremental' incremental='%s' exportbitmap='%s'",
			    disk->old, RD_DOMAIN_BITMAP);
		else
			put(&xml, " backupmode='full'");
		put(&xml, "><scratch file='%s/%s'/></disk>", domain->den.path, disk->target);
	}
	put(&xml, "</disks></domainbackup>");
	return write_file(domain, "backup.xml", &xml);
}

static int write_checkpoint(const struct rd_domain *domain)
{
	const struct rd_domain_disk *disk;
	struct rd_buffer xml = { 0 };

	put(&xml, "<domaincheckpoint><name>%s</name><disks>", domain->checkpoint);
	rd_each(disk, &domain->disks)
		put(&xml, "<disk name='%s' checkpoint='%s'/>", disk->target,
		    disk->is_wanted && disk->has_bitmaps ? "bitmap" : "no");
	put(&xml, "</disks></domaincheckpoint>");
	return write_file(domain, "checkpoint.xml", &xml);
}

static bool any_has(const struct rd_domain *domain, bool old)
{
	const struct rd_domain_disk *disk;

	rd_each(disk, &domain->disks)
		if (disk->is_wanted && disk->has_bitmaps && (!old || disk->old[0]))
			return true;
	return false;
}

static int begin_backup(const struct rd_domain *domain, bool full, bool quietly)
{
	char backup[PATH_MAX + 2 * RD_DEN_NAME], checkpoint[PATH_MAX + 2 * RD_DEN_NAME];
	int r;

	snprintf(backup, sizeof(backup), "%s/backup.xml", domain->den.path);
	snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint.xml", domain->den.path);
	r = write_backup(domain, full);
	if (!r)
		r = write_checkpoint(domain);
	return r ? r : rd_virsh(domain->name, quietly, NULL, "backup-begin", backup,
				domain->checkpoint[0] ? checkpoint : NULL, NULL);
}

/*
 * By the bitmaps; or, where libvirt has lost one, all as a whole; or without a checkpoint, where a
 * lost one is in the way of new ones, or a disk cannot have any. What fails without one as well
 * fails for another reason, and nothing was changed.
 */
int rd_domain_begin_backup(struct rd_domain *domain)
{
	struct rd_domain_disk *disk;
	int r;

	if (!any_has(domain, false))
		domain->checkpoint[0] = '\0';
	if (any_has(domain, true) && !begin_backup(domain, false, true))
		return 0;
	rd_each(disk, &domain->disks) {
		if (disk->old[0])
			disk->why_full = "libvirt cannot use the bitmap of the checkpoint";
		disk->old[0] = '\0';
	}
	if (domain->checkpoint[0]) {
		r = begin_backup(domain, true, true);
		if (r != -EREMOTEIO)
			return r;
		domain->checkpoint[0] = '\0';
	}
	return begin_backup(domain, true, false);
}

static int find_socket(struct rd_domain *domain)
{
	char pattern[PATH_MAX], id[32];
	RD_BUFFER struct rd_buffer text = { 0 };
	glob_t found = { 0 };
	size_t i;
	int r;

	r = rd_virsh(domain->name, false, &text, "domid", NULL, NULL, NULL);
	snprintf(id, sizeof(id), "%s", r ? "" : rd_virsh_line(&text));
	if (r)
		return r;
	snprintf(pattern, sizeof(pattern), STATE_DIR, id);
	glob(pattern, GLOB_ONLYDIR, NULL, &found);
	for (i = 0; i < found.gl_pathc; i++) {
		/* It ends with the beginning of the name; one of another may have been left. */
		const char *part = found.gl_pathv[i] + strlen(pattern) - 1;

		if (!strncmp(domain->name, part, strlen(part)))
			snprintf(domain->socket, sizeof(domain->socket), "%s/%s.nbd",
				 found.gl_pathv[i], domain->checkpoint);
	}
	globfree(&found);
	if (domain->socket[0])
		return 0;
	rd_err(0, "there is no '%s' of '%s': only a libvirt of the system is known", pattern,
	       domain->name);
	return -ENOENT;
}

/* What a command that died has left. libvirt takes no file that is there. */
static void remove_files(const struct rd_domain *domain)
{
	const struct rd_domain_disk *disk;

	rd_each(disk, &domain->disks)
		unlinkat(domain->den.fd, disk->target, 0);
	unlinkat(domain->den.fd, "backup.xml", 0);
	unlinkat(domain->den.fd, "checkpoint.xml", 0);
	unlinkat(domain->den.fd, DEFINITION, 0);
}

/* See check_threads() in fleece.c. */
static int check_threads(const struct rd_domain *domain)
{
	if (!domain->has_threads || domain->force || rd_virsh_qemu_major() >= 9)
		return 0;
	rd_err(0, "'%s' has I/O threads: before version 9 QEMU can end, and its guest with it, when its reader goes",
	       domain->name);
	rd_remedy(RD_REMEDY_RISK_QEMU, NULL, "a domain without them is safe");
	return -EPERM;
}

static int clear(struct rd_domain *domain)
{
	int r = find_job(domain, domain->prefix);

	if (r == -EBUSY) {
		rd_err(0, "another program has begun a backup of '%s'", domain->name);
		rd_hint("'virsh domjobinfo %s' shows how far it is", domain->name);
		return -EBUSY;
	}
	if (r >= 0)
		r = end_job(domain, domain->prefix);
	if (r)
		return r;
	remove_files(domain);
	return sort_checkpoints(domain, false);
}

static int write_definition(struct rd_domain *domain)
{
	domain->xml.len = strlen((const char *)domain->xml.data);
	snprintf(domain->definition, sizeof(domain->definition), "%s/%s", domain->den.path,
		 DEFINITION);
	return write_file(domain, DEFINITION, &domain->xml);
}

static u64 first_number(const char *line)
{
	return strtoull(line + strcspn(line, "0123456789"), NULL, 10);
}

static int measure(struct rd_domain *domain)
{
	struct rd_domain_disk *disk;
	RD_BUFFER struct rd_buffer text = { 0 };
	int r = 0;

	rd_each(disk, &domain->disks) {
		if (r || !disk->is_wanted)
			continue;
		/* "Capacity:       16777216" */
		r = rd_virsh(domain->name, false, &text, "domblkinfo", disk->target, NULL, NULL);
		if (!r)
			disk->size = first_number(rd_virsh_line(&text));
		domain->size += disk->size;
	}
	return r ? r : rd_den_check_room(&domain->den, domain->size);
}

int rd_domain_begin(struct rd_domain *domain)
{
	struct rd_domain_disk *disk;
	int r;

	rd_den_name(domain->prefix, domain->pool, domain->name);
	rd_den_unique(domain->checkpoint, sizeof(domain->checkpoint), domain->prefix);
	r = check_threads(domain);
	if (!r)
		r = find_socket(domain);
	if (!r)
		r = rd_den_open(&domain->den, domain->temp, domain->prefix, geteuid(), 0711);
	if (!r && strpbrk(domain->den.path, "'\"<>&"))
		r = rd_err(-EINVAL, "libvirt cannot be told of '%s'", domain->den.path);
	if (r)
		return r;
	rd_each(disk, &domain->disks) {
		snprintf(disk->uri, sizeof(disk->uri), "nbd+unix:///%s?socket=", disk->target);
		rd_uri_put(disk->uri, sizeof(disk->uri), domain->socket);
		if (disk->newest.id)
			disk->why_full = domain->has_threads ?
				"with an I/O thread it may be written while its bitmap is read" :
				!disk->has_bitmaps ? "a disk that is not in qcow2 has no bitmaps" :
				"libvirt has no checkpoint that follows on from the newest one";
	}
	r = clear(domain);
	if (!r)
		r = write_definition(domain);
	if (!r)
		r = measure(domain);
	domain->job = (struct rd_guard){
		.end = clear_away,
		.ctx = domain,
		.limit_ms = -1,
		.drop_fd = domain->lock_fd,
	};
	if (!r)
		r = rd_guard_begin(&domain->job);
	if (!r)
		r = rd_failpoint("domain-ready");
	domain->has_begun = !r;
	if (!r)
		r = rd_freeze_guest(domain);
	return r ? r : rd_failpoint("domain-begun");
}

/* --- the end */

int rd_domain_end(struct rd_domain *domain, bool is_made)
{
	int r = 0;

	if (domain->has_begun) {
		domain->has_begun = false;
		r = end_job(domain, domain->socket);
		if (!r && is_made)
			sort_checkpoints(domain, true);
		else if (!r && domain->checkpoint[0])
			rd_virsh(domain->name, true, NULL, "checkpoint-delete", domain->checkpoint,
				 NULL, NULL);
	}
	if (domain->job.pid)
		rd_guard_end(&domain->job);
	domain->job.pid = 0;
	if (r) {
		rd_warn("the backup job of '%s' may still run", domain->name);
		rd_hint("'virsh domjobabort %s' ends it; so does the next snapshot", domain->name);
	} else if (domain->den.has_lock) {
		remove_files(domain);
	}
	rd_den_close(&domain->den);
	domain->den.has_lock = false;
	return r;
}

void rd_domain_free(struct rd_domain *domain)
{
	rd_buffer_free(&domain->disks);
	rd_buffer_free(&domain->xml);
}
