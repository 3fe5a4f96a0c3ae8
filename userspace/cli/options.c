// SPDX-License-Identifier: GPL-2.0
/* The options of all commands. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/suggest.h"
#include "cli.h"
#include "keep.h"

/* getopt returns this number and higher ones for options without a letter. */
#define NO_LETTER	256

static const struct option_info {
	const char *name;
	char letter;
	const char *value;	/* the name of the value, for the help */
	const char *help;
} infos[CTL_OPTIONS] = {
	[CTL_OPT_POOL] = { "pool", 'p', "PATH", "the pool (or set REVDEDUP_POOL)" },
	[CTL_OPT_CONFIG] = { "config", 0, "FILE", "settings, instead of revdedup.conf" },
	[CTL_OPT_LOCK_WAIT] = { "lock-wait", 0, "SECONDS", "how long to wait for other commands" },
	[CTL_OPT_JSON] = { "json", 0, NULL, "print JSON, an object on each line" },
	[CTL_OPT_QUIET] = { "quiet", 'q', NULL, "print only errors" },
	[CTL_OPT_VERBOSE] = { "verbose", 'v', NULL, "print more" },
	[CTL_OPT_PROGRESS] = { "progress", 0, "auto|always|never", "show progress" },
	[CTL_OPT_DRY_RUN] = { "dry-run", 'n', NULL, "only print what would be done" },
	[CTL_OPT_YES] = { "yes", 'y', NULL, "do not ask" },
	[CTL_OPT_FORCE] = { "force", 'f', NULL,
			    "proceed despite a conflict or possible loss, see revdedupctl(8)" },
	[CTL_OPT_DATA] = { "data", 0, "DEVICE|FILE", "store the data there" },
	[CTL_OPT_SIZE] = { "size", 0, "SIZE",
			   "size of the data file, which is sparse; or of a stream" },
	[CTL_OPT_RESERVE] = { "reserve", 0, "SIZE", "space kept for deleting from a full pool" },
	[CTL_OPT_COMPRESSION] = { "compression", 0, "none|zstd[:LEVEL]",
				  "how new content is stored" },
	[CTL_OPT_PIECES] = { "pieces", 0, "N|auto",
			     "in how many pieces a segment of the newest version may be" },
	[CTL_OPT_DEDUP] = { "dedup", 0, "reverse|inline",
			    "where a snapshot looks for what the pool has already" },
	[CTL_OPT_VERIFY_HITS] = { "verify-hits", 0, NULL, NULL },
	[CTL_OPT_ISOLATION] = { "isolation", 0, NULL, NULL },
	[CTL_OPT_RESET] = { "reset", 0, NULL, "let the volume do as the pool does" },
	[CTL_OPT_FROM] = { "from", 0, "PATH",
			   "an image, device, URI, FORMAT:FILE or - to read; a pool to get from" },
	[CTL_OPT_CHANGED] = { "changed", 0, "FILE", "a list of changed ranges" },
	[CTL_OPT_QMP] = { "qmp", 0, "SOCKET", "read a disk of the QEMU that speaks QMP there" },
	[CTL_OPT_LIBVIRT] = { "libvirt", 0, NULL, "VOL is DOMAIN or DOMAIN/DISK of libvirt" },
	[CTL_OPT_BITMAP] = { "bitmap", 0, "NAME", "read what this dirty bitmap of QEMU has" },
	[CTL_OPT_NEXT_BITMAP] = { "next-bitmap", 0, "NAME",
				  "the bitmap that the next snapshot reads (the same)" },
	[CTL_OPT_FULL_SCAN] = { "full-scan", 0, NULL, "read everything, whatever has changed" },
	[CTL_OPT_COMMENT] = { "comment", 0, "TEXT", "text stored with the version" },
	[CTL_OPT_TAG] = { "tag", 0, "TAG", "a name for the version" },
	[CTL_OPT_GROUP] = { "group", 0, "NAME",
			    "take versions of all these volumes at one moment, with this tag" },
	[CTL_OPT_TO] = { "to", 0, "TARGET",
			 "a file or block device; a pool to send to" },
	[CTL_OPT_TAR] = { "tar", 0, "FILE", "write a tar of it to FILE, - for stdout" },
	[CTL_OPT_FULL] = { "full", 0, NULL, "write everything, not only what differs" },
	[CTL_OPT_KEEP_LAST] = { "keep-last", 0, "N", "keep the last N versions" },
	[CTL_OPT_KEEP_HOURLY] = { "keep-hourly", 0, "N", "keep one for each of N hours" },
	[CTL_OPT_KEEP_DAILY] = { "keep-daily", 0, "N", "keep one for each of N days" },
	[CTL_OPT_KEEP_WEEKLY] = { "keep-weekly", 0, "N", "keep one for each of N weeks" },
	[CTL_OPT_KEEP_MONTHLY] = { "keep-monthly", 0, "N", "keep one for each of N months" },
	[CTL_OPT_KEEP_YEARLY] = { "keep-yearly", 0, "N", "keep one for each of N years" },
	[CTL_OPT_KEEP_WITHIN] = { "keep-within", 0, "TIME",
				  "keep those within 30d (h, d, w, y) of the newest" },
	[CTL_OPT_KEEP_TAG] = { "keep-tag", 0, "TAG", "keep those with this tag; may be repeated" },
	[CTL_OPT_REMOVE_ALL] = { "unsafe-allow-remove-all", 0, NULL,
				 "prune even if no version would be left" },
	[CTL_OPT_REBUILD_CATALOG] = { "rebuild-catalog", 0, NULL,
				      "make a new catalog from its copy in the pool" },
	[CTL_OPT_ALL] = { "all", 0, NULL,
			  "all volumes that are attached, or in the pool, or all exports" },
	[CTL_OPT_META] = { "meta", 0, "DEVICE", "device for the metadata of the target" },
	[CTL_OPT_COW_SIZE] = { "cow-size", 0, "SIZE", NULL },
	[CTL_OPT_WRITABLE] = { "writable", 0, NULL,
			       "allow writes, and discard them in the end" },
	[CTL_OPT_NO_SNAPSHOT] = { "no-snapshot", 0, NULL,
				  "do not keep the present content as a version" },
	[CTL_OPT_HOOK_TIMEOUT] = { "hook-timeout", 0, "SECONDS", NULL },
	[CTL_OPT_OUTPUT] = { "output", 0, "FILE", "replace FILE as a whole, instead of stdout" },
	[CTL_OPT_HTML] = { "html", 0, "FILE", "write a page to FILE, or to stdout for -" },
	[CTL_OPT_TEXTFILE] = { "textfile", 0, NULL, "write to the file named in revdedup.conf" },
	[CTL_OPT_THINPOOL] = { "thinpool", 0, "POOL", "make it thin, in this pool of the group" },
	[CTL_OPT_NO_HYDRATE] = { "no-hydrate", 0, NULL, "do not copy blocks back from the pool" },
	[CTL_OPT_PARTITION] = { "partition", 0, "N", "mount the file system in partition N" },
	[CTL_OPT_UNIX] = { "unix", 0, "PATH", "the Unix socket to serve" },
	[CTL_OPT_ADDRESS] = { "address", 0, "ADDRESS", "serve TCP, at this address" },
	[CTL_OPT_PORT] = { "port", 0, "PORT", "serve TCP, at this port (10809)" },
	[CTL_OPT_TLS_CERTIFICATES] = { "tls-certificates", 0, "DIR",
				       "use TLS, with these certificates" },
	[CTL_OPT_TLS_PSK] = { "tls-psk", 0, "FILE", "use TLS, with the keys in this file" },
	[CTL_OPT_INSECURE] = { "insecure", 0, NULL, "let any client read that can connect" },
	[CTL_OPT_BACKGROUND] = { "background", 0, NULL, "return when it is ready" },
	[CTL_OPT_RATE] = { "rate", 0, "SIZE", "read and write no more than SIZE a second" },
	[CTL_OPT_TIME] = { "time", 0, "TIME", "end after TIME, such as 30m or 2h" },
	[CTL_OPT_OLDER] = { "older", 0, "N", NULL },
	[CTL_OPT_LEAST_RUN] = { "least-run", 0, "N", NULL },
	[CTL_OPT_TEMP] = { "temp", 0, "DIR", NULL },
	[CTL_OPT_SAMPLE] = { "sample", 0, "N%|SIZE", "read so much; the next one goes on" },
	[CTL_OPT_COPIES] = { "copies", 0, "N%|SIZE|0", NULL },
	[CTL_OPT_COLD] = { "cold", 0, "N", NULL },
	[CTL_OPT_NEWEST] = { "newest", 0, "N", "no more than N versions of each volume" },
	[CTL_OPT_SORT] = { "sort", 0, "time|size|changed|unique", "the greatest last" },
	[CTL_OPT_SINCE] = { "since", 0, "VERSION",
			    "only what is newer; a stream builds on that version" },
	[CTL_OPT_AS] = { "as", 0, "NAME", "the name of the volume in the pool that receives" },
	[CTL_OPT_RSH] = { "rsh", 0, "COMMAND", "connect to HOST by this program (ssh)" },
	[CTL_OPT_SHARE] = { "share", 0, "own|proven|all",
			    "whose content need not be sent, see revdedupctl(8) (proven)" },
	[CTL_OPT_APPEND_ONLY] = { "append-only", 0, NULL, "allow nothing but new versions" },
	[CTL_OPT_READ_ONLY] = { "read-only", 0, NULL, "allow nothing but reading" },
	[CTL_OPT_VOLUMES] = { "volumes", 0, "PATTERN",
			      "allow only these, such as 'web*'; may be repeated" },
	[CTL_OPT_LIMIT] = { "limit", 0, "SIZE", "take no version while the pool holds more" },
	[CTL_OPT_BOOT] = { "boot", 0, NULL, "boot the version for trial, in QEMU" },
	[CTL_OPT_RULE] = { "rule", 0, "RULE",
			   "serial:TEXT, agent or screen[:SECONDS]; may be repeated" },
	[CTL_OPT_MEMORY] = { "memory", 0, "SIZE", "no more memory for the guest (1G)" },
	[CTL_OPT_CPUS] = { "cpus", 0, "N", "no more processors for the guest (1)" },
	[CTL_OPT_FIRMWARE] = { "firmware", 0, "bios|uefi", "what the guest boots by" },
	[CTL_OPT_ACCEL] = { "accel", 0, "auto|kvm|tcg", "by KVM, or emulated (auto)" },
	[CTL_OPT_HELP] = { "help", 'h', NULL, "print this help" },
	[CTL_OPT_VERSION] = { "version", 'V', NULL, "print the version" },
};

