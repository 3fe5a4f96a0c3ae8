// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl files: list the files in a version, or get them out.
 *
 * What is got out has its name of the guest, and its directory must not have that yet: nothing is
 * replaced, and no link that was there before is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/sys/untar.h"
#include "guest.h"
#include "replace.h"

struct files {
	struct ctl *ctl;
	struct ctl_nbd_version version;
	struct rd_guest_options guest;
	char path[PATH_MAX];
	const char *name;	/* the last part of it, "" of a root */
	u64 nr;
};

/* --- options */

static int check_path(struct files *files, const char *path)
{
	const char *root = strchr(path, '/');
	size_t len = strlen(path);
	const char *part;

	if (!root || len >= sizeof(files->path) || path[len - 1] == ':')
		return ctl_usage(files->ctl, "PATH is as in the guest, '/etc', or with its device, '/dev/sda1:/etc'");
	for (part = root; part; part = strchr(part, '/')) {
		size_t dots = strspn(++part, ".");

		if ((dots == 1 || dots == 2) && (!part[dots] || part[dots] == '/'))
			return ctl_usage(files->ctl, "PATH must not have '.' or '..' in it");
	}
	/* Of a list a slash in the end means what a link points to. */
	while (files->guest.work == RD_GUEST_TAR && len > 1 && path[len - 1] == '/' &&
	       path[len - 2] != ':')
		len--;
	snprintf(files->path, sizeof(files->path), "%.*s", (int)len, path);
	files->name = strrchr(files->path, '/') + 1;
	files->guest.path = files->path;
	return 0;
}

static int check_options(struct files *files)
{
	struct ctl *ctl = files->ctl;
	const char *to = ctl_value(ctl, CTL_OPT_TO), *tar = ctl_value(ctl, CTL_OPT_TAR);

	if (to && tar)
		return ctl_usage(ctl, "--to unpacks, --tar does not: use one");
	if (to || tar)
		files->guest.work = RD_GUEST_TAR;
	if ((to || tar) && ctl->nr_operands < 2)
		return ctl_usage(ctl, "name the PATH to get out; '/' is all of it");
	if (tar && !strcmp(tar, "-") && ctl->json)
		return ctl_usage(ctl, "stdout is the tar: leave out --json");
	if (tar && !strcmp(tar, "-") && isatty(STDOUT_FILENO))
		return ctl_usage(ctl, "a tar is nothing for a terminal: name a file, or use a pipe");
	return ctl->nr_operands > 1 ? check_path(files, ctl->operands[1]) : 0;
}

/* --- lists */

static void print_system(struct ctl *ctl, const struct rd_guest_record *system)
{
	if (ctl->json) {
		ctl_json(ctl, "file_system", "device=%s file_system=%s label=%s size=%llu",
			 system->text[0], system->text[1], system->text[2], system->size);
		return;
	}
	ctl_print_name(system->text[0]);
	putchar(' ');
	ctl_print_name(system->text[1][0] ? system->text[1] : "unknown");
	if (system->size)
		printf(" %s", ctl_size(system->size));
	if (system->text[2][0]) {
		putchar(' ');
		ctl_print_name(system->text[2]);
	}
	putchar('\n');
}

static void print_file(struct files *files, const struct rd_guest_record *file)
{
	struct ctl *ctl = files->ctl;

	if (ctl->json) {
		bool is_whole = file->text[0][0] == '/';
		char path[2 * PATH_MAX];

		/* Of a directory these are the names in it. */
		snprintf(path, sizeof(path), "%s%s%s", files->path,
			 is_whole || !files->name[0] ? "" : "/", is_whole ? "" : file->text[0]);
		ctl_json_begin(ctl, "file");
		rd_json_add(&ctl->out, "version=%s path=%s", files->version.version.name, path);
		ctl_json_file(ctl, file);
		if (file->text[1][0])
			rd_json_string(&ctl->out, "target", file->text[1]);
		ctl_json_end(ctl);
		return;
	}
	ctl_print_file(file);
	putchar(' ');
	ctl_print_name(file->text[0]);
	if (file->text[1][0]) {
		fputs(" -> ", stdout);
		ctl_print_name(file->text[1]);
	}
	putchar('\n');
}

static int take(void *ctx, const struct rd_guest_record *record)
{
	struct files *files = ctx;

	if (ferror(stdout))
		return -EPIPE;
	files->nr++;
	if (record->kind == RD_GUEST_SYSTEM)
		print_system(files->ctl, record);
	else
		print_file(files, record);
	return 0;
}

