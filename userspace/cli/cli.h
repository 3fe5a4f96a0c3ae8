/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the commands of revdedupctl share.
 *
 * A command checks its operands and options, opens the pool, calls the layers below and
 * prints. It returns an exit code, or -errno of an error that was printed already, which
 * main() turns into an exit code.
 */
#ifndef CTL_H
#define CTL_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/log.h"
#include "host/volume/attach/stack.h"
#include "pool/catalog/versions.h"
#include "pool/pool.h"
#include "config.h"
#include "names.h"
#include "progress.h"
#include "sizes.h"

/* As in the man page. */
enum ctl_exit {
	CTL_FINE = 0,
	CTL_FAILED = 1,
	CTL_USAGE = 2,
	CTL_PARTLY = 3,
	CTL_DAMAGE = 4,
	CTL_NO_POOL = 10,
	CTL_LOCKED = 11,
	CTL_NO_SPACE = 12,
	CTL_NO_MODULE = 13,
	CTL_INTERRUPTED = 130,
};

enum ctl_option {
	CTL_OPT_DRY_RUN,
	CTL_OPT_YES,
	CTL_OPT_FORCE,
	CTL_OPT_DATA,
	CTL_OPT_SIZE,
	CTL_OPT_RESERVE,
	CTL_OPT_COMPRESSION,
	CTL_OPT_PIECES,
	CTL_OPT_DEDUP,
	CTL_OPT_RESET,
	CTL_OPT_VERIFY_HITS,
	CTL_OPT_ISOLATION,
	CTL_OPT_FROM,
	CTL_OPT_CHANGED,
	CTL_OPT_QMP,
	CTL_OPT_LIBVIRT,
	CTL_OPT_BITMAP,
	CTL_OPT_NEXT_BITMAP,
	CTL_OPT_FULL_SCAN,
	CTL_OPT_COMMENT,
	CTL_OPT_TAG,
	CTL_OPT_GROUP,
	CTL_OPT_TO,
	CTL_OPT_TAR,
	CTL_OPT_FULL,
	CTL_OPT_KEEP_LAST,	/* these six are as in enum ctl_keep_rule */
	CTL_OPT_KEEP_HOURLY,
	CTL_OPT_KEEP_DAILY,
	CTL_OPT_KEEP_WEEKLY,
	CTL_OPT_KEEP_MONTHLY,
	CTL_OPT_KEEP_YEARLY,
	CTL_OPT_KEEP_WITHIN,
	CTL_OPT_KEEP_TAG,
	CTL_OPT_REMOVE_ALL,
	CTL_OPT_REBUILD_CATALOG,
	CTL_OPT_ALL,
	CTL_OPT_META,
	CTL_OPT_COW_SIZE,
	CTL_OPT_WRITABLE,
	CTL_OPT_NO_SNAPSHOT,
	CTL_OPT_HOOK_TIMEOUT,
	CTL_OPT_OUTPUT,
	CTL_OPT_HTML,
	CTL_OPT_TEXTFILE,
	CTL_OPT_THINPOOL,
	CTL_OPT_NO_HYDRATE,
	CTL_OPT_PARTITION,
	CTL_OPT_UNIX,
	CTL_OPT_ADDRESS,
	CTL_OPT_PORT,
	CTL_OPT_TLS_CERTIFICATES,
	CTL_OPT_TLS_PSK,
	CTL_OPT_INSECURE,
	CTL_OPT_BACKGROUND,
	CTL_OPT_RATE,
	CTL_OPT_TIME,
	CTL_OPT_OLDER,
	CTL_OPT_LEAST_RUN,
	CTL_OPT_TEMP,
	CTL_OPT_COPIES,
	CTL_OPT_SAMPLE,
	CTL_OPT_COLD,
	CTL_OPT_NEWEST,
	CTL_OPT_SORT,
	CTL_OPT_SINCE,
	CTL_OPT_AS,
	CTL_OPT_RSH,
	CTL_OPT_SHARE,
	CTL_OPT_APPEND_ONLY,
	CTL_OPT_READ_ONLY,
	CTL_OPT_VOLUMES,
	CTL_OPT_LIMIT,
	CTL_OPT_BOOT,
	CTL_OPT_RULE,
	CTL_OPT_MEMORY,
	CTL_OPT_CPUS,
	CTL_OPT_FIRMWARE,
	CTL_OPT_ACCEL,
	/* Those that most commands have, behind their own. */
	CTL_OPT_POOL,
	CTL_OPT_CONFIG,
	CTL_OPT_LOCK_WAIT,
	CTL_OPT_JSON,
	CTL_OPT_QUIET,
	CTL_OPT_VERBOSE,
	CTL_OPT_PROGRESS,
	CTL_OPT_HELP,
	CTL_OPT_VERSION,
	CTL_OPTIONS,
};

