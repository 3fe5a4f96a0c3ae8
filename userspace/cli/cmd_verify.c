// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl verify --boot: boot versions for trial.
 *
 * Each disk is an export of this command (host/volume/map/export.h), whose server throws away
 * what the guest writes. A version of DOMAIN/DISK is booted with the other disks of its moment, in
 * the machine that the definition of that moment says.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/volume/map/export.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/read/random.h"
#include "bootrules.h"
#include "boottest.h"
#include "snapshot.h"

/* A definition is text of some KiB. */
#define XML_MAX		(1U << 20)
#define LINES		10

/* A disk of the machine, in the order of those. */
struct served {
	struct ctl_version version;
	bool is_there;			/* there is a version of it */
	bool is_served;
	struct rd_export export;
};

struct test {
	struct ctl *ctl;
	struct ctl_boot_limits limits;
	struct ctl_version version;	/* the one that was named */
	struct rd_machine machine;
	struct rd_buffer served;	/* struct served each */
	char pool[PATH_MAX];
	struct rd_boot_report report;
};

/* --- the machine */

static int read_version(struct ctl *ctl, const struct ctl_version *version, size_t len,
			struct rd_buffer *ret)
{
	struct rd_disk disk = { .version = version->version, .name = version->name };
	struct rd_random *random;
	u8 *to = rd_buffer_grow(ret, len);
	int r = to ? rd_random_new(&random, ctl->pool) : -ENOMEM;

	if (r)
		return r;
	r = rd_random_prove(random, &disk);
	if (!r)
		r = rd_random_read(random, &disk, to, len, 0);
	rd_random_free(random);
	return r;
}

static struct rd_machine_disk *find_disk(struct rd_machine *machine, const char *target)
{
	struct rd_machine_disk *disk;

	rd_each(disk, &machine->disks)
		if (!strcmp(disk->target, target))
			return disk;
	return NULL;
}

/* A target is part of a volume's name, and is printed. A definition may hold anything. */
static int check_targets(const struct rd_machine *machine, const char *definition)
{
	const struct rd_machine_disk *disk;

	rd_each(disk, &machine->disks)
		if (!ctl_is_volume(disk->target) || strchr(disk->target, '/')) {
			rd_err(0, "%s has a disk whose target is no name of a disk", definition);
			return -EINVAL;
		}
	return 0;
}

/* Of a version whose moment has a definition. -ENOENT, without a word: it has none. */
static int define_machine(struct test *test)
{
	RD_BUFFER struct rd_buffer xml = { 0 };
	const char *slash = strrchr(test->version.volume, '/');
	struct ctl_version definition;
	int r = ctl_find_beside(test->ctl, &test->version, CTL_DEFINITION, &definition);

	if (r)
		return r;
	r = definition.version.size > XML_MAX ?
		rd_err(-EFBIG, "%s is not the definition of a domain", definition.name) :
		read_version(test->ctl, &definition, definition.version.size, &xml);
	if (r == -ENOENT)
		r = rd_err(-EIO, "cannot read %s", definition.name);
	if (!r)
		r = rd_machine_define(&test->machine, (const char *)xml.data, xml.len);
	if (!r)
		r = check_targets(&test->machine, definition.name);
	if (!r && !find_disk(&test->machine, slash + 1)) {
		rd_err(0, "%s has no disk '%s'", definition.name, slash + 1);
		r = -EINVAL;
	}
	if (r == -EINVAL)
		rd_hint("nothing was booted; 'revdedupctl dump %s' prints the definition",
			definition.name);
	return r;
}

static int find_served(struct test *test, const struct rd_machine_disk *disk,
		       struct served *served)
{
	const char *slash = strrchr(test->version.volume, '/');
	int r = 0;

	memset(served, 0, sizeof(*served));
	if (!disk->target[0] || !strcmp(disk->target, slash + 1))
		served->version = test->version;
	else
		r = ctl_find_beside(test->ctl, &test->version, disk->target, &served->version);
	if (r == -ENOENT) {
		rd_warn("%s is booted without the disk '%s', of which there is no version of the same moment",
			test->version.name, disk->target);
		return 0;
	}
	if (!r)
		r = rd_version_prove(test->ctl->pool, &served->version.version);
	served->is_there = !r;
	return r;
}