/* Options that mean something else to one command. */
static const struct {
	int (*run)(struct ctl *ctl);
	enum ctl_option option;
	struct option_info info;
} others[] = {
	{ cmd_verify, CTL_OPT_VOLUMES,
	  { "volumes", 0, "PATTERN [RULE]", "what --all means, such as 'web*'; may be repeated" } },
	{ cmd_verify, CTL_OPT_TIME,
	  { "time", 0, "TIME", "how long a guest may take to come up (10m)" } },
	{ cmd_verify, CTL_OPT_ALL,
	  { "all", 0, NULL, "the newest version of each volume that --volumes names" } },
	{ cmd_send, CTL_OPT_COMPRESSION,
	  { "compression", 0, "none|zstd[:LEVEL]", "compress all that is sent like this" } },
	{ cmd_files, CTL_OPT_TO, { "to", 0, "DIR", "unpack it in this directory" } },
};

static const struct option_info *info_of(const struct ctl_command *command, enum ctl_option option)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(others); i++)
		if (command && command->run == others[i].run && others[i].option == option)
			return &others[i].info;
	return &infos[option];
}

/* What went, and the sentence that it has for one release. */
static const struct {
	const char *command;		/* NULL: any */
	enum ctl_option option;		/* CTL_OPTIONS: an operand, or a name that is no option */
	const char *name, *now;
} were[] = {
	{ NULL, CTL_OPTIONS, "retry-lock", "'--retry-lock' is '--lock-wait' now" },
	{ NULL, CTL_OPTIONS, "recompress", "'compact --recompress' is 'recompress' now" },
	{ NULL, CTL_OPTIONS, "mode",
	  "'dedup --mode zeros' is 'trim' now, and 'dedup --mode pool' is 'offload'" },
	{ NULL, CTL_OPTIONS, "undo", "'dedup --undo' is 'recall' now" },
	{ NULL, CTL_OPTIONS, "lookups",
	  "'stats --lookups' is 'lookups' of each 'snapshot --json' now" },
	{ NULL, CTL_OPT_COPIES, NULL, "'dedup --copies SHARE' is 'copies SHARE' now" },
	{ "prune", CTL_OPT_DEDUP, NULL, "'prune --dedup' is 'prune', and then 'dedup', now" },
	{ "dedup", CTL_OPT_ALL, NULL, "'dedup --all' is 'trim --all' and 'offload --all' now" },
	{ "dedup", CTL_OPT_COLD, NULL, "'dedup --cold' is 'offload --cold' now" },
	{ "dedup", CTL_OPT_TO, NULL, "'dedup --to' is 'copies --to' now" },
	{ "dedup", CTL_OPTIONS, NULL, "'dedup VOL' is 'trim VOL' or 'offload VOL' now" },
};