/* A set of options, a bit for each. */
typedef unsigned __int128 ctl_options;

#define CTL_OPTION_BIT(option)	((ctl_options)1 << (option))
_Static_assert(CTL_OPTIONS <= 128, "a bit each");

/* The largest values of options that are settings as well, see config.h. */
#define CTL_LOCK_WAIT_MAX	(30 * 86400)
#define CTL_HOOK_TIMEOUT_MAX	3600
#define CTL_KEEP_MAX		1000000
#define CTL_CPUS_MAX		64
/* So much of a name that is no more says which one is meant. */
#define CTL_OLD_MIN		3
/* The least that --rate and --memory allow. */
#define CTL_RATE_MIN		(1U << 20)
#define CTL_MEMORY_MIN		(16U << 20)

/* 'metrics --textfile' writes here; it is the directory of Debian's node exporter. */
#define CTL_METRICS_FILE	"/var/lib/prometheus/node-exporter/revdedup.prom"

struct ctl;

struct ctl_command {
	const char *name;
	const char *also;		/* another name, or NULL */
	const char *was[2];		/* names that it had, for one release */
	const char *operands;		/* for people */
	const char *help;		/* NULL: it is not for people */
	/* Those that it takes. All take --help and --version, and ignore --yes. */
	ctl_options options;
	int min, max;			/* operands */
	/* Operands may begin with -, so options come before the first one. */
	bool options_first;
	int (*run)(struct ctl *ctl);
};

/* Ends with one without a name. */
extern const struct ctl_command ctl_commands[];

struct ctl_given {
	enum ctl_option option;
	const char *value;		/* NULL: the option takes none */
	bool is_setting;		/* of the configuration, not given by the user */
};

struct ctl {
	const struct ctl_command *command;
	int nr_operands;
	char **operands;
	struct ctl_given *given;	/* options, in order */
	unsigned int nr_given;
	struct ctl_config config;
	int first_operand;		/* its index in what was parsed last */

	bool json;
	bool quiet;
	bool is_missing;		/* it has failed, as what it names does not exist */
	struct ctl_progress progress;
	struct rd_pool *pool;
	struct rd_json out;
};

/* --- options.c */

/*
 * Add the options in @argv to ctl->given, either those before the first operand or all,
 * with the operands moved behind them. Sets ctl->first_operand.
 */
int ctl_parse(struct ctl *ctl, int argc, char **argv, bool until_operand);

/* "pool" */
const char *ctl_option_name(enum ctl_option option);
/* The name of its value, or NULL if it takes none. */
const char *ctl_option_value_name(const struct ctl_command *command, enum ctl_option option);
const char *ctl_option_help(const struct ctl_command *command, enum ctl_option option);
/* Find an option by its name, of which @len bytes count, or by its letter. CTL_OPTIONS: none. */
enum ctl_option ctl_find_option(const char *name, size_t len);
enum ctl_option ctl_find_letter(char letter);
/* Is it left out of the help of @command, for revdedup-expert(8)? */
bool ctl_is_expert(const struct ctl_command *command, enum ctl_option option);
/* What is @option, or an operand (CTL_OPTIONS), of @command now? NULL: what it was. */
const char *ctl_option_now(const struct ctl_command *command, enum ctl_option option);
/* Does @command take the option, or every command? */
bool ctl_takes(const struct ctl_command *command, enum ctl_option option);

