// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of revdedupctl: what the layers below print through base/log.h, and which
 * verb or option applies each remedy of base/remedy.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "progress.h"
#include "remedies.h"

/* %s is the object; where there is none, what stands in brackets goes. */
struct text {
	const char *plain;
	const char *about;	/* in other words where there is one; or NULL */
};

#define REBUILD		"repair --rebuild-catalog"

static const struct text texts[RD_REMEDIES] = {
	[RD_REMEDY_WAIT_FOR_LOCK] = { "'--lock-wait SECONDS' waits for it" },
	[RD_REMEDY_TAKE_OVER] = {
		"'revdedupctl take-over' has it at once, and that host cannot write any more" },
	[RD_REMEDY_REPAIR_THERE] = {
		"'revdedupctl repair' there writes it anew, with --force if it says so; if that host is gone, 'revdedupctl take-over --force' goes on without",
	},

	[RD_REMEDY_NAME_POOL] = { "--pool names another" },
	[RD_REMEDY_MAKE_NEW_POOL] = { "then make a new pool with 'revdedupctl init'" },
	[RD_REMEDY_REBUILD_CATALOG] = {
		"'revdedupctl " REBUILD "[ --pool %s]' makes a new catalog from the pool" },
	[RD_REMEDY_RENEW_COPY] = { "'revdedupctl repair' writes a new copy from the catalog" },
	[RD_REMEDY_RECOUNT_FRAMES] = { "'revdedupctl " REBUILD "' recounts the space in use" },
	[RD_REMEDY_REBUILD_SUPERS] = {
		"'revdedupctl repair --force' makes its superblocks from the catalog" },
	[RD_REMEDY_CHOOSE_SIDE] = {
		"'revdedupctl " REBUILD "' continues from the data area, 'revdedupctl repair --force' from the catalog",
	},
	[RD_REMEDY_ACCEPT_OLDER] = {
		"--force makes a catalog from that, and later versions are lost" },
	[RD_REMEDY_ACCEPT_LOSS] = { "--force makes a catalog without that" },
	[RD_REMEDY_SCRUB] = { "'revdedupctl scrub' lists what is damaged" },
	[RD_REMEDY_MAKE_ROOM] = { "'revdedupctl delete' and 'prune' make room at once" },
	[RD_REMEDY_GROW] = {
		"'revdedupctl grow' gives the pool more room, if its device or file system has it",
	},
	[RD_REMEDY_NAME_TEMP] = { "--temp names another directory for temporary files" },
	[RD_REMEDY_NAME_DATA] = { "--data names the file or device to use" },
	[RD_REMEDY_NAME_SIZE] = { "--size gives a new or empty file its size" },
	[RD_REMEDY_USE_ANYWAY] = { "--force uses it anyway", "--force uses '%s' anyway" },
	[RD_REMEDY_OVERWRITE] = { "--force uses it anyway, and what it holds is lost" },
	[RD_REMEDY_WRITE_ANYWAY] = { "--force writes to it anyway" },
	[RD_REMEDY_READ_INSIDE] = {
		"--from FORMAT:FILE reads the disk in it",
		"'--from %s' reads the disk in it" },
	[RD_REMEDY_WRITE_INSIDE] = {
		"--to %s writes to the disk in it, and --force a raw disk over it" },
	[RD_REMEDY_NAME_DISK] = {
		"--from names a node or device, as 'query-block' of QMP prints it" },
	[RD_REMEDY_READ_FILE] = {
		"--from qcow2:FILE reads the file of a disk while the guest does not run" },
	[RD_REMEDY_RISK_QEMU] = { "--force does it anyway" },
	[RD_REMEDY_TAKE_FILE] = { "--force reads the file as it is, byte by byte" },
	[RD_REMEDY_ALLOW_CHANGES] = {
		"--force reads it anyway, and marks the version as not consistent" },
	[RD_REMEDY_FORGET_DEVICE] = {
		"'revdedupctl unmap --force' forgets a device that will not come back",
		"if the device will not come back: 'revdedupctl unmap --force %s'" },
	[RD_REMEDY_TELL_POOL] = { "'revdedupctl unmap --force[ %s]' on that pool frees the space" },

	[RD_REMEDY_LIST_ATTACHED] = { "'revdedupctl status' lists attached volumes" },
	[RD_REMEDY_SEE_STATUS] = { "'revdedupctl status' shows how much is left to copy" },
	[RD_REMEDY_REATTACH] = {
		"'revdedupctl detach' and 'attach' start afresh",
		"'revdedupctl detach %s' and then 'attach' start afresh" },
	[RD_REMEDY_DETACH] = { "'revdedupctl detach[ %s]' releases it" },
	[RD_REMEDY_DETACH_ANYWAY] = { "'revdedupctl detach --force[ %s]' detaches it anyway" },
	[RD_REMEDY_ABANDON] = { "'revdedupctl detach --force[ %s]' discards them" },
	[RD_REMEDY_CLEAR_CLONE] = { "'revdedupctl detach[ %s]' removes what is left of it" },
	[RD_REMEDY_REDO_CLONE] = {
		"'revdedupctl clone' makes it again, 'revdedupctl detach' removes what is left of it",
		"'revdedupctl clone' makes it again, 'revdedupctl detach %s' removes its remains" },
	[RD_REMEDY_ROLL_BACK] = {
		"or use 'revdedupctl rollback'",
		"'revdedupctl rollback %s' takes effect at once" },
	[RD_REMEDY_FINISH_ROLL_BACK] = {
		"once the cause is fixed, 'revdedupctl attach[ %s]' finishes it" },
	[RD_REMEDY_ROLL_BACK_WITHOUT] = {
		"--no-snapshot rolls back without keeping the present content" },
	[RD_REMEDY_SNAPSHOT] = {
		"use 'revdedupctl snapshot' without --from",
		"use 'revdedupctl snapshot %s', without --from" },
	[RD_REMEDY_NAME_META] = {
		"name one with --meta: a small device whose first and last 4 KiB are zeros" },
	[RD_REMEDY_SEND_AS] = {
		"--as NAME gives it another name there, and --force sends it although the disk may be another",
	},
	[RD_REMEDY_RECEIVE_AS] = { "--as NAME receives it under another name" },
	[RD_REMEDY_NAME_ANOTHER_META] = { "name another device with --meta" },
	[RD_REMEDY_MORE_COW] = { "--cow-size gives more room" },
	[RD_REMEDY_LESS_COW] = { "--cow-size asks for less" },
	[RD_REMEDY_THIN_CLONE] = {
		"--thinpool makes a thin one, which takes up only what is written to it" },

	[RD_REMEDY_CLONE_THIN] = {
		"'revdedupctl clone' with --thinpool makes a thin volume of a version" },
	[RD_REMEDY_TRIM] = { "'revdedupctl trim[ %s]' goes on" },
	[RD_REMEDY_REPEAT] = { "the same command goes on" },
	[RD_REMEDY_RECALL] = { "'revdedupctl recall[ %s]' copies them back" },
	[RD_REMEDY_DEDUP_ANYWAY] = { "--force does it anyway" },
	[RD_REMEDY_TAKE_SNAPSHOT] = { "'revdedupctl snapshot[ %s]' makes one" },
	[RD_REMEDY_FINISH_SNAPSHOT] = { "'revdedupctl snapshot[ %s]' cleans up" },

	[RD_REMEDY_RESTORE] = { "'revdedupctl restore' writes a version to a disk" },
	[RD_REMEDY_MAP] = { "'revdedupctl map' makes a device of the version" },
	[RD_REMEDY_UNMAP] = { "'revdedupctl unmap[ %s]' removes it" },
	[RD_REMEDY_UNMOUNT] = { "'revdedupctl umount[ %s]' unmounts it, and removes the device" },
	[RD_REMEDY_NAME_PARTITION] = { "--partition N mounts one of them" },
	[RD_REMEDY_MOUNT_WRITABLE] = { "--writable lets it replay a journal" },

	[RD_REMEDY_USE_TLS] = {
		"--tls-certificates DIR, or --tls-psk FILE, uses TLS; --insecure does without" },
	[RD_REMEDY_NAME_SOCKET] = { "--unix names another path" },
	[RD_REMEDY_UNEXPORT] = { "'revdedupctl unexport[ %s]' ends it" },
};