/* An option could be cut short. */
static const char *was_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(were); i++)
		if (were[i].name && strlen(name) >= CTL_OLD_MIN &&
		    !strncmp(were[i].name, name, strlen(name)))
			return were[i].now;
	return NULL;
}

const char *ctl_option_now(const struct ctl_command *command, enum ctl_option option)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(were); i++)
		if (!were[i].name && were[i].option == option &&
		    (!were[i].command || !strcmp(were[i].command, command->name)))
			return were[i].now;
	return NULL;
}

bool ctl_is_expert(const struct ctl_command *command, enum ctl_option option)
{
	if (command && command->run == cmd_snapshot && (option == CTL_OPT_COMPRESSION ||
							option == CTL_OPT_PIECES ||
							option == CTL_OPT_DEDUP))
		return true;
	return !info_of(command, option)->help && option != CTL_OPT_COPIES;
}

int ctl_usage(const struct ctl *ctl, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rd_err(0, "%s (try 'revdedupctl help%s%s')", text, ctl->command ? " " : "",
	       ctl->command ? ctl->command->name : "");
	return CTL_USAGE;
}

/* --- parsing */

static void fill_longs(const struct ctl *ctl, struct option longs[CTL_OPTIONS + 1])
{
	unsigned int i;

	memset(longs, 0, (CTL_OPTIONS + 1) * sizeof(*longs));
	for (i = 0; i < CTL_OPTIONS; i++)
		longs[i] = (struct option){
			.name = infos[i].name,
			.has_arg = info_of(ctl->command, i)->value ? required_argument :
				no_argument,
			.val = NO_LETTER + i,
		};
}