bool ctl_has(const struct ctl *ctl, enum ctl_option option);
/* The same, where settings of revdedup.conf do not count. */
bool ctl_has_typed(const struct ctl *ctl, enum ctl_option option);
/* Its last value, or NULL. */
const char *ctl_value(const struct ctl *ctl, enum ctl_option option);

/* Read a value; @ret keeps its value where the option was not given. 0 or CTL_USAGE. */
int ctl_value_number(const struct ctl *ctl, enum ctl_option option, u64 min, u64 max, u64 *ret);
int ctl_value_size(const struct ctl *ctl, enum ctl_option option, u64 *ret);
/* Read a compression; NULL is "none". 0 or CTL_USAGE. */
int ctl_value_compression(const struct ctl *ctl, const char *text, struct rd_compression *ret);

/* Read --rate (0: any) and --time, until when (0: any). 0 or CTL_USAGE. */
int ctl_value_pace(const struct ctl *ctl, u64 *ret_rate, u64 *ret_until_us);
/*
 * Has the work ended before its end in a way that the exit status tells? A limit of the settings
 * is for each night, and reaching it no failure.
 */
bool ctl_ended_early(const struct ctl *ctl, bool out_of_time);

/* Is the number of pieces to be measured? */
bool ctl_pieces_are_auto(const struct ctl *ctl);

/* Read --pieces and --dedup: what is not given, or to be measured, stays as it is. */
int ctl_value_rule(const struct ctl *ctl, struct rd_rule_change *ret);

struct ctl_keep_policy;

/* Read the rules that keep versions, and the time; *@ret_any: there is one. */
int ctl_value_keep(const struct ctl *ctl, struct ctl_keep_policy *ret, bool *ret_any);

/* Print all options that @command takes, one a line with help. */
void ctl_print_options(const struct ctl_command *command);

/* Print what is wrong, and where to read more. Returns CTL_USAGE. */
__attribute__((format(printf, 2, 3)))
int ctl_usage(const struct ctl *ctl, const char *fmt, ...);

/* --- commands.c */

/* Find a command by one of its names, or by the beginning of one name; or NULL. */
const struct ctl_command *ctl_match_command(const char *name);
/* Set ctl->command so. CTL_USAGE, and says what was typed instead of what. */
int ctl_choose_command(struct ctl *ctl, const char *name);
/* Refuse a short form of a command that removes or replaces data: 0 or CTL_USAGE. */
int ctl_check_in_full(const struct ctl *ctl, const char *name);

/* --- common.c */

/* The pool that the user names, NULL: none. */
const char *ctl_pool_path(const struct ctl *ctl);
/* The same as the user has named it: of a pool in RADOS no directory. */
const char *ctl_pool_name(const struct ctl *ctl);
/* Refuse a pool that the kernel cannot read. */
int ctl_require_kernel(const struct ctl *ctl);

int ctl_open(struct ctl *ctl, enum rd_pool_mode mode);
/* The same, of the pool @path rather than the one that the user has named. */
int ctl_open_at(struct ctl *ctl, const char *path, enum rd_pool_mode mode);
/*
 * Close the pool, which a command does only where it goes on without: its end does it as well.
 * Returns @r, or where that is 0 the error of closing.
 */
int ctl_close(struct ctl *ctl, int r);

/* A number that is not known, or that there is not: it is left out. */
#define CTL_UNKNOWN	U64_MAX

/* A line of JSON, an object. */
void ctl_json_begin(struct ctl *ctl, const char *type);
void ctl_json_end(struct ctl *ctl);
/* The same with all members, see rd_json_add(). */
__attribute__((format(printf, 3, 4)))
void ctl_json(struct ctl *ctl, const char *type, const char *fmt, ...);