static int list(struct files *files)
{
	int r = rd_guest_read(&files->guest);

	if (r < 0 || files->guest.path)
		return r;
	if (!files->nr)
		rd_warn("there is no file system in %s", files->version.version.name);
	else if (!files->ctl->json && !files->ctl->quiet)
		rd_hint("'revdedupctl files %s /' lists the root of what is installed, DEVICE:/ that of one of these",
			files->version.version.name);
	return r;
}

/* --- tar */

static int write_tar(struct files *files, const char *to)
{
	RD_FREE char *tmp = NULL;
	FILE *out;
	int r, r2;

	if (!strcmp(to, "-")) {
		files->guest.out = STDOUT_FILENO;
		return rd_guest_read(&files->guest);
	}
	out = ctl_replace_named(to, &tmp);
	if (!out)
		return rd_err(-errno, "cannot write to '%s'", to);
	files->guest.out = fileno(out);
	r = rd_guest_read(&files->guest);
	if (r < 0) {
		fclose(out);
		if (tmp)
			unlink(tmp);
		return r;
	}
	/* There may be keys and passwords in it. */
	r2 = ctl_replace_end(out, tmp, 0600);
	return r2 ? rd_err(r2, "cannot write to '%s'", to) : r;
}

/* --- to a directory */

static bool is_empty(const char *dir)
{
	RD_DIR DIR *all = opendir(dir);
	const struct dirent *entry;
	bool found = false;

	while (all && (entry = readdir(all)))
		found |= strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	return all && !found;
}

static int check_directory(const struct files *files, const char *dir)
{
	struct stat st;
	char path[2 * PATH_MAX];

	if (stat(dir, &st) || !S_ISDIR(st.st_mode)) {
		rd_err(0, "'%s' is not a directory", dir);
		rd_hint("nothing was read; 'mkdir %s' makes one", dir);
		return CTL_FAILED;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, files->name);
	if (files->name[0] ? lstat(path, &st) && errno == ENOENT : is_empty(dir))
		return 0;
	if (files->name[0])
		rd_err(0, "there is '%s' already", path);
	else
		rd_err(0, "'%s' is not empty", dir);
	rd_hint("nothing was changed; name an empty directory");
	return CTL_FAILED;
}

static int unpack(struct files *files, const char *to)
{
	struct rd_untar untar;
	int r = rd_untar_start(&untar, to), partly;

	if (r)
		return r;
	files->guest.out = untar.fd;
	r = rd_guest_read(&files->guest);
	partly = r > 0 ? r : 0;
	r = rd_untar_end(&untar, files->name, partly ? 0 : r);
	if (r)
		rd_hint(files->name[0] ? "nothing of it is in '%s'" : "not all of it is in '%s'",
			untar.dir);
	else if (geteuid() && !files->ctl->quiet)
		rd_warn("the files are of this user: only root keeps their owners");
	return r ? r : partly;
}

static int get(struct files *files)
{
	struct ctl *ctl = files->ctl;
	const char *to = ctl_value(ctl, CTL_OPT_TO), *tar = ctl_value(ctl, CTL_OPT_TAR);
	int r = to ? unpack(files, to) : write_tar(files, tar);

	if (r < 0)
		return r;
	if (ctl->json)
		ctl_json(ctl, "files", "version=%s path=%s to=%s", files->version.version.name,
			 files->path, to ? to : tar);
	else if (!ctl->quiet && strcmp(to ? to : tar, "-"))
		printf("restored '%s' of %s to '%s'\n", files->path, files->version.version.name,
		       to ? to : tar);
	return r;
}

int cmd_files(struct ctl *ctl)
{
	struct files files = {
		.ctl = ctl,
		.guest = { .take = take, .stop = ctl->progress.progress.stop },
	};
	const char *to = ctl_value(ctl, CTL_OPT_TO);
	struct ctl_name name;
	int r = check_options(&files);

	files.guest.ctx = &files;
	if (!r)
		r = ctl_version_operand(ctl, 0, true, &name);
	if (!r && to)
		r = check_directory(&files, to);
	if (!r)
		r = rd_guest_is_possible();
	if (!r && to)
		r = rd_untar_is_possible();
	if (!r)
		r = ctl_find_for_nbd(ctl, &files.version);
	if (r)
		return r;
	files.guest.pool = files.version.pool;
	files.guest.version = files.version.version.name;
	r = files.guest.work == RD_GUEST_TAR ? get(&files) : list(&files);
	if (r < 0)
		return r;
	return ctl_free_space(ctl, files.version.pool) ? : r ? CTL_PARTLY : 0;
}