enum ctl_option ctl_find_letter(char letter)
{
	unsigned int i;

	for (i = 0; i < CTL_OPTIONS && (!letter || infos[i].letter != letter); i++)
		;
	return i;
}

enum ctl_option ctl_find_option(const char *name, size_t len)
{
	unsigned int i;

	for (i = 0; i < CTL_OPTIONS; i++)
		if (strlen(infos[i].name) == len && !strncmp(infos[i].name, name, len))
			break;
	return i;
}

static enum ctl_option option_of(int c)
{
	return c < NO_LETTER ? ctl_find_letter(c) : (enum ctl_option)(c - NO_LETTER);
}

bool ctl_takes(const struct ctl_command *command, enum ctl_option option)
{
	return option == CTL_OPT_HELP || option == CTL_OPT_VERSION || option == CTL_OPT_YES ||
		command->options >> option & 1;
}

/* Complain about a long option that is unknown, or the beginning of several ones. */
static int complain_long(const struct ctl *ctl, const char *text)
{
	size_t len = strcspn(text + 2, "="), used = 0;
	struct rd_nearest nearest = { 0 };
	char near_text[RD_SUGGEST_TEXT], list[300] = "", name[64];
	unsigned int i, nr = 0;

	snprintf(name, sizeof(name), "%.*s", (int)len, text + 2);
	for (i = 0; i < CTL_OPTIONS; i++) {
		if (ctl->command && !ctl_takes(ctl->command, i))
			continue;
		rd_nearest_add(&nearest, name, infos[i].name);
		if (!len || strncmp(infos[i].name, name, len) || used >= sizeof(list))
			continue;
		used += snprintf(list + used, sizeof(list) - used, "%s--%s", nr++ ? ", " : "",
				 infos[i].name);
		nearest.word = infos[i].name;
	}
	/* One that is the only one for this command may be one of several for all. */
	if (nr > 1)
		return ctl_usage(ctl, "'--%s' is short for more than one option: %s", name, list);
	if (!nr && was_name(name))
		return ctl_usage(ctl, "%s", was_name(name));
	return ctl_usage(ctl, "there is no option '%s'%s", text,
			 rd_nearest_print(near_text, &nearest, "--"));
}

