// SPDX-License-Identifier: GPL-2.0
/*
 * A catalog that is damaged: a small one, of which bytes are changed, or that is
 * cut off, is opened, checked and read. Of every second one the pages get checks and
 * entries in the page map as if SQLite had written them so, and what is in them is read.
 * Slow, because SQLite is.
 */
#include <fcntl.h>
#include <linux/crc32c.h>
#include <unistd.h>

#include "pool/catalog/pages.h"
#include "pool/catalog/segments.h"
#include "pool/engine/care/check.h"
#include "pool/engine/read/proof.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/snapshot/snapshot.h"
#include "pool/engine/version/session.h"
#include "fuzz.h"

static char directory[64];
static char catalog_path[96];
static u8 *pristine;
static size_t pristine_len;
static struct rd_area area;

static void read_all(struct rd_sql *sql)
{
	struct rd_resolver *resolver = rd_resolver_new(sql);
	struct rd_seg_fp fp;
	struct rd_map map;
	i64 recipes[4];
	unsigned int i;

	must(resolver);
	if (!rd_segments_read(sql, 1, 2, 0, 4, recipes))
		for (i = 0; i < 4; i++)
			rd_resolve(resolver, recipes[i], &map, &fp);
	rd_resolver_free(resolver);
}

static void prove(struct rd_pool *pool)
{
	struct rd_version version;
	i64 number;

	for (number = 1; number <= 2; number++)
		if (!rd_version_load(pool->sql, 1, number, &version))
			rd_version_prove(pool, &version);
}

/* As vfs.h and pages.h have it. */
static void pass_checks(int fd, size_t len)
{
	u8 page[RD_PAGE_SIZE];
	int pages;
	size_t at;

	must(!rd_pages_open(&pages, catalog_path, true, true));
	for (at = 0; at + sizeof(page) <= len; at += sizeof(page)) {
		__le32 number = cpu_to_le32(at / sizeof(page) + 1), crc;

		must(pread(fd, page, sizeof(page), at) == sizeof(page));
		crc = cpu_to_le32(~crc32c(crc32c(~0U, &number, sizeof(number)), page,
					  RD_PAGE_SIZE - RD_PAGE_CHECK));
		memcpy(page + RD_PAGE_SIZE - RD_PAGE_CHECK, &crc, sizeof(crc));
		must(pwrite(fd, page, sizeof(page), at) == sizeof(page));
		must(!rd_pages_note(pages, page, at));
	}
	close(pages);
}

static void use(void)
{
	struct rd_pool pool = { .path = directory, .lock_fd = -1, .area = area };
	struct rd_check_report report = { .wrong = NULL };

	if (rd_catalog_open(&pool.sql, catalog_path, false))
		return;
	rd_check(&pool, &report);
	read_all(pool.sql);
	prove(&pool);
	rd_sql_close(pool.sql);
}

/* A byte for the checks, two that may cut it off; then three of offset and one of value. */
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	bool pass = fuzz_take(&input, 1) & 1;
	u64 cut = fuzz_take(&input, 2) * 16;
	size_t len = cut && cut < pristine_len ? cut : pristine_len;
	int fd = open(catalog_path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0 && write(fd, pristine, len) == (ssize_t)len);
	while (input.len >= 4) {
		u64 at = fuzz_take(&input, 3) % len;
		u8 byte = fuzz_take(&input, 1);

		must(pwrite(fd, &byte, 1, at) == 1);
	}
	if (pass)
		pass_checks(fd, len);
	close(fd);
	use();
	return 0;
}

static void must_run(const char *format, const char *arg)
{
	char command[256];

	snprintf(command, sizeof(command), format, arg);
	must(!system(command));
}

static void clean_up(void)
{
	must_run("rm -r '%s'", directory);
}

static void make_pool(void)
{
	struct rd_pool_options options = { .size = 64 << 20, .reserve = 4096 };
	struct rd_snapshot_options snapshot = { .volume = "vm1" };
	struct rd_snapshot_report report;
	struct rd_pool *pool;
	char path[96];
	int i;

	must(!rd_pool_create(directory, &options));
	snprintf(path, sizeof(path), "%s/image", directory);
	snapshot.from = path;
	for (i = 0; i < 2; i++) {
		must_run("dd if=/dev/urandom of='%s' bs=4k count=700 conv=notrunc status=none",
			 path);
		must_run("dd if=/dev/urandom of='%s' bs=4k seek=900 count=400 conv=notrunc status=none",
			 i ? "/dev/null" : path);
		must(!rd_session_open(&pool, directory, RD_POOL_WRITE, "snapshot", 0, NULL));
		must(!rd_snapshot(pool, &snapshot, &report));
		must(!rd_session_close(pool, 0));
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[96];
	FILE *file;

	(void)argc;
	(void)argv;
	snprintf(directory, sizeof(directory), "/dev/shm/fuzz-catalog-XXXXXX");
	must(mkdtemp(directory));
	atexit(clean_up);
	make_pool();
	snprintf(catalog_path, sizeof(catalog_path), "%s/catalog.db", directory);
	snprintf(path, sizeof(path), "%s/data", directory);
	must(!rd_area_open(&area, path, false));
	file = fopen(catalog_path, "r");
	must(file && !fseek(file, 0, SEEK_END));
	pristine_len = ftell(file);
	rewind(file);
	pristine = malloc(pristine_len);
	must(pristine && fread(pristine, 1, pristine_len, file) == pristine_len);
	fclose(file);
	fuzz_seed("\1\0\0", 3);
	fuzz_seed("\0\0\0\0\20\5\1\0\100\7\377", 11);
	fuzz_seed("\1\0\0\0\20\5\1\0\100\7\377", 11);
	fuzz_seed("\1\4\0", 3);
	return 0;
}