/* Ask before something is lost, unless --yes was given. 0: go on; else says why not. */
__attribute__((format(printf, 2, 3)))
int ctl_ask(const struct ctl *ctl, const char *fmt, ...);

struct rd_caller;
struct rd_live_options;

/* How long to wait for locks, in ms. 0 or CTL_USAGE. */
int ctl_lock_wait(const struct ctl *ctl, unsigned int *ret_ms);
/* Describe this command, and the pool if it is open, to host/volume/. 0 or CTL_USAGE. */
int ctl_caller(struct ctl *ctl, struct rd_caller *ret);
/* Fill in the options of a live snapshot. 0 or CTL_USAGE. */
int ctl_live_options(const struct ctl *ctl, struct rd_live_options *ret);

/* --- find.c: these say what is wrong */

/* A version, and its name. */
struct ctl_version {
	struct rd_version version;
	char volume[CTL_NAME_MAX + 1];
	char name[CTL_VERSION_TEXT];
};

/* Parse operand @nr as the name of a volume. 0 or CTL_USAGE. */
int ctl_volume_operand(const struct ctl *ctl, int nr, struct ctl_name *ret);
/* Parse it as the name of a version; @or_volume: "vm1" alone is its newest one. */
int ctl_version_operand(const struct ctl *ctl, int nr, bool or_volume, struct ctl_name *ret);

/* The same, where "@gold" fits as well: versions of several volumes. */
int ctl_versions_operand(const struct ctl *ctl, int nr, bool or_volume, struct ctl_name *ret);

/* Append each version that @name means, a struct ctl_version: one, unless it is "@gold". */
int ctl_find_each(struct ctl *ctl, const struct ctl_name *name, struct rd_buffer *ret);
/* Find a version, not CTL_NAME_MOMENT; CTL_NAME_VOLUME: the newest. */
int ctl_find(struct ctl *ctl, const struct ctl_name *name, struct ctl_version *ret);
/*
 * Find what has arrived of a version that is not all there. -ENOENT, without a word: none of that
 * number, or, CTL_NAME_VOLUME, none at all.
 */
int ctl_find_partial(struct ctl *ctl, const struct ctl_name *name, struct ctl_version *ret);
struct rd_lease;

/* Find that of a lease, which may be HELD. -ENOENT, without a word: it is gone. */
int ctl_find_leased(struct ctl *ctl, const struct rd_lease *lease, struct ctl_version *ret);
/* Find the version of operand @nr, which was parsed before. */
int ctl_find_operand(struct ctl *ctl, int nr, struct ctl_version *ret);

/*
 * Find the version of DOMAIN/@what of the same moment as @disk, which is of DOMAIN/DISK: see
 * cmd_snapshot_domain.c. -ENOENT, without a word: there is none.
 */
int ctl_find_beside(struct ctl *ctl, const struct ctl_version *disk, const char *what,
		    struct ctl_version *ret);

/*
 * Read it again after a lock was taken. -ENOENT, and says so: it was deleted
 * meanwhile.
 */
int ctl_find_again(struct ctl *ctl, struct ctl_version *version);

/* Warn if a version that is about to be used is not consistent. */
void ctl_tell_consistency(const struct ctl_version *version);

/* Take a shared lock to read it, which lasts until the pool is closed. */
int ctl_lock_version(struct ctl *ctl, struct ctl_version *version);

/* Find the version of operand 0, lock it so, and warn if it is not consistent. */
int ctl_find_to_read(struct ctl *ctl, struct ctl_version *ret);

/* Is @version dated earlier than the version before it? */
int ctl_clock_went_back(struct ctl *ctl, const struct rd_version *version, bool *ret);

/* Append struct ctl_volume: all of them, or the one with that name. */
struct ctl_volume {
	i64 id;
	char name[CTL_NAME_MAX + 1];
};