static int complain(const struct ctl *ctl, int c, char *const *argv)
{
	const char *text = argv[optind - 1];

	if (c == ':' && ctl->command && optopt >= NO_LETTER &&
	    ctl_option_now(ctl->command, optopt - NO_LETTER))
		return ctl_usage(ctl, "%s", ctl_option_now(ctl->command, optopt - NO_LETTER));
	if (c == ':')
		return ctl_usage(ctl, "'%s' needs a value", text);
	/* The letter may be one of several behind one dash. */
	if (optopt > 0 && optopt < NO_LETTER)
		return ctl_usage(ctl, "there is no option '-%c'", optopt);
	if (optopt >= NO_LETTER)
		return ctl_usage(ctl, "--%s takes no value", infos[optopt - NO_LETTER].name);
	return complain_long(ctl, text);
}

int ctl_parse(struct ctl *ctl, int argc, char **argv, bool until_operand)
{
	const char *letters = until_operand ? "+:p:nyfqvhV" : ":p:nyfqvhV";
	struct option longs[CTL_OPTIONS + 1];
	int c;

	fill_longs(ctl, longs);
	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (c == '?' || c == ':')
			return complain(ctl, c, argv);
		ctl->given[ctl->nr_given++] = (struct ctl_given){
			.option = option_of(c),
			.value = optarg,
		};
	}
	ctl->first_operand = optind;
	return 0;
}

/* --- values */

const char *ctl_option_name(enum ctl_option option)
{
	return infos[option].name;
}

const char *ctl_option_value_name(const struct ctl_command *command, enum ctl_option option)
{
	return info_of(command, option)->value;
}

const char *ctl_option_help(const struct ctl_command *command, enum ctl_option option)
{
	return info_of(command, option)->help;
}

/* Find an option where it was given last; @typed: by the user, not by the settings. */
static const struct ctl_given *find_given(const struct ctl *ctl, enum ctl_option option, bool typed)
{
	unsigned int i;

	for (i = ctl->nr_given; i--;)
		if (ctl->given[i].option == option && !(typed && ctl->given[i].is_setting))
			return &ctl->given[i];
	return NULL;
}

bool ctl_has(const struct ctl *ctl, enum ctl_option option)
{
	return find_given(ctl, option, false);
}

bool ctl_has_typed(const struct ctl *ctl, enum ctl_option option)
{
	return find_given(ctl, option, true);
}

const char *ctl_value(const struct ctl *ctl, enum ctl_option option)
{
	const struct ctl_given *given = find_given(ctl, option, false);

	return given ? given->value : NULL;
}

int ctl_value_number(const struct ctl *ctl, enum ctl_option option, u64 min, u64 max, u64 *ret)
{
	const char *text = ctl_value(ctl, option);
	u64 value;

	if (!text)
		return 0;
	if (ctl_number_parse(text, max, &value) || value < min)
		return ctl_usage(ctl, "--%s needs a number from %llu to %llu, not '%s'",
				 infos[option].name, min, max, text);
	*ret = value;
	return 0;
}

int ctl_value_size(const struct ctl *ctl, enum ctl_option option, u64 *ret)
{
	const char *text = ctl_value(ctl, option);

	if (text && ctl_size_parse(text, ret))
		return ctl_usage(ctl, "--%s needs a size such as 500M or 10G, not '%s'",
				 infos[option].name, text);
	if (text && option == CTL_OPT_RATE && *ret < CTL_RATE_MIN)
		return ctl_usage(ctl, "--rate must be at least 1M");
	return 0;
}

int ctl_value_pace(const struct ctl *ctl, u64 *ret_rate, u64 *ret_until_us)
{
	const char *text = ctl_value(ctl, CTL_OPT_TIME);
	u64 time = 0;
	int r;

	*ret_rate = 0;
	r = ctl_value_size(ctl, CTL_OPT_RATE, ret_rate);
	if (!r && text && ctl_time_limit_parse(text, &time))
		r = ctl_usage(ctl, "--time needs a time such as 90s, 30m or 2h, not '%s'", text);
	*ret_until_us = time ? rd_now_us() + time : 0;
	return r;
}

bool ctl_ended_early(const struct ctl *ctl, bool out_of_time)
{
	return out_of_time && ctl_has_typed(ctl, CTL_OPT_TIME);
}

/* 0 would stand for the default of libzstd, whatever that is. */
static bool parse_level(const char *text, int *ret)
{
	bool minus = text[0] == '-';
	u64 number;

	if (ctl_number_parse(text + minus, RD_PACK_LEVEL_MAX, &number) || !number)
		return false;
	*ret = minus ? -(int)number : (int)number;
	return *ret >= RD_PACK_LEVEL_MIN;
}

