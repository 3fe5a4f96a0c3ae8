// SPDX-License-Identifier: GPL-2.0
/* Disks of a domain of libvirt at one moment: see domain.h. */
#include <errno.h>
#include <glob.h>
#include <linux/crc32c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/uri.h"
#include "host/sys/run.h"
#include "domain.h"

/* libvirt's QEMU can make a socket there, whatever guards it. */
#define STATE_DIR	"/var/lib/libvirt/qemu/domain-%s-*"
#define UUID_BYTES	16
#define THAW_MS		(60 * 1000)

/* --- virsh */

/* Run "virsh VERB DOMAIN [ARG...]"; @ret: its output, or NULL. -EREMOTEIO: it fails. */
static int virsh(const struct rd_domain *domain, bool quietly, struct rd_buffer *ret,
		 const char *verb, const char *one, const char *two, const char *three)
{
	char *const argv[] = { "virsh", "-q", (char *)verb, (char *)domain->name, (char *)one,
			       (char *)two, (char *)three, NULL };
	int r;

	if (ret)
		ret->len = 0;
	r = quietly ? rd_run_quietly(argv, ret) : rd_run(argv, ret);
	return r > 0 ? -EREMOTEIO : r;
}

/* The next line of @text, without its end; NULL: no more. */
static char *next_line(char **text)
{
	char *line;

	do {
		line = strsep(text, "\n");
	} while (line && !line[strspn(line, " \t")]);
	return line ? line + strspn(line, " \t") : NULL;
}

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
		disk->has_bitmaps = !strcmp(type, "qcow2");
		copy_attribute(type, sizeof(type), xml, "<driver ", "iothread=");
		disk->has_thread = type[0];
		xml = end + 1;
	}
	return 0;
}

int rd_domain_disks(struct rd_domain *domain)
{
	struct rd_buffer text = { 0 };
	char state[32];
	int r;

	r = virsh(domain, false, &text, "domstate", NULL, NULL, NULL);
	if (!r) {
		snprintf(state, sizeof(state), "%.*s", (int)strcspn((char *)text.data, "\n"),
			 (char *)text.data);
		if (strcmp(state, "running") && strcmp(state, "paused")) {
			rd_err(0, "the domain '%s' is %s", domain->name, state);
			rd_remedy(RD_REMEDY_READ_FILE, NULL, NULL);
			r = -EREMOTEIO;
		}
	}
	if (!r)
		r = virsh(domain, false, &text, "dumpxml", "--xpath",
			  "//domain/devices/disk[@device='disk' and source]", "--wrap");
	if (!r)
		r = add_disks(domain, (char *)text.data);
	if (!r && !domain->disks.len)
		r = rd_err(-ENOENT, "the domain '%s' has no disk", domain->name);
	rd_buffer_free(&text);
	return r;
}

/* --- clearing away */

/* Is the backup that runs, if one does, ours? It is known by its socket. */
static bool has_job(const struct rd_domain *domain)
{
	struct rd_buffer text = { 0 };
	bool is_ours = !virsh(domain, true, &text, "backup-dumpxml", NULL, NULL, NULL) &&
		strstr((char *)text.data, domain->prefix);

	rd_buffer_free(&text);
	return is_ours;
}

static void end_job(const struct rd_domain *domain)
{
	if (has_job(domain))
		virsh(domain, false, NULL, "domjobabort", NULL, NULL, NULL);
}

static void remove_checkpoint(const struct rd_domain *domain, const char *name)
{
	/* One whose bitmap is lost is only forgotten. */
	if (virsh(domain, true, NULL, "checkpoint-delete", name, NULL, NULL))
		virsh(domain, false, NULL, "checkpoint-delete", name, "--metadata", NULL);
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
		if (!disk->has_bitmaps)
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
	struct rd_buffer text = { 0 };
	char *rest, *name;
	int r = virsh(domain, false, &text, "checkpoint-list", "--name", NULL, NULL);

	rest = (char *)text.data;
	while (!r && (name = next_line(&rest))) {
		if (strncmp(name, domain->prefix, strlen(domain->prefix)) ||
		    !strcmp(name, domain->checkpoint))
			continue;
		if (made ? !is_needed(domain, name) : is_stale(domain, name))
			remove_checkpoint(domain, name);
	}
	rd_buffer_free(&text);
	return r;
}

/* --- the moment */

