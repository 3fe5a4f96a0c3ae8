// SPDX-License-Identifier: GPL-2.0
/* The catalog's transactions, where an error has made SQLite undo one by itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "pool/catalog/catalog.h"
#include "pool/catalog/sql.h"

static const u8 uuid[16] = "the pool's uuid.";
static char dir[30] = "/tmp/test-sql-XXXXXX";
static struct rd_sql *sql;

static int set_up(void **state)
{
	(void)state;
	return !mkdtemp(dir) || chdir(dir) || rd_catalog_create("catalog.db", uuid, 100, 1) ||
		rd_catalog_open(&sql, "catalog.db", true);
}

static int tear_down(void **state)
{
	char command[60];

	(void)state;
	rd_sql_close(sql);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static int end_test(void **state)
{
	(void)state;
	rd_catalog_end(sql, -EIO);
	return 0;
}

static int put_recipe(const char *text, u8 name)
{
	u8 fp[32] = { name };

	return rd_sql_run(sql, text, "bib", fp, sizeof(fp), (i64)7, fp, sizeof(fp));
}

static int add_recipe(u8 name)
{
	return put_recipe("INSERT INTO recipe(fp, frame, map) VALUES(?, ?, ?)", name);
}

static i64 nr_recipes(void)
{
	i64 nr = -1;

	assert_int_equal(rd_sql_number(sql, &nr, "SELECT count(*) FROM recipe", ""), 0);
	return nr;
}

static void lose_transaction(void)
{
	assert_int_equal(rd_catalog_begin(sql), 0);
	assert_int_equal(add_recipe(1), 0);
	assert_int_equal(put_recipe("INSERT OR ROLLBACK INTO recipe(fp, frame, map) "
				    "VALUES(?, ?, ?)", 1), -EUCLEAN);
}

/* What goes on all the same must not have half of what it wanted. */
static void change_alone(void **state)
{
	(void)state;
	lose_transaction();
	assert_int_equal(add_recipe(2), -EIO);
	assert_int_equal(rd_sql_script(sql, "DELETE FROM recipe; DELETE FROM uses;"), -EIO);
	assert_int_equal(nr_recipes(), 0);
	assert_int_not_equal(rd_catalog_end(sql, 0), 0);
	assert_int_equal(nr_recipes(), 0);
}

static void next_one(void **state)
{
	(void)state;
	lose_transaction();
	assert_int_equal(rd_catalog_end(sql, -EUCLEAN), -EUCLEAN);
	assert_int_equal(rd_catalog_begin(sql), 0);
	assert_int_equal(add_recipe(3), 0);
	assert_int_equal(rd_catalog_end(sql, 0), 0);
	assert_int_equal(nr_recipes(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(change_alone, end_test),
		cmocka_unit_test_teardown(next_one, end_test),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