int ctl_value_compression(const struct ctl *ctl, const char *text, struct rd_compression *ret)
{
	int level = RD_PACK_LEVEL;

	*ret = (struct rd_compression){ .codec = DMR_CODEC_RAW };
	if (!text || !strcmp(text, "none"))
		return 0;
	if (!strcmp(text, "zstd") ||
	    (!strncmp(text, "zstd:", 5) && parse_level(text + 5, &level))) {
		*ret = (struct rd_compression){ .codec = DMR_CODEC_ZSTD, .level = level };
		return 0;
	}
	return ctl_usage(ctl, "a compression is none, zstd, or zstd:LEVEL with a level from %d to %d, not '%s'",
			 RD_PACK_LEVEL_MIN, RD_PACK_LEVEL_MAX, text);
}

bool ctl_pieces_are_auto(const struct ctl *ctl)
{
	const char *pieces = ctl_value(ctl, CTL_OPT_PIECES);

	return pieces && !strcmp(pieces, "auto");
}

_Static_assert(CTL_OPT_KEEP_YEARLY - CTL_OPT_KEEP_LAST == CTL_KEEP_YEARLY - CTL_KEEP_LAST,
	       "the counted options are in the order of the rules");

static int check_tags(const struct ctl *ctl)
{
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++)
		if (ctl->given[i].option == CTL_OPT_KEEP_TAG && !ctl_is_tag(ctl->given[i].value))
			return ctl_usage(ctl, "'%s' is not a tag", ctl->given[i].value);
	return 0;
}

int ctl_value_keep(const struct ctl *ctl, struct ctl_keep_policy *ret, bool *ret_any)
{
	const char *within = ctl_value(ctl, CTL_OPT_KEEP_WITHIN);
	unsigned int i;
	int r;

	*ret = (struct ctl_keep_policy){ .now = time(NULL) };
	*ret_any = within || ctl_has(ctl, CTL_OPT_KEEP_TAG);
	for (i = 0; i < CTL_KEEP_COUNTED; i++) {
		u64 count = 0;

		r = ctl_value_number(ctl, CTL_OPT_KEEP_LAST + i, 1, CTL_KEEP_MAX, &count);
		if (r)
			return r;
		ret->counts[i] = count;
		*ret_any |= count;
	}
	if (within && (ctl_duration_parse(within, &ret->within) || !ret->within))
		return ctl_usage(ctl, "--keep-within needs a time such as 12h, 30d, 8w or 1y, not '%s'",
				 within);
	return check_tags(ctl);
}

int ctl_value_rule(const struct ctl *ctl, struct rd_rule_change *ret)
{
	const char *pieces = ctl_value(ctl, CTL_OPT_PIECES), *dedup = ctl_value(ctl, CTL_OPT_DEDUP);
	u64 nr = 0;
	char *end;

	*ret = (struct rd_rule_change){ .has_dedup = dedup };
	if (pieces && !ctl_pieces_are_auto(ctl)) {
		errno = 0;
		nr = strtoull(pieces, &end, 10);
		if (errno || *end || pieces[0] < '1' || pieces[0] > '9' || nr > RD_SEG_BLOCKS)
			return ctl_usage(ctl, "--pieces is auto, or a number from 1 to %d, not '%s'",
					 RD_SEG_BLOCKS, pieces);
	}
	ret->pieces = nr;
	if (dedup && !strcmp(dedup, "inline"))
		ret->dedup = RD_DEDUP_INLINE;
	else if (dedup && strcmp(dedup, "reverse"))
		return ctl_usage(ctl, "--dedup is reverse or inline, not '%s'", dedup);
	return 0;
}

/* --- telling of them */

void ctl_print_options(const struct ctl_command *command)
{
	bool any_expert = false;
	char text[80];
	unsigned int i;

	for (i = 0; i < CTL_OPTIONS; i++) {
		const struct option_info *info = info_of(command, i);

		/* --yes only where it does something. */
		if (!ctl_takes(command, i) || (i == CTL_OPT_YES && !(command->options >> i & 1)))
			continue;
		any_expert |= ctl_is_expert(command, i);
		if (!info->help || ctl_is_expert(command, i))
			continue;
		snprintf(text, sizeof(text), "%c%c%c --%s%s%s", info->letter ? '-' : ' ',
			 info->letter ? info->letter : ' ', info->letter ? ',' : ' ',
			 info->name, info->value ? " " : "", info->value ? info->value : "");
		printf("  %-32s %s\n", text, info->help);
	}
	if (any_expert)
		puts("\nIt has more options, which few need: revdedup-expert(8).");
}