static void put(struct rd_buffer *xml, const char *fmt, ...)
{
	char text[3 * PATH_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_buffer_put(xml, text, strlen(text));
}

static int write_file(const char *path, const struct rd_buffer *xml)
{
	FILE *file = xml->failed ? NULL : fopen(path, "we");

	if (!file)
		return xml->failed ? -ENOMEM : rd_err(-errno, "cannot write '%s'", path);
	fwrite(xml->data, 1, xml->len, file);
	return ferror(file) | fclose(file) ? rd_err(-EIO, "cannot write '%s'", path) : 0;
}

static int write_backup(const struct rd_domain *domain, const char *path, bool full)
{
	const struct rd_domain_disk *disk;
	struct rd_buffer xml = { 0 };
	int r;

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
		put(&xml, "><scratch file='%s/%s'/></disk>", domain->dir, disk->target);
	}
	put(&xml, "</disks></domainbackup>");
	r = write_file(path, &xml);
	rd_buffer_free(&xml);
	return r;
}

static int write_checkpoint(const struct rd_domain *domain, const char *path)
{
	const struct rd_domain_disk *disk;
	struct rd_buffer xml = { 0 };
	int r;

	put(&xml, "<domaincheckpoint><name>%s</name><disks>", domain->checkpoint);
	rd_each(disk, &domain->disks)
		put(&xml, "<disk name='%s' checkpoint='%s'/>", disk->target,
		    disk->is_wanted && disk->has_bitmaps ? "bitmap" : "no");
	put(&xml, "</disks></domaincheckpoint>");
	r = write_file(path, &xml);
	rd_buffer_free(&xml);
	return r;
}

static bool any_has(const struct rd_domain *domain, bool old)
{
	const struct rd_domain_disk *disk;

	rd_each(disk, &domain->disks)
		if (disk->is_wanted && disk->has_bitmaps && (!old || disk->old[0]))
			return true;
	return false;
}

static int begin_backup(struct rd_domain *domain, bool full, bool quietly)
{
	char backup[PATH_MAX + 128], checkpoint[PATH_MAX + 128];
	int r;

	snprintf(backup, sizeof(backup), "%s/backup.xml", domain->dir);
	snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint.xml", domain->dir);
	r = write_backup(domain, backup, full);
	if (!r)
		r = write_checkpoint(domain, checkpoint);
	return r ? r : virsh(domain, quietly, NULL, "backup-begin", backup,
			     any_has(domain, false) ? checkpoint : NULL, NULL);
}

static int thaw(void *ctx, bool is_alone)
{
	(void)is_alone;
	virsh(ctx, true, NULL, "domfsthaw", NULL, NULL, NULL);
	return 0;
}

/* The command has died. */
static int clear_away(void *ctx, bool is_alone)
{
	if (is_alone)
		end_job(ctx);
	return 0;
}

/* All disks by their bitmaps; or, where libvirt cannot, all as a whole. */
static int begin_either(struct rd_domain *domain)
{
	struct rd_domain_disk *disk;
	int r;

	if (any_has(domain, true) && !begin_backup(domain, false, true))
		return 0;
	rd_each(disk, &domain->disks) {
		if (!disk->old[0])
			continue;
		disk->old[0] = '\0';
		disk->why_full = "libvirt has lost the bitmap of the checkpoint";
	}
	r = begin_backup(domain, true, true);
	if (r != -EREMOTEIO)
		return r;
	/* A checkpoint without a bitmap is in the way of new ones. */
	sort_checkpoints(domain, true);
	return begin_backup(domain, true, false);
}

static int take_moment(struct rd_domain *domain)
{
	bool frozen;
	int r;

	domain->thaw = (struct rd_guard){ .end = thaw, .ctx = domain, .limit_ms = THAW_MS };
	r = rd_guard_begin(&domain->thaw);
	if (r)
		return r;
	frozen = !virsh(domain, true, NULL, "domfsfreeze", NULL, NULL, NULL);
	r = rd_failpoint("domain-frozen");
	domain->has_begun = true;
	if (!r)
		r = begin_either(domain);
	if (rd_guard_end(&domain->thaw) == -ETIME && frozen && !r)
		rd_warn("the guest was thawed before the moment: its file systems are as after a loss of power");
	return r ? r : rd_failpoint("domain-begun");
}

/* --- */