static int find_all_served(struct test *test)
{
	const struct rd_machine_disk *disk;
	struct served *served;
	int r = 0;

	rd_each(disk, &test->machine.disks) {
		served = (struct served *)rd_buffer_grow(&test->served, sizeof(*served));
		r = r ? r : served ? find_served(test, disk, served) : -ENOMEM;
	}
	return r;
}

static int look_at_disk(struct test *test)
{
	size_t len = rd_min(test->version.version.size, RD_MACHINE_HEAD);
	RD_BUFFER struct rd_buffer head = { 0 };
	int r = read_version(test->ctl, &test->version, len, &head);

	if (!r)
		rd_machine_look(&test->machine, head.data, len);
	return r;
}

/* The pool is open. */
static int find_machine(struct test *test)
{
	int r = define_machine(test);

	if (r == -ENOENT)
		r = rd_machine_plain(&test->machine);
	if (!r && test->limits.firmware != RD_FIRMWARE_AUTO)
		test->machine.firmware = test->limits.firmware;
	if (!r)
		r = look_at_disk(test);
	if (r)
		return r;
	rd_machine_limit(&test->machine, test->limits.memory, test->limits.cpus);
	snprintf(test->pool, sizeof(test->pool), "%s", test->ctl->pool->path);
	ctl_tell_consistency(&test->version);
	return find_all_served(test);
}

/* --- the disks */

static int serve(struct test *test, struct served *served, struct rd_machine_disk *disk)
{
	char own[RD_EXPORT_NAME];
	const struct rd_export_options options = {
		.name = served->version.name,
		.pool = test->pool,
		.writable = true,
		.own = own,
		.stop = test->ctl->progress.progress.stop,
	};
	int r;

	if (!served->is_there)
		return 0;
	snprintf(own, sizeof(own), "%.150s:boot", served->version.name);
	r = rd_export_start(&options, &served->export);
	if (r)
		return r;
	served->is_served = true;
	disk->export = served->version.name;
	disk->fd = rd_export_connect(&served->export);
	return disk->fd < 0 ? disk->fd : 0;
}

static int serve_all(struct test *test)
{
	struct served *served = (struct served *)test->served.data;
	struct rd_machine_disk *disk;
	int r = 0;

	rd_each(disk, &test->machine.disks) {
		r = r ? r : serve(test, served, disk);
		served++;
	}
	return r;
}

static void end_all(struct test *test)
{
	struct rd_machine_disk *disk;
	struct served *served;

	rd_each(disk, &test->machine.disks) {
		if (disk->fd >= 0)
			close(disk->fd);
		disk->fd = -1;
	}
	rd_each(served, &test->served) {
		if (served->is_served)
			rd_export_end(&served->export);
		served->is_served = false;
	}
}

/* --- what came of it */

static int write_result(struct test *test, const struct ctl_version *version)
{
	struct ctl_boot_test result = {
		.uid = version->version.uid,
		.time = time(NULL),
		.passed = test->report.passed,
		.number = version->version.number,
	};

	snprintf(result.volume, sizeof(result.volume), "%s", version->volume);
	snprintf(result.why, sizeof(result.why), "%s", test->report.why);
	return ctl_boot_test_write(test->ctl, &result);
}

static int write_files(struct test *test, const struct ctl_version *version)
{
	const struct rd_boot_report *report = &test->report;
	/* Log and screen are of the disk that was named; those of others are of an earlier test. */
	bool is_named = version->version.id == test->version.version.id;
	const char *log = report->log.len ? (const char *)report->log.data : "";
	u64 uid = version->version.uid;
	int r = ctl_boot_test_put(test->ctl, uid, "log", is_named ? log : NULL, report->log.len);

	if (!r)
		r = ctl_boot_test_put(test->ctl, uid, "png",
				      is_named ? report->screen.data : NULL, report->screen.len);
	return r ? r : write_result(test, version);
}

