// SPDX-License-Identifier: GPL-2.0
/* revdedupctl export and unexport: versions as disks over NBD, by nbdkit. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/volume/map/export.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/version/version.h"
#include "remote.h"

#define NBD_PORT	10809

/* --- what is exported, and how */

static int check_options(const struct ctl *ctl)
{
	bool tcp = ctl_has(ctl, CTL_OPT_ADDRESS) || ctl_has(ctl, CTL_OPT_PORT);
	bool all = ctl_has(ctl, CTL_OPT_ALL);

	if (all == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a version, or use --all");
	if (tcp && ctl_has(ctl, CTL_OPT_UNIX))
		return ctl_usage(ctl, "--unix is a socket of this host, --address and --port are TCP: use one");
	if (!tcp && (ctl_has(ctl, CTL_OPT_TLS_CERTIFICATES) || ctl_has(ctl, CTL_OPT_TLS_PSK)))
		return ctl_usage(ctl, "TLS is for TCP: name an address with --address");
	if (!tcp && ctl_has(ctl, CTL_OPT_INSECURE))
		return ctl_usage(ctl, "--insecure is for TCP: name an address with --address");
	/* nbdkit has one temporary file, whichever export is written to. */
	if (all && (ctl_has(ctl, CTL_OPT_WRITABLE) || ctl_has(ctl, CTL_OPT_FROM)))
		return ctl_usage(ctl, "--writable and --from are for one version: leave out --all");
	return 0;
}

static int read_options(const struct ctl *ctl, struct rd_export_options *options)
{
	u64 port = NBD_PORT;
	int r = ctl_value_number(ctl, CTL_OPT_PORT, 1, 65535, &port);

	if (r)
		return r;
	*options = (struct rd_export_options){
		.socket = ctl_value(ctl, CTL_OPT_UNIX),
		.address = ctl_value(ctl, CTL_OPT_ADDRESS),
		.port = port,
		.tls_certificates = ctl_value(ctl, CTL_OPT_TLS_CERTIFICATES),
		.tls_psk = ctl_value(ctl, CTL_OPT_TLS_PSK),
		.insecure = ctl_has(ctl, CTL_OPT_INSECURE),
		.from = ctl_value(ctl, CTL_OPT_FROM),
		.rsh = ctl_value(ctl, CTL_OPT_RSH),
		.writable = ctl_has(ctl, CTL_OPT_WRITABLE),
		.background = ctl_has(ctl, CTL_OPT_BACKGROUND),
		.stop = ctl->progress.progress.stop,
	};
	if (ctl_has(ctl, CTL_OPT_PORT) && !options->address)
		options->address = "127.0.0.1";
	return 0;
}

int ctl_find_proven(struct ctl *ctl, struct ctl_version *version)
{
	int r = ctl_find_operand(ctl, 0, version);

	if (!r)
		r = ctl_lock_version(ctl, version);
	if (!r)
		r = rd_version_prove(ctl->pool, &version->version);
	if (!r)
		ctl_tell_consistency(version);
	return r;
}

/* --- telling */

/*
 * guestfish knows no scheme with "+unix", and cannot find out the format of a disk that is not
 * a file. For all versions the user puts the name in.
 */
static void print_lines(FILE *out, const struct rd_export *export,
			const struct rd_export_options *options)
{
	const char *name = options->name ? options->name : "VOL@VERSION";

	fprintf(out, "  qemu-img convert '%s' -O qcow2 disk.qcow2\n", export->uri);
	if (options->address) {
		fprintf(out, "  guestfish --ro --format=raw -a '%s'\n", export->uri);
		fprintf(out, "  nbd-client %s %u /dev/nbd0 -N '%s' -readonly\n", options->address,
			options->port, name);
		return;
	}
	fprintf(out, "  guestfish --ro --format=raw -a 'nbd:///%s?socket=%s'\n", name, export->socket);
	fprintf(out, "  nbd-client -unix '%s' /dev/nbd0 -N '%s'%s\n", export->socket, name,
		options->writable ? "" : " -readonly");
}

void ctl_tell_export(struct ctl *ctl, const char *version)
{
	struct rd_export_options options = {
		.name = version,
		.writable = ctl_has(ctl, CTL_OPT_WRITABLE),
	};
	struct rd_export export;

	rd_hint("'revdedupctl export%s %s' serves the version as a disk over NBD, for these and others:",
		options.writable ? " --writable" : "", version);
	if (rd_export_describe(&options, &export))
		return;
	print_lines(stderr, &export, &options);
}

static void print_export(struct ctl *ctl, const struct rd_export *export,
			 const struct rd_export_options *options)
{
	if (ctl->json) {
		ctl_json(ctl, "export", "name=%s uri=%s socket=%s pid=%u", export->name,
			 export->uri, export->socket[0] ? export->socket : NULL, export->pid);
	} else if (!ctl->quiet) {
		printf("exported %s as %s\n", options->name ? options->name : "all versions",
		       export->uri);
		if (options->tls_certificates || options->tls_psk)
			printf("  nbdcopy '%s' disk.img\n", export->uri);
		else
			print_lines(stdout, export, options);
	}
	/* Who reads this may wait for it. */
	fflush(stdout);
}

/* --- export */

int ctl_free_space(struct ctl *ctl, const char *pool)
{
	int r;

	if (access(pool, W_OK))
		return 0;
	/* Which is what a full pool needs. */
	r = ctl_open_at(ctl, pool, RD_POOL_UNHOLD);
	if (!r && ctl->pool->session)
		r = rd_free_queue(ctl->pool);
	return ctl_close(ctl, r);
}

static int export(struct ctl *ctl, const struct rd_export_options *options)
{
	struct rd_export export;
	int r = rd_export_start(options, &export);

	if (r)
		return r;
	print_export(ctl, &export, options);
	if (!options->from && access(export.pool, W_OK)) {
		rd_warn("no version is held, as this user may not write to '%s'", export.pool);
		rd_hint("a version that is deleted while it is read becomes unreadable");
	}
	if (options->background)
		return 0;
	r = rd_export_wait(options, &export);
	return r || options->from ? r : ctl_free_space(ctl, export.pool);
}

static int export_from(struct ctl *ctl, struct rd_export_options *options)
{
	struct ctl_version version;
	int r = ctl_find_elsewhere(ctl, &version);

	options->name = version.name;
	options->asked = ctl->operands[0];
	return r ? r : export(ctl, options);
}

int cmd_export(struct ctl *ctl)
{
	struct rd_export_options options;
	struct ctl_version version;
	char pool[PATH_MAX];
	struct ctl_name name;
	int r = check_options(ctl);

	if (!r)
		r = read_options(ctl, &options);
	if (!r && options.from)
		return export_from(ctl, &options);
	if (!r && ctl->nr_operands)
		r = ctl_version_operand(ctl, 0, true, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (r)
		return r;
	snprintf(pool, sizeof(pool), "%s", ctl->pool->path);
	options.pool = pool;
	if (ctl->nr_operands) {
		r = ctl_find_proven(ctl, &version);
		options.name = version.name;
		options.asked = ctl->operands[0];
	}
	r = ctl_close(ctl, r);
	return r ? r : export(ctl, &options);
}

/* --- status */

static void print_one(struct ctl *ctl, const struct rd_export *export)
{
	if (ctl->json)
		ctl_json(ctl, "export", "name=%s pool=%s uri=%s writable=%d pid=%u", export->name,
			 export->pool, export->uri, export->writable, export->pid);
	else if (!ctl->quiet)
		printf("exported %s of '%s': %s, process %d%s\n", export->name, export->pool,
		       export->uri, (int)export->pid, export->writable ? ", writable" : "");
}

int ctl_print_exports(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_export *export;
	int r = rd_exports(&all);

	rd_each(export, &all)
		if (!r && rd_export_is_asked(export))
			print_one(ctl, export);
	return r;
}

/* --- unexport */

static int end_one(struct ctl *ctl, const struct rd_export *export)
{
	int r = rd_export_stop(export);

	if (r)
		return r;
	if (ctl->json)
		ctl_json(ctl, "unexport", "name=%s", export->name);
	else if (!ctl->quiet)
		printf("ended the export of %s\n", export->name);
	return rd_export_is_here(export) ? ctl_free_space(ctl, export->pool) : 0;
}

/* Its path is noted from the root on, and need not be given like that. */
static bool is_socket_of(const char *path, const struct rd_export *export)
{
	struct stat given, noted;

	return !stat(path, &given) && !stat(export->socket, &noted) && S_ISSOCK(noted.st_mode) &&
		given.st_dev == noted.st_dev && given.st_ino == noted.st_ino;
}

static bool is_meant(const struct ctl *ctl, const struct rd_export *export)
{
	/* A device reads it, which 'unmap' removes first; or a command, which ends it. */
	if (!rd_export_is_asked(export))
		return false;
	return ctl_has(ctl, CTL_OPT_ALL) || !strcmp(ctl->operands[0], export->name) ||
		!strcmp(ctl->operands[0], export->asked) ||
		!strcmp(ctl->operands[0], export->socket) ||
		is_socket_of(ctl->operands[0], export);
}

int cmd_unexport(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_export *export;
	unsigned int nr = 0;
	int r, first = 0;

	if (ctl_has(ctl, CTL_OPT_ALL) == !!ctl->nr_operands)
		return ctl_usage(ctl, "name an export, as VOL@N or by its socket, or use --all");
	r = rd_exports(&all);
	rd_each(export, &all) {
		if (r || !is_meant(ctl, export))
			continue;
		nr++;
		/* One that does not end keeps no other from it. */
		first = first ? first : end_one(ctl, export);
	}
	if (r || nr || ctl_has(ctl, CTL_OPT_ALL))
		return r ? r : first;
	rd_err(0, "'%s' is not exported on this host by this user", ctl->operands[0]);
	rd_hint("nothing was changed; 'revdedupctl status' lists what is exported");
	return CTL_FAILED;
}
