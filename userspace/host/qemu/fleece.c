// SPDX-License-Identifier: GPL-2.0
/* The content of a disk of a running QEMU at one moment: see fleece.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/uri.h"
#include "host/sys/run.h"
#include "host/sys/socket.h"
#include "fleece.h"

#define OVERLAY		"overwritten.qcow2"
#define SOCKET		"nbd"
#define STEP_US		20000
#define STEPS		(RD_QMP_SECONDS * 1000000 / STEP_US)
/* Of the guard, each of which takes RD_QMP_SECONDS where QEMU does not answer. */
#define LATE_TRIES	30

/* Say that QEMU refuses to do @what, and why. */
static int refused(struct rd_fleece *fleece, int r, const char *what)
{
	if (r != -EREMOTEIO)
		return r;
	rd_err(0, "QEMU cannot %s: %s", what, rd_qmp_refusal(fleece->qmp));
	return r;
}

/* --- asking */

/* Ask the last answer for one text. 1, or 0: there is none. */
static int ask_one(struct rd_fleece *fleece, const char *question, const char *name, char *ret,
		   size_t size)
{
	RD_BUFFER struct rd_buffer found = { 0 };
	int r = rd_qmp_ask(fleece->qmp, question, name, &found);

	ret[0] = '\0';
	if (!r && found.len) {
		snprintf(ret, size, "%s", (const char *)found.data);
		r = 1;
	}
	return r;
}

/* The node of options->disk: by its own name, or that of the device that has it. */
static int find_node(struct rd_fleece *fleece, const struct rd_fleece_options *options)
{
	static const char of_device[] = "SELECT json_extract(value, '$.inserted.\"node-name\"')"
		" FROM json_each(?1) WHERE ?2 IN (json_extract(value, '$.device'),"
		" json_extract(value, '$.qdev'))";
	static const char of_node[] = "SELECT json_extract(value, '$.\"node-name\"')"
		" FROM json_each(?1) WHERE json_extract(value, '$.\"node-name\"') = ?2";
	int r;

	/* qemu-storage-daemon knows no devices, and not this question. */
	r = rd_qmp_query(fleece->qmp, "query-block");
	if (!r)
		r = ask_one(fleece, of_device, options->disk, fleece->disk, sizeof(fleece->disk));
	if (r < 0 && r != -EREMOTEIO)
		return r;
	if (r <= 0)
		snprintf(fleece->disk, sizeof(fleece->disk), "%s", options->disk);
	r = rd_qmp_query(fleece->qmp, "query-named-block-nodes");
	if (!r)
		r = ask_one(fleece, of_node, fleece->disk, fleece->disk, sizeof(fleece->disk));
	if (r > 0)
		return 0;
	if (r)
		return refused(fleece, r, "list its disks");
	rd_err(0, "the QEMU at '%s' has no disk '%s'", options->socket, options->disk);
	rd_remedy(RD_REMEDY_NAME_DISK, NULL, NULL);
	return -ENOENT;
}

/* --- clearing away */

/* Wait until the question about the answer to @verb finds nothing. */
static int wait_gone(struct rd_fleece *fleece, const char *verb, const char *question)
{
	char found[64];
	int r, steps = 0;

	do {
		if (steps)
			usleep(STEP_US);
		r = rd_qmp_query(fleece->qmp, verb);
		if (!r)
			r = ask_one(fleece, question, fleece->id, found, sizeof(found));
	} while (r > 0 && steps++ < STEPS);
	return r > 0 ? -ETIMEDOUT : refused(fleece, r, "list what it does");
}

static const char export_there[] = "SELECT json_extract(value, '$.id') FROM json_each(?1)"
	" WHERE json_extract(value, '$.id') = ?2";
static const char job_runs[] = "SELECT json_extract(value, '$.status') FROM json_each(?1)"
	" WHERE json_extract(value, '$.id') = ?2"
	" AND json_extract(value, '$.status') NOT IN ('concluded', 'null')";
static const char job_there[] = "SELECT json_extract(value, '$.status') FROM json_each(?1)"
	" WHERE json_extract(value, '$.id') = ?2";

/* What of it is not there is refused, and no matter. */
static int try(int r)
{
	return r == -EREMOTEIO ? 0 : r;
}

static int end_export(struct rd_fleece *fleece)
{
	int r;

	r = try(rd_qmp_run(fleece->qmp, "block-export-del", "id=%s mode=%s", fleece->id, "hard"));
	return r ? r : wait_gone(fleece, "query-block-exports", export_there);
}

static int end_job(struct rd_fleece *fleece)
{
	int r;

	r = try(rd_qmp_run(fleece->qmp, "block-job-cancel", "device=%s force=%d", fleece->id,
			   true));
	if (!r)
		r = wait_gone(fleece, "query-jobs", job_runs);
	if (!r)
		r = try(rd_qmp_run(fleece->qmp, "job-dismiss", "id=%s", fleece->id));
	return r ? r : wait_gone(fleece, "query-jobs", job_there);
}