static struct ctl_progress *progress;

/* --- the error that JSON has */

/* The first one says why the command failed; later ones are what followed from it. */
static struct ctl_message first, *kept;
static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns whether the caller of ctl_keep_messages() has it, so that it is not to be printed. */
static bool keep_first(enum rd_log_kind kind, const char *text)
{
	struct ctl_message *message;
	bool is_kept;

	pthread_mutex_lock(&first_lock);
	is_kept = kept;
	message = is_kept ? kept : &first;
	if (kind == RD_LOG_ERROR && !message->nr++)
		snprintf(message->error, sizeof(message->error), "%s", text);
	if (kind == RD_LOG_HINT && message->nr == 1 && !message->hint[0])
		snprintf(message->hint, sizeof(message->hint), "%s", text);
	pthread_mutex_unlock(&first_lock);
	return is_kept;
}

void ctl_keep_messages(struct ctl_message *to)
{
	pthread_mutex_lock(&first_lock);
	kept = to;
	pthread_mutex_unlock(&first_lock);
}

const char *ctl_first_error(void)
{
	return first.error;
}

const char *ctl_first_hint(void)
{
	return first.hint;
}

void ctl_print_error_json(int exit, bool is_missing)
{
	struct rd_json json = { .out = stdout };

	if (!first.nr)
		return;
	rd_json_add(&json, "{ type=%s error=%s hint=%s missing=%d exit=%u }", "error", first.error,
		    first.hint[0] ? first.hint : NULL, is_missing, exit);
	putchar('\n');
}

/* --- text */

static void print(enum rd_log_kind kind, const char *text)
{
	char line[CTL_MESSAGE_TEXT + 100];

	if (keep_first(kind, text))
		return;
	if (progress)
		ctl_progress_clear(progress);
	snprintf(line, sizeof(line), "revdedupctl: %s%s\n",
		 kind == RD_LOG_WARNING ? "warning: " : "", text);
	fputs(line, stderr);
}

static void write_remedy(char *text, size_t size, enum rd_remedy remedy, const char *object)
{
	const char *about = object ? texts[remedy].about : NULL;
	const char *at = about ? about : texts[remedy].plain;
	size_t len = 0;

	for (; *at && len < size; at++) {
		if (*at == '[' && !object) {
			at = strchr(at, ']');
		} else if (*at == '%') {
			len += snprintf(text + len, size - len, "%s", object);
			at++;
		} else if (*at != '[' && *at != ']') {
			text[len++] = *at;
		}
	}
	text[rd_min(len, size - 1)] = '\0';
}

void ctl_print_messages(struct ctl_progress *over)
{
	static const struct rd_log_printer printer = { .print = print, .remedy = write_remedy };

	progress = over;
	rd_log_to(&printer);
}
