// SPDX-License-Identifier: GPL-2.0
/* A recipe's map: the recipe, its frame, and the blob. */
#include "pool/data/map.h"
#include "fuzz.h"

static void check_place(rd_place place)
{
	enum rd_kind kind = rd_place_kind(place);

	must(kind == RD_ZERO || kind == RD_OWN || kind == RD_REF);
	must(kind != RD_ZERO || !place);
	must(rd_place_id(place) <= RD_PLACE_ID_MAX);
	must(rd_place_slot(place) < RD_SEG_BLOCKS);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	u64 recipe = fuzz_take(&input, 2), frame = fuzz_take(&input, 2);
	static struct rd_map map, again;
	static u8 blob[RD_MAP_MAX], blob_again[RD_MAP_MAX];
	unsigned int i;
	size_t len;
	char *copy = fuzz_text(input.at, input.len);
	int r = rd_map_unpack(&map, recipe, frame, copy, input.len);

	free(copy);
	if (r)
		return 0;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		check_place(map.at[i]);
	len = rd_map_pack(&map, recipe, frame, blob);
	must(len <= RD_MAP_MAX && len <= input.len);
	must(!rd_map_unpack(&again, recipe, frame, blob, len));
	must(!memcmp(&map, &again, sizeof(map)));
	must(rd_map_pack(&again, recipe, frame, blob_again) == len);
	must(!memcmp(blob, blob_again, len));
	return 0;
}

static void seed(const struct rd_map *map)
{
	u8 blob[4 + RD_MAP_MAX] = { 0, 7, 0, 9 };

	fuzz_seed(blob, 4 + rd_map_pack(map, 7, 9, blob + 4));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rd_map map = { { 0 } };
	unsigned int i;

	(void)argc;
	(void)argv;
	seed(&map);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		map.at[i] = rd_place_make(RD_OWN, 9, i);
	seed(&map);
	for (i = 0; i < RD_SEG_BLOCKS; i += 3)
		map.at[i] = rd_place_make(RD_REF, 5 + i, (i * 7) % RD_SEG_BLOCKS);
	for (i = 100; i < 200; i++)
		map.at[i] = rd_place_make(RD_OWN, 3, i - 50);
	seed(&map);
	return 0;
}
