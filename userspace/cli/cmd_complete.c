// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl __complete -- WORD...: print how the last word of a command line may go on, for
 * the scripts of userspace/completion. The words are those after "revdedupctl", up to the
 * cursor.
 *
 * A candidate is a line: a word, and perhaps a tab and a text about it. A line of a tab and
 * "files" says that names of files fit as well. A word that ends in @ goes on.
 *
 * A shell waits for this at each press of a key: no lock is waited for, and what cannot be
 * found out is left out, without a word.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/volume/map/export.h"
#include "host/volume/map/mapped.h"
#include "host/volume/map/mapped_nbd.h"
#include "pool/catalog/leases.h"
#include "cli.h"

/* An answer that takes longer, because a disk does not answer, is no longer wanted. */
#define MAX_SECONDS	10

struct line {
	struct ctl *ctl;
	const char *word;		/* to be completed */
	const char *before;		/* is printed before each candidate: "--pool=" */
	const char *first;		/* operand, or NULL */
	unsigned int nr_operands;	/* before the word */
	enum ctl_option option;		/* whose value the word is, or CTL_OPTIONS */
	bool only_operands;		/* -- was there */
};

static void be_silent(enum rd_log_kind kind, const char *text)
{
	(void)kind;
	(void)text;
}

static void offer(const struct line *line, const char *word, const char *text)
{
	if (strncmp(word, line->word, strlen(line->word)))
		return;
	printf("%s%s%s%s\n", line->before, word, text && text[0] ? "\t" : "", text ? text : "");
}

static void offer_files(void)
{
	puts("\tfiles");
}

/* --- the pool */

static bool open_pool(struct ctl *ctl)
{
	static bool tried;

	if (tried || !ctl->command)
		return ctl->pool;
	tried = true;
	/* Whatever revdedup.conf says. */
	ctl->given[ctl->nr_given++] = (struct ctl_given){ CTL_OPT_LOCK_WAIT, "0", false };
	return !ctl_config_load(ctl) && !ctl_open(ctl, RD_POOL_READ);
}

/* Tabs and line ends of comments would look like the end of a candidate. */
static void offer_version(const struct line *line, const struct ctl_version *version)
{
	char text[sizeof(version->version.comment) + 40], *at;

	snprintf(text, sizeof(text), "%s%s%s", ctl_time(version->version.time),
		 version->version.comment[0] ? "  " : "", version->version.comment);
	for (at = text; *at; at++)
		if ((unsigned char)*at < ' ')
			*at = ' ';
	offer(line, version->name, text);
}

static void offer_tags(const struct line *line, const struct ctl_version *version,
		       const char *before)
{
	RD_BUFFER struct rd_buffer tags = { 0 };
	char word[2 * CTL_NAME_MAX + 2];
	const char *tag;
	size_t at;

	if (ctl_tags(line->ctl, &version->version, &tags))
		tags.len = 0;
	for (at = 0; at < tags.len; at += strlen(tag) + 1) {
		tag = (const char *)tags.data + at;
		snprintf(word, sizeof(word), "%s%s", before, tag);
		offer(line, word, version->name);
	}
}

/* The versions of @volume: newest first, and by their tags. */
static void offer_versions(const struct line *line, const struct ctl_volume *volume)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_version *versions;
	char word[CTL_NAME_MAX + 16];
	size_t nr;

	if (!ctl_versions(line->ctl, volume, &all) && all.len) {
		versions = (const struct ctl_version *)all.data;
		snprintf(word, sizeof(word), "%s@latest", volume->name);
		offer(line, word, NULL);
		snprintf(word, sizeof(word), "%s@", volume->name);
		for (nr = all.len / sizeof(*versions); nr--;) {
			offer_version(line, &versions[nr]);
			offer_tags(line, &versions[nr], word);
		}
	}
}

/* Call @each for the volume @name, or for all. */
static void for_volumes(const struct line *line, const char *name,
			void (*each)(const struct line *line, const struct ctl_volume *volume))
{
	const struct ctl_volume *volume;
	RD_BUFFER struct rd_buffer all = { 0 };

	if (open_pool(line->ctl) && !ctl_volumes(line->ctl, name, &all))
		rd_each(volume, &all)
			each(line, volume);
}

