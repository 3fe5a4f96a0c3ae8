// SPDX-License-Identifier: GPL-2.0
/* The settings of revdedup.conf, and 'revdedupctl config', which shows them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ini.h"
#include "base/read_text.h"
#include "base/suggest.h"
#include "host/volume/device/attachment.h"
#include "pool/shard.h"
#include "bootrules.h"
#include "cli.h"

/* More is no file of settings. */
#define SIZE_MAX_TEXT	(1 << 20)

#define OPTION(option)	CTL_OPTION_BIT(CTL_OPT_##option)

enum kind {
	PATH,
	PROGRAM,
	NUMBER,
	BYTES,
	SHARE,		/* of what is stored, or a size */
	LIMIT,		/* a time, of work */
	TIME,
	TAG,		/* may be there more than once */
	POOLS,		/* a pool, and patterns of volumes; the same */
	RULE,		/* when a guest is up; the same */
	BOOTS,		/* a pattern of volumes, and a rule; the same */
	ACCEL,
};

static const struct key {
	const char *section;
	enum ctl_option option;		/* its name is that of the key */
	enum kind kind;
	u64 min, max;
	const char *otherwise;		/* where it is not set */
} keys[] = {
	{ "general", CTL_OPT_POOL, PATH, 0, 0, "-" },
	{ "general", CTL_OPT_LOCK_WAIT, NUMBER, 0, CTL_LOCK_WAIT_MAX, "0" },
	{ "snapshot", CTL_OPT_COW_SIZE, BYTES, 0, 0, "-" },
	{ "snapshot", CTL_OPT_HOOK_TIMEOUT, NUMBER, 1, CTL_HOOK_TIMEOUT_MAX, "60" },
	{ "retention", CTL_OPT_KEEP_LAST, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_HOURLY, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_DAILY, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_WEEKLY, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_MONTHLY, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_YEARLY, NUMBER, 1, CTL_KEEP_MAX, "-" },
	{ "retention", CTL_OPT_KEEP_WITHIN, TIME, 0, 0, "-" },
	{ "retention", CTL_OPT_KEEP_TAG, TAG, 0, 0, "-" },
	{ "dedup", CTL_OPT_COPIES, SHARE, 0, 0, "-" },
	{ "dedup", CTL_OPT_RATE, BYTES, CTL_RATE_MIN, 0, "-" },
	{ "dedup", CTL_OPT_TIME, LIMIT, 0, 0, "-" },
	{ "scrub", CTL_OPT_SAMPLE, SHARE, 0, 0, "-" },
	{ "scrub", CTL_OPT_RATE, BYTES, CTL_RATE_MIN, 0, "-" },
	{ "scrub", CTL_OPT_TIME, LIMIT, 0, 0, "-" },
	{ "send", CTL_OPT_TO, POOLS, 0, 0, "-" },
	{ "send", CTL_OPT_RSH, PROGRAM, 0, 0, "ssh" },
	{ "send", CTL_OPT_RATE, BYTES, CTL_RATE_MIN, 0, "-" },
	{ "report", CTL_OPT_HTML, PATH, 0, 0, "-" },
	{ "boot", CTL_OPT_VOLUMES, BOOTS, 0, 0, "-" },
	{ "boot", CTL_OPT_RULE, RULE, 0, 0, CTL_BOOT_RULES },
	{ "boot", CTL_OPT_TIME, LIMIT, 0, 0, "10m" },
	{ "boot", CTL_OPT_MEMORY, BYTES, CTL_MEMORY_MIN, 0, "1G" },
	{ "boot", CTL_OPT_CPUS, NUMBER, 1, CTL_CPUS_MAX, "1" },
	{ "boot", CTL_OPT_ACCEL, ACCEL, 0, 0, "auto" },
	{ "metrics", CTL_OPT_OUTPUT, PATH, 0, 0, CTL_METRICS_FILE },
};

#define ANY_RULE	(OPTION(KEEP_LAST) | OPTION(KEEP_HOURLY) | OPTION(KEEP_DAILY) |	\
			 OPTION(KEEP_WEEKLY) | OPTION(KEEP_MONTHLY) | OPTION(KEEP_YEARLY) |	\
			 OPTION(KEEP_WITHIN) | OPTION(KEEP_TAG))

struct ctl_setting {
	const struct key *key;
	const char *value;
	unsigned int line;
};

/* --- a line */

static int complain(const struct ctl_config *config, unsigned int line, const char *text)
{
	rd_err(0, "'%s', line %u: %s", config->path, line, text);
	rd_hint("%s; revdedup.conf(5) lists the settings", config->then);
	return CTL_USAGE;
}

static const struct key *find_key(const struct rd_ini *ini)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].section, ini->section) &&
		    !strcmp(ctl_option_name(keys[i].option), ini->key))
			return &keys[i];
	return NULL;
}