/* All disks of the machine were tested. */
static int write_all(struct test *test)
{
	struct ctl *ctl = test->ctl;
	struct served *served;
	int r = ctl_open_at(ctl, test->pool, RD_POOL_READ);

	if (r)
		return ctl_close(ctl, r);
	ctl_boot_tests_clear(ctl);
	rd_each(served, &test->served)
		if (!r && served->is_there)
			r = write_files(test, &served->version);
	return ctl_close(ctl, r);
}

static void print_json(struct test *test, const char *log, const char *screen)
{
	const struct rd_boot_report *report = &test->report;

	ctl_json(test->ctl, "boot_test",
		 "version=%s passed=%d why=%s seconds=%llu log=%s screen=%s", test->version.name,
		 report->passed, report->why, report->us / 1000000, log, screen);
}

static void print_text(struct test *test, const char *log, const char *screen)
{
	const struct rd_boot_report *report = &test->report;

	if (report->passed) {
		if (!test->ctl->quiet)
			printf("%s boots: %s (%s)\n", test->version.name, report->why,
			       ctl_duration(report->us / 1000000));
		return;
	}
	rd_err(0, "%s does not boot: %s", test->version.name, report->why);
	if (report->log.len)
		rd_boot_print(stderr, "  ", &report->log, LINES);
	rd_hint("the version is as it was; '%s' has what the guest wrote%s%s%s", log,
		screen ? ", and '" : "", screen ? screen : "", screen ? "' its screen" : "");
}

static int tell(struct test *test)
{
	char log[PATH_MAX + 64], screen[PATH_MAX + 64];
	u64 uid = test->version.version.uid;
	bool has_screen = test->report.screen.len;
	int r = write_all(test);

	if (r)
		rd_hint("'list', 'status' and 'metrics' will not show this test");
	snprintf(log, sizeof(log), "%s/boot/%016llx.log", test->pool, uid);
	snprintf(screen, sizeof(screen), "%s/boot/%016llx.png", test->pool, uid);
	if (test->ctl->json)
		print_json(test, log, has_screen ? screen : NULL);
	else
		print_text(test, log, has_screen ? screen : NULL);
	return r ? r : test->report.passed ? 0 : CTL_FAILED;
}

/* --- one test */

/* Where nbdkit keeps what a client writes. */
static const char *find_overlay(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && dir[0] ? dir : "/var/tmp";
}

static int boot_by(struct test *test, enum rd_boot_accel accel)
{
	struct rd_boot_rule rules[CTL_BOOT_RULES_MAX];
	const struct rd_boot_options options = {
		.machine = &test->machine,
		.rules = rules,
		.nr_rules = ctl_boot_rules(test->ctl, test->version.volume, rules),
		.limit_us = test->limits.time_us,
		.overlay = find_overlay(),
		.accel = accel,
		.stop = test->ctl->progress.progress.stop,
	};
	int r;

	rd_boot_report_free(&test->report);
	r = serve_all(test);
	if (!r)
		r = rd_boot(&options, &test->report);
	end_all(test);
	return r;
}

static int boot(struct test *test)
{
	int r = boot_by(test, test->limits.accel);

	if (r != -EAGAIN)
		return r;
	rd_info("%s is booted once more, emulated, as KVM cannot go on with it",
		test->version.name);
	return boot_by(test, RD_BOOT_ACCEL_TCG);
}

/* The pool is open, and closed behind this. @tested: struct ctl_version of each disk. */
static int test_one(struct test *test, struct rd_buffer *tested)
{
	const struct served *served;
	int r, freed;

	r = ctl_close(test->ctl, find_machine(test));
	if (!r)
		r = boot(test);
	if (!r)
		r = tell(test);
	rd_each(served, &test->served)
		if (served->is_there)
			rd_buffer_put(tested, &served->version, sizeof(served->version));
	freed = test->pool[0] ? ctl_free_space(test->ctl, test->pool) : 0;
	rd_machine_free(&test->machine);
	rd_buffer_free(&test->served);
	rd_boot_report_free(&test->report);
	return r ? r : freed;
}

/* --- which */

static bool is_definition(const char *volume)
{
	const char *slash = strrchr(volume, '/');

	return slash && !strcmp(slash + 1, CTL_DEFINITION);
}