static void offer_volume(const struct line *line, const struct ctl_volume *volume)
{
	offer(line, volume->name, NULL);
}

static void offer_volume_at(const struct line *line, const struct ctl_volume *volume)
{
	char word[CTL_NAME_MAX + 2];

	snprintf(word, sizeof(word), "%s@", volume->name);
	offer(line, word, NULL);
}

static void offer_tags_of(const struct line *line, const struct ctl_volume *volume,
			  const char *before)
{
	const struct ctl_version *version;
	RD_BUFFER struct rd_buffer all = { 0 };

	if (!ctl_versions(line->ctl, volume, &all))
		rd_each(version, &all)
			offer_tags(line, version, before);
}

static void offer_plain_tags(const struct line *line, const struct ctl_volume *volume)
{
	offer_tags_of(line, volume, "");
}

static void offer_signed_tags(const struct line *line, const struct ctl_volume *volume)
{
	offer_tags_of(line, volume, "+");
	offer_tags_of(line, volume, "-");
}

/* The first operand names the volume, if it is there. */
static void with_first_volume(const struct line *line,
			      void (*each)(const struct line *line,
					   const struct ctl_volume *volume))
{
	char name[CTL_NAME_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(line->first ? line->first : "", "@"),
		 line->first ? line->first : "");
	for_volumes(line, name[0] ? name : NULL, each);
}

/* --- this host */

static void offer_attached(const struct line *line)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_attachment *at;

	rd_attachments(&all);
	rd_each(at, &all)
		offer(line, at->volume, "attached");
}

static void offer_exports(const struct line *line)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_export *export;

	rd_exports(&all);
	rd_each(export, &all)
		if (rd_export_is_asked(export))
			offer(line, export->name, export->uri);
}

static void offer_nbds(const struct line *line)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_mapped_nbd *mapped;

	rd_mapped_nbds(&all);
	rd_each(mapped, &all)
		offer(line, mapped->name, "mapped");
}

/* A device that can be written to reads the pool through one below it, "NAME:ro". */
static void offer_mapped(const struct line *line)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_lease *lease;
	char name[RD_DM_NAME_MAX], *below;

	if (!open_pool(line->ctl) || rd_lease_list(line->ctl->pool->sql, NULL, &all))
		all.len = 0;
	rd_each(lease, &all) {
		if (!rd_is_mapped_here(lease->device) || rd_dm_find(lease->device, name))
			continue;
		below = strstr(name, ":ro");
		if (below && !below[3])
			*below = '\0';
		offer(line, name, "mapped");
	}
	offer_nbds(line);
}

/* --- what may be where */

static void offer_commands(const struct line *line)
{
	const struct ctl_command *command;
	bool any = false;

	for (command = ctl_commands; command->name; command++) {
		any |= command->help && !strncmp(command->name, line->word, strlen(line->word));
		if (command->help)
			offer(line, command->name, command->help);
	}
	/* Other names only if they are wanted: they would double the list. */
	for (command = ctl_commands; command->name && !any; command++)
		if (command->also)
			offer(line, command->also, command->help);
}

static void offer_options(const struct line *line)
{
	const struct ctl_command *command = line->ctl->command;
	char word[64];
	unsigned int i;

	for (i = 0; i < CTL_OPTIONS; i++) {
		if (command && (!ctl_takes(command, i) || !ctl_option_help(command, i) ||
				ctl_is_expert(command, i)))
			continue;
		if (!command && i != CTL_OPT_POOL && i != CTL_OPT_HELP && i != CTL_OPT_VERSION)
			continue;
		snprintf(word, sizeof(word), "--%s", ctl_option_name(i));
		offer(line, word, ctl_option_help(command, i));
	}
}

static void offer_compressions(const struct line *line)
{
	offer(line, "none", "as it is");
	offer(line, "zstd", "compressed");
	offer(line, "zstd:3", "smaller, and slower");
}

