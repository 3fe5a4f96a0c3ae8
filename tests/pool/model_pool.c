// SPDX-License-Identifier: GPL-2.0
/*
 * The model's pool: opened, counted, and compared with the model. See model.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/catalog/sql.h"
#include "pool/engine/care/check.h"
#include "pool/engine/journal/rebuild.h"
#include "pool/engine/read/restore.h"
#include "pool/engine/version/session.h"
#include "pool/engine/version/version.h"
#include "model.h"

void copy(const char *from, const char *to)
{
	char command[1200];

	snprintf(command, sizeof(command), "cp -r --sparse=always '%s' '%s'", from, to);
	if (system(command))
		fail("cannot copy");
}

const char *pool_name = "pool";

void open_pool(void)
{
	if (rd_session_open(&pool, path_of(pool_name), RD_POOL_WRITE, "model", 0, NULL))
		fail("cannot open the pool");
	pool->lease_ops = &devices_lease_ops;
}

void close_pool(void)
{
	if (rd_session_close(pool, 0))
		fail("cannot close the pool");
}

int try_rebuild(bool force)
{
	struct rd_rebuild_report report;

	if (rd_session_open(&pool, path_of(pool_name), RD_POOL_REPAIR, "model", 0, NULL))
		fail("the pool cannot be opened for repair");
	return rd_session_close(pool, rd_rebuild_catalog(pool, force, &report));
}

static void print_wrong(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "model: check: %s\n", text);
}

void check_pool(void)
{
	struct rd_check_report report = { .wrong = print_wrong };

	if (rd_check(pool, &report))
		fail("check failed");
	if (report.nr_wrong)
		fail("check found %llu wrong", report.nr_wrong);
}

void check_restore(struct model_volume *volume, const struct model_version *version)
{
	struct rd_restore_options options = { .mode = RD_RESTORE_NEW };
	struct rd_restore_report report = { 0 };
	const char *path = path_of("restored");
	bool delta = below(3) == 0;
	i64 id;

	if (!delta)
		unlink(path);
	else
		options.mode = below(2) ? RD_RESTORE_DELTA : RD_RESTORE_FULL;
	options.fd = open(path, O_RDWR | O_CREAT, 0600);
	if (options.fd < 0 || ftruncate(options.fd, version->size))
		fail("cannot make '%s'", path);
	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, version->number, &options.version))
		fail("%s@%lld is missing", volume->name, version->number);
	if (options.version.tracker[0] != version->epoch ||
	    (options.version.epoch != version->epoch && !rd_version_is_by_list(&options.version)))
		fail("%s@%lld is not of its tracker and epoch", volume->name, version->number);
	if (rd_restore(pool, &options, &report))
		fail("restore of %s@%lld failed", volume->name, version->number);
	if (report.bad.len)
		fail("%s@%lld is damaged", volume->name, version->number);
	if (ftruncate(options.fd, version->size))
		fail("cannot cut '%s'", path);
	close(options.fd);
	rd_buffer_free(&report.bad);
	compare_image(path, volume, version);
}

i64 number(const char *text)
{
	i64 value = 0;

	if (rd_sql_number(pool->sql, &value, text, ""))
		fail("cannot count");
	return value;
}