static int find_meant(struct ctl *ctl, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	struct ctl_name name = { .kind = CTL_NAME_VOLUME };
	const struct ctl_volume *volume;
	struct ctl_version version;
	u64 nr = 0;
	int r = ctl_volumes(ctl, NULL, &volumes);

	rd_each(volume, &volumes) {
		if (r || !ctl_boot_is_meant(ctl, volume->name) || is_definition(volume->name))
			continue;
		snprintf(name.volume, sizeof(name.volume), "%s", volume->name);
		r = rd_versions_count_of(ctl->pool->sql, volume->id, &nr);
		/* The first snapshot of it has failed, or all were deleted. */
		if (!r && !nr)
			continue;
		if (!r)
			r = ctl_find(ctl, &name, &version);
		if (!r)
			r = rd_buffer_put(ret, &version, sizeof(version));
	}
	return r;
}

static int find_one(struct ctl *ctl, struct rd_buffer *ret)
{
	struct ctl_version version;
	int r = ctl_find_operand(ctl, 0, &version);

	if (!r && is_definition(version.volume))
		r = ctl_usage(ctl, "'%s' is the definition of a domain: name one of its disks",
			      ctl->operands[0]);
	return r ? r : rd_buffer_put(ret, &version, sizeof(version));
}

static bool is_among(const struct rd_buffer *versions, const struct ctl_version *which)
{
	const struct ctl_version *version;

	rd_each(version, versions)
		if (version->version.id == which->version.id)
			return true;
	return false;
}

/* One that fails keeps no other from its test. Disks of one machine are tested once. */
static int test_all(struct ctl *ctl, const struct ctl_boot_limits *limits,
		    const struct rd_buffer *versions)
{
	RD_BUFFER struct rd_buffer tested = { 0 };
	const struct ctl_version *version;
	int one, r = 0;

	rd_each(version, versions) {
		struct test test = { .ctl = ctl, .limits = *limits, .version = *version };

		if (is_among(&tested, version))
			continue;
		one = ctl_open(ctl, RD_POOL_READ);
		if (!one)
			one = test_one(&test, &tested);
		else
			ctl_close(ctl, one);
		r = r && r != CTL_FAILED ? r : one ? one : r;
		if (one == -EINTR)
			break;
	}
	return r;
}

static int check_options(const struct ctl *ctl)
{
	bool all = ctl_has(ctl, CTL_OPT_ALL);

	if (!ctl_has(ctl, CTL_OPT_BOOT))
		return ctl_usage(ctl, "--boot says what to verify by: a boot for trial; 'scrub' reads versions to find damage");
	if (all == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a volume or a version, or use --all");
	if (!all && ctl_has_typed(ctl, CTL_OPT_VOLUMES))
		return ctl_usage(ctl, "--volumes is for --all");
	if (all && !ctl_has(ctl, CTL_OPT_VOLUMES))
		return ctl_usage(ctl, "nothing says which volumes boot: use --volumes, or let [boot] in '%s' name them",
				 ctl->config.path);
	return 0;
}

/* What commands that were killed have left goes as well. */
static int check_host(void)
{
	RD_BUFFER struct rd_buffer exports = { 0 };
	int r = rd_boot_is_possible();

	if (!r)
		r = rd_export_is_possible();
	if (!r)
		r = rd_exports(&exports);
	return r;
}

int cmd_verify(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_boot_limits limits;
	struct ctl_name name;
	int r = check_options(ctl);

	if (!r)
		r = ctl_boot_limits(ctl, &limits);
	if (!r && ctl->nr_operands)
		r = ctl_version_operand(ctl, 0, true, &name);
	if (!r)
		r = check_host();
	if (r)
		return r;
	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = ctl->nr_operands ? find_one(ctl, &versions) : find_meant(ctl, &versions);
	r = ctl_close(ctl, r);
	if (!r && !versions.len)
		r = rd_err(-ENOENT, "no volume of the pool is named by --volumes or [boot]");
	if (!r && limits.accel == RD_BOOT_ACCEL_AUTO &&
	    !rd_boot_kvm_works(ctl->progress.progress.stop))
		limits.accel = RD_BOOT_ACCEL_TCG;
	if (!r)
		r = test_all(ctl, &limits, &versions);
	return r;
}
