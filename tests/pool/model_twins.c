// SPDX-License-Identifier: GPL-2.0
/*
 * A pool with devices, and its twin without. See model.h.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/engine/version/version.h"
#include "model.h"

static const char *const counted[] = {
	"SELECT count(*) FROM version", "SELECT count(*) FROM segment",
	"SELECT count(*) FROM recipe", "SELECT sum(refs) FROM uses",
	"SELECT sum(latest_refs) FROM uses", "SELECT sum(n) FROM recipe_ref", "SELECT sum(n) FROM slot_owner WHERE recipe > 0",
	"SELECT count(*) FROM superseded", "SELECT count(*) FROM queue",
	"SELECT count(*) FROM lease",
};

#define NR_COUNTED (sizeof(counted) / sizeof(*counted))

struct goner {
	struct model_volume *volume;
	unsigned int nr;		/* when those before are gone */
};

static unsigned int choose_goners(struct goner goners[NR_DEVICES])
{
	unsigned int left[NR_VOLUMES], v, i, nr = 0;

	for (v = 0; v < NR_VOLUMES; v++)
		left[v] = volumes[v].nr;
	for (i = 0; i < NR_DEVICES; i++) {
		v = below(NR_VOLUMES);
		if (left[v])
			goners[nr++] = (struct goner){ &volumes[v], below(left[v]--) };
	}
	return nr;
}

static void delete_goner(const struct goner *goner)
{
	if (delete_version(goner->volume, goner->nr))
		fail("delete of one of %s failed", goner->volume->name);
	forget_version(goner->volume, goner->nr);
}

/*
 * What a journal that was full had is queued by the command that began a new one, and
 * given back by the next: which command that was has nothing to do with devices.
 */
static void count_all(i64 counts[NR_COUNTED])
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (rd_free_queue(pool))
			fail("what is queued cannot be given back");
	check_pool();
	for (i = 0; i < NR_COUNTED; i++)
		counts[i] = number(counted[i]);
}

static void delete_in_twin(const struct goner *goners, unsigned int nr, i64 counts[NR_COUNTED])
{
	unsigned int i;

	copy(path_of("pool"), path_of("twin"));
	pool_name = "twin";
	open_pool();
	for (i = 0; i < nr; i++)
		delete_goner(&goners[i]);
	count_all(counts);
	close_pool();
	pool_name = "pool";
}

static void delete_with_devices(const struct goner *goners, unsigned int nr,
				i64 counts[NR_COUNTED])
{
	unsigned int i;

	open_pool();
	for (i = 0; i < nr; i++) {
		if (make_device(&devices->device[i], goners[i].volume, goners[i].nr))
			fail("a device could not come");
		delete_goner(&goners[i]);
		check_devices();
	}
	for (i = 0; i < nr; i++) {
		if (device_drop(&devices->device[i], pool, i % 2))
			fail("a device could not go");
		check_devices();
	}
	count_all(counts);
}

/* What was there @before and is not now. */
static void free_goners(const struct model_volume before[NR_VOLUMES])
{
	unsigned int v, i, j;

	for (v = 0; v < NR_VOLUMES; v++)
		for (i = j = 0; i < before[v].nr; i++) {
			if (j < volumes[v].nr && volumes[v].versions[j] == before[v].versions[i])
				j++;
			else
				free(before[v].versions[i]);
		}
}

/* The same are deleted in one where devices come to read them all, and then go. */
void compare_twins(void)
{
	i64 counts[NR_COUNTED], twin[NR_COUNTED];
	struct model_volume before[NR_VOLUMES];
	struct goner goners[NR_DEVICES];
	unsigned int i, nr = choose_goners(goners);

	close_pool();
	keep_versions = true;
	memcpy(before, volumes, sizeof(before));
	delete_in_twin(goners, nr, twin);
	memcpy(volumes, before, sizeof(before));
	delete_with_devices(goners, nr, counts);
	keep_versions = false;
	for (i = 0; i < NR_COUNTED; i++)
		if (counts[i] != twin[i])
			fail("%s: %lld, and %lld where no device ever was", counted[i], counts[i],
			     twin[i]);
	free_goners(before);
}