static int make_places(struct rd_domain *domain)
{
	struct rd_buffer text = { 0 };
	char pattern[PATH_MAX], temp[PATH_MAX], id[32];
	glob_t found = { 0 };
	int r;

	r = virsh(domain, false, &text, "domid", NULL, NULL, NULL);
	if (r)
		return r;
	snprintf(id, sizeof(id), "%.*s", (int)strspn((char *)text.data, "0123456789"),
		 (char *)text.data);
	rd_buffer_free(&text);
	snprintf(pattern, sizeof(pattern), STATE_DIR, id);
	if (!id[0] || glob(pattern, GLOB_ONLYDIR, NULL, &found) || found.gl_pathc != 1) {
		globfree(&found);
		rd_err(0, "'%s' is not there: only a libvirt of the system is known", pattern);
		return -ENOENT;
	}
	snprintf(domain->socket, sizeof(domain->socket), "%s/%s.nbd", found.gl_pathv[0],
		 domain->prefix);
	globfree(&found);
	if (!realpath(domain->temp, temp))
		return rd_err(-errno, "cannot use the directory '%s'", domain->temp);
	snprintf(domain->dir, sizeof(domain->dir), "%s/%s", temp, domain->prefix);
	/* libvirt makes files there and gives them to QEMU, which only opens them. */
	if (mkdir(domain->dir, 0711) && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", domain->dir);
	return 0;
}

static void name_all(struct rd_domain *domain)
{
	u64 random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (u64)getpid();
	snprintf(domain->prefix, sizeof(domain->prefix), "rd-%08x%08x",
		 crc32c(0, domain->pool, UUID_BYTES),
		 crc32c(0, domain->name, strlen(domain->name)));
	snprintf(domain->checkpoint, sizeof(domain->checkpoint), "%s-%016llx", domain->prefix,
		 (unsigned long long)random);
}

/* See check_threads() in fleece.c. */
static int check_threads(const struct rd_domain *domain)
{
	char *const argv[] = { "virsh", "version", NULL };
	const struct rd_domain_disk *disk;
	struct rd_buffer text = { 0 };
	bool is_at_risk = false;
	const char *version;
	int r = 0;

	rd_each(disk, &domain->disks)
		is_at_risk |= disk->is_wanted && disk->has_thread;
	if (!is_at_risk || domain->force)
		return 0;
	r = rd_run(argv, &text);
	version = r ? NULL : strstr((const char *)text.data, "hypervisor: QEMU ");
	is_at_risk = !version || atoi(version + strlen("hypervisor: QEMU ")) < 9;
	rd_buffer_free(&text);
	if (r || !is_at_risk)
		return r > 0 ? -EREMOTEIO : r;
	rd_err(0, "a disk of '%s' has an I/O thread: before version 9 QEMU can end, and its guest with it, if this command is killed",
	       domain->name);
	rd_remedy(RD_REMEDY_RISK_QEMU, NULL, "a disk without one is safe");
	return -EPERM;
}

int rd_domain_begin(struct rd_domain *domain)
{
	struct rd_domain_disk *disk;
	int r;

	name_all(domain);
	r = check_threads(domain);
	if (!r)
		r = make_places(domain);
	if (r)
		return r;
	end_job(domain);
	unlink(domain->socket);
	rd_each(disk, &domain->disks) {
		snprintf(disk->uri, sizeof(disk->uri), "nbd+unix:///%s?socket=", disk->target);
		rd_uri_put(disk->uri, sizeof(disk->uri), domain->socket);
		if (disk->newest.id)
			disk->why_full = disk->has_bitmaps ?
				"libvirt has no checkpoint that follows on from the newest one" :
				"a disk that is not in qcow2 has no bitmaps";
	}
	r = sort_checkpoints(domain, false);
	if (r)
		return r;
	domain->job = (struct rd_guard){ .end = clear_away, .ctx = domain, .limit_ms = -1 };
	r = rd_guard_begin(&domain->job);
	return r ? r : take_moment(domain);
}

int rd_domain_check(const struct rd_domain *domain)
{
	if (has_job(domain))
		return 0;
	rd_err(0, "libvirt has ended the backup job of '%s': is there no space in '%s'?",
	       domain->name, domain->dir);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, NULL);
	return -EIO;
}

void rd_domain_end(struct rd_domain *domain, bool is_made)
{
	const struct rd_domain_disk *disk;
	char path[PATH_MAX + 3 * RD_DOMAIN_NAME];

	if (domain->has_begun) {
		end_job(domain);
		if (is_made)
			sort_checkpoints(domain, true);
		else if (any_has(domain, false))
			virsh(domain, true, NULL, "checkpoint-delete", domain->checkpoint, NULL,
			      NULL);
	}
	if (domain->job.pid)
		rd_guard_end(&domain->job);
	if (domain->dir[0]) {
		rd_each(disk, &domain->disks) {
			snprintf(path, sizeof(path), "%s/%s", domain->dir, disk->target);
			unlink(path);
		}
		snprintf(path, sizeof(path), "%s/backup.xml", domain->dir);
		unlink(path);
		snprintf(path, sizeof(path), "%s/checkpoint.xml", domain->dir);
		unlink(path);
		rmdir(domain->dir);
	}
	rd_buffer_free(&domain->disks);
}