static int remove_bitmap(struct rd_fleece *fleece, const char *name)
{
	return try(rd_qmp_run(fleece->qmp, "block-dirty-bitmap-remove", "node=%s name=%s",
			      fleece->disk, name));
}

/* By the socket the next one finds the server, if that could not be stopped: then it stays. */
static int remove_files(const struct rd_fleece *fleece, int r)
{
	unlinkat(fleece->den.fd, OVERLAY, 0);
	if (!r)
		unlinkat(fleece->den.fd, SOCKET, 0);
	return r;
}

static int end_reading(struct rd_fleece *fleece)
{
	int r;

	r = end_export(fleece);
	if (!r && fleece->has_server)
		r = try(rd_qmp_query(fleece->qmp, "nbd-server-stop"));
	/* One that is there when this is tried again is another program's. */
	fleece->has_server &= r;
	if (!r)
		r = end_job(fleece);
	if (!r)
		r = try(rd_qmp_run(fleece->qmp, "blockdev-del", "node-name=%s", fleece->id));
	if (!r)
		r = remove_bitmap(fleece, fleece->list);
	return remove_files(fleece, r);
}

/*
 * Does the NBD server of this QEMU, if it has one, listen where ours did? QEMU tells nothing of it,
 * and that of another program is not ours to stop.
 */
static void find_server(struct rd_fleece *fleece)
{
	char path[PATH_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/" SOCKET, fleece->den.path);
	fd = rd_socket_connect(path);
	fleece->has_server = fd >= 0;
	if (fd >= 0)
		close(fd);
}

/*
 * Of the bitmaps that are ours keep the one that follows on from the newest version, and can be
 * trusted: after a kill of QEMU one that was in its file is inconsistent.
 */
static int choose_bitmap(struct rd_fleece *fleece, const struct rd_fleece_options *options)
{
	static const char ours[] = "SELECT iif(json_extract(b.value, '$.recording') AND"
		" NOT coalesce(json_extract(b.value, '$.inconsistent'), 0), '+', '-') ||"
		" json_extract(b.value, '$.name') FROM json_each(?1) n,"
		" json_each(n.value, '$.\"dirty-bitmaps\"') b"
		" WHERE json_extract(n.value, '$.\"node-name\"') = ?2";
	RD_BUFFER struct rd_buffer found = { 0 };
	const char *name;
	size_t len = strlen(fleece->id);
	int r;

	r = rd_qmp_query(fleece->qmp, "query-named-block-nodes");
	if (!r)
		r = rd_qmp_ask(fleece->qmp, ours, fleece->disk, &found);
	fleece->why_full = options->newest->id ?
		"QEMU has no bitmap that follows on from the newest version" : NULL;
	for (name = (const char *)found.data; !r && name < (const char *)found.data + found.len;
	     name += strlen(name) + 1) {
		if (strncmp(name + 1, fleece->id, len) || name[1 + len] != '-')
			continue;
		if (!options->follows(options->newest, name + 1)) {
			r = remove_bitmap(fleece, name + 1);
		} else if (name[0] == '+') {
			snprintf(fleece->old, sizeof(fleece->old), "%s", name + 1);
			fleece->why_full = NULL;
		} else {
			fleece->why_full = "the bitmap is inconsistent: QEMU did not end well";
			r = remove_bitmap(fleece, name + 1);
		}
	}
	return refused(fleece, r, "list its bitmaps");
}

/* --- the moment */

void rd_fleece_look(struct rd_fleece *fleece)
{
	if (fleece->gave_up || !rd_den_is_full(&fleece->den, fleece->size))
		return;
	/* The guest goes before the version. */
	fleece->gave_up = true;
	rd_qmp_run(fleece->qmp, "block-job-cancel", "device=%s force=%d", fleece->id, true);
}

static int make_overlay(struct rd_fleece *fleece)
{
	static const char size_of[] = "SELECT json_extract(value, '$.image.\"virtual-size\"')"
		" FROM json_each(?1) WHERE json_extract(value, '$.\"node-name\"') = ?2";
	uid_t uid = rd_qmp_uid(fleece->qmp);
	gid_t gid = rd_qmp_gid(fleece->qmp);
	char path[PATH_MAX + 64], size[32];
	char *const argv[] = { "qemu-img", "create", "-q", "-f", "qcow2", path, size, NULL };
	int r;

	r = rd_qmp_query(fleece->qmp, "query-named-block-nodes");
	if (!r)
		r = ask_one(fleece, size_of, fleece->disk, size, sizeof(size));
	if (r <= 0)
		return r ? refused(fleece, r, "tell the size of the disk") :
			rd_err(-EPROTO, "QEMU does not tell the size of '%s'", fleece->disk);
	fleece->size = strtoull(size, NULL, 10);
	r = rd_den_check_room(&fleece->den, fleece->size);
	if (r)
		return r;
	snprintf(path, sizeof(path), "%s/" OVERLAY, fleece->den.path);
	r = rd_run(argv, NULL);
	if (r)
		return r < 0 ? r : -EIO;
	/* From here on QEMU may do there what it likes. */
	if (fchmodat(fleece->den.fd, OVERLAY, 0600, 0) ||
	    fchownat(fleece->den.fd, OVERLAY, uid, gid, AT_SYMLINK_NOFOLLOW) ||
	    fchown(fleece->den.fd, uid, gid))
		return rd_err(-errno, "cannot give '%s' to QEMU", fleece->den.path);
	return 0;
}

static int start_server(struct rd_fleece *fleece)
{
	char path[PATH_MAX + 64];
	int r;

	snprintf(path, sizeof(path), "%s/" SOCKET, fleece->den.path);
	r = rd_qmp_run(fleece->qmp, "nbd-server-start",
		       "addr={ type=%s data={ path=%s } } max-connections=%u", "unix", path, 1U);
	fleece->has_server = !r;
	if (r == -EREMOTEIO) {
		refused(fleece, r, "start its NBD server");
		rd_hint("a QEMU has one such server: does another program use it?");
		return r;
	}
	snprintf(fleece->uri, sizeof(fleece->uri), "nbd+unix:///%s?socket=", fleece->id);
	rd_uri_put(fleece->uri, sizeof(fleece->uri), path);
	return r;
}

static int add_overlay(struct rd_fleece *fleece)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/" OVERLAY, fleece->den.path);
	return refused(fleece, rd_qmp_run(fleece->qmp, "blockdev-add",
					  "driver=%s node-name=%s file={ driver=%s filename=%s } backing=%s",
					  "qcow2", fleece->id, "file", path, fleece->disk),
		       "add a node for what is overwritten");
}