static void offer_values(const struct line *line)
{
	switch (line->option) {
	case CTL_OPT_PROGRESS:
		offer(line, "auto", NULL);
		offer(line, "always", NULL);
		offer(line, "never", NULL);
		return;
	case CTL_OPT_COMPRESSION:
		offer_compressions(line);
		return;
	case CTL_OPT_PIECES:
		/* A snapshot measures nothing. */
		if (line->ctl->command && line->ctl->command->run != cmd_snapshot)
			offer(line, "auto", "measure how fast the disk is");
		offer(line, "1", "fast to read from any disk");
		offer(line, "512", "store only what changes");
		return;
	case CTL_OPT_DEDUP:
		offer(line, "reverse", "what the version before has at the same place");
		offer(line, "inline", "what the pool has anywhere");
		return;
	case CTL_OPT_SORT:
		offer(line, "time", NULL);
		offer(line, "size", NULL);
		offer(line, "changed", "what the version before had not");
		offer(line, "unique", "what deleting it frees");
		return;
	case CTL_OPT_RULE:
		offer(line, "serial:", "a line of the serial console has this text");
		offer(line, "agent", "the guest's agent answers");
		offer(line, "screen", "the screen stays the same");
		return;
	case CTL_OPT_FIRMWARE:
		offer(line, "bios", NULL);
		offer(line, "uefi", NULL);
		return;
	case CTL_OPT_ACCEL:
		offer(line, "auto", "KVM where it works");
		offer(line, "kvm", NULL);
		offer(line, "tcg", "emulated");
		return;
	case CTL_OPT_KEEP_TAG:
	case CTL_OPT_TAG:
		with_first_volume(line, offer_plain_tags);
		return;
	case CTL_OPT_POOL:
	case CTL_OPT_CONFIG:
	case CTL_OPT_DATA:
	case CTL_OPT_FROM:
	case CTL_OPT_CHANGED:
	case CTL_OPT_TO:
	case CTL_OPT_META:
	case CTL_OPT_OUTPUT:
		offer_files();
		return;
	default:
		return;
	}
}

/*
 * Find the text about operand @nr of a command, as its help has it: "VOL@VERSION", "[VOL]".
 * The last one stands for all that follow if it says so.
 */
static const char *operand_text(const char *operands, unsigned int nr, size_t *ret_len)
{
	while (*operands) {
		*ret_len = strcspn(operands, " ");
		/* Options that the text has are no operands. */
		if (operands[0] == '-' || !strncmp(operands, "[-", 2))
			return "";
		if (!nr || (*ret_len > 3 && !strncmp(operands + *ret_len - 3, "...", 3)))
			return operands;
		operands += *ret_len + (operands[*ret_len] == ' ');
		nr--;
	}
	return "";
}

/* Tags that stand for versions of several volumes: "@gold". */
static void offer_moments(const struct line *line)
{
	RD_ROW struct rd_row *rows = NULL;
	char word[CTL_NAME_MAX + 2];
	const char *tag;

	if (!open_pool(line->ctl) || rd_tags_shared(line->ctl->pool->sql, &rows))
		return;
	while (rd_next_tag(rows, &tag) > 0) {
		snprintf(word, sizeof(word), "@%s", tag);
		offer(line, word, "versions of several volumes");
	}
}

static void offer_names(const struct line *line, bool volumes, bool versions)
{
	const char *at = strchr(line->word, '@');
	char name[CTL_NAME_MAX + 1];

	if (at && versions) {
		snprintf(name, sizeof(name), "%.*s", (int)(at - line->word), line->word);
		for_volumes(line, name, offer_versions);
	}
	if (at)
		return;
	if (volumes)
		for_volumes(line, NULL, offer_volume);
	if (versions)
		for_volumes(line, NULL, offer_volume_at);
}

/* What a command takes that needs no pool, or reads what is not in it yet, is of this host. */
static void offer_volumes(const struct line *line)
{
	const struct ctl_command *command = line->ctl->command;
	bool pool = ctl_takes(command, CTL_OPT_POOL) && command->run != cmd_status &&
		command->run != cmd_offload;

	if (!pool || ctl_takes(command, CTL_OPT_FROM))
		offer_attached(line);
	if (pool)
		offer_names(line, true, false);
}