int ctl_volumes(struct ctl *ctl, const char *name, struct rd_buffer *ret);

/* Append struct ctl_version, oldest first. */
int ctl_versions(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *ret);

/* Append the tags of a version, each with its zero. */
int ctl_tags(struct ctl *ctl, const struct rd_version *version, struct rd_buffer *ret);

/* --- what several commands print */

struct rd_restore_report;

/* Begin a line of JSON with the name of a version. */
void ctl_json_version_begin(struct ctl *ctl, const struct ctl_version *version);

/* Print its damaged ranges as an array. */
void ctl_json_bad(struct ctl *ctl, const struct rd_restore_report *report);
/* Print a line for each damaged range to stderr, which says what @became of it. */
void ctl_print_bad(const struct ctl_version *version, const struct rd_restore_report *report,
		   const char *became);

/* Count them: ", except 2 damaged ranges (8.0 KiB)", or "". */
#define CTL_EXCEPT_TEXT	80
const char *ctl_bad_print(char text[CTL_EXCEPT_TEXT], const struct rd_restore_report *report);

/* --- damage.c */

struct rd_damage_report;

/* For struct rd_check_report: @ctx is the struct ctl. */
void ctl_print_wrong(void *ctx, const char *text);

/* Note the damaged ranges (struct rd_bad_range) of version @number of a volume. */
void ctl_damage_add(struct rd_buffer *damage, i64 number, const struct rd_buffer *ranges);
/*
 * Print what was noted of @volume on stderr, a line for each range with all versions that have
 * it, and @more behind them, and count the lines down. Returns how many more ranges there are.
 */
u64 ctl_damage_print(const char *volume, struct rd_buffer *damage, const char *more,
		     u64 *lines_left);

/*
 * Print which versions have the damage in @report: a line of JSON each, or up to
 * @max_lines on stderr. A deleted one that something still reads is one of them if it is damaged.
 */
int ctl_tell_damage(struct ctl *ctl, const struct rd_damage_report *report, u64 max_lines,
		    u64 *ret_versions, u64 *ret_damaged);

struct rd_copy_check;

/* Behind damage that was found: what another host has moved meanwhile looks like that. */
void ctl_tell_moved(const struct ctl *ctl);

/* Print what is known of the copies on another disk, if there are any. */
void ctl_tell_copies(struct ctl *ctl, const struct rd_copy_check *copies);

/* --- cmd_delete.c */

/* Does a rule keep @version as it is now? Asked within a transaction of the catalog, too. */
typedef int ctl_keeps(struct ctl *ctl, const struct rd_version *version, bool *ret);

/*
 * Delete all of them, and print so. The pool is open for writing. @keeps: NULL, or leave versions
 * that it keeps or that are protected by now, and those that another command has locked; for
 * one that is locked return CTL_LOCKED in the end.
 */
int ctl_delete(struct ctl *ctl, struct ctl_version *versions, size_t nr, ctl_keeps *keeps);

/* Print what that would free. The pool is open. */
int ctl_delete_dry(struct ctl *ctl, const struct ctl_version *versions, size_t nr);

/* --- cmd_map.c */

/*
 * What makes devices of versions: our module; else, also where it is too old for a version that
 * is compressed, or the pool is in RADOS, the kernel's nbd. Else -ENOPKG, after the lines that do
 * without.
 */
enum ctl_mapper {
	CTL_MAPPER_MODULE,
	CTL_MAPPER_NBD,
};

/* @name: of the version. The pool is not open. */
int ctl_find_mapper(struct ctl *ctl, const struct ctl_name *name, enum ctl_mapper *ret);

/* -EEXIST, after a message: there is a device of nbd with that name. */
int ctl_refuse_nbd(const char *name);

/* A version for nbd, which nbdkit reads from the pool, and not this command. */
struct ctl_nbd_version {
	struct ctl_version version;
	char pool[PATH_MAX];
};