/*
 * The backup comes first: from then on no write goes on until the transaction ends, and so each
 * is in both bitmaps and not in the version, or in OLD and LIST and in the version.
 *
 * @persistent: the bitmap is to outlive QEMU, which only a disk in qcow2 can.
 */
static int transact(struct rd_fleece *fleece, bool persistent)
{
	const char *disk = fleece->disk, *id = fleece->id;

	if (!fleece->old[0])
		return rd_qmp_run(fleece->qmp, "transaction",
				  "actions=[ { type=%s data={ job-id=%s device=%s target=%s sync=%s auto-dismiss=%d } }"
				  " { type=%s data={ node=%s name=%s persistent=%d } } ]",
				  "blockdev-backup", id, disk, id, "none", false,
				  "block-dirty-bitmap-add", disk, fleece->new, persistent);
	return rd_qmp_run(fleece->qmp, "transaction",
			  "actions=[ { type=%s data={ job-id=%s device=%s target=%s sync=%s auto-dismiss=%d } }"
			  " { type=%s data={ node=%s name=%s persistent=%d } }"
			  " { type=%s data={ node=%s name=%s disabled=%d } }"
			  " { type=%s data={ node=%s target=%s bitmaps=[ %s ] } } ]",
			  "blockdev-backup", id, disk, id, "none", false,
			  "block-dirty-bitmap-add", disk, fleece->new, persistent,
			  "block-dirty-bitmap-add", disk, fleece->list, true,
			  "block-dirty-bitmap-merge", disk, fleece->list, fleece->old);
}

static int take_moment(struct rd_fleece *fleece)
{
	int r = rd_failpoint("fleece-ready");

	/* If the answer is lost, it may have. */
	fleece->has_begun = !r;
	if (!r)
		r = transact(fleece, true);
	if (r == -EREMOTEIO)
		r = transact(fleece, false);
	if (r)
		return refused(fleece, r, "begin a copy of the disk as it is now");
	return rd_failpoint("fleece-begun");
}

static int export(struct rd_fleece *fleece)
{
	int r;

	if (fleece->old[0])
		r = rd_qmp_run(fleece->qmp, "block-export-add",
			       "type=%s id=%s node-name=%s name=%s bitmaps=[ %s ]", "nbd",
			       fleece->id, fleece->id, fleece->id, fleece->list);
	else
		r = rd_qmp_run(fleece->qmp, "block-export-add",
			       "type=%s id=%s node-name=%s name=%s", "nbd", fleece->id, fleece->id,
			       fleece->id);
	return r ? refused(fleece, r, "export the disk") : rd_failpoint("fleece-exported");
}

/* --- */

static void name_all(struct rd_fleece *fleece, const struct rd_fleece_options *options)
{
	rd_den_name(fleece->id, options->pool, options->volume);
	rd_den_unique(fleece->new, sizeof(fleece->new), fleece->id);
	snprintf(fleece->list, sizeof(fleece->list), "%s-list", fleece->id);
}