/* Say what is wrong with a line that has no key of ours. */
static int refuse_key(const struct ctl_config *config, const struct rd_ini *ini)
{
	struct rd_nearest section = { 0 }, key = { 0 };
	char text[400], more[RD_SUGGEST_TEXT];
	const char *elsewhere = NULL;
	bool has_section = false;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *name = ctl_option_name(keys[i].option);

		rd_nearest_add(&section, ini->section, keys[i].section);
		if (!strcmp(keys[i].section, ini->section)) {
			has_section = true;
			rd_nearest_add(&key, ini->key, name);
		} else if (!elsewhere && !strcmp(ini->key, name)) {
			elsewhere = keys[i].section;
		}
	}
	if (!has_section)
		snprintf(text, sizeof(text), "there is no section '%.100s'%s", ini->section,
			 rd_nearest_print(more, &section, ""));
	else if (elsewhere)
		snprintf(text, sizeof(text), "'%s' belongs to the section '%s'", ini->key,
			 elsewhere);
	else
		snprintf(text, sizeof(text), "section '%s' has no key '%.100s'%s", ini->section,
			 ini->key, rd_nearest_print(more, &key, ""));
	return complain(config, ini->line, text);
}

/* Say what the value has to be; NULL: it is that. */
static const char *check_value(const struct key *key, const char *value, char text[100])
{
	double percent;
	i64 seconds;
	u64 number;

	switch (key->kind) {
	case PATH:
		/* A unit has another working directory than a shell. */
		return value[0] == '/' || (key->option == CTL_OPT_POOL && rd_shard_is_name(value)) ?
			NULL : "a path that begins with '/'";
	case PROGRAM:
		return value[0] ? NULL : "a program";
	case POOLS:
		return value[0] ? NULL :
			"a pool, as of 'send --to', and volumes if not all go there";
	case NUMBER:
		if (!ctl_number_parse(value, key->max, &number) && number >= key->min)
			return NULL;
		snprintf(text, 100, "a number from %llu to %llu", key->min, key->max);
		return text;
	case BYTES:
		if (ctl_size_parse(value, &number))
			return "a size such as 500M or 10G";
		if (number >= key->min)
			return NULL;
		snprintf(text, 100, "at least %lluM", key->min >> 20);
		return text;
	case SHARE:
		return ctl_share_parse(value, &percent, &number) ?
			"a share such as 1% or a size such as 10G" : NULL;
	case LIMIT:
		return ctl_time_limit_parse(value, &number) ?
			"a time such as 90s, 30m or 2h" : NULL;
	case TIME:
		return ctl_duration_parse(value, &seconds) || !seconds ?
			"a time such as 12h, 30d, 8w or 1y" : NULL;
	case TAG:
		return ctl_is_tag(value) ? NULL : "a tag";
	case RULE:
		return ctl_boot_rule_is(value) ? NULL :
			"serial:TEXT, agent, screen or screen:SECONDS";
	case BOOTS:
		return ctl_boot_volumes_are(value) ? NULL :
			"a pattern of volumes, and perhaps a rule as of 'verify --rule'";
	case ACCEL:
		return ctl_boot_accel_is(value) ? NULL : "auto, kvm or tcg";
	}
	return NULL;
}

static bool may_repeat(enum kind kind)
{
	return kind == TAG || kind == POOLS || kind == RULE || kind == BOOTS;
}

static bool is_set(const struct ctl_config *config, const struct key *key)
{
	const struct ctl_setting *setting;

	rd_each(setting, &config->settings)
		if (setting->key == key)
			return true;
	return false;
}

static int add_line(struct ctl_config *config, const struct rd_ini *ini)
{
	struct ctl_setting setting = { .value = ini->value, .line = ini->line };
	char text[400], number[100];
	const char *wanted;

	setting.key = find_key(ini);
	if (!setting.key)
		return refuse_key(config, ini);
	wanted = check_value(setting.key, ini->value, number);
	if (wanted)
		snprintf(text, sizeof(text), "'%s' needs %s, not '%.200s'", ini->key, wanted,
			 ini->value);
	else if (!may_repeat(setting.key->kind) && is_set(config, setting.key))
		snprintf(text, sizeof(text), "'%s' is there twice", ini->key);
	else
		text[0] = '\0';
	if (text[0])
		return complain(config, ini->line, text);
	return rd_buffer_put(&config->settings, &setting, sizeof(setting));
}

/* --- the file */

static int read_file(struct ctl_config *config, bool may_be_missing)
{
	RD_CLOSE int fd = open(config->path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0 && errno == ENOENT && may_be_missing) {
		config->is_missing = true;
		return rd_buffer_put_u8(&config->text, '\0');
	}
	r = fd < 0 ? -errno : rd_read_text(fd, SIZE_MAX_TEXT, &config->text);
	if (!r)
		return 0;
	rd_err(r, "cannot read the settings in '%s'", config->path);
	rd_hint("%s; --config FILE names another file, such as /dev/null", config->then);
	return r;
}

static int parse(struct ctl_config *config)
{
	const char *wrong;
	struct rd_ini ini;
	int r;

	rd_ini_begin(&ini, (char *)config->text.data, config->text.len - 1);
	while ((r = rd_ini_next(&ini, &wrong)) > 0) {
		r = add_line(config, &ini);
		if (r)
			return r;
	}
	return r ? complain(config, ini.line, wrong) : 0;
}

/* --- what of it counts */