/* Open the pool, find the version of operand 0, prove it, close the pool. */
int ctl_find_for_nbd(struct ctl *ctl, struct ctl_nbd_version *ret);

struct rd_mapped_nbd;

/* Map it as @name. */
int ctl_map_nbd(struct ctl *ctl, const struct ctl_nbd_version *version, const char *name,
		struct rd_mapped_nbd *ret);

/* Remove a device of nbd, by its NAME or path. -ENODEV, without a word: there is none. */
int ctl_unmap_nbd(struct ctl *ctl, const char *name);

/* Print all of them. */
int ctl_print_nbds(struct ctl *ctl);

/* Name the device of a version: "revdedup-vg-vm1@3" and @what. */
int ctl_device_name(const struct ctl_version *version, const char *what,
		    char ret[RD_DM_NAME_MAX]);

/* --- cmd_export.c */

/* Print the exports of this user on this host, but for those that devices read. */
int ctl_print_exports(struct ctl *ctl);

/* Find the version of operand 0, and prove it, as a restore does. The pool is open. */
int ctl_find_proven(struct ctl *ctl, struct ctl_version *version);

/* Free what was deleted meanwhile and is not read any more, where we may do that. */
int ctl_free_space(struct ctl *ctl, const char *pool);

/* Hint at an export of @version ("vm1@3"), and print a line for each of three clients. */
void ctl_tell_export(struct ctl *ctl, const char *version);

/* --- the commands */

int cmd_attach(struct ctl *ctl);
int cmd_detach(struct ctl *ctl);
int cmd_status(struct ctl *ctl);
int cmd_doctor(struct ctl *ctl);
int cmd_metrics(struct ctl *ctl);
int cmd_map(struct ctl *ctl);
int cmd_unmap(struct ctl *ctl);
int cmd_mount(struct ctl *ctl);
int cmd_umount(struct ctl *ctl);
int cmd_export(struct ctl *ctl);
int cmd_files(struct ctl *ctl);
int cmd_find(struct ctl *ctl);
int cmd_unexport(struct ctl *ctl);
int cmd_clone(struct ctl *ctl);
int cmd_rollback(struct ctl *ctl);
int cmd_init(struct ctl *ctl);
int cmd_grow(struct ctl *ctl);
int cmd_take_over(struct ctl *ctl);
int cmd_tune(struct ctl *ctl);
int cmd_snapshot(struct ctl *ctl);
int cmd_list(struct ctl *ctl);
int cmd_show(struct ctl *ctl);
int cmd_stats(struct ctl *ctl);
int cmd_report(struct ctl *ctl);
int cmd_diff(struct ctl *ctl);
int cmd_restore(struct ctl *ctl);
int cmd_dump(struct ctl *ctl);
/* Does 'send' name nothing, so that revdedup.conf says what goes where? */
bool ctl_sends_by_config(const struct ctl *ctl);
int cmd_send(struct ctl *ctl);
int cmd_receive(struct ctl *ctl);
int cmd_serve(struct ctl *ctl);
int cmd_delete(struct ctl *ctl);
int cmd_prune(struct ctl *ctl);
int cmd_protect(struct ctl *ctl);
int cmd_unprotect(struct ctl *ctl);
int cmd_tag(struct ctl *ctl);
int cmd_check(struct ctl *ctl);
int cmd_recompress(struct ctl *ctl);
int cmd_dedup(struct ctl *ctl);
int cmd_copies(struct ctl *ctl);
int cmd_trim(struct ctl *ctl);
int cmd_offload(struct ctl *ctl);
int cmd_recall(struct ctl *ctl);
int cmd_scrub(struct ctl *ctl);
int cmd_verify(struct ctl *ctl);
int cmd_repair(struct ctl *ctl);
int cmd_config(struct ctl *ctl);
int cmd_complete(struct ctl *ctl);
int cmd_help(struct ctl *ctl);
int cmd_version(struct ctl *ctl);

#endif