/*
 * The command has died: what is overwritten would be kept until the disk is full of it. Which
 * bitmap is needed the next snapshot knows.
 */
static int clear_away(void *ctx, bool is_alone)
{
	struct rd_fleece *fleece = ctx;
	unsigned int i;
	int r = is_alone ? -EAGAIN : 0;

	fleece->has_server = true;
	for (i = 0; r && i < LATE_TRIES; i++) {
		if (i)
			sleep(1);
		/* QEMU has one connection at a time, and this one may have half an answer. */
		rd_qmp_close(fleece->qmp);
		r = rd_qmp_open(&fleece->qmp, fleece->socket);
		/* It has ended, and all is gone but the files. */
		if (r == -ECONNREFUSED || r == -ENOENT)
			return remove_files(fleece, 0);
		if (!r)
			r = end_reading(fleece);
	}
	return r;
}

/*
 * Before QEMU 9 an export of a disk with an I/O thread ends the whole of QEMU when its client goes
 * without a word, as one does that is killed.
 */
static int check_threads(struct rd_fleece *fleece, const struct rd_fleece_options *options)
{
	char thread[64];
	int r;

	if (options->force || rd_qmp_major(fleece->qmp) >= 9)
		return 0;
	r = rd_qmp_query(fleece->qmp, "query-iothreads");
	if (!r)
		r = ask_one(fleece, "SELECT json_extract(value, '$.id') FROM json_each(?1)", NULL,
			    thread, sizeof(thread));
	/* qemu-storage-daemon has none that a guest's disk is in. */
	if (r <= 0)
		return try(r);
	rd_err(0, "this QEMU has I/O threads: before version 9 it can end, and its guest with it, if this command is killed");
	rd_remedy(RD_REMEDY_RISK_QEMU, NULL, "a QEMU without them is safe");
	return -EPERM;
}

int rd_fleece_begin(struct rd_fleece *fleece, const struct rd_fleece_options *options)
{
	int r;

	memset(fleece, 0, sizeof(*fleece));
	fleece->den.fd = -1;
	fleece->socket = options->socket;
	fleece->guard = (struct rd_guard){
		.end = clear_away,
		.ctx = fleece,
		.limit_ms = -1,
		.drop_fd = options->lock_fd,
	};
	name_all(fleece, options);
	r = rd_qmp_open(&fleece->qmp, options->socket);
	if (!r)
		r = check_threads(fleece, options);
	if (!r)
		r = rd_den_open(&fleece->den, options->dir, fleece->id, rd_qmp_uid(fleece->qmp),
				0700);
	if (!r)
		r = find_node(fleece, options);
	if (!r) {
		find_server(fleece);
		r = end_reading(fleece);
		fleece->has_server = false;
	}
	/* A device has another node while a job of ours is there. */
	if (!r)
		r = find_node(fleece, options);
	if (!r)
		r = remove_bitmap(fleece, fleece->list);
	if (!r)
		r = choose_bitmap(fleece, options);
	if (!r)
		r = make_overlay(fleece);
	if (!r)
		r = start_server(fleece);
	if (!r)
		r = add_overlay(fleece);
	if (!r)
		r = rd_guard_begin(&fleece->guard);
	if (!r)
		r = take_moment(fleece);
	return r ? r : export(fleece);
}

int rd_fleece_check(struct rd_fleece *fleece)
{
	char status[64];
	int r;

	r = rd_qmp_query(fleece->qmp, "query-jobs");
	if (!r)
		r = ask_one(fleece, job_runs, fleece->id, status, sizeof(status));
	if (r > 0)
		return 0;
	if (r)
		return refused(fleece, r, "list its jobs");
	rd_err(0, "QEMU could not keep what the guest has overwritten: is there no space in '%s'?",
	       fleece->den.path);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, NULL);
	return -EIO;
}

void rd_fleece_stop_reading(struct rd_fleece *fleece)
{
	end_export(fleece);
}

int rd_fleece_end(struct rd_fleece *fleece, bool is_made)
{
	int r = 0;

	if (fleece->den.has_lock && fleece->disk[0]) {
		r = end_reading(fleece);
		if (!r && fleece->has_begun && is_made && fleece->old[0])
			r = remove_bitmap(fleece, fleece->old);
		if (!r && fleece->has_begun && !is_made)
			r = remove_bitmap(fleece, fleece->new);
	}
	if (fleece->guard.pid)
		rd_guard_end(&fleece->guard);
	if (r)
		rd_warn("QEMU still has the node '%s' or a bitmap of that name; the next snapshot removes them",
			fleece->id);
	rd_den_close(&fleece->den);
	rd_qmp_close(fleece->qmp);
	return r;
}
