// SPDX-License-Identifier: GPL-2.0
/* Changes of the catalog, as the journal has them. */
#include "base/buffer.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/changes.h"
#include "fuzz.h"

static void check_change(const struct rd_change *change, const char *begin, ssize_t used)
{
	unsigned int i;

	must(change->table < RD_NR_TABLES);
	must(change->nr_values <= RD_CHANGE_VALUES);
	must(change->nr_values == (change->what == RD_CHANGE_PUT ?
				   rd_tables[change->table].nr_columns :
				   rd_tables[change->table].nr_keys));
	for (i = 0; i < change->nr_values; i++) {
		const struct rd_value *value = &change->values[i];
		const char *data = value->data;

		if (value->type == RD_VALUE_TEXT || value->type == RD_VALUE_BLOB)
			must(data >= begin && value->len <= (size_t)(begin + used - data));
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *copy = fuzz_text(data, size);
	struct rd_change change;
	size_t at = 0;

	while (at < size) {
		ssize_t used = rd_change_unpack(&change, rd_tables, RD_NR_TABLES, copy + at,
						size - at);

		if (used < 0)
			break;
		must(used > 0 && (size_t)used <= size - at);
		check_change(&change, copy + at, used);
		at += used;
	}
	free(copy);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rd_buffer seed = { 0 };
	unsigned int table, i;

	(void)argc;
	(void)argv;
	for (table = 0; table < RD_NR_TABLES; table++) {
		rd_buffer_put_u8(&seed, RD_CHANGE_PUT);
		rd_buffer_put_u8(&seed, table);
		for (i = 0; i < rd_tables[table].nr_columns; i++) {
			rd_buffer_put_u8(&seed, i % 3 ? RD_VALUE_NUMBER : RD_VALUE_BLOB);
			rd_buffer_put_varint(&seed, i % 3 ? i * 1000 : 2);
			if (!(i % 3))
				rd_buffer_put(&seed, "xy", 2);
		}
		fuzz_seed(seed.data, seed.len);
	}
	rd_buffer_free(&seed);
	return 0;
}