/* Which options has the user given? The environment counts as well. */
static ctl_options options_given(const struct ctl *ctl)
{
	ctl_options given = 0;
	unsigned int i;

	for (i = 0; i < ctl->nr_given; i++)
		given |= CTL_OPTION_BIT(ctl->given[i].option);
	if (given & ANY_RULE)
		given |= ANY_RULE;
	/* Even an empty one: it was meant to name another pool. */
	if (getenv("REVDEDUP_POOL"))
		given |= OPTION(POOL);
	/* Settings are for --textfile: without it stdout is meant. */
	if (!(given & OPTION(TEXTFILE)))
		given |= OPTION(OUTPUT);
	return given;
}

/* Options of one name, such as --rate, mean something else to another command. */
static bool is_for(const struct ctl *ctl, const struct key *key)
{
	int (*run)(struct ctl *ctl) = ctl->command->run;

	if (!ctl_takes(ctl->command, key->option))
		return false;
	if (!strcmp(key->section, "boot"))
		return run == cmd_verify;
	if (!strcmp(key->section, "scrub"))
		return run == cmd_scrub;
	if (!strcmp(key->section, "send"))
		return (run == cmd_send || run == cmd_receive) &&
			(key->option != CTL_OPT_TO || ctl_sends_by_config(ctl));
	if (!strcmp(key->section, "dedup"))
		return run == cmd_dedup || run == cmd_copies || run == cmd_trim ||
			run == cmd_offload || run == cmd_recall;
	return true;
}

static int apply(struct ctl *ctl)
{
	size_t nr = ctl->config.settings.len / sizeof(struct ctl_setting);
	const struct ctl_setting *setting;
	ctl_options given = options_given(ctl);
	struct ctl_given *more;

	more = reallocarray(ctl->given, ctl->nr_given + nr + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	ctl->given = more;
	rd_each(setting, &ctl->config.settings)
		if (!(given >> setting->key->option & 1) &&
		    is_for(ctl, setting->key))
			more[ctl->nr_given++] = (struct ctl_given){
				.option = setting->key->option,
				.value = setting->value,
				.is_setting = true,
			};
	return 0;
}

int ctl_config_load(struct ctl *ctl)
{
	const char *path = ctl_value(ctl, CTL_OPT_CONFIG);
	bool goes_on = ctl->command->run == cmd_status || ctl->command->run == cmd_doctor;
	struct ctl_config *config = &ctl->config;
	int r;

	if (!ctl_takes(ctl->command, CTL_OPT_CONFIG))
		return 0;
	config->path = path ? strdup(path) : rd_config_path("revdedup.conf");
	config->then = goes_on ? "no setting counts" : "nothing was done";
	r = config->path ? read_file(config, !path) : -ENOMEM;
	if (!r)
		r = parse(config);
	if (!r)
		return apply(ctl);
	config->error = r;
	return goes_on ? 0 : r;
}

void ctl_config_free(struct ctl_config *config)
{
	free(config->path);
	rd_buffer_free(&config->text);
	rd_buffer_free(&config->settings);
}

/* --- revdedupctl config */

static void print_setting(struct ctl *ctl, const struct key *key, const char *value,
			  const char *from, unsigned int line)
{
	const char *name = ctl_option_name(key->option);

	if (!ctl->json && line) {
		printf("%-10s %-14s %-24s %s, line %u\n", key->section, name, value, from, line);
	} else if (!ctl->json) {
		printf("%-10s %-14s %-24s %s\n", key->section, name, value, from);
	} else {
		ctl_json_begin(ctl, "setting");
		rd_json_add(&ctl->out, "section=%s key=%s value=%s from=%s",
			    key->section, name, strcmp(value, "-") ? value : NULL, from);
		if (line)
			rd_json_u64(&ctl->out, "line", line);
		ctl_json_end(ctl);
	}
}

static void print_key(struct ctl *ctl, const struct key *key)
{
	const struct ctl_setting *setting;
	const char *env = key->option == CTL_OPT_POOL ? getenv("REVDEDUP_POOL") : NULL;
	unsigned int i;
	bool any = false;

	for (i = 0; i < ctl->nr_given; i++)
		if (ctl->given[i].option == key->option && !ctl->given[i].is_setting) {
			print_setting(ctl, key, ctl->given[i].value, "command line", 0);
			return;
		}
	if (env) {
		print_setting(ctl, key, env[0] ? env : "-", "REVDEDUP_POOL", 0);
		return;
	}
	rd_each(setting, &ctl->config.settings) {
		if (setting->key != key)
			continue;
		print_setting(ctl, key, setting->value, ctl->config.path, setting->line);
		any = true;
	}
	if (!any)
		print_setting(ctl, key, key->otherwise, "default", 0);
}

int cmd_config(struct ctl *ctl)
{
	unsigned int i;

	if (ctl->config.is_missing)
		rd_info("there is no '%s'", ctl->config.path);
	if (!ctl->json)
		printf("%-10s %-14s %-24s %s\n", "SECTION", "KEY", "VALUE", "FROM");
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		print_key(ctl, &keys[i]);
	return 0;
}