static void offer_operands(const struct line *line)
{
	const struct ctl_command *command = line->ctl->command;
	size_t len = 0;
	const char *text = operand_text(command->operands, line->nr_operands, &len);
	char what[64];

	snprintf(what, sizeof(what), "%.*s", (int)len, text);
	if (strstr(what, "|@TAG"))
		offer_moments(line);
	if (command->run == cmd_unexport)
		offer_exports(line);
	else if (strstr(what, "VOL@") || strstr(what, "[@"))
		offer_names(line, strstr(what, "[@"), true);
	else if (strstr(what, "VOL") || command->run == cmd_snapshot)
		offer_volumes(line);
	else if (strstr(what, "TAG"))
		with_first_volume(line, offer_signed_tags);
	else if (!strcmp(what, "NAME"))
		offer_mapped(line);
	else if (strstr(what, "COMMAND"))
		offer_commands(line);
	else if (strstr(what, "DIR") || strstr(what, "POOL"))
		offer_files();
	else if (strstr(what, "zstd"))
		offer_compressions(line);
}

/* --- the line */

/* The pool that the line names is the one to look into. */
static void take_value(struct line *line, enum ctl_option option, const char *value)
{
	struct ctl *ctl = line->ctl;

	if (option == CTL_OPT_POOL || option == CTL_OPT_CONFIG)
		ctl->given[ctl->nr_given++] = (struct ctl_given){ option, value, false };
}

/* Read one word before the cursor. */
static void read_option(struct line *line, const char *word)
{
	size_t len = strcspn(word, "=");
	enum ctl_option option = word[1] == '-' ? ctl_find_option(word + 2, len - 2) :
		ctl_find_letter(word[strlen(word) - 1]);

	/* "-pPOOL" is rare, and is not understood. */
	if (!strcmp(word, "--"))
		line->only_operands = true;
	else if (option == CTL_OPTIONS || !ctl_option_value_name(line->ctl->command, option))
		return;
	else if (word[1] == '-' && word[len])
		take_value(line, option, word + len + 1);
	else
		line->option = option;
}

static void read_word(struct line *line, const char *word)
{
	if (line->option != CTL_OPTIONS) {
		take_value(line, line->option, word);
		line->option = CTL_OPTIONS;
	} else if (word[0] == '-' && word[1] && !line->only_operands) {
		read_option(line, word);
	} else if (!line->ctl->command) {
		line->ctl->command = ctl_match_command(word);
		/* The rest is of a command that is not known. */
		if (!line->ctl->command)
			exit(CTL_FINE);
	} else {
		line->first = line->first ? line->first : word;
		line->nr_operands++;
		line->only_operands = line->ctl->command->options_first;
	}
}

/* Split "--pool=PATH" at the cursor. */
static void split_value(struct line *line)
{
	static char before[64];
	size_t len = strcspn(line->word, "=");
	enum ctl_option option;

	if (line->only_operands || strncmp(line->word, "--", 2) || !line->word[len] ||
	    len > sizeof(before) - 2)
		return;
	option = ctl_find_option(line->word + 2, len - 2);
	if (option == CTL_OPTIONS || !ctl_option_value_name(line->ctl->command, option))
		return;
	snprintf(before, sizeof(before), "%.*s=", (int)len, line->word);
	line->before = before;
	line->word += len + 1;
	line->option = option;
}

int cmd_complete(struct ctl *ctl)
{
	static const struct rd_log_printer silent = { .print = be_silent };
	struct line line = { .ctl = ctl, .before = "", .option = CTL_OPTIONS };
	int i;

	rd_log_to(&silent);
	alarm(MAX_SECONDS);
	ctl->command = NULL;
	for (i = 0; i < ctl->nr_operands - 1; i++)
		read_word(&line, ctl->operands[i]);
	line.word = ctl->operands[i];
	split_value(&line);
	if (line.option != CTL_OPTIONS)
		offer_values(&line);
	else if (line.word[0] == '-' && !line.only_operands)
		offer_options(&line);
	else if (!ctl->command)
		offer_commands(&line);
	else
		offer_operands(&line);
	return CTL_FINE;
}
